"""Reports by stratum, over time or by step."""

from __future__ import annotations

from typing import Literal

import numpy as np

from acetune.core.errors import GoalError
from acetune.core.formatting import count
from acetune.report.figures._drawing import Drawing, SmallTable, axis_title, base_layout, nothing
from acetune.report.figures._figure_data import FigureData, Floats, aims
from acetune.report.figures._look import STRATA, STRATUM_COLOURS, STRATUM_PATTERNS, Json, bar_marker
from acetune.report.figures._values import plain, time_unit
from acetune.study.report_arrays import INVALID, UNCHECKED, VALID

_BINS = 40


def strata(digest: FigureData, by: Literal["time", "step"] = "time") -> Drawing:
    """How many reports were valid, invalid and unchecked."""
    if by not in ("time", "step"):
        raise GoalError(f"by must be 'time' or 'step', got {by!r}")
    title = "Reports by stratum" + (" and step" if by == "step" else " over time")
    reports = digest.view.reports
    kinds = reports.stratum[digest.is_step]
    if not len(kinds):
        return nothing("strata", title, "No reports yet.")
    edges: Floats
    if by == "time":
        unit, unit_name = time_unit(digest.end)
        x = digest.elapsed[digest.is_step] / unit
        last = max(digest.end / unit, float(x.max())) or 1.0
        edges = np.linspace(0.0, last, _BINS + 1, dtype=np.float64)
        label = f"Time ({unit_name})"
    else:
        steps = reports.step[digest.is_step]
        each = max(1, -(-int(steps.max()) // _BINS))  # whole steps a bin
        x = steps.astype(float)
        edges = np.arange(0.5, x.max() + each, each, dtype=np.float64)
        label = "Step" if each == 1 else f"Step, {each} a bar"
    width = edges[1] - edges[0]
    # bins of one width need no search, and are counted for all strata at once
    bins = np.clip(((x - edges[0]) / width).astype(np.int64), 0, len(edges) - 2)
    counts = np.bincount(bins * 3 + kinds, minlength=3 * (len(edges) - 1)).reshape(-1, 3)
    data: list[Json] = []
    totals = {}
    for stratum in (VALID, INVALID, UNCHECKED):
        totals[stratum] = int(counts[:, stratum].sum())
        data.append(
            {
                "type": "bar",
                "name": STRATA[stratum],
                "x": plain((edges[:-1] + edges[1:]) / 2),
                "y": counts[:, stratum].tolist(),
                "width": float(f"{0.92 * width:.5g}"),
                "marker": bar_marker(STRATUM_COLOURS[stratum], STRATUM_PATTERNS[stratum]),
                "hovertemplate": f"%{{y:,}} {STRATA[stratum]}<extra></extra>",
            }
        )
    layout = base_layout(
        320,
        barmode="stack",
        hovermode="x",
        xaxis={"title": axis_title(label)},
        yaxis={"title": axis_title("Reports"), "rangemode": "tozero"},
        margin={"b": 62},
    )
    total = len(kinds)
    kept, not_so = "keeps every limit", "breaks one"
    if aims(digest.goals):
        kept, not_so = "is as far within every limit as the search aimed for", "is not"
    caption = (
        f"Valid: the checkpoint was checked and {kept}. Invalid: it was checked and {not_so}. "
        "Unchecked: no check was due, or the checkpoint could not have won. Each report is ranked "
        "with those of its own stratum."
    )
    if not digest.constrained:
        caption = "The study has no constraints: every report counts as valid."
    parts = [f"{totals[s]:,} {STRATA[s]} ({totals[s] / total:.0%})" for s in totals]
    alt = f"{count(total, 'report')}: {', '.join(parts)}."
    table = SmallTable(
        ["stratum", "reports", "share"],
        [[STRATA[s], f"{n:,}", f"{n / total:.1%}"] for s, n in totals.items()],
    )
    return Drawing("strata", title, caption, alt, data, layout, table)
