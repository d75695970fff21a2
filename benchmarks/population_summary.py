"""What runs over a population say: means by family, and intervals over its tasks."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from acetune.core.errors import GoalError
from acetune.replay.statistics import Interval
from benchmarks.grid_cells import GridCell, Score, Scores
from benchmarks.population_runs import Runs
from benchmarks.population_tables import Source

_SAMPLES = 10_000
_LEVEL = 0.95
# a number for each task, by family
ByFamily: TypeAlias = dict[str, dict[str, float]]


def scores_of(runs: Runs, seeds: int) -> Scores:
    """Means over the first seeds, where a policy has a run with each of them in a cell."""
    found: dict[tuple[GridCell, str], list[Score]] = {}
    for key, measured in runs.items():
        if key.seed < seeds:
            found.setdefault((key.cell, key.policy), []).append(measured.score)
    scores: Scores = {}
    for (cell, policy), single in found.items():
        if len(single) == seeds:
            mean = Score(*(statistics.fmean(column) for column in zip(*single, strict=True)))
            regrets = [score.regret for score in single]
            spread = statistics.stdev(regrets) if seeds > 1 else 0.0
            scores.setdefault(cell, {})[policy] = mean._replace(regret_sd=spread)
    return scores


class Families:
    """Which table belongs to which task, and which task to which family.

    A mean is one over the cells of each task, then over the tasks of each family, then over
    families: neither many tables nor many cells of one weigh more. Intervals are made by drawing
    tasks with replacement within each family: the cells and seeds of a task are no independent
    evidence, and families are taken as given.
    """

    def __init__(self, sources: Iterable[Source]) -> None:
        self._of = {source.name: (source.family, source.task) for source in sources}
        self.names = list(dict.fromkeys(family for family, _ in self._of.values()))

    def family(self, cell: GridCell) -> str:
        """Of a cell."""
        return self._of[cell.table][0]

    def tables(self, family: str) -> list[str]:
        """Of a family."""
        return [table for table, (of, _) in self._of.items() if of == family]

    @property
    def tasks(self) -> dict[str, list[str]]:
        """The tables of each task."""
        found: dict[str, list[str]] = {}
        for table, (_, task) in self._of.items():
            found.setdefault(task, []).append(table)
        return found

    def by_task(self, values: Mapping[GridCell, float]) -> ByFamily:
        """The mean over each task's cells."""
        found: dict[str, dict[str, list[float]]] = {}
        for cell, value in values.items():
            family, task = self._of[cell.table]
            found.setdefault(family, {}).setdefault(task, []).append(value)
        return {
            family: {task: statistics.fmean(several) for task, several in tasks.items()}
            for family, tasks in found.items()
        }

    def mean_regret(self, scores: Scores, policy: str, cells: Sequence[GridCell]) -> float:
        """The mean over families of a policy's regret in these cells."""
        by_task = self.by_task({cell: scores[cell][policy].regret for cell in cells})
        return mean_of_families(by_task)


def mean_of_families(by_task: ByFamily) -> float:
    """Each task counts once in its family, and each family once."""
    return statistics.fmean(statistics.fmean(tasks.values()) for tasks in by_task.values())


def interval_over_tasks(by_task: ByFamily, samples: int = _SAMPLES, seed: int = 0) -> Interval:
    """The mean over families with its percentile bootstrap interval over tasks.

    A family of one task has no spread of its own, and one of few too little.

    >>> interval_over_tasks({"a": {"a-1": 0.5, "a-2": 0.5}, "b": {"b-1": 0.0}})
    Interval(mean=0.25, low=0.25, high=0.25)
    """
    if not by_task:
        raise GoalError("an interval needs at least one task")
    rng = np.random.default_rng(seed)
    means = np.zeros(samples)
    for tasks in by_task.values():
        values = np.array(list(tasks.values()))
        means += values[rng.integers(len(values), size=(samples, len(values)))].mean(axis=1)
    low, high = np.quantile(means / len(by_task), [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return Interval(mean_of_families(by_task), float(low), float(high))


def with_best(scores: Scores, name: str, policies: Sequence[str]) -> Scores:
    """The scores, with a policy more: the best of these in each cell, in hindsight."""
    return {
        cell: {**by, name: min((by[policy] for policy in policies), key=lambda score: score.regret)}
        for cell, by in scores.items()
    }
