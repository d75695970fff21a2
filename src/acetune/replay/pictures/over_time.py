"""The best feasible objective over simulated time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from acetune.replay.pictures.panels import Look, Panels, cell_titles, chosen, looks
from acetune.replay.runs import Run
from acetune.replay.statistics import BestOverTime, best_over_time
from acetune.report.palette import LINE, faint

Array = NDArray[Any]

_POINTS = 240
_MOST_BANDS = 6


def over_time(
    runs: Iterable[Run],
    *,
    objective: str = "objective",
    policies: Sequence[str] | None = None,
    bands: bool | None = None,
) -> go.Figure:
    """One line a policy, one panel a cell, and below it how many runs have found something.

    A line is the mean over the runs that have found something feasible, and begins when half of
    them have. The vertical axis shows where lines are half-way and at the end: poorer beginnings
    leave the panel. Bands are drawn for up to six policies unless told otherwise. ``policies`` says
    which to draw, and in which order they get their colours.
    """
    found = list(runs)
    names = chosen(policies, (run.policy for run in found))
    found = [run for run in found if run.policy in names]
    cells = list(dict.fromkeys(run.cell for run in found))
    titles, shared = cell_titles(cells)
    bands = len(names) <= _MOST_BANDS if bands is None else bands
    title, subtitle = "Best feasible result over time", _subtitle(shared, bands)
    panels = Panels(len(cells), title=title, subtitle=subtitle, heights=(230, 44))
    look = looks(names)
    for panel, cell in enumerate(cells):
        of_cell = [run for run in found if run.cell == cell]
        times = _times(of_cell)
        lines = {
            policy: best_over_time([r for r in of_cell if r.policy == policy], times)
            for policy in names
            if any(run.policy == policy for run in of_cell)
        }
        panels.heading(panel, titles[panel])
        _draw(panels, panel, lines, look, bands)
        _set_values(panels, panel, lines, of_cell[0].mode, objective)
        _set_times(panels, panel, times, cell.budget_s)
    for policy in names:  # the legend, in the order asked for, whatever a panel holds
        line = {"color": look[policy].colour, "dash": look[policy].dash, "width": 2.4}
        panels.trace(
            0,
            x=[None],
            y=[None],
            mode="lines",
            line=line,
            name=policy,
            legendgroup=policy,
            showlegend=True,
        )
    panels.legend(names)
    return panels.build()


def _subtitle(shared: str, bands: bool) -> str:
    band = "; bands: 95 % bootstrap intervals" if bands else ""
    told = f"Mean over the runs that have found something, from where half of them have{band}"
    return f"{shared}<br>{told}" if shared else told


def _times(runs: Sequence[Run]) -> Array:
    """Up to the budget, or later where checks come after it."""
    ends = [run.time_to_best_s for run in runs if run.time_to_best_s is not None]
    return np.linspace(0, max([runs[0].cell.budget_s, *ends]), _POINTS)


def _draw(
    panels: Panels, panel: int, lines: dict[str, BestOverTime], look: dict[str, Look], bands: bool
) -> None:
    if bands:  # all of them first: under the lines
        for policy, line in lines.items():
            shown = ~np.isnan(line.centre)
            high, low = line.high[shown], line.low[shown][::-1]
            panels.trace(
                panel,
                x=np.concatenate([line.times[shown], line.times[shown][::-1]]),
                y=np.concatenate([high, low]),
                mode="lines",
                line={"width": 0},
                fill="toself",
                fillcolor=faint(look[policy].colour, 0.13),
                legendgroup=policy,
                hoverinfo="skip",
            )
    for policy, line in lines.items():
        style = {"color": look[policy].colour, "dash": look[policy].dash, "shape": "hv"}
        for part, y, width, unit in (
            (0, line.centre, 2.0, ".5g}"),
            (1, 100 * line.share, 1.3, ".0f} %"),
        ):
            panels.trace(
                panel,
                part,
                x=line.times,
                y=y,
                mode="lines",
                line=style | {"width": width},
                name=policy,
                legendgroup=policy,
                hovertemplate="%{x:.3g} s: %{y:" + unit,
            )


def _set_values(
    panels: Panels, panel: int, lines: dict[str, BestOverTime], mode: str, objective: str
) -> None:
    first = panel % panels.columns == 0
    better = "higher is better" if mode == "max" else "lower is better"
    limits = value_range(list(lines.values()))
    panels.y(
        panel,
        title=f"Best feasible {objective}<br>({better})" if first else "",
        range=limits,
        nticks=6,
        showticklabels=limits is not None,
    )
    panels.y(
        panel,
        1,
        title="% of runs" if first else "",
        range=[-6, 106],
        tickvals=[0, 50, 100],
    )
    told = "have found something feasible"
    panels.note(panel, told, 0.5, 0.5, 1, inside=True)
    if limits is None:
        text = "of no policy have half of the runs<br>found something feasible"
        panels.note(panel, text, 0.5, 0.5, inside=True)
        panels.y(panel, showgrid=False, ticks="")


def _set_times(panels: Panels, panel: int, times: Array, budget_s: float) -> None:
    end = float(times[-1])
    panels.x(panel, 0, range=[0.0, end])
    panels.x(panel, 1, title="Simulated time (s)", range=[0.0, end])
    if end > 1.001 * budget_s:
        for part in (0, 1):
            panels.upright(panel, part, budget_s, {"color": LINE, "width": 1, "dash": "2px,2px"})
        low = ("right", "bottom")
        panels.note(panel, "budget", budget_s / end, 0, inside=True, anchor=low, shift=(-2, 0))


def value_range(lines: Sequence[BestOverTime]) -> list[float] | None:
    """The values worth showing: of all lines half-way, and with bands at the end; None without."""
    values = [line.centre[len(line.centre) // 2] for line in lines]
    values += [end for line in lines for end in (line.centre[-1], line.low[-1], line.high[-1])]
    shown = [float(value) for value in values if np.isfinite(value)]
    if not shown:
        return None
    low, high = min(shown), max(shown)
    pad = 0.08 * (high - low) or 0.01 * abs(high) or 1.0
    return [low - pad, high + pad]
