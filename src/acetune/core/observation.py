"""One report of a trial, as the history and the policies see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from acetune.core.decision import Stratum
from acetune.core.goals import Estimate, FailedCheck, Goals

TrialId: TypeAlias = int | str


@dataclass(slots=True)
class CheckResult:
    """What evaluating the constraints of one checkpoint gave, and what it comes to."""

    step: int  # of the checkpoint that was checked; not always the reporting one
    loss: float  # of that checkpoint
    measured: Mapping[str, Estimate | FailedCheck]
    valid: bool
    violation: float
    measured_violation: float  # the same without what counts for constraints left out
    excess: tuple[float, ...] = ()  # beyond each limit, see Goals.relative_excesses
    # where there are several constraints: those violated, and those that were not measured then
    violated: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def stratum(self) -> Stratum:
        """Which reports one with this check is ranked with."""
        return "valid" if self.valid else "invalid"


def check_result(
    goals: Goals, step: int, loss: float, measured: Mapping[str, Estimate | FailedCheck]
) -> CheckResult:
    """What the measurements of a checkpoint come to: judged here, once, and handed on."""
    valid, violation, excess = goals.judge_each(measured)
    if valid or len(goals.constraints) == 1:
        return CheckResult(step, loss, measured, valid, violation, violation, excess)
    left_out = tuple(c.name for c in goals.constraints if c.name not in measured)
    found = goals.violation(measured, left_out=0.0) if left_out else violation
    violated = goals.violated(measured)
    return CheckResult(step, loss, measured, valid, violation, found, excess, violated, left_out)


def unconstrained(step: int, loss: float) -> CheckResult:
    """Of a checkpoint in a study without constraints: nothing to violate, so all qualify."""
    return CheckResult(step, loss, {}, True, 0.0, 0.0)


@dataclass(slots=True)
class Observation:
    """A report: the objective at a step and, where one was made, a check."""

    trial: TrialId
    step: int
    loss: float  # minimised; infinite when the objective was not finite
    check: CheckResult | None = None
    primary_cost_s: float | None = None
    check_cost_s: Mapping[str, float] | None = None
    snapshot_cost_s: float = 0.0

    @property
    def stratum(self) -> Stratum:
        """Which reports this one is ranked with."""
        check = self.check  # asked several times at every report
        return "unchecked" if check is None else "valid" if check.valid else "invalid"

    @property
    def violation(self) -> float:
        """Scaled violation of the checked checkpoint, 0 where none was checked."""
        return 0.0 if self.check is None else self.check.violation
