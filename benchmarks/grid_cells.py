"""A grid of cells - tables, limits, check costs, budgets - and how policies score in each."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from acetune.core.errors import AcetuneError
from acetune.replay.curve_table import CurveTable
from acetune.replay.judged_table import JudgedTable, judge, parse_limit
from acetune.replay.parallel import Lost, run_jobs
from acetune.replay.runs import Run
from benchmarks.budgets import simulate_budgets
from benchmarks.regret import RegretScale, regret_scale


@dataclass(frozen=True, slots=True)
class GridCell:
    """Under what conditions policies are compared."""

    table: str
    kind: str  # of the limit: "hard" or "easy"
    limit: str  # as on the command line, "eod<=0.25"
    cost_ratio: float
    configs: int  # the budget: the workers train so many mean configurations to the end in it
    searcher: str = "random"
    max_trials: int | None = None

    def describe(self) -> str:
        """The cell in a few words."""
        return f"{self.table}, {self.kind}, r = {self.cost_ratio:g}, budget {self.configs}"


class Score(NamedTuple):
    """A policy in a cell: means over its runs."""

    regret: float
    regret_sd: float  # of a run
    first: float  # time to the first feasible checkpoint as a share of the budget, 1 for none
    nothing: float  # share of the runs that found nothing feasible
    check_share: float  # of checks in what training and checks cost
    check_time: float  # on checks, as a share of the time that all workers have
    false_stops: float
    trials: float
    whole: float  # share of the runs that tried every configuration of the table


Scores: TypeAlias = dict[GridCell, dict[str, Score]]
Pair: TypeAlias = tuple[GridCell, str]  # a cell and a policy
Job: TypeAlias = tuple[tuple[GridCell, ...], str]  # cells with rising budgets and a policy


def budget_s(table: CurveTable, configs: int, workers: int) -> float:
    """The time in which the workers train so many mean configurations to the end."""
    return configs * float(table.cost_s.sum()) / len(table.configs) / workers


def score_runs(
    runs: Sequence[Run], scale: RegretScale, budget_s: float, workers: int, table_size: int
) -> Score:
    """What the runs of one policy in one cell come to."""
    regrets = [scale.regret(run.loss) for run in runs]
    firsts = [1.0 if r.time_to_first_s is None else r.time_to_first_s / budget_s for r in runs]
    return Score(
        statistics.fmean(regrets),
        statistics.stdev(regrets) if len(regrets) > 1 else 0.0,
        statistics.fmean(firsts),
        statistics.fmean(run.best is None for run in runs),
        statistics.fmean(run.constraint_cost_share for run in runs),
        statistics.fmean(run.constraint_cost_s / (budget_s * workers) for run in runs),
        statistics.fmean(run.false_stops for run in runs),
        statistics.fmean(run.trials for run in runs),
        statistics.fmean(run.trials == table_size for run in runs),
    )


class CellRunner:
    """Scores a policy in cells.

    Only the last table and what was worked out of it is kept, so cells of the same table, limit
    and cost ratio should follow each other.

    Parameters
    ----------
    tables:
        What gives each table, by the name that cells call it; sent to worker processes.
    seeds, workers:
        Repetitions, and simulated workers.
    """

    def __init__(
        self, tables: Mapping[str, Callable[[], CurveTable]], seeds: int, workers: int
    ) -> None:
        self._tables, self._seeds, self._workers = dict(tables), seeds, workers
        self._table: tuple[str, CurveTable] | None = None
        self._judged: tuple[tuple[str, str, float], JudgedTable, RegretScale] | None = None

    def __call__(self, job: Job) -> list[Score]:
        """The scores of a policy in cells that differ in their budgets only."""
        cells, policy = job
        runs = self.replay(cells, policy, range(self._seeds))
        return [self.score(cell, of_cell) for cell, of_cell in zip(cells, runs, strict=True)]

    def replay(
        self, cells: Sequence[GridCell], policy: str, seeds: Iterable[int]
    ) -> list[tuple[Run, ...]]:
        """The runs of a policy in each of these cells, which differ in rising budgets only."""
        judged, _ = self._judge(cells[0])
        budgets = [budget_s(judged.table, cell.configs, self._workers) for cell in cells]
        by_seed = [
            simulate_budgets(
                judged,
                policy,
                budgets,
                searcher=cells[0].searcher,
                seed=seed,
                workers=self._workers,
                max_trials=cells[0].max_trials,
            )
            for seed in seeds
        ]
        return list(zip(*by_seed, strict=True))

    def score(self, cell: GridCell, runs: Sequence[Run]) -> Score:
        """What the runs of one policy in this cell come to."""
        judged, scale = self._judge(cell)
        budget = budget_s(judged.table, cell.configs, self._workers)
        return score_runs(runs, scale, budget, self._workers, len(judged.table.configs))

    def _judge(self, cell: GridCell) -> tuple[JudgedTable, RegretScale]:
        key = (cell.table, cell.limit, cell.cost_ratio)
        if self._judged is None or self._judged[0] != key:
            if self._table is None or self._table[0] != cell.table:
                self._table = (cell.table, self._tables[cell.table]())
            judged = judge(self._table[1], [parse_limit(cell.limit)], cell.cost_ratio)
            self._judged = (key, judged, regret_scale(judged))
        return self._judged[1:]


def score_all(
    runner: CellRunner, pairs: Iterable[Pair], processes: int = 1
) -> Iterator[tuple[Pair, Score]]:
    """The scores of policies in cells, in the order in which they come."""
    jobs = _jobs(pairs)
    if processes == 1:
        for cells, policy in jobs:
            for cell, score in zip(cells, runner((cells, policy)), strict=True):
                yield (cell, policy), score
        return
    results = run_jobs(runner, jobs, min(processes, len(jobs)))
    with contextlib.closing(results):  # whatever happens, no worker is left behind
        for index, scores in results:
            cells, policy = jobs[index]
            if isinstance(scores, Lost):
                raise AcetuneError(f"{policy!r} in {cells[0].describe()} failed: {scores.error}")
            for cell, score in zip(cells, scores, strict=True):
                yield (cell, policy), score


def _jobs(pairs: Iterable[Pair]) -> list[Job]:
    """Cells that differ in their budgets only are run at once, as one run passes through all."""
    found: dict[Pair, list[GridCell]] = {}
    for cell, policy in pairs:
        found.setdefault((replace(cell, configs=0), policy), []).append(cell)
    return [
        (tuple(sorted(cells, key=lambda cell: cell.configs)), policy)
        for (_, policy), cells in found.items()
    ]
