"""A study as an export sees it: its trials, and its reports one by one.

What is said of trials comes from the view of the study. Reports pass by as they stand in the file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from acetune.core.measurements import to_json
from acetune.study.answer import (
    candidates_of,
    choose_answer,
    outcome_of,
    status_of,
    with_confirmation,
)
from acetune.study.findings import FoundCheckpoint
from acetune.study.per_trial import Trials
from acetune.study.store import CheckRow, ReportRow, understanding
from acetune.study.view import StudyView, TrialRow

Reported: TypeAlias = tuple[ReportRow, list[CheckRow]]


class ExportedTrial(NamedTuple):
    """One trial: its latest attempt, what its reports come to, and the best found in it."""

    row: TrialRow
    startup_s: float
    training_s: float
    checks_s: float
    snapshots_s: float
    reports: int
    checks: int
    last_step: int
    last_time: float
    best_loss: float
    best_valid: FoundCheckpoint | None
    nearest_miss: FoundCheckpoint | None
    errors: Mapping[str, str]  # of the constraints whose check failed at the checkpoint that counts

    @property
    def found(self) -> FoundCheckpoint | None:
        """The checkpoint that counts: the best valid one, or else the nearest miss."""
        return self.best_valid or self.nearest_miss

    @property
    def stratum(self) -> str:
        """Of the checkpoint that counts."""
        if self.found is None:
            return "unchecked"
        return "invalid" if self.best_valid is None else "valid"

    @property
    def status(self) -> str | None:
        """What confirmation said of the best valid checkpoint."""
        return None if self.best_valid is None else self.best_valid.status


class Gathered:
    """A study to be exported: what the view has read, and no report that came later."""

    def __init__(self, view: StudyView) -> None:
        self._view, self._trials = view, Trials(view)
        self.goals = view.goals
        candidates = candidates_of(view)
        best = choose_answer(candidates)
        answer = best and {"trial": best.trial, "attempt": best.attempt, "step": best.step}
        self.info: dict[str, Any] = {
            **view.info,
            "confirmations": [
                {**use, "metrics": {name: to_json(found) for name, found in use["metrics"].items()}}
                for use in view.confirmations
            ],
            "looks": view.looks,
            "outcome": outcome_of(candidates),
            "status": status_of(candidates),
            "answer": answer,
        }

    @property
    def ranking(self) -> list[int]:
        """Trials with a valid checkpoint, the best of the search first."""
        return self._trials.ranking

    def reports(self) -> Iterator[Reported]:
        """All reports with their checks, as they were acknowledged."""
        seq = self._view.reports.seq
        with self._view.open() as store:
            yield from store.reports(int(seq[-1]) if len(seq) else 0)

    def trials(self) -> list[ExportedTrial]:
        """The trials by number."""
        with understanding(self._view.path):
            return self._exported

    @cached_property
    def _exported(self) -> list[ExportedTrial]:
        trials, view, errors = self._trials, self._view, self._errors()
        numbers = zip(
            trials.training_s.tolist(),
            trials.checks_s.tolist(),
            trials.snapshots_s.tolist(),
            trials.reports.tolist(),
            trials.checks.tolist(),
            trials.last_step.tolist(),
            trials.last_time,
            trials.best_loss.tolist(),
            strict=True,
        )
        found = []
        for row, its in zip(view.trials, numbers, strict=True):
            startup_s = sum(attempt.startup_cost_s or 0.0 for attempt in view.attempts(row.trial))
            best, miss = trials.best_valid(row.trial), trials.nearest_miss(row.trial)
            judged = best and with_confirmation(best, view.confirmations)
            failed = errors.get(row.trial, {})
            found.append(ExportedTrial._make([row, startup_s, *its, judged, miss, failed]))
        return found

    def curve(self, trial: int) -> dict[int, float]:
        """The objective at each step of a trial."""
        reports, rows = self._view.reports, self._trials.curve(trial)
        return dict(zip(reports.step[rows].tolist(), reports.objective[rows].tolist(), strict=True))

    def _errors(self) -> dict[int, dict[str, str]]:
        """What failed checks of the checkpoints that count said, by trial and constraint."""
        seq = self._view.reports.seq
        trial_of = {int(seq[row]): trial for trial, row in self._trials.failed_rows.items()}
        found: dict[int, dict[str, str]] = {}
        with self._view.open() as store:
            for check in store.checks_at(list(trial_of)):
                if check["value"] is None:
                    of_trial = found.setdefault(trial_of[check["seq"]], {})
                    of_trial[check["constraint"]] = check["error"] or ""
        return found


@contextlib.contextmanager
def gathering(study: Path) -> Iterator[Gathered]:
    """A study file opened to be exported, also while the study is running."""
    with StudyView(study) as view:
        with understanding(study):
            gathered = Gathered(view)
        yield gathered
