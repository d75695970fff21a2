"""ASHA with violation before objective: what one would write without having read of ACE."""

from __future__ import annotations

import math
from dataclasses import dataclass

from acetune.core.decision import Decision
from acetune.core.history import History
from acetune.core.measured_costs import Costs
from acetune.core.numbers import require_whole
from acetune.core.observation import Observation
from acetune.core.ranked_groups import Filing
from acetune.core.reason import Reason, Wording
from acetune.core.trial_record import Progress, TrialRecord
from acetune.policies._ranking import (
    EVERY_RUNG,
    decide_by_place,
    last_unless_checked,
    require_factor,
    rung_passed,
)
from acetune.policies.policy import Policy, settle

_KEPT = Wording(
    "within_places",
    "rank {rank} of {of} by violation and objective at the rung at step {step}: kept",
)
_CUT = Wording(
    "beyond_places",
    "rank {rank} of {of} by violation and objective at the rung at step {step}: "
    "not in the best {places}",
    "not among the best at its rung",
)


@dataclass(frozen=True)
class ASHALexicographic(Policy):
    """Stop at ASHA's rungs what is not in the best quarter by violation, then objective.

    All reports of a rung are ranked together; valid and unchecked ones have violation 0. A report
    is ranked at the highest rung passed since the trial's last one; rungs that were jumped over
    stay empty.

    Parameters
    ----------
    reduction_factor:
        Rungs are this factor apart; of ``n`` reports at a rung, this one included, the best
        ``n / reduction_factor``, rounded up, go on.
    min_steps:
        The first rung.
    gate:
        At a rung and at the last step, check only what is at least as good as the best feasible
        checkpoint. False: check all.

    A NaN or infinite objective ranks last, behind every violation, and never passes the gate.

    A baseline, not from the literature: the rungs of Li et al., A system for massively parallel
    hyperparameter tuning, MLSys 2020, with the order of Deb, An efficient constraint handling
    method for genetic algorithms, 2000.

    >>> ASHALexicographic()
    ASHALexicographic(reduction_factor=4, min_steps=1, gate=True)
    """

    reduction_factor: float = 4
    min_steps: int = 1
    gate: bool = True

    def __post_init__(self) -> None:
        require_factor("reduction_factor", self.reduction_factor)
        require_whole("min_steps", self.min_steps, least=1)
        settle(self, gate=bool(self.gate))

    def first_check(self, total_steps: int | None, costs: Costs) -> int | None:
        """Every rung."""
        return 1

    def due(self, trial: Progress, step: int, loss: float) -> int | None:
        """At a rung, and at the last step."""
        return step if step == trial.total_steps or self._rung(trial, step) is not None else None

    def due_at_end(self, trial: Progress) -> int | None:
        """The last step, unless it was checked."""
        return last_unless_checked(trial)

    def may_check_best(self, trial: Progress) -> bool:
        """Only the reporting checkpoint is ever checked."""
        return False

    def _rung(self, trial: Progress, step: int) -> float | None:
        return rung_passed(trial.last_step, step, self.min_steps, self.reduction_factor)

    def file(self, trial: TrialRecord, report: Observation) -> Filing | None:
        """By rung; the key is (violation, loss)."""
        rung = self._rung(trial.progress, report.step)
        if rung is None:
            return None
        violation = report.violation if report.loss < math.inf else math.inf
        return Filing(rung, (violation, report.loss))

    def decide(
        self, trial: TrialRecord, report: Observation, filing: Filing | None, history: History
    ) -> Decision:
        """Stop what is not among the best of its rung; ties count for the current trial."""
        return decide_by_place(report, filing, history, self.reduction_factor, _KEPT, _CUT)

    def schedule(self, trial: TrialRecord) -> Reason:
        """At rungs."""
        return EVERY_RUNG
