"""Differences between paired runs, and bootstrap intervals of means."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from acetune.core.errors import GoalError
from acetune.replay.runs import Cell, Run
from acetune.replay.statistics import Interval, paired_runs

_BLOCK = 2_000_000  # numbers drawn at once in a bootstrap: bounds its memory


def paired_differences(
    runs: Iterable[Run], policy_a: str, policy_b: str
) -> dict[Cell, list[float]]:
    """By how much ``policy_a`` was better than ``policy_b``, a number a seed, by cell.

    Positive means that a was better, whichever way the objective points. Seeds that both have run,
    in rising order; those where one of them found nothing have no difference and are left out:
    :func:`acetune.replay.statistics.paired_signs` counts them.
    """
    return {
        cell: [b.loss - a.loss for a, b in pairs if a.best is not None and b.best is not None]
        for cell, pairs in paired_runs(runs, policy_a, policy_b).items()
    }


def bootstrap_mean(
    values: ArrayLike, level: float = 0.95, samples: int = 10_000, seed: int = 0
) -> Interval:
    """The mean with its percentile bootstrap interval.

    With fewer than about ten values such an interval is too narrow; one value has none, and gives
    itself three times. The same values and seed give the same interval.

    >>> bootstrap_mean([2.0, 2.0, 2.0])
    Interval(mean=2.0, low=2.0, high=2.0)
    """
    found = np.asarray(values, float).ravel()
    if not found.size or not np.isfinite(found).all():
        raise GoalError(f"a bootstrap needs finite numbers, at least one, got {values!r}")
    if not 0 < level < 1:
        raise GoalError(f"level must lie between 0 and 1, got {level}")
    if samples < 1:
        raise GoalError(f"samples must be at least 1, got {samples}")
    rng = np.random.default_rng(seed)
    rows = max(1, _BLOCK // found.size)
    means = [
        found[rng.integers(found.size, size=(min(rows, samples - start), found.size))].mean(axis=1)
        for start in range(0, samples, rows)
    ]
    low, high = np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(found.mean()), float(low), float(high))
