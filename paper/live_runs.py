"""What came out of a live study, read from its file in the terms of a replay."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from acetune.core.errors import StudyFileError
from acetune.replay.runs import Cell, Incumbent, Run
from acetune.study.result import read_result
from acetune.study.store import Store, reading
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
    with reading(path) as store:
        result = read_result(store)
        settings = json.loads(result.info["settings"])
        if (settings["searcher"], settings["seed"]) != (case.searcher, case.seed):
            raise StudyFileError(
                f"{path} is a study with {settings['searcher']}, seed {settings['seed']}, "
                "and not what its name says"
            )
        ledger, budget, workers = result.ledger, settings["time_budget_s"], settings["workers"]
        limits = ", ".join(limit.describe() for limit in result.goals.constraints)
        run = Run(
            case.policy,
            Cell("live", limits, None, budget, workers, case.searcher),
            case.seed,
            result.goals.objective.mode,
            _incumbents(store),
            trials=sum(result.counts.values()),
            reports=ledger.reports,
            constraint_evaluations=ledger.checks,
            unmeasured_checks=ledger.failed_checks,
            primary_cost_s=ledger.training_s,
            constraint_cost_s=ledger.checks_s,
            time_s=ledger.wall_s,
        )
        best = result.best
        return LiveRun(
            run,
            case.limit,
            None if best is None else best.constraints["eod"].value,
            result.counts,
            store.searched(),
            _worked_s(store),
            ledger.startup_s,
            _late_s(store),
            _check_s(store),
            json.loads(result.info["space"]),
            _trained(store),
        )


def _incumbents(store: Store) -> tuple[Incumbent, ...]:
    """The best feasible checkpoint over wall-clock time."""
    began = store.rows("SELECT min(started) AS began FROM sessions")[0]["began"]
    found: list[Incumbent] = []
    for row in store.rows(
        "SELECT trial, checked_step, checked_objective, time FROM reports "
        "WHERE stratum = 'valid' AND checked_objective BETWEEN -1e308 AND 1e308 ORDER BY seq"
    ):
        if not found or row["checked_objective"] > found[-1].value:
            since, value = row["time"] - began, row["checked_objective"]
            found.append(Incumbent(since, value, row["trial"], row["checked_step"]))
    return tuple(found)


def _worked_s(store: Store) -> float:
    row = store.rows(
        "SELECT (SELECT max(ended) FROM trials) - (SELECT min(started) FROM sessions) AS seconds"
    )[0]
    return float(row["seconds"] or store.searched())


def _late_s(store: Store) -> float:
    row = store.rows(
        "SELECT total(cost_s) AS seconds FROM checks JOIN reports USING (seq) WHERE kind = 'after'"
    )[0]
    return float(row["seconds"])


def _check_s(store: Store) -> float | None:
    # without snapshots, which are counted as checks in the ledger: here they are no copies
    mean: float | None = store.rows("SELECT avg(cost_s) AS mean FROM checks")[0]["mean"]
    return mean


def _trained(store: Store) -> tuple[Trained, ...]:
    rows = store.rows(
        "SELECT t.params, count(*) AS steps, sum(r.primary_cost_s) AS seconds "
        "FROM reports r JOIN trials t USING (trial, attempt) WHERE r.kind = 'step' "
        "GROUP BY r.trial, r.attempt HAVING seconds > 0 ORDER BY r.trial, r.attempt"
    )
    return tuple(Trained(json.loads(row["params"]), row["steps"], row["seconds"]) for row in rows)
