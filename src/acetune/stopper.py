"""Ask and tell: the thinnest layer over the core, for loops of one's own.

It validates what comes in, asks the policy and appends to the history; it does no I/O and reads no
clock. The coordinator of a study stands on it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from acetune.core.decision import Action, Decision
from acetune.core.errors import GoalError, ReportError
from acetune.core.goals import (
    Constraint,
    Estimate,
    FailedCheck,
    Goals,
    Mode,
    Objective,
    as_number,
)
from acetune.core.history import History
from acetune.core.observation import CheckResult, Observation, TrialId
from acetune.core.record import Checkpoint, Progress, State, TrialRecord, digest
from acetune.policies import ACE, Policy
from acetune.policies.base import Due, check_due, finish_due

_LAST = "last step, the trial finishes; {was}"
_AGAIN = "as decided before"
_AGAIN_RANKED = "rank {rank} of {of} at step {step}: as decided before"


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
        The limits a checkpoint must satisfy to be valid.
    policy:
        When to check and whom to stop; :class:`~acetune.ACE` by default.
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
        if not isinstance(confirm_top, int) or confirm_top < 1:
            raise GoalError(f"confirm_top must be a whole number >= 1, got {confirm_top!r}")
        if policy is not None and not isinstance(policy, Policy):
            raise GoalError(f"policy must be a policy such as acetune.ACE(), got {policy!r}")
        self.goals = Goals(Objective(objective, mode), tuple(constraints))
        self.policy = ACE() if policy is None else policy
        self.on_repeat: Callable[[str], None] = _warn_repeated
        self.history = History(keep=confirm_top)

    @property
    def best(self) -> CheckedCheckpoint | None:
        """The best feasible checkpoint so far, in your own units, or None."""
        return self._shown(self.history.best)

    @property
    def nearest_miss(self) -> CheckedCheckpoint | None:
        """The least violating of the checkpoints that were found invalid, or None."""
        return self._shown(self.history.nearest)

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
        known = self.history.trials.get(trial)
        if known is not None and known.state in ("finished", "stopped"):
            raise ReportError(f"trial {trial!r} has {known.state} and cannot start again")
        total_steps = require_total_steps(total_steps)
        interval = self.policy.interval(total_steps, self.history.costs)
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
        progress = Progress(total_steps=total_steps, interval=interval)
        record = self.history.start(trial, progress, cost_ratio, resumed_from)
        return StopperTrial(self, record)


class StopperTrial:
    """One attempt of a trial. Asking changes nothing; only :meth:`observe` and the endings do."""

    __slots__ = ("_stopper", "record")

    def __init__(self, stopper: Stopper, record: TrialRecord) -> None:
        self._stopper = stopper
        self.record = record

    @property
    def interval(self) -> int | None:
        """1: checked at every step; else once, at the end."""
        return self.record.progress.interval

    @property
    def state(self) -> State:
        """running, finished, stopped, failed or interrupted."""
        return self.record.state

    def declare(self, total_steps: int) -> None:
        """Tell the last step of a trial that started without one. The interval stays."""
        progress = self.record.progress
        total = require_total_steps(total_steps)
        if total is not None and total < progress.last_step:
            raise ReportError(
                f"total_steps={total} is below step {progress.last_step}, which trial "
                f"{self.record.id!r} has reported"
            )
        if progress.total_steps is not None and progress.total_steps != total:
            raise ReportError(
                f"trial {self.record.id!r} has total_steps={progress.total_steps}; "
                f"it cannot become {total}"
            )
        progress.total_steps = total

    # -- asking ----------------------------------------------------------------------------------

    def check_due(self, step: int, value: float, *, snapshot: bool = True) -> int | None:
        """The step whose checkpoint to check now, or None.

        ``snapshot=False`` says that no copy of the best checkpoint exists: then a check at the end
        is one of the last step.
        """
        record = self.record
        if step <= record.progress.last_step and record.log.find(step) is not None:
            return None  # acknowledged before: that report stands
        loss = self._stopper.goals.objective.loss(as_number(value, "the objective"))
        due = self._due(step, loss, snapshot)
        return due.step if due is not None and due.open else None

    def finish_due(self, *, snapshot: bool = True) -> int | None:
        """For a trial that ended by itself before its last step: a step still to check, or None."""
        due = self._finish_due(snapshot)
        return due.step if due is not None and due.open else None

    def _due(self, step: int, loss: float, snapshot: bool = True) -> Due | None:
        if not self._stopper.goals.constraints:
            return None
        progress = self.record.progress
        gate = self._stopper.history.gate
        return check_due(self._stopper.policy, progress, step, loss, gate, best_kept=snapshot)

    def _finish_due(self, snapshot: bool = True) -> Due | None:
        progress = self.record.progress
        if self.record.state != "running" or progress.last_step == 0:
            return None
        if not self._stopper.goals.constraints:
            return None
        gate = self._stopper.history.gate
        return finish_due(self._stopper.policy, progress, gate, best_kept=snapshot)

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
    ) -> Decision:
        """Report the objective at a step, with the outcome of the check if one was made.

        ``checked_step`` names the checkpoint that was checked where it is not the one
        :meth:`check_due` asked for. The same step again gets the decision it got before.
        ``decided`` is a decision taken earlier, which stands: what a resumed study replays.
        """
        stopper, record = self._stopper, self.record
        progress = record.progress
        loss = stopper.goals.objective.loss(as_number(value, "the objective"))
        step = require_step(step)
        if step <= progress.last_step:
            return self._again(step, loss, constraints)
        if record.state != "running":
            raise ReportError(f"trial {record.id!r} has {record.state}; step {step} comes too late")
        if progress.total_steps is not None and step > progress.total_steps:
            raise ReportError(f"step {step} lies beyond total_steps={progress.total_steps}")

        self._require_latest()
        costs = None
        if constraint_cost_s is not None:
            costs = self._check_costs(constraint_cost_s)
        if primary_cost_s is not None:
            primary_cost_s = require_cost(primary_cost_s, "primary_cost_s")
        if snapshot_cost_s:
            snapshot_cost_s = require_cost(snapshot_cost_s, "snapshot_cost_s")
        due = self._due(step, loss)
        check = None
        if not stopper.goals.constraints and not constraints:
            check = CheckResult(step, loss, {}, True, 0.0)  # nothing to violate: all qualify
        elif constraints is not None:
            check = self._judge(constraints, step, loss, checked_step, due)
        elif due is not None and record.gated_at is None:
            record.gated_at = step
        report = Observation(record.id, step, loss, check, primary_cost_s, costs, snapshot_cost_s)
        history = stopper.history
        filing = stopper.policy.file(record, report)
        decision = decided or stopper.policy.decide(record, report, filing, history)
        last = step == progress.total_steps
        if last and decision.action is Action.STOP:
            why = _LAST.format(was=decision.why)
            decision = decision._replace(action=Action.CONTINUE, why=why)
        history.append(record, report, decision, filing)
        if decision.action is Action.STOP:
            self._end("stopped", decision.reason)
        elif last:
            self._end("finished", "reached its last step")
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
        due = self._finish_due()
        if constraints is not None:
            step = checked_step or (due.step if due else self.record.progress.last_step)
            self.add_check(constraints, constraint_cost_s, step, snapshot_cost_s=snapshot_cost_s)
        elif due is not None and self.record.gated_at is None:
            self.record.gated_at = self.record.progress.last_step
        self._end("finished", "ended by itself")

    def add_check(
        self,
        constraints: Mapping[str, object],
        constraint_cost_s: float | Mapping[str, float] | None,
        step: int,
        *,
        snapshot_cost_s: float = 0.0,
    ) -> CheckResult:
        """A check outside a report: at a trial's own end, or after the run."""
        index = self.record.log.find(step)
        if index is None:
            raise ReportError(
                f"trial {self.record.id!r} reported no step {step}, so it cannot be the checked one"
            )
        check = self._judge(constraints, step, self.record.log.loss[index], step, None)
        costs = None if constraint_cost_s is None else self._check_costs(constraint_cost_s)
        snapshot_cost_s = require_cost(snapshot_cost_s, "snapshot_cost_s")
        history = self._stopper.history
        history.add_check(self.record, check)
        history.costs.add(None, costs, snapshot_cost_s)
        self.record.progress.checks += 1
        return check

    def fail(self, reason: str) -> None:
        """The trial ended with an error. Its reports stay in the ranking."""
        if self.record.state == "running":
            self._end("failed", reason)

    def interrupt(self, reason: str) -> None:
        """The trial was cut off by something outside it, such as the end of the budget."""
        if self.record.state == "running":
            self._end("interrupted", reason)

    def restore(self, state: State, reason: str) -> None:
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

    def _end(self, state: State, reason: str) -> None:
        self.record.state, self.record.reason = state, reason

    def _again(self, step: int, loss: float, constraints: Mapping[str, object] | None) -> Decision:
        record, log = self.record, self.record.log
        index = log.find(step)
        if index is None:
            raise ReportError(
                f"trial {record.id!r} reported step {step} after step {record.progress.last_step}; "
                "steps must rise (a retried trial is a new attempt: start it again)"
            )
        same = log.loss[index] == loss
        if constraints is not None and same:
            same = log.digest[index] == digest(self._stopper.goals.measurements(constraints))
        if not same:
            self._stopper.on_repeat(
                f"trial {record.id!r} reported step {step} again with other values; the first "
                "report stands"
            )
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
    ) -> CheckResult:
        goals, progress = self._stopper.goals, self.record.progress
        if not goals.constraints:
            raise ReportError(f"this study has no constraints, got {dict(constraints)!r}")
        measured = goals.measurements(constraints)
        if checked_step is None:
            checked_step = due.step if due is not None else step
        if checked_step == step:
            checked_loss = loss
        elif checked_step == progress.best_step:
            checked_loss = progress.best_loss
        else:
            index = self.record.log.find(checked_step)
            if index is None:
                raise ReportError(
                    f"trial {self.record.id!r} reported no step {checked_step}, so it "
                    "cannot be the checked one"
                )
            checked_loss = self.record.log.loss[index]
        valid, violation = goals.judge(measured)
        return CheckResult(checked_step, checked_loss, measured, valid, violation)

    def _check_costs(self, cost: float | Mapping[str, float]) -> dict[str, float]:
        return split_costs(self._stopper.goals, cost)


def split_costs(goals: Goals, cost: float | Mapping[str, float]) -> dict[str, float]:
    """The cost of a check by constraint; one number for all is shared out evenly."""
    names = [constraint.name for constraint in goals.constraints]
    if isinstance(cost, Mapping):
        for name in cost:
            if name not in names:
                raise ReportError(f"cost of unknown constraint {name!r}; this study has {names}")
        return {n: require_cost(c, f"cost of constraint {n!r}") for n, c in cost.items()}
    total = require_cost(cost, "constraint_cost_s")
    return dict.fromkeys(names, total / len(names)) if names else {}


def _warn_repeated(message: str) -> None:
    warnings.warn(message, RepeatedReportWarning, stacklevel=4)


def require_step(step: int) -> int:
    """A step as a plain number from 1 on, else a :class:`ReportError` that names it."""
    if isinstance(step, bool) or not hasattr(step, "__index__") or step < 1:
        raise ReportError(f"step must be a whole number >= 1, got {step!r}")
    return int(step)


def require_total_steps(total_steps: int | None) -> int | None:
    """``total_steps`` if it makes sense, else a :class:`ReportError` that names it."""
    if total_steps is None:
        return None
    if isinstance(total_steps, bool) or not hasattr(total_steps, "__index__"):
        raise ReportError(f"total_steps must be a whole number, got {total_steps!r}")
    total = int(total_steps)
    if total < 1:
        raise ReportError(f"total_steps must be >= 1, got {total}")
    return total


def require_cost(cost: float, what: str) -> float:
    """A cost in seconds: finite and not negative."""
    seconds = as_number(cost, what)
    if not 0.0 <= seconds < float("inf"):
        raise ReportError(f"{what} must be a finite number of seconds >= 0, got {cost!r}")
    return seconds
