"""How often something feasible was found: bars by limit, a panel a cost of checks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import plotly.graph_objects as go

from acetune.core.errors import GoalError
from acetune.replay.pictures.panels import Panels, chosen, looks
from acetune.replay.runs import Summary


def success_rates(
    summaries: Iterable[Summary],
    *,
    policies: Sequence[str] | None = None,
    title: str = "How often something feasible was found",
    subtitle: str = "Share of the seeds, by limit",
) -> go.Figure:
    """The share of runs that found something feasible, by policy and limit.

    ``policies`` says which to draw, and in which order they get their colours.
    """
    found = list(summaries)
    if not found:
        raise GoalError("there is nothing to draw: no runs were given")
    names = chosen(policies, (summary.policy for summary in found))
    ratios = list(dict.fromkeys(summary.cell.cost_ratio for summary in found))
    limits = list(dict.fromkeys(summary.cell.constraint for summary in found))
    look = looks(names)
    panels = Panels(len(ratios), title=title, subtitle=subtitle, heights=(240,), between=60)
    by_place = {(s.policy, s.cell.cost_ratio, s.cell.constraint): s for s in found}
    for panel, ratio in enumerate(ratios):
        costs = "checks cost what was recorded" if ratio is None else f"cost ratio {ratio:.3g}"
        panels.heading(panel, costs)
        for policy in names:
            rows = [by_place.get((policy, ratio, limit)) for limit in limits]
            panels.trace(
                panel,
                type="bar",
                x=[limit.replace("<=", "≤") for limit in limits],
                y=[None if row is None else 100 * (1 - row.failures / row.runs) for row in rows],
                marker={"color": look[policy].colour},
                name=policy,
                legendgroup=policy,
                showlegend=panel == 0,
                hovertemplate=f"{policy}, %{{x}}: %{{y:.0f}} %",
            )
        panels.y(panel, range=[0, 104], title="Seeds (%)" if panel == 0 else "", nticks=6)
    panels.legend(names)
    return panels.build()
