"""What is drawn of learning curves: lines by stratum, labels at their ends, marks on them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from acetune.report.figures import _look as look
from acetune.report.figures._figure_data import (
    STRATA_ORDER,
    CheckpointRow,
    FigureData,
    Floats,
    Whole,
    spread,
)
from acetune.report.figures._look import NEUTRAL, STAR, STRATA, Json, note, scatter
from acetune.report.figures._values import Window, plain_near, safe, within_reach
from acetune.study.report_arrays import VALID

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


def gathered(digest: FigureData, chosen: dict[int, str]) -> list[Curve]:
    """The reports of the chosen trials, thinned where there are many."""
    reports = digest.view.reports
    most = max(20, _POINTS // max(1, len(chosen)))
    rows = np.flatnonzero(digest.is_of(chosen) & digest.current)
    found = []
    for trial, why in chosen.items():
        its = rows[reports.trial[rows] == trial]
        stopped = digest.rows[trial].state == "stopped"
        last = int(reports.step[its[-1]]) if len(its) else 0
        found.append(Curve(trial, why, _thinned(digest, its, most), len(its), last, stopped))
    return found


def _thinned(digest: FigureData, rows: Whole, most: int) -> Whole:
    """Fewer rows: the ends, the best, the changes of stratum, and evenly spread others."""
    if len(rows) <= most:
        return rows
    kinds = digest.view.reports.stratum[rows]
    changes = np.flatnonzero(kinds[1:] != kinds[:-1])
    changes = np.union1d(changes, changes + 1)
    changes = changes[np.linspace(0, len(changes) - 1, min(len(changes), most // 4)).astype(int)]
    best = int(np.argmin(digest.loss[rows]))
    even = spread(len(rows), most // 2)  # on a linear axis, and on a logarithmic one
    even_log = np.geomspace(1, len(rows), most // 4).round().astype(np.int64) - 1
    chosen = np.concatenate([even, even_log, changes, [0, best, len(rows) - 1]])
    return np.asarray(rows[np.unique(chosen)])


def places_of_numbers(values: Floats) -> Whole:
    """Where values are finite."""
    return np.flatnonzero(np.isfinite(values))


def _on(axis: str, group: str) -> Json:
    """On which axis a trace lies; the upper one has the legend."""
    return {"legendgroup": group, "showlegend": axis == "y", "yaxis": axis}


def lines_by_stratum(
    digest: FigureData, drawn: list[Curve], values: list[Floats], span: float, axis: str
) -> list[Json]:
    """A trace a stratum: its marks, and the segments that lead to them, parted by gaps."""
    reports = digest.view.reports
    traces = []
    for stratum, word in reversed(STRATA_ORDER):
        points: list[tuple[Any, Any, int, str]] = []  # x, y, size, text
        for curve, its in zip(drawn, values, strict=True):
            steps, y = reports.step[curve.rows].tolist(), plain_near(its, span)
            # in words: the browser would round, and shorten, what the axis has
            texts = [f"trial {curve.trial}, step {step}" for step in steps]
            before = -2
            for i in np.flatnonzero(reports.stratum[curve.rows] == stratum).tolist():
                if i != before + 1 and points:  # a gap
                    points.append((None, None, 0, ""))
                if i != before + 1 and i > 0:  # the segment that leads here has no mark behind
                    points.append((steps[i - 1], y[i - 1], 0, texts[i - 1]))
                points.append((steps[i], y[i], 5, texts[i]))
                before = i
        if not points or (axis != "y" and all(y is None for _, y, size, _ in points if size)):
            continue  # below, what was not checked has no values
        xs, ys, sizes, labels = map(list, zip(*points, strict=True))
        marker = {
            "symbol": look.STRATUM_SYMBOLS[stratum],
            "color": look.STRATUM_COLOURS[stratum],
            "size": sizes,
            "opacity": 1,
            "line": {"width": 0},  # sizes of their own would get a light edge
        }
        traces.append(
            scatter(
                "lines+markers",
                word,
                **_on(axis, word),
                x=xs,
                y=ys,
                text=labels,
                line={"color": look.STRATUM_COLOURS[stratum], "width": 1.5},
                marker=marker,
                hovertemplate=f"%{{text}}: %{{y}}<extra>{STRATA[stratum]}</extra>",
            )
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
    digest: FigureData,
    drawn: list[Curve],
    values: list[Floats],
    y: Window,
    span: list[float],
    height_px: int,
    log: bool,
) -> list[Json]:
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
        finite = places_of_numbers(its)
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
            shift = 8 if right else -8
            labels.append(note(**side, xshift=shift, yref="y domain", y=best / height_px))
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


# -- marks -----------------------------------------------------------------------------------------


def stop_marks(
    digest: FigureData, drawn: list[Curve], values: list[Floats], span: float
) -> list[Json]:
    """Squares around the last reports of stopped trials, or the last that can be drawn."""
    steps, heights, texts = [], [], []
    for curve, its in zip(drawn, values, strict=True):
        finite = places_of_numbers(its)
        if curve.stopped and len(finite):
            steps.append(int(digest.view.reports.step[curve.rows[finite[-1]]]))
            heights.append(float(its[finite[-1]]))
            texts.append(f"trial {curve.trial} stopped at step {curve.last_step}")
    if not steps:
        return []
    edge = {"width": 2, "color": NEUTRAL}
    square = {"symbol": "square-open", "size": 12, "color": NEUTRAL, "line": edge}
    where = {"x": steps, "y": plain_near(heights, span), "text": texts, "marker": square}
    return [scatter("markers", "stopped here", **where, hovertemplate="%{text}<extra></extra>")]


def late_rows(digest: FigureData, drawn: list[Curve]) -> Whole:
    """Rows of the checks that were made at the end of these trials, or after the run."""
    rows = np.flatnonzero(digest.late)
    its = np.isin(digest.view.reports.trial[rows], [curve.trial for curve in drawn])
    return np.asarray(rows[its])


def late_checks(
    digest: FigureData, rows: Whole, values: Floats, span: float, axis: str
) -> list[Json]:
    """Diamonds where checkpoints lie that were checked late; a cross in those that are invalid."""
    known = np.isfinite(values)
    rows, values = rows[known], values[known]
    if not len(rows):
        return []
    strata = digest.view.reports.stratum[rows].tolist()
    trials = digest.view.reports.trial[rows].tolist()
    steps = digest.view.reports.checked_step[rows].tolist()
    return [
        scatter(
            "markers",
            "checked at the end",
            **_on(axis, "late"),
            x=steps,
            y=plain_near(values, span),
            text=[
                f"trial {trial}, checked at its end: {STRATA[stratum]}, step {step}"
                for trial, stratum, step in zip(trials, strata, steps, strict=True)
            ],
            marker={
                "symbol": ["diamond" if s == VALID else "diamond-x-open" for s in strata],
                "color": [look.STRATUM_COLOURS[stratum] for stratum in strata],
                "size": 10,
            },
            hovertemplate="%{text}: %{y}<extra></extra>",
        )
    ]


def answer_star(answer: CheckpointRow, value: float, span: float, axis: str) -> Json:
    """A star at the checkpoint that is the answer."""
    return scatter(
        "markers",
        "the answer",
        **_on(axis, "answer"),
        x=[answer.step],
        y=plain_near([value], span),
        marker=STAR,
        text=f"trial {answer.trial}, step {answer.step}",
        hovertemplate="%{text}: %{y}<extra>the answer</extra>",
    )
