"""ASHA inside strata: the paper's ASHA_stratum and ASHA_stratum_not_fixed (Chen et al. 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from acetune.core.decision import Decision
from acetune.core.errors import GoalError
from acetune.core.history import History
from acetune.core.measured_costs import Costs
from acetune.core.numbers import require_share, require_whole
from acetune.core.observation import Observation
from acetune.core.ranked_groups import Filing
from acetune.core.reason import Reason, Wording
from acetune.core.trial_record import Progress, TrialRecord
from acetune.policies._ranking import (
    EVERY_RUNG,
    decide_by_place,
    file_in,
    last_unless_checked,
    require_factor,
    rung_passed,
)
from acetune.policies.policy import Policy, adaptive_interval, best_step, settle, theorem_schedule

_KEPT = Wording(
    "within_places_of_stratum",
    "rank {rank} of {of} {stratum} reports at the rung at step {step}: kept",
)
_CUT = Wording(
    "beyond_places_of_stratum",
    "rank {rank} of {of} {stratum} reports at the rung at step {step}: not in the best {places}",
    "not among the best of the {stratum} reports at its rung",
)


@dataclass(frozen=True)
class ASHAStratum(Policy):
    """Check at ASHA's rungs and stop there what is not in the best quarter of its stratum.

    Reports are ranked with those of the same rung and the same stratum: ``valid``, ``invalid`` (by
    violation, then objective) and ``unchecked``. There is no gate: whatever is due is checked. A
    report is ranked at the highest rung passed since the trial's last one; rungs that were jumped
    over stay empty.

    Parameters
    ----------
    reduction_factor:
        Rungs are this factor apart; of ``n`` reports in a group, this one included, the best
        ``n / reduction_factor``, rounded up, go on.
    min_steps:
        The first rung.
    interval:
        ``1``: checked at every rung and at the last step. ``"adaptive"``: so, or only at the
        trial's end (the best checkpoint), whichever ACE's Theorem 1 expects to cost less.
    truncation:
        The theorem's p, the share stopped at a check; 0.25 is the paper's for ACE. The theorem
        weighs a check at every step against one at the end; for rungs it is a rule of thumb.

    A NaN or infinite objective ranks behind all others of its stratum, among the invalid behind
    those of the same violation.

    >>> ASHAStratum(interval="adaptive")
    ASHAStratum(reduction_factor=4, min_steps=1, interval='adaptive', truncation=0.25)
    """

    reduction_factor: float = 4
    min_steps: int = 1
    interval: Literal[1, "adaptive"] = 1
    truncation: float = 0.25

    def __post_init__(self) -> None:
        require_factor("reduction_factor", self.reduction_factor)
        require_whole("min_steps", self.min_steps, least=1)
        if self.interval not in (1, "adaptive") or isinstance(self.interval, bool):
            raise GoalError(f"interval must be 1 or 'adaptive', got {self.interval!r}")
        require_share("truncation", self.truncation)
        settle(self, truncation=float(self.truncation))

    def first_check(self, total_steps: int | None, costs: Costs) -> int | None:
        """1: every rung; else once, at the end."""
        if self.interval == 1:
            return 1
        return adaptive_interval(self.truncation, total_steps, costs)

    def due(self, trial: Progress, step: int, loss: float) -> int | None:
        """At a rung and at the last step; or at the last one the best checkpoint so far."""
        if trial.interval != 1:
            return best_step(trial, step, loss) if step == trial.total_steps else None
        return step if step == trial.total_steps or self._rung(trial, step) is not None else None

    def due_at_end(self, trial: Progress) -> int | None:
        """The last step, unless it was checked; or the best checkpoint."""
        if trial.interval != 1:
            return trial.best_step or None
        return last_unless_checked(trial)

    def may_check_best(self, trial: Progress) -> bool:
        """Only a trial that is checked at its end looks back."""
        return trial.interval != 1

    def _rung(self, trial: Progress, step: int) -> float | None:
        return rung_passed(trial.last_step, step, self.min_steps, self.reduction_factor)

    def file(self, trial: TrialRecord, report: Observation) -> Filing | None:
        """By rung and stratum; invalid reports by (violation, loss), the others by loss."""
        rung = self._rung(trial.progress, report.step)
        if rung is None:
            return None
        return file_in(report.stratum, rung, report.violation, report.loss)

    def decide(
        self, trial: TrialRecord, report: Observation, filing: Filing | None, history: History
    ) -> Decision:
        """Stop what is not among the best of its group; ties count for the current trial."""
        return decide_by_place(report, filing, history, self.reduction_factor, _KEPT, _CUT)

    def schedule(self, trial: TrialRecord) -> Reason:
        """At rungs, or once, at the end."""
        chosen = theorem_schedule(trial, self.truncation if self.interval == "adaptive" else None)
        if trial.progress.interval == 1:
            return Reason(EVERY_RUNG.wording, chosen.numbers)
        return chosen
