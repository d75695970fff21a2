"""Learning curves of chosen trials, coloured by stratum, and where they were stopped."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from acetune.core.words import count
from acetune.report.figures.choosing import asked_for, chosen_trials
from acetune.report.figures.curve_lines import (
    Curve,
    end_labels,
    gathered,
    lines_by_stratum,
    step_span,
)
from acetune.report.figures.curve_marks import answer_star, late_checks, late_rows, stop_marks
from acetune.report.figures.digest import Digest, Floats, Place, Whole, limit_text
from acetune.report.figures.drawing import Drawing, SmallTable, axis_title, base_layout, nothing
from acetune.report.figures.look import (
    AXIS,
    NEUTRAL,
    NOTE,
    STRATA,
)
from acetune.report.figures.ranges import log_axis, window
from acetune.report.figures.words import number, safe, short

_TITLE = "Learning curves, and where trials stopped"
_HEIGHTS = (250, 150)  # pixels: objective, constraint


def curves(digest: Digest, trials: list[int] | None = None) -> Drawing:
    """Objective above, constraint below. Without ``trials`` a few that tell something."""
    chosen = chosen_trials(digest) if trials is None else asked_for(digest, trials)
    drawn = [curve for curve in gathered(digest, chosen) if len(curve.rows)]
    if not drawn:
        why = "No reports yet." if trials is None else "These trials have not reported anything."
        return nothing("curves", _TITLE, why)
    objective = [digest.sign * digest.loss[curve.rows] for curve in drawn]
    ends = [float(its[finite[-1]]) for its in objective if len(finite := _finite(its))]
    late = late_rows(digest, drawn)
    star = digest.answer if any(_holds_answer(digest, curve) for curve in drawn) else None
    ends += [] if star is None else [star.value]
    y = window(np.concatenate(objective), [*ends, *[_best(digest, curve) for curve in drawn]])
    last = max(curve.last_step for curve in drawn)
    first = min(int(digest.view.reports.step[curve.rows[0]]) for curve in drawn)
    log = last > 60 and last >= 20 * min(curve.last_step for curve in drawn)
    data = lines_by_stratum(digest, drawn, objective, y.span, "y", True)
    stops = stop_marks(digest, drawn, objective, y.span)
    data += [stops] if stops["x"] else []
    checked = digest.sign * digest.checked_loss(late)
    data += late_checks(digest, late, checked, y.span, "y")
    data += [] if star is None else [answer_star(digest, star, star.value, y.span, "y")]
    layout = base_layout(
        sum(_HEIGHTS) + 90 if digest.constrained else _HEIGHTS[0] + 90,
        margin={"b": 66, "r": 14},
    )
    span = step_span(first, last, log)
    layout["xaxis"] |= log_axis(span[0], span[1]) if log else {"range": span}
    layout["xaxis"]["title"] = axis_title("Step")
    layout["yaxis"] |= {"title": axis_title(safe(digest.goals.objective.name, 24))}
    layout["yaxis"]["range"] = y.range
    layout["annotations"] = end_labels(digest, drawn, objective, y, span, _HEIGHTS[0], log)
    if digest.constrained:
        data += _lower_part(digest, drawn, late, star, layout)
    caption = _caption(digest, drawn, trials is None, log)
    return Drawing(
        "curves", _TITLE, caption, _alt(digest, drawn), data, layout, _table(digest, drawn)
    )


def _holds_answer(digest: Digest, curve: Curve) -> bool:
    """Whether the answer is a checkpoint of the attempt that is drawn."""
    answer = digest.answer
    if answer is None or answer.trial != curve.trial:
        return False
    return answer.attempt == digest.rows[curve.trial].attempt


def _finite(values: Floats) -> Whole:
    return np.flatnonzero(np.isfinite(values))


def _best(digest: Digest, curve: Curve) -> float:
    """The best objective of a trial, or NaN."""
    loss = float(digest.loss[curve.rows].min())
    return digest.sign * loss if math.isfinite(loss) else math.nan


def _lower(digest: Digest, rows: Whole) -> Floats:
    """What the lower part shows: the one constraint, or the violation of several."""
    if len(digest.goals.constraints) == 1:
        return digest.values(rows, 0)
    violation = digest.view.reports.violation[rows]
    return np.where(np.isfinite(violation), violation, np.nan)


def _lower_part(
    digest: Digest, drawn: list[Curve], late: Whole, star: Place | None, layout: dict[str, Any]
) -> list[dict[str, Any]]:
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
    layout["yaxis2"] = {
        **AXIS,
        "domain": [0, _HEIGHTS[1] / whole],
        "title": axis_title(safe(constraints[0].name, 16) if one else "violation"),
        "range": view.range,
        "nticks": 5,
    }
    layout["shapes"] = [
        {
            "type": "line",
            "xref": "x domain",
            "x0": 0,
            "x1": 1,
            "yref": "y2",
            "y0": limit,
            "y1": limit,
            "line": {"color": NEUTRAL, "width": 1.5, "dash": "4px,3px"},
        }
    ]
    layout["annotations"].append(
        {
            **NOTE,
            "text": f"limit {limit_text(constraints[0])}" if one else "all limits hold at 0",
            "font": {"size": 11},
            "xref": "x domain",
            "x": 1,
            "xanchor": "right",
            "yref": "y2",
            "y": limit,
            "yanchor": "bottom",
        }
    )
    data = lines_by_stratum(digest, drawn, values, view.span, "y2", False)
    data += late_checks(digest, late, later, view.span, "y2")
    if star is not None and math.isfinite(at_star[0]):
        data.append(answer_star(digest, star, at_star[0], view.span, "y2"))
    return data


def _caption(digest: Digest, drawn: list[Curve], picked: bool, log: bool) -> str:
    text = (
        "Each mark is a report; colour and symbol are its stratum: a circle is valid, a cross "
        "invalid, an open circle unchecked. A square marks where a trial was stopped."
    )
    if any(_holds_answer(digest, curve) for curve in drawn):
        text += " The star is the answer: that checkpoint, not the end of its curve."
    if len(late_rows(digest, drawn)):
        text += " A diamond is a checkpoint that was checked at the end of its trial or later."
    if digest.constrained:
        text += " Below, what their checks measured; the dashed line is the limit."
        if any(constraint.margin_se for constraint in digest.goals.constraints):
            text += " A value within its margin of the limit is invalid too."
    total, shown = sum(c.total for c in drawn), sum(len(c.rows) for c in drawn)
    trials = len(digest.view.trials)
    if picked and len(drawn) < trials:
        text += f" {len(drawn)} of {trials:,} trials are shown, chosen as their labels say."
    if shown < total:
        text += f" {shown:,} of their {total:,} reports are drawn."
    return text + (" The axis of steps is logarithmic." if log else "")


def _alt(digest: Digest, drawn: list[Curve]) -> str:
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


def _table(digest: Digest, drawn: list[Curve]) -> SmallTable:
    reports = digest.view.reports
    rows = []
    for curve in drawn:
        last = int(curve.rows[-1])
        total = digest.rows[curve.trial].total_steps
        rows.append(
            [
                str(curve.trial),
                short(curve.why, 24),
                f"{curve.last_step} of {'?' if total is None else total}",
                number(_best(digest, curve)),
                STRATA[int(reports.stratum[last])],
                digest.rows[curve.trial].state,
            ]
        )
    name = short(digest.goals.objective.name)
    columns = ["trial", "why shown", "last step", f"best {name}", "last stratum", "state"]
    return SmallTable(columns, rows)
