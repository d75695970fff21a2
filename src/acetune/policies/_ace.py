"""ACE: adaptive constraint-aware early stopping (Chen, Wang, Saied, Zhuang 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from acetune.core.decision import Action, Decision
from acetune.core.errors import GoalError
from acetune.core.history import History
from acetune.core.measured_costs import Costs
from acetune.core.numbers import require_share, require_whole
from acetune.core.observation import Observation
from acetune.core.ranked_groups import Filing
from acetune.core.reason import Reason, Wording
from acetune.core.trial_record import Progress, TrialRecord
from acetune.policies._ranking import KEPT, WORST, file_in, in_worst
from acetune.policies.policy import Policy, adaptive_interval, best_step, settle, theorem_schedule

_VIOLATED = Wording(
    "first_violation",
    "a limit is broken at step {step}: the first violation stops",
    "the first violation stops",
)
_GRACE = Wording(
    "grace",
    "rank {rank} of {of} {stratum} reports at step {step}: within the first {min_steps} steps",
)


@dataclass(frozen=True)
class ACE(Policy):
    """Check the constraint when worth its cost; stop the worst of each stratum at each step.

    Reports are ranked with those of the same step and the same stratum: ``valid``, ``invalid``
    (by violation, then objective) and ``unchecked``. The worst ``truncation`` of a group stops.
    No penalty weight is needed.

    Parameters
    ----------
    truncation:
        Share of each group that is stopped, between 0 and 1.
    interval:
        ``"adaptive"``: each trial is checked at every step or only at its end, whichever is
        expected to cost less (Theorem 1 of the paper); ``1`` or ``"end"`` fixes it.
    gate:
        Skip the check of a checkpoint whose objective is worse than the best feasible one.
    stopping:
        ``"stratum"``, or ``"first-violation"``: the first invalid report stops its trial.
    min_steps:
        No trial is stopped before this step.

    A NaN or infinite objective ranks last in its group and never passes the gate.

    >>> ACE(truncation=0.5, interval=1)
    ACE(truncation=0.5, interval=1, gate=True, stopping='stratum', min_steps=0)
    """

    truncation: float = 0.25
    interval: Literal["adaptive", 1, "end"] = "adaptive"
    gate: bool = True
    stopping: Literal["stratum", "first-violation"] = "stratum"
    min_steps: int = 0

    def __post_init__(self) -> None:
        require_share("truncation", self.truncation)
        if self.interval not in ("adaptive", 1, "end") or isinstance(self.interval, bool):
            raise GoalError(f"interval must be 'adaptive', 1 or 'end', got {self.interval!r}")
        if self.stopping not in ("stratum", "first-violation"):
            raise GoalError(
                f"stopping must be 'stratum' or 'first-violation', got {self.stopping!r}"
            )
        require_whole("min_steps", self.min_steps, least=0)
        settle(self, truncation=float(self.truncation), gate=bool(self.gate))

    def first_check(self, total_steps: int | None, costs: Costs) -> int | None:
        """Theorem 1 on the costs measured so far; at the end while no check was timed."""
        if self.interval == 1:
            return 1
        if self.interval == "end":
            return total_steps
        return adaptive_interval(self.truncation, total_steps, costs)

    def due(self, trial: Progress, step: int, loss: float) -> int | None:
        """Every step, or at the last one the best checkpoint so far."""
        if trial.interval == 1:
            return step
        return best_step(trial, step, loss) if step == trial.total_steps else None

    def due_at_end(self, trial: Progress) -> int | None:
        """The best checkpoint of a trial that was to be checked once, at the end."""
        return None if trial.interval == 1 else trial.best_step or None

    def may_check_best(self, trial: Progress) -> bool:
        """Only a trial that is checked at its end looks back."""
        return trial.interval != 1

    def file(self, trial: TrialRecord, report: Observation) -> Filing | None:
        """By step and stratum; invalid reports by (violation, loss), the others by loss."""
        check = report.check
        if check is None:  # nearly always, and so on a short way
            return Filing((report.step, "unchecked"), report.loss)
        return file_in(check.stratum, report.step, check.violation, report.loss)

    def decide(
        self, trial: TrialRecord, report: Observation, filing: Filing | None, history: History
    ) -> Decision:
        """Stop the worst ``truncation`` of the group; ties count for the current trial."""
        assert filing is not None  # every report is filed, see file()
        group = history.group(filing.group)
        better, n = group.better_than(filing.key), len(group.keys) + 1
        step, stratum = report.step, report.stratum
        if step < self.min_steps:
            numbers = {"min_steps": self.min_steps}
            return Decision(Action.CONTINUE, _GRACE, stratum, better + 1, n, step, numbers)
        if self.stopping == "first-violation" and stratum == "invalid":
            action, why = Action.STOP, _VIOLATED
        elif in_worst(self.truncation, better, n):
            action, why = Action.STOP, WORST
        else:
            action, why = Action.CONTINUE, KEPT
        return Decision(action, why, stratum, better + 1, n, step, {"share": self.truncation})

    def schedule(self, trial: TrialRecord) -> Reason:
        """Every step or once, at the end, and by what numbers."""
        return theorem_schedule(trial, self.truncation if self.interval == "adaptive" else None)
