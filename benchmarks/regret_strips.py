"""Regret cell by cell: a panel a table, a row a cell, a dot a policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from acetune.core.errors import GoalError
from acetune.replay.pictures.panels import Panels
from acetune.report.palette import COLOURS, LINE
from benchmarks.grid_cells import GridCell, Scores

_ROW = 17  # pixels
_LOOKS = ((COLOURS[7], "circle-open"), (COLOURS[1], "diamond"), (COLOURS[0], "circle"))


def regret_strips(
    scores: Scores,
    policies: Mapping[str, str],
    *,
    title: str = "Regret in every cell",
    subtitle: str = "0 is the best feasible checkpoint of the table, 1 the median configuration's",
) -> go.Figure:
    """``policies``, at most three, and their names in the legend; the last one is drawn on top.

    A row is named by limit, cost ratio and budget.
    """
    tables = list(dict.fromkeys(cell.table for cell in scores))
    if not tables or not 1 <= len(policies) <= len(_LOOKS):
        raise GoalError(f"one to three policies in at least one cell, got {list(policies)}")
    by_table = {table: [cell for cell in scores if cell.table == table] for table in tables}
    rows = max(map(len, by_table.values()))
    panels = Panels(
        len(tables),
        title=title,
        subtitle=subtitle,
        heights=(_ROW * rows + 8,),
        left=112,
        between=124,
    )
    for panel, (table, cells) in enumerate(by_table.items()):
        panels.heading(panel, table)
        _draw(panels, panel, scores, cells, policies)
        panels.x(panel, range=[-0.02, 1.02], title="Regret")
        panels.y(
            panel,
            range=[rows - 0.4, -0.6],
            tickvals=list(range(len(cells))),
            ticktext=[f"{c.kind}, {c.cost_ratio:g}, {c.configs}" for c in cells],
            ticks="",
        )
    panels.legend(list(policies.values()))
    return panels.build()


def _draw(
    panels: Panels,
    panel: int,
    scores: Scores,
    cells: Sequence[GridCell],
    policies: Mapping[str, str],
) -> None:
    found = [[scores[cell][policy].regret for policy in policies] for cell in cells]
    panels.trace(  # one line a row, with gaps between them
        panel,
        x=[end for regrets in found for end in (min(regrets), max(regrets), None)],
        y=[y for row in range(len(cells)) for y in (row, row, None)],
        mode="lines",
        line={"color": LINE, "width": 1},
        hoverinfo="skip",
    )
    looks = _LOOKS[-len(policies) :]  # the last policy always looks the same
    for i, (policy, label) in enumerate(policies.items()):
        colour, symbol = looks[i]
        panels.trace(
            panel,
            x=[regrets[i] for regrets in found],
            y=list(range(len(cells))),
            mode="markers",
            marker={
                "color": colour,
                "symbol": symbol,
                "size": 8,
                "line": {"width": 1.6, "color": colour},
            },
            name=label,
            legendgroup=policy,
            showlegend=panel == 0,
            hovertemplate="%{x:.3f}",
            cliponaxis=False,
        )
