"""Adaptive: what ACE2 has as fixed rules is learned in the study, from its own reports."""

from __future__ import annotations

import math
from dataclasses import dataclass

from acetune.core.decision import Action, Decision, Stratum
from acetune.core.errors import GoalError
from acetune.core.history import History
from acetune.core.learning import Trend, combined
from acetune.core.measured_costs import Costs
from acetune.core.numbers import is_number, require_share
from acetune.core.observation import Observation
from acetune.core.ranked_groups import Filing
from acetune.core.reason import Reason, Value, Wording
from acetune.core.trial_record import Progress, TrialRecord
from acetune.policies._ranking import file_in, in_worst, last_unless_checked
from acetune.policies.policy import Policy, best_step, settle

_KEPT = Wording(
    "kept_as_learned",
    "rank {rank} of {of} at step {step} among the {stratum}: kept; pairs of trials kept their "
    "order from about here on in {order:.0%} of cases",
)
_WORST = Wording(
    "worst_as_learned",
    "rank {rank} of {of} at step {step} among the {stratum}: in the worst {share:.0%}; pairs of "
    "trials kept their order from about here on in {order:.0%} of cases",
    "among the worst of the {stratum} at its step",
)
_SPARED = Wording(
    "spared_as_learned",
    "rank {rank} of {of} at step {step}: kept, as few checks find valid and a better objective "
    "does not come with smaller violations",
)
_HOPELESS = Wording(
    "hopeless",
    "not valid at its last check; going by the trials so far, less than {below:.3g} % chance to be "
    "valid later, even at step {by}, where it is most likely",
    "no longer likely to be valid",
)
_CANNOT_CATCH_UP = Wording(
    "cannot_beat_the_answer",
    "would have to gain {needed:.3g} after step {step} to come to the best feasible checkpoints; "
    "no finished trial like it gained more than {gained:.3g}",
    "unlikely to beat the best feasible checkpoint",
)
_PLANNED = Wording(
    "checked_where_it_decides",
    "due just before limits are expected to be lost, or once they may hold, as the trials before "
    "it have shown",
    "where it decides",
)
_ROUNDING = 1e-9
_ROOT_2 = math.sqrt(2.0)
_RUNGS = 8  # an octave of steps has so many at which trials are stopped by their rank

# First set by eye on public and own tables. Then 12 variants of one constant each were compared,
# task by task, and none was clearly better (docs/results/population.md).
_BEST = 2.0  # trials this many standard deviations ahead in the end
_SAFETY = 1.2815515655446008  # are kept at each octave with a probability of 0.9: its quantile
_EXPECTED, _WEIGHT = 0.7, 4.0  # order kept before anything is known, and how many trials that is
_FEWEST = 4  # reports at a step, from which on the worst are stopped
_MOST = 0.9  # share that is stopped in an octave at most
_TRAINED = 0.25  # share of its steps after which a trial may be said not to catch up
_NEAREST = 0.25  # of those at a step: the share that is neither hopeless nor unable to catch up
_KNOWN = 3  # pairs of checks from which on trends are believed
_LIKELY = 0.5  # a check can wait while the limits will hold with this probability
_AS_GOOD = 0.9  # or until the chance has come to this share of the best one later
_HEAD_START = 0.15  # share of its steps before a trial's first check, half a check's time at most
_SOON = 0.25  # of the cost of a check: training between two checks at least
_CHEAP = 0.5  # checks that cost no more than this many steps need not wait
_AGREES = 0.2  # agreement from which on the objective says who will qualify


@dataclass(frozen=True)
class Adaptive(Policy):
    """Learn from the study's own trials which to stop, and when a check decides something.

    - **Whom to stop.** Reports are ranked with those at the same step whose last check came out the
      same. How many of the worst are stopped follows from how well the order of trials was kept
      from that step on by those that went further: where curves do not cross, most are stopped
      early; where they do, few.
    - **When to check.** How far beyond the limits checkpoints lie is followed along training. Where
      limits are lost, a trial is checked just before; where they are gained, once they may be
      reached; where neither, when it has trained for a while since its last check. Cheap checks do
      not wait.
    - **Trials with hardly a chance** end: not valid at their last check, and not likely
      to be later.
    - **Trials that cannot catch up** end: after a quarter of its steps, a trial that would have to
      gain more than any finished trial like it has gained from there on, to beat the best feasible
      checkpoint.
    - The best quarter at a step is spared by both rules: from them the study learns.
    - **Never checked** trials are not stopped by their rank where few checks find valid and a
      better objective does not come with smaller violations.
    - Of several constraints, those after the first broken one are not measured.

    What cannot be learned yet behaves like a truncation of about half while the number of steps
    doubles, once there are four reports at a step.

    Parameters
    ----------
    invalid_truncation:
        Share of the invalid reports at a step that is stopped, ranked by violation.
    spacing:
        Training between two checks that nothing else asks for, as a multiple of their cost.
    hope:
        A trial that breaks a limit ends when its chance to keep all of them later falls below
        this; 0: never.
    one_by_one:
        Whether a check measures several constraints in turn, the cheapest and likeliest broken
        first, and leaves out the rest once one is broken.

    >>> Adaptive()
    Adaptive(invalid_truncation=0.2, spacing=1.5, hope=0.05, one_by_one=True)
    """

    gate = True
    learns = True

    invalid_truncation: float = 0.2
    spacing: float = 1.5
    hope: float = 0.05
    one_by_one: bool = True

    def __post_init__(self) -> None:
        for name in ("invalid_truncation", "hope"):
            require_share(name, getattr(self, name))
        if not is_number(self.spacing) or self.spacing < 0:
            raise GoalError(f"spacing must be a finite number >= 0, got {self.spacing!r}")
        for name in ("invalid_truncation", "spacing", "hope"):
            settle(self, **{name: float(getattr(self, name))})
        settle(self, one_by_one=bool(self.one_by_one))

    # -- when to check ---------------------------------------------------------------------------

    def first_check(self, total_steps: int | None, costs: Costs) -> int:
        """From the first step on, when it is worth it."""
        return 1

    def due(self, trial: Progress, step: int, loss: float) -> int | None:
        """The last step, and where waiting does not help."""
        trend = trial.trend or Trend()
        if step == trial.total_steps:
            best = best_step(trial, step, loss)
            gained = trial.checks == 0 or trend.slope(step) <= 0
            return best if gained and (best == step or not trial.best_checked) else step
        step_s = trial.primary_s / trial.iterations if trial.iterations else trend.step_s
        trained_s = (step - trial.checked_at) * step_s * (1 + _ROUNDING)
        if trend.pairs < _KNOWN or trial.total_steps is None:
            return step if self._spaced(trial, trend, step, step_s, trained_s) else None

        def chance(at: int) -> float:
            return trend.chance(at, trial.checked_at, trial.excess)

        if trend.slope(step) > 0:
            lost = chance(step + 1) < _LIKELY
            soon = trial.checks > 0 and trained_s < _SOON * trend.check_s
            return step if (lost or trend.check_s <= _CHEAP * step_s) and not soon else None
        if not self._spaced(trial, trend, step, step_s, trained_s):
            return None
        now = chance(step)
        later, _ = trend.best_chance(step, trial.total_steps, trial.checked_at, trial.excess)
        return step if now >= _LIKELY or now >= _AS_GOOD * later else None

    def _spaced(
        self, trial: Progress, trend: Trend, step: int, step_s: float, trained_s: float
    ) -> bool:
        """Whether a trial has trained for long enough since its last check, or its start."""
        if trial.checks:
            return trained_s >= self.spacing * (trial.last_check_s or trend.check_s)
        head_start = math.floor(_HEAD_START * (trial.total_steps or 0) + _ROUNDING)
        half_a_check = trend.check_s / 2 * (1 - _ROUNDING)
        return not step_s or step >= head_start or step * step_s >= half_a_check

    def due_at_end(self, trial: Progress) -> int | None:
        """The best checkpoint, or the last one where that was checked."""
        if not trial.best_checked:
            return trial.best_step or None
        return last_unless_checked(trial)

    # -- which trials to stop ---------------------------------------------------------------------

    def file(self, trial: TrialRecord, report: Observation) -> Filing | None:
        """By step and by what the last check has found."""
        stratum, violation, _ = _known_verdict(trial, report)
        return file_in(stratum, report.step, violation, report.loss)

    def decide(
        self, trial: TrialRecord, report: Observation, filing: Filing | None, history: History
    ) -> Decision:
        """Stop the worst, as far as order is kept, and those without hope."""
        assert filing is not None  # every report is filed
        group, learned = history.group(filing.group), history.learning
        better, n = group.better_than(filing.key), len(group.keys) + 1
        step = report.step
        stratum, _, excess = _known_verdict(trial, report)
        order = learned.order_kept(step, _EXPECTED, _WEIGHT)
        share = self.invalid_truncation if stratum == "invalid" else _share_stopped(step, order)
        numbers: dict[str, Value] = {"share": share, "order": order, "stratum": stratum}
        action, why = Action.CONTINUE, _KEPT
        if n >= _FEWEST and in_worst(share, better, n):
            spared = stratum == "unchecked" and trial.progress.planned
            if spared and _rarely_valid(history.costs) and learned.agreement < _AGREES:
                why = _SPARED
            else:
                action, why = Action.STOP, _WORST
        if action is Action.CONTINUE and better >= _NEAREST * n:
            if excess > 0:
                chance, by = self._chance(trial.progress, report, excess, history)
                if chance < self.hope:
                    action, why = Action.STOP, _HOPELESS
                    numbers = {"chance": chance, "below": 100 * self.hope, "by": by}
            if action is Action.CONTINUE and history.gate < math.inf:
                needed, gained = _to_gain(trial.progress, report, history)
                if gained < needed:
                    action, why = Action.STOP, _CANNOT_CATCH_UP
                    numbers = {"needed": needed, "gained": gained}
        return Decision(action, why, report.stratum, better + 1, n, step, numbers)

    def _chance(
        self, trial: Progress, report: Observation, excess: float, history: History
    ) -> tuple[float, int]:
        """The best chance that the limits hold later, and where that is."""
        trend = history.trend
        if trend.pairs < _KNOWN or trial.total_steps is None:
            return 1.0, report.step
        checked_at = trial.checked_at if report.check is None else report.step
        soonest = min(report.step + 1, trial.total_steps)
        return trend.best_chance(soonest, trial.total_steps, checked_at, excess)

    def schedule(self, trial: TrialRecord) -> Reason:
        """Where it decides."""
        return Reason(_PLANNED)


def _to_gain(trial: Progress, report: Observation, history: History) -> tuple[float, float]:
    """What a trial has yet to gain to beat the answer, and the most that it can be expected to."""
    step, total, answer = report.step, trial.total_steps, history.gate
    if total is None or not _TRAINED * total <= step < total or trial.best_loss < answer:
        return 0.0, math.inf
    return report.loss - answer, history.most_gained(step, total, report.loss)


def _rarely_valid(costs: Costs) -> bool:
    """Whether less than a third of all checks so far found a valid checkpoint."""
    return 2 * costs.valid_n < costs.invalid_n


def _known_verdict(trial: TrialRecord, report: Observation) -> tuple[Stratum, float, float]:
    """What is known of a trial: the stratum it is ranked in, its violation and its excess."""
    if report.check is not None:
        return report.stratum, report.violation, combined(report.check.excess)
    if trial.verdicts:
        _, stratum, violation, *_ = trial.verdicts[-1]
        return stratum, violation, trial.progress.excess
    return "unchecked", 0.0, math.nan


def _share_stopped(step: int, order: float) -> float:
    """Of the reports at a step, so that who will be far ahead is probably kept.

    If losses now and later are normal with a correlation that keeps the order of so many pairs, a
    trial that is far ahead later is in the better part now; an octave's cut is spread over its
    rungs. Between rungs nobody is stopped.
    """
    octave = max(step, 1).bit_length() - 1  # a step 0 of Optuna's counts as the first
    rungs = min(_RUNGS, 1 << octave)
    if octave >= 3 and (step * rungs >> octave) == ((step - 1) * rungs >> octave):
        return 0.0
    kept_order = min(max(order, 0.0), 1.0)
    correlation = math.sin(math.pi * (kept_order - 0.5))
    safe = _BEST * correlation - _SAFETY * math.sqrt(max(0.0, 1 - correlation**2))
    worse = 0.5 * (1.0 + math.erf(safe / _ROOT_2))  # the normal distribution's share below it
    stopped = min(_MOST, worse)
    return float(1 - (1 - stopped) ** (1 / rungs))
