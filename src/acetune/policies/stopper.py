"""Every report is decided here: in every study, under Ray and Optuna, and in a replay.

It is also the ask-and-tell interface, for loops of one's own. The stopper validates what comes in,
asks the policy and appends to the history; it does no I/O and reads no clock.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from acetune.core.decision import Action, Decision
from acetune.core.errors import GoalError, ReportError
from acetune.core.goals import Constraint, Estimate, FailedCheck, Goals, Mode, Objective
from acetune.core.history import History
from acetune.core.numbers import as_dict, as_number, quoted, require_whole
from acetune.core.observation import CheckResult, Observation, TrialId, check_result, unconstrained
from acetune.core.reason import BY_ITSELF, LAST_STEP, NO_REASON, Reason, Wording, stated
from acetune.core.report_values import (
    require_cost,
    require_step,
    require_total_steps,
    require_trial,
    split_costs,
)
from acetune.core.trial_record import Checkpoint, Progress, State, TrialRecord, digest
from acetune.policies import Policy, make_policy
from acetune.policies.policy import Due, check_due, check_order, finish_due

_AGAIN = Wording("again", "as decided before")
_AGAIN_RANKED = Wording("again_ranked", "rank {rank} of {of} at step {step}: as decided before")


class StopperTrial:
    """One attempt of a trial. Asking changes nothing; only :meth:`observe` and the endings do."""

    __slots__ = ("_asked", "_constrained", "_history", "_policy", "_stopper", "record")

    def __init__(self, stopper: Stopper, record: TrialRecord) -> None:
        self._stopper = stopper
        self._policy, self._history = stopper.policy, stopper.history
        self._constrained = bool(stopper.goals.constraints)
        self.record = record
        # step, loss and gate that check_due was asked for last, and the answer: observe mostly
        # comes with the same
        self._asked: tuple[int, float, float, Due | None] | None = None

    @property
    def interval(self) -> int | None:
        """The first step at which a check is due; the last one: once, at the end."""
        return self.record.progress.interval

    @property
    def schedule(self) -> Reason:
        """When this trial is checked, in words and numbers."""
        return self._policy.schedule(self.record) if self._constrained else NO_REASON

    @property
    def state(self) -> State:
        """running, finished, stopped, failed or interrupted."""
        return self.record.state

    def declare(self, total_steps: int) -> None:
        """Tell the last step of a trial that started without one. The interval stays."""
        self._asked = None
        self.record.declare(total_steps)

    # -- asking ----------------------------------------------------------------------------------

    def check_due(self, step: int, value: float, *, snapshot: bool = True) -> int | None:
        """The step whose checkpoint to check now, or None.

        ``snapshot=False`` says that no copy of the best checkpoint exists: then a check at the end
        is one of the last step.
        """
        record, step = self.record, require_step(step)
        if step <= record.progress.last_step and record.log.find(step) is not None:
            return None  # acknowledged before: that report stands
        loss = self._stopper.goals.objective.loss(as_number(value, "the objective"))
        due = self.due(step, loss, snapshot)
        self._asked = (step, loss, self._history.gate, due) if snapshot else None
        return due.step if due is not None and due.open else None

    def finish_due(self, *, snapshot: bool = True) -> int | None:
        """For a trial that ended by itself before its last step: a step still to check, or None."""
        due = self.ending_due(snapshot)
        return due.step if due is not None and due.open else None

    def due(self, step: int, loss: float, snapshot: bool = True) -> Due | None:
        """The check that is due at this step, whether or not the gate lets it through."""
        if not self._constrained:
            return None
        gate = self._history.gate
        return check_due(self._policy, self.record.progress, step, loss, gate, best_kept=snapshot)

    def ending_due(self, snapshot: bool = True) -> Due | None:
        """The check that is due if the trial ends by itself now, gated or not."""
        progress = self.record.progress
        if self.record.state != "running" or progress.last_step == 0 or not self._constrained:
            return None
        return finish_due(self._policy, progress, self._history.gate, best_kept=snapshot)

    # -- telling ---------------------------------------------------------------------------------

    def observe(
        self,
        step: int,
        value: float,
        constraints: Mapping[str, object] | None = None,
        primary_cost_s: float | None = None,
        constraint_cost_s: float | Mapping[str, float] | None = None,
        *,
        checked_step: int | None = None,
        snapshot_cost_s: float = 0.0,
        decided: Decision | None = None,
        margins: Mapping[str, float] | None = None,
    ) -> Decision:
        """Report the objective at a step, with the outcome of the check if one was made.

        ``checked_step`` names the checkpoint that was checked where it is not the one
        :meth:`check_due` asked for. The same step again gets the decision it got before.
        ``decided`` is a decision taken earlier, which stands, and ``margins`` are those in force
        then, by the names of their constraints: what a resumed study replays.
        """
        stopper = self._stopper
        loss = stopper.goals.objective.loss(as_number(value, "the objective"))
        step = require_step(step)
        index = self.record.place(step)
        if index is not None:
            return self._again(index, loss, constraints)
        self._require_latest()
        if constraints is not None and type(constraints) is not dict:
            constraints = as_dict(constraints, "constraints")
        costs = None
        if constraint_cost_s is not None:
            costs = split_costs(stopper.goals, constraint_cost_s, constraints)
        if primary_cost_s is not None:
            primary_cost_s = require_cost(primary_cost_s, "primary_cost_s")
        if type(snapshot_cost_s) is not float or snapshot_cost_s != 0.0:  # nearly never
            snapshot_cost_s = require_cost(snapshot_cost_s, "snapshot_cost_s")
        due = check = None
        if checked_step is None if constraints is not None else self.record.gated_at is None:
            asked, self._asked = self._asked, None
            if asked is not None and asked[:3] == (step, loss, self._history.gate):
                due = asked[3]
            else:
                due = self.due(step, loss)  # nothing else depends on it
        if not stopper.goals.constraints and not constraints:
            check = unconstrained(step, loss)
        elif constraints is not None:
            check = self._judge(constraints, step, loss, checked_step, due, margins)
        decision = self.take(step, loss, check, primary_cost_s, costs, snapshot_cost_s, decided)
        if check is None and due is not None:
            self.skip(step)  # only now: a report that is refused changes nothing
        return decision

    def observe_again(
        self,
        step: int,
        loss: float,
        primary_cost_s: float | None,
        snapshot_cost_s: float,
        decided: Decision,
    ) -> None:
        """A report without a check that was observed and decided on before, in order.

        What :meth:`observe` comes to for nearly all reports of a study that is loaded.
        """
        record = self.record
        if record.place(step) is not None:
            return
        self._require_latest()
        if not self._constrained:
            self.take(
                step,
                loss,
                unconstrained(step, loss),
                primary_cost_s,
                None,
                snapshot_cost_s,
                decided,
            )
            return
        due = record.gated_at is None and self.due(step, loss) is not None
        self.take(step, loss, None, primary_cost_s, None, snapshot_cost_s, decided)
        if due:
            self.skip(step)

    def as_report(
        self,
        step: int,
        value: float,
        constraints: Mapping[str, object] | None,
        primary_cost_s: float | None = None,
        check_cost_s: Mapping[str, float] | None = None,
        *,
        checked_step: int | None = None,
        margins: Mapping[str, float] | None = None,
    ) -> Observation:
        """What policies would see if this was observed now. Nothing changes."""
        loss = self._stopper.goals.objective.loss(value)
        check = None
        if constraints is not None:
            check = self._judge(constraints, step, loss, checked_step, None, margins)
        return Observation(self.record.id, step, loss, check, primary_cost_s, check_cost_s)

    def take(
        self,
        step: int,
        loss: float,
        check: CheckResult | None,
        primary_cost_s: float | None,
        check_cost_s: Mapping[str, float] | None,
        snapshot_cost_s: float = 0.0,
        decided: Decision | None = None,
    ) -> Decision:
        """Decide on a new report and append it, without looking at it twice.

        What :meth:`observe` ends in; a replay, whose numbers were validated as a whole, begins
        here.
        """
        record, history, policy = self.record, self._history, self._policy
        report = Observation(
            record.id, step, loss, check, primary_cost_s, check_cost_s, snapshot_cost_s
        )
        filing = policy.file(record, report)
        decision = decided or policy.decide(record, report, filing, history)
        if step == record.progress.total_steps:
            if decision.action is Action.STOP:
                decision = at_last_step(decision)
            history.append(record, report, decision, filing)
            self._end("finished", LAST_STEP)
        else:
            history.append(record, report, decision, filing)
            if decision.action is Action.STOP:
                self._end("stopped", decision.because)
            elif policy.learns:
                record.progress.trend = history.trend
        return decision

    def finish(
        self,
        constraints: Mapping[str, object] | None = None,
        constraint_cost_s: float | Mapping[str, float] | None = None,
        *,
        checked_step: int | None = None,
        snapshot_cost_s: float = 0.0,
    ) -> None:
        """The trial ended by itself; with the check that :meth:`finish_due` asked for, if any."""
        if self.record.state != "running":
            return
        self._require_latest()
        snapshot_cost_s = require_cost(snapshot_cost_s, "snapshot_cost_s")
        due = self.ending_due()
        if constraints is not None:
            if checked_step is None:
                checked_step = due.step if due else self.record.progress.last_step
            self.add_check(
                constraints, constraint_cost_s, checked_step, snapshot_cost_s=snapshot_cost_s
            )
        elif due is not None:
            self.skip(self.record.progress.last_step)
        self._end("finished", BY_ITSELF)

    def skip(self, step: int) -> None:
        """A check that was due at ``step`` is not made: the checkpoint could not win."""
        if self.record.gated_at is None:
            self.record.gated_at = step

    def add_check(
        self,
        constraints: Mapping[str, object],
        constraint_cost_s: float | Mapping[str, float] | None,
        step: int,
        *,
        snapshot_cost_s: float = 0.0,
        margins: Mapping[str, float] | None = None,
    ) -> CheckResult:
        """A check outside a report: at a trial's own end, or after the run."""
        # nothing has an effect before all of it was found in order
        step = require_step(step, "checked_step", least=0)  # Optuna's steps may begin at 0
        check = self._judge(constraints, step, self._loss_at(step), step, None, margins)
        costs = None
        if constraint_cost_s is not None:
            costs = split_costs(self._stopper.goals, constraint_cost_s, check.measured)
        self.take_check(check, costs, require_cost(snapshot_cost_s, "snapshot_cost_s"))
        return check

    def take_check(
        self,
        check: CheckResult,
        check_cost_s: Mapping[str, float] | None,
        snapshot_cost_s: float = 0.0,
    ) -> None:
        """Append a check outside a report, without looking at it twice: see :meth:`take`."""
        self._asked = None
        self._history.add_check(self.record, check)
        self._history.costs.add_check(check_cost_s, snapshot_cost_s, check)
        self.record.progress.checks += 1

    def fail(self, reason: str | Reason) -> None:
        """The trial ended with an error. Its reports stay in the ranking."""
        self._cut_short("failed", reason)

    def interrupt(self, reason: str | Reason) -> None:
        """The trial was cut off by something outside it, such as the end of the budget."""
        self._cut_short("interrupted", reason)

    def _cut_short(self, state: State, reason: str | Reason) -> None:
        if self.record.state == "running":
            self._end(state, stated(state, reason) if isinstance(reason, str) else reason)

    def restore(self, state: State, reason: Reason = NO_REASON) -> None:
        """Set how the trial ended: what a resumed study knows from its file."""
        self._end(state, reason)

    # -- inside ----------------------------------------------------------------------------------

    def _require_latest(self) -> None:
        record = self.record
        if record is not self._stopper.history.trials[record.id]:
            raise ReportError(
                f"attempt {record.attempt} of trial {record.id!r} was replaced by another one and "
                "comes too late"
            )

    def _end(self, state: State, reason: Reason) -> None:
        if state == "finished" and self.record.state != "finished":
            self._stopper.history.finished.append(self.record)
        self.record.state, self.record.reason = state, reason

    def _again(self, index: int, loss: float, constraints: Mapping[str, object] | None) -> Decision:
        record, log = self.record, self.record.log
        step, same = log.step[index], log.loss[index] == loss
        if constraints is not None and same:
            same = log.digest.get(step, 0) == digest(self._stopper.goals.measurements(constraints))
        if not same:
            if step == record.progress.total_steps:
                text = (
                    f"reported step {step}, its last, again; the first report stands. If training "
                    f"goes on beyond it, give trial.steps({step + 1}), or total_steps={step + 1}"
                )
            else:
                text = f"reported step {step} again with other values; the first report stands"
            self._stopper.on_repeat(f"trial {record.id!r} {text}")
        stopped = record.stop_decision
        if stopped is not None and stopped.step == step:
            return stopped
        rank, of = log.rank[index] or None, log.of[index] or None
        why = _AGAIN if rank is None else _AGAIN_RANKED
        return Decision(Action.CONTINUE, why, log.stratum_at(index), rank, of, step)

    def _judge(
        self,
        constraints: Mapping[str, object],
        step: int,
        loss: float,
        checked_step: int | None,
        due: Due | None,
        margins: Mapping[str, float] | None,
    ) -> CheckResult:
        goals, progress = self._stopper.goals, self.record.progress
        if margins:
            goals = goals.with_margins(margins)
        if not goals.constraints:
            raise ReportError(f"this study has no constraints, got {quoted(constraints)}")
        measured = goals.measurements(constraints)
        if checked_step is None:
            checked_step = due.step if due is not None else step
        else:
            checked_step = require_step(checked_step, "checked_step", least=0)
        if checked_step == step:
            checked_loss = loss
        elif checked_step == progress.best_step:
            checked_loss = progress.best_loss
        else:
            checked_loss = self._loss_at(checked_step)
        return check_result(goals, checked_step, checked_loss, measured)

    def _loss_at(self, step: int) -> float:
        """The loss reported at a step that is said to be the checked one."""
        log = self.record.log
        index = log.find(step)
        if index is None:
            raise ReportError(
                f"trial {self.record.id!r} reported no step {step}, so it cannot be the checked one"
            )
        return log.loss[index]


def at_last_step(decision: Decision) -> Decision:
    """A decision to stop at a trial's last step: the trial finishes there."""
    code, sentence, _ = decision.wording
    why = Wording(f"{code}_at_last_step", f"last step, the trial finishes; {sentence}")
    return replace(decision, action=Action.CONTINUE, why=why)


class RepeatedReportWarning(UserWarning):
    """A step was reported again with other values; the first report stands."""


class CheckedCheckpoint(NamedTuple):
    """A checkpoint and what was measured of it, in the user's own units."""

    trial: TrialId
    attempt: int
    step: int
    value: float  # of the objective
    constraints: Mapping[str, Estimate | FailedCheck]


class Stopper:
    """Decides, report by report, which trials go on.

    Parameters
    ----------
    objective, mode:
        Name of the metric to optimise, and ``"min"`` or ``"max"``.
    constraints:
        The limits a checkpoint must keep to be valid.
    policy:
        When to check and which trials to stop; :class:`~acetune.Adaptive` by default.
    confirm_top:
        The gate compares with this many-th best valid trial, so that runners-up exist when the
        first fails its confirmation.

    >>> stopper = Stopper(objective="auc", mode="max", constraints=[Constraint("eod", upper=0.25)])
    >>> trial = stopper.start("trial-1", total_steps=1)
    >>> trial.check_due(step=1, value=0.81)
    1
    >>> trial.observe(step=1, value=0.81, constraints={"eod": 0.2}).stratum
    'valid'
    >>> stopper.best.step, stopper.best.value
    (1, 0.81)
    """

    def __init__(
        self,
        *,
        objective: str,
        mode: Mode,
        constraints: Sequence[Constraint] = (),
        policy: Policy | None = None,
        confirm_top: int = 1,
    ) -> None:
        require_whole("confirm_top", confirm_top, least=1)
        if policy is not None and not isinstance(policy, Policy):
            raise GoalError(
                f"policy must be a policy such as acetune.Adaptive(), got {quoted(policy)}"
            )
        try:
            limits = tuple(constraints)
        except Exception:  # it may be an object of any class
            raise GoalError(
                f"constraints must be Constraint objects, got {quoted(constraints)}"
            ) from None
        self.goals = Goals(Objective(objective, mode), limits)
        self.policy = make_policy(policy)
        self.on_repeat: Callable[[str], object] = _warn_repeated
        self.history = History(keep=confirm_top, learns=self.policy.learns)

    @property
    def best(self) -> CheckedCheckpoint | None:
        """The best feasible checkpoint so far, in your own units, or None."""
        return self._shown(self.history.best)

    @property
    def nearest_miss(self) -> CheckedCheckpoint | None:
        """The least violating of the checkpoints that were found invalid, or None."""
        return self._shown(self.history.nearest)

    def found_in(self, trial: TrialId) -> tuple[CheckedCheckpoint | None, bool]:
        """The best feasible checkpoint of a trial, else its nearest miss; and which it is."""
        record = self.history.trials.get(require_trial(trial))
        if record is None:
            raise ReportError(f"no trial {trial!r} has started")
        found = self._shown(record.best_valid or record.nearest)
        return found, record.best_valid is not None

    def _shown(self, found: Checkpoint | None) -> CheckedCheckpoint | None:
        if found is None:
            return None
        value = self.goals.objective.value(found.loss)
        return CheckedCheckpoint(
            found.trial, found.attempt, found.step, value, dict(found.measured)
        )

    def start(
        self, trial: TrialId, total_steps: int | None = None, *, resumed_from: int = 0
    ) -> StopperTrial:
        """Start a trial, or a new attempt of one that is running or failed.

        ``total_steps`` is the trial's last step, or an upper bound; None if not known yet.
        ``resumed_from`` is the step of the checkpoint a new attempt goes on from.
        """
        trial = require_trial(trial)
        known = self.history.trials.get(trial)
        if known is not None and known.state in ("finished", "stopped"):
            raise ReportError(f"trial {trial!r} has {known.state} and cannot start again")
        total_steps = require_total_steps(total_steps)
        resumed_from = require_step(resumed_from, "resumed_from", least=0)
        interval = self.policy.first_check(total_steps, self.history.costs)
        return self.restart(trial, total_steps, interval, self.history.costs.ratio, resumed_from)

    def restart(
        self,
        trial: TrialId,
        total_steps: int | None,
        interval: int | None,
        cost_ratio: float | None,
        resumed_from: int = 0,
    ) -> StopperTrial:
        """Start with an interval that was chosen before: what a resumed study does."""
        before = self.history.trials.get(trial)
        progress = Progress(total_steps=total_steps, interval=interval)
        record = self.history.start(trial, progress, cost_ratio, resumed_from)
        if self.policy.learns:
            progress.trend = self.history.trend
            # who goes on where it was cut off knows what it knew then, as if it had not been
            if before is not None and 0 < before.progress.last_step == progress.last_step:
                progress.trend = before.progress.trend
        return StopperTrial(self, record)

    @property
    def order(self) -> tuple[str, ...] | None:
        """In which order to measure the constraints of a trial that starts now.

        The rest may be left out once one of them is broken. None: measure all of them.
        """
        return check_order(self.policy, self.goals, self.history.costs)


def stopper_of(goals: Goals, policy: Policy, confirm_top: int = 1) -> Stopper:
    """A stopper for goals that stand."""
    return Stopper(
        objective=goals.objective.name,
        mode=goals.objective.mode,
        constraints=goals.constraints,
        policy=policy,
        confirm_top=confirm_top,
    )


def _warn_repeated(message: str) -> None:
    warnings.warn(message, RepeatedReportWarning, stacklevel=4)
