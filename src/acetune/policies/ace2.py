"""ACE2: ACE for checks of any price. docs/ace2.md has the reasoning and what each part gains."""

from __future__ import annotations

from acetune.core.decision import Action, Decision, Stratum
from acetune.core.errors import GoalError
from acetune.core.groups import Filing
from acetune.core.history import History
from acetune.core.measured import Costs
from acetune.core.observation import Observation
from acetune.core.record import Progress, TrialRecord
from acetune.policies.base import Policy, best_step, is_number, require_share
from acetune.policies.strata import file_in, in_worst

_KEEP = "rank {rank} of {of} {stratum} reports at step {step}: kept"
_CUT = "rank {rank} of {of} {stratum} reports at step {step}: in the worst {number:.0%}"
# a report between two checks of its trial is unchecked, and ranked with those of the last verdict
_STILL: dict[Stratum, tuple[str, str]] = {
    stratum: (
        f"rank {{rank}} of {{of}} at step {{step}} among the {stratum}, as last checked: kept",
        f"rank {{rank}} of {{of}} at step {{step}} among the {stratum}, as last checked: "
        "in the worst {number:.0%}",
    )
    for stratum in ("valid", "invalid")
}
_BEHIND = (
    "behind the best feasible checkpoint at step {step}, and no better than at step {number:.0f}"
)
_ROUNDING = 1e-9  # what is equal up to rounding counts as equal


class ACE2(Policy):
    """Check as seldom as its price asks for, remember the verdict, cut what violates harder.

    What it does beyond :class:`~acetune.ACE`, none of which needs to be set:

    - A trial is checked at its first step, and then again when it has trained for as long as a
      check takes: where its steps cost the same, its checks cost no more than its training, the
      first and last check aside.
    - Between checks a trial is ranked with those of its last verdict, not as unchecked.
    - Where most checks come out valid, a trial is checked once, at its end, at its best.
    - A larger share of the invalid is stopped than of the others.
    - A trial that was never worth a check is stopped when it falls behind the best feasible
      checkpoint and has not improved for most of its training.

    Without constraints it is :class:`~acetune.TruncationSelection` with the same ``truncation``.

    Parameters
    ----------
    truncation:
        Share of the valid and of the unchecked reports at a step that is stopped.
    invalid_truncation:
        Share of the invalid ones, ranked by violation, then objective.
    spacing:
        Training between two checks, as a multiple of what a check costs; 0 checks every step.
    patience:
        Share of its steps that a trial which is behind may go without improving; 1: any.
    remember:
        Whether a trial keeps its verdict between checks.
    defer:
        Whether trials are checked at their end where most checks come out valid.

    Nothing has to be tuned: the options are there to take it apart. A NaN or infinite objective
    ranks last in its group and never passes the gate.

    >>> ACE2(truncation=0.25)
    ACE2(truncation=0.25, invalid_truncation=0.4, spacing=1.0, patience=0.75, remember=True, \
defer=True)
    """

    gate = True

    def __init__(
        self,
        truncation: float = 0.2,
        invalid_truncation: float = 0.4,
        spacing: float = 1.0,
        patience: float = 0.75,
        remember: bool = True,
        defer: bool = True,
    ) -> None:
        require_share("truncation", truncation)
        require_share("invalid_truncation", invalid_truncation)
        require_share("patience", patience)
        if not is_number(spacing) or spacing < 0:
            raise GoalError(f"spacing must be a finite number >= 0, got {spacing!r}")
        self.truncation = float(truncation)
        self.invalid_truncation = float(invalid_truncation)
        self.spacing = float(spacing)
        self.patience = float(patience)
        self.remember = bool(remember)
        self.defer = bool(defer)

    def options(self) -> dict[str, object]:
        """The options, by the names of the constructor."""
        return {
            "truncation": self.truncation,
            "invalid_truncation": self.invalid_truncation,
            "spacing": self.spacing,
            "patience": self.patience,
            "remember": self.remember,
            "defer": self.defer,
        }

    # -- when to check ---------------------------------------------------------------------------

    def interval(self, total_steps: int | None, costs: Costs) -> int | None:
        """Along the way; at the end where at least half of the checks so far came out valid."""
        checked = costs.valid_n + costs.invalid_n
        if self.defer and total_steps is not None and checked and costs.valid_n >= costs.invalid_n:
            return total_steps
        return 1

    def due(self, trial: Progress, step: int, loss: float) -> int | None:
        """The first step, the last one, and what lies far enough behind the last check."""
        if trial.interval != 1:
            return best_step(trial, step, loss) if step == trial.total_steps else None
        if step == trial.total_steps or trial.checks == 0:
            return step
        # (steps since then) x (mean cost of a step) against spacing x (mean cost of a check)
        trained = (step - trial.checked_at) * trial.primary_s * trial.checks
        enough = self.spacing * trial.check_s * trial.iterations
        return step if trained * (1 + _ROUNDING) >= enough else None

    def due_at_end(self, trial: Progress) -> int | None:
        """What was put off to the end: the best checkpoint, or the last one if not checked."""
        if trial.interval != 1:
            return trial.best_step or None
        return None if trial.last_checked else trial.last_step or None

    def may_check_best(self, trial: Progress) -> bool:
        """Only a trial that is checked at its end looks back."""
        return trial.interval != 1

    # -- whom to stop ----------------------------------------------------------------------------

    def file(self, trial: TrialRecord, report: Observation) -> Filing | None:
        """By step and stratum; between checks by the last verdict."""
        stratum, violation = self._standing(trial, report)
        return file_in(stratum, report.step, violation, report.loss)

    def _standing(self, trial: TrialRecord, report: Observation) -> tuple[Stratum, float]:
        """The stratum that a report is ranked in, and the violation."""
        if report.check is None and self.remember and trial.verdicts:
            _, stratum, violation = trial.verdicts[-1]
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
        standing, _ = self._standing(trial, report)
        share = self.invalid_truncation if standing == "invalid" else self.truncation
        keep, cut = (_KEEP, _CUT) if standing == stratum else _STILL[standing]
        if in_worst(share, better, n):
            return Decision(Action.STOP, cut, stratum, better + 1, n, step, share)
        if report.check is None and not trial.verdicts and report.loss > history.gate:
            best = max(0, best_step(trial.progress, step, report.loss))
            # Optuna's steps may begin at 0: counted as the first one
            if max(1, best) <= (1 - self.patience) * step + _ROUNDING:
                return Decision(Action.STOP, _BEHIND, stratum, better + 1, n, step, float(best))
        return Decision(Action.CONTINUE, keep, stratum, better + 1, n, step, share)
