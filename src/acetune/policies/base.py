"""What every stopping policy answers. A policy holds options and no state: the history has that.

A report goes through a policy in this order::

    interval()   once, when the trial starts: from which step on its constraints are due
    due()        at each step, before the check: which checkpoint is due, if any
    file()       where the report is ranked
    decide()     go on or stop

The same history and the same report give the same answer, in the worker, in the driver, in a
replay and after a resume.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, TypeAlias

from acetune.core.cost import best_interval
from acetune.core.decision import Decision
from acetune.core.errors import GoalError
from acetune.core.goals import Goals
from acetune.core.groups import Filing
from acetune.core.history import History
from acetune.core.measured import Costs
from acetune.core.numbers import is_number
from acetune.core.observation import Observation
from acetune.core.record import Progress, TrialRecord

When: TypeAlias = Literal["callback", "after"]


class Policy(ABC):
    """When to check the constraints of a trial, and when to stop it."""

    #: a due check is skipped when the checkpoint's objective cannot beat the best feasible one
    gate: bool = False
    #: no check during the run; afterwards trials are checked from the best objective down
    checks_after_run: bool = False
    #: of several constraints the rest are left out once one is violated
    one_by_one: bool = False

    @abstractmethod
    def interval(self, total_steps: int | None, costs: Costs) -> int | None:
        """The first step at which a check is due; ``total_steps``: once, at the end."""

    @abstractmethod
    def due(self, trial: Progress, step: int, loss: float) -> int | None:
        """The step whose checkpoint is due to be checked at this report, gate aside, or None."""

    @abstractmethod
    def due_at_end(self, trial: Progress) -> int | None:
        """The step still due when a trial ends by itself before its last step, gate aside."""

    @abstractmethod
    def may_check_best(self, trial: Progress) -> bool:
        """Whether the trial's best checkpoint may be checked later, so that a copy is worth it."""

    @abstractmethod
    def file(self, trial: TrialRecord, report: Observation) -> Filing | None:
        """Group and key the report is ranked by, or None where it is not ranked."""

    @abstractmethod
    def decide(
        self, trial: TrialRecord, report: Observation, filing: Filing | None, history: History
    ) -> Decision:
        """Go on or stop. The history does not hold the report yet."""

    @abstractmethod
    def options(self) -> dict[str, object]:
        """The options, by the names of the constructor."""

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.options().items())
        return f"{type(self).__name__}({options})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and repr(other) == repr(self)

    def __hash__(self) -> int:
        return hash(repr(self))


class CheckedAtEnd(Policy):
    """The half that policies blind to the constraint share: when it is checked.

    Parameters
    ----------
    constraints:
        ``"callback"``: the best checkpoint of each trial is checked when it ends.
        ``"after"``: nothing is checked during the run; afterwards trials are checked from the best
        objective down until one is feasible.
    """

    def __init__(self, constraints: When) -> None:
        require_when(constraints)
        self.constraints = constraints
        self.checks_after_run = constraints == "after"

    def interval(self, total_steps: int | None, costs: Costs) -> int | None:
        """Once, at the end."""
        return total_steps

    def due(self, trial: Progress, step: int, loss: float) -> int | None:
        """The best checkpoint at the last step."""
        if self.checks_after_run or step != trial.total_steps:
            return None
        return best_step(trial, step, loss)

    def due_at_end(self, trial: Progress) -> int | None:
        """The best checkpoint of a trial that ended before its last step."""
        return None if self.checks_after_run else trial.best_step or None

    def may_check_best(self, trial: Progress) -> bool:
        """The best checkpoint is the one that counts."""
        return True


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
    return step if trial.best_step == 0 or loss < trial.best_loss else trial.best_step


# -- answers that several policies give ----------------------------------------------------------


def adaptive_interval(truncation: float, total_steps: int | None, costs: Costs) -> int:
    """Theorem 1 on the costs measured so far; at the end while no check was timed."""
    if total_steps is None or total_steps == 1:
        return 1
    ratio = costs.ratio
    return total_steps if ratio is None else best_interval(truncation, ratio, total_steps)


def check_order(policy: Policy, goals: Goals, costs: Costs) -> tuple[str, ...] | None:
    """The order in which constraints are measured, up to the first violated one.

    None: all of them, as declared.
    """
    if not policy.one_by_one or len(goals.constraints) < 2:
        return None
    return costs.order([constraint.name for constraint in goals.constraints])


# -- options -------------------------------------------------------------------------------------


def require_when(when: str) -> None:
    """Validate the ``constraints`` option of the constraint-blind policies."""
    if when not in ("callback", "after"):
        raise GoalError(f"constraints must be 'callback' or 'after', got {when!r}")


def require_share(name: str, value: float) -> None:
    """Validate an option that is a share of something."""
    if not is_number(value) or not 0 <= value <= 1:
        raise GoalError(f"{name} must be a share between 0 and 1, got {value!r}")
