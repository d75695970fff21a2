"""The stopping rules written a second time: slow, plain, and apart from the package.

Everything is kept in two flat lists, one of all reports and one of all checks. Every answer is
worked out from them anew: groups are filtered and sorted at each report, costs are exact
fractions, the best checkpoint is a ``min`` over all checks ever made. Nothing here is fast, and
nothing here is shared with what it is compared to.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

INF = math.inf

#: a number, a number with its standard error, or None for a check that gave no number
Result = float | tuple[float, float] | None


class RefusedError(Exception):
    """A report or a start that the rules do not allow."""


# -- what is wanted ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Limit:
    """A constraint: ``g <= upper`` or ``g >= lower``."""

    name: str
    upper: float | None = None
    lower: float | None = None
    margin_se: float = 0.0
    scale: float | None = None

    def beyond(self, result: Result) -> float:
        """How far beyond the limit, margin included (<= 0: it holds); infinite if it failed."""
        number = _number(result)
        if number is None:
            return INF
        g, stderr = number
        if self.lower is None:
            assert self.upper is not None
            tau = self.upper
        else:
            g, tau = -g, -self.lower
        return g + self.margin_se * stderr - tau

    def violation(self, result: Result) -> float:
        """The same, scaled, and 0 where it holds."""
        limit = self.upper if self.lower is None else self.lower
        assert limit is not None
        scale = self.scale
        if scale is None:
            scale = 1.0 if limit == 0 else abs(limit)
        return max(0.0, self.beyond(result)) / scale


# -- the policies --------------------------------------------------------------------------------


@dataclass(frozen=True)
class AceRule:
    """ACE with the variants its paper measures."""

    truncation: float = 0.25
    interval: str | int = "adaptive"
    gate: bool = True
    stopping: str = "stratum"
    min_steps: int = 0


@dataclass(frozen=True)
class AshaRule:
    """ASHA as in Ray, blind to the constraint."""

    reduction_factor: int = 4
    min_steps: int = 1
    constraints: str = "callback"


@dataclass(frozen=True)
class NoRule:
    """Nothing is stopped."""

    constraints: str = "callback"


class OtherRule:
    """A rule that is written down elsewhere; without more, checked once, at the end."""

    interval: str | int = "end"
    truncation: float = 0.25
    gate: bool = False
    at_rungs: bool = False  # with interval 1: checked at rungs and at the last step
    spaced: bool = False  # with interval 1: checked when due_again says so and at the last step
    plans: bool = False  # due and due_at_end say what is checked
    min_steps: int = 1
    reduction_factor: float = 4

    def due(self, study: ReferenceStudy, trial: str, step: int, loss: float) -> int | None:
        """The step whose checkpoint is checked at a report, gate aside."""
        raise NotImplementedError

    def due_at_end(self, study: ReferenceStudy, trial: str) -> int | None:
        """The step that is checked where a trial ends by itself, gate aside."""
        raise NotImplementedError

    def note(self, study: ReferenceStudy, trial: str) -> None:
        """A trial has begun, or its report was taken: what it is told of the study then."""

    def put_off(self, study: ReferenceStudy, total: int | None) -> bool:
        """Whether a trial that starts now is checked once, at its end, whatever the interval."""
        return False

    def first(self, study: ReferenceStudy, total: int | None) -> int:
        """From which step on a trial is checked that starts now, and is not put off."""
        return 1

    def due_again(self, study: ReferenceStudy, trial: str, step: int) -> bool:
        """Whether a step lies far enough behind what was checked before."""
        raise NotImplementedError

    def rank(self, study: ReferenceStudy, report: Report) -> None:
        """Compare a report with those before it, and fill in rank, of and stop."""
        raise NotImplementedError

    def policy(self) -> Any:
        """The policy that is to do the same."""
        raise NotImplementedError


Rule = AceRule | AshaRule | NoRule | OtherRule


# -- what was reported ---------------------------------------------------------------------------


@dataclass
class Report:
    """One report, with the answer it got."""

    trial: str
    attempt: int
    step: int
    loss: float
    measured: Mapping[str, Result] | None
    checked_step: int | None
    stratum: str
    violation: float
    gated: bool
    iterations: int = 1  # since the report before
    trained_s: Fraction | None = None  # what they cost; None: nobody knows
    check_s: Fraction | None = None
    rung: object = None  # where it is ranked, if that is not the step
    stop: bool = False
    rank: int | None = None
    of: int | None = None
    replaced: bool = False  # by a later attempt of its trial

    def key(self) -> tuple[float, ...]:
        """What reports of a stratum are ordered by."""
        return (self.violation, self.loss) if self.stratum == "invalid" else (self.loss,)


class Check(NamedTuple):
    """One evaluation of all constraints, at the checkpoint it was made of."""

    trial: str
    attempt: int
    step: int
    loss: float
    valid: bool
    violation: float


@dataclass
class Attempt:
    """One try at a trial."""

    trial: str
    number: int
    total: int | None
    beta: int | None
    along: bool  # checked from step beta on; otherwise beta = T, once at the end
    ratio: Fraction | None
    state: str = "running"
    gated_at_end: bool = False

    @property
    def every(self) -> bool:
        """Checked along the way, and not only at the last step."""
        return self.along and (self.total in (None, 1) or (self.beta or 1) < (self.total or 0))


class Answer(NamedTuple):
    """The decision on a report; ``differs`` when a step is reported again with other values."""

    stop: bool
    stratum: str
    rank: int | None
    of: int | None
    differs: bool = False


class Told(NamedTuple):
    """What the searcher hears of a trial."""

    loss: float | None
    violation: float
    failed: bool


@dataclass
class Seconds:
    """All costs that were reported."""

    primary: list[float] = field(default_factory=list)
    check: dict[str, list[float]] = field(default_factory=dict)
    snapshot: list[float] = field(default_factory=list)
    iterations: int = 0


class ReferenceStudy:
    """A study by the rules."""

    def __init__(
        self, mode: str, limits: tuple[Limit, ...], rule: Rule, confirm_top: int = 1
    ) -> None:
        self.mode = mode
        self.limits = limits
        self.rule = rule
        self.confirm_top = confirm_top
        self.reports: list[Report] = []
        self.checks: list[Check] = []
        self.seconds = Seconds()
        self.attempts: dict[str, Attempt] = {}  # the latest of each trial
        self.memory: object = None  # of a rule that keeps lists of its own

    # -- what stands so far ----------------------------------------------------------------------

    def loss(self, value: float) -> float:
        """Smaller is better; a value that is not finite is last."""
        if not math.isfinite(value):
            return INF
        return -value if self.mode == "max" else value

    def own(self, trial: str) -> list[Report]:
        """The reports of the latest attempt, by step."""
        mine = [r for r in self.reports if r.trial == trial and not r.replaced]
        return sorted(mine, key=lambda r: r.step)

    def valid_checks(self) -> list[Check]:
        """Those that may be an answer: valid, with a finite objective."""
        return [c for c in self.checks if c.valid and c.loss < INF]

    def best(self) -> Check | None:
        """The best feasible checkpoint; the first found on ties."""
        return min(self.valid_checks(), key=lambda c: c.loss, default=None)

    def nearest(self) -> Check | None:
        """The nearest miss."""
        misses = [c for c in self.checks if not c.valid]
        return min(misses, key=lambda c: (c.violation, c.loss), default=None)

    def f_star(self) -> float:
        """The confirm_top-th best among the trials' best valid losses."""
        found = self.valid_checks()
        trials = {c.trial for c in found}
        bests = sorted(min(c.loss for c in found if c.trial == trial) for trial in trials)
        return bests[self.confirm_top - 1] if len(bests) >= self.confirm_top else INF

    def cost_ratio(self) -> Fraction | None:
        """Mean cost of one check over the mean primary cost of one iteration."""
        if not self.seconds.check or not self.seconds.primary:
            return None
        primary = Fraction(math.fsum(self.seconds.primary)) / self.seconds.iterations
        if primary == 0:
            return None
        check = sum(_mean(seconds) for seconds in self.seconds.check.values())
        snapshot = _mean(self.seconds.snapshot) if self.seconds.snapshot else 0
        return (check + snapshot) / primary

    # -- starting --------------------------------------------------------------------------------

    def start(self, trial: str, total: int | None, resumed_from: int = 0) -> Attempt:
        """A trial, or a new attempt of one."""
        old = self.attempts.get(trial)
        if old is not None and old.state in ("finished", "stopped"):
            raise RefusedError(f"{trial} has {old.state}")
        number = 1 if old is None else old.number + 1
        every, ratio = self._every(total), self.cost_ratio()
        beta = 1 if every else total
        if every and isinstance(self.rule, OtherRule):
            beta = self.rule.first(self, total)
        self._level_costs(trial)
        for report in self.own(trial):
            if report.step > resumed_from:
                report.replaced = True
            else:
                report.attempt = number
        self.attempts[trial] = Attempt(trial, number, total, beta, every, ratio)
        if isinstance(self.rule, OtherRule):
            self.rule.note(self, trial)
        return self.attempts[trial]

    def own_costs(self, trial: str) -> tuple[Fraction | None, Fraction | None]:
        """What iterations of a trial cost on average, and its last check; None: nothing timed."""
        own = self.own(trial)
        timed = [r for r in own if r.trained_s is not None]
        iterations = sum(r.iterations for r in timed)
        step_s = sum(r.trained_s or Fraction(0) for r in timed) / iterations if timed else None
        checks = [r.check_s for r in own if r.check_s is not None]
        return step_s, checks[-1] if checks else None

    def _level_costs(self, trial: str) -> None:
        """To the next attempt each step has cost what a step did on average, a check the last."""
        step_s, check_s = self.own_costs(trial)
        for report in self.own(trial):
            if step_s is not None:
                report.trained_s = step_s * report.iterations
            report.check_s = None if report.stratum == "unchecked" else check_s

    def close_call(self, total: int | None) -> bool:
        """Whether the cost ratio is so near its threshold that rounding may decide."""
        ratio = self.cost_ratio()
        if not isinstance(self.rule, (AceRule, OtherRule)) or total in (None, 1) or not ratio:
            return False
        if self.rule.interval != "adaptive":
            return False
        if not 0 < self.rule.truncation < 1:
            return False
        threshold = self._threshold(total)
        return abs(ratio - threshold) <= threshold / 10**12

    def _threshold(self, total: int) -> Fraction:
        assert isinstance(self.rule, (AceRule, OtherRule))
        p = Fraction(self.rule.truncation)
        q_to_the_T = (1 - p) ** total
        return (p * total + q_to_the_T - 1) / (1 - p - q_to_the_T)

    def _every(self, total: int | None) -> bool:
        """Whether beta is 1."""
        if isinstance(self.rule, AshaRule):
            return True
        if isinstance(self.rule, NoRule):
            return False
        if isinstance(self.rule, OtherRule) and self.rule.put_off(self, total):
            return False
        if self.rule.interval != "adaptive":
            return self.rule.interval == 1
        if total is None or total == 1:
            return True
        ratio = self.cost_ratio()
        if ratio is None or self.rule.truncation == 0:
            return False
        if self.rule.truncation == 1:
            return True
        return ratio < self._threshold(total)

    def declare(self, trial: str, total: int) -> None:
        """The last step becomes known; beta stays."""
        attempt = self.attempts[trial]
        if attempt.total is not None and attempt.total != total:
            raise RefusedError(f"{trial} has another last step")
        attempt.total = total

    # -- asking ----------------------------------------------------------------------------------

    def check_due(self, trial: str, step: int, value: float, snapshot: bool = True) -> int | None:
        """The step whose checkpoint is to be checked now."""
        if any(r.step == step for r in self.own(trial)):
            return None
        due = self._due(trial, step, self.loss(value), snapshot)
        return due[0] if due is not None and self._passes(due[1]) else None

    def finish_due(self, trial: str, snapshot: bool = True) -> int | None:
        """The step to check when a trial ends by itself."""
        due = self._due_at_end(trial, snapshot)
        return due[0] if due is not None and self._passes(due[1]) else None

    def _passes(self, loss: float) -> bool:
        if not isinstance(self.rule, (AceRule, OtherRule)) or not self.rule.gate:
            return True
        return loss < INF and loss <= self.f_star()

    def _checks_during_run(self) -> bool:
        return bool(self.limits) and getattr(self.rule, "constraints", "") != "after"

    def _due(self, trial: str, step: int, loss: float, snapshot: bool) -> tuple[int, float] | None:
        """Step and loss of the checkpoint that is due at a report, gate aside."""
        if not self._checks_during_run():
            return None
        attempt = self.attempts[trial]
        before = self.own(trial)
        last = step == attempt.total
        if isinstance(self.rule, OtherRule) and self.rule.plans:
            due = self.rule.due(self, trial, step, loss)
            if due is not None and (due == step or not snapshot):
                return step, loss
            return next(((r.step, r.loss) for r in before if r.step == due), None)
        if self._at_rungs(attempt):
            at_rung = self.rung_passed(trial, step) is not None
            return (step, loss) if at_rung or last else None
        if self._spaced(attempt):
            return (step, loss) if last or self._due_again(trial, step) else None
        if attempt.every:
            return step, loss
        if not last:
            return None
        if not snapshot:
            return step, loss
        losses = [(r.loss, r.step) for r in before] + [(loss, step)]
        best_loss, best_step = min(losses)
        return best_step, best_loss

    def _due_at_end(self, trial: str, snapshot: bool) -> tuple[int, float] | None:
        attempt = self.attempts[trial]
        reports = self.own(trial)
        if not self._checks_during_run() or not reports or attempt.state != "running":
            return None
        last = reports[-1]
        if isinstance(self.rule, OtherRule) and self.rule.plans:
            due = self.rule.due_at_end(self, trial)
            if due is not None and not snapshot:
                due = last.step
            return next(((r.step, r.loss) for r in reports if r.step == due), None)
        if self._at_rungs(attempt) or self._spaced(attempt):
            return None if last.checked_step == last.step else (last.step, last.loss)
        if attempt.every:
            return None
        if not snapshot:
            return last.step, last.loss
        best_loss, best_step = min((r.loss, r.step) for r in reports)
        return best_step, best_loss

    # -- telling ---------------------------------------------------------------------------------

    def observe(
        self,
        trial: str,
        step: int,
        value: float,
        measured: Mapping[str, Result] | None = None,
        primary_s: float | None = None,
        check_s: float | Mapping[str, float] | None = None,
        snapshot_s: float = 0.0,
        checked_step: int | None = None,
    ) -> Answer:
        """A report, with what a check of ``checked_step`` gave if one was made."""
        attempt = self.attempts[trial]
        before = self.own(trial)
        loss = self.loss(value)
        for recorded in before:
            if recorded.step == step:
                return self._again(recorded, loss, measured)
        if before and step < before[-1].step:
            raise RefusedError("steps must rise")
        if attempt.state != "running":
            raise RefusedError(f"the trial has {attempt.state}")
        if attempt.total is not None and step > attempt.total:
            raise RefusedError("beyond the last step")

        due = self._due(trial, step, loss, snapshot=True)
        gated = measured is None and due is not None  # due, and yet not made
        stratum, violation = "unchecked", 0.0
        if not self.limits:
            measured, checked_step = {}, step  # nothing to violate: every checkpoint qualifies
        if measured is not None:
            if checked_step is None:
                checked_step = step if due is None else due[0]
            losses = {r.step: r.loss for r in before} | {step: loss}
            check = self._check(trial, checked_step, losses[checked_step], measured)
            stratum, violation = "valid" if check.valid else "invalid", check.violation
        else:
            checked_step = None
        report = Report(
            trial,
            attempt.number,
            step,
            loss,
            measured,
            checked_step,
            stratum,
            violation,
            gated,
        )
        previous = before[-1].step if before else 0
        report.iterations = step - previous
        report.trained_s = None if primary_s is None else Fraction(primary_s)
        if self._by_name(check_s):
            report.check_s = sum(map(Fraction, self._by_name(check_s).values()), Fraction(0))
        self._rank(report)
        if step == attempt.total:
            report.stop = False
        self.reports.append(report)
        self._spend(primary_s, check_s, snapshot_s, report.iterations)
        if report.stop:
            attempt.state = "stopped"
        elif step == attempt.total:
            attempt.state = "finished"
        elif isinstance(self.rule, OtherRule):
            self.rule.note(self, trial)
        return Answer(report.stop, stratum, report.rank, report.of)

    def finish(
        self,
        trial: str,
        measured: Mapping[str, Result] | None = None,
        check_s: float | Mapping[str, float] | None = None,
        snapshot_s: float = 0.0,
        checked_step: int | None = None,
    ) -> None:
        """The trial ended by itself."""
        attempt = self.attempts[trial]
        due = self._due_at_end(trial, snapshot=True)
        if measured is not None:
            if checked_step is None:
                assert due is not None
                checked_step = due[0]
            losses = {r.step: r.loss for r in self.own(trial)}
            self._check(trial, checked_step, losses[checked_step], measured)
            self._spend(None, check_s, snapshot_s)
        elif due is not None:
            attempt.gated_at_end = True
        attempt.state = "finished"

    def end(self, trial: str, state: str) -> None:
        """The trial failed or was cut off."""
        self.attempts[trial].state = state

    def _again(
        self, recorded: Report, loss: float, measured: Mapping[str, Result] | None
    ) -> Answer:
        differs = recorded.loss != loss
        if measured is not None:
            differs = differs or recorded.measured is None
            if recorded.measured is not None:
                for limit in self.limits:
                    old, new = recorded.measured[limit.name], measured[limit.name]
                    differs = differs or _number(old) != _number(new)
        return Answer(recorded.stop, recorded.stratum, recorded.rank, recorded.of, differs)

    def _check(self, trial: str, step: int, loss: float, measured: Mapping[str, Result]) -> Check:
        valid = all(limit.beyond(measured[limit.name]) <= 0 for limit in self.limits)
        violation = sum(limit.violation(measured[limit.name]) for limit in self.limits)
        attempt = self.attempts[trial].number
        check = Check(trial, attempt, step, loss, valid, violation)
        self.checks.append(check)
        return check

    def _spend(
        self,
        primary_s: float | None,
        check_s: float | Mapping[str, float] | None,
        snapshot_s: float,
        iterations: int = 1,
    ) -> None:
        if primary_s is not None:
            self.seconds.primary.append(primary_s)
            self.seconds.iterations += iterations
        for name, seconds in self._by_name(check_s).items():
            self.seconds.check.setdefault(name, []).append(seconds)
        if snapshot_s:
            self.seconds.snapshot.append(snapshot_s)

    def _by_name(self, check_s: float | Mapping[str, float] | None) -> Mapping[str, float]:
        """What a check cost, by constraint; one number for all is shared out evenly."""
        if isinstance(check_s, (int, float)):
            return {limit.name: check_s / len(self.limits) for limit in self.limits}
        return check_s or {}

    # -- ranking ---------------------------------------------------------------------------------

    def _rank(self, report: Report) -> None:
        """Compare a report with those before it, and fill in rank, of and stop."""
        if isinstance(self.rule, AceRule):
            self._rank_in_stratum(report, self.rule)
        elif isinstance(self.rule, AshaRule):
            self._rank_at_rung(report, self.rule)
        elif isinstance(self.rule, OtherRule):
            self.rule.rank(self, report)

    def _rank_in_stratum(self, report: Report, rule: AceRule) -> None:
        rivals = [
            other
            for other in self.reports
            if not other.replaced and other.step == report.step and other.stratum == report.stratum
        ]
        ranking = sorted([*(other.key() for other in rivals), report.key()])
        better, n = ranking.index(report.key()), len(ranking)
        cut = math.floor(Fraction(rule.truncation) * n + Fraction(1, 10**9))
        report.rank, report.of = better + 1, n
        report.stop = better >= n - cut
        if rule.stopping == "first-violation" and report.stratum == "invalid":
            report.stop = True
        if report.step < rule.min_steps:
            report.stop = False

    def _at_rungs(self, attempt: Attempt) -> bool:
        if isinstance(self.rule, OtherRule):
            return self.rule.at_rungs and attempt.every
        return isinstance(self.rule, AshaRule)

    def _spaced(self, attempt: Attempt) -> bool:
        return isinstance(self.rule, OtherRule) and self.rule.spaced and attempt.every

    def _due_again(self, trial: str, step: int) -> bool:
        """The rule's word, and from step beta on every step until the first check."""
        assert isinstance(self.rule, OtherRule)
        if all(r.stratum == "unchecked" for r in self.own(trial)):
            return step >= (self.attempts[trial].beta or 1)
        return self.rule.due_again(self, trial, step)

    def rung_passed(self, trial: str, step: int) -> float | None:
        """The highest rung since the trial's last report, if there is one."""
        before = self.own(trial)
        previous = before[-1].step if before else 0
        return max((rung for rung in self._rungs(step) if rung > previous), default=None)

    def _rungs(self, step: int) -> list[float]:
        assert isinstance(self.rule, (AshaRule, OtherRule))
        rungs = []
        rung: float = self.rule.min_steps
        while rung <= step:
            rungs.append(rung)
            rung *= self.rule.reduction_factor
        return rungs

    def _rank_at_rung(self, report: Report, rule: AshaRule) -> None:
        taken = [other.rung for other in self.own(report.trial)]
        free = [rung for rung in self._rungs(report.step) if rung not in taken]
        if not free:
            return
        report.rung = max(free)
        losses = [r.loss for r in self.reports if not r.replaced and r.rung == report.rung]
        ranking = sorted([*losses, report.loss])
        report.rank, report.of = ranking.index(report.loss) + 1, len(ranking)
        if losses:
            reward = -report.loss
            report.stop = reward < percentile([-loss for loss in losses], rule.reduction_factor)

    # -- the searcher ----------------------------------------------------------------------------

    def told(self, trial: str) -> Told:
        """Value and violation of one checkpoint, never infinite."""
        attempt = self.attempts[trial]
        checks = [c for c in self.checks if c.trial == trial]
        valid = [c.loss for c in checks if c.valid and c.loss < INF]
        misses = [(c.violation, c.loss) for c in checks if not c.valid]
        seen = [c.violation for c in self.checks if 0 < c.violation < INF]
        largest = max(seen, default=1.0)
        if valid:
            return Told(min(valid), 0.0, False)
        if attempt.state == "failed":
            return Told(None, largest, True)
        if misses:
            violation, loss = min(misses)
            violation = largest if violation == INF else violation
            return Told(None, violation, True) if loss == INF else Told(loss, violation, False)
        reports = self.own(trial)
        best_loss = min((r.loss for r in reports), default=INF)
        if best_loss == INF:
            return Told(None, largest, True)
        if attempt.gated_at_end or any(r.gated for r in reports):
            return Told(best_loss, 0.0, False)
        return Told(best_loss, statistics.median(seen) if seen else 0.0, False)


def _mean(numbers: list[float]) -> Fraction:
    return Fraction(math.fsum(numbers)) / len(numbers)


def _number(result: Result) -> tuple[float, float] | None:
    """Value and standard error, None for a failed check."""
    value, stderr = result if isinstance(result, tuple) else (result, 0.0)
    if value is None or not math.isfinite(value) or not math.isfinite(stderr) or stderr < 0:
        return None
    return float(value), float(stderr)


def percentile(rewards: list[float], reduction_factor: float) -> float:
    """The cutoff as Ray computes it, of the finite rewards; below everything if there are none."""
    finite = [reward for reward in rewards if reward > -INF]
    percent = (1 - 1 / reduction_factor) * 100
    return float(np.percentile(finite, percent)) if finite else -INF
