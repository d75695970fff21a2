"""The best feasible objective under other limits, from what was recorded."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from acetune.core.formatting import count
from acetune.core.goals import Constraint
from acetune.report._breakpoints import breakpoints, on_fresh_data
from acetune.report.figures._drawing import Drawing, SmallTable, axis_title, base_layout, nothing
from acetune.report.figures._figure_data import FigureData, Floats, aims, pareto_front, spread
from acetune.report.figures._look import AXIS, BEST_OF_ALL, VALID, Json, limit_line, note
from acetune.report.figures._values import (
    Window,
    number,
    plain_near,
    safe,
    short,
    window,
    within_reach,
)
from acetune.report.palette import faint
from acetune.study.limits_kept import sign_of, strictness

_TITLE = "What another limit would give"
_MOST = 160  # steps of a staircase that are drawn
_MOST_PANELS = 4
_HEIGHTS = (190, 92)  # pixels: objective, unchecked checkpoints
_GAPS = (18, 70)  # pixels: inside a panel, below it
_BLOCK = sum(_HEIGHTS) + sum(_GAPS)
_TOP, _FOOT = 10, 84


class _Stairs(NamedTuple):
    """Limits from strict to loose, and what is best from each of them on."""

    limits: Floats
    values: Floats
    labels: list[str]
    unchecked: list[int]  # better checkpoints that were never checked

    def step_at_limit(self, constraint: Constraint) -> int | None:
        """The step of the stairs at the limit of a constraint; None where nothing qualifies."""
        sign = sign_of(constraint)
        place = np.searchsorted(sign * self.limits, sign * constraint.limit, side="right")
        return int(place) - 1 if place else None


def _stairs(points: list[Json]) -> _Stairs:
    """Without the first, which holds where nothing qualifies."""
    points = [point for point in points if point["limit"] is not None]
    return _Stairs(
        np.array([point["limit"] for point in points], float),
        np.array([point["value"] for point in points], float),
        [f"trial {point['trial']}, step {point['step']}" for point in points],
        [point["unchecked_better"] for point in points],
    )


def _shifted(digest: FigureData, index: int, more: float) -> tuple[Floats, Floats]:
    """Limits and losses of the staircase if values were so many standard errors worse.

    Those on fresh data, where there are any, are taken as they are.
    """
    measured, constraints = digest.measured, digest.goals.constraints
    with np.errstate(over="ignore"):  # infinitely far is far enough
        needs = [strictness(digest.view, i)[measured.rows] for i in range(len(constraints))]
        own = needs[index] + more * measured.stderrs[:, index]
    fine = np.isfinite(measured.values[:, index])
    for i, constraint in enumerate(constraints):
        if i != index:
            fine &= needs[i] <= sign_of(constraint) * constraint.limit
    sign = sign_of(constraints[index])
    limits = sign * own[fine]
    kept, limits = on_fresh_data(digest.view, index, measured.rows[fine], limits)
    limits, loss = limits[kept], measured.loss[fine][kept]
    steps = pareto_front(sign * limits, loss)
    steps = steps[np.linspace(0, len(steps) - 1, min(len(steps), _MOST)).astype(int)]
    return limits[steps], loss[steps]


def what_if(digest: FigureData) -> Drawing:
    """Staircases of the best objective against each limit, the other limits as they are."""
    constraints = digest.goals.constraints[:_MOST_PANELS]
    if not constraints:
        return nothing("what_if", _TITLE, "This study has no constraints, so no limits to move.")
    if not len(digest.measured.rows):
        return nothing("what_if", _TITLE, "No checkpoint has been checked with success yet.")
    entries = breakpoints(digest.view)
    found = [_stairs(entry["breakpoints"]) for entry in entries]
    if not any(len(stairs.limits) for stairs in found):
        why = (
            "No checkpoint that was checked would qualify if a single limit were moved: each "
            "breaks several, or was not measured under all."
        )
        return nothing("what_if", _TITLE, why)
    whole = _BLOCK * len(constraints) - _GAPS[1]
    layout = base_layout(whole + _FOOT, margin={"b": _FOOT, "t": _TOP}, shapes=[], annotations=[])
    data: list[Json] = []
    words, table_rows = [], []
    for panel, (constraint, stairs) in enumerate(zip(constraints, found, strict=False)):
        ends = within_reach(np.array([entries[panel]["low"], entries[panel]["high"]]))
        x = Window(float(ends[0]), float(ends[1]), 0)  # that of the slider
        _panel(digest, panel, stairs, x, data, layout, whole)
        words.append(_said(digest, constraint, stairs))
        table_rows += _table_rows(constraint, stairs)
    objective = short(digest.goals.objective.name)
    table = SmallTable(["limit", f"best {objective}", "where", "unchecked, better"], table_rows)
    caption = _caption(digest, band=any("fill" in trace for trace in data))
    return Drawing("what_if", _TITLE, caption, " ".join(words), data, layout, table)


def _panel(
    digest: FigureData,
    panel: int,
    stairs: _Stairs,
    x: Window,
    data: list[Json],
    layout: Json,
    whole: int,
) -> None:
    constraint = digest.goals.constraints[panel]
    held = stairs.step_at_limit(constraint)
    must = [] if held is None else [float(stairs.values[held])]
    y = window(stairs.values, stairs.values[-1:].tolist() + must)
    if len(stairs.limits):
        loose = x.high if constraint.lower is None else x.low
        # a step that lies outside is drawn, and can be scrolled to
        last = float(within_reach(stairs.limits[-1:])[0])
        loose = max(loose, last) if constraint.lower is None else min(loose, last)
        if (digest.measured.stderrs[:, panel] > 0).any():
            data += _band(digest, panel, loose, x, y)
        some = spread(len(stairs.limits), _MOST).tolist()
        xs = plain_near([*stairs.limits[some], loose], x.span)
        some.append(some[-1])
        data += [
            _line(panel, 0, "best under this limit", "best")
            | {
                "x": xs,
                "y": plain_near(stairs.values[some], y.span / 10),
                "text": [stairs.labels[i] for i in some],
                "line": {"shape": "hv", "color": VALID, "width": 2},
                "hovertemplate": "limit %{x}: %{y}<br>%{text}<extra></extra>",
            },
            _line(panel, 1, "unchecked, better", "unchecked")
            | {
                "x": xs,
                "y": [stairs.unchecked[i] for i in some],
                "line": {"shape": "hv", "color": BEST_OF_ALL, "width": 1.5, "dash": "4px,2px"},
                "hovertemplate": "%{y:,} better checkpoints were not checked<extra></extra>",
            },
        ]
    _axes(digest, layout, panel, whole, x, y, held is not None)


def _band(digest: FigureData, panel: int, loose: float, x: Window, y: Window) -> list[Json]:
    """Between the staircases of values a standard error worse and a standard error better."""
    sides = [_shifted(digest, panel, more) for more in (1.0, -1.0)]
    floor = y.low if digest.sign < 0 else y.high  # nothing yet, where the better side begins
    lines = []
    for (limits, losses), name in zip(sides, ("", "one standard error"), strict=True):
        values = digest.sign * losses
        xs = [*sides[1][0][:1], *limits, loose]
        ys = [floor, *values, *(values[-1:] if len(values) else [floor])]
        lines.append(
            _line(panel, 0, name, "band")
            | {
                "x": plain_near(xs, x.span),
                "y": plain_near(ys, y.span),
                "line": {"shape": "hv", "width": 0, "color": VALID},
                "hoverinfo": "skip",
                **({"fill": "tonexty", "fillcolor": faint(VALID, 0.22)} if name else {}),
            }
        )
    return lines


def _line(panel: int, part: int, name: str, group: str) -> Json:
    """A staircase in the upper or the lower part of a panel; the first panel has the legend."""
    key = _key(panel, part)
    place = {"type": "scatter", "xaxis": f"x{key}", "yaxis": f"y{key}", "mode": "lines"}
    return {**place, "name": name, "legendgroup": group, "showlegend": bool(name) and panel == 0}


def _key(panel: int, part: int) -> str:
    number = 2 * panel + part + 1
    return "" if number == 1 else str(number)


def _axes(
    digest: FigureData, layout: Json, panel: int, whole: int, x: Window, y: Window, found: bool
) -> None:
    constraint = digest.goals.constraints[panel]
    start = panel * _BLOCK  # pixels from the top
    upper, lower = _key(panel, 0), _key(panel, 1)
    looser = "looser →" if constraint.lower is None else "← looser"
    middle = start + _HEIGHTS[0] + _GAPS[0]
    spans = ((upper, start, _HEIGHTS[0]), (lower, middle, _HEIGHTS[1]))
    for key, top, height in spans:
        layout[f"xaxis{key}"] = {**AXIS, "anchor": f"y{key}", "range": x.range}
        domain = [max(0.0, 1 - (top + height) / whole), 1 - top / whole]
        layout[f"yaxis{key}"] = {**AXIS, "anchor": f"x{key}", "domain": domain}
    layout[f"xaxis{upper}"] |= {"showticklabels": False, "matches": f"x{lower}"}
    title = f"limit of {safe(constraint.name, 24)} ({looser})"
    layout[f"xaxis{lower}"] |= {"title": axis_title(title)}
    objective = safe(digest.goals.objective.name, 20)
    layout[f"yaxis{upper}"] |= {"title": axis_title(objective), "range": y.range, "nticks": 6}
    unchecked = {"title": axis_title("unchecked"), "rangemode": "tozero", "nticks": 3}
    layout[f"yaxis{lower}"] |= unchecked
    limit = {"x0": constraint.limit, "x1": constraint.limit}
    for key in (upper, lower):
        layout["shapes"].append(
            limit_line(xref=f"x{key}", **limit, yref=f"y{key} domain", y0=0, y1=1)
        )
    left = (constraint.limit - x.low) / x.span > 0.5
    # away from the stairs: they begin on the bad side, after the limit if nothing qualifies
    below = (digest.sign < 0) == found
    text = f"limit now {number(constraint.limit, 6)}" + ("" if found else ":<br>nothing qualifies")
    layout["annotations"].append(
        note(text=text, xref=f"x{upper}", x=constraint.limit)
        | {"xanchor": "right" if left else "left", "xshift": -3 if left else 3}
        | {"yref": f"y{upper} domain", "y": 0.02 if below else 0.98}
        | {"yanchor": "bottom" if below else "top", "align": "right" if left else "left"}
    )


def _said(digest: FigureData, constraint: Constraint, stairs: _Stairs) -> str:
    name, objective = short(constraint.name), short(digest.goals.objective.name)
    if not len(stairs.limits):
        return f"No limit of {name} would help: every checked checkpoint breaks another limit."
    held = stairs.step_at_limit(constraint)
    if held is None:
        text = f"At the limit of {name}, {constraint.limit:g}, nothing qualifies"
    else:
        text = (
            f"At the limit of {name}, {constraint.limit:g}, the best {objective} is "
            f"{number(stairs.values[held])}, with "
            f"{count(stairs.unchecked[held], 'better checkpoint')} unchecked"
        )
    following = 0 if held is None else held + 1
    if following == len(stairs.values):
        return f"{text}; no looser limit gives a better one among those checked."
    return (
        f"{text}; the next better, {number(stairs.values[following])}, needs a limit of "
        f"{number(stairs.limits[following])}; the best of all, {number(stairs.values[-1])}, one of "
        f"{number(stairs.limits[-1])}."
    )


def _table_rows(constraint: Constraint, stairs: _Stairs) -> list[list[str]]:
    """The step that the limit stands on, and some around it."""
    held = stairs.step_at_limit(constraint)
    near = -1 if held is None else held
    return [
        [
            f"{short(constraint.name)} {number(stairs.limits[i])}"
            + (" (holds now)" if i == held else ""),
            number(stairs.values[i]),
            stairs.labels[i],
            f"{stairs.unchecked[i]:,}",
        ]
        for i in range(max(0, near - 4), min(len(stairs.limits), near + 6))
    ]


def _caption(digest: FigureData, *, band: bool) -> str:
    constraints = len(digest.goals.constraints)
    text = "The best objective among the checked checkpoints, had the limit been another one. "
    if band:
        text += (
            "The band shows where the step would lie with values one standard error better or "
            "worse. "
        )
    text += (
        "Below: how many reported checkpoints are better than that and were never fully checked; "
        "where there are any, something better may be possible. A limit that is chosen after "
        "looking needs fresh data to confirm it."
    )
    if digest.view.confirmations:
        text += " What was judged on fresh data counts where it keeps the limit there too."
    if any(constraint.margin for constraint in digest.goals.conditions.constraints):
        text += " Limits include the margin that was given."
    if aims(digest.goals):
        text += " The margin that the search aims for is no condition, and not included."
    if constraints > 1:
        text += " Each panel moves one limit and leaves the others as they are."
    if constraints > _MOST_PANELS:
        text += f" The first {_MOST_PANELS} of {constraints} constraints are shown."
    return text
