"""Means with their intervals, a row a policy, a panel a cell."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import plotly.graph_objects as go

from acetune.replay.pictures.panels import Look, Panels, cell_titles, chosen, looks
from acetune.replay.runs import Summary
from acetune.replay.statistics import Interval, scipy_stats
from acetune.report.palette import COLOURS, GRID

_ROW = 24  # pixels


def dots(
    summaries: Iterable[Summary],
    *,
    objective: str = "objective",
    policies: Sequence[str] | None = None,
) -> go.Figure:
    """The mean over the runs that found something, with Student's interval, and who found nothing.

    ``policies`` says which to draw, from above, and in which order they get their colours.
    """
    found = list(summaries)
    names = chosen(policies, (summary.policy for summary in found))
    cells = list(dict.fromkeys(summary.cell for summary in found if summary.policy in names))
    titles, shared = cell_titles(cells)
    told = "Mean and 95 % interval; next to it the runs that found nothing feasible"
    label = int(16 + 7.2 * max(map(len, names)))
    panels = Panels(
        len(cells),
        title="Best feasible result at the end",
        subtitle=f"{shared}<br>{told}" if shared else told,
        heights=(_ROW * len(names) + 10,),
        left=label,
        between=66,
        right=66,
    )
    look = looks(names)
    by_place = {(summary.policy, summary.cell): summary for summary in found}
    for panel, cell in enumerate(cells):
        panels.heading(panel, titles[panel])
        rows = [by_place.get((policy, cell)) for policy in names]
        intervals = [mean_interval(row) if row else None for row in rows]
        _draw(panels, panel, names, rows, intervals, look)
        panels.y(
            panel,
            range=[len(names) - 0.5, -0.5],
            tickvals=list(range(len(names))),
            ticktext=names,
            showticklabels=panel % panels.columns == 0,
            ticks="",
            gridcolor=GRID,
        )
        panels.x(panel, range=_range(intervals), title=f"Best feasible {objective}", nticks=7)
    return panels.build()


def mean_interval(summary: Summary) -> Interval | None:
    """The mean of those that found something, with Student's interval of 95 %; None if none did.

    A single run has no interval: its ends are NaN.
    """
    if summary.mean is None:
        return None
    count = summary.runs - summary.failures
    if summary.sd is None or count < 2:
        return Interval(summary.mean, math.nan, math.nan)
    t = float(scipy_stats().t.ppf(0.975, count - 1))
    reach = t * summary.sd / math.sqrt(count)
    return Interval(summary.mean, summary.mean - reach, summary.mean + reach)


def _draw(
    panels: Panels,
    panel: int,
    names: Sequence[str],
    rows: Sequence[Summary | None],
    intervals: Sequence[Interval | None],
    look: dict[str, Look],
) -> None:
    for y, (policy, row, interval) in enumerate(zip(names, rows, intervals, strict=True)):
        if row is None:
            continue
        if row.failures:
            every = row.failures == row.runs
            panels.note(
                panel,
                f"all {row.runs} found nothing" if every else f"{row.failures} of {row.runs}",
                0.5 if every else 1,
                1 - (y + 0.5) / len(names),
                inside=True,
                anchor=("center" if every else "left", "middle"),
                shift=(0 if every else 6, 0),
                colour=COLOURS[1],
            )
        if interval is not None:
            reach = interval.high - interval.mean
            panels.trace(
                panel,
                x=[interval.mean],
                y=[y],
                error_x={
                    "array": [0 if math.isnan(reach) else reach],
                    "color": look[policy].colour,
                    "thickness": 2,
                    "width": 0,
                },
                mode="markers",
                marker={"color": look[policy].colour, "symbol": look[policy].symbol, "size": 9},
                name=policy,
                hovertemplate="%{x:.5g}",
            )


def _range(intervals: Sequence[Interval | None]) -> list[float] | None:
    ends = [end for found in intervals if found for end in found if not math.isnan(end)]
    if not ends:
        return None
    pad = 0.05 * (max(ends) - min(ends)) or 0.01 * abs(ends[0]) or 1.0
    return [min(ends) - pad, max(ends) + pad]
