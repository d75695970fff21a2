"""A study file read once: its reports pass by, and what a row a trial needs is gathered from them.

Nothing is held of a report but its objective, and that only where it was asked for: a study with
500,000 reports needs a few megabytes.
"""

from __future__ import annotations

import contextlib
import json
import math
from array import array
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from acetune.core.goals import Goals
from acetune.study.queries import choose_answer, goals_from_json, outcome_of, read_candidates
from acetune.study.store import CheckRow, ReportRow, Store

Reported: TypeAlias = tuple[ReportRow, list[CheckRow]]
_JSON = ("objective", "constraints", "policy", "space", "settings", "versions")


class Checked(NamedTuple):
    """A checkpoint that was checked; the better of two is the smaller."""

    violation: float
    loss: float
    seq: int
    attempt: int
    step: int
    objective: float
    checks: list[CheckRow]


class GatheredTrial:
    """One trial: its row in the study file, and what its reports come to."""

    def __init__(self, attempts: list[dict[str, Any]]) -> None:
        self.row = attempts[-1]  # the latest attempt is the one that counts
        self.number: int = self.row["trial"]
        self.attempt: int = self.row["attempt"]
        self.params: dict[str, Any] = json.loads(self.row["params"])
        self.startup_s = math.fsum(attempt["startup_cost_s"] or 0.0 for attempt in attempts)
        self.training_s = self.checks_s = self.snapshots_s = 0.0
        self.reports = self.checks = 0
        self.last_step: int | None = None
        self.last_time = self.row["started"]
        self.best_loss = math.inf
        self.best_valid: Checked | None = None
        self.nearest_miss: Checked | None = None
        self.status = ""  # of the best valid checkpoint: what confirmation said
        self.steps, self.objectives = array("q"), array("d")
        # an attempt that went on from a checkpoint keeps the reports up to it
        self._upto: dict[int, float] = {}
        upto = math.inf
        for attempt in reversed(attempts):
            self._upto[attempt["attempt"]] = upto
            upto = min(upto, attempt["resumed_from"])

    @property
    def found(self) -> Checked | None:
        """The checkpoint that counts: the best valid one, or else the nearest miss."""
        return self.best_valid or self.nearest_miss

    @property
    def stratum(self) -> str:
        """Of the checkpoint that counts."""
        if self.found is None:
            return "unchecked"
        return "invalid" if self.best_valid is None else "valid"

    def take(self, row: ReportRow, checks: list[CheckRow], goals: Goals, curve: bool) -> None:
        """Take a report into account."""
        self.training_s += row.primary_cost_s or 0.0
        self.snapshots_s += row.snapshot_cost_s
        for check in checks:
            self.checks_s += check.cost_s or 0.0
        if row.attempt == self.attempt:
            self.last_step = max(row.step, self.last_step or 0)
            self.last_time = row.time
            self.reports += row.kind == "step"
            self.checks += bool(checks)
            self.best_loss = min(self.best_loss, goals.objective.loss(row.objective))
        if curve and row.kind == "step" and row.step <= self._upto[row.attempt]:
            self.steps.append(row.step)
            self.objectives.append(row.objective)
        value = row.checked_objective
        if row.stratum == "unchecked" or value is None or abs(value) > 1e308:
            return
        assert row.checked_step is not None  # what was checked was a checkpoint
        seen = (row.violation or 0.0, goals.objective.loss(value), row.seq)
        other = self.best_valid if row.stratum == "valid" else self.nearest_miss
        if other is None or seen < other[:3]:
            found = Checked(*seen, row.attempt, row.checked_step, value, checks)
            if row.stratum == "valid":
                self.best_valid = found
            else:
                self.nearest_miss = found


class Gathered:
    """A study whose reports pass by in :meth:`reports`; its trials are complete after that.

    ``curves`` keeps the objective at each step of every trial.
    """

    def __init__(self, store: Store, *, curves: bool = False) -> None:
        self._store, self._curves = store, curves
        with store.understanding():
            # a statement that is under way keeps the connection at one state of the file, so that
            # all that follows fits together although the study may be running
            self._reports = store.reports()
            first = next(self._reports, None)
            if first is not None:
                self._reports = chain([first], self._reports)
            info = store.study()
            self.goals = goals_from_json(info["objective"], info["constraints"])
            self.info = {k: json.loads(v) if k in _JSON else v for k, v in info.items()}
            attempts: dict[int, list[dict[str, Any]]] = {}
            for row in store.rows("SELECT * FROM trials ORDER BY trial, attempt"):
                attempts.setdefault(row["trial"], []).append(row)
            self._by_number = {number: GatheredTrial(rows) for number, rows in attempts.items()}
            uses = store.rows("SELECT * FROM confirmations ORDER BY use")
            self.info["confirmations"] = [
                use | {"metrics": json.loads(use["metrics"])} for use in uses
            ]
            candidates = read_candidates(store, self.goals, self.info["settings"], uses)
            best = choose_answer(candidates)
            self.info["outcome"] = outcome_of(candidates)
            self.info["answer"] = best and {
                "trial": best.trial, "attempt": best.attempt, "step": best.step
            }  # fmt: skip
            self._confirmations = {
                (use["trial"], use["attempt"], use["step"]): use["status"] for use in uses
            }

    def reports(self) -> Iterator[Reported]:
        """All reports with their checks, as they were acknowledged; once only."""
        with self._store.understanding():
            for row, checks in self._reports:
                self._by_number[row.trial].take(row, checks, self.goals, self._curves)
                yield row, checks
            for trial in self._by_number.values():
                best = trial.best_valid
                if best is not None:
                    at = (trial.number, best.attempt, best.step)
                    trial.status = self._confirmations.get(at, "unconfirmed")

    def pass_by(self) -> None:
        """Let all reports pass by, for those who want the trials alone."""
        for _ in self.reports():
            pass

    def trials(self) -> list[GatheredTrial]:
        """The trials by number, after all reports have passed by."""
        return list(self._by_number.values())


@contextlib.contextmanager
def gathering(study: Path, *, curves: bool = False) -> Iterator[Gathered]:
    """A study file opened to be exported, also while the study is running."""
    with contextlib.closing(Store.read(study)) as store:
        yield Gathered(store, curves=curves)


def gather(study: Path, *, curves: bool = False) -> Gathered:
    """A study file whose reports have all passed by."""
    with gathering(study, curves=curves) as gathered:
        gathered.pass_by()
        return gathered
