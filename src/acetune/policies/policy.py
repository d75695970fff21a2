"""What a stopping policy is: options, and answers to a few questions. The history has the state.

A new one is a file of its own in this folder and a line in each table of ``__init__.py``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal, TypeAlias

from acetune.core.cost import best_interval, interval_threshold
from acetune.core.decision import Decision
from acetune.core.errors import GoalError
from acetune.core.goals import Goals
from acetune.core.history import History
from acetune.core.measured_costs import Costs
from acetune.core.observation import Observation
from acetune.core.ranked_groups import Filing
from acetune.core.reason import Reason, Value, Wording
from acetune.core.trial_record import Progress, TrialRecord

When: TypeAlias = Literal["callback", "after"]

# when a trial is checked; by these beginnings of codes: once, and not along the way
_ONCE = ("checked_once", "checked_after_run")
_AS_ASKED = Wording("checked_as_asked", "due when the policy asks for it", "when asked")
_AS_ASKED_FROM = Wording(
    "checked_when_asked", "due from step {first} on, when the policy asks for it", "when asked"
)
_AFTER_RUN = Wording("checked_after_run", "checked after the run only", "after the run")
_AT_END = Wording("checked_once", "due once, at the end of {steps} steps", "at the end")
_EVERY_STEP = Wording("checked_every_step", "due at every step of {steps} steps", "at every step")
_FROM_STEP = Wording(
    "checked_from_a_step",
    "due from step {first} on, at every step of {steps} steps",
    "at every step",
)
_BY_COST = (
    ", because a check cost {ratio:.3g} steps of training when the trial started and every step "
    "is cheaper below {threshold:.3g} (Theorem 1)"
)
_AT_END_BY_COST = Wording("checked_once_by_cost", _AT_END.sentence + _BY_COST, _AT_END.short)
_EVERY_STEP_BY_COST = Wording(
    "checked_every_step_by_cost", _EVERY_STEP.sentence + _BY_COST, _EVERY_STEP.short
)
_LENGTH_UNKNOWN = Wording(
    "checked_every_step_as_length_unknown",
    _EVERY_STEP.sentence + "; its last step was not known yet when that was chosen",
    _EVERY_STEP.short,
)


class Policy(ABC):
    """When to check the constraints of a trial, and when to stop it.

    A policy is a frozen dataclass: its fields are its options. It has no state. Every answer
    follows from the arguments alone, and asking changes nothing, so that the same reports give the
    same decisions in a worker, in the driver, in a replay and after a resume. The questions, in
    order:

    - ``first_check(total_steps, costs)``: once, when a trial starts. From which step on is it
      checked? It may look at what training and checks have cost so far.
    - ``due(trial, step, loss)``: at each report, before the check. Which checkpoint should be
      checked now? It sees the trial's own progress up to the report before.
    - ``file(trial, report)``: at each report, after the check. Which reports is it ranked with,
      and by what? It sees the trial's own record and the report with what was measured.
    - ``decide(trial, report, filing, history)``: go on or stop, and why? It sees everything that
      was reported before. The history does not hold this report yet.
    - ``due_at_end(trial)``: if the trial ends by itself before its last step. What is still to be
      checked?

    Only :meth:`decide` has to be written. What a policy does not say about checks is: once, at the
    end of a trial, its best checkpoint. What it does not file is not ranked. ``loss`` is the
    objective such that smaller is better, and infinite where the objective was not finite.
    :func:`acetune.testing.check_policy` tells whether a policy keeps to all this.
    """

    #: a due check is skipped when the checkpoint's objective cannot beat the best feasible one
    gate: bool = False
    #: ``"after"``: no check during the run; afterwards from the best objective down
    constraints: When = "callback"
    #: it looks at what was learned of the study so far: ``history.learning``, ``history.trend``
    #: and, in ``due``, ``trial.trend``; for others nothing is learned
    learns: bool = False
    #: of several constraints the rest are left out once one is broken
    one_by_one: bool = False

    # -- when to check ---------------------------------------------------------------------------

    @property
    def checks_after_run(self) -> bool:
        """Whether nothing is checked during the run."""
        return self.constraints == "after"

    def first_check(self, total_steps: int | None, costs: Costs) -> int | None:
        """The first step at which a check is due; ``total_steps``: once, at the end."""
        return total_steps

    def due(self, trial: Progress, step: int, loss: float) -> int | None:
        """The step whose checkpoint is due to be checked at this report, gate aside, or None."""
        if step != trial.total_steps or self.constraints == "after":
            return None
        return best_step(trial, step, loss)

    def due_at_end(self, trial: Progress) -> int | None:
        """The step still due when a trial ends by itself before its last step, gate aside."""
        return None if self.constraints == "after" else trial.best_step or None

    def may_check_best(self, trial: Progress) -> bool:
        """Whether the trial's best checkpoint may be checked later, so that a copy is worth it."""
        return True

    # -- which trials to stop ---------------------------------------------------------------------

    def file(self, trial: TrialRecord, report: Observation) -> Filing | None:
        """Group and key the report is ranked by, or None where it is not ranked."""
        return None

    @abstractmethod
    def decide(
        self, trial: TrialRecord, report: Observation, filing: Filing | None, history: History
    ) -> Decision:
        """Go on or stop. The history does not hold the report yet."""

    # -- in words --------------------------------------------------------------------------------

    def schedule(self, trial: TrialRecord) -> Reason:
        """When this trial is checked, for people: asked once its interval is chosen.

        The sentence goes on after "constraint: "; the short form says when in a few words. A code
        that begins with ``checked_once`` is for trials that are checked at their end only.
        """
        kind = type(self)
        if self.checks_after_run:
            return Reason(_AFTER_RUN)
        if kind.due is Policy.due:
            return _at_end(trial.progress)
        if kind.first_check is Policy.first_check:  # one of your own that says no more about it
            return Reason(_AS_ASKED)
        return Reason(_AS_ASKED_FROM, {"first": trial.progress.interval or 1})

    # -- options ---------------------------------------------------------------------------------

    def options(self) -> dict[str, object]:
        """The options, by the names of the constructor: they go into the study file."""
        policy: Any = self  # of which only subclasses are dataclasses
        if not is_dataclass(policy):
            raise GoalError(
                f"the options of {type(self).__name__} are not known: write "
                "@dataclasses.dataclass(frozen=True) above the class, and a field for each option"
            )
        return {field.name: getattr(self, field.name) for field in fields(policy)}


@dataclass(slots=True)
class Due:
    """A check that is due: of which checkpoint, and whether the gate lets it through."""

    step: int
    loss: float
    open: bool


def check_due(
    policy: Policy, trial: Progress, step: int, loss: float, gate: float, *, best_kept: bool
) -> Due | None:
    """What to check at this report. ``best_kept``: a copy of the best checkpoint exists."""
    due = policy.due(trial, step, loss)
    if due is None:
        return None
    if due == step or not best_kept:
        return Due(step, loss, passes_gate(policy, loss, gate))
    return Due(due, trial.best_loss, passes_gate(policy, trial.best_loss, gate))


def finish_due(policy: Policy, trial: Progress, gate: float, *, best_kept: bool) -> Due | None:
    """What to check when a trial ends by itself before its last step."""
    due = policy.due_at_end(trial)
    if due is None:
        return None
    if due != trial.last_step and not best_kept:
        due = trial.last_step
    due_loss = trial.last_loss if due == trial.last_step else trial.best_loss
    return Due(due, due_loss, passes_gate(policy, due_loss, gate))


def passes_gate(policy: Policy, loss: float, gate: float) -> bool:
    """Equality passes. A checkpoint without a finite objective cannot win and never passes."""
    return not policy.gate or (loss <= gate and loss < math.inf)


def best_step(trial: Progress, step: int, loss: float) -> int:
    """The trial's best step when the report at ``step`` is counted in; the earlier one on ties."""
    if loss < trial.best_loss or (trial.best_step == 0 and trial.best_loss == math.inf):
        return step
    return trial.best_step


# -- answers that several policies give ----------------------------------------------------------


def adaptive_interval(truncation: float, total_steps: int | None, costs: Costs) -> int:
    """Theorem 1 on the costs measured so far; at the end while no check was timed."""
    if total_steps is None or total_steps == 1:
        return 1
    ratio = costs.ratio
    return total_steps if ratio is None else best_interval(truncation, ratio, total_steps)


def schedule_from(progress: Progress) -> Reason:
    """At every step from the first check on, or once, at the end."""
    first, total = progress.interval, progress.total_steps
    if first is None or (total is not None and 1 != first >= total):
        return _at_end(progress)
    if first == 1:
        return Reason(_EVERY_STEP, _steps(progress))
    return Reason(_FROM_STEP, {"first": first, **_steps(progress)})


def _at_end(progress: Progress) -> Reason:
    return Reason(_AT_END, _steps(progress))


def _steps(progress: Progress) -> dict[str, Value]:
    total = progress.total_steps
    return {"steps": "an unknown number of" if total is None else total}


def theorem_schedule(trial: TrialRecord, share: float | None) -> Reason:
    """The same, where Theorem 1 has chosen for the ``share`` that is stopped, if it has."""
    plain, progress = schedule_from(trial.progress), trial.progress
    total, ratio = progress.total_steps, trial.cost_ratio
    if share is None or total is None or ratio is None:
        return plain
    threshold = interval_threshold(share, total)
    numbers = {**plain.numbers, "ratio": ratio, "threshold": threshold, "share": share}
    if progress.interval != 1:
        return Reason(_AT_END_BY_COST, numbers)
    return Reason(_EVERY_STEP_BY_COST if ratio < threshold else _LENGTH_UNKNOWN, numbers)


def theorem_share(schedule: Reason) -> float | None:
    """The share that is stopped, by which Theorem 1 has chosen this schedule, if it has."""
    chosen = (_AT_END_BY_COST.code, _EVERY_STEP_BY_COST.code, _LENGTH_UNKNOWN.code)
    return float(schedule.numbers["share"]) if schedule.code in chosen else None


def checked_along(schedule: Reason) -> bool:
    """Whether a trial of this schedule is checked along the way, not once at its end or later.

    >>> plans = [schedule_from(Progress(8, first)) for first in (1, 3, 8, None)]
    >>> [checked_along(plan) for plan in plans], checked_along(schedule_from(Progress(1, 1)))
    ([True, True, False, False], True)
    """
    return bool(schedule) and not schedule.code.startswith(_ONCE)


def checked_every_step(schedule: Reason) -> bool:
    """Whether a check is due at every step of a trial of this schedule.

    >>> [checked_every_step(schedule_from(Progress(8, first))) for first in (1, 3, 8)]
    [True, False, False]
    """
    return schedule.code.startswith(_EVERY_STEP.code)


def check_order(policy: Policy, goals: Goals, costs: Costs) -> tuple[str, ...] | None:
    """The order in which constraints are measured, up to the first broken one.

    None: all of them, as declared.
    """
    if not policy.one_by_one or len(goals.constraints) < 2:
        return None
    return costs.order([constraint.name for constraint in goals.constraints])


# -- options -------------------------------------------------------------------------------------


def settle(policy: Policy, **options: object) -> None:
    """Bring options into the form in which they are kept, while a frozen policy is made."""
    for name, value in options.items():
        object.__setattr__(policy, name, value)


def require_when(when: str) -> None:
    """Validate the ``constraints`` option of the constraint-blind policies."""
    if when not in ("callback", "after"):
        raise GoalError(f"constraints must be 'callback' or 'after', got {when!r}")
