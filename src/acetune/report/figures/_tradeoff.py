"""Objective against each constraint, with the limit and the Pareto front."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from acetune.core.formatting import count
from acetune.report._json_values import exact
from acetune.report.figures import _look as look
from acetune.report.figures._drawing import Drawing, SmallTable, axis_title, base_layout, nothing
from acetune.report.figures._figure_data import (
    CheckpointRow,
    FigureData,
    Whole,
    aims,
    limit_text,
    pareto_front,
    spread,
    thinned,
)
from acetune.report.figures._look import AXIS, Json, limit_line, note
from acetune.report.figures._values import Window, number, plain, plain_near, safe, short, window
from acetune.report.palette import faint
from acetune.study.limits_kept import sign_of
from acetune.study.report_arrays import INVALID, VALID

_MOST = 900  # points in all panels together
_MOST_PANELS = 4
_MOST_FRONT = 120
_MOST_TOLD = 5  # candidates, and nearest misses
_PANEL, _GAP, _FOOT = 230, 64, 84  # pixels; the gap is between panels
_TITLE = "Objective against constraint"


def tradeoff(digest: FigureData) -> Drawing:
    """What a better objective costs in terms of each constraint: one panel a constraint."""
    constraints = digest.goals.constraints[:_MOST_PANELS]
    if not constraints:
        return nothing("tradeoff", _TITLE, "This study has no constraints to trade off against.")
    measured = digest.measured
    if not len(measured.rows):
        return nothing("tradeoff", _TITLE, "No checkpoint has been checked with success yet.")
    fronts = [_front(digest, panel) for panel in range(len(constraints))]
    keep = _keep(digest, fronts)
    chosen = thinned(np.arange(len(measured.rows)), _MOST // len(constraints), keep)
    objective = digest.sign * measured.loss
    y = window(objective, objective[keep].tolist())
    seen = (objective >= y.low) & (objective <= y.high)
    layout = base_layout(
        _whole(len(constraints)) + _FOOT, margin={"b": _FOOT}, shapes=[], annotations=[]
    )
    data: list[Json] = []
    hidden = ~seen[chosen]
    for panel, constraint in enumerate(constraints):
        values = measured.values[:, panel]
        there = np.isfinite(values)
        x = window(values[seen & there], [constraint.limit, *values[keep][there[keep]].tolist()])
        hidden |= (values[chosen] < x.low) | (values[chosen] > x.high)
        data += _traces(digest, panel, chosen, fronts[panel], x, y)
        _axes(digest, layout, panel, len(constraints), x, y)
    caption = _caption(digest, len(measured.rows), len(chosen), int(hidden.sum()))
    return Drawing("tradeoff", _TITLE, caption, _alt(digest), data, layout, _table(digest))


def _front(digest: FigureData, constraint: int) -> Whole:
    """What nothing measured beats in both, from the strictest value of the constraint on."""
    measured = digest.measured
    values = sign_of(digest.goals.constraints[constraint]) * measured.values[:, constraint]
    there = np.flatnonzero(np.isfinite(values))
    found = there[pareto_front(values[there], measured.loss[there])]
    return found[spread(len(found), _MOST_FRONT)]


def _keep(digest: FigureData, fronts: list[Whole]) -> Whole:
    """What must not be left out: fronts, the answer, its rivals, and the nearest misses."""
    some = [found.row for _, found in _told(digest)]
    there = np.flatnonzero(np.isin(digest.measured.rows, some))
    return np.unique(np.concatenate([there, *fronts]))


def _told(digest: FigureData) -> list[tuple[str, CheckpointRow]]:
    """The answer, its rivals and the nearest misses, each with what it is."""
    answer, keeps = digest.answer, digest.keeps_limits
    found: list[tuple[str, CheckpointRow]] = []
    for place, candidate in enumerate(digest.candidates):
        if candidate == answer:
            found.append(("the answer", candidate))
        elif place < _MOST_TOLD:
            rejected = candidate in digest.failed_on_fresh
            found.append(("rejected" if rejected else "candidate", candidate))
    known = {candidate[1:] for _, candidate in found}  # whichever check of it
    misses = [miss for miss in digest.nearest_misses[:_MOST_TOLD] if miss[1:] not in known]
    near = "too close to a limit"  # it breaks none
    return found + [(near if keeps[miss.row] else "nearest miss", miss) for miss in misses]


def _traces(
    digest: FigureData, panel: int, chosen: Whole, best: Whole, x: Window, y: Window
) -> list[Json]:
    """Marks by stratum, the Pareto front, and the answer."""

    def trace(mode: str, name: str, group: str, **more: Any) -> Json:
        place = {**_axis_names(panel), "showlegend": panel == 0}
        return {"type": "scatter", **place, "mode": mode, "name": name, "legendgroup": group} | more

    reports, measured = digest.view.reports, digest.measured
    values, objective = measured.values[:, panel], digest.sign * measured.loss
    stratum_of = reports.stratum[measured.rows[chosen]]
    hover = "%{y} at %{x}<br>trial %{customdata[0]}, step %{customdata[1]}"
    traces: list[Json] = []
    for stratum in (INVALID, VALID):
        some = chosen[(stratum_of == stratum) & np.isfinite(values[chosen])]
        if not len(some):
            continue
        rows, word = measured.rows[some], look.STRATA[stratum]
        where = zip(reports.trial[rows].tolist(), reports.checked_step[rows].tolist(), strict=True)
        mark = {"color": look.STRATUM_COLOURS[stratum], "symbol": look.STRATUM_SYMBOLS[stratum]}
        traces.append(
            trace(
                "markers",
                word,
                word,
                x=plain_near(values[some], x.span),
                y=plain_near(objective[some], y.span),
                customdata=[[trial, exact(step)] for trial, step in where],
                marker={**mark, "size": 6, "opacity": 0.75},
                hovertemplate=f"{hover}<extra>{word}</extra>",
            )
        )
    traces.append(
        trace(
            "lines",
            "Pareto front",
            "front",
            x=plain_near(values[best], x.span),
            y=plain_near(objective[best], y.span),
            line={"shape": "hv", "color": look.BEST_OF_ALL, "width": 1.5, "dash": "6px,3px"},
            hoverinfo="skip",
        )
    )
    answer = digest.answer
    if answer is not None:
        traces.append(
            trace(
                "markers",
                "the answer",
                "answer",
                x=plain(digest.values(np.array([answer.row]), panel)),
                y=plain([answer.value]),
                customdata=[[answer.trial, exact(answer.step)]],
                marker={**look.STAR, "size": 15},
                hovertemplate=f"{hover}<extra>the answer</extra>",
            )
        )
    return traces


def _whole(panels: int) -> int:
    """Pixels that all panels take."""
    return (_PANEL + _GAP) * panels - _GAP


def _axis_names(panel: int) -> dict[str, str]:
    key = "" if panel == 0 else str(panel + 1)
    return {"xaxis": f"x{key}", "yaxis": f"y{key}"}


def _axes(digest: FigureData, layout: Json, panel: int, panels: int, x: Window, y: Window) -> None:
    """The axes of a panel, its limit, and the side that keeps it."""
    names, constraint = _axis_names(panel), digest.goals.constraints[panel]
    key, limit = names["xaxis"][1:], constraint.limit
    top = 1 - panel * (_PANEL + _GAP) / _whole(panels)
    domain = [max(0.0, top - _PANEL / _whole(panels)), top]
    across = {"range": x.range, "title": axis_title(safe(constraint.name, 32))}
    up = {"range": y.range, "title": axis_title(safe(digest.goals.objective.name, 24))}
    layout[f"xaxis{key}"] = {**AXIS, "anchor": names["yaxis"], **across}
    layout[f"yaxis{key}"] = {**AXIS, "anchor": names["xaxis"], "domain": domain, **up}
    where = {"xref": names["xaxis"], "yref": f"{names['yaxis']} domain"}
    x0, x1 = (x.low, limit) if constraint.lower is None else (limit, x.high)
    side = {**where, "type": "rect", "x0": x0, "x1": x1, "y0": 0, "y1": 1}
    look_of_side = {"fillcolor": faint(look.VALID, 0.08), "line": {"width": 0}, "layer": "below"}
    line = limit_line(x0=limit, x1=limit, y0=0, y1=1)
    layout["shapes"] += [side | look_of_side, where | line]
    left = (limit - x.low) / x.span > 0.5
    layout["annotations"].append(
        note(**where, text=f"limit {limit_text(constraint)}", x=limit)
        | {"xanchor": "right" if left else "left", "xshift": -3 if left else 3}
        # where nothing is good enough yet: what keeps the limit, or nearly, is rarely good
        | ({"y": 0.99, "yanchor": "top"} if digest.sign < 0 else {"y": 0.01, "yanchor": "bottom"})
    )


def _caption(digest: FigureData, measured: int, shown: int, hidden: int) -> str:
    reports = digest.view.reports
    near = aims(digest.goals)
    kept = "are as far within every limit as the search aimed for" if near else "keep every limit"
    text = (
        f"Each mark is a checkpoint that was checked: circles {kept}, crosses do not. "
        "The shaded side of the dashed upright line keeps this limit. The dashed steps are the "
        "Pareto front: the best objective measured at each value of the constraint."
    )
    if len(digest.goals.constraints) > 1:
        also = ", or only misses that aim" if near else ""
        text += f" A cross on the shaded side breaks another limit{also}."
    elif near:
        text += " A cross on the shaded side only misses that aim: it may be the answer."
    if any(constraint.margin for constraint in digest.goals.conditions.constraints):
        text += " A value within the margin that was given does not keep its limit."
    if len(digest.goals.constraints) > _MOST_PANELS:
        text += f" The first {_MOST_PANELS} constraints are shown."
    if shown < measured:
        text += f" {shown:,} of {measured:,} checked checkpoints are shown."
    if hidden:
        text += f" {count(hidden, 'mark')} far off {'lies' if hidden == 1 else 'lie'} outside."
    left_out = int(np.sum(np.isnan(digest.measured.values).any(axis=1)))
    if left_out:
        text += (
            f" {count(left_out, 'checkpoint')} broke a limit before all constraints were measured: "
            "no mark in the other panels."
        )
    failed = int(np.sum(np.isinf(reports.violation)))
    if failed:
        text += f" {count(failed, 'check')} gave no number and cannot be drawn."
    return text


def _alt(digest: FigureData) -> str:
    rows = digest.measured.rows
    kept = int(np.sum(digest.keeps_limits[rows]))
    text = f"{kept:,} of {count(len(rows), 'checked checkpoint')} keep every limit."
    if digest.answer is not None:
        what, found = "The answer", digest.answer
    elif digest.rejected is not None:
        what, found = "Fresh data rejected all that was judged; the best of it", digest.rejected
    elif digest.nearest_misses:
        what, found = "The nearest miss", digest.nearest_misses[0]
    else:
        return text
    parts = [f"{short(digest.goals.objective.name)} {number(found.value)}"]
    for i, constraint in enumerate(digest.goals.constraints[:_MOST_PANELS]):
        value = _value(digest, found.row, i)
        parts.append(f"{short(constraint.name)} {value} (limit {limit_text(constraint)})")
    return f"{text} {what} has {', '.join(parts)}."


def _value(digest: FigureData, row: int, constraint: int) -> str:
    value = float(digest.values(np.array([row]), constraint)[0])
    return "not measured" if math.isnan(value) else number(value)


def _table(digest: FigureData) -> SmallTable:
    """The answer, its rivals and the nearest misses."""
    constraints = digest.goals.constraints[:_MOST_PANELS]
    names = [short(c.name) for c in constraints]
    columns = ["", "trial", "step", short(digest.goals.objective.name), *names]
    rows = []
    for what, place in _told(digest):
        values = [_value(digest, place.row, i) for i in range(len(constraints))]
        rows.append([what, str(place.trial), str(place.step), number(place.value), *values])
    return SmallTable(columns, rows)
