"""Hooks for people's own loggers, and the live state they can look at."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acetune.core.say_once import SayOnce

if TYPE_CHECKING:  # who shows a study that has ended starts faster
    from acetune.core.decision import Decision, Stratum
    from acetune.core.goals import Goals
    from acetune.policies.stopper import CheckedCheckpoint
    from acetune.study.coordinator import Coordinator
    from acetune.trial.link import Report


class StudyStatus:
    """How a running study stands. Cheap to look at; always current."""

    def __init__(
        self,
        coordinator: Coordinator,
        time_budget_s: float | None,
        max_trials: int | None,
        elapsed: Callable[[], float],
        study: Path | None = None,
    ) -> None:
        self._coordinator, self._study = coordinator, study
        self.time_budget_s, self.max_trials = time_budget_s, max_trials
        self._elapsed = elapsed

    @property
    def goals(self) -> Goals:
        """Objective and constraints."""
        return self._coordinator.goals

    @property
    def study(self) -> Path | None:
        """The study file, for :func:`acetune.load`; None where a listener is tried without one."""
        return self._study

    @property
    def elapsed_s(self) -> float:
        """Seconds spent, earlier sessions included."""
        return self._elapsed()

    @property
    def trials(self) -> int:
        """Trials started."""
        return len(self._coordinator.trials)

    @property
    def by_state(self) -> Mapping[str, int]:
        """How many trials are running, finished, stopped, failed, interrupted, rejected."""
        records = self._coordinator.stopper.history.trials.values()
        counts: dict[str, int] = dict(Counter(record.state for record in records))
        if self._coordinator.rejected:
            counts["rejected"] = self._coordinator.rejected
        return counts

    @property
    def strata(self) -> Mapping[Stratum, int]:
        """How many reports were valid, invalid, unchecked."""
        return self._coordinator.stopper.history.strata

    @property
    def best(self) -> CheckedCheckpoint | None:
        """The best feasible checkpoint so far."""
        return self._coordinator.stopper.best

    @property
    def nearest_miss(self) -> CheckedCheckpoint | None:
        """The least violating checkpoint so far."""
        return self._coordinator.stopper.nearest_miss

    def found_in(self, trial: int) -> tuple[CheckedCheckpoint | None, bool]:
        """The best that was found in a trial so far, and whether it is feasible.

        Its best feasible checkpoint; without one its nearest miss, or None if it has none either.
        """
        return self._coordinator.stopper.found_in(trial)

    @property
    def check_share(self) -> float:
        """Share of the measured time that went into checks."""
        costs = self._coordinator.stopper.history.costs
        total = costs.primary_s + costs.total_check_s
        return costs.total_check_s / total if total else 0.0


class StudyCallback:
    """Derive from this and override what you need; pass objects as ``tune(callbacks=[...])``.

    All methods are called in the driver process. One that raises is reported and not called
    again; the study goes on.
    """

    def on_start(self, status: StudyStatus) -> None:
        """The study begins or goes on."""

    def on_trial_start(self, trial: int, attempt: int, params: Mapping[str, Any]) -> None:
        """An attempt at a trial begins."""

    def on_report(self, trial: int, report: Report, decision: Decision) -> None:
        """A report was recorded and decided on."""

    def on_trial_end(self, trial: int, state: str, reason: str) -> None:
        """A trial ended."""

    def on_notice(self, text: str) -> None:
        """Something worth knowing happened."""

    def on_tick(self) -> None:
        """Called about four times a second while the study runs."""

    def on_end(self) -> None:
        """The study ended; also after an error."""


class Listeners:
    """Several callbacks as one. A callback that raises is dropped, with a notice."""

    def __init__(self, callbacks: Sequence[StudyCallback]) -> None:
        self._callbacks = list(callbacks)
        self._last_tick = 0.0
        self.once = SayOnce(self.notice)

    def call(self, method: str, *arguments: Any) -> None:
        """Call a method of all callbacks."""
        for callback in list(self._callbacks):
            try:
                getattr(callback, method)(*arguments)
            except Exception as error:
                self._callbacks.remove(callback)
                name = type(callback).__name__
                text = f"callback {name}.{method} raised {type(error).__name__}: {error}"
                self.notice(f"{text}; it is not called again")

    def notice(self, text: str) -> None:
        """Tell all callbacks something worth knowing."""
        self.call("on_notice", text)

    def tick(self) -> None:
        """Call ``on_tick`` unless that was a moment ago."""
        now = time.monotonic()
        if now - self._last_tick >= 0.25:
            self._last_tick = now
            self.call("on_tick")
