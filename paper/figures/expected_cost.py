"""What a trial is expected to cost by the interval between checks (Chen et al. 2022, figure 2)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from acetune.core.cost import best_interval, interval_threshold
from acetune.core.cost import expected_cost as cost
from acetune.replay.pictures.panels import Panels
from acetune.report.palette import COLOURS
from paper.figures.log_axis import log_ticks

_OFTEN, _ONCE, _EQUAL = COLOURS[1], COLOURS[0], "#000000"
_HEIGHT = 380
_LABEL = 13  # pixels that a label needs

HORIZONS = (2, 4, 8, 16, 32, 64)
RATIOS = tuple(2.0**power for power in range(-4, 11))


def expected_cost(
    *,
    p: float = 0.5,
    r: float = 20.0,
    horizons: Sequence[int] = HORIZONS,
    T: int = 16,
    ratios: Sequence[float] = RATIOS,
    title: str = "How often to check: the expected cost of a trial",
) -> go.Figure:
    """Left: several T at one cost ratio r. Right: several r at one T.

    Each curve is coloured by the end of it that is cheaper, which a dot marks.
    """
    told = (
        f"A check stops the trial with probability p = {p:g}. Dots: the cheapest interval, which is"
        f" always 1 or T (Theorem 1)<br><span style='color:{_OFTEN}'>● check at every iteration"
        f"</span>   <span style='color:{_ONCE}'>● check once, at the end</span>"
    )
    panels = Panels(
        2, title=title, subtitle=told, heights=(_HEIGHT,), left=80, right=86, between=120
    )
    panels.heading(0, f"Trial lengths T, cost ratio r = {r:g}: {_switch_in_length(p, r)}")
    panels.heading(1, f"Cost ratios r, T = {T}: {_switch_in_ratio(p, T)}")
    _draw(panels, 0, [(f"T = {T:g}", p, r, T) for T in horizons])
    _draw(panels, 1, [(f"r = {r:g}", p, r, T) for r in ratios])
    threshold = interval_threshold(p, T)
    if math.isfinite(threshold) and threshold > 0:
        _curve(panels, 1, p, threshold, T, {"color": _EQUAL, "width": 1.4, "dash": "3px,3px"})
        for beta in (1, T):
            _dot(panels, 1, beta, cost(beta, p, threshold, T), _EQUAL, "circle-open")
        panels.note(
            1,
            f"r = {threshold:.3g}: both ends cost the same",
            math.log10(T) / 2,
            math.log10(cost(math.sqrt(T), p, threshold, T)),
            anchor=("center", "top"),
            shift=(0, -2),
            colour=_EQUAL,
        )
    for panel in (0, 1):
        panels.x(panel, title="Iterations between checks, β")
    panels.y(0, title="Expected cost E[C | β] / C₂<br>(an iteration without a check costs 1)")
    return panels.build()


def switch_length(p: float, r: float) -> int | None:
    """The shortest trial for which checking at every iteration is cheaper, None if there is none.

    >>> switch_length(p=0.5, r=20)
    22
    """
    if p == 0:
        return None
    long = 2
    while interval_threshold(p, long) <= r:
        long *= 2
    short = long // 2
    while long - short > 1:
        middle = (short + long) // 2
        short, long = (middle, long) if interval_threshold(p, middle) <= r else (short, middle)
    return long


def _switch_in_length(p: float, r: float) -> str:
    length = switch_length(p, r)
    return "always at the end" if length is None else f"switch at T = {length}"


def _switch_in_ratio(p: float, T: int) -> str:
    threshold = interval_threshold(p, T)
    if threshold == 0:
        return "always at the end"
    return f"switch at r = {threshold:.3g}" if math.isfinite(threshold) else "always every one"


def _draw(panels: Panels, panel: int, curves: Sequence[tuple[str, float, float, int]]) -> None:
    longest = max(T for *_, T in curves)
    costs = [cost(beta, p, r, T) for _, p, r, T in curves for beta in (1, T)]
    low, high = math.log10(min(costs)) - 0.06, math.log10(max(costs)) + 0.08
    ends = [cost(T, p, r, T) for _, p, r, T in curves]
    pixels = [(math.log10(end) - low) / (high - low) * _HEIGHT for end in ends]
    for (label, p, r, T), end, pixel, moved in zip(
        curves, ends, pixels, spread_apart(pixels, _LABEL), strict=True
    ):
        best = best_interval(p, r, T)
        colour = _OFTEN if best == 1 else _ONCE
        _curve(panels, panel, p, r, T, {"color": colour, "width": 1.8}, name=label)
        _dot(panels, panel, best, cost(best, p, r, T), colour, "circle")
        panels.note(
            panel,
            label,
            math.log10(T),
            math.log10(end),
            anchor=("left", "middle"),
            colour=colour,
            ax=16,
            ay=pixel - moved,
            showarrow=True,
            arrowhead=0,
            arrowwidth=0.8,
            arrowcolor=colour,
            standoff=4,
        )
    ticks = [2**i for i in range(int(math.log2(longest)) + 1)]
    panels.x(
        panel,
        type="log",
        range=[-0.03, math.log10(longest) + 0.03],
        tickvals=ticks,
        ticktext=[str(tick) for tick in ticks],
    )
    decades = log_ticks(10**low, 10**high)
    panels.y(
        panel,
        type="log",
        range=[low, high],
        tickvals=decades,
        ticktext=[f"{value:,g}" for value in decades],
    )


def _curve(
    panels: Panels,
    panel: int,
    p: float,
    r: float,
    T: int,
    line: dict[str, object],
    name: str = "both ends cost the same",
) -> None:
    betas = np.geomspace(1, T, 120)
    betas[-1] = T  # not a rounding error beyond it
    panels.trace(
        panel,
        x=betas,
        y=[cost(float(beta), p, r, T) for beta in betas],
        mode="lines",
        line=line,
        name=name,
        hovertemplate="β = %{x:.3g}: %{y:.4g}",
    )


def _dot(panels: Panels, panel: int, beta: float, y: float, colour: str, symbol: str) -> None:
    panels.trace(
        panel,
        x=[beta],
        y=[y],
        mode="markers",
        marker={
            "color": colour,
            "size": 8,
            "symbol": symbol,
            "line": {"color": colour, "width": 1.4},
        },
        cliponaxis=False,
        hoverinfo="skip",
    )


def spread_apart(positions: Sequence[float], gap: float) -> list[float]:
    """Positions moved as little as needed to be at least ``gap`` apart, their order kept.

    Those that touch form a block, which stays centred on where they wanted to be.

    >>> spread_apart([0.0, 1.0, 10.0], gap=3)
    [-1.0, 2.0, 10.0]
    """
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    blocks: list[tuple[float, list[int]]] = []  # where the first of them stands
    for i in order:
        start, members = positions[i], [i]
        while blocks and blocks[-1][0] + gap * len(blocks[-1][1]) > start:
            _, before = blocks.pop()
            members = before + members
            wanted = sum(positions[m] - gap * n for n, m in enumerate(members))
            start = wanted / len(members)
        blocks.append((start, members))
    found = [0.0] * len(positions)
    for start, members in blocks:
        for n, member in enumerate(members):
            found[member] = start + gap * n
    return found
