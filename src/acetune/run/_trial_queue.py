"""Which trial is tried next, and what becomes of its end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from acetune.core.reason import (
    Reason,
)
from acetune.run._early_end import EndedStudyError
from acetune.run._messages import Evaluate, Evaluated
from acetune.run._options import Settings
from acetune.run._pool import Slot
from acetune.run.study_callbacks import Listeners
from acetune.study.coordinator import StudyCoordinator
from acetune.study.session import StudyTrial


class TrialQueue:
    """New trials, and those to try again.

    Parameters
    ----------
    coordinator:
        Decides and remembers.
    suggest:
        Gives the next new trial, already recorded; None if it was called away while it waited to
        measure something alone.
    told:
        Called with the number of a trial that has ended for good.
    settings, listeners:
        Budgets and limits, and who is told what happens.
    """

    def __init__(
        self,
        coordinator: StudyCoordinator,
        suggest: Callable[[Callable[[], bool]], StudyTrial | None],
        told: Callable[[int], None],
        settings: Settings,
        listeners: Listeners,
    ) -> None:
        self._coordinator, self._suggest, self._told = coordinator, suggest, told
        self._settings, self._listeners = settings, listeners
        self._again: deque[int] = deque()
        self._failures = 0  # one after another
        self.ended = 0  # trials that have ended for good in this session

    def try_again(self, trials: Iterable[int]) -> None:
        """These come before new ones."""
        self._again.extend(trials)

    def left(self) -> int | None:
        """How many trials wait to be started; None: no limit."""
        limit = self._settings.max_trials
        if limit is None:
            return None
        return len(self._again) + max(0, limit - len(self._coordinator.trials))

    def next(self, called_away: Callable[[], bool]) -> StudyTrial | None:
        """The trial to start now; None: not now. To be called in a transaction."""
        if self._again:
            return self._coordinator.add_attempt(self._again.popleft())
        return self._suggest(called_away)

    def release(self, slot: Slot) -> None:
        """The slot's trial is over: tell who wants to know, and free the slot."""
        trial = slot.trial
        assert trial is not None and trial.handle is not None
        slot.trial = slot.check = slot.told_to_stop = slot.check_deadline = None
        record = trial.handle.record
        if record.state == "failed" and trial.failures <= self._settings.retries:
            self._again.append(trial.number)
        elif record.state != "interrupted":
            self.ended += 1
            self._told(trial.number)
        self._listeners.call("on_trial_end", trial.number, record.state, str(record.reason))

    def done(self, slot: Slot) -> None:
        """The slot's training function has returned."""
        self._failures = 0
        self.release(slot)

    def fail(
        self, slot: Slot, reason: Reason, traceback: str | None = None, certain: bool = False
    ) -> None:
        """The slot's trial went wrong; ``certain``: it would again, and so would any other.

        A call of report that is wrong in itself may still sit in a branch that few trials take, so
        it ends the study only while no trial has reported anything.
        """
        trial = slot.trial
        assert trial is not None
        if trial.handle is not None and not trial.running:
            # it had been stopped or had finished; what it did then does not change that
            text = f"trial {trial.number} went wrong after its end: {reason}"
            self._listeners.notice(text)
            self.release(slot)
            return
        self._coordinator.fail(trial, reason, traceback)
        error = traceback or str(reason)
        if certain:
            trial.failures = max(trial.failures, self._settings.retries + 1)  # not tried again
            if not any(self._coordinator.stopper.history.strata.values()):
                self.release(slot)
                raise EndedStudyError(
                    "the training function calls report wrongly, so no trial can go well and the "
                    "study was ended",
                    f"trial {trial.number} failed with:\n{error}",
                )
        self.count_failure(slot, trial, error)

    def count_failure(self, slot: Slot, trial: StudyTrial, error: str) -> None:
        """A trial has failed: too many of them one after another end the study."""
        self._failures += 1
        self.release(slot)
        if self._failures >= self._settings.max_failures:
            raise EndedStudyError(
                f"{self._failures} trials failed one after another, so the study was ended",
                f"the last one, trial {trial.number}, with:\n{error}",
            )


class Evaluation:
    """Models to evaluate after the run, and what came of it."""

    def __init__(self, tasks: Sequence[Evaluate]) -> None:
        self._waiting = deque(enumerate(tasks))
        self.results: list[Evaluated | None] = [None] * len(tasks)

    def left(self) -> int:
        """How many models wait for a worker."""
        return len(self._waiting)

    def assign(self, slot: Slot) -> None:
        """Give a worker the next one."""
        slot.evaluating, task = self._waiting.popleft()
        slot.send(task)

    def take(self, slot: Slot, result: Evaluated) -> None:
        """What came of the one that a worker was given."""
        assert slot.evaluating is not None
        self.results[slot.evaluating] = result
        slot.evaluating = slot.check_deadline = None
