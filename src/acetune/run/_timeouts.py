"""Workers that hang or must go: what is waited for how long, and what follows.

Deadlines are kept by the time in which this process ran: Ctrl-Z, a laptop that sleeps and a
container that is paused stop processes and not the clock. A worker that was stopped as long as its
driver has not been silent for all that time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Literal

from acetune.core.errors import ReportError
from acetune.core.goals import FailedCheck
from acetune.core.reason import Reason, Wording
from acetune.run._options import Settings
from acetune.run._pool import Pool, Slot
from acetune.run._trial_queue import TrialQueue
from acetune.run.study_callbacks import Listeners
from acetune.study.coordinator import StudyCoordinator
from acetune.trial.checks import timed_out

_DID_NOT_STOP = Wording(
    "did_not_stop",
    "trial {trial} did not end within {grace:g} s of being stopped, so its worker was ended; leave "
    "the loop when trial.should_stop is true",
    "did not end within {grace:g} s of being stopped",
)
_NO_REPORT = Wording("no_report", "no report for {seconds:g} s (report_timeout_s)")
_LOOK_S = 0.25
_STOPPED_S = 1.0  # who has not looked at the clock for longer did not run


class AwakeClock:
    """A clock that stands still while this process does; call it for the seconds it has counted.

    A thread looks at it all the time, so that long waits and computations count.

    >>> times = iter([0.0, 0.5, 900.0, 900.25])
    >>> clock = AwakeClock(lambda: next(times), watched=False)
    >>> clock(), clock(), clock()
    (0.5, 1.5, 1.75)
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, watched: bool = True
    ) -> None:
        self._clock, self._counted, self._looked = clock, 0.0, clock()
        self._looking, self._closed = threading.Lock(), threading.Event()
        if watched:
            threading.Thread(target=self._watch, name="acetune-clock", daemon=True).start()

    def __call__(self) -> float:
        """Seconds since the clock was made in which this process ran."""
        with self._looking:
            now = self._clock()
            self._counted += min(now - self._looked, _STOPPED_S)
            self._looked = now
            return self._counted

    def close(self) -> None:
        """Nobody needs it any more."""
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(_LOOK_S):
            self()


class Timeouts:
    """Ends workers that outrun a limit. ``lost`` is called for one that is gone, with the why.

    Attributes
    ----------
    clock:
        What deadlines are kept by; it stands still while this process is stopped.
    """

    def __init__(
        self,
        coordinator: StudyCoordinator,
        pool: Pool,
        queue: TrialQueue,
        listeners: Listeners,
        settings: Settings,
        lost: Callable[[Slot, Reason], None],
    ) -> None:
        self._coordinator, self._pool, self._queue = coordinator, pool, queue
        self._listeners, self._settings, self._lost = listeners, settings, lost
        self.clock = AwakeClock()
        self._timeouts = {c.name: c.timeout_s for c in coordinator.goals.constraints}

    def check_begins(self, slot: Slot, constraint: str) -> None:
        """A check with a timeout begins now."""
        timeout = self._timeouts[constraint]
        assert timeout is not None  # workers announce only checks that have one
        slot.checking = constraint
        slot.check_deadline = slot.last_heard + timeout

    def cut_off(self, slot: Slot, reason: Reason) -> None:
        """End a worker because the study ends, or because its trial has ended and it goes on."""
        self._pool.kill(slot)
        with self._coordinator.store.transaction():
            if slot.trial is not None:
                self._coordinator.interrupt(slot.trial, reason)
                self._queue.release(slot)
        slot.evaluating = slot.check_deadline = None

    def overdue(self, slot: Slot, now: float) -> Literal["check", "stop", "report"] | None:
        """What the slot's worker takes too long for, as far as was heard of it."""
        silence = self._settings.report_timeout_s
        if slot.check_deadline is not None and now > slot.check_deadline:
            return "check"
        if slot.trial is None:
            return None
        if slot.told_to_stop is not None:
            return "stop" if now > slot.told_to_stop + self._settings.stop_grace_s else None
        return "report" if silence is not None and now > slot.last_heard + silence else None

    def enforce_deadlines(self, slot: Slot, now: float) -> None:
        """End the slot's worker if what it does takes too long."""
        overdue = self.overdue(slot, now)
        if overdue == "check":
            self._end_check(slot)
        elif overdue == "stop":
            assert slot.trial is not None
            numbers = {"trial": slot.trial.number, "grace": self._settings.stop_grace_s}
            reason = Reason(_DID_NOT_STOP, numbers)
            self._listeners.notice(str(reason))
            self.cut_off(slot, reason)
        elif overdue == "report":
            silence = self._settings.report_timeout_s
            assert silence is not None  # else nothing is overdue
            self._pool.kill(slot)
            with self._coordinator.store.transaction():
                self._lost(slot, Reason(_NO_REPORT, {"seconds": silence}))

    def _end_check(self, slot: Slot) -> None:
        """A check has outrun its timeout: a failed check, and the end of its trial."""
        timeout = self._timeouts[slot.checking]
        assert timeout is not None  # it has a deadline
        reason = timed_out(slot.checking, timeout)
        error = str(reason)
        self._pool.kill(slot)
        asked, trial = slot.check, slot.trial
        with self._coordinator.store.transaction():
            if trial is not None and asked is not None:
                assert trial.handle is not None
                failed: dict[str, Any] = dict.fromkeys(self._timeouts, FailedCheck(error))
                costs = {slot.checking: timeout}
                report = asked.report._replace(measured=failed, check_cost_s=costs)
                try:
                    decision = self._coordinator.fail_check(trial, report, reason)
                except ReportError:  # a report that could not have been taken either
                    self._lost(slot, reason)
                    return
                if decision is not None:
                    self._listeners.call("on_report", trial.number, report, decision)
                self._queue.count_failure(slot, trial, error)
            else:
                self._lost(slot, reason)
