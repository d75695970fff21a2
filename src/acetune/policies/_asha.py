"""ASHA: asynchronous successive halving (Li et al. 2020), its cutoff as in Ray Tune."""

from __future__ import annotations

from dataclasses import dataclass

from acetune.core.decision import Decision
from acetune.core.history import History
from acetune.core.measured_costs import Costs
from acetune.core.numbers import require_whole
from acetune.core.observation import Observation
from acetune.core.ranked_groups import Filing
from acetune.core.reason import Reason
from acetune.core.trial_record import Progress, TrialRecord
from acetune.policies._ranking import (
    EVERY_RUNG,
    decide_by_cutoff,
    free_rung,
    last_unless_checked,
    require_factor,
    rung_passed,
    rungs_up_to,
)
from acetune.policies.policy import Policy, When, require_when


@dataclass(frozen=True)
class ASHA(Policy):
    """Stop at steps 1, 4, 16, ... what is not in the best quarter. Blind to the constraint.

    The cutoff is the percentile of what was recorded at the rung before, the current report not
    included; only a strictly worse report stops, and the first to arrive goes on.

    Parameters
    ----------
    reduction_factor:
        Rungs are this factor apart and 1 in ``reduction_factor`` goes on.
    min_steps:
        The first rung.
    constraints:
        ``"callback"``: checked at every rung and at the last step, for the searcher's sake.
        ``"after"``: checked after the run, from the best objective down.

    A NaN or infinite objective ranks last: it stops at any rung that holds a finite one.

    >>> ASHA()
    ASHA(reduction_factor=4, min_steps=1, constraints='callback')
    """

    reduction_factor: float = 4
    min_steps: int = 1
    constraints: When = "callback"

    def __post_init__(self) -> None:
        require_factor("reduction_factor", self.reduction_factor)
        require_whole("min_steps", self.min_steps, least=1)
        require_when(self.constraints)

    def first_check(self, total_steps: int | None, costs: Costs) -> int | None:
        """Every rung."""
        return 1

    def due(self, trial: Progress, step: int, loss: float) -> int | None:
        """At a rung, and at the last step."""
        if self.constraints == "after":
            return None
        if step == trial.total_steps:
            return step
        rung = rung_passed(trial.last_step, step, self.min_steps, self.reduction_factor)
        return None if rung is None else step

    def due_at_end(self, trial: Progress) -> int | None:
        """The last step, unless it was checked."""
        return None if self.constraints == "after" else last_unless_checked(trial)

    def may_check_best(self, trial: Progress) -> bool:
        """Only when constraints are checked after the run."""
        return self.checks_after_run

    def file(self, trial: TrialRecord, report: Observation) -> Filing | None:
        """At the highest rung reached that does not hold this trial yet."""
        rungs = rungs_up_to(report.step, self.min_steps, self.reduction_factor)
        group = free_rung(trial, rungs, "rung")
        return None if group is None else Filing(group, report.loss)

    def decide(
        self, trial: TrialRecord, report: Observation, filing: Filing | None, history: History
    ) -> Decision:
        """Stop what is strictly worse than the cutoff at its rung."""
        return decide_by_cutoff(report, filing, history, self.reduction_factor, "the rung")

    def schedule(self, trial: TrialRecord) -> Reason:
        """At rungs, or after the run."""
        return super().schedule(trial) if self.checks_after_run else EVERY_RUNG
