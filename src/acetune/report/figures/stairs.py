"""Staircases: the best objective by the limit of one constraint."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from acetune.core.goals import Constraint
from acetune.report.figures.digest import Digest, Floats, Whole, excess
from acetune.report.breakpoints import on_fresh_data

_MOST = 160  # steps that are drawn


class Stairs(NamedTuple):
    """Limits from strict to loose, and what is best from each of them on."""

    limits: Floats
    values: Floats
    labels: list[str]
    unchecked: list[int]  # better checkpoints that were never checked


def stairs_of(points: list[dict[str, Any]]) -> Stairs:
    """Without the first, which holds where nothing qualifies."""
    points = [point for point in points if point["limit"] is not None]
    return Stairs(
        np.array([point["limit"] for point in points], float),
        np.array([point["value"] for point in points], float),
        [f"trial {point['trial']}, step {point['step']}" for point in points],
        [point["unchecked_better"] for point in points],
    )


def fewer(stairs: Stairs) -> Stairs:
    """As many steps as can be told apart."""
    if len(stairs.limits) <= _MOST:
        return stairs
    some = np.linspace(0, len(stairs.limits) - 1, _MOST).round().astype(int)
    return Stairs(
        stairs.limits[some],
        stairs.values[some],
        [stairs.labels[i] for i in some],
        [stairs.unchecked[i] for i in some],
    )


def standing_on(stairs: Stairs, constraint: Constraint) -> int | None:
    """Which step of the staircase the limit stands on."""
    sign = 1.0 if constraint.lower is None else -1.0
    limits = sign * stairs.limits
    place = int(np.searchsorted(limits, sign * constraint.limit, side="right")) - 1
    return None if place < 0 else place


def shifted(digest: Digest, index: int, more: float) -> tuple[Floats, Floats]:
    """Limits and losses of the staircase if values were so many standard errors worse.

    Those on fresh data, where there are any, are taken as they are.
    """
    measured = digest.measured
    fine = np.ones(len(measured.rows), bool)
    for i, constraint in enumerate(digest.goals.constraints):
        if i != index:
            beyond = excess(constraint, measured.values[:, i], measured.stderrs[:, i])
            fine &= beyond <= 0
    fine &= np.isfinite(measured.values[:, index])
    constraint = digest.goals.constraints[index]
    beyond = excess(constraint, measured.values[fine, index], measured.stderrs[fine, index], more)
    sign = 1.0 if constraint.lower is None else -1.0
    limits = constraint.limit + sign * beyond
    kept, limits = on_fresh_data(digest.view, index, measured.rows[fine], limits)
    limits, loss = limits[kept], measured.loss[fine][kept]
    steps = front(sign * limits, loss)
    steps = steps[np.linspace(0, len(steps) - 1, min(len(steps), _MOST)).astype(int)]
    return limits[steps], loss[steps]


def front(strictness: Floats, loss: Floats) -> Whole:
    """Places of what nothing beats in both, the strictest first.

    >>> front(np.array([3.0, 1.0, 2.0, 1.0]), np.array([1.0, 6.0, 7.0, 5.0])).tolist()
    [3, 0]
    """
    order = np.argsort(strictness)  # by one key: sorting by two takes ten times as long
    best = np.minimum.accumulate(loss[order])
    steps = order[np.append(True, best[1:] < best[:-1])[: len(best)]]
    # of equally strict ones only the best, which is the last of them
    reached = strictness[steps]
    last = np.append(reached[1:] > reached[:-1], True)[: len(reached)]
    return np.asarray(steps[last])
