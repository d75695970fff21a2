"""Whether policies differ: paired signs, ranks, and the best over time.

A run that found nothing feasible has no value. Nowhere is one made up for it: means leave it out
(and say how many are left), comparisons by rank and sign count it as worse than any value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from acetune.core.errors import GoalError
from acetune.core.import_on_use import import_extra
from acetune.replay.runs import Cell, Run

Array = NDArray[Any]


class Interval(NamedTuple):
    """A mean and the ends of its confidence interval."""

    mean: float
    low: float
    high: float


class Signs(NamedTuple):
    """How often the first of two policies was better, over seeds; nothing found is worst."""

    better: int
    tie: int
    worse: int


def paired_signs(runs: Iterable[Run], policy_a: str, policy_b: str) -> dict[Cell, Signs]:
    """How often ``policy_a`` was better than, equal to and worse than ``policy_b``, by cell."""
    return {
        cell: Signs(
            better=sum(a.loss < b.loss for a, b in pairs),
            tie=sum(a.loss == b.loss for a, b in pairs),
            worse=sum(a.loss > b.loss for a, b in pairs),
        )
        for cell, pairs in paired_runs(runs, policy_a, policy_b).items()
    }


# -- ranks -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ranks:
    """Policies by average rank, best first, with the tests of Demsar (2006).

    Policies whose average ranks are less than ``critical_difference`` apart are not told apart by
    the Nemenyi test; ``cliques`` are the largest groups of such policies.
    """

    policies: tuple[str, ...]
    average_ranks: tuple[float, ...]
    blocks: int  # what was ranked: cells, or cells times seeds
    friedman_p: float  # that all are equal
    alpha: float
    critical_difference: float
    cliques: tuple[tuple[str, ...], ...]


def rank_policies(
    runs: Iterable[Run], over: Literal["cells", "runs"] = "cells", alpha: float = 0.05
) -> Ranks:
    """Average ranks, the Friedman test and the Nemenyi critical difference.

    In every cell and seed policies are ranked, 1 for the best; ties share the mean of their ranks;
    those that found nothing come last and are tied. ``over="runs"`` takes each of these rankings as
    one block of the tests. ``over="cells"`` first adds them up over the seeds of a cell and ranks
    the sums, a block a cell: seeds of one table are no independent evidence, so this is the
    cautious way, and needs several tables to show anything.

    Every policy must have a run in every cell and seed.
    """
    if over not in ("cells", "runs"):
        raise GoalError(f"over must be 'cells' or 'runs', got {over!r}")
    if not 0 < alpha < 1:
        raise GoalError(f"alpha must lie between 0 and 1, got {alpha}")
    grouped = _by_cell(runs)
    policies = list(dict.fromkeys(policy for by in grouped.values() for policy, _ in by))
    if len(policies) < 2:
        raise GoalError(f"ranks need at least two policies, got {policies}")
    by_cell = [rank_rows(_losses(cell, by, policies)) for cell, by in grouped.items()]
    if over == "runs":
        ranks = np.concatenate(by_cell)
    else:
        ranks = rank_rows(np.array([found.sum(axis=0) for found in by_cell]))
    return ranks_of(policies, ranks, alpha)


def ranks_of(policies: Sequence[str], ranks: Array, alpha: float = 0.05) -> Ranks:
    """The tests of ranks, a row a block and a column a policy."""
    average = ranks.mean(axis=0)
    order = np.argsort(average, kind="stable")
    names = tuple(policies[i] for i in order)
    sorted_ranks = tuple(float(average[i]) for i in order)
    blocks = len(ranks)
    difference = nemenyi_critical_difference(len(policies), blocks, alpha)
    _, p = friedman(ranks)
    cliques = tuple(names[i:j] for i, j in _cliques(sorted_ranks, difference))
    return Ranks(names, sorted_ranks, blocks, p, alpha, difference, cliques)


def rank_rows(losses: ArrayLike) -> Array:
    """Ranks within each row, 1 for the smallest; equal values, infinity too, share their mean.

    >>> rank_rows([[0.3, 0.1, 0.3, float("inf")]])
    array([[2.5, 1. , 2.5, 4. ]])
    """
    ranks: Array = scipy_stats().rankdata(np.asarray(losses, float), axis=1)
    return ranks


def friedman(ranks: Array) -> tuple[float, float]:
    """Friedman's chi-square, corrected for ties, and its p-value.

    One block says nothing, nor do blocks in which all are tied: their p-value is 1. By chi-square:
    Iman and Davenport's F is 0 as soon as a few rankings agree throughout.
    """
    n, k = ranks.shape
    spread = float((ranks**2).sum() - n * k * (k + 1) ** 2 / 4)
    if n < 2 or spread <= 0:
        return 0.0, 1.0
    sums = ranks.sum(axis=0)
    chi_square = float((k - 1) * ((sums - n * (k + 1) / 2) ** 2).sum() / spread)
    return chi_square, float(scipy_stats().chi2.sf(chi_square, k - 1))


def nemenyi_critical_difference(k: int, blocks: int, alpha: float = 0.05) -> float:
    """How far apart the average ranks of two of k policies must be over so many blocks.

    >>> round(nemenyi_critical_difference(4, 14, alpha=0.10), 3)
    1.118
    """
    if k < 2 or not 0 < alpha < 1:
        raise GoalError(
            "a critical difference needs two policies or more and an alpha between 0 and 1, got "
            f"{k} and alpha={alpha}"
        )
    q = float(scipy_stats().studentized_range.ppf(1 - alpha, k, math.inf)) / math.sqrt(2)
    return q * math.sqrt(k * (k + 1) / (6 * blocks))


def scipy_stats() -> Any:
    """``scipy.stats``, which takes a second to import, or an error with the install command."""
    return import_extra("scipy.stats", "SciPy", "replay")


def _cliques(ranks: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """The longest stretches, of two and more, within less than the difference; none in another."""
    found: list[tuple[int, int]] = []
    for start, rank in enumerate(ranks):
        end = sum(other - rank < difference for other in ranks)
        if end - start > 1 and (not found or end > found[-1][1]):
            found.append((start, end))
    return found


# -- runs side by side -----------------------------------------------------------------------------


def _by_cell(runs: Iterable[Run]) -> dict[Cell, dict[tuple[str, int], Run]]:
    """Runs by cell, policy and seed, each once, with one mode a cell."""
    found: dict[Cell, dict[tuple[str, int], Run]] = {}
    modes: dict[Cell, str] = {}
    for run in runs:
        of_cell = found.setdefault(run.cell, {})
        if (run.policy, run.seed) in of_cell:
            where = f"{run.cell.describe()}, seed {run.seed}"
            raise GoalError(f"two runs of {run.policy!r} in one place: {where}")
        if modes.setdefault(run.cell, run.mode) != run.mode:
            raise GoalError(f"runs of one cell minimise and maximise: {run.cell.describe()}")
        of_cell[run.policy, run.seed] = run
    return found


def paired_runs(runs: Iterable[Run], first: str, second: str) -> dict[Cell, list[tuple[Run, Run]]]:
    """Both policies' runs of each cell by seed, where both have one; cells without are left out."""
    grouped = _by_cell(runs)
    names = {policy for by in grouped.values() for policy, _ in by}
    for policy in (first, second):
        if policy not in names:
            raise GoalError(f"no runs of {policy!r}; there are {', '.join(sorted(names))}")
    pairs = {
        cell: [
            (by[first, seed], by[second, seed])
            for seed in sorted(seed for policy, seed in by if policy == first)
            if (second, seed) in by
        ]
        for cell, by in grouped.items()
    }
    return {cell: found for cell, found in pairs.items() if found}


def _losses(cell: Cell, by: dict[tuple[str, int], Run], policies: Sequence[str]) -> Array:
    """A row a seed, a column a policy."""
    seeds = sorted({seed for _, seed in by})
    for seed in seeds:
        for policy in policies:
            if (policy, seed) not in by:
                where = f"{cell.describe()}, seed {seed}"
                raise GoalError(f"ranks need all policies everywhere; no {policy!r} in {where}")
    return np.array([[by[policy, seed].loss for policy in policies] for seed in seeds])


# -- over time -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class BestOverTime:
    """The best feasible objective over time, of several runs of one policy in one cell."""

    times: Array
    centre: Array  # NaN where too few have found something
    low: Array  # the band
    high: Array
    share: Array  # of the runs that have found something


def best_over_time(
    runs: Iterable[Run], times: ArrayLike, level: float = 0.95, samples: int = 2_000, seed: int = 0
) -> BestOverTime:
    """What was known at each of the times, on average with a band, and by how many.

    The mean is over the runs that have found something, with a bootstrap interval over runs. It is
    NaN before half of the runs have, and may get worse over time, when a run comes in with a first
    poor value.
    """
    found = list(runs)
    if len({(run.policy, run.cell, run.mode) for run in found}) != 1:
        raise GoalError("progress needs runs of one policy in one cell")
    if not 0 < level < 1:
        raise GoalError(f"level must lie between 0 and 1, got {level}")
    grid = np.asarray(times, float)
    values = np.array([_value_at(run, grid) for run in found])  # runs x times
    share = (~np.isnan(values)).mean(axis=0)
    shown = share >= 0.5
    middle, low, high = np.full((3, len(grid)), np.nan)
    middle[shown] = np.nanmean(values[:, shown], axis=0)
    low[shown], high[shown] = _bootstrap_columns(values[:, shown], level, samples, seed)
    return BestOverTime(grid, middle, low, high, share)


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
