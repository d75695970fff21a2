"""The other policies' rules written a second time, from the list of all reports alone.

Each rule says how it ranks one report; the study around it is that of ``core.reference``.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction

from acetune.policies import (
    ACE2,
    ASHALexicographic,
    ASHAStratum,
    Backoff,
    Bandit,
    Hyperband,
    MedianStopping,
    Policy,
    TruncationSelection,
)
from core.reference import INF, OtherRule, ReferenceStudy, Report, percentile

TINY = Fraction(1, 10**9)
THIRD = Fraction(1, 3)


def standing(study: ReferenceStudy) -> list[Report]:
    """The reports that no later attempt has replaced."""
    return [r for r in study.reports if not r.replaced]


def up_to(study: ReferenceStudy, trial: str, step: int) -> list[float]:
    """The losses of a trial up to a step."""
    return [r.loss for r in study.own(trial) if r.step <= step]


def among(
    report: Report, rivals: list[Report], key: Callable[[Report], tuple[float, ...]]
) -> tuple[int, int]:
    """How many of the rivals are better, and how many there are with the report itself."""
    return sum(key(other) < key(report) for other in rivals), len(rivals) + 1


def cut_of(share: float, n: int) -> int:
    """How many of n are the worst share, rounded down."""
    return math.floor(Fraction(share) * n + TINY)


def one_in(reduction_factor: float, n: int) -> int:
    """How many of n go on."""
    return max(1, math.ceil(n / Fraction(reduction_factor)))


@dataclass(frozen=True)
class HyperbandRule(OtherRule):
    reduction_factor: float = 4
    brackets: int = 3
    min_steps: int = 1
    constraints: str = "callback"

    def policy(self) -> Policy:
        return Hyperband(**asdict(self))

    def rank(self, study: ReferenceStudy, report: Report) -> None:
        bracket = list(study.attempts).index(report.trial) % self.brackets
        rungs, rung = [], self.min_steps * self.reduction_factor**bracket
        while rung <= report.step:
            rungs.append((bracket, rung))
            rung *= self.reduction_factor
        taken = [r.rung for r in study.own(report.trial)]
        free = [rung for rung in rungs if rung not in taken]
        if not free:
            return
        report.rung = max(free)
        losses = [r.loss for r in standing(study) if r.rung == report.rung]
        report.rank, report.of = sum(x < report.loss for x in losses) + 1, len(losses) + 1
        if losses:
            cutoff = percentile([-loss for loss in losses], self.reduction_factor)
            report.stop = -report.loss < cutoff


@dataclass(frozen=True)
class MedianRule(OtherRule):
    min_trials: int = 3
    min_steps: int = 1
    constraints: str = "callback"

    def policy(self) -> Policy:
        return MedianStopping(**asdict(self))

    def rank(self, study: ReferenceStudy, report: Report) -> None:
        averages = []
        for trial in study.attempts:
            steps = [r.step for r in study.own(trial)]
            if trial != report.trial and report.step in steps:
                losses = up_to(study, trial, report.step)
                total = 0.0
                for loss in losses:  # in the order of steps: the same rounding
                    total += loss
                averages.append(total / len(losses))
        best = min([*up_to(study, report.trial, report.step), report.loss])
        report.rank, report.of = sum(a < best for a in averages) + 1, len(averages) + 1
        if len(averages) >= self.min_trials and report.step >= self.min_steps:
            report.stop = best > statistics.median(averages)


@dataclass(frozen=True)
class BanditRule(OtherRule):
    slack_ratio: float | None = 0.1
    slack_amount: float | None = None
    min_steps: int = 1
    constraints: str = "callback"

    def policy(self) -> Policy:
        return Bandit(**asdict(self))

    def rank(self, study: ReferenceStudy, report: Report) -> None:
        """In values, as Azure ML's manual says it, not in losses."""
        sign = -1 if study.mode == "max" else 1
        everything = [sign * r.loss for r in study.reports if r.loss < INF]
        own = [sign * loss for loss in up_to(study, report.trial, report.step) if loss < INF]
        if report.loss < INF:
            own.append(sign * report.loss)
        if not everything or report.step < self.min_steps:
            return
        if not own:
            report.stop = True
            return
        if self.slack_amount is not None:
            amount = self.slack_amount
            if study.mode == "max":
                report.stop = max(own) < max(everything) - amount
            else:
                report.stop = min(own) > min(everything) + amount
            return
        assert self.slack_ratio is not None
        if study.mode == "max":
            best, slack = max(everything), 1 + self.slack_ratio
            report.stop = max(own) < (best / slack if best > 0 else best * slack)
        else:
            best, slack = min(everything), 1 + self.slack_ratio
            report.stop = min(own) > (best * slack if best > 0 else best / slack)


@dataclass(frozen=True)
class TruncationRule(OtherRule):
    truncation: float = 0.25
    every: int = 1
    min_steps: int = 1
    constraints: str = "callback"

    def policy(self) -> Policy:
        return TruncationSelection(**asdict(self))

    def rank(self, study: ReferenceStudy, report: Report) -> None:
        if report.step % self.every:
            return
        rivals = [r for r in standing(study) if r.step == report.step]
        better, n = among(report, rivals, lambda r: (r.loss,))
        report.rank, report.of = better + 1, n
        cut = cut_of(self.truncation, n)
        report.stop = better >= n - cut and report.step >= self.min_steps


@dataclass(frozen=True)
class AshaStratumRule(OtherRule):
    reduction_factor: float = 4
    min_steps: int = 1
    interval: str | int = 1
    truncation: float = 0.25
    at_rungs = True

    def policy(self) -> Policy:
        return ASHAStratum(**asdict(self))

    def rank(self, study: ReferenceStudy, report: Report) -> None:
        report.rung = study.rung_passed(report.trial, report.step)
        if report.rung is None:
            return
        rivals = [
            r for r in standing(study) if (r.rung, r.stratum) == (report.rung, report.stratum)
        ]
        better, n = among(report, rivals, Report.key)
        report.rank, report.of = better + 1, n
        report.stop = better >= one_in(self.reduction_factor, n)


@dataclass(frozen=True)
class AshaLexRule(OtherRule):
    reduction_factor: float = 4
    min_steps: int = 1
    gate: bool = True
    interval = 1
    at_rungs = True

    def policy(self) -> Policy:
        return ASHALexicographic(**asdict(self))

    def rank(self, study: ReferenceStudy, report: Report) -> None:
        report.rung = study.rung_passed(report.trial, report.step)
        if report.rung is None:
            return
        rivals = [r for r in standing(study) if r.rung == report.rung]
        better, n = among(
            report, rivals, lambda r: (INF, INF) if r.loss == INF else (r.violation, r.loss)
        )
        report.rank, report.of = better + 1, n
        report.stop = better >= one_in(self.reduction_factor, n)


@dataclass(frozen=True)
class BackoffRule(OtherRule):
    truncation: float = 0.35
    growth: float = 1.2
    interval = 1
    gate = True
    spaced = True

    def policy(self) -> Policy:
        return Backoff(**asdict(self))

    def due_again(self, study: ReferenceStudy, trial: str, step: int) -> bool:
        checked = [r for r in study.own(trial) if r.stratum != "unchecked"]
        gap = Fraction(1)
        for report in checked:
            gap = Fraction(1) if report.stratum == "valid" else gap * Fraction(self.growth)
        return step >= checked[-1].step + min(math.floor(gap), 10**9)

    def rank(self, study: ReferenceStudy, report: Report) -> None:
        place = (report.step, report.stratum)
        rivals = [r for r in standing(study) if (r.step, r.stratum) == place]
        better, n = among(report, rivals, Report.key)
        report.rank, report.of = better + 1, n
        report.stop = better >= n - cut_of(self.truncation, n)


@dataclass(frozen=True)
class Ace2Rule(OtherRule):
    truncation: float = 0.25
    invalid_truncation: float = 0.4
    head_start: float = 0.15
    spacing: float = 1.5
    patience: float = 0.75
    remember: bool = True
    spare: bool = True
    defer: bool = True
    one_by_one: bool = True
    interval = 1
    gate = True
    spaced = True

    def policy(self) -> Policy:
        return ACE2(**asdict(self))

    def put_off(self, study: ReferenceStudy, total: int | None) -> bool:
        """Where many checks find valid; the last step must be known."""
        share = self.valid_share(study)
        return self.defer and total not in (None, 1) and share is not None and share >= THIRD

    def valid_share(self, study: ReferenceStudy) -> Fraction | None:
        """Of the checks that found what is valid; None if there were none."""
        if not study.limits or not study.checks:
            return None
        return Fraction(sum(check.valid for check in study.checks), len(study.checks))

    def first(self, study: ReferenceStudy, total: int | None) -> int:
        """After half the time of a check, or before a share of the steps is over."""
        if total is None:
            return 1
        half_a_check = math.ceil((study.cost_ratio() or 0) / 2 * (1 - TINY))
        return max(1, min(half_a_check, math.floor(Fraction(self.head_start) * total + TINY)))

    def due_again(self, study: ReferenceStudy, trial: str, step: int) -> bool:
        """When training since the last check, at the mean cost, has cost as much as that did."""
        last = max(r.step for r in study.own(trial) if r.stratum != "unchecked")
        step_s, check_s = study.own_costs(trial)
        if step_s is None or check_s is None:
            return True
        return (step - last) * step_s * (1 + TINY) >= Fraction(self.spacing) * check_s

    def verdict(self, study: ReferenceStudy, report: Report) -> tuple[str, float]:
        """What a report counts as, and its violation: those of the trial's last check."""
        if report.stratum == "unchecked" and self.remember:
            for other in reversed(study.own(report.trial)):
                if other.step < report.step and other.stratum != "unchecked":
                    return other.stratum, other.violation
        return report.stratum, report.violation

    def rank(self, study: ReferenceStudy, report: Report) -> None:
        stratum, _ = self.verdict(study, report)

        def key(r: Report) -> tuple[float, ...]:
            return (self.verdict(study, r)[1], r.loss) if stratum == "invalid" else (r.loss,)

        rivals = [
            r
            for r in standing(study)
            if r.step == report.step and self.verdict(study, r)[0] == stratum
        ]
        better, n = among(report, rivals, key)
        report.rank, report.of = better + 1, n
        share = self.invalid_truncation if stratum == "invalid" else self.truncation
        valid = self.valid_share(study)
        ranked = stratum != "unchecked" or not self.spare or valid is None or valid >= THIRD
        report.stop = ranked and better >= n - cut_of(share, n)
        own = [*study.own(report.trial), report]
        if all(r.stratum == "unchecked" for r in own) and report.loss > study.f_star():
            _, best = min((r.loss, r.step) for r in own)
            if best <= (1 - Fraction(self.patience)) * report.step + TINY:
                report.stop = True
