"""What the reports of each trial come to: a number per trial, and the best found in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from acetune.study.answer import answer_of
from acetune.study.best_checkpoints import bold_rows, checked_rows, checkpoint, losses, valid_row
from acetune.study.findings import FoundCheckpoint
from acetune.study.reader import StudyView
from acetune.study.report_arrays import INVALID, STEP, UNCHECKED, VALID, Array

NOT_REPORTED = -1
"""The stratum of a trial that has reported nothing."""


class Trials:
    """The trials of a study: columns in the order of ``view.trials``.

    Steps, reports, checks and the best objective are those of the latest attempt; what was found
    and what it cost are of all attempts. Nothing is worked out before it is asked for. It is of the
    moment: make a new one when the view has been refreshed.
    """

    def __init__(self, view: StudyView) -> None:
        self.view = view
        self.numbers: Array = np.array([row.trial for row in view.trials], "i8")
        self._size = 1 + int(self.numbers.max(initial=0))
        # NumPy is ten times as fast at these sums where nothing has to be converted
        self._trial = view.reports.trial.astype(np.intp)
        self._latest = view.is_latest

    # -- columns ---------------------------------------------------------------------------------

    @property
    def described(self) -> dict[str, list[Any]]:
        """What every table of trials begins with, by name; None where there is nothing."""
        rows = self.view.trials
        return {
            "trial": [row.trial for row in rows],
            "attempts": [row.attempt for row in rows],
            "state": [row.state for row in rows],
            "reason": [str(row.reason) for row in rows],
            "total_steps": [row.total_steps for row in rows],
            "interval": [row.interval for row in rows],
            "cost_ratio": [row.cost_ratio for row in rows],
            "last_step": [step or None for step in self.last_step.tolist()],
            "reports": self.reports.tolist(),
            "checks": self.checks.tolist(),
            "best_objective": self._values(self.best_loss),
            "best_valid_objective": self._values(self.best_valid_loss),
        }

    def measured(self, found: Sequence[FoundCheckpoint | None]) -> dict[str, list[Any]]:
        """Value and standard error of each constraint at a checkpoint of each trial, by name."""
        columns: dict[str, list[Any]] = {}
        for constraint in self.view.goals.constraints:
            name = constraint.name
            its = [None if one is None else one.constraints.get(name) for one in found]
            columns[f"constraint.{name}"] = [None if m is None else m.value for m in its]
            columns[f"stderr.{name}"] = [None if m is None else m.stderr for m in its]
        return columns

    @property
    def stratum(self) -> Array:
        """The best that any of its reports was in, NOT_REPORTED where there is none."""
        found = np.full(self._size, NOT_REPORTED, "i1")
        np.maximum.at(found, self._trial, self.view.reports.stratum)
        return found[self.numbers]

    @property
    def last_step(self) -> Array:
        """The last step that was reported, 0 where none was."""
        found, latest = np.zeros(self._size, "i8"), self._latest
        np.maximum.at(found, self._trial[latest], self.view.reports.step[latest])
        return found[self.numbers]

    @property
    def reports(self) -> Array:
        """How many steps were reported."""
        return self._count(self._latest & (self.view.reports.kind == STEP))

    @property
    def checks(self) -> Array:
        """How many checkpoints were checked."""
        checked = np.zeros(len(self.view.reports), bool)
        checked[self.view.checks.row] = True
        return self._count(self._latest & checked)

    @property
    def best_loss(self) -> Array:
        """The best objective with its sign such that smaller is better, infinite without one."""
        reports, objective, latest = self.view.reports, self.view.goals.objective, self._latest
        return self.least(latest, losses(objective, reports.objective[latest]))

    @property
    def best_valid_loss(self) -> Array:
        """The same of what was found valid."""
        reports, objective = self.view.reports, self.view.goals.objective
        valid = reports.stratum == VALID
        return self.least(valid, losses(objective, reports.checked_objective[valid]))

    @property
    def least_violation(self) -> Array:
        """Infinite where all checks failed, and where there was none."""
        tried = self.view.reports.stratum != UNCHECKED
        return self.least(tried, self.view.reports.violation[tried])

    @property
    def training_s(self) -> Array:
        """What training cost."""
        return self._sum(self._trial, self.view.reports.primary_cost_s)

    @property
    def costed(self) -> Array:
        """How many reports, of all attempts, came with what training cost."""
        known = ~np.isnan(self.view.reports.primary_cost_s)
        return self._count(known)

    @property
    def snapshots_s(self) -> Array:
        """What copies for later checks cost."""
        return self._sum(self._trial, self.view.reports.snapshot_cost_s)

    @property
    def checks_s(self) -> Array:
        """What checks cost."""
        return self._sum(self._trial[self.view.checks.row], self.view.checks.cost_s)

    @property
    def last_time(self) -> list[float]:
        """When the last report came, or else when the latest attempt began."""
        latest, found = self._latest, np.full(self._size, -math.inf)
        found[self._trial[latest]] = self.view.reports.time[latest]  # the last of them stays
        times = found[self.numbers].tolist()
        return [
            row.started if time == -math.inf else time
            for row, time in zip(self.view.trials, times, strict=True)
        ]

    def _values(self, losses: Array) -> list[float | None]:
        """Losses in the user's units, None for what is infinite."""
        value = self.view.goals.objective.value
        return [None if math.isinf(loss) else value(loss) for loss in losses.tolist()]

    def _count(self, which: Array) -> Array:
        return np.bincount(self._trial[which], minlength=self._size)[self.numbers]

    def _sum(self, trial: Array, values: Array) -> Array:
        return np.bincount(trial, np.nan_to_num(values), minlength=self._size)[self.numbers]

    def least(self, which: Array, values: Array) -> Array:
        """The least of some values of each trial, infinite without one: those of these reports."""
        least = np.full(self._size, math.inf)
        np.minimum.at(least, self._trial[which], values)
        return least[self.numbers]

    # -- what was found --------------------------------------------------------------------------

    def nearest_miss(self, trial: int) -> FoundCheckpoint | None:
        """The least violating checkpoint of a trial; one whose check failed for want of others."""
        row = self._invalid_rows.get(trial)
        return None if row is None else checkpoint(self.view, row)

    def found(self, trial: int) -> FoundCheckpoint | None:
        """The checkpoint that counts, of :attr:`found_rows`."""
        row = self.found_rows.get(trial)
        return None if row is None else checkpoint(self.view, row)

    @cached_property
    def found_rows(self) -> dict[int, int]:
        """The row of the checkpoint that counts, by trial: in the answer's trial the answer.

        In others the best valid one; else the best that misses only a margin acetune has chosen;
        else the nearest miss.
        """
        view = self.view
        found = {
            **self._invalid_rows,
            **self._by_trial(bold_rows(view)),
            **self._by_trial(checked_rows(view, VALID)),
        }
        best = answer_of(view)
        row = None if best is None else valid_row(view, best.trial, best.attempt, best.step)
        return found if best is None or row is None else {**found, best.trial: row}

    @property
    def ranking(self) -> list[int]:
        """Trials with a valid checkpoint, the best first."""
        found: list[int] = self.view.reports.trial[checked_rows(self.view, VALID)].tolist()
        return found

    @property
    def failed_rows(self) -> dict[int, int]:
        """Rows of the checkpoints that count although a check of theirs failed, by trial."""
        violation = self.view.reports.violation
        return {trial: row for trial, row in self.found_rows.items() if math.isinf(violation[row])}

    @cached_property
    def _invalid_rows(self) -> dict[int, int]:
        return self._by_trial(checked_rows(self.view, INVALID))

    def _by_trial(self, rows: Array) -> dict[int, int]:
        return dict(zip(self.view.reports.trial[rows].tolist(), rows.tolist(), strict=True))

    # -- what an attempt went on from ------------------------------------------------------------

    def curve(self, trial: int) -> Array:
        """The rows of its reports of training that count, as they came.

        An attempt that went on from a checkpoint keeps the reports up to it.
        """
        rows = self._kept(trial, self.view.reports.step)
        found: Array = rows[self.view.reports.kind[rows] == STEP]
        return found

    def checked(self, trial: int) -> Array:
        """The rows that have checked a checkpoint which counts, as they came."""
        rows = self._kept(trial, self.view.reports.checked_step)
        found: Array = rows[self.view.reports.checked_step[rows] > 0]
        return found

    def _kept(self, trial: int, steps: Array) -> Array:
        """Its rows whose step, in a column, is not beyond where the next attempt went on from."""
        order, begins = self._grouped
        rows: Array = order[begins[trial] : begins[trial + 1]]
        attempts = self.view.attempts(trial)
        if len(attempts) == 1:
            return rows
        keep: Array = np.zeros(len(rows), bool)
        upto = math.inf
        for attempt in reversed(attempts):
            keep |= (self.view.reports.attempt[rows] == attempt.attempt) & (steps[rows] <= upto)
            upto = min(upto, attempt.resumed_from)
        return rows[keep]

    @cached_property
    def _grouped(self) -> tuple[Array, Array]:
        """The rows by trial, and where each trial begins among them."""
        order = np.argsort(self.view.reports.trial, kind="stable")
        begins = np.searchsorted(self.view.reports.trial[order], np.arange(self._size + 1))
        return order, begins
