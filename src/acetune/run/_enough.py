"""When a study ends before its budget is spent: the target is reached, or nothing gets better."""

from __future__ import annotations

from collections.abc import Callable

from acetune.core.reason import NO_BETTER_S, NO_BETTER_TRIALS, TARGET_REACHED, Reason, Value
from acetune.run._options import Settings
from acetune.study.coordinator import StudyCoordinator

_WAYS_ON = {
    TARGET_REACHED.code: "give a better target=, or none",
    NO_BETTER_TRIALS.code: "raise patience_trials=",
    NO_BETTER_S.code: "raise patience_s=",
}


class Enough:
    """Looks at the best feasible checkpoint; patience is counted from the first one on.

    Parameters
    ----------
    coordinator, settings:
        What was found, in earlier sessions too, and what was asked for.
    ended, elapsed:
        How many trials have ended in this session, and the seconds that the study has searched.
    """

    def __init__(
        self,
        coordinator: StudyCoordinator,
        settings: Settings,
        ended: Callable[[], int],
        elapsed: Callable[[], float],
    ) -> None:
        self._history, self._goals = coordinator.stopper.history, coordinator.goals
        self._settings, self._ended, self._elapsed = settings, ended, elapsed
        self._loss: float | None = None  # of the best
        self._since = 0, 0.0  # trials ended and seconds searched when it was found
        best = coordinator.stopper.best
        if best is not None:
            self._loss = self._goals.objective.loss(best.value)
            trials, seconds = coordinator.store.since(int(best.trial), best.step)
            self._since = ended() - trials, elapsed() - seconds

    def look(self) -> Reason | None:
        """Why the study has found enough, if it has."""
        settings, best = self._settings, self._history.best
        if best is None:
            return None
        if self._loss is None or best.loss < self._loss:
            self._since = self._ended(), self._elapsed()
        self._loss = best.loss
        objective = self._goals.objective
        if settings.target is not None and best.loss <= objective.loss(settings.target):
            value = objective.value(best.loss)
            numbers: dict[str, Value] = {
                "objective": objective.name,
                "value": value,
                "target": settings.target,
            }
            return Reason(TARGET_REACHED, numbers)
        trials, seconds = self._since
        if settings.patience_trials is not None:
            without = self._ended() - trials
            if without >= settings.patience_trials:
                return Reason(NO_BETTER_TRIALS, {"trials": without})
        if settings.patience_s is not None:
            waited = self._elapsed() - seconds
            if waited >= settings.patience_s:
                return Reason(NO_BETTER_S, {"seconds": waited})
        return None

    @staticmethod
    def way_on(reason: Reason) -> str:
        """How the study goes on all the same."""
        return _WAYS_ON[reason.code]
