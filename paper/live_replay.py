"""What a replay of recorded curves says of the budget that a live experiment had."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from acetune.core.goals import Constraint
from acetune.replay.compare import Job, Setting, run_all
from acetune.replay.curve_table import CurveTable
from acetune.replay.runs import Run
from paper.live_plan import LivePlan
from paper.live_runs import LiveRun
from paper.live_speed import Calibration, calibrate
from paper.measuring import SEARCHERS_WITH_START
from paper.published import START

# a replay costs little, and three seeds say little: so many, from the first live seed on
REPLAYED_SEEDS = 20

Row: TypeAlias = tuple[float, str, str]  # limit, searcher, policy: a row of the page


class Beside(NamedTuple):
    """A replay to stand beside the live runs."""

    table: str
    configs: int
    calibration: Calibration
    runs: Mapping[Row, list[Run]]  # none where the live workers had nothing to do

    def exhausted(self, row: Row) -> int:
        """How many runs of a row tried every configuration of the table.

        A live search would have gone on: such a run has not had the budget.
        """
        return sum(run.trials >= self.configs for run in self.runs[row])


def by_row(runs: Sequence[LiveRun]) -> dict[Row, list[LiveRun]]:
    """The live runs of each limit, searcher and policy, over seeds."""
    rows: dict[Row, list[LiveRun]] = {}
    for run in runs:
        rows.setdefault((run.limit, run.run.cell.searcher, run.run.policy), []).append(run)
    return rows


def busy_share(runs: Sequence[LiveRun]) -> float:
    """Share of the workers' time that went into trials, over the seeds of a row."""
    return statistics.fmean(run.busy for run in runs)


def replay_beside(
    table: CurveTable,
    live: Sequence[LiveRun],
    plan: LivePlan,
    processes: int = 1,
    on_run: Callable[[Run], None] = lambda run: None,
) -> Beside:
    """Replay what was run live: the same policies and workers, budget and costs scaled.

    Everything is told in seconds of the machine that recorded the table: the budget, what a check
    cost, and what starting a trial cost, which differs by policy, as data are prepared once a
    worker and policies begin few trials or many. A replay knows no waiting, so the budget of a row
    is the share of it in which the live workers had something to do.
    """
    calibration = calibrate(table, live)
    first = min(plan.seeds)
    jobs, owners = [], []
    rows = by_row(live)
    for row, runs in rows.items():
        limit, searcher, policy = row
        worked_s = plan.budget_s * busy_share(runs)
        if not worked_s > 0:
            continue
        begun = sum(run.run.trials for run in runs)  # none, where the budget is absurdly small
        startup_s = math.fsum(run.startup_s for run in runs) / max(1, begun)
        setting = Setting(
            (Constraint("eod", upper=limit),),
            calibration.cost_ratio,
            calibration.in_table_s(worked_s),
            plan.workers,
            searcher,
            startup_s=calibration.in_table_s(startup_s),
            points=(dict(START),) if searcher in SEARCHERS_WITH_START else (),
        )
        for seed in range(first, first + REPLAYED_SEEDS):
            jobs.append(Job(policy, setting, seed))
            owners.append(row)
    found: dict[Row, list[Run]] = {row: [] for row in rows}
    for row, run in zip(
        owners, run_all(table, jobs, processes=processes, on_run=on_run), strict=True
    ):
        found[row].append(run)
    return Beside(table.name, len(table.configs), calibration, found)
