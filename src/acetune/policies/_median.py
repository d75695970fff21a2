"""The median stopping rule (Golovin et al. 2017)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from acetune.core.decision import Action, Decision
from acetune.core.history import History
from acetune.core.numbers import require_whole
from acetune.core.observation import Observation
from acetune.core.ranked_groups import Filing, median_of
from acetune.core.reason import Wording
from acetune.core.trial_record import TrialRecord
from acetune.policies.policy import Policy, When, require_when

_GRACE = Wording("grace", "within the first {min_steps} steps")
_FEW = Wording(
    "too_few_trials",
    "other trials that reported step {step}: {trials}, too few to compare with",
)
_KEPT = Wording(
    "within_median",
    "its best ranks {rank} of {of} among the running averages at step {step}: kept",
)
_CUT = Wording(
    "below_median",
    "its best ranks {rank} of {of} among the running averages at step {step}: below their median",
    "below the median of the running averages",
)


@dataclass(frozen=True)
class MedianStopping(Policy):
    """Stop a trial whose best so far is worse than the median trial's running average.

    At each step the trial's best objective up to it is compared with the median of the other
    trials' averages over their reports up to it; only a strictly worse one stops. All trials that
    reported the step count, running, stopped or finished. Blind to the constraint.

    Parameters
    ----------
    min_trials:
        So many other trials must have reported the step.
    min_steps:
        No trial is stopped before this step.
    constraints:
        ``"callback"``: the best checkpoint of each trial is checked when it ends.
        ``"after"``: checked after the run, from the best objective down.

    A NaN or infinite objective makes the trial's average infinitely bad from then on, and is never
    its best. Such averages count: while they are the median, nobody stops. A trial without any
    finite objective is worse than any finite median.

    Golovin, Solnik, Moitra, Kochanski, Karro, Sculley: Google Vizier. A service for black-box
    optimization. KDD 2017, section 3.2.2.

    >>> MedianStopping(min_steps=10)
    MedianStopping(min_trials=3, min_steps=10, constraints='callback')
    """

    min_trials: int = 3
    min_steps: int = 1
    constraints: When = "callback"

    def __post_init__(self) -> None:
        require_whole("min_trials", self.min_trials, least=1)
        require_whole("min_steps", self.min_steps, least=1)
        require_when(self.constraints)

    def file(self, trial: TrialRecord, report: Observation) -> Filing | None:
        """By step; the key is the average of the trial's losses up to it."""
        average = (trial.progress.loss_sum + report.loss) / (len(trial.log) + 1)
        # a sum beyond the largest float is no average either
        return Filing(report.step, average if math.isfinite(average) else math.inf)

    def decide(
        self, trial: TrialRecord, report: Observation, filing: Filing | None, history: History
    ) -> Decision:
        """Stop what is strictly worse than the median of the others."""
        group = history.group(report.step)
        best = min(trial.progress.best_loss, report.loss)
        rank, of = group.better_than(best) + 1, len(group) + 1
        stratum, step = report.stratum, report.step
        if step < self.min_steps:
            return Decision(
                Action.CONTINUE, _GRACE, stratum, rank, of, step, {"min_steps": self.min_steps}
            )
        if len(group) < self.min_trials:
            return Decision(Action.CONTINUE, _FEW, stratum, rank, of, step, {"trials": len(group)})
        median = median_of(group.keys)
        action, why = (Action.STOP, _CUT) if best > median else (Action.CONTINUE, _KEPT)
        return Decision(action, why, stratum, rank, of, step, {"median": median})
