"""Policies measured on a table: over seeds, and over tables drawn anew from its configurations.

Seeds alone say how much the order of trials matters on this one table; which configurations a table
holds matters more. So intervals come from a bootstrap over configurations: the table is drawn anew,
with replacement, and everything is replayed on it with a few seeds; policies that are compared see
the same tables and seeds. A table drawn anew holds about 63 % of the configurations, which lowers
the results of policies that run through all of them; so it is the spread that is taken from there,
and put around the mean on the table itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from acetune.core.goals import Constraint
from acetune.replay.compare import Job, Setting, run_all
from acetune.replay.curve_table import CurveTable
from acetune.replay.runs import Run, Summary, summarise
from acetune.replay.statistics import Interval
from paper.intervals import bootstrap_mean, paired_differences
from paper.published import START

WORKERS = 4  # the paper's
SEARCHERS_WITH_START = ("blendsearch", "cfo")


class Case(NamedTuple):
    """A policy under given conditions."""

    policy: str
    limit: float
    cost_ratio: float
    searcher: str = "random"

    @property
    def resampled(self) -> bool:
        """Whether it is replayed on tables drawn anew too.

        ASHA tries thousands of configurations, and each takes a model-based searcher milliseconds:
        there the seeds have to do.
        """
        return self.searcher == "random" or not self.policy.startswith("asha")


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    budget_s: float
    seeds: int = 20
    samples: int = 40  # tables drawn anew
    seeds_a_sample: int = 2
    processes: int = 1
    constrained: str = "eod"  # the metric that has the limit


@dataclass(frozen=True)
class Measured:
    """What came of a case: the runs over seeds, and those on each table drawn anew."""

    case: Case
    runs: tuple[Run, ...]
    sampled: tuple[tuple[Run, ...], ...]

    @cached_property
    def summary(self) -> Summary:
        """Of the runs over seeds."""
        (found,) = summarise(self.runs)
        return found

    @property
    def interval(self) -> Interval | None:
        """The mean with its 95 % interval, by the bootstrap over configurations, or over seeds."""
        if not self.sampled:
            found = [run.best for run in self.runs if run.best is not None]
            return bootstrap_mean(found) if found else None
        means = [_mean([run.best for run in runs]) for runs in self.sampled]
        return _interval(self.summary.mean, means)


def measure(
    table: CurveTable,
    cases: Sequence[Case],
    plan: Plan,
    on_run: Callable[[Run], None] = lambda run: None,
) -> dict[Case, Measured]:
    """All cases, each once."""
    cases = list(dict.fromkeys(cases))
    jobs = jobs_of(cases, plan)
    runs = iter(run_all(table, jobs, processes=plan.processes, on_run=on_run))
    by_seed = {case: tuple(next(runs) for _ in range(plan.seeds)) for case in cases}
    by_sample: dict[Case, list[tuple[Run, ...]]] = {case: [] for case in cases}
    for _ in range(plan.samples):
        for case in filter(_resampled, cases):
            by_sample[case].append(tuple(next(runs) for _ in range(plan.seeds_a_sample)))
    return {case: Measured(case, by_seed[case], tuple(by_sample[case])) for case in cases}


def jobs_of(cases: Sequence[Case], plan: Plan) -> list[Job]:
    """What has to be run: seeds on the table itself, then sample after sample."""
    jobs = [
        Job(case.policy, setting_of(case, plan), seed)
        for case in cases
        for seed in range(plan.seeds)
    ]
    for sample in range(plan.samples):
        for case in filter(_resampled, cases):
            setting = setting_of(case, plan)
            jobs += [Job(case.policy, setting, s, sample) for s in range(plan.seeds_a_sample)]
    return jobs


def setting_of(case: Case, plan: Plan) -> Setting:
    """The conditions of a case."""
    points: tuple[dict[str, object], ...] = ()
    if case.searcher in SEARCHERS_WITH_START:
        points = (dict(START),)
    return Setting(
        (Constraint(plan.constrained, upper=case.limit),),
        case.cost_ratio,
        plan.budget_s,
        WORKERS,
        case.searcher,
        points=points,
    )


def difference(a: Measured, b: Measured) -> Interval | None:
    """By how much ``a`` was better, paired by seed, with its 95 % interval over tables.

    Seeds in which one of both found nothing have no difference and are left out. Where one of both
    was not replayed on other tables, the interval is over seeds.
    """
    if not (a.sampled and b.sampled):
        found = _differences(a.runs, b.runs)
        return bootstrap_mean(found) if found else None
    means = [_paired(*pair) for pair in zip(a.sampled, b.sampled, strict=True)]
    return _interval(_paired(a.runs, b.runs), means)


def to_json(measured: Mapping[Case, Measured]) -> list[dict[str, Any]]:
    """The best feasible objective of every run: what the pages are made of."""
    return [
        {
            **case._asdict(),
            "trials": found.summary.trials,
            "best": [run.best for run in found.runs],
            "best_on_tables_drawn_anew": [[run.best for run in row] for row in found.sampled],
        }
        for case, found in measured.items()
    ]


def _resampled(case: Case) -> bool:
    return case.resampled


def _paired(a: Sequence[Run], b: Sequence[Run]) -> float | None:
    return _mean(_differences(a, b))


def _differences(a: Sequence[Run], b: Sequence[Run]) -> list[float]:
    (found,) = paired_differences([*a, *b], a[0].policy, b[0].policy).values()
    return found


def _mean(values: Sequence[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return math.fsum(found) / len(found) if found else None


def _interval(mean: float | None, samples: Sequence[float | None]) -> Interval | None:
    found = [value for value in samples if value is not None]
    if mean is None or len(found) < 2:
        return None
    low, high = np.quantile(found, [0.025, 0.975]) + mean - np.mean(found)
    return Interval(mean, float(low), float(high))
