"""How often trials were checked, and the measured cost ratio against Theorem 1's threshold."""

from __future__ import annotations

import math

import numpy as np

from acetune.core.cost import interval_threshold
from acetune.core.formatting import count
from acetune.policies.policy import checked_along, theorem_share
from acetune.report.figures._drawing import Drawing, SmallTable, axis_title, base_layout, nothing
from acetune.report.figures._figure_data import FigureData, Floats, Mask, thinned
from acetune.report.figures._look import BEST_OF_ALL, INVALID, NEUTRAL, Json, scatter
from acetune.report.figures._values import log_axis, number, plain, within_reach
from acetune.study.table_rows import TrialRow

_TITLE = "Check along the way, or at the end?"
_MOST = 600


def intervals(digest: FigureData) -> Drawing:
    """Measured cost ratio of each trial over its last step T, by the interval that was chosen."""
    if not digest.constrained:
        return nothing("intervals", _TITLE, "This study has no constraints, so nothing is checked.")
    trials = [row for row in digest.view.trials if row.total_steps and row.interval]
    steps = np.array([row.total_steps for row in trials], float)
    each = np.array([checked_along(row.schedule) for row in trials], bool)
    ratio = within_reach(np.array([row.cost_ratio or math.nan for row in trials], float))
    known = np.isfinite(ratio)
    often, rarely = _when(trials, each, "along the way"), _when(trials, ~each, "at the end")
    if not known.any():
        why = "No trial has started with a measured cost of a check yet."
        if trials:
            why += f" {_chosen_words(each, often, rarely)}"
        return nothing("intervals", _TITLE, why)
    shares = (theorem_share(row.schedule) for row in trials)
    p = next((share for share in shares if share is not None), None)
    rows = thinned(np.flatnonzero(known), _MOST, _extremes(ratio, steps, known))
    data = _threshold(p, steps[known]) if p is not None else []
    for label, which, colour, symbol in (
        (f"checked {often}", each, BEST_OF_ALL, "circle"),
        (f"checked {rarely}", ~each, INVALID, "square-open"),
    ):
        some = rows[which[rows]]
        if len(some):
            data.append(
                scatter(
                    "markers",
                    label,
                    x=plain(steps[some]),
                    y=plain(ratio[some], 4),
                    text=[f"trial {trials[i].trial}, T {trials[i].total_steps}" for i in some],
                    marker={"color": colour, "symbol": symbol, "size": 7, "opacity": 0.8},
                    hovertemplate="%{text}: r %{y}<extra></extra>",
                )
            )
    heights = [float(v) for trace in data for v in trace["y"] if v]
    layout = base_layout(
        340,
        xaxis={"title": axis_title("T, steps of the trial"), **_log_axis(steps[known])},
        yaxis={"title": axis_title("r, a check in steps"), **_log_axis(np.array(heights))},
        margin={"b": 66},
    )
    unknown = len(digest.view.trials) - int(known.sum())
    caption = _caption(p, len(rows), int(known.sum()), unknown)
    at = np.flatnonzero(known)
    middle = float(np.median(ratio[known]))
    alt = (
        f"{_chosen_words(each, often, rarely)} The measured cost of a check was "
        f"{number(float(ratio[known].min()), 3)} to {number(float(ratio[known].max()), 3)} "
        f"training steps, {number(middle, 3)} in the middle."
    )
    if p is not None:
        lengths, which = np.unique(steps[at], return_inverse=True)
        thresholds = np.array([interval_threshold(p, length) for length in lengths])
        below = ratio[at] < thresholds[which]
        alt += f" {int(below.sum()):,} of {len(at):,} trials lay below the threshold."
        if late := int(np.sum(each[at] & ~below)):
            caption += (
                f" The T of {count(late, 'trial')} became known after the start, when it had been "
                f"decided already to check {often}."
            )
    table = _table(each, steps, ratio, often, rarely)
    return Drawing("intervals", _TITLE, caption, alt, data, layout, table)


def _when(trials: list[TrialRow], which: Mask, otherwise: str) -> str:
    """When those trials are checked, in the few words of the first of them."""
    shorts = (row.schedule.short for row, one in zip(trials, which, strict=True) if one)
    return next(shorts, "") or otherwise


def _chosen_words(each: Mask, often: str, rarely: str) -> str:
    every = int(each.sum())
    return (
        f"{count(every, 'trial')} {'was' if every == 1 else 'were'} to be checked {often}, "
        f"{len(each) - every:,} only {rarely}."
    )


def _extremes(ratio: Floats, steps: Floats, known: Mask) -> list[int]:
    at = np.flatnonzero(known)
    some = [ratio[at].argmin(), ratio[at].argmax(), steps[at].argmin(), steps[at].argmax()]
    return [int(at[i]) for i in some]


def _threshold(p: float, steps: Floats) -> list[Json]:
    low, high = max(2.0, float(steps.min()) / 1.5), max(4.0, float(steps.max()) * 1.5)
    x = np.geomspace(low, high, 60)
    return [
        scatter(
            "lines",
            f"threshold (p = {p:g})",
            x=plain(x, 4),
            y=plain([interval_threshold(p, value) for value in x], 4),
            line={"color": NEUTRAL, "width": 2, "dash": "6px,3px"},
            hovertemplate="threshold %{y} at T %{x}<extra></extra>",
        )
    ]


def _log_axis(values: Floats) -> Json:
    """With some room, and never less than a factor of 4."""
    low, high = float(np.log10(values.min())), float(np.log10(values.max()))
    room = max(0.06 * (high - low), (0.6 - (high - low)) / 2, 0.05)
    return log_axis(low - room, high + room)


def _caption(p: float | None, shown: int, known: int, unknown: int) -> str:
    text = (
        "Each mark is a trial, where it stood when it started: the number of its steps T, and the "
        "cost of one check measured in training steps by then, r."
    )
    if p is not None:
        text += (
            f" Below the dashed line, Theorem 1's threshold for p = {p:g} (the share that is "
            "stopped), checking at every step is expected to cost less; above it, one check at "
            "the end."
        )
    else:
        text += " The policy does not choose by the theorem, so no threshold is drawn."
    if shown < known:
        text += f" {shown:,} of {known:,} trials are shown."
    if unknown:
        verb = "is" if unknown == 1 else "are"
        text += (
            f" {count(unknown, 'trial')} without a known T, interval or ratio {verb} left out; no "
            "ratio is known before the first check."
        )
    return text


def _table(each: Mask, steps: Floats, ratio: Floats, often: str, rarely: str) -> SmallTable:
    rows = []
    for label, which in ((often, each), (rarely, ~each)):
        if which.any():
            known = ratio[which][np.isfinite(ratio[which])]
            middle = number(float(np.median(known)), 3) if len(known) else "unknown"
            rows.append(
                [label, f"{int(which.sum()):,}", number(float(np.median(steps[which])), 3), middle]
            )
    return SmallTable(["checked", "trials", "median T", "median cost ratio"], rows)
