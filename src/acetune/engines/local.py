"""The local engine: a driver with worker processes on one machine.

The driver is one thread: it waits for messages, lets the coordinator decide, commits, and only then
answers. Whatever happens to a worker (killed, hung, out of memory) fails its trial, not the study.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from acetune.coordinator import Coordinator
from acetune.core.decision import Action, Decision
from acetune.core.errors import ReportError, StudyError, TrainingCodeError
from acetune.core.goals import FailedCheck
from acetune.engines import messages as m
from acetune.engines.pool import Died, Pool, Slot
from acetune.link import Reply, Report
from acetune.listener import Listeners
from acetune.store import INTERRUPTED
from acetune.study_trial import StudyTrial

_TICK_S = 0.25


@dataclass(frozen=True, slots=True)
class Settings:
    """How a study runs, apart from what it is about."""

    workers: int
    threads: int
    devices: Sequence[str] = ()
    time_budget_s: float | None = None
    max_trials: int | None = None
    retries: int = 0
    report_timeout_s: float | None = None
    stop_grace_s: float = 30.0
    max_failures: int = 5


@dataclass(slots=True)
class _Closing:
    """Why and since when no more trials are started."""

    reason: str
    since: float


@dataclass(slots=True)
class _Evaluation:
    """Models to evaluate, and what came of it."""

    tasks: deque[tuple[int, m.Evaluate]]
    results: dict[int, m.Evaluated] = field(default_factory=dict)


class LocalEngine:
    """Runs trials in worker processes until the budget is spent.

    Parameters
    ----------
    coordinator:
        Decides and remembers.
    suggest:
        Gives the next new trial, already recorded.
    told:
        Called with the number of a trial that has ended for good.
    work:
        The user's code, pickled.
    settings:
        Workers, budgets and limits.
    listeners:
        Who is told what happens.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        suggest: Callable[[], StudyTrial],
        told: Callable[[int], None],
        work: bytes,
        settings: Settings,
        listeners: Listeners,
    ) -> None:
        self._coordinator, self._store = coordinator, coordinator.store
        self._suggest, self._told = suggest, told
        self._settings, self._listeners = settings, listeners
        self._timeouts = {c.name: c.timeout_s for c in coordinator.goals.constraints}
        self._pool = Pool(
            work,
            self._store.files.resolve(),
            settings.workers,
            settings.threads,
            settings.devices,
        )
        self._queue: deque[int] = deque()  # trials to try again
        self._closing: _Closing | None = None
        self._interrupts = 0
        self._failures = 0  # one after another
        self._evaluation: _Evaluation | None = None
        self._earlier_s = self._store.searched()
        self._began = time.monotonic()
        self._search_ended: float | None = None
        self._session = 0
        self._last_beat = 0.0
        self._noticed: set[object] = set()
        coordinator.stopper.on_repeat = lambda text: listeners.call("on_notice", text)

    # -- the study -------------------------------------------------------------------------------

    def elapsed(self) -> float:
        """Seconds this study has searched, earlier sessions included."""
        return self._earlier_s + self._search_s()

    def _search_s(self) -> float:
        end = time.monotonic() if self._search_ended is None else self._search_ended
        return end - self._began

    @property
    def interrupted(self) -> bool:
        """Whether the user ended the study."""
        return self._interrupts > 0

    def run(self, under_way: Sequence[int] = ()) -> None:
        """Run trials until the budget is spent, the user interrupts, or nothing is left to do.

        ``under_way`` are trials of an earlier session that are to be tried again.
        """
        self._queue.extend(under_way)
        with self._store.transaction():
            self._session = self._store.add_session(time.time(), socket.gethostname())
        spent = self._settings.time_budget_s is not None and (
            self.elapsed() >= self._settings.time_budget_s
        )
        if spent or self._trials_left() == 0:
            text = "nothing left to do: the budget is spent; raise time_budget_s or max_trials"
            self._listeners.call("on_notice", text)
        self._loop(self._trials_left)
        self._search_ended = self._search_ended or time.monotonic()
        with self._store.transaction():
            why = self._closing.reason if self._closing is not None else "all trials are done"
            self._store.end_session(self._session, why)

    def evaluate(self, tasks: Sequence[m.Evaluate]) -> list[m.Evaluated | None]:
        """Evaluate kept models, in parallel; None stands for those cut off by the user."""
        self._evaluation = _Evaluation(deque(enumerate(tasks)))
        results = self._evaluation.results
        if not self._interrupts:
            self._closing = None
            self._loop(self._evaluations_left)
        self._evaluation = None
        return [results.get(index) for index in range(len(tasks))]

    def close(self) -> None:
        """End all workers. Trials that an error has left running can go on in another session."""
        try:
            for slot in self._pool.slots:
                if slot.busy:
                    self._cut_off(slot, "the study was ended")
            self._coordinator.shelf.sweep()
        finally:
            self._pool.close()

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """Ctrl-C once ends the study cleanly, twice at once. Only possible in the main thread."""

        def interrupt(_signal: int, _frame: object) -> None:
            self._interrupts += 1
            if self._interrupts > 2:  # the driver does not come round to looking: get it out
                raise KeyboardInterrupt

        before = {}
        # in another thread the application has its own way to be interrupted
        with contextlib.suppress(ValueError):
            for number in (signal.SIGINT, signal.SIGTERM):
                before[number] = signal.signal(number, interrupt)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    # -- the loop --------------------------------------------------------------------------------

    def _loop(self, left: Callable[[], int | None]) -> None:
        """Work until nothing is ``left`` (how many tasks wait; None is endless) or it closes."""
        while True:
            self._look_at_the_clock()
            if self._closing is None:
                self._assign(left)
            if not any(slot.busy for slot in self._pool.slots) and (
                self._closing is not None or left() == 0
            ):
                break
            self._listen()
            self._enforce_deadlines()
            self._beat()
            self._listeners.tick()
        self._beat(at_once=True)

    def _trials_left(self) -> int | None:
        limit = self._settings.max_trials
        if limit is None:
            return None
        return len(self._queue) + max(0, limit - len(self._coordinator.trials))

    def _evaluations_left(self) -> int:
        return len(self._evaluation.tasks) if self._evaluation is not None else 0

    def _look_at_the_clock(self) -> None:
        """Begin to close when the budget is spent or the user says so; end what does not end."""
        now, budget = time.monotonic(), self._settings.time_budget_s
        if self._closing is None:
            if self._interrupts:
                text = "interrupted: ending cleanly, press Ctrl-C again to stop at once"
                self._listeners.call("on_notice", text)
                self._closing = _Closing(INTERRUPTED, now)
            elif self._evaluation is None and budget is not None and self.elapsed() >= budget:
                self._closing = _Closing("the time budget is spent", now)
            else:
                return
            self._search_ended = self._search_ended or now
        if self._interrupts > 1 or now > self._closing.since + self._settings.stop_grace_s:
            for slot in self._pool.slots:
                if slot.busy:
                    self._cut_off(slot, self._closing.reason)

    def _listen(self) -> None:
        """Take what workers say; all answers go out after one commit."""
        answers: list[tuple[Slot, object]] = []
        heard = self._pool.wait(_TICK_S)
        if not heard:
            return
        now = time.monotonic()
        with self._store.transaction():
            for slot, message in heard:
                slot.last_heard, slot.check_deadline = now, None
                try:
                    answer = self._handle(slot, message)
                except ReportError as error:
                    answer = m.Refused(str(error))
                if answer is not None:
                    answers.append((slot, answer))
        for slot, answer in answers:
            slot.send(answer)
        self._coordinator.shelf.sweep()

    def _handle(self, slot: Slot, message: object) -> object | None:
        """Act on one message; returns what the worker waits for, or None."""
        if slot.trial is not None and not isinstance(message, (m.Checking, m.Notice, Died)):
            return self._handle_trial(slot, slot.trial, message)
        if isinstance(message, m.Checking):
            if message.constraint is not None:
                slot.checking = message.constraint
                timeout = self._timeouts[message.constraint]
                assert timeout is not None  # workers announce only checks that have one
                slot.check_deadline = slot.last_heard + timeout
        elif isinstance(message, m.Notice):
            self._notice_once(message.text, message.text)
        elif isinstance(message, m.Evaluated):
            self._evaluated(slot, message)
        elif isinstance(message, Died):
            self._lost(slot, f"its worker process {message.how}")
        elif isinstance(message, m.Ready) and message.error is not None:
            raise TrainingCodeError(
                f"a worker process could not load the training function: {message.error}; "
                "modules it uses must be importable from the folder the study runs in"
            )
        return None

    def _handle_trial(self, slot: Slot, trial: StudyTrial, message: object) -> object | None:
        coordinator = self._coordinator
        if isinstance(message, m.Reported):
            return self._take_report(slot, trial, message.report)
        if isinstance(message, m.AskGate):
            slot.check = message
            return coordinator.gate
        if isinstance(message, m.Begin):
            return coordinator.begin(trial, message.total_steps, message.startup_s)
        if isinstance(message, m.Declare):
            coordinator.declare(trial, message.total_steps)
            return True
        if isinstance(message, m.Saved):
            shelf = coordinator.shelf
            add = shelf.add_model if message.kind == "model" else shelf.add_checkpoint
            add(trial, message.step, message.path, message.size)
        elif isinstance(message, m.Finished):
            coordinator.finish(trial, message.report)
            return True
        elif isinstance(message, m.Done):
            self._failures = 0
            self._release(slot)
        elif isinstance(message, m.Failed):
            self._fail(slot, message.error, message.traceback)
        return None

    def _take_report(self, slot: Slot, trial: StudyTrial, report: Report) -> Reply:
        reply = self._coordinator.report(trial, report)
        slot.check = None
        self._listeners.call("on_report", trial.number, report, reply.decision)
        self._look_at_checks(trial, report)
        if self._closing is not None and trial.running:
            self._coordinator.interrupt(trial, self._closing.reason)
            decision = Decision(Action.STOP, self._closing.reason, step=report.step)
            reply = reply._replace(stop=True, ended=True, decision=decision)
        if reply.stop:
            slot.told_to_stop = time.monotonic()
        return reply

    def _look_at_checks(self, trial: StudyTrial, report: Report) -> None:
        """Say once what is wrong with the check of a constraint."""
        for constraint in self._coordinator.goals.constraints if report.measured else ():
            found = (report.measured or {})[constraint.name]
            if isinstance(found, FailedCheck):
                self._notice_once(
                    ("failed", constraint.name),
                    f"the check of {constraint.name!r} failed in trial {trial.number} at step "
                    f"{report.step}: {found.error}; such a checkpoint counts as invalid",
                )
            elif constraint.margin_se and not found.stderr:
                self._notice_once(
                    ("margin", constraint.name),
                    f"margin_se of {constraint.name!r} has no effect: its check gives no standard "
                    "error; return acetune.Estimate(value, stderr)",
                )

    def _notice_once(self, what: object, text: str) -> None:
        if what not in self._noticed:
            self._noticed.add(what)
            self._listeners.call("on_notice", text)

    # -- trials ----------------------------------------------------------------------------------

    def _assign(self, left: Callable[[], int | None]) -> None:
        """Give idle workers something to do, and start workers where there is work for them."""
        for slot in self._pool.slots:
            count = left()
            if slot.process is None:
                if count is None or count > self._pool.expecting:
                    self._pool.start(slot)
            elif slot.idle and (count is None or count > 0):
                if self._evaluation is None:
                    self._assign_trial(slot)
                else:
                    slot.evaluating, task = self._evaluation.tasks.popleft()
                    slot.send(task)

    def _assign_trial(self, slot: Slot) -> None:
        with self._store.transaction():
            if self._queue:
                trial = self._coordinator.add_attempt(self._queue.popleft())
            else:
                trial = self._suggest()
        slot.trial, slot.last_heard = trial, time.monotonic()
        checkpoint = None if trial.checkpoint is None else str(trial.checkpoint.resolve())
        progress = self._coordinator.progress(trial)
        slot.send(m.Start(trial.number, trial.attempt, trial.params, checkpoint, progress))
        self._listeners.call("on_trial_start", trial.number, trial.attempt, trial.params)

    def _release(self, slot: Slot) -> None:
        """The slot's trial is over: tell who wants to know, and free the slot."""
        trial = slot.trial
        assert trial is not None and trial.handle is not None
        slot.trial = slot.check = slot.told_to_stop = slot.check_deadline = None
        record = trial.handle.record
        if record.state == "failed" and trial.failures <= self._settings.retries:
            self._queue.append(trial.number)
        elif record.state != "interrupted":
            self._told(trial.number)
        self._listeners.call("on_trial_end", trial.number, record.state, record.reason)

    def _fail(self, slot: Slot, error: str, traceback: str | None = None) -> None:
        trial = slot.trial
        assert trial is not None
        if trial.handle is not None and not trial.running:
            # it had been stopped or had finished; what it did then does not change that
            text = f"trial {trial.number} went wrong after its end: {error}"
            self._listeners.call("on_notice", text)
            self._release(slot)
            return
        self._coordinator.fail(trial, error, traceback)
        self._count_failure(slot, trial, traceback or error)

    def _count_failure(self, slot: Slot, trial: StudyTrial, error: str) -> None:
        self._failures += 1
        self._release(slot)
        if self._failures >= self._settings.max_failures:
            raise StudyError(
                f"{self._failures} trials failed one after another, so the study was ended; the "
                f"last one, trial {trial.number}, with:\n{error}"
            )

    # -- workers that die, hang or must go -------------------------------------------------------

    def _lost(self, slot: Slot, error: str) -> None:
        """A worker is gone: so is what it was doing."""
        if slot.trial is not None:
            self._fail(slot, error)
        elif slot.evaluating is not None:
            self._evaluated(slot, m.Evaluated({}, {}, error))

    def _evaluated(self, slot: Slot, result: m.Evaluated) -> None:
        assert self._evaluation is not None and slot.evaluating is not None
        self._evaluation.results[slot.evaluating] = result
        slot.evaluating = slot.check_deadline = None

    def _cut_off(self, slot: Slot, reason: str) -> None:
        """End a worker because the study ends, or because its trial has ended and it goes on."""
        self._pool.kill(slot)
        with self._store.transaction():
            if slot.trial is not None:
                self._coordinator.interrupt(slot.trial, reason)
                self._release(slot)
        slot.evaluating = slot.check_deadline = None

    def _enforce_deadlines(self) -> None:
        now, silence = time.monotonic(), self._settings.report_timeout_s
        for slot in self._pool.slots:
            if slot.process is None or not slot.busy:
                continue
            if slot.check_deadline is not None and now > slot.check_deadline:
                self._end_check(slot)
            elif slot.told_to_stop is not None:
                if slot.trial and now > slot.told_to_stop + self._settings.stop_grace_s:
                    text = (
                        f"trial {slot.trial.number} did not end within "
                        f"{self._settings.stop_grace_s:g} s of being stopped, so its worker was "
                        "ended; leave the loop when trial.should_stop is true"
                    )
                    self._listeners.call("on_notice", text)
                    self._cut_off(slot, text)
            elif silence is not None and slot.trial and now > slot.last_heard + silence:
                self._pool.kill(slot)
                with self._store.transaction():
                    self._lost(slot, f"no report for {silence:g} s (report_timeout_s)")

    def _end_check(self, slot: Slot) -> None:
        """A check has outrun its timeout: a failed check, and the end of its trial."""
        timeout = self._timeouts[slot.checking]
        error = f"the check of {slot.checking!r} outran its timeout of {timeout:g} s"
        self._pool.kill(slot)
        asked, trial = slot.check, slot.trial
        with self._store.transaction():
            if trial is not None and asked is not None:
                assert trial.handle is not None and timeout is not None
                failed: dict[str, Any] = dict.fromkeys(self._timeouts, FailedCheck(error))
                costs = {slot.checking: timeout}
                report = asked.report._replace(measured=failed, check_cost_s=costs)
                decision = self._coordinator.fail_check(trial, report, error)
                if decision is not None:
                    self._listeners.call("on_report", trial.number, report, decision)
                self._count_failure(slot, trial, error)
            else:
                self._lost(slot, error)

    def _beat(self, at_once: bool = False) -> None:
        """Note how long the study has run, so that the budget holds over resumes."""
        moment = time.monotonic()
        if self._session and (at_once or moment - self._last_beat > 1.0):
            self._last_beat = moment
            with self._store.transaction():
                self._store.beat(self._session, moment - self._began, self._search_s())


def default_threads(workers: int) -> int:
    """What OMP_NUM_THREADS says, or else an equal share of the cores this process may use."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdigit() and int(asked) else max(1, available_cores() // workers)


def available_cores() -> int:
    """The cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
