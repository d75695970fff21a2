"""No stopping: every trial runs to its end."""

from __future__ import annotations

from dataclasses import dataclass

from acetune.core.decision import Action, Decision
from acetune.core.history import History
from acetune.core.observation import Observation
from acetune.core.ranked_groups import Filing
from acetune.core.reason import Wording
from acetune.core.trial_record import TrialRecord
from acetune.policies.policy import Policy, When, require_when

_KEPT = Wording("never_stops", "nothing is stopped")


@dataclass(frozen=True)
class NoStopping(Policy):
    """Train every trial to its end.

    Parameters
    ----------
    constraints:
        ``"callback"``: the best checkpoint of each trial is checked when it ends.
        ``"after"``: nothing is checked during the run; afterwards trials are checked from the best
        objective down until one is feasible.

    >>> NoStopping()
    NoStopping(constraints='callback')
    """

    constraints: When = "callback"

    def __post_init__(self) -> None:
        require_when(self.constraints)

    def decide(
        self, trial: TrialRecord, report: Observation, filing: Filing | None, history: History
    ) -> Decision:
        """Go on."""
        return Decision(Action.CONTINUE, _KEPT, report.stratum, None, None, report.step, {})
