"""What came out of a live study, read from its file in the terms of a replay."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from acetune.core.errors import StudyFileError
from acetune.replay.runs import Cell, Incumbent, Run
from acetune.study.best_checkpoints import checkpoint, incumbents
from acetune.study.findings import Ledger
from acetune.study.reader import StudyView, viewing
from acetune.study.report_arrays import AFTER, STEP
from acetune.study.result import result_of
from paper.live_plan import LiveCase


class Trained(NamedTuple):
    """How long a configuration took for its first steps, without checks."""

    params: Mapping[str, Any]
    steps: int
    seconds: float


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A live study: its run as a replay would tell it, and what only a live one has."""

    run: Run
    limit: float
    eod: float | None  # of the best feasible checkpoint
    states: Mapping[str, int]  # trials by how they ended
    searched_s: float  # wall-clock time until no more trials were begun: the budget
    worked_s: float  # and until the last step that was under way then had been reported
    startup_s: float  # of trials, summed over workers
    late_s: float  # checks after the run, which are no work of the workers
    check_s: float | None  # what one check took
    space: Mapping[str, Any]
    trained: tuple[Trained, ...]

    @property
    def step_s(self) -> float | None:
        """What one step took."""
        return self.run.primary_cost_s / self.run.reports if self.run.reports else None

    @property
    def busy(self) -> float:
        """Share of the workers' time that went into starting, training and checking trials."""
        worked = self.run.primary_cost_s + self.run.constraint_cost_s - self.late_s
        return self.starting + worked / (self.run.cell.workers * self.worked_s)

    @property
    def starting(self) -> float:
        """Share of the workers' time that went into starting trials: preparing data and trees."""
        return self.startup_s / (self.run.cell.workers * self.worked_s)

    def to_json(self) -> dict[str, Any]:
        """The run as plain data."""
        run = self.run
        return {
            "limit": self.limit,
            "searcher": run.cell.searcher,
            "policy": run.policy,
            "seed": run.seed,
            "best": run.best,
            "eod": self.eod,
            "trials": run.trials,
            "states": dict(self.states),
            "steps": run.reports,
            "constraint_evaluations": run.constraint_evaluations,
            "constraint_cost_share": run.constraint_cost_share,
            "time_to_first_feasible_s": run.time_to_first_s,
            "time_to_best_s": run.time_to_best_s,
            "searched_s": self.searched_s,
            "worked_s": self.worked_s,
            "step_s": self.step_s,
            "check_s": self.check_s,
            "startup_s": self.startup_s,
            "late_checks_s": self.late_s,
            "busy": self.busy,
            "starting": self.starting,
            "incumbents": [found._asdict() for found in run.incumbents],
        }


def mean_costs(runs: Sequence[LiveRun]) -> tuple[float, float] | None:
    """What a step and a check took over all runs; None while nothing was trained or checked."""
    steps = sum(run.run.reports for run in runs)
    checks = [(r.check_s, r.run.constraint_evaluations) for r in runs if r.check_s is not None]
    if not steps or not checks:
        return None
    spent = math.fsum(mean * count for mean, count in checks)
    training_s = math.fsum(run.run.primary_cost_s for run in runs)
    return training_s / steps, spent / sum(count for _, count in checks)


def read_run(path: Path, case: LiveCase) -> LiveRun:
    """What the study file of a case says."""
    with viewing(path) as view:
        result, settings = result_of(view), view.info["settings"]
        if (settings["searcher"], settings["seed"]) != (case.searcher, case.seed):
            raise StudyFileError(
                f"{path} is a study with {settings['searcher']}, seed {settings['seed']}, "
                "and not what its name says"
            )
        ledger, budget, workers = result.ledger, settings["time_budget_s"], settings["workers"]
        limits = ", ".join(limit.describe() for limit in view.goals.constraints)
        run = Run(
            case.policy,
            Cell("live", limits, None, budget, workers, case.searcher),
            case.seed,
            view.goals.objective.mode,
            _incumbents(view),
            trials=sum(result.counts.values()),
            reports=ledger.reports,
            constraint_evaluations=ledger.checks,
            unmeasured_checks=ledger.failed_checks,
            primary_cost_s=ledger.training_s,
            constraint_cost_s=ledger.checks_s,
            time_s=ledger.wall_s,
        )
        best = result.best
        searched_s = float(sum(session["search_s"] for session in view.sessions))
        return LiveRun(
            run,
            case.limit,
            None if best is None else best.constraints["eod"].value,
            result.counts,
            searched_s,
            _worked_s(view) or searched_s,
            ledger.startup_s,
            _late_s(view),
            _check_s(ledger),
            view.info["space"],
            _trained(view),
        )


def _incumbents(view: StudyView) -> tuple[Incumbent, ...]:
    """The best feasible checkpoint over wall-clock time."""
    began, rows = _began(view), incumbents(view).tolist()
    found = [(float(view.reports.time[row]), checkpoint(view, row)) for row in rows]
    return tuple(Incumbent(time - began, one.value, one.trial, one.step) for time, one in found)


def _began(view: StudyView) -> float:
    return float(min(session["started"] for session in view.sessions))


def _worked_s(view: StudyView) -> float | None:
    """Until the last trial ended; None where none has."""
    attempts = [row for trial in view.trials for row in view.attempts(trial.trial)]
    ended = max((row.ended for row in attempts if row.ended is not None), default=None)
    return None if ended is None else ended - _began(view)


def _late_s(view: StudyView) -> float:
    late = view.reports.kind[view.checks.row] == AFTER
    return float(np.nansum(view.checks.cost_s[late]))


def _check_s(ledger: Ledger) -> float | None:
    # without snapshots, which are counted as checks in the ledger: here they are no copies
    times = sum(one.checks for one in ledger.by_constraint.values())
    seconds = math.fsum(one.seconds for one in ledger.by_constraint.values())
    return seconds / times if times else None


def _trained(view: StudyView) -> tuple[Trained, ...]:
    reports = view.reports
    steps = np.flatnonzero(reports.kind == STEP)
    places = np.stack([reports.trial[steps], reports.attempt[steps]], axis=1)
    attempts, which, counts = np.unique(places, axis=0, return_inverse=True, return_counts=True)
    seconds = np.bincount(which.ravel(), np.nan_to_num(reports.primary_cost_s[steps]))
    return tuple(
        Trained(view.attempt(*attempt).params, count, spent)
        for attempt, count, spent in zip(
            attempts.tolist(), counts.tolist(), seconds.tolist(), strict=True
        )
        if spent > 0
    )
