"""ASHA: asynchronous successive halving (Li et al. 2020), its cutoff as in Ray Tune."""

from __future__ import annotations

import math

from acetune.core.decision import Action, Decision
from acetune.core.errors import GoalError
from acetune.core.groups import Filing, Group
from acetune.core.history import History
from acetune.core.measured import Costs
from acetune.core.observation import Observation
from acetune.core.record import Progress, TrialRecord
from acetune.policies.base import Policy, When, require_when

_FIRST = "first at the rung at step {step}"
_KEEP = "rank {rank} of {of} at the rung at step {step}: kept"
_CUT = "rank {rank} of {of} at the rung at step {step}: worse than the cutoff"
_BETWEEN = "step {step} is between rungs"


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

    def __init__(
        self, reduction_factor: float = 4, min_steps: int = 1, constraints: When = "callback"
    ) -> None:
        if not (isinstance(reduction_factor, (int, float)) and 1 < reduction_factor < math.inf):
            raise GoalError(f"reduction_factor must be a number > 1, got {reduction_factor!r}")
        if not isinstance(min_steps, int) or min_steps < 1:
            raise GoalError(f"min_steps must be a whole number >= 1, got {min_steps!r}")
        require_when(constraints)
        self.reduction_factor = reduction_factor
        self.min_steps = min_steps
        self.constraints = constraints
        self.checks_after_run = constraints == "after"

    def options(self) -> dict[str, object]:
        """The options, by the names of the constructor."""
        return {
            "reduction_factor": self.reduction_factor,
            "min_steps": self.min_steps,
            "constraints": self.constraints,
        }

    def rungs(self, step: int) -> list[float]:
        """The rungs up to ``step``, lowest first."""
        found: list[float] = []
        rung: float = self.min_steps
        while rung <= step:
            found.append(rung)
            rung = self.min_steps * self.reduction_factor ** len(found)
        return found

    def interval(self, total_steps: int | None, costs: Costs) -> int | None:
        """Every rung."""
        return 1

    def due(self, trial: Progress, step: int, loss: float) -> int | None:
        """At a rung, and at the last step."""
        if self.checks_after_run:
            return None
        if step == trial.total_steps:
            return step
        rungs = self.rungs(step)
        return step if rungs and rungs[-1] > trial.last_step else None

    def due_at_end(self, trial: Progress) -> int | None:
        """The last step, unless it was checked."""
        if self.checks_after_run or trial.last_checked:
            return None
        return trial.last_step or None

    def may_check_best(self, trial: Progress) -> bool:
        """Only when constraints are checked after the run."""
        return self.checks_after_run

    def file(self, trial: TrialRecord, report: Observation) -> Filing | None:
        """At the highest rung reached that does not hold this trial yet."""
        for rung in reversed(self.rungs(report.step)):
            if not trial.filed_in(("rung", rung)):
                return Filing(("rung", rung), report.loss)
        return None

    def decide(
        self, trial: TrialRecord, report: Observation, filing: Filing | None, history: History
    ) -> Decision:
        """Stop what is strictly worse than the cutoff at its rung."""
        stratum, step = report.stratum, report.step
        if filing is None:
            return Decision(Action.CONTINUE, _BETWEEN, stratum, step=step)
        group = history.group(filing.group)
        rank, of = group.better_than(filing.key) + 1, len(group) + 1
        if len(group) == 0:
            return Decision(Action.CONTINUE, _FIRST, stratum, rank, of, step)
        cutoff = self.cutoff(group)
        worse = report.loss > cutoff
        action, why = (Action.STOP, _CUT) if worse else (Action.CONTINUE, _KEEP)
        return Decision(action, why, stratum, rank, of, step, cutoff)

    def cutoff(self, group: Group) -> float:
        """NumPy's linearly interpolated percentile of the rewards (negated losses), as a loss.

        Infinite losses, which stand for objectives that are not finite, are left out.
        """
        n = group.better_than(math.inf)
        if n == 0:
            return math.inf
        position = (1 - 1 / self.reduction_factor) * 100 / 100 * (n - 1)
        below = math.floor(position)
        above = min(below + 1, n - 1)
        low, high = -group.keys[n - 1 - below], -group.keys[n - 1 - above]
        t = position - below
        reward = low + (high - low) * t if t < 0.5 else high - (high - low) * (1 - t)
        return float(-reward)
