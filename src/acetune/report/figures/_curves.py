"""Learning curves of chosen trials, coloured by stratum, and where they were stopped."""

from __future__ import annotations

import math

import numpy as np

from acetune.core.errors import StudyError
from acetune.core.formatting import count
from acetune.report.figures import _curve_traces as traces
from acetune.report.figures._curve_traces import Curve
from acetune.report.figures._drawing import Drawing, SmallTable, axis_title, base_layout, nothing
from acetune.report.figures._figure_data import (
    STRATA_ORDER,
    CheckpointRow,
    FigureData,
    Floats,
    Whole,
    limit_text,
)
from acetune.report.figures._look import AXIS, STRATA, Json, limit_line, note
from acetune.report.figures._values import log_axis, number, safe, short, window
from acetune.study.best_checkpoints import measured
from acetune.study.per_trial import NOT_REPORTED
from acetune.study.report_arrays import INVALID, STOP

_MOST = 8  # trials, unless some were asked for
_TITLE = "Learning curves, and where trials stopped"
_HEIGHTS = (250, 150)  # pixels: objective, constraint


def curves(digest: FigureData, trials: list[int] | None = None) -> Drawing:
    """Objective above, constraint below. Without ``trials`` a few that tell something."""
    chosen = chosen_trials(digest) if trials is None else _asked_for(digest, trials)
    drawn = [curve for curve in traces.gathered(digest, chosen) if len(curve.rows)]
    if not drawn:
        why = "No reports yet." if trials is None else "These trials have not reported anything."
        return nothing("curves", _TITLE, why)
    objective = [digest.sign * digest.loss[curve.rows] for curve in drawn]
    ends = [
        float(its[finite[-1]]) for its in objective if len(finite := traces.places_of_numbers(its))
    ]
    late = traces.late_rows(digest, drawn)
    star = digest.answer if any(_holds_answer(digest, curve) for curve in drawn) else None
    ends += [] if star is None else [star.value]
    y = window(np.concatenate(objective), [*ends, *[_best(digest, curve) for curve in drawn]])
    last = max(curve.last_step for curve in drawn)
    first = min(int(digest.view.reports.step[curve.rows[0]]) for curve in drawn)
    log = last > 60 and last >= 20 * min(curve.last_step for curve in drawn)
    data = traces.lines_by_stratum(digest, drawn, objective, y.span, "y")
    data += traces.stop_marks(digest, drawn, objective, y.span)
    checked = digest.sign * digest.checked_loss(late)
    data += traces.late_checks(digest, late, checked, y.span, "y")
    data += [] if star is None else [traces.answer_star(star, star.value, y.span, "y")]
    height = sum(_HEIGHTS) if digest.constrained else _HEIGHTS[0]
    layout = base_layout(height + 90, margin={"b": 66, "r": 14})
    span = traces.step_span(first, last, log)
    layout["xaxis"] |= log_axis(span[0], span[1]) if log else {"range": span}
    layout["xaxis"]["title"] = axis_title("Step")
    layout["yaxis"] |= {"title": axis_title(safe(digest.goals.objective.name, 24))}
    layout["yaxis"]["range"] = y.range
    layout["annotations"] = traces.end_labels(digest, drawn, objective, y, span, _HEIGHTS[0], log)
    if digest.constrained:
        data += _lower_part(digest, drawn, late, star, layout)
    caption = _caption(digest, drawn, trials is None, log)
    alt, table = _alt(digest, drawn), _table(digest, drawn)
    return Drawing("curves", _TITLE, caption, alt, data, layout, table)


def chosen_trials(digest: FigureData) -> dict[int, str]:
    """Trials that tell something, by number, each with the word that says why it was chosen.

    The answer, or the best that fresh data rejected, the nearest miss, the trial with the best
    objective of all if that is not valid, stopped trials of each stratum, and running ones.
    """
    chosen: dict[int, str] = {}
    reports = digest.view.reports

    def take(trial: int, why: str) -> None:
        if len(chosen) < _MOST:
            chosen.setdefault(trial, why)

    if digest.answer is not None:
        take(digest.answer.trial, "holds the answer")
    if digest.rejected is not None:
        take(digest.rejected.trial, "rejected on fresh data")
    for miss in [found for found in digest.nearest_misses if found.trial not in chosen][:1]:
        near = digest.view.goals.keeps(measured(digest.view, miss.row))
        better = "too close to a limit" if near else "just over a limit"
        take(miss.trial, "nearest miss" if digest.answer is None else better)
    if digest.constrained:
        rows = np.flatnonzero(reports.stratum == INVALID)
        loss = digest.checked_loss(rows)
        if np.isfinite(loss).any():
            take(int(reports.trial[rows[loss.argmin()]]), "best but invalid")
    for trial in _with_reports(digest, "running")[-2:]:
        take(trial, "running")
    stops = np.flatnonzero((reports.decision == STOP) & digest.current)
    for stratum, word in STRATA_ORDER:
        rows = stops[reports.stratum[stops] == stratum]
        if len(rows):
            # of middling length: the shortest say little, the longest are the lucky ones
            middle = rows[np.argsort(reports.step[rows], kind="stable")[len(rows) // 2]]
            take(int(reports.trial[middle]), f"stopped, {word}")
    for trial in _with_reports(digest, "finished")[-2:]:
        take(trial, "finished")
    for trial in _with_reports(digest):
        if len(chosen) >= 3:
            break
        take(trial, digest.rows[trial].state)
    return chosen


def _asked_for(digest: FigureData, trials: list[int]) -> dict[int, str]:
    """The trials that were named; they must be there."""
    for trial in trials:
        if trial not in digest.rows:
            last = max(digest.rows, default=0)
            raise StudyError(f"the study has no trial {trial!r}; it has trials 1 to {last}")
    return {trial: digest.rows[trial].state for trial in dict.fromkeys(trials)}


def _with_reports(digest: FigureData, state: str | None = None) -> list[int]:
    """Trials in a state, or all, that have reported."""
    seen = digest.trials.stratum != NOT_REPORTED
    rows = zip(digest.view.trials, seen.tolist(), strict=True)
    return [row.trial for row, has_some in rows if has_some and state in (None, row.state)]


def _holds_answer(digest: FigureData, curve: Curve) -> bool:
    """Whether the answer is a checkpoint of the attempt that is drawn."""
    drawn = curve.trial, digest.rows[curve.trial].attempt
    return digest.answer is not None and (digest.answer.trial, digest.answer.attempt) == drawn


def _best(digest: FigureData, curve: Curve) -> float:
    """The best objective of a trial, or NaN."""
    loss = float(digest.loss[curve.rows].min())
    return digest.sign * loss if math.isfinite(loss) else math.nan


def _lower(digest: FigureData, rows: Whole) -> Floats:
    """What the lower part shows: the one constraint, or the violation of several."""
    if len(digest.goals.constraints) == 1:
        return digest.values(rows, 0)
    violation = digest.view.reports.violation[rows]
    return np.where(np.isfinite(violation), violation, np.nan)


def _lower_part(
    digest: FigureData, drawn: list[Curve], late: Whole, star: CheckpointRow | None, layout: Json
) -> list[Json]:
    """The constraint below the objective, on the same steps."""
    values = [_lower(digest, curve.rows) for curve in drawn]
    later = _lower(digest, late)
    constraints = digest.goals.constraints
    one = len(constraints) == 1
    limit = constraints[0].limit if one else 0.0
    at_star = [] if star is None else _lower(digest, np.array([star.row])).tolist()
    view = window(np.concatenate([*values, later]), [limit, *at_star])
    whole = sum(_HEIGHTS) + 16
    layout["yaxis"]["domain"] = [1 - _HEIGHTS[0] / whole, 1]
    layout["xaxis"]["anchor"] = "y2"
    title = axis_title(safe(constraints[0].name, 16) if one else "violation")
    below = {"domain": [0, _HEIGHTS[1] / whole], "title": title, "range": view.range, "nticks": 5}
    layout["yaxis2"] = AXIS | below
    layout["shapes"] = [limit_line(xref="x domain", x0=0, x1=1, yref="y2", y0=limit, y1=limit)]
    text = f"limit {limit_text(constraints[0])}" if one else "all limits hold at 0"
    layout["annotations"].append(
        note(text=text, font={"size": 11}, xref="x domain", x=1, xanchor="right")
        | {"yref": "y2", "y": limit, "yanchor": "bottom"}
    )
    data = traces.lines_by_stratum(digest, drawn, values, view.span, "y2")
    data += traces.late_checks(digest, late, later, view.span, "y2")
    if star is not None and math.isfinite(at_star[0]):
        data.append(traces.answer_star(star, at_star[0], view.span, "y2"))
    return data


def _caption(digest: FigureData, drawn: list[Curve], picked: bool, log: bool) -> str:
    text = (
        "Each mark is a report; colour and symbol are its stratum: a circle is valid, a cross "
        "invalid, an open circle unchecked. A square marks where a trial was stopped."
    )
    if any(_holds_answer(digest, curve) for curve in drawn):
        text += " The star is the answer: that checkpoint, not the end of its curve."
    if len(traces.late_rows(digest, drawn)):
        text += " A diamond is a checkpoint that was checked at the end of its trial or later."
    if digest.constrained:
        text += " Below, what their checks measured; the dashed line is the limit."
        if any(constraint.margin for constraint in digest.goals.constraints):
            text += " A value within its margin of the limit is invalid too."
    total, shown = sum(c.total for c in drawn), sum(len(c.rows) for c in drawn)
    trials = len(digest.view.trials)
    if picked and len(drawn) < trials:
        text += f" {len(drawn)} of {trials:,} trials are shown, chosen as their labels say."
    if shown < total:
        text += f" {shown:,} of their {total:,} reports are drawn."
    return text + (" The axis of steps is logarithmic." if log else "")


def _alt(digest: FigureData, drawn: list[Curve]) -> str:
    reports = digest.view.reports
    parts = []
    for curve in drawn:
        row = int(curve.rows[-1])
        value = number(float(reports.objective[row]))
        ended = "stopped" if curve.stopped else "last seen"
        parts.append(
            f"trial {curve.trial} ({short(curve.why, 24)}) {ended} at step "
            f"{curve.last_step} with {value}, {STRATA[int(reports.stratum[row])]}"
        )
    name = short(digest.goals.objective.name)
    return f"Curves of {name} of {count(len(drawn), 'trial')}: {'; '.join(parts)}."


def _table(digest: FigureData, drawn: list[Curve]) -> SmallTable:
    reports = digest.view.reports
    rows = []
    for curve in drawn:
        trial, stratum = digest.rows[curve.trial], STRATA[int(reports.stratum[curve.rows[-1]])]
        steps = f"{curve.last_step} of {'?' if trial.total_steps is None else trial.total_steps}"
        best = number(_best(digest, curve))
        why = short(curve.why, 24)
        rows.append([str(curve.trial), why, steps, best, stratum, trial.state])
    name = short(digest.goals.objective.name)
    columns = ["trial", "why shown", "last step", f"best {name}", "last stratum", "state"]
    return SmallTable(columns, rows)
