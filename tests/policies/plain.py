"""The other policies' rules written a second time, from the list of all reports alone.

Each rule says how it ranks one report; the study around it is that of ``core.reference``.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import NamedTuple

from acetune.policies import (
    ACE2,
    Adaptive,
    ASHALexicographic,
    ASHAStratum,
    Backoff,
    Bandit,
    Hyperband,
    MedianStopping,
    Policy,
    TruncationSelection,
)
from core.reference import INF, Limit, OtherRule, ReferenceStudy, Report, Result, percentile

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


# -- Adaptive ------------------------------------------------------------------------------------

NAN = math.nan
NORMAL = statistics.NormalDist()


class CloseCallError(Exception):
    """Rounding may decide."""


def below(a: float, b: float) -> bool:
    """Whether a < b, where that does not hang on the last digits."""
    if 0 < abs(a - b) < 1e-9:
        raise CloseCallError
    return a < b


def compressed(limits: tuple[Limit, ...], measured: dict[str, Result] | None) -> float:
    """How far beyond its limits a checkpoint lies; NaN if that is not known."""
    beyond = []
    for limit in limits if measured else ():
        assert measured is not None
        tau = limit.upper if limit.lower is None else limit.lower
        scale = limit.scale or abs(tau or 0.0) or 1.0
        beyond.append(limit.beyond(measured[limit.name]) / scale)
    violated = [x for x in beyond if 0 < x < INF]
    failed = [x for x in beyond if x == INF]  # the study has no measurement that large
    if violated:
        return math.asinh(max(violated))
    return NAN if failed or not beyond else math.asinh(max(beyond))


class KnownCheck(NamedTuple):
    """A check that came with a report, and the one before it in its trial, if any."""

    step: int
    loss: float
    excess: float
    before: tuple[int, float] | None


class Lasted(NamedTuple):
    """A trial at a step that is a power of two, and at four times that."""

    step: int
    then: float
    later: float


class PlainTrend(NamedTuple):
    pairs: int
    slopes: list[float]
    spread: float
    start: float
    start_spread: float


def overlap(stretch: int, begin: float, end: float) -> float:
    """How much of a stretch of log steps, a factor of four long, lies between two places."""
    return max(0.0, min(end, (stretch + 1) * log(4)) - max(begin, stretch * log(4)))


def doubted(slope: float, error: float) -> float:
    """A slope, a standard error nearer to 0."""
    if abs(abs(slope) - error) < 1e-9:
        raise CloseCallError
    return 0.0 if abs(slope) < error else slope - math.copysign(error, slope)


def moved(slopes: list[float], step: int) -> float:
    """By how much an excess has changed since step 1; the last slope holds from there on."""
    last = len(slopes) - 1
    return math.fsum(
        slopes[min(stretch, last)] * overlap(stretch, 0.0, log(step))
        for stretch in range(64 if slopes else 0)
    )


@dataclass
class Seen:
    """The plain lists that everything which is learned follows from."""

    checks: list[KnownCheck] = field(default_factory=list)
    lasted: list[Lasted] = field(default_factory=list)
    last: list[tuple[int, float]] = field(default_factory=list)  # check of each trial

    def trend(self) -> PlainTrend:
        """From scratch."""
        moves = []
        for check in self.checks:
            if check.before is not None and max(1, check.step) > max(1, check.before[0]):
                moves.append((check.before[0], check.step, check.excess - check.before[1]))
        slopes, spread = list[float](), 1.0
        if moves:
            passed = [(log(end) - log(begin), change) for begin, end, change in moves]
            squares = math.fsum(u * u for u, _ in passed)
            common = math.fsum(u * change for u, change in passed) / (squares + 0.5)
            left = math.fsum((change - common * u) ** 2 for u, change in passed)
            spread, noise = math.sqrt(left / len(moves)), left / max(1, len(moves) - 1)
            common = doubted(common, math.sqrt(noise / squares))
            for stretch in range(64):
                pull, squares = 0.0, 1.0
                for begin, end, change in moves:
                    part = overlap(stretch, log(begin), log(end))
                    pull += part * (change * part / (log(end) - log(begin)) - common * part)
                    squares += part * part
                slopes.append(common + doubted(pull / squares, math.sqrt(noise / squares)))
                if stretch * log(4) >= log(max(end for _, end, _ in moves)):
                    break
            while not any(overlap(len(slopes) - 1, log(b), log(e)) > 0 for b, e, _ in moves):
                slopes.pop()
        start, start_spread = 0.0, 1.0
        if self.last:
            starts = [excess - moved(slopes, step) for step, excess in self.last]
            start = math.fsum(starts) / len(starts)
            variance = math.fsum((x - start) ** 2 for x in starts) / len(starts)
            start_spread = math.sqrt(variance + 1 / (len(starts) + 1))
        return PlainTrend(len(moves), slopes, spread, start, start_spread)

    def agreement(self) -> float:
        """Of objective and violation, at the first checks of trials."""
        firsts = [(check.loss, check.excess) for check in self.checks if check.before is None]
        same, pairs = concordant(firsts)
        return (2 * same / pairs - 1) * len(firsts) / (len(firsts) + 3) if pairs else 0.0

    def order_kept(self, step: int) -> float:
        """Share of pairs in the same order two octaves later; 0.7 counts for four trials."""
        octave = next((at for at in lengths() if at <= step < 2 * at), 0)
        lasted = [(trial.then, trial.later) for trial in self.lasted if trial.step == octave]
        same, pairs = concordant(lasted)
        return (same / pairs * len(lasted) + 0.7 * 4) / (len(lasted) + 4) if pairs else 0.7


def lengths() -> list[int]:
    """The powers of two."""
    return [2**octave for octave in range(64)]


def log(step: int) -> float:
    return math.log(step) if step else 0.0


def concordant(points: list[tuple[float, float]]) -> tuple[int, int]:
    """Of each and the 48 before it: pairs that both numbers order alike, and that both order."""
    same = pairs = 0
    for index, (a, b) in enumerate(points):
        for c, d in points[max(0, index - 48) : index]:
            if a != c and b != d:
                pairs += 1
                same += (a < c and b < d) or (a > c and b > d)
    return same, pairs


class Known(NamedTuple):
    """What a trial knows of its study: the trend, and what a check and a step have cost."""

    trend: PlainTrend
    check_s: Fraction
    step_s: Fraction

    def chance(self, at: int, checked_at: int, excess: float) -> float:
        """To hold the limits at a step."""
        _, slopes, spread, start, start_spread = self.trend
        if math.isnan(excess):
            mean, deviation = start + moved(slopes, at), start_spread
        else:
            passed = max(0.0, log(at) - log(checked_at))
            change = moved(slopes, max(at, checked_at)) - moved(slopes, checked_at)
            mean, deviation = excess + change, spread * math.sqrt(passed + 0.05)
        # not NormalDist.cdf, which rounds hardly any chance to none: two of them would be a tie
        return math.erfc(mean / max(deviation, 1e-9) / math.sqrt(2)) / 2

    def slope(self, step: int) -> float:
        """At a step."""
        slopes = self.trend.slopes
        stretch = sum(4**i <= step for i in range(1, 40))
        return slopes[min(stretch, len(slopes) - 1)] if slopes else 0.0

    def best_chance(self, first: int, last: int, checked_at: int, excess: float) -> float:
        """To hold the limits at the first step, the last, or where a slope changes between."""
        turns = [4**i for i in range(1, len(self.trend.slopes)) if first < 4**i < last]
        return max(self.chance(at, checked_at, excess) for at in (first, *turns, last))


@dataclass
class Past:
    """What was reported to a study, whatever has replaced it, and what each trial was told when."""

    checks: list[KnownCheck] = field(default_factory=list)
    lasted: list[Lasted] = field(default_factory=list)
    told: dict[str, tuple[int, Known]] = field(default_factory=dict)


def past_of(study: ReferenceStudy) -> Past:
    if study.memory is None:
        study.memory = Past()
    assert isinstance(study.memory, Past)
    return study.memory


@dataclass(frozen=True)
class AdaptiveRule(OtherRule):
    invalid_truncation: float = 0.2
    spacing: float = 1.5
    hope: float = 0.05
    one_by_one: bool = True
    interval = 1
    gate = True
    plans = True

    def policy(self) -> Policy:
        return Adaptive(**asdict(self))

    # -- what is learned -------------------------------------------------------------------------

    def excess(self, study: ReferenceStudy, report: Report) -> float:
        return compressed(study.limits, dict(report.measured) if report.measured else None)

    def seen(self, study: ReferenceStudy) -> Seen:
        """All reports and checks ever made, whatever has replaced them."""
        seen = Seen(past_of(study).checks, past_of(study).lasted)
        for trial in study.attempts:
            known = self.known_checks(study, trial)
            seen.last += known[-1:]
        return seen

    def known_checks(self, study: ReferenceStudy, trial: str) -> list[tuple[int, float]]:
        """Those of a trial that did not fail."""
        checked = [r for r in study.own(trial) if r.stratum != "unchecked"]
        found = [(r.checked_step or 0, self.excess(study, r)) for r in checked]
        return [(step, excess) for step, excess in found if not math.isnan(excess)]

    def remember(self, study: ReferenceStudy, report: Report) -> None:
        """A report, as it is made: what its trial had reported before may be replaced later."""
        past, own = past_of(study), study.own(report.trial)
        excess = self.excess(study, report)
        if not math.isnan(excess):
            assert report.checked_step is not None
            losses = {r.step: r.loss for r in [*own, report]}
            before = self.known_checks(study, report.trial)
            past.checks.append(
                KnownCheck(
                    report.checked_step,
                    losses[report.checked_step],
                    excess,
                    before[-1] if before else None,
                )
            )
        if report.step in lengths():
            earlier = [r.loss for r in own if r.step * 4 == report.step]
            past.lasted += [Lasted(report.step // 4, loss, report.loss) for loss in earlier]

    def known(self, study: ReferenceStudy) -> Known:
        seconds = study.seconds
        check_s = sum((mean(each) for each in seconds.check.values()), Fraction(0))
        if seconds.check and seconds.snapshot:
            check_s += mean(seconds.snapshot)
        step_s = Fraction(0)
        if seconds.iterations:
            step_s = Fraction(math.fsum(seconds.primary)) / seconds.iterations
        return Known(self.seen(study).trend(), check_s, step_s)

    def note(self, study: ReferenceStudy, trial: str) -> None:
        past, own = past_of(study), study.own(trial)
        at = own[-1].step if own else 0
        if at == 0 or past.told.get(trial, (0,))[0] != at:
            past.told[trial] = (at, self.known(study))

    # -- when to check ---------------------------------------------------------------------------

    def due(self, study: ReferenceStudy, trial: str, step: int, loss: float) -> int | None:
        own, total = study.own(trial), study.attempts[trial].total
        checked = [r for r in own if r.stratum != "unchecked"]
        known = past_of(study).told[trial][1]
        pairs, slope = known.trend.pairs, known.slope(step)
        decides = bool(checked) if step == total else pairs >= 3 and total is not None
        if decides and 0 < abs(slope) < 1e-9:  # which side of 0 it lies on may be rounding
            raise CloseCallError
        if step == total:
            best = min([(r.loss, r.step) for r in own] + [(loss, step)])[1]
            anew = all(r.checked_step != best for r in own)
            return best if anew and (not checked or slope <= 0) else step
        own_step_s, own_check_s = study.own_costs(trial)
        step_s = known.step_s if own_step_s is None else own_step_s
        checked_at = checked[-1].step if checked else 0
        trained_s = (step - checked_at) * step_s * (1 + TINY)
        if checked:
            spaced = trained_s >= Fraction(self.spacing) * (own_check_s or known.check_s)
        else:
            head_start = math.floor(Fraction(0.15) * (total or 0) + TINY)
            half = known.check_s / 2 * (1 - TINY)
            spaced = step_s == 0 or step >= head_start or step * step_s >= half
        if pairs < 3 or total is None:
            return step if spaced else None
        excess = self.excess(study, checked[-1]) if checked else NAN

        def chance(at: int) -> float:
            return known.chance(at, checked_at, excess)

        if slope > 0:
            soon = bool(checked) and trained_s < known.check_s / 4
            cheap = known.check_s <= step_s / 2
            return step if not soon and (below(chance(step + 1), 0.5) or cheap) else None
        if not spaced:
            return None
        later = known.best_chance(step, total, checked_at, excess)
        waits = below(chance(step), 0.5) and below(chance(step), 0.9 * later)
        return None if waits else step

    def due_at_end(self, study: ReferenceStudy, trial: str) -> int | None:
        own = study.own(trial)
        best = min((r.loss, r.step) for r in own)[1]
        checked = [r.checked_step for r in own]
        if best not in checked:
            return best
        return None if own[-1].step == own[-1].checked_step else own[-1].step

    # -- whom to stop ----------------------------------------------------------------------------

    def standing(self, study: ReferenceStudy, report: Report) -> Report:
        """The report whose check says what a trial is: its own, or the last before it."""
        earlier = [r for r in study.own(report.trial) if r.step < report.step]
        checked = [r for r in [*earlier, report] if r.stratum != "unchecked"]
        return checked[-1] if checked else report

    def share(self, study: ReferenceStudy, step: int) -> float:
        octave = max(length for length in lengths() if length <= max(step, 1))
        if octave >= 8 and step % (octave // 8):
            return 0.0
        correlation = math.sin(math.pi * (self.seen(study).order_kept(step) - 0.5))
        lost = NORMAL.inv_cdf(0.9) * math.sqrt(max(0.0, 1 - correlation**2))
        stopped = min(0.9, NORMAL.cdf(2 * correlation - lost))
        return 1.0 - float((1 - stopped) ** (1 / min(8, octave)))

    def answer_before(self, study: ReferenceStudy, report: Report) -> float:
        """What there is to beat: without what this report's own check has found."""
        checks = study.checks
        try:
            study.checks = checks[:-1] if report.measured is not None else checks
            return study.f_star()
        finally:
            study.checks = checks

    def rank(self, study: ReferenceStudy, report: Report) -> None:
        last = self.standing(study, report)

        def key(r: Report) -> tuple[float, ...]:
            of = self.standing(study, r)
            return (of.violation, r.loss) if last.stratum == "invalid" else (r.loss,)

        rivals = [
            r
            for r in standing(study)
            if r.step == report.step and self.standing(study, r).stratum == last.stratum
        ]
        better, n = among(report, rivals, key)
        report.rank, report.of = better + 1, n
        invalid = last.stratum == "invalid"
        share = self.invalid_truncation if invalid else self.share(study, report.step)
        report.stop = n >= 4 and better >= n - cut_of(share, n)
        if last.stratum == "unchecked":
            valid = sum(check.valid for check in study.checks)
            if 2 * valid < len(study.checks) - valid and self.seen(study).agreement() < 0.2:
                report.stop = False
        excess, total = self.excess(study, last), study.attempts[report.trial].total
        known = self.known(study)
        if excess > 0 and total is not None and known.trend.pairs >= 3 and better >= n / 4:
            soonest = min(total, report.step + 1)
            if below(known.best_chance(soonest, total, last.step, excess), self.hope):
                report.stop = True
        if total is not None and total <= 4 * report.step < 4 * total:
            answer = self.answer_before(study, report)
            best = min((r.loss for r in study.own(report.trial)), default=INF)
            if answer < INF and best >= answer and report.loss < INF and better >= n / 4:
                gained = most_gained(study, report.step, total, report.loss)
                if below(gained, report.loss - answer):
                    report.stop = True
        self.remember(study, report)


def most_gained(study: ReferenceStudy, step: int, total: int, loss: float) -> float:
    """The most that one of the 24 finished trials like this one gained from about a step on."""
    rungs = [r for r in range(1, max(step, 1) + 1) if r < 16 or r % 2 ** (r.bit_length() - 4) == 0]
    began, found = rungs[-1], []
    for trial, attempt in study.attempts.items():
        later = [r for r in study.own(trial) if r.step >= began]
        if attempt.state == "finished" and len(later) > 1:
            gain = later[0].loss - min(r.loss for r in later[1:])
            if math.isfinite(gain):
                found.append((later[0].loss, gain, log(later[-1].step) - log(later[0].step)))
    found.sort()
    worse = sum(then < loss for then, _, _ in found)
    while len(found) > 24:
        # from the end that is farther away
        del found[0 if worse > 12 else -1]
        worse -= worse > 12
    if len(found) < 6:
        return INF
    return max(gain * max(1.0, (log(total) - log(began)) / took) for _, gain, took in found)


def mean(numbers: list[float]) -> Fraction:
    return Fraction(math.fsum(numbers)) / len(numbers)
