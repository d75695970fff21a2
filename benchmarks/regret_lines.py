"""Mean regret against what a check costs, a panel a group of cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from acetune.core.errors import GoalError
from acetune.replay.pictures.panels import Panels, looks


def regret_by_ratio(
    groups: Mapping[str, Mapping[str, Mapping[float, float]]],
    *,
    labels: Mapping[str, str],
    title: str = "Regret by what a check costs",
    subtitle: str = "Mean over cells; 0 is the best feasible checkpoint of a table, 1 the median "
    "configuration's",
) -> go.Figure:
    """A panel a group, a line a policy; ``groups`` holds regret by group, policy and cost ratio.

    ``labels`` are the policies' names in the legend, and give the order of their colours.
    """
    if not groups:
        raise GoalError("there is nothing to draw: no groups of cells were given")
    panels = Panels(len(groups), title=title, subtitle=subtitle, heights=(250,), between=60)
    ratios = sorted({ratio for group in groups.values() for by in group.values() for ratio in by})
    look = looks(list(labels))
    for panel, (heading, group) in enumerate(groups.items()):
        panels.heading(panel, heading)
        for policy, by_ratio in group.items():
            panels.trace(
                panel,
                x=[ratios.index(ratio) for ratio in by_ratio],
                y=list(by_ratio.values()),
                mode="lines+markers",
                line={"color": look[policy].colour, "dash": look[policy].dash, "width": 1.8},
                marker={"symbol": look[policy].symbol, "size": 8},
                name=labels[policy],
                legendgroup=policy,
                showlegend=panel == 0,
                hovertemplate="%{y:.3f}",
            )
        _axes(panels, panel, ratios, [regret for by in group.values() for regret in by.values()])
    panels.legend(list(labels.values()))
    return panels.build()


def _axes(panels: Panels, panel: int, ratios: Sequence[float], regrets: Sequence[float]) -> None:
    # at equal distances: the ratios are examples of cheap to expensive, and no measurements
    panels.x(
        panel,
        range=[-0.3, len(ratios) - 0.7],
        tickvals=list(range(len(ratios))),
        ticktext=[f"{ratio:g}" for ratio in ratios],
        title="Cost of a check in mean steps",
    )
    panels.y(
        panel,
        range=[0, 1.08 * max([*regrets, 0.01])],
        title="Mean regret" if panel % panels.columns == 0 else "",
        nticks=7,
    )
