"""Average ranks on an axis, in the manner of Demsar (2006), figure 1."""

from __future__ import annotations

import plotly.graph_objects as go

from acetune.replay.pictures.panels import Panels
from acetune.replay.statistics import Ranks
from acetune.report.palette import COLOURS, LINE, QUIET, TEXT

_ROW = 22  # pixels
_BAR = 9  # pixels between clique bars


def critical_difference(
    ranks: Ranks, *, title: str = "Average ranks of the policies", width: int = 860
) -> go.Figure:
    """Policies hang off an axis of ranks; bars join those that the Nemenyi test cannot tell apart.

    The better half hangs to the left, the other half to the right.
    """
    count = len(ranks.policies)
    half = -(-count // 2)
    levels = _levels(ranks)
    bars = _BAR * (max(levels, default=-1) + 1)
    first = 18 + bars  # pixels below the axis: the first row of names
    height = 74 + first + _ROW * (half - 1) + 14
    margin = 30 + 7.5 * max(map(len, ranks.policies)) + 40
    panels = Panels(
        1,
        title=title,
        subtitle=_subtitle(ranks),
        columns=1,
        heights=(height,),
        width=width,
        left=int(margin),
        right=int(margin),
        above=10,
        under=0,
    )
    axis_y = height - 58  # pixels from below
    panels.x(0, range=[1, count], visible=False)
    panels.y(0, range=[0, height], visible=False)
    _draw_axis(panels, count, axis_y)
    _draw_critical_difference(panels, ranks, axis_y + 40)
    at = dict(zip(ranks.policies, ranks.average_ranks, strict=True))
    for clique, level in zip(ranks.cliques, levels, strict=True):
        y = axis_y - 11 - _BAR * level
        ends = [at[clique[0]], at[clique[-1]]]
        reach = 0.006 * (count - 1)  # a little beyond, as Demsar draws it
        _line(
            panels,
            [ends[0] - reach, ends[1] + reach],
            [y, y],
            COLOURS[1],
            4.5,
            hover="not told apart: " + ", ".join(clique),
        )
    for place, (policy, rank) in enumerate(at.items()):
        left = place < half
        row = place if left else count - 1 - place
        y = axis_y - first - _ROW * row
        _hang(panels, policy, rank, y, axis_y, count, left)
    return panels.build()


def _subtitle(ranks: Ranks) -> str:
    p = f"= {ranks.friedman_p:.2g}" if ranks.friedman_p >= 1e-4 else "below 0.0001"
    apart = ranks.friedman_p < ranks.alpha and any(
        len(clique) < len(ranks.policies) for clique in ranks.cliques or ((),)
    )
    verdict = "they differ" if apart else "no difference is shown"
    return (
        f"1 is best; {ranks.blocks} rankings; Friedman test: p {p},"
        f" {verdict}<br>A bar joins policies less than the critical difference (CD) apart:"
        f" they are not told apart at the {100 * ranks.alpha:g} % level"
    )


def _levels(ranks: Ranks) -> list[int]:
    """The row of each clique's bar: the first in which it meets no other."""
    at = dict(zip(ranks.policies, ranks.average_ranks, strict=True))
    apart = 0.03 * len(ranks.policies)
    ends: list[float] = []  # where the last bar of each row ends
    levels = []
    for clique in ranks.cliques:
        start, end = at[clique[0]], at[clique[-1]]
        level = next((i for i, other in enumerate(ends) if other + apart < start), len(ends))
        ends[level : level + 1] = [end]
        levels.append(level)
    return levels


def _draw_axis(panels: Panels, count: int, y: float) -> None:
    _line(panels, [1, count], [y, y], TEXT, 1.4)
    every = 1 if count <= 16 else 2
    for rank in range(1, count + 1):
        _line(panels, [rank, rank], [y, y + 6], TEXT, 1.4)
        if (rank - 1) % every == 0:
            panels.note(0, str(rank), rank, y + 6, anchor=("center", "bottom"), colour=TEXT)


def _draw_critical_difference(panels: Panels, ranks: Ranks, y: float) -> None:
    count = len(ranks.policies)
    wide = min(ranks.critical_difference, count - 1)
    _line(panels, [1, 1 + wide], [y, y], QUIET, 2)
    for end in (1, 1 + wide) if wide == ranks.critical_difference else (1,):
        _line(panels, [end, end], [y - 4, y + 4], QUIET, 2)
    more = "" if wide == ranks.critical_difference else ", wider than the axis"
    text = f"CD = {ranks.critical_difference:.2f}{more}"
    panels.note(0, text, 1, y + 2, anchor=("left", "bottom"))


def _hang(
    panels: Panels, policy: str, rank: float, y: float, axis_y: float, count: int, left: bool
) -> None:
    end = 1.0 if left else float(count)
    _line(panels, [rank, rank, end], [axis_y, y, y], LINE, 1.2)
    panels.trace(
        0,
        x=[rank],
        y=[axis_y],
        mode="markers",
        marker={"color": COLOURS[0], "size": 7},
        name=policy,
        hovertemplate="average rank %{x:.2f}",
        cliponaxis=False,
    )
    number = f"<span style='color:{QUIET}'>{rank:.2f}</span>"
    panels.note(
        0,
        f"{policy}  {number}" if left else f"{number}  {policy}",
        end,
        y,
        anchor=("right" if left else "left", "middle"),
        shift=(-3 if left else 3, 0),
        size=12.5,
        colour=TEXT,
    )


def _line(
    panels: Panels,
    x: list[float],
    y: list[float],
    colour: str,
    width: float,
    hover: str | None = None,
) -> None:
    panels.trace(
        0,
        x=x,
        y=y,
        mode="lines",
        line={"color": colour, "width": width},
        cliponaxis=False,
        hoverinfo="text" if hover else "skip",
        hovertext=hover,
    )
