"""The best feasible objective against the truncation percentage, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from acetune.core.errors import GoalError
from acetune.replay.pictures.panels import Panels
from acetune.replay.statistics import Interval
from acetune.report.palette import COLOURS

_OURS, _THEIRS = COLOURS[0], COLOURS[1]
_HERE, _THE_PAPER = "replayed here", "the paper"


def truncation_curve(
    ours: Mapping[str, Mapping[float, Interval]],
    paper: Mapping[str, Mapping[float, float]] | None = None,
    *,
    trials: Mapping[str, Mapping[float, float]] | None = None,
    objective: str = "AUC",
    subtitle: str = "Dots: mean and interval over seeds",
    title: str = "How many to stop: the truncation percentage",
) -> go.Figure:
    """A panel a limit ("EOD ≤ 0.25"), by percentage; ``trials``, where given, are written below.

    The paper's limits and percentages need not be ours; what one of both lacks is not drawn.
    """
    if not ours:
        raise GoalError("there is nothing to draw: no limits were given")
    panels = Panels(len(ours), title=title, subtitle=subtitle, heights=(280,), between=76)
    for panel, (limit, points) in enumerate(ours.items()):
        theirs = dict(sorted((paper or {}).get(limit, {}).items()))
        panels.heading(panel, limit)
        low, high = _range(list(points.values()), list(theirs.values()), room=trials is not None)
        _draw(panels, panel, dict(sorted(points.items())), theirs)
        for percent, count in (trials or {}).get(limit, {}).items():
            bottom = ("center", "bottom")
            panels.note(panel, f"{count:.0f}", percent, low, anchor=bottom)
        if trials is not None:
            corner: dict[str, Any] = {"inside": True, "anchor": ("left", "bottom")}
            panels.note(panel, "trials", 0, 0, **corner, shift=(4, 14))
        percents = sorted({*points, *theirs})
        panels.x(
            panel,
            range=[0, percents[-1] + 4],
            tickvals=percents,
            ticktext=[f"{percent:g}" for percent in percents],
            title="Share of each group that is stopped (%)",
        )
        panels.y(
            panel,
            range=[low, high],
            title=f"Best feasible {objective}" if panel % panels.columns == 0 else "",
            nticks=7,
        )
    panels.legend([_THE_PAPER, _HERE])
    return panels.build()


def _draw(
    panels: Panels, panel: int, ours: Mapping[float, Interval], theirs: Mapping[float, float]
) -> None:
    panels.trace(
        panel,
        x=list(theirs),
        y=list(theirs.values()),
        mode="lines+markers",
        line={"color": _THEIRS, "width": 1.2, "dash": "4px,3px"},
        marker={"symbol": "diamond-open", "size": 9, "line": {"width": 1.6}},
        name=_THE_PAPER,
        legendgroup="paper",
        showlegend=panel == 0,
        hovertemplate="%{x:g} %: %{y:.5g}",
    )
    panels.trace(
        panel,
        x=list(ours),
        y=[point.mean for point in ours.values()],
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [point.high - point.mean for point in ours.values()],
            "arrayminus": [point.mean - point.low for point in ours.values()],
            "color": _OURS,
            "thickness": 1.8,
            "width": 3,
        },
        mode="lines+markers",
        line={"color": _OURS, "width": 1.6},
        marker={"size": 8},
        name=_HERE,
        legendgroup="ours",
        showlegend=panel == 0,
        hovertemplate="%{x:g} %: %{y:.5g}",
    )


def _range(ours: Sequence[Interval], theirs: Sequence[float], room: bool) -> tuple[float, float]:
    ends = [end for point in ours for end in point] + list(theirs)
    span = max(ends) - min(ends) or 0.02 * abs(ends[0]) or 1.0
    return min(ends) - (0.2 if room else 0.06) * span, max(ends) + 0.06 * span
