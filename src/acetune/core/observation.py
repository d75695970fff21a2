"""One report of a trial, as the history and the policies see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from acetune.core.decision import Stratum
from acetune.core.goals import Estimate, FailedCheck

TrialId: TypeAlias = int | str


@dataclass(slots=True)
class CheckResult:
    """What evaluating all constraints of one checkpoint gave."""

    step: int  # of the checkpoint that was checked; not always the reporting one
    loss: float  # of that checkpoint
    measured: Mapping[str, Estimate | FailedCheck]
    valid: bool
    violation: float


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
        if self.check is None:
            return "unchecked"
        return "valid" if self.check.valid else "invalid"

    @property
    def violation(self) -> float:
        """Scaled violation of the checked checkpoint, 0 where none was checked."""
        return 0.0 if self.check is None else self.check.violation
