"""What a study's storage holds, as a history that a policy can decide on.

A cache, kept up to date at each question by reading what is new. Trials that have ended are never
read again. Everything in it follows from the storage alone, in whatever order that was read: a
new one gives the same answers.
"""

from __future__ import annotations

import logging
import threading
from bisect import insort
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice

from optuna.trial import FrozenTrial, TrialState

from acetune.core.decision import Action, Decision
from acetune.core.goals import Goals
from acetune.core.history import History
from acetune.core.observation import CheckResult, Observation, check_result, unconstrained
from acetune.core.reason import LAST_STEP, Reason, Wording
from acetune.core.report_values import LARGEST_STEP, require_step
from acetune.core.say_once import SayOnce
from acetune.core.trial_record import State
from acetune.optuna._attributes import (
    START,
    Spent,
    StoredCheck,
    StoredEnd,
    StoredStart,
    read_check,
    read_end,
    read_start,
)
from acetune.optuna._study_access import Poll, StaleError, StudyAccess, retried
from acetune.policies import Policy
from acetune.policies.decide_again import decide_again
from acetune.policies.stopper import StopperTrial, stopper_of

logger = logging.getLogger("acetune.optuna")

_TAKEN = Decision(Action.CONTINUE, "decided where it was reported")
_BY_OPTUNA = Reason(Wording("ended_by_optuna", "as Optuna has it"))
_NOT_BEGUN = Decision(Action.CONTINUE, "the trial has not begun")
_STATES: dict[TrialState, State] = {
    TrialState.COMPLETE: "finished",
    TrialState.PRUNED: "stopped",
    TrialState.FAIL: "failed",
}
_NOTHING = Spent()
_PLAIN = StoredStart(None, None, None)  # a trial that reports to Optuna itself


@dataclass(slots=True)
class _Reading:
    """How far a trial was read, and what of it was filed and counted in the history."""

    handle: StopperTrial
    started: datetime | None
    values: int = 0  # how many reports were read
    last: int = -1  # the highest step among them; Optuna's steps begin at 0
    ended: bool = False
    spent: Spent = _NOTHING


class StudyHistory:
    """One study. Whoever uses it holds its lock."""

    def __init__(self, goals: Goals, policy: Policy, confirm_top: int) -> None:
        self.lock = threading.RLock()
        self.goals, self.policy = goals, policy
        self.settled = False  # the storage has the study's limits, and they are these
        self.notice = SayOnce(logger.warning)
        self._confirm_top = confirm_top
        self._clear()

    def _clear(self) -> None:
        self._stopper = stopper_of(self.goals, self.policy, self._confirm_top)
        self._stopper.on_repeat = partial(self.notice, about="repeated report")
        self.unconstrained = 0  # completed trials that carry no constraint at all
        self._readings: dict[int, _Reading] = {}
        self._replaced: set[int] = set()  # trials that were retried
        self._poll = Poll()

    # -- asking ----------------------------------------------------------------------------------

    @property
    def history(self) -> History:
        """All that was read."""
        return self._stopper.history

    def refresh(self, study: StudyAccess, own: int | None = None) -> None:
        """Read what is new of all trials but ``own``, whose reports the caller has at hand."""
        try:
            for trial in self._poll.news(study, own):
                self._read(trial)
        except StaleError:
            self._read_anew(study)

    def plan(self, total_steps: int | None) -> StoredStart:
        """How a trial that begins now is to be checked."""
        costs = self.history.costs
        return StoredStart(total_steps, self.policy.first_check(total_steps, costs), costs.ratio)

    @property
    def order(self) -> tuple[str, ...] | None:
        """In which order a trial that begins now is to measure the constraints."""
        return self._stopper.order

    def meet(self, study: StudyAccess, trial: FrozenTrial) -> StopperTrial:
        """Read a trial that has just begun."""
        try:
            self._read(trial)
        except StaleError:
            self._read_anew(study)
        return self.handle(trial.number)

    def declare(self, number: int, total_steps: int) -> StoredStart:
        """The last step of a trial that began without one; returns how it stands to be checked."""
        reading = self._readings[number]
        reading.handle.declare(total_steps)
        record = reading.handle.record
        start = StoredStart(total_steps, record.progress.interval, record.cost_ratio)
        self._learn_plan(reading, start)
        return start

    def handle(self, number: int) -> StopperTrial:
        """A trial that was met."""
        return self._readings[number].handle

    def report(
        self, study: StudyAccess, number: int, step: int, value: float, check: StoredCheck | None
    ) -> Decision:
        """Decide on a report that was just written, without reading it back."""
        self.refresh(study, number)
        reading = self._readings[number]
        if step > reading.last:
            return self._take(reading, step, value, check)
        return self._decide_again(reading, step, value, check)  # another thread has read it

    def decide(self, study: StudyAccess, trial: FrozenTrial, step: int) -> Decision:
        """Decide on the last report of any trial."""
        require_step(step, least=0)
        self.refresh(study, trial.number)
        values = trial.intermediate_values
        try:
            reading = self._follow(trial)
            if reading is not None and len(values) > reading.values + 1:
                self._read_values(reading, trial, {at: v for at, v in values.items() if at < step})
        except StaleError:
            self._read_anew(study)
            reading = self._readings.get(trial.number)
        if reading is None:
            return _NOT_BEGUN
        check = read_check(trial.number, trial.system_attrs, step)
        if step > reading.last:
            return self._take(reading, step, values[step], check)
        return self._decide_again(reading, step, values[step], check)

    def end(self, number: int, end: StoredEnd) -> None:
        """A trial has written how it ended."""
        reading = self._readings[number]
        if not reading.ended:
            self._take_end(reading, end)

    # -- reading ---------------------------------------------------------------------------------

    def _read_anew(self, study: StudyAccess) -> None:
        """Forget everything: the study was deleted and made again, say."""
        self._clear()
        for trial in self._poll.everything(study):
            self._read(trial)

    def _read(self, trial: FrozenTrial) -> None:
        if trial.state is TrialState.WAITING:
            return
        reading = self._follow(trial)
        if reading is None:
            return
        self._read_values(reading, trial, trial.intermediate_values)
        if not reading.ended:
            self._read_end(reading, trial)
        if trial.number in self._replaced:
            self.history.withdraw(reading.handle.record)

    def _follow(self, trial: FrozenTrial) -> _Reading | None:
        number, attributes = trial.number, trial.system_attrs
        reading = self._readings.get(number)
        if reading is not None:
            if reading.started != trial.datetime_start:
                raise StaleError
            if reading.handle.record.progress.total_steps is None:
                start = read_start(number, attributes)
                if start is not None:
                    self._learn_plan(reading, start)
            return reading
        start = read_start(number, attributes)
        if start is None and START in attributes and not trial.state.is_finished():
            return None  # inherited from a trial that failed; this one has yet to begin
        for replaced in retried(trial):
            self._replaced.add(replaced)
            if replaced in self._readings:
                self.history.withdraw(self._readings[replaced].handle.record)
        handle = self._stopper.restart(number, *(start or _PLAIN))
        handle.record.order = number  # not that of reading
        reading = self._readings[number] = _Reading(handle, trial.datetime_start)
        return reading

    def _read_values(self, reading: _Reading, trial: FrozenTrial, values: dict[int, float]) -> None:
        new = len(values) - reading.values
        if new <= 0:
            return
        # storages keep the order of reporting, so that what is new nearly always comes last
        unread = sorted(islice(reversed(values.items()), new))
        if unread[0][0] <= reading.last:
            if not self._refile(reading):
                raise StaleError
            unread = sorted(values.items())
        for step, value in unread:
            if step > LARGEST_STEP:  # refused where it was reported
                reading.values += 1
                continue
            check = read_check(trial.number, trial.system_attrs, step)
            self._take(reading, step, value, check, _TAKEN)

    def _read_end(self, reading: _Reading, trial: FrozenTrial) -> None:
        end = read_end(trial.number, trial.system_attrs)
        if end is None and trial.state.is_finished():  # without acetune, or in an error
            end = StoredEnd(_STATES[trial.state], _BY_OPTUNA, None, None)
            if trial.state is TrialState.COMPLETE and not trial.constraints:
                self.unconstrained += bool(self.goals.constraints)
        if end is not None:
            self._take_end(reading, end)

    # -- filing ----------------------------------------------------------------------------------

    def _learn_plan(self, reading: _Reading, start: StoredStart) -> None:
        """The trial began, or its last step became known, after it was met."""
        record = reading.handle.record
        progress = record.progress
        progress.total_steps, progress.interval, record.cost_ratio = start
        if progress.last_step == start.total_steps:
            reading.handle.restore("finished", LAST_STEP)
            self._sort_finished()

    def _take(
        self,
        reading: _Reading,
        step: int,
        value: float,
        check: StoredCheck | None,
        decided: Decision | None = None,
    ) -> Decision:
        """A report that was not read before. One that was ``decided`` on elsewhere is filed."""
        handle = reading.handle
        loss = self.goals.objective.loss(value)
        judged = self._judged(handle, step, loss, check)
        if check is not None:
            self._count(reading, check.spent)
            self.history.costs.add_check(check.check_s, 0.0, judged)
        decision = handle.take(step, loss, judged, None, None, decided=decided)
        reading.values += 1
        reading.last = step
        if step == handle.record.progress.total_steps:
            self._sort_finished()
        return decision

    def _decide_again(
        self, reading: _Reading, step: int, value: float, check: StoredCheck | None
    ) -> Decision:
        """Decide on a report that was read before."""
        record = reading.handle.record
        loss = self.goals.objective.loss(value)
        judged = self._judged(reading.handle, step, loss, check)
        report = Observation(record.id, step, loss, judged)
        return decide_again(record, report, self.policy, self.history)

    def _refile(self, reading: _Reading) -> bool:
        """Begin again, for steps that did not come in order; False where that cannot be done."""
        record = reading.handle.record
        progress = record.progress
        if record.state == "finished" or (self.goals.constraints and progress.checks):
            return False  # what was found in it cannot be taken back one by one
        reading.handle = self._stopper.restart(
            record.id, progress.total_steps, progress.interval, record.cost_ratio
        )
        reading.values, reading.last = 0, -1
        return True

    def _take_end(self, reading: _Reading, end: StoredEnd) -> None:
        """The trial ended, with a check of its own if one was still due."""
        if end.check is not None:
            judged = reading.handle.add_check(end.check.measured, None, end.check.step)
            self.history.costs.add_check(end.check.check_s, 0.0, judged)
        self._count(reading, end.spent or reading.spent)
        reading.handle.restore(end.state, end.reason)
        self._sort_finished()
        reading.ended = True

    def _judged(
        self, handle: StopperTrial, step: int, loss: float, check: StoredCheck | None
    ) -> CheckResult | None:
        if not self.goals.constraints:
            return unconstrained(step, loss)
        if check is None:
            return None
        if check.step != step:
            log = handle.record.log
            index = log.find(check.step)
            if index is None:
                return None  # no such checkpoint was reported
            loss = log.loss[index]
        return check_result(self.goals, check.step, loss, check.measured)

    def _count(self, reading: _Reading, spent: Spent) -> None:
        """Attributes say what the trial has spent since it began: count what is new of it."""
        costs, before = self.history.costs, reading.spent
        costs.primary_s += spent.primary_s - before.primary_s
        costs.primary_n += spent.iterations - before.iterations
        costs.snapshot_s += spent.snapshot_s - before.snapshot_s
        costs.snapshot_n += spent.snapshots - before.snapshots
        reading.spent = spent

    def _sort_finished(self) -> None:
        """In the order of trials, whoever ended first: what a new digest would find."""
        finished = self.history.finished
        if len(finished) > 1 and finished[-1].order < finished[-2].order:
            insort(finished, finished.pop(), key=lambda record: record.order)
