"""One trial as the digest follows it: what was read of it, filed and counted in the history."""

from __future__ import annotations

from bisect import insort
from datetime import datetime

from acetune.core.decision import Decision
from acetune.core.observation import CheckResult, Observation, check_result, unconstrained
from acetune.core.reason import LAST_STEP, Reason
from acetune.core.record import State
from acetune.optuna.attributes import Spent, StoredCheck, StoredEnd, StoredStart
from acetune.optuna.hindsight import decide_again
from acetune.stopper import Stopper

_PLAIN = StoredStart(None, None, None)  # a trial that reports to Optuna itself


class FollowedTrial:
    """A trial, as far as it was read."""

    __slots__ = ("_goals", "_spent", "_stopper", "ended", "handle", "last", "started", "values")

    def __init__(
        self,
        stopper: Stopper,
        number: int,
        start: StoredStart | None,
        started: datetime | None,
    ) -> None:
        self._stopper, self._goals = stopper, stopper.goals
        self.handle = stopper.restart(number, *(start or _PLAIN))
        self.handle.record.order = number  # not that of reading
        self.started = started
        self.values = 0  # how many reports were read
        self.last = -1  # the highest step among them; Optuna's steps begin at 0
        self.ended = False
        self._spent = Spent()

    def learn_plan(self, start: StoredStart | None) -> None:
        """The trial began, or its last step became known, after it was met."""
        if start is None:
            return
        record = self.handle.record
        progress = record.progress
        progress.total_steps, progress.interval, record.cost_ratio = start
        if progress.last_step == start.total_steps:
            self._end("finished", LAST_STEP)

    def take(
        self, step: int, value: float, check: StoredCheck | None, decided: Decision | None = None
    ) -> Decision:
        """A report that was not read before. One that was ``decided`` on elsewhere is filed."""
        handle = self.handle
        loss = self._goals.objective.loss(value)
        judged = self._judged(step, loss, check)
        if check is not None:
            self._count(check.spent)
            self._stopper.history.costs.add_check(check.check_s, 0.0, judged)
        decision = handle.take(step, loss, judged, None, None, decided=decided)
        self.values += 1
        self.last = step
        if step == handle.record.progress.total_steps:
            self._sort_finished()
        return decision

    def decide_again(self, step: int, value: float, check: StoredCheck | None) -> Decision:
        """Decide on a report that was read before."""
        record, stopper = self.handle.record, self._stopper
        loss = self._goals.objective.loss(value)
        report = Observation(record.id, step, loss, self._judged(step, loss, check))
        return decide_again(record, report, stopper.policy, stopper.history)

    def refile(self) -> bool:
        """Begin again, for steps that did not come in order; False where that cannot be done."""
        record = self.handle.record
        progress = record.progress
        if record.state == "finished" or (self._goals.constraints and progress.checks):
            return False  # what was found in it cannot be taken back one by one
        self.handle = self._stopper.restart(
            record.id, progress.total_steps, progress.interval, record.cost_ratio
        )
        self.values, self.last = 0, -1
        return True

    def withdraw(self) -> None:
        """Leave the ranking: another try at the trial has begun. What was found stays found."""
        filings = self.handle.record.filings
        for _, group, key in filings:
            group.remove(key)
        filings.clear()

    def end(self, end: StoredEnd) -> None:
        """The trial ended, with a check of its own if one was still due."""
        if end.check is not None:
            judged = self.handle.add_check(end.check.measured, None, end.check.step)
            self._stopper.history.costs.add_check(end.check.check_s, 0.0, judged)
        self._count(end.spent or self._spent)
        self._end(end.state, end.reason)
        self.ended = True

    def _judged(self, step: int, loss: float, check: StoredCheck | None) -> CheckResult | None:
        goals = self._goals
        if not goals.constraints:
            return unconstrained(step, loss)
        if check is None:
            return None
        if check.step != step:
            log = self.handle.record.log
            index = log.find(check.step)
            if index is None:
                return None  # no such checkpoint was reported
            loss = log.loss[index]
        return check_result(goals, check.step, loss, check.measured)

    def _count(self, spent: Spent) -> None:
        """Attributes say what the trial has spent since it began: count what is new of it."""
        costs, before = self._stopper.history.costs, self._spent
        costs.primary_s += spent.primary_s - before.primary_s
        costs.primary_n += spent.iterations - before.iterations
        costs.snapshot_s += spent.snapshot_s - before.snapshot_s
        costs.snapshot_n += spent.snapshots - before.snapshots
        self._spent = spent

    def _end(self, state: State, reason: Reason) -> None:
        self.handle.restore(state, reason)
        self._sort_finished()

    def _sort_finished(self) -> None:
        """In the order of trials, whoever ended first: what a new digest would find."""
        finished = self._stopper.history.finished
        if len(finished) > 1 and finished[-1].order < finished[-2].order:
            insort(finished, finished.pop(), key=lambda record: record.order)
