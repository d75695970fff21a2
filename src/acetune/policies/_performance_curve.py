"""Stop by prediction: from where a trial stands to where finished trials ended from there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from acetune.core.decision import Action, Decision
from acetune.core.errors import GoalError
from acetune.core.history import History
from acetune.core.numbers import is_number, require_whole
from acetune.core.observation import Observation
from acetune.core.ranked_groups import Filing, Group
from acetune.core.reason import Value, Wording
from acetune.core.trial_record import TrialRecord
from acetune.policies._ranking import require_factor, rung_passed
from acetune.policies.policy import Policy, When, require_when, settle


def chance_below(points: Sequence[tuple[float, float]], x: float, limit: float) -> float | None:
    """The probability that y at ``x`` is below ``limit``, by the points (x, y) seen before.

    Ordinary least squares; y at a new x then follows Student's distribution with two degrees of
    freedom less than there are points, wider the fewer they are and the farther x lies from them.
    Points that lie on a line exactly give 0 or 1. None where they say nothing: fewer than three,
    or all at one x. All numbers must be finite. The cost is linear in the number of points.

    >>> chance_below([(1, 1), (2, 2), (3, 3)], x=4, limit=4.5)
    1.0
    >>> round(chance_below([(1, 1.1), (2, 1.9), (3, 2.9), (4, 4.1)], x=5, limit=4), 3)
    0.023
    """
    n = len(points)
    if n < 3:
        return None
    # In units of the largest number: squares can neither overflow nor depend on the unit.
    unit = max(abs(x), abs(limit), *(max(abs(a), abs(b)) for a, b in points)) or 1.0
    xs, ys = [a / unit for a, _ in points], [b / unit for _, b in points]
    # fsum: the same points in another order give the same answer
    mean_x, mean_y = math.fsum(xs) / n, math.fsum(ys) / n
    spread = math.fsum((a - mean_x) ** 2 for a in xs)
    if spread == 0 or min(xs) == max(xs):  # a mean of equal numbers may be rounded
        return None
    slope = math.fsum((a - mean_x) * (b - mean_y) for a, b in zip(xs, ys, strict=True)) / spread
    left = math.fsum((b - mean_y - slope * (a - mean_x)) ** 2 for a, b in zip(xs, ys, strict=True))
    away = x / unit - mean_x
    ahead = limit / unit - (mean_y + slope * away)
    error = math.sqrt(left / (n - 2) * (1 + 1 / n + away * away / spread))
    if error == 0:
        return 1.0 if ahead > 0 else 0.0
    return student_cdf(ahead / error, n - 2)


def student_cdf(t: float, df: int) -> float:
    """Student's distribution function for a whole number of degrees of freedom, by its finite sum.

    Abramowitz and Stegun 26.7.3 and 26.7.4.

    >>> round(student_cdf(-2.015, 5), 4)
    0.05
    """
    theta = math.atan(t / math.sqrt(df))
    cos_2 = df / (df + t * t)
    odd = df % 2
    term = math.cos(theta) if odd else 1.0
    total, k = 0.0, 1 + odd
    while k < df and term > 1e-18:
        total += term
        term *= cos_2 * k / (k + 1)
        k += 2
    within = math.sin(theta) * total
    if odd:
        within = 2 / math.pi * (theta + within)
    return min(1.0, max(0.0, 0.5 + within / 2))


_BETWEEN = Wording("not_predicted_here", "nothing is predicted at step {step}")
_LEADS = Wording("leads", "rank {rank} of {of} at step {step}: no trial has been better")
_FEW = Wording(
    "too_few_finished",
    "finished trials that passed step {step}: {finished}, too few to predict from",
)
_ALIKE = Wording(
    "all_alike", "all finished trials were alike at step {step}: nothing to predict from"
)
_NOTHING = Wording("not_finite", "no finite objective by step {step}", "no finite objective")
_KEPT = Wording(
    "likely_enough",
    "ends better than the best of all with probability {chance:.2g}, seen from step {step}",
)
_CUT = Wording(
    "unlikely",
    "ends better than the best of all with probability {chance:.2g} only, seen from step {step}",
    "unlikely to end better than the best of all",
)

_Answer: TypeAlias = tuple[Action, Wording, Mapping[str, Value]]


@dataclass(frozen=True)
class PerformanceCurve(Policy):
    """Stop a trial that is unlikely to end better than the best objective seen so far.

    At steps 1, 2, 4, 8, ... a straight line is fitted through the finished trials: the best
    objective they ended with against their best by that step. Where the line puts the current
    trial, and how far finished trials scatter about it, gives the probability that it ends better
    than the best of all trials. No shape of the curves is assumed. Blind to the constraint.

    Parameters
    ----------
    probability:
        A trial goes on while its chance is at least this, between 0 and 1.
    min_finished:
        So many finished trials must have passed the step, at least 3. Trials that were stopped or
        failed tell nothing about how they would have ended.
    min_steps:
        The first step at which trials are judged.
    spacing:
        Each such step is this factor times the one before.
    constraints:
        ``"callback"``: the best checkpoint of each trial is checked when it ends.
        ``"after"``: checked after the run, from the best objective down.

    A NaN or infinite objective is never a trial's best; finished trials without a finite one by
    that step are left out of the fit, and a running one stops once a fit could be made. Finished
    trials that were all alike at a step predict nothing; ones that lie on a line exactly predict
    with certainty.

    Judging costs time linear in the number of finished trials, at about ``log2(total_steps)`` steps
    of each trial; the other steps cost nothing.

    In the spirit of Domhan, Springenberg, Hutter: Speeding up automatic hyperparameter optimization
    of deep neural networks by extrapolation of learning curves, IJCAI 2015; Swersky, Snoek, Adams:
    Freeze-thaw Bayesian optimization, 2014; and the curve rule of Golovin et al., KDD 2017, with
    regression in place of their models of the curve.

    >>> PerformanceCurve(probability=0.1).options()["probability"]
    0.1
    """

    probability: float = 0.05
    min_finished: int = 5
    min_steps: int = 1
    spacing: float = 2
    constraints: When = "callback"

    def __post_init__(self) -> None:
        if not is_number(self.probability) or not 0 <= self.probability <= 1:
            raise GoalError(f"probability must lie between 0 and 1, got {self.probability!r}")
        require_whole("min_finished", self.min_finished, least=3)
        require_whole("min_steps", self.min_steps, least=1)
        require_factor("spacing", self.spacing)
        require_when(self.constraints)
        settle(self, probability=float(self.probability))

    def file(self, trial: TrialRecord, report: Observation) -> Filing | None:
        """By the geometric step that was passed; the key is the trial's best loss by then."""
        before = trial.progress.last_step
        passed = rung_passed(before, report.step, self.min_steps, self.spacing)
        if passed is None:
            return None
        return Filing(passed, min(trial.progress.best_loss, report.loss))

    def decide(
        self, trial: TrialRecord, report: Observation, filing: Filing | None, history: History
    ) -> Decision:
        """Stop what has hardly a chance left to end better than the best of all."""
        stratum, step = report.stratum, report.step
        if filing is None:
            return Decision(Action.CONTINUE, _BETWEEN, stratum, None, None, step, {})
        group = history.group(filing.group)
        best = min(trial.progress.best_loss, report.loss)
        action, why, numbers = self._judge(best, group, history)
        return Decision(
            action, why, stratum, group.better_than(best) + 1, len(group) + 1, step, numbers
        )

    def _judge(self, best: float, group: Group, history: History) -> _Answer:
        if best <= history.best_loss:
            return Action.CONTINUE, _LEADS, {}
        points = ends_from(group, history)
        if len(points) < self.min_finished:
            return Action.CONTINUE, _FEW, {"finished": len(points)}
        if best == math.inf:
            return Action.STOP, _NOTHING, {}
        chance = chance_below(points, best, history.best_loss)
        if chance is None:
            return Action.CONTINUE, _ALIKE, {}
        if chance < self.probability:
            return Action.STOP, _CUT, {"chance": chance}
        return Action.CONTINUE, _KEPT, {"chance": chance}


def ends_from(group: Group, history: History) -> list[tuple[float, float]]:
    """Of the finished trials filed in the group: their best loss by then, and in the end.

    Few steps of a trial are filed, so that finding one among them is cheap.
    """
    found = []
    for record in history.finished:
        if record.state == "finished":
            for _, filed_in, best in record.filings:
                if filed_in == group.id and isinstance(best, float) and best < math.inf:
                    found.append((best, record.progress.best_loss))
    return found
