"""Back-off: ACE's strata with every step due, and fewer checks of a trial that keeps violating."""

from __future__ import annotations

import math
from dataclasses import dataclass

from acetune.core.decision import Action, Decision
from acetune.core.errors import GoalError
from acetune.core.history import History
from acetune.core.measured_costs import Costs
from acetune.core.numbers import is_number, require_share
from acetune.core.observation import Observation
from acetune.core.ranked_groups import Filing
from acetune.core.reason import Reason, Wording
from acetune.core.trial_record import Progress, TrialRecord
from acetune.policies._ranking import KEPT, WORST, file_in, in_worst, last_unless_checked
from acetune.policies.policy import Policy, schedule_from, settle

_SPACED = Wording(
    "checked_after_a_growing_gap",
    "due at step {first}, at its last, and in between after a gap that grows {growth:g}-fold with "
    "each violation in a row",
    "at spaced steps",
)
_LONGEST = 1e9  # steps between two checks: far beyond any trial's last


@dataclass(frozen=True)
class Backoff(Policy):
    """Check every step; after each violation in a row wait longer until the next check.

    After ``k`` violations since its last valid check a trial is not due for
    ``growth ** k`` steps, rounded down; the last step always is. The gate skips what cannot win.
    Reports are ranked as by :class:`~acetune.ACE`; those between checks are unchecked.

    Parameters
    ----------
    truncation:
        Share of each stratum that is stopped, between 0 and 1.
    growth:
        What each violation in a row multiplies the gap by, from 1 on; 1 checks every step.

    A baseline: no setting of it is good everywhere, see :class:`~acetune.ACE2`.

    >>> Backoff()
    Backoff(truncation=0.35, growth=1.2)
    """

    gate = True

    truncation: float = 0.35
    growth: float = 1.2

    def __post_init__(self) -> None:
        require_share("truncation", self.truncation)
        if not is_number(self.growth) or self.growth < 1:
            raise GoalError(f"growth must be a number >= 1, got {self.growth!r}")
        settle(self, truncation=float(self.truncation), growth=float(self.growth))

    def first_check(self, total_steps: int | None, costs: Costs) -> int | None:
        """Along the way."""
        return 1

    def due(self, trial: Progress, step: int, loss: float) -> int | None:
        """The last step, and whatever lies far enough behind the last check."""
        if step == trial.total_steps or trial.checks == 0:
            return step
        gap = _LONGEST
        if trial.violations * math.log(self.growth) < math.log(_LONGEST):
            gap = max(1, math.floor(self.growth**trial.violations))
        return step if step - trial.checked_at >= gap else None

    def due_at_end(self, trial: Progress) -> int | None:
        """The last step, unless it was checked."""
        return last_unless_checked(trial)

    def may_check_best(self, trial: Progress) -> bool:
        """Only the reporting checkpoint is ever checked."""
        return False

    def file(self, trial: TrialRecord, report: Observation) -> Filing | None:
        """By step and stratum."""
        return file_in(report.stratum, report.step, report.violation, report.loss)

    def decide(
        self, trial: TrialRecord, report: Observation, filing: Filing | None, history: History
    ) -> Decision:
        """Stop the worst ``truncation`` of the group; ties count for the current trial."""
        assert filing is not None  # every report is filed
        group = history.group(filing.group)
        better, n = group.better_than(filing.key), len(group.keys) + 1
        cut = in_worst(self.truncation, better, n)
        action, why = (Action.STOP, WORST) if cut else (Action.CONTINUE, KEPT)
        numbers = {"share": self.truncation}
        return Decision(action, why, report.stratum, better + 1, n, report.step, numbers)

    def schedule(self, trial: TrialRecord) -> Reason:
        """Less often with each violation."""
        if self.growth == 1:
            return schedule_from(trial.progress)
        return Reason(_SPACED, {"first": trial.progress.interval or 1, "growth": self.growth})
