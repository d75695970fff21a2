"""What a study remembers of its trials: rows in its file and models on disk, or nothing at all."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

from acetune.core.decision import Decision
from acetune.core.goals import Goals, note_of
from acetune.core.reason import Reason
from acetune.core.report_values import to_columns
from acetune.study._kept_models import KeptModels
from acetune.study.session import StudyTrial
from acetune.study.store import Store
from acetune.study.table_rows import CheckRow
from acetune.trial.link import Report


class Journal:
    """Told of everything that happens to trials, after it was decided. This one keeps nothing."""

    @property
    def keep_below(self) -> float:
        """Models of valid checkpoints up to this loss are kept."""
        return -math.inf

    def added(self, trial: StudyTrial) -> None:
        """An attempt was made; it has not begun."""

    def planned(
        self, trial: StudyTrial, total_steps: int | None, startup_s: float | None = None
    ) -> None:
        """The last step and the interval of an attempt are known; it begins after ``startup_s``."""

    def reported(self, trial: StudyTrial, report: Report, decision: Decision) -> None:
        """A report was taken."""

    def checked(self, trial: StudyTrial, report: Report, kind: str) -> None:
        """A check outside a report was taken: at the end of its trial, or after the run."""

    def ended(
        self, trial: StudyTrial, state: str, reason: Reason, traceback: str | None = None
    ) -> None:
        """An attempt has ended."""

    def settled(self, trial: StudyTrial) -> None:
        """A trial has ended by itself: its models are wanted or not."""


class StudyJournal(Journal):
    """Writes to the study file. What a call writes is committed by the engine's transaction."""

    def __init__(
        self, store: Store, kept_models: KeptModels, goals: Goals, clock: Callable[[], float]
    ) -> None:
        self._store, self._kept, self._goals, self._clock = store, kept_models, goals, clock
        self._margins = {limit.name: limit.margin for limit in goals.constraints}

    @property
    def keep_below(self) -> float:
        return self._kept.keep_below

    def added(self, trial: StudyTrial) -> None:
        now = self._clock()
        self._store.add_trial(trial.number, trial.attempt, trial.params, now, trial.resumed_from)

    def planned(
        self, trial: StudyTrial, total_steps: int | None, startup_s: float | None = None
    ) -> None:
        handle = trial.begun
        plan = (total_steps, handle.interval, handle.record.cost_ratio, handle.schedule)
        self._store.set_plan(trial.number, trial.attempt, *plan, startup_s)

    def reported(self, trial: StudyTrial, report: Report, decision: Decision) -> None:
        handle = trial.begun
        self._write(trial, report, "step", decision)
        self._kept.settle_checkpoint(trial, report.step)
        if handle.state != "running":
            self.ended(trial, handle.state, handle.record.reason)
        if handle.record.last_check is not None or handle.state != "running":
            self._kept.prune(trial.number)

    def checked(self, trial: StudyTrial, report: Report, kind: str) -> None:
        self._write(trial, report, kind, None)

    def ended(
        self, trial: StudyTrial, state: str, reason: Reason, traceback: str | None = None
    ) -> None:
        now = self._clock()
        self._store.end_trial(trial.number, trial.attempt, state, reason, now, traceback)
        if state == "finished":
            self._kept.drop_resumable(trial.number)
        elif state == "stopped":
            self._kept.choose_resumable(trial.number)

    def settled(self, trial: StudyTrial) -> None:
        self._kept.prune(trial.number)

    def _write(
        self, trial: StudyTrial, report: Report, kind: str, decision: Decision | None
    ) -> None:
        check = trial.begun.record.last_check  # as the stopper has judged it
        self._kept.note(trial.number, trial.attempt, check)
        checks = []
        for name, result in (report.measured or {}).items():
            value, stderr, error = to_columns(result)
            cost_s = (report.check_cost_s or {}).get(name)
            note = note_of(result)
            written = None if note is None else json.dumps(dict(note), default=str)
            checks.append(
                CheckRow(name, value, stderr, cost_s, error, self._margins[name], written)
            )
        if report.waited_s:
            self._store.add_wait(trial.number, trial.attempt, report.waited_s)
        self._store.add_report(
            (
                trial.number,
                trial.attempt,
                kind,
                report.step,
                report.value,
                None if check is None else check.step,
                None if check is None else self._goals.objective.value(check.loss),
                None if check is None else check.measured_violation,
                "unchecked" if check is None else check.stratum,
                None if decision is None else decision.rank,
                None if decision is None else decision.of,
                "finish" if decision is None else decision.action.value,
                report.primary_cost_s,
                report.snapshot_cost_s,
                self._clock(),
                json.dumps(report.metrics) if report.metrics else None,
            ),
            checks,
        )
