"""Learning curves of a few trials, and where policies stopped them (Chen et al. 2022, figure 1)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from acetune.core.errors import GoalError
from acetune.replay.pictures.panels import Panels
from acetune.report.palette import COLOURS, TEXT
from paper.figures.log_axis import log_ticks

_ROW = 16  # pixels a label
_HEIGHT = 230
_MARKS = 70  # at most so many markers a curve


@dataclass(frozen=True, slots=True)
class TrialCurve:
    """One trial as it would have gone on, and the steps at which policies stopped it.

    ``limit`` is an upper one. A constraint that is NaN was not measured: no mark.
    """

    label: str
    steps: Sequence[int]
    objective: Sequence[float]
    constraint: Sequence[float]
    limit: float
    stops: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.steps:
            raise GoalError(f"{self.label} has no steps")
        if not len(self.steps) == len(self.objective) == len(self.constraint):
            raise GoalError(
                f"{self.label} has {len(self.steps)} steps, {len(self.objective)} objectives and "
                f"{len(self.constraint)} constraint values"
            )


def case_study(
    curves: Sequence[TrialCurve],
    *,
    objective: str = "objective",
    constraint: str = "constraint",
    log_steps: bool = False,
    title: str = "Where policies stop a trial",
) -> go.Figure:
    """Objective above, constraint below; dots are valid checkpoints, plus signs invalid ones.

    Vertical lines, in the colour of their trial, say where each policy stopped it. Of long curves
    only every so many checkpoints are marked.
    """
    if not curves:
        raise GoalError("there is nothing to draw: no trials were given")
    colours = {curve.label: COLOURS[i % len(COLOURS)] for i, curve in enumerate(curves)}
    place = math.log10 if log_steps else float
    first = place(min(min(curve.steps) for curve in curves))
    last = place(max(max(curve.steps) for curve in curves))
    pad = 0.02 * (last - first) or 0.5
    span = (first - pad, last + pad)
    stops = _stops(curves)
    panels = Panels(
        1,
        title=title,
        subtitle="● valid checkpoint,  + invalid checkpoint;  vertical lines: stopped here",
        columns=1,
        heights=(_HEIGHT, 170),
        above=10 + _ROW * len(stops),
        width=860,
    )
    for curve in curves:
        marked = _thinned(len(curve.steps), log_steps)
        for part, values in enumerate((curve.objective, curve.constraint)):
            _draw(panels, part, curve, values, marked, colours[curve.label])
    shares = [(place(step) - span[0]) / (span[1] - span[0]) for _, _, step in stops]
    for (text, label, step), share, row in zip(stops, shares, _rows(shares), strict=True):
        _draw_stop(panels, text, step, share, row, colours[label])
    for limit in dict.fromkeys(curve.limit for curve in curves):
        panels.level(0, 1, limit, {"color": TEXT, "width": 1.2, "dash": "4px,3px"})
        panels.note(0, f"limit {limit:g}", span[1], limit, 1, anchor=("right", "bottom"))
    axis: dict[str, Any] = {"range": list(span)}
    if log_steps:
        ticks = log_ticks(10 ** span[0], 10 ** span[1])
        axis |= {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:,g}" for tick in ticks]}
    panels.x(0, 0, **axis)
    panels.x(0, 1, title="Step", **axis)
    panels.y(0, 0, title=objective, nticks=7)
    panels.y(0, 1, title=constraint, nticks=6)
    panels.legend([curve.label for curve in curves])
    return panels.build()


def _stops(curves: Sequence[TrialCurve]) -> list[tuple[str, str, int]]:
    """What to write, of which trial, at which step; policies that agree share a line."""
    found: dict[tuple[str, int], list[str]] = {}
    for curve in curves:
        for policy, step in curve.stops.items():
            found.setdefault((curve.label, step), []).append(policy)
    stops = []
    for (label, step), policies in found.items():
        verb = "stops" if len(policies) == 1 else "stop"
        stops.append((f"{' and '.join(policies)} {verb} {label} at {step}", label, step))
    return stops


def _rows(shares: Sequence[float]) -> list[int]:
    """The row of each label above the panel, 0 at the bottom, so that no line crosses a label.

    Labels stand right of their lines, so a line must end above those that stand further right; in
    the right part labels stand left of their lines, above all others, the other way round.
    """
    right = sorted((i for i, share in enumerate(shares) if _fits(share)), key=lambda i: -shares[i])
    left = sorted((i for i, share in enumerate(shares) if not _fits(share)), key=shares.__getitem__)
    rows = {stop: row for row, stop in enumerate(right + left)}
    return [rows[i] for i in range(len(shares))]


def _fits(share: float) -> bool:
    """Whether a label fits between its line and the right edge."""
    return share < 0.75


def _draw_stop(panels: Panels, text: str, step: int, share: float, row: int, colour: str) -> None:
    line = {"color": colour, "width": 1.4}
    panels.upright(0, 0, step, line, reach=1 + (8 + _ROW * (row + 0.5)) / _HEIGHT)
    panels.upright(0, 1, step, line)
    side, gap = ("left", 1) if _fits(share) else ("right", -1)
    panels.note(
        0,
        text,
        share,
        1,
        inside=True,
        anchor=(side, "bottom"),
        shift=(gap, 6 + _ROW * row),
        size=12,
        colour=colour,
    )


def _draw(
    panels: Panels,
    part: int,
    curve: TrialCurve,
    values: Sequence[float],
    marked: NDArray[Any],
    colour: str,
) -> None:
    steps, y = np.asarray(curve.steps), np.asarray(values, float)
    panels.trace(
        0,
        part,
        x=steps,
        y=y,
        mode="lines",
        line={"color": colour, "width": 1.4},
        name=curve.label,
        legendgroup=curve.label,
        showlegend=part == 0,
        hovertemplate="step %{x}: %{y:.4g}",
    )
    measured = np.asarray(curve.constraint, float)
    for name, holds, symbol, edge in (
        ("valid", measured <= curve.limit, "circle", 0.0),
        ("invalid", measured > curve.limit, "cross-thin", 1.6),  # all edge and no body
    ):
        chosen = marked[holds[marked]]
        panels.trace(
            0,
            part,
            x=steps[chosen],
            y=y[chosen],
            mode="markers",
            marker={
                "symbol": symbol,
                "size": 6.5,
                "color": colour,
                "line": {"color": colour, "width": edge},
            },
            name=f"{curve.label}, {name}",
            legendgroup=curve.label,
            hoverinfo="skip",
        )


def _thinned(count: int, log: bool) -> NDArray[Any]:
    """Which of so many points get a marker: not too many, evenly spread on their axis."""
    if log:
        return np.unique(np.geomspace(1, count, min(count, _MARKS)).round().astype(int)) - 1
    return np.arange(0, count, -(-count // _MARKS))
