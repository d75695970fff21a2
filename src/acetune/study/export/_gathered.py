"""A study as an export sees it: its trials, and its reports one by one.

What is said of trials comes from the view of the study. Reports pass by as they stand in the file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from acetune.core.errors import AcetuneError
from acetune.core.report_values import to_json
from acetune.study.answer import (
    candidates_of,
    choose_answer,
    outcome_of,
    status_of,
    with_confirmation,
)
from acetune.study.best_checkpoints import checkpoint
from acetune.study.findings import Status
from acetune.study.integrity import understanding
from acetune.study.limits_kept import keeps_limits
from acetune.study.per_trial import Trials
from acetune.study.reader import StudyView
from acetune.study.report_arrays import STRATA
from acetune.study.table_rows import CheckRow, ReportRow

Reported: TypeAlias = tuple[ReportRow, list[CheckRow]]


class Gathered:
    """A study to be exported: what the view has read, and no report that came later.

    Attributes
    ----------
    goals, info:
        What is wanted, and what is known of the study as a whole.
    trials, numbers:
        The latest attempt of each trial, and what their reports come to: columns in that order.
    found, nearest_miss:
        The checkpoint that counts in each trial that has one, by number, and its nearest miss.
    feasible:
        The place of each trial whose checkpoint keeps the limits, by number, the best first.
    errors:
        Of the constraints whose check failed at the checkpoint that counts, by trial.
    """

    def __init__(self, view: StudyView) -> None:
        self._view = view
        self.goals, self.trials, self.numbers = view.goals, view.trials, Trials(view)
        candidates = candidates_of(view)
        best = self.answer = choose_answer(candidates)
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
        self._rows, keeps = self.numbers.found_rows, keeps_limits(view)
        self.found = {
            trial: with_confirmation(checkpoint(view, row), view.confirmations)
            for trial, row in self._rows.items()
        }
        loss = self.goals.objective.loss
        ranked = sorted(  # of equal ones the first trial comes first, as in Optuna
            (loss(self.found[trial].value), trial)
            for trial, row in self._rows.items()
            if keeps[row]
        )
        self.feasible = {trial: place for place, (_, trial) in enumerate(ranked)}
        self.nearest_miss = {
            row.trial: found
            for row in view.trials
            if (found := self.numbers.nearest_miss(row.trial)) is not None
        }
        self.errors = self._errors()

    @property
    def startup_s(self) -> list[float]:
        """What starting all attempts of each trial took, in the order of ``trials``."""
        attempts = self._view.attempts
        return [
            sum(attempt.startup_cost_s or 0.0 for attempt in attempts(row.trial))
            for row in self.trials
        ]

    def stratum(self, trial: int) -> str:
        """Of the checkpoint that counts."""
        row = self._rows.get(trial)
        return "unchecked" if row is None else STRATA[int(self._view.reports.stratum[row])]

    def status(self, trial: int) -> Status | None:
        """What fresh data said of the checkpoint that counts; None where it breaks a limit."""
        return self.found[trial].status if trial in self.feasible else None

    def reports(self) -> Iterator[Reported]:
        """All reports with their checks, as they were acknowledged."""
        seq = self._view.reports.seq
        with self._view.open() as store:
            yield from store.reports(int(seq[-1]) if len(seq) else 0)

    def curve(self, trial: int) -> dict[int, float]:
        """The objective at each step of a trial."""
        reports, rows = self._view.reports, self.numbers.curve(trial)
        return dict(zip(reports.step[rows].tolist(), reports.objective[rows].tolist(), strict=True))

    def _errors(self) -> dict[int, dict[str, str]]:
        """What failed checks of the checkpoints that count said, by trial and constraint."""
        seq = self._view.reports.seq
        trial_of = {int(seq[row]): trial for trial, row in self.numbers.failed_rows.items()}
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
        with understanding(study, AcetuneError):  # of where it is written to
            yield gathered
