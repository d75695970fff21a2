"""ACE2: ACE for checks of any cost. docs/ace2.md has the reasoning and what each part gains."""

from __future__ import annotations

import math
from dataclasses import dataclass

from acetune.core.decision import Action, Decision, Stratum
from acetune.core.errors import GoalError
from acetune.core.history import History
from acetune.core.measured_costs import Costs
from acetune.core.numbers import is_number, require_share
from acetune.core.observation import Observation
from acetune.core.ranked_groups import Filing
from acetune.core.reason import Reason, Value, Wording
from acetune.core.trial_record import Progress, TrialRecord
from acetune.policies._ranking import KEPT, WORST, file_in, in_worst, last_unless_checked
from acetune.policies.policy import Policy, best_step, schedule_from, settle

_SPARED = Wording(
    "spared",
    "rank {rank} of {of} {stratum} reports at step {step}: kept, as few checks find valid",
)
# a report between two checks of its trial is unchecked, and ranked with those of the last verdict
_KEPT_STILL = Wording(
    "kept_as_last_checked",
    "rank {rank} of {of} at step {step} among the {stratum}, as last checked: kept",
)
_WORST_STILL = Wording(
    "worst_as_last_checked",
    "rank {rank} of {of} at step {step} among the {stratum}, as last checked: "
    "in the worst {share:.0%}",
    "in the worst {share:.0%} of those at its step that were last found {stratum}",
)
_BEHIND = Wording(
    "behind",
    "behind the best feasible checkpoint at step {step}, and no better than at step {best_step}",
    "behind the best feasible checkpoint, and long without improving",
)
_DEFERRED = Wording(
    "checked_once_as_most_are_valid",
    "due once, at the end of {steps} steps, because many checks had come out valid when it started",
    "at the end",
)
_SPACED = Wording(
    "checked_after_training_as_long_as_a_check",
    "due at step {first}, at its last, and in between when it has trained for {times}as "
    "long as its last check took",
    "at spaced steps",
)
_ROUNDING = 1e-9  # what is equal up to rounding counts as equal


@dataclass(frozen=True)
class ACE2(Policy):
    """Check as seldom as its cost asks for, and rank a trial only by what is known of it.

    What it does beyond :class:`~acetune.ACE`, none of which needs to be set:

    - A trial is first checked when it has trained for half as long as a check takes, or for 15 %
      of its steps, whichever comes first, and then each time it has trained one and a half times
      as long as its last check took: where its steps cost the same, its checks cost no more than
      two thirds of its training, the last two aside.
    - Between checks a trial is ranked with those of its last verdict, not as unchecked.
    - A trial that waits for its first check is not stopped by its rank while few checks find
      valid: its objective says little then.
    - Where at least a third of all checks find valid, a trial is checked once, at its end, at its
      best.
    - Of several constraints, those after the first broken one are not measured.
    - A larger share of the invalid is stopped than of the others.
    - A trial without any check so far is stopped when it falls behind the best feasible
      checkpoint and has not improved for most of its training.

    Without constraints it is :class:`~acetune.TruncationSelection` with the same ``truncation``.

    Parameters
    ----------
    truncation:
        Share of the valid and of the unchecked reports at a step that is stopped.
    invalid_truncation:
        Share of the invalid ones, ranked by violation, then objective.
    head_start:
        Share of its steps that a trial takes before its first check, unless half the time of a
        check is over before; 0, or where its last step is unknown: the first step is checked.
    spacing:
        Training between two checks, as a multiple of what the first of them cost; 0: each step
        from the first check on.
    patience:
        Share of its steps that a trial which is behind may go without improving; 1: any.
    remember:
        Whether a trial keeps its verdict between checks.
    spare:
        Whether the never-checked are not stopped by their rank while few checks find valid.
    defer:
        Whether trials are checked at their end where many checks find valid.
    one_by_one:
        Whether a check measures several constraints in turn, the cheapest and likeliest broken
        first, and leaves out the rest once one is broken.

    Nothing has to be tuned: the options are there to take it apart. A NaN or infinite objective
    ranks last in its group and never passes the gate.

    >>> ACE2(head_start=0, spacing=1)
    ACE2(truncation=0.25, invalid_truncation=0.4, head_start=0.0, spacing=1.0, patience=0.75, \
remember=True, spare=True, defer=True, one_by_one=True)
    """

    gate = True

    truncation: float = 0.25
    invalid_truncation: float = 0.4
    head_start: float = 0.15
    spacing: float = 1.5
    patience: float = 0.75
    remember: bool = True
    spare: bool = True
    defer: bool = True
    one_by_one: bool = True

    def __post_init__(self) -> None:
        for name in ("truncation", "invalid_truncation", "patience", "head_start"):
            require_share(name, getattr(self, name))
        if not is_number(self.spacing) or self.spacing < 0:
            raise GoalError(f"spacing must be a finite number >= 0, got {self.spacing!r}")
        for name in ("truncation", "invalid_truncation", "head_start", "spacing", "patience"):
            settle(self, **{name: float(getattr(self, name))})
        for name in ("remember", "spare", "defer", "one_by_one"):
            settle(self, **{name: bool(getattr(self, name))})

    # -- when to check ---------------------------------------------------------------------------

    def first_check(self, total_steps: int | None, costs: Costs) -> int:
        """The first step to check; the last one where many checks found valid."""
        if total_steps is None:
            return 1
        if self.defer and costs.valid_n and not _rarely_valid(costs):
            return total_steps
        half_a_check = math.ceil((costs.ratio or 0.0) / 2 * (1 - _ROUNDING))
        share = math.floor(self.head_start * total_steps + _ROUNDING)
        return max(1, min(half_a_check, share))

    def due(self, trial: Progress, step: int, loss: float) -> int | None:
        """The first check, the last step, and what lies far enough behind the last check."""
        if _once(trial):
            return best_step(trial, step, loss) if step == trial.total_steps else None
        if step == trial.total_steps:
            return step
        if trial.checks == 0:
            return step if step >= (trial.interval or 1) else None
        # (steps since then) x (mean cost of a step) against spacing x (cost of the last check)
        trained = (step - trial.checked_at) * trial.primary_s
        enough = self.spacing * trial.last_check_s * trial.iterations
        return step if trained * (1 + _ROUNDING) >= enough else None

    def due_at_end(self, trial: Progress) -> int | None:
        """What was put off to the end: the best checkpoint, or the last one if not checked."""
        if _once(trial):
            return trial.best_step or None
        return last_unless_checked(trial)

    def may_check_best(self, trial: Progress) -> bool:
        """Only a trial that is checked at its end looks back."""
        return _once(trial)

    # -- which trials to stop ---------------------------------------------------------------------

    def file(self, trial: TrialRecord, report: Observation) -> Filing | None:
        """By step and stratum; between checks by the last verdict."""
        stratum, violation = self._last_known(trial, report)
        return file_in(stratum, report.step, violation, report.loss)

    def _last_known(self, trial: TrialRecord, report: Observation) -> tuple[Stratum, float]:
        """Stratum and violation that a report is ranked by; between checks those of the last."""
        if report.check is None and self.remember and trial.verdicts:
            _, stratum, violation, *_ = trial.verdicts[-1]
            return stratum, violation
        return report.stratum, report.violation

    def decide(
        self, trial: TrialRecord, report: Observation, filing: Filing | None, history: History
    ) -> Decision:
        """Stop the worst of the group, and who stays behind; ties count for the current trial."""
        assert filing is not None  # every report is filed, see file()
        group = history.group(filing.group)
        better, n = group.better_than(filing.key), len(group.keys) + 1
        step, stratum = report.step, report.stratum
        last_known, _ = self._last_known(trial, report)
        share = self.invalid_truncation if last_known == "invalid" else self.truncation
        keep, cut = KEPT, WORST
        numbers: dict[str, Value] = {"share": share}
        if last_known != stratum:
            keep, cut = _KEPT_STILL, _WORST_STILL
            numbers["stratum"] = last_known  # what it is ranked as
        if in_worst(share, better, n):
            spared = self.spare and last_known == "unchecked" and trial.progress.planned
            if not spared or not _rarely_valid(history.costs):
                return Decision(Action.STOP, cut, stratum, better + 1, n, step, numbers)
            keep = _SPARED
        if report.check is None and not trial.verdicts and report.loss > history.gate:
            best = best_step(trial.progress, step, report.loss)
            early = (1 - self.patience) * step + _ROUNDING  # a share below one step is none
            if early >= 1 and best <= early:
                numbers = {"best_step": best}
                return Decision(Action.STOP, _BEHIND, stratum, better + 1, n, step, numbers)
        return Decision(Action.CONTINUE, keep, stratum, better + 1, n, step, numbers)

    def schedule(self, trial: TrialRecord) -> Reason:
        """Spaced by what a check costs, or once, at the end."""
        progress = trial.progress
        if _once(progress):
            return Reason(_DEFERRED, {"steps": progress.total_steps or 1})
        if self.spacing == 0:
            return schedule_from(progress)
        times = "" if self.spacing == 1 else f"{self.spacing:g} times "
        return Reason(_SPACED, {"first": progress.interval or 1, "times": times})


def _rarely_valid(costs: Costs) -> bool:
    """Whether less than a third of all checks so far found a valid checkpoint."""
    return 2 * costs.valid_n < costs.invalid_n


def _once(trial: Progress) -> bool:
    """Whether a trial is checked once, at its end."""
    total = trial.total_steps
    return total is not None and 1 < total <= (trial.interval or 1)
