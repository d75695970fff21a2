"""No stopping: every trial runs to its end."""

from __future__ import annotations

from acetune.core.decision import Action, Decision
from acetune.core.groups import Filing
from acetune.core.history import History
from acetune.core.observation import Observation
from acetune.core.record import TrialRecord
from acetune.policies.base import CheckedAtEnd, When

_KEEP = "nothing is stopped"


class NoStopping(CheckedAtEnd):
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

    def __init__(self, constraints: When = "callback") -> None:
        super().__init__(constraints)

    def options(self) -> dict[str, object]:
        """The options, by the names of the constructor."""
        return {"constraints": self.constraints}

    def file(self, trial: TrialRecord, report: Observation) -> Filing | None:
        """Nothing is ranked."""
        return None

    def decide(
        self, trial: TrialRecord, report: Observation, filing: Filing | None, history: History
    ) -> Decision:
        """Go on."""
        return Decision(Action.CONTINUE, _KEEP, report.stratum, step=report.step)
