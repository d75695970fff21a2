"""Curves as Plotly draws them: a trace a stratum, marks where trials stopped, labels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from acetune.report.figures.digest import STRATA_ORDER, Digest, Floats, Whole
from acetune.report.figures.look import NEUTRAL, NOTE, STRATA, STRATUM_COLOURS, STRATUM_SYMBOLS
from acetune.report.figures.ranges import Window, within_reach
from acetune.report.figures.words import plain_near, safe

_POINTS = 480  # in all curves together
_LABEL = 14  # pixels a label
_LETTER = 0.0195  # of the width of a phone


class Curve(NamedTuple):
    """The reports of one trial that are drawn."""

    trial: int
    why: str
    rows: Whole
    total: int  # reports it has
    last_step: int
    stopped: bool


def gathered(digest: Digest, chosen: dict[int, str]) -> list[Curve]:
    """The reports of the chosen trials, thinned where there are many."""
    reports = digest.view.reports
    most = max(20, _POINTS // max(1, len(chosen)))
    wanted = np.zeros(digest.size, bool)
    wanted[list(chosen)] = True
    rows = np.flatnonzero(wanted[digest.trial] & digest.current)
    found = []
    for trial, why in chosen.items():
        its = rows[reports.trial[rows] == trial]
        stopped = digest.rows[trial].state == "stopped"
        last = int(reports.step[its[-1]]) if len(its) else 0
        found.append(Curve(trial, why, _thinned(digest, its, most), len(its), last, stopped))
    return found


def _thinned(digest: Digest, rows: Whole, most: int) -> Whole:
    """Fewer rows: the ends, the best, the changes of stratum, and evenly spread others."""
    if len(rows) <= most:
        return rows
    kinds = digest.view.reports.stratum[rows]
    changes = np.flatnonzero(kinds[1:] != kinds[:-1])
    changes = np.union1d(changes, changes + 1)
    changes = changes[np.linspace(0, len(changes) - 1, min(len(changes), most // 4)).astype(int)]
    best = int(np.argmin(digest.loss[rows]))
    even = np.concatenate(
        [  # on a linear and on a logarithmic axis
            np.linspace(0, len(rows) - 1, most // 2).round().astype(np.int64),
            np.geomspace(1, len(rows), most // 4).round().astype(np.int64) - 1,
        ]
    )
    chosen = np.unique(np.concatenate([even, changes, [0, best, len(rows) - 1]]))
    return np.asarray(rows[chosen])


def lines_by_stratum(
    digest: Digest, drawn: list[Curve], values: list[Floats], span: float, axis: str, legend: bool
) -> list[dict[str, Any]]:
    """A trace a stratum: its marks, and the segments that lead to them, parted by gaps."""
    reports = digest.view.reports
    traces = []
    for stratum, word in reversed(STRATA_ORDER):
        xs: list[Any] = []
        ys: list[Any] = []
        sizes: list[int] = []
        texts: list[str] = []
        for curve, its in zip(drawn, values, strict=True):
            rows = curve.rows
            steps, y = reports.step[rows].tolist(), plain_near(its, span)
            before = -2
            for i in np.flatnonzero(reports.stratum[rows] == stratum).tolist():
                if i != before + 1 and xs:  # a gap
                    xs.append(None)
                    ys.append(None)
                    sizes.append(0)
                    texts.append("")
                if i != before + 1 and i > 0:  # the segment that leads here has no mark behind
                    xs.append(steps[i - 1])
                    ys.append(y[i - 1])
                    sizes.append(0)
                    texts.append(f"trial {curve.trial}, step {steps[i - 1]}")
                xs.append(steps[i])
                ys.append(y[i])
                sizes.append(5)
                # in words: the browser would round, and shorten, what the axis has
                texts.append(f"trial {curve.trial}, step {steps[i]}")
                before = i
        marks = (y for y, size in zip(ys, sizes, strict=True) if size)
        if not xs or (not legend and all(y is None for y in marks)):
            continue  # below, what was not checked has no values
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": word,
                "legendgroup": word,
                "showlegend": legend,
                "yaxis": axis,
                "x": xs,
                "y": ys,
                "text": texts,
                "line": {"color": STRATUM_COLOURS[stratum], "width": 1.5},
                "marker": {
                    "symbol": STRATUM_SYMBOLS[stratum],
                    "color": STRATUM_COLOURS[stratum],
                    "size": sizes,
                    "opacity": 1,
                    "line": {"width": 0},  # sizes of their own would get a light edge
                },
                "hovertemplate": f"%{{text}}: %{{y}}<extra>{STRATA[stratum]}</extra>",
            }
        )
    return traces


def step_span(first: int, last: int, log: bool) -> list[float]:
    """The steps to show, with room for a label at the right."""
    if log:
        low, high = float(np.log10(max(1, first))), float(np.log10(last))
    else:
        low, high = float(first), float(last)
    # steps of one trial may be too near each other for floats to tell them apart
    room = max(high - low, 1e-12 * abs(high)) or 1.0
    return [low - 0.03 * room, high + 0.05 * room]


def end_labels(
    digest: Digest,
    drawn: list[Curve],
    values: list[Floats],
    y: Window,
    span: list[float],
    height_px: int,
    log: bool,
) -> list[dict[str, Any]]:
    """A label at the end of each curve, moved up or down where it would lie on another.

    From a label that had to move a line leads to its curve.
    """
    placed: list[tuple[float, float, float]] = []  # start and width in shares, pixels from below
    steps = [digest.view.reports.step[curve.rows].astype(float) for curve in drawn]
    across = np.concatenate([np.log10(its) if log else its for its in steps])
    across = (across - span[0]) / (span[1] - span[0])
    # what lies far outside is in nobody's way, and dividing it may overflow
    near = np.clip(np.concatenate(values), y.low - y.span, y.high + y.span)
    upwards = height_px * (near - y.low) / y.span
    labels = []
    for curve, its in zip(drawn, values, strict=True):
        finite = np.flatnonzero(np.isfinite(its))
        if not len(finite):
            continue
        step = float(digest.view.reports.step[curve.rows[finite[-1]]])
        x = float(np.log10(step)) if log else step
        share = (x - span[0]) / (span[1] - span[0])
        end = float(within_reach(its[finite[-1]]))
        height = height_px * float(np.clip((end - y.low) / y.span, 0.03, 0.97))
        right = share < 0.72
        text = f"{curve.trial} {curve.why.partition(',')[0]}"
        width = _LETTER * len(text)
        start = share if right else share - width
        beside = upwards[(across > start) & (across < start + width)]
        best = min(
            (height + _LABEL * shift / 2 for shift in range(-24, 25)),
            key=lambda at: (
                not 6 < at < height_px + 4,
                any(
                    start < other + wide and other < start + width and abs(at - h) < _LABEL
                    for other, wide, h in placed
                ),
                # a curve comes from the left: the label stands beside it, or above it, and not
                # on marks if they can be avoided near by
                abs(at - height - (0 if right else _LABEL))
                + _LABEL * int(np.sum(np.abs(beside - at) < _LABEL / 2)),
            ),
        )
        placed.append((start, width, best))
        side = {
            "text": safe(text, 28),
            "font": {"size": 11},
            "x": x,
            "xanchor": "left" if right else "right",
            "yanchor": "middle",
        }
        moved = best - height
        if abs(moved) < _LABEL:
            away = {"xshift": 8 if right else -8, "yref": "y domain", "y": best / height_px}
            labels.append({**NOTE, **side, **away})
            continue
        labels.append(
            {
                **side,
                "y": y.low + y.span * height / height_px,
                "showarrow": True,
                "arrowhead": 0,
                "arrowwidth": 1,
                "arrowcolor": NEUTRAL,
                "standoff": 5,
                "ax": 14 if right else -14,
                "ay": -round(moved),
            }
        )
    return labels
