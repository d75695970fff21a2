"""Marks on learning curves: where trials stopped, what was checked late, the answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from acetune.report.figures.curve_lines import Curve
from acetune.report.figures.digest import Digest, Floats, Place, Whole
from acetune.report.figures.look import ANSWER, NEUTRAL, STRATA, STRATUM_COLOURS
from acetune.report.figures.words import plain_near
from acetune.study.columns import UNCHECKED, VALID


def stop_marks(
    digest: Digest, drawn: list[Curve], values: list[Floats], span: float
) -> dict[str, Any]:
    """Squares around the last reports of stopped trials, or the last that can be drawn."""
    steps, heights, texts = [], [], []
    for curve, its in zip(drawn, values, strict=True):
        finite = np.flatnonzero(np.isfinite(its))
        if curve.stopped and len(finite):
            steps.append(int(digest.view.reports.step[curve.rows[finite[-1]]]))
            heights.append(float(its[finite[-1]]))
            texts.append(f"trial {curve.trial} stopped at step {curve.last_step}")
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "stopped here",
        "x": steps,
        "y": plain_near(heights, span),
        "text": texts,
        "marker": {
            "symbol": "square-open",
            "size": 12,
            "color": NEUTRAL,
            "line": {"width": 2, "color": NEUTRAL},
        },
        "hovertemplate": "%{text}<extra></extra>",
    }


def late_rows(digest: Digest, drawn: list[Curve]) -> Whole:
    """Rows of the checks that were made at the end of these trials, or after the run."""
    reports = digest.view.reports
    wanted = np.zeros(digest.size, bool)
    wanted[[curve.trial for curve in drawn]] = True
    late = digest.view.is_latest & ~digest.is_step & (reports.stratum != UNCHECKED)
    return np.flatnonzero(wanted[digest.trial] & late)


def late_checks(
    digest: Digest, rows: Whole, values: Floats, span: float, axis: str
) -> list[dict[str, Any]]:
    """Diamonds where checkpoints lie that were checked late; a cross in those that are invalid."""
    known = np.isfinite(values)
    rows, values = rows[known], values[known]
    if not len(rows):
        return []
    strata = digest.view.reports.stratum[rows].tolist()
    trials = digest.view.reports.trial[rows].tolist()
    steps = digest.checked_step(rows).tolist()
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "checked at the end",
            "legendgroup": "late",
            "showlegend": axis == "y",
            "yaxis": axis,
            "x": steps,
            "y": plain_near(values, span),
            "text": [
                f"trial {trial}, checked at its end: {STRATA[stratum]}, step {step}"
                for trial, stratum, step in zip(trials, strata, steps, strict=True)
            ],
            "marker": {
                "symbol": ["diamond" if s == VALID else "diamond-x-open" for s in strata],
                "color": [STRATUM_COLOURS[stratum] for stratum in strata],
                "size": 10,
            },
            "hovertemplate": "%{text}: %{y}<extra></extra>",
        }
    ]


def answer_star(
    digest: Digest, answer: Place, value: float, span: float, axis: str
) -> dict[str, Any]:
    """A star at the checkpoint that is the answer."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "the answer",
        "legendgroup": "answer",
        "showlegend": axis == "y",
        "yaxis": axis,
        "x": [answer.step],
        "y": plain_near([value], span),
        "marker": {"symbol": "star", "size": 14, "color": ANSWER},
        "text": f"trial {answer.trial}, step {answer.step}",
        "hovertemplate": "%{text}: %{y}<extra>the answer</extra>",
    }
