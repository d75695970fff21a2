"""Truncation selection, as in Azure ML: stop the worst share at every step, by objective alone."""

from __future__ import annotations

from dataclasses import dataclass

from acetune.core.decision import Action, Decision
from acetune.core.history import History
from acetune.core.numbers import require_share, require_whole
from acetune.core.observation import Observation
from acetune.core.ranked_groups import Filing
from acetune.core.reason import Wording
from acetune.core.trial_record import TrialRecord
from acetune.policies._ranking import in_worst
from acetune.policies.policy import Policy, When, require_when, settle

_KEPT = Wording("kept_of_all", "rank {rank} of {of} reports at step {step}: kept")
_CUT = Wording(
    "worst_of_all",
    "rank {rank} of {of} reports at step {step}: in the worst {share:.0%}",
    "in the worst {share:.0%}",
)
_GRACE = Wording(
    "grace", "rank {rank} of {of} reports at step {step}: within the first {min_steps} steps"
)
_BETWEEN = Wording(
    "not_compared_here", "step {step} is not a multiple of {every}: nothing is compared"
)


@dataclass(frozen=True)
class TruncationSelection(Policy):
    """Stop the worst ``truncation`` of all trials' reports at a step. Blind to the constraint.

    What ACE does to each stratum, done to all reports of a step together. Ties count for the
    current trial; stopped and finished trials' reports stay in the comparison.

    Parameters
    ----------
    truncation:
        Share of the reports at a step that is stopped, between 0 and 1.
    every:
        Compare at the multiples of this step.
    min_steps:
        No trial is stopped before this step.
    constraints:
        ``"callback"``: the best checkpoint of each trial is checked when it ends.
        ``"after"``: checked after the run, from the best objective down.

    A NaN or infinite objective ranks last.

    Azure Machine Learning's ``TruncationSelectionPolicy``.

    >>> TruncationSelection(truncation=0.5)
    TruncationSelection(truncation=0.5, every=1, min_steps=1, constraints='callback')
    """

    truncation: float = 0.25
    every: int = 1
    min_steps: int = 1
    constraints: When = "callback"

    def __post_init__(self) -> None:
        require_share("truncation", self.truncation)
        require_whole("every", self.every, least=1)
        require_whole("min_steps", self.min_steps, least=1)
        require_when(self.constraints)
        settle(self, truncation=float(self.truncation))

    def file(self, trial: TrialRecord, report: Observation) -> Filing | None:
        """By step; steps between the multiples of ``every`` are not ranked."""
        return Filing(report.step, report.loss) if report.step % self.every == 0 else None

    def decide(
        self, trial: TrialRecord, report: Observation, filing: Filing | None, history: History
    ) -> Decision:
        """Stop the worst ``truncation`` of the group."""
        stratum, step = report.stratum, report.step
        if filing is None:
            every = {"every": self.every}
            return Decision(Action.CONTINUE, _BETWEEN, stratum, step=step, numbers=every)
        group = history.group(filing.group)
        better, n = group.better_than(filing.key), len(group) + 1
        if step < self.min_steps:
            grace = {"min_steps": self.min_steps}
            return Decision(Action.CONTINUE, _GRACE, stratum, better + 1, n, step, grace)
        cut = in_worst(self.truncation, better, n)
        action, why = (Action.STOP, _CUT) if cut else (Action.CONTINUE, _KEPT)
        return Decision(action, why, stratum, better + 1, n, step, {"share": self.truncation})
