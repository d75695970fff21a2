"""Objective against each constraint, with the limit and the Pareto front."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from acetune.core.goals import Constraint
from acetune.core.words import count
from acetune.report.figures.digest import Digest, Whole, limit_text, pareto_front, thinned
from acetune.report.figures.drawing import (
    Drawing,
    SmallTable,
    Window,
    axis_title,
    base_layout,
    limit_line,
    note,
    nothing,
    window,
)
from acetune.report.figures.look import (
    AXIS,
    BEST_OF_ALL,
    STAR,
    STRATA,
    STRATUM_COLOURS,
    STRATUM_SYMBOLS,
    VALID,
    faint,
)
from acetune.report.figures.words import number, plain, plain_near, safe, short
from acetune.report.plain_data import exact
from acetune.study.columns import INVALID as IS_INVALID
from acetune.study.columns import VALID as IS_VALID
from acetune.study.limits import sign_of

_MOST = 900  # points in all panels together
_MOST_PANELS = 4
_MOST_FRONT = 120
_PANEL, _GAP, _FOOT = 230, 64, 84  # pixels; the gap is between panels
_TITLE = "Objective against constraint"


def tradeoff(digest: Digest) -> Drawing:
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
    data: list[dict[str, Any]] = []
    hidden = ~seen[chosen]
    for panel, constraint in enumerate(constraints):
        values = measured.values[:, panel]
        there = np.isfinite(values)
        x = window(values[seen & there], [constraint.limit, *values[keep][there[keep]].tolist()])
        hidden |= (values[chosen] < x.low) | (values[chosen] > x.high)
        data += _traces(digest, panel, chosen, fronts[panel], x, y)
        _axes(digest, layout, panel, len(constraints), constraint, x, y)
    caption = _caption(digest, len(measured.rows), len(chosen), int(hidden.sum()))
    return Drawing("tradeoff", _TITLE, caption, _alt(digest), data, layout, _table(digest))


def _front(digest: Digest, constraint: int) -> Whole:
    """What nothing measured beats in both, from the strictest value of the constraint on."""
    measured = digest.measured
    values = sign_of(digest.goals.constraints[constraint]) * measured.values[:, constraint]
    there = np.flatnonzero(np.isfinite(values))
    found = there[pareto_front(values[there], measured.loss[there])]
    if len(found) > _MOST_FRONT:
        found = found[np.linspace(0, len(found) - 1, _MOST_FRONT).round().astype(int)]
    return found


def _keep(digest: Digest, fronts: list[Whole]) -> Whole:
    """What must not be left out: fronts, the answer, its rivals, and the nearest misses."""
    some = [found.row for found in (*digest.candidates[:5], *digest.nearest_misses[:5])]
    if digest.answer is not None:
        some.append(digest.answer.row)
    there = np.flatnonzero(np.isin(digest.measured.rows, some))
    return np.unique(np.concatenate([there, *fronts]))


def _traces(
    digest: Digest, panel: int, chosen: Whole, best: Whole, x: Window, y: Window
) -> list[dict[str, Any]]:
    reports, measured = digest.view.reports, digest.measured
    values, objective = measured.values[:, panel], digest.sign * measured.loss
    stratum_of = reports.stratum[measured.rows[chosen]]
    place: dict[str, Any] = {"type": "scatter", **_axis_names(panel), "showlegend": panel == 0}
    hover = "%{y} at %{x}<br>trial %{customdata[0]}, step %{customdata[1]}"
    traces: list[dict[str, Any]] = []
    for stratum in (IS_INVALID, IS_VALID):
        some = chosen[(stratum_of == stratum) & np.isfinite(values[chosen])]
        if not len(some):
            continue
        rows = measured.rows[some]
        where = zip(reports.trial[rows].tolist(), digest.checked_step(rows).tolist(), strict=True)
        traces.append(
            {
                **place,
                "mode": "markers",
                "name": STRATA[stratum],
                "legendgroup": STRATA[stratum],
                "x": plain_near(values[some], x.span),
                "y": plain_near(objective[some], y.span),
                "customdata": [[trial, exact(step)] for trial, step in where],
                "marker": {
                    "color": STRATUM_COLOURS[stratum],
                    "symbol": STRATUM_SYMBOLS[stratum],
                    "size": 6,
                    "opacity": 0.75,
                },
                "hovertemplate": f"{hover}<extra>{STRATA[stratum]}</extra>",
            }
        )
    traces.append(
        {
            **place,
            "mode": "lines",
            "name": "Pareto front",
            "legendgroup": "front",
            "x": plain_near(values[best], x.span),
            "y": plain_near(objective[best], y.span),
            "line": {"shape": "hv", "color": BEST_OF_ALL, "width": 1.5, "dash": "6px,3px"},
            "hoverinfo": "skip",
        }
    )
    answer = digest.answer
    if answer is not None:
        traces.append(
            {
                **place,
                "mode": "markers",
                "name": "the answer",
                "legendgroup": "answer",
                "x": plain(digest.values(np.array([answer.row]), panel)),
                "y": plain([answer.value]),
                "customdata": [[answer.trial, exact(answer.step)]],
                "marker": {**STAR, "size": 15},
                "hovertemplate": f"{hover}<extra>the answer</extra>",
            }
        )
    return traces


def _whole(panels: int) -> int:
    """Pixels that all panels take."""
    return (_PANEL + _GAP) * panels - _GAP


def _axis_names(panel: int) -> dict[str, str]:
    key = "" if panel == 0 else str(panel + 1)
    return {"xaxis": f"x{key}", "yaxis": f"y{key}"}


def _axes(
    digest: Digest,
    layout: dict[str, Any],
    panel: int,
    panels: int,
    constraint: Constraint,
    x: Window,
    y: Window,
) -> None:
    names = _axis_names(panel)
    key = names["xaxis"][1:]
    top = 1 - panel * (_PANEL + _GAP) / _whole(panels)
    domain = [max(0.0, top - _PANEL / _whole(panels)), top]
    layout[f"xaxis{key}"] = {
        **AXIS,
        "anchor": names["yaxis"],
        "range": x.range,
        "title": axis_title(safe(constraint.name, 32)),
    }
    layout[f"yaxis{key}"] = {
        **AXIS,
        "anchor": names["xaxis"],
        "domain": domain,
        "range": y.range,
        "title": axis_title(safe(digest.goals.objective.name, 24)),
    }
    upper = constraint.lower is None
    limit = constraint.limit
    where = {"xref": names["xaxis"], "yref": f"{names['yaxis']} domain"}
    layout["shapes"] += [
        {
            **where,
            "type": "rect",
            "x0": x.low if upper else limit,
            "x1": limit if upper else x.high,
            "y0": 0,
            "y1": 1,
            "fillcolor": faint(VALID, 0.08),
            "line": {"width": 0},
            "layer": "below",
        },
        where | limit_line(x0=limit, x1=limit, y0=0, y1=1),
    ]
    left = (limit - x.low) / x.span > 0.5
    layout["annotations"].append(
        note(**where, text=f"limit {limit_text(constraint)}", x=limit)
        | {"xanchor": "right" if left else "left", "xshift": -3 if left else 3}
        # where nothing is good enough yet: what keeps the limit, or nearly, is rarely good
        | ({"y": 0.99, "yanchor": "top"} if digest.sign < 0 else {"y": 0.01, "yanchor": "bottom"})
    )


def _caption(digest: Digest, measured: int, shown: int, hidden: int) -> str:
    reports = digest.view.reports
    text = (
        "Each mark is a checkpoint that was checked: circles keep every limit, crosses do not. "
        "The shaded side of the dashed upright line keeps this limit. The dashed steps are the "
        "Pareto front: the best objective measured at each value of the constraint."
    )
    if len(digest.goals.constraints) > 1:
        text += " A cross on the shaded side breaks another limit."
    if any(constraint.margin_se for constraint in digest.goals.constraints):
        text += " A value within its margin of the limit does not keep it."
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


def _alt(digest: Digest) -> str:
    rows = digest.measured.rows
    valid = int(np.sum(digest.view.reports.stratum[rows] == IS_VALID))
    text = f"{valid:,} of {count(len(rows), 'checked checkpoint')} keep every limit."
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


def _value(digest: Digest, row: int, constraint: int) -> str:
    value = float(digest.values(np.array([row]), constraint)[0])
    return "not measured" if math.isnan(value) else number(value)


def _table(digest: Digest) -> SmallTable:
    """The answer, its rivals and the nearest misses."""
    constraints = digest.goals.constraints[:_MOST_PANELS]
    names = [short(c.name) for c in constraints]
    columns = ["", "trial", "step", short(digest.goals.objective.name), *names]
    rows = []
    answer, failed = digest.answer, digest.failed_on_fresh
    for what, places in (
        ("candidate", digest.candidates[:5]),
        ("nearest miss", digest.nearest_misses[:5]),
    ):
        for found in places:
            rows.append(
                [
                    "the answer" if found == answer else "rejected" if found in failed else what,
                    str(found.trial),
                    str(found.step),
                    number(found.value),
                    *[_value(digest, found.row, i) for i in range(len(constraints))],
                ]
            )
    return SmallTable(columns, rows)
