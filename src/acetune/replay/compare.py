"""Policies side by side: every policy in every cell with every seed."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from acetune.core.errors import AcetuneError
from acetune.core.goals import Constraint
from acetune.policies import parse_policy
from acetune.replay.curve_table import CurveTable
from acetune.replay.judged_table import JudgedTable, judge
from acetune.replay.parallel import Lost, run_jobs
from acetune.replay.runs import Run
from acetune.replay.simulator import simulate
from acetune.replay.table_searcher import make_picker


class Setting(NamedTuple):
    """Under what conditions to replay; with a policy and a seed it makes a run."""

    constraints: tuple[Constraint, ...]
    cost_ratio: float | None
    budget_s: float
    workers: int = 4
    searcher: str = "random"
    startup_s: float = 0.0
    points: tuple[dict[str, object], ...] = ()


class Job(NamedTuple):
    """One run to be made."""

    policy: str
    setting: Setting
    seed: int
    sample: int | None = None  # of the configurations, drawn with replacement: a bootstrap


def compare(
    table: CurveTable,
    policies: Sequence[str],
    settings: Sequence[Setting],
    seeds: Sequence[int],
    *,
    processes: int = 1,
    on_run: Callable[[Run], None] = lambda run: None,
) -> list[Run]:
    """All runs, ordered by setting, policy and seed, however many processes made them."""
    # say at once what is wrong, and not from a worker
    for policy in policies:
        parse_policy(policy)
    for setting in settings:
        judged = judge(table, setting.constraints, setting.cost_ratio)
        _ = judged.goals, judged.check_cost_s
        make_picker(table, setting.searcher, 0, setting.points)
    jobs = [Job(p, s, seed) for s, p, seed in itertools.product(settings, policies, seeds)]
    return run_all(table, jobs, processes=processes, on_run=on_run)


def run_all(
    table: CurveTable,
    jobs: Sequence[Job],
    *,
    processes: int = 1,
    on_run: Callable[[Run], None] = lambda run: None,
) -> list[Run]:
    """The runs of the jobs, in their order."""
    replayer = Replayer(table)
    found: dict[int, Run] = {}
    if processes == 1:
        for index, job in enumerate(jobs):
            found[index] = replayer(job)
            on_run(found[index])
    else:
        results = run_jobs(replayer, jobs, min(processes, len(jobs)))
        with contextlib.closing(results):  # whatever happens, no worker is left behind
            for index, result in results:
                if isinstance(result, Lost):
                    job = jobs[index]
                    raise AcetuneError(
                        f"the replay of {job.policy!r} with seed {job.seed} failed: {result.error}"
                    )
                found[index] = result
                on_run(result)
    return [found[index] for index in range(len(jobs))]


class Replayer:
    """Makes runs on one table; what is worked out of a table once is kept."""

    def __init__(self, table: CurveTable) -> None:
        self._table = table
        self._sample: int | None = None  # which one is at hand
        self._sampled = table
        self._judged: dict[tuple[tuple[Constraint, ...], float | None], JudgedTable] = {}

    def __call__(self, job: Job) -> Run:
        """The run of a job."""
        policy, setting, seed, sample = job
        if sample != self._sample:
            self._sample, self._sampled = sample, resampled(self._table, sample)
            self._judged.clear()
        key = (setting.constraints, setting.cost_ratio)
        if key not in self._judged:
            self._judged[key] = judge(self._sampled, *key)
        return simulate(
            self._judged[key],
            policy,
            searcher=setting.searcher,
            seed=seed,
            workers=setting.workers,
            budget_s=setting.budget_s,
            startup_s=setting.startup_s,
            points=setting.points,
        )


def resampled(table: CurveTable, sample: int | None) -> CurveTable:
    """The table with its configurations drawn anew, with replacement; as it is for None."""
    if sample is None:
        return table
    count = len(table.configs)
    return table.subset(np.random.default_rng(sample).integers(count, size=count))
