"""The driver of a study: one, wherever its workers live.

The driver is one thread: it waits for messages, lets the coordinator decide, commits, and only then
answers. Whatever happens to a worker (killed, hung, out of memory, its node gone) fails its trial,
not the study.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from acetune.core.decision import Action, Decision
from acetune.core.errors import AcetuneError, ReportError, StudyError, TrainingCodeError
from acetune.core.reason import (
    BUDGET_SPENT,
    FAILED,
    INTERRUPTED,
    RAISED,
    Reason,
    Wording,
    stated,
)
from acetune.run import _messages as m
from acetune.run._early_end import BrokenChecks, BrokenObjective, EarlyEnd, EndedStudyError
from acetune.run._options import Settings
from acetune.run._pool import Died, Pool, Slot
from acetune.run._timeouts import Timeouts
from acetune.run._transfer import Parcels
from acetune.run._trial_queue import Evaluation, TrialQueue
from acetune.run.study_callbacks import Listeners
from acetune.study.coordinator import StudyCoordinator
from acetune.study.session import Session, StudyTrial
from acetune.study.store import FileFault
from acetune.trial.artifacts import remove_empty
from acetune.trial.checks import notice_bad_checks
from acetune.trial.link import Reply, Report

_ALL_DONE = Reason(Wording("all_done", "all trials are done"))
_FAILED = Wording(FAILED, "an error: {text}")
_LOST = Wording("worker_lost", "its worker process {how}")
_STUDY_ENDED = Reason(Wording("study_ended", "the study was ended"))
_TICK_S = 0.25
_PATIENCE_S = 5.0  # of a wait to measure a limit on the configuration alone, the first time
# what policy, searcher or callbacks have a part in
_DECIDING = (m.Begin, m.Declare, m.AskGate, m.Reported, m.Finished, m.Done, m.Failed, m.Ready, Died)


@dataclass(slots=True)
class _Closing:
    """Why and since when no more trials are started."""

    reason: Reason
    since: float


class Driver:
    """Runs trials in the workers of a pool until the budget is spent.

    Parameters
    ----------
    coordinator, queue:
        Who decides and remembers, and which trial is next.
    pool:
        The workers; closed with the driver.
    settings, listeners:
        Limits on the run, and who is told what happens.
    """

    def __init__(
        self,
        coordinator: StudyCoordinator,
        queue: TrialQueue,
        pool: Pool,
        settings: Settings,
        listeners: Listeners,
    ) -> None:
        self._coordinator, self._store = coordinator, coordinator.store
        self._settings, self._listeners = settings, listeners
        self._pool, self._queue = pool, queue
        self._parcels = Parcels(self._store.files)
        self._timeouts = Timeouts(coordinator, pool, queue, listeners, settings, self._lost)
        self._broken_checks = BrokenChecks(
            self._store, settings.max_failures, len(coordinator.goals.constraints)
        )
        self._broken_objective = BrokenObjective(coordinator, settings.max_failures)
        self._session = Session(self._store)
        self._early_end = EarlyEnd(coordinator, settings, lambda: queue.ended, self.elapsed)
        self._interrupts = 0  # how often the user has asked the study to end
        self._closing: _Closing | None = None
        self._evaluation: Evaluation | None = None
        self._patience_s = _PATIENCE_S
        coordinator.stopper.on_repeat = partial(listeners.once, about="repeated report")
        coordinator.on_notice = listeners.notice

    # -- the study -------------------------------------------------------------------------------

    def elapsed(self) -> float:
        """Seconds this study has searched, earlier sessions included."""
        return self._session.elapsed()

    @property
    def interrupted(self) -> bool:
        """Whether the user ended the study."""
        return self._interrupts > 0

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """Within this, Ctrl-C once ends the study cleanly, twice at once. In the main thread only.

        In another one the application has its own way to be interrupted.
        """

        def interrupt(_signal: int, _frame: object) -> None:
            self._interrupts += 1
            if self._interrupts > 2:  # the driver does not come round to looking: get it out
                raise KeyboardInterrupt

        before = {}
        with contextlib.suppress(ValueError):  # not in the main thread
            for number in (signal.SIGINT, signal.SIGTERM):
                before[number] = signal.signal(number, interrupt)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def run(self, under_way: Sequence[int] = ()) -> None:
        """Run trials until the budget is spent, the user interrupts, or nothing is left to do.

        ``under_way`` are trials of an earlier session that are to be tried again.
        """
        self._queue.try_again(under_way)
        self._session.begin()
        ended = self._early_end.look()
        if ended is not None:
            self._listeners.notice(f"nothing left to do: {ended}; {self._early_end.way_on(ended)}")
        elif self._budget_spent() or self._queue.left() == 0:
            text = "nothing left to do: the budget is spent; raise time_budget_s or max_trials"
            self._listeners.notice(text)
        try:
            self._loop(self._queue.left)
        except StudyError as error:
            why = error.why if isinstance(error, EndedStudyError) else str(error)
            self._session.end(Reason(_FAILED, {"text": why.splitlines()[0]}))
            raise
        self._session.end(_ALL_DONE if self._closing is None else self._closing.reason)

    def evaluate(self, tasks: Sequence[m.Evaluate]) -> list[m.Evaluated | None]:
        """Evaluate kept models, in parallel; None stands for those cut off by the user."""
        self._evaluation = evaluation = Evaluation(tasks)
        if not self.interrupted:
            self._closing = None
            self._loop(evaluation.left)
        self._evaluation = None
        if self.interrupted:
            self._session.end(INTERRUPTED)
        return evaluation.results

    def close(self) -> None:
        """End all workers. Trials that an error has left running can go on in another session."""
        try:
            for slot in self._pool.slots:
                if slot.busy:
                    self._timeouts.cut_off(slot, _STUDY_ENDED)
            self._coordinator.kept_models.sweep()
        finally:
            self._timeouts.clock.close()
            self._parcels.close()
            self._pool.close()
            remove_empty(self._store.files)

    # -- the loop --------------------------------------------------------------------------------

    def _loop(self, left: Callable[[], int | None]) -> None:
        """Work until nothing is ``left`` (how many tasks wait; None is endless) or it closes."""
        now = self._timeouts.clock()
        while True:
            self._look_at_the_clock(now)
            if self._closing is None:
                self._assign(left)
            if not any(slot.busy for slot in self._pool.slots) and (
                self._closing is not None or left() == 0
            ):
                break
            now = self._enforce_deadlines(self._listen(_TICK_S))
            self._session.beat()
            self._listeners.tick()
        self._session.beat(at_once=True)

    def _look_at_the_clock(self, now: float) -> None:
        """Begin to close when the budget is spent or the user says so; end what does not end."""
        if self._closing is None:
            if self.interrupted:
                self._listeners.notice(
                    "interrupted: ending cleanly, press Ctrl-C again to stop at once"
                )
                self._closing = _Closing(INTERRUPTED, now)
            elif self._evaluation is not None:
                return
            elif (ended := self._early_end.look()) is not None:
                self._closing = _Closing(ended, now)
            elif self._budget_spent():
                self._closing = _Closing(BUDGET_SPENT, now)
            else:
                return
            self._session.end_search()
        at_once = self._interrupts > 1
        if at_once or now > self._closing.since + self._settings.stop_grace_s:
            for slot in self._pool.slots:
                if slot.busy:
                    self._timeouts.cut_off(slot, self._closing.reason)

    def _budget_spent(self) -> bool:
        budget = self._settings.time_budget_s
        return budget is not None and self.elapsed() >= budget

    def _assign(self, left: Callable[[], int | None]) -> None:
        """Give idle workers something to do, and start workers where there is work for them."""
        for slot in self._pool.slots:
            if slot.worker is None:
                count = left()
                if count is None or count > self._pool.expecting:
                    self._pool.start(slot)
            elif slot.idle and left() != 0:
                self._parcels.drop(slot.index)
                if self._evaluation is not None:
                    self._evaluation.assign(slot)
                elif not self._assign_trial(slot):
                    break

    def _assign_trial(self, slot: Slot) -> bool:
        """Start the next trial; False: it is not known yet, and there are other things to do."""
        give_up_at = time.monotonic() + self._patience_s
        with self._store.transaction():
            trial = self._queue.next(lambda: self._called_away(give_up_at))
        if trial is None:
            self._patience_s *= 2  # a step may take any time, and those who wait keep others out
            return False
        self._patience_s = _PATIENCE_S
        slot.trial, slot.last_heard = trial, self._timeouts.clock()
        checkpoint = None if trial.checkpoint is None else str(trial.checkpoint.resolve())
        progress = self._coordinator.progress(trial)
        slot.send(m.Start(trial.number, trial.attempt, trial.params, checkpoint, progress))
        self._listeners.call("on_trial_start", trial.number, trial.attempt, trial.params)
        return True

    def _called_away(self, give_up_at: float) -> bool:
        """Whether something is more urgent than to wait until nobody trains.

        After a while that is what workers have said meanwhile: that a check begins, which may hang.
        """
        now = self._timeouts.clock()
        return (
            self.interrupted
            or self._budget_spent()
            or time.monotonic() > give_up_at
            or any(self._timeouts.overdue(slot, now) for slot in self._pool.slots if slot.worker)
        )

    def _enforce_deadlines(self, now: float) -> float:
        """End workers that take too long: not for what they have said and nobody has read yet.

        Returns what the clock says then.
        """
        late = [
            slot for slot in self._pool.slots if slot.busy and self._timeouts.overdue(slot, now)
        ]
        if late:
            now = self._listen(0.0)
        for slot in late:
            if slot.worker is not None and slot.busy:
                self._timeouts.enforce_deadlines(slot, now)
        return now

    def _listen(self, timeout_s: float) -> float:
        """Take what workers say; all answers go out after one commit. Returns what the clock says.

        The clock is read after the wait, and again after the commit, which may take long.
        """
        heard = self._pool.wait(timeout_s)
        now = self._timeouts.clock()
        if not heard:
            return now
        answers: list[tuple[Slot, object]] = []
        ended: set[int] = set()  # slots whose worker was ended for what it sent
        with self._store.transaction():
            for slot, message in heard:
                if slot.index in ended:
                    continue
                slot.last_heard = now
                if not isinstance(message, m.Notice):  # a check may say something while it runs
                    slot.check_deadline = None
                try:
                    answer = self._handle(slot, message)
                except Exception as error:
                    if not _fault_of_worker(message, error):
                        raise
                    if isinstance(error, ReportError) and isinstance(message, m.ASKING):
                        answer = m.Refused(str(error))
                    else:
                        ended.add(slot.index)
                        self._end_misbehaving(slot, message, error)
                        continue
                if answer is not None:
                    answers.append((slot, answer))
        now = self._timeouts.clock()  # they have waited until now, and begin anew
        for slot, answer in answers:
            slot.send(answer)
            slot.last_heard = now
            if slot.trial is not None and isinstance(answer, Reply) and answer.stop:
                slot.told_to_stop = now
        self._coordinator.kept_models.sweep()
        return now

    def _end_misbehaving(self, slot: Slot, message: object, error: Exception) -> None:
        """A worker sent what makes no sense here: it hurts its own trial, and nothing else."""
        self._pool.kill(slot)
        kind, why = type(message).__name__, f"{type(error).__name__}: {error}"
        how = f"sent a message that makes no sense ({kind}; {why})"
        self._lost(slot, Reason(_LOST, {"how": how}))

    # -- what workers say ------------------------------------------------------------------------

    def _handle(self, slot: Slot, message: object) -> object | None:
        """Act on one message; returns what the worker waits for, or None."""
        if isinstance(message, m.Reported) and slot.trial is not None:  # nearly always
            return self._handle_trial(slot, slot.trial, message)
        if isinstance(message, m.Checking):
            if message.constraint is not None:
                self._timeouts.check_begins(slot, message.constraint)
        elif isinstance(message, m.Notice):
            self._listeners.once(message.text)
        elif isinstance(message, Died):
            self._lost(slot, Reason(_LOST, {"how": message.how}))
        elif isinstance(message, m.Piece):
            self._parcels.add(slot.index, message.data)
        elif isinstance(message, m.Fetch):
            return self._parcels.next_piece(slot.index, message.path)
        elif slot.trial is not None:
            return self._handle_trial(slot, slot.trial, message)
        elif isinstance(message, m.Evaluated):
            self._evaluated(slot, message)
        elif isinstance(message, m.Ready) and message.error is not None:
            raise TrainingCodeError(
                f"a worker process could not load the training function: {message.error}; "
                "modules it uses must be importable from the folder the study runs in"
            )
        elif not isinstance(message, m.Ready):
            raise m.MessageError("it has no trial")
        return None

    def _handle_trial(self, slot: Slot, trial: StudyTrial, message: object) -> object | None:
        coordinator = self._coordinator
        m.require_turn(message, begun=trial.handle is not None)
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
            self._take_files(slot, trial, message)
        elif isinstance(message, m.Hardware):
            coordinator.note_hardware(trial, message.description)
        elif isinstance(message, m.Finished):
            coordinator.finish(trial, message.report)
            self._look_at_checks(trial, message.report)
            return True
        elif isinstance(message, m.Done):
            if trial.running:
                raise m.MessageError("it came before the trial had ended")
            self._queue.done(slot)
        elif isinstance(message, m.Failed):
            error = stated(RAISED, message.error)
            self._queue.fail(slot, error, message.traceback, message.certain)
        else:
            raise m.MessageError("it is training a trial")
        return None

    def _take_report(self, slot: Slot, trial: StudyTrial, report: Report) -> Reply:
        reply = self._coordinator.report(trial, report)
        slot.check = None
        self._listeners.call("on_report", trial.number, report, reply.decision)
        self._look_at_checks(trial, report)
        self._broken_objective.look(trial, report)
        if self._closing is not None and trial.running:
            self._coordinator.interrupt(trial, self._closing.reason)
            decision = Decision(Action.STOP, self._closing.reason.wording, step=report.step)
            reply = reply._replace(stop=True, ended=True, decision=decision)
        return reply

    def _look_at_checks(self, trial: StudyTrial, report: Report | None) -> None:
        """What is wrong with the checks of a report is said once, or ends the study."""
        if report is not None and report.measured is not None:
            goals = self._coordinator.goals
            notice_bad_checks(goals, trial.number, report, self._listeners.once)
            self._broken_checks.look(trial, report)

    def _take_files(self, slot: Slot, trial: StudyTrial, saved: m.Saved) -> None:
        """A model or a checkpoint lies on disk, or has come in pieces and is put there now."""
        kept_models = self._coordinator.kept_models
        kept_models.require_own(trial, saved.step, saved.kind, saved.path)
        if saved.sent:
            error = self._parcels.unpack(slot.index, saved.path, saved.digest)
            if error is not None:
                what = "model" if saved.kind == "model" else "checkpoint"
                text = f"a {what} that a worker sent cannot be kept: {error}"
                self._listeners.once(text, about=("parcel", error))
                return
        add = kept_models.add_model if saved.kind == "model" else kept_models.add_checkpoint
        add(trial, saved.step, saved.path, saved.size, saved.digest)

    def _evaluated(self, slot: Slot, result: m.Evaluated) -> None:
        assert self._evaluation is not None
        self._evaluation.take(slot, result)

    def _lost(self, slot: Slot, reason: Reason) -> None:
        """A worker is gone: so is what it was doing."""
        if slot.trial is not None:
            self._queue.fail(slot, reason)
        elif slot.evaluating is not None:
            self._evaluated(slot, m.Evaluated({}, {}, str(reason)))


def _fault_of_worker(message: object, error: Exception) -> bool:
    """Whether handling a message failed for what the worker sent, and not for the study's sake.

    Policies, searchers and callbacks may be anybody's: an error of theirs is not the worker's.
    """
    if isinstance(error, (ReportError, m.MessageError)):
        return True
    return not isinstance(message, _DECIDING) and not isinstance(error, (AcetuneError, FileFault))
