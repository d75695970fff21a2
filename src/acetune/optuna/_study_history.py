"""What a study's storage holds, as a history that a policy can decide on.

A cache, kept up to date at each question by reading what is new. Trials that have ended are never
read again. Everything in it follows from the storage alone, in whatever order that was read: a
new digest gives the same answers.
"""

from __future__ import annotations

import logging
import threading
from itertools import islice

from optuna.trial import FrozenTrial, TrialState

from acetune.core.decision import Action, Decision
from acetune.core.goals import Goals
from acetune.core.history import History
from acetune.core.once import SayOnce
from acetune.core.reason import Reason, Wording
from acetune.core.report_values import LARGEST_STEP, require_step
from acetune.core.trial_record import State
from acetune.optuna._attributes import (
    START,
    StoredCheck,
    StoredEnd,
    StoredStart,
    read_check,
    read_end,
    read_start,
)
from acetune.optuna._polling import Poll, StaleError
from acetune.optuna._private_api import StudyAccess, retried
from acetune.optuna._trial_history import FollowedTrial
from acetune.policies import Policy
from acetune.policies.policy import check_order
from acetune.policies.stopper import Stopper
from acetune.policies.stopper_trial import StopperTrial

logger = logging.getLogger("acetune.optuna")

_TAKEN = Decision(Action.CONTINUE, "decided where it was reported")
_BY_OPTUNA = Reason(Wording("ended_by_optuna", "as Optuna has it"))
_NOT_BEGUN = Decision(Action.CONTINUE, "the trial has not begun")
_STATES: dict[TrialState, State] = {
    TrialState.COMPLETE: "finished",
    TrialState.PRUNED: "stopped",
    TrialState.FAIL: "failed",
}


class Digest:
    """One study. Whoever uses it holds its lock."""

    def __init__(self, goals: Goals, policy: Policy, confirm_top: int) -> None:
        self.lock = threading.RLock()
        self.goals, self.policy = goals, policy
        self.settled = False  # the storage has the study's limits, and they are these
        self.notice = SayOnce(logger.warning)
        self._confirm_top = confirm_top
        self._clear()

    def _clear(self) -> None:
        goals = self.goals
        self._stopper = Stopper(
            objective=goals.objective.name,
            mode=goals.objective.mode,
            constraints=goals.constraints,
            policy=self.policy,
            confirm_top=self._confirm_top,
        )
        self.unconstrained = 0  # completed trials that carry no constraint at all
        self._followed: dict[int, FollowedTrial] = {}
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
        return check_order(self.policy, self.goals, self.history.costs)

    def meet(self, study: StudyAccess, trial: FrozenTrial) -> StopperTrial:
        """Read a trial that has just begun."""
        try:
            self._read(trial)
        except StaleError:
            self._read_anew(study)
        return self.handle(trial.number)

    def declare(self, number: int, total_steps: int) -> StoredStart:
        """The last step of a trial that began without one; returns how it stands to be checked."""
        followed = self._followed[number]
        followed.handle.declare(total_steps)
        record = followed.handle.record
        start = StoredStart(total_steps, record.progress.interval, record.cost_ratio)
        followed.learn_plan(start)
        return start

    def handle(self, number: int) -> StopperTrial:
        """A trial that was met."""
        return self._followed[number].handle

    def report(
        self, study: StudyAccess, number: int, step: int, value: float, check: StoredCheck | None
    ) -> Decision:
        """Decide on a report that was just written, without reading it back."""
        self.refresh(study, number)
        followed = self._followed[number]
        if step > followed.last:
            return followed.take(step, value, check)
        return followed.decide_again(step, value, check)  # another thread has read it

    def decide(self, study: StudyAccess, trial: FrozenTrial, step: int) -> Decision:
        """Decide on the last report of any trial."""
        require_step(step, least=0)
        self.refresh(study, trial.number)
        values = trial.intermediate_values
        try:
            followed = self._follow(trial)
            if followed is not None and len(values) > followed.values + 1:
                self._read_values(followed, trial, {at: v for at, v in values.items() if at < step})
        except StaleError:
            self._read_anew(study)
            followed = self._followed.get(trial.number)
        if followed is None:
            return _NOT_BEGUN
        check = read_check(trial.number, trial.system_attrs, step)
        if step > followed.last:
            return followed.take(step, values[step], check)
        return followed.decide_again(step, values[step], check)

    def end(self, number: int, end: StoredEnd) -> None:
        """A trial has written how it ended."""
        followed = self._followed[number]
        if not followed.ended:
            followed.end(end)

    # -- reading ---------------------------------------------------------------------------------

    def _read_anew(self, study: StudyAccess) -> None:
        """Forget everything: the study was deleted and made again, say."""
        self._clear()
        for trial in self._poll.everything(study):
            self._read(trial)

    def _read(self, trial: FrozenTrial) -> None:
        if trial.state is TrialState.WAITING:
            return
        followed = self._follow(trial)
        if followed is None:
            return
        self._read_values(followed, trial, trial.intermediate_values)
        if not followed.ended:
            self._read_end(followed, trial)
        if trial.number in self._replaced:
            followed.withdraw()

    def _follow(self, trial: FrozenTrial) -> FollowedTrial | None:
        number, attributes = trial.number, trial.system_attrs
        followed = self._followed.get(number)
        if followed is not None:
            if followed.started != trial.datetime_start:
                raise StaleError
            if followed.handle.record.progress.total_steps is None:
                followed.learn_plan(read_start(number, attributes))
            return followed
        start = read_start(number, attributes)
        if start is None and START in attributes and not trial.state.is_finished():
            return None  # inherited from a trial that failed; this one has yet to begin
        for replaced in retried(trial):
            self._replaced.add(replaced)
            if replaced in self._followed:
                self._followed[replaced].withdraw()
        followed = FollowedTrial(self._stopper, number, start, trial.datetime_start)
        self._followed[number] = followed
        return followed

    def _read_values(
        self, followed: FollowedTrial, trial: FrozenTrial, values: dict[int, float]
    ) -> None:
        new = len(values) - followed.values
        if new <= 0:
            return
        # storages keep the order of reporting, so that what is new nearly always comes last
        unread = sorted(islice(reversed(values.items()), new))
        if unread[0][0] <= followed.last:
            if not followed.refile():
                raise StaleError
            unread = sorted(values.items())
        for step, value in unread:
            if step > LARGEST_STEP:  # refused where it was reported
                followed.values += 1
                continue
            check = read_check(trial.number, trial.system_attrs, step)
            followed.take(step, value, check, _TAKEN)

    def _read_end(self, followed: FollowedTrial, trial: FrozenTrial) -> None:
        end = read_end(trial.number, trial.system_attrs)
        if end is None and trial.state.is_finished():  # without acetune, or in an error
            end = StoredEnd(_STATES[trial.state], _BY_OPTUNA, None, None)
            if trial.state is TrialState.COMPLETE and not trial.constraints:
                self.unconstrained += bool(self.goals.constraints)
        if end is not None:
            followed.end(end)
