"""The bandit policy of HyperDrive and Azure ML: stop what falls too far behind the best."""

from __future__ import annotations

from dataclasses import dataclass

from acetune.core.decision import Action, Decision
from acetune.core.errors import GoalError
from acetune.core.history import History
from acetune.core.numbers import is_number, require_whole
from acetune.core.observation import Observation
from acetune.core.ranked_groups import Filing
from acetune.core.reason import Wording
from acetune.core.trial_record import TrialRecord
from acetune.policies.policy import Policy, When, require_when, settle

_GRACE = Wording("grace", "within the first {min_steps} steps")
_KEPT_RATIO = Wording(
    "within_factor",
    "its best by step {step} is within a factor {factor:.4g} of the best of all: kept",
)
_CUT_RATIO = Wording(
    "beyond_factor",
    "its best by step {step} is not within a factor {factor:.4g} of the best of all",
    "not within a factor {factor:.4g} of the best of all",
)
_KEPT_AMOUNT = Wording(
    "within_amount", "its best by step {step} is within {amount:.4g} of the best of all: kept"
)
_CUT_AMOUNT = Wording(
    "beyond_amount",
    "its best by step {step} is not within {amount:.4g} of the best of all",
    "not within {amount:.4g} of the best of all",
)


@dataclass(frozen=True)
class Bandit(Policy):
    """Stop a trial whose best so far is worse than the best of all trials, allowing for slack.

    With a ratio ``s`` and the best value ``v`` of any trial at any step, what is below
    ``v / (1 + s)`` stops when maximising and what is above ``v * (1 + s)`` when minimising. Where
    ``v`` is negative the two change places, so that slack always allows for something worse than
    ``v``. Blind to the constraint.

    Parameters
    ----------
    slack_ratio:
        Slack as a ratio; 0.1 unless ``slack_amount`` is given.
    slack_amount:
        Slack in the unit of the objective. Only one of the two can be given.
    min_steps:
        No trial is stopped before this step.
    constraints:
        ``"callback"``: the best checkpoint of each trial is checked when it ends.
        ``"after"``: checked after the run, from the best objective down.

    A NaN or infinite objective is never the best. A trial without any finite objective stops as
    soon as another trial has one.

    Rasley, He, Yan, Ruwase, Fonseca: HyperDrive. Exploring hyperparameters with POP scheduling.
    Middleware 2017; the policy as in Azure Machine Learning's ``BanditPolicy``.

    >>> Bandit(slack_amount=0.02)
    Bandit(slack_ratio=None, slack_amount=0.02, min_steps=1, constraints='callback')
    """

    slack_ratio: float | None = None
    slack_amount: float | None = None
    min_steps: int = 1
    constraints: When = "callback"

    def __post_init__(self) -> None:
        ratio, amount = self.slack_ratio, self.slack_amount
        if ratio is not None and amount is not None:
            raise GoalError(
                "only one of slack_ratio and slack_amount can be given, "
                f"got {ratio!r} and {amount!r}"
            )
        for name, slack in (("slack_ratio", ratio), ("slack_amount", amount)):
            if slack is not None and (not is_number(slack) or slack < 0):
                raise GoalError(f"{name} must be a finite number >= 0, got {slack!r}")
        require_whole("min_steps", self.min_steps, least=1)
        require_when(self.constraints)
        if ratio is None and amount is None:
            settle(self, slack_ratio=0.1)

    def decide(
        self, trial: TrialRecord, report: Observation, filing: Filing | None, history: History
    ) -> Decision:
        """Stop what is beyond the slack; a trial that is the best itself never is."""
        stratum, step = report.stratum, report.step
        if step < self.min_steps:
            grace = {"min_steps": self.min_steps}
            return Decision(Action.CONTINUE, _GRACE, stratum, step=step, numbers=grace)
        worst = self.threshold(history.best_loss)
        stops = min(trial.progress.best_loss, report.loss) > worst
        action = Action.STOP if stops else Action.CONTINUE
        if self.slack_amount is not None:
            why, numbers = _CUT_AMOUNT if stops else _KEPT_AMOUNT, {"amount": self.slack_amount}
        else:
            assert self.slack_ratio is not None  # one of the two is in force
            why = _CUT_RATIO if stops else _KEPT_RATIO
            numbers = {"factor": 1 + self.slack_ratio}
        return Decision(action, why, stratum, step=step, numbers=numbers)

    def threshold(self, best_loss: float) -> float:
        """The worst loss that goes on when ``best_loss`` is the best of all.

        >>> Bandit(slack_ratio=0.25).threshold(8.0), Bandit(slack_ratio=0.25).threshold(-10.0)
        (10.0, -8.0)
        """
        if self.slack_amount is not None:
            return best_loss + self.slack_amount
        assert self.slack_ratio is not None  # one of the two is in force
        slack = 1 + self.slack_ratio
        return best_loss * slack if best_loss >= 0 else best_loss / slack
