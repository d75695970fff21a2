"""The best feasible objective over time, of several runs of one policy in one cell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from acetune.core.errors import GoalError
from acetune.replay.runs import Run

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Progress:
    """The best feasible objective over time, of several runs of one policy in one cell."""

    times: Array
    centre: Array  # NaN where too few have found something
    low: Array  # the band; infinite where it reaches runs that have found nothing
    high: Array
    share: Array  # of the runs that have found something


def best_over_time(
    runs: Iterable[Run],
    times: ArrayLike,
    centre: Literal["mean", "median"] = "mean",
    level: float | None = None,
    min_share: float = 0.5,
    samples: int = 2_000,
    seed: int = 0,
) -> Progress:
    """What was known at each of the times, as mean or median with a band, and by how many.

    ``"mean"`` is over the runs that have found something, with a bootstrap interval over runs (at
    95 %, or ``level``). It may get worse over time, when a run comes in with a first poor value.
    ``"median"`` counts runs that have found nothing as worst, with the quantiles between which
    80 %, or ``level``, of all runs lie; it never gets worse. Either is NaN before a share of
    ``min_share`` of the runs has found something.
    """
    found = list(runs)
    if len({(run.policy, run.cell, run.mode) for run in found}) != 1:
        raise GoalError("progress needs runs of one policy in one cell")
    if level is not None and not 0 < level < 1:
        raise GoalError(f"level must lie between 0 and 1, got {level}")
    grid = np.asarray(times, float)
    values = np.array([_value_at(run, grid) for run in found])  # runs x times
    known = ~np.isnan(values)
    share = known.mean(axis=0)
    shown = (share >= min_share) & known.any(axis=0)
    middle, low, high = np.full((3, len(grid)), np.nan)
    some = values[:, shown]
    if centre == "mean":
        middle[shown] = np.nanmean(some, axis=0)
        low[shown], high[shown] = _bootstrap_columns(some, level or 0.95, samples, seed)
    elif centre == "median":
        sign = -1 if found[0].mode == "max" else 1
        middle[shown], low[shown], high[shown] = _quantiles(some, sign, level or 0.8)
    else:
        raise GoalError(f"centre must be 'mean' or 'median', got {centre!r}")
    return Progress(grid, middle, low, high, share)


def _value_at(run: Run, times: Array) -> Array:
    """The run's best at each time, NaN before its first."""
    values = np.array([np.nan, *(incumbent.value for incumbent in run.incumbents)])
    since = [incumbent.time_s for incumbent in run.incumbents]
    found: Array = values[np.searchsorted(since, times, side="right")]
    return found


def _bootstrap_columns(values: Array, level: float, samples: int, seed: int) -> Array:
    """Ends of the interval of each column's mean; whole runs are drawn, missing values left out."""
    n = len(values)
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(n, np.full(n, 1 / n), size=samples).astype(float)
    known = drawn @ (~np.isnan(values)).astype(float)
    sums = drawn @ np.nan_to_num(values)
    means = np.divide(sums, known, out=np.full(sums.shape, np.nan), where=known > 0)
    means.sort(axis=0)  # NaN, where no run was drawn that has a value, goes to the end
    last = (known > 0).sum(axis=0) - 1
    ends = []
    for share in ((1 - level) / 2, (1 + level) / 2):
        place = share * last
        below = np.floor(place).astype(int)
        pair = np.take_along_axis(means, np.stack([below, np.minimum(below + 1, last)]), axis=0)
        ends.append(pair[0] + (place - below) * (pair[1] - pair[0]))
    return np.array(ends)


def _quantiles(values: Array, sign: int, level: float) -> tuple[Array, Array, Array]:
    """Median and ends of the middle ``level`` of each column; what is missing is worst."""
    losses = np.where(np.isnan(values), np.inf, sign * values)
    shares = [0.5, (1 - level) / 2, (1 + level) / 2]
    # an order statistic, not between two: one of them may be infinite
    middle, best, worst = sign * np.quantile(losses, shares, axis=0, method="inverted_cdf")
    return middle, np.minimum(best, worst), np.maximum(best, worst)
