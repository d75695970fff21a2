"""No stopping: every trial runs to its end."""

from __future__ import annotations

from acetune.core.decision import Action, Decision
from acetune.core.groups import Filing
from acetune.core.history import History
from acetune.core.measured import Costs
from acetune.core.observation import Observation
from acetune.core.record import Progress, TrialRecord
from acetune.policies.base import Policy, When, due_once, due_once_at_end, require_when

_KEEP = "nothing is stopped"


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

    def __init__(self, constraints: When = "callback") -> None:
        require_when(constraints)
        self.constraints = constraints
        self.checks_after_run = constraints == "after"

    def options(self) -> dict[str, object]:
        """The options, by the names of the constructor."""
        return {"constraints": self.constraints}

    def interval(self, total_steps: int | None, costs: Costs) -> int | None:
        """Once, at the end."""
        return total_steps

    def due(self, trial: Progress, step: int, loss: float) -> int | None:
        """The best checkpoint at the last step."""
        return due_once(trial, step, loss, self.constraints)

    def due_at_end(self, trial: Progress) -> int | None:
        """The best checkpoint of a trial that ended before its last step."""
        return due_once_at_end(trial, self.constraints)

    def may_check_best(self, trial: Progress) -> bool:
        """The best checkpoint is the one that counts."""
        return True

    def file(self, trial: TrialRecord, report: Observation) -> Filing | None:
        """Nothing is ranked."""
        return None

    def decide(
        self, trial: TrialRecord, report: Observation, filing: Filing | None, history: History
    ) -> Decision:
        """Go on."""
        return Decision(Action.CONTINUE, _KEEP, report.stratum, step=report.step)
