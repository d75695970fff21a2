"""What the trials of a study say about each other: sums that every report adds to.

- Does who is ahead stay ahead? (:meth:`Learning.order_kept`)
- Are limits gained or lost while a trial trains? (:meth:`Learning.trend`)
- Do objective and limits pull against each other? (:meth:`Learning.agreement`)

Everything follows from the reports in their order, so that a resumed study, a replay and another
process learn the same.
"""

from __future__ import annotations

import math
import sys
from copy import copy
from typing import NamedTuple, TypeAlias

# a check, as it was added: step, loss, excess, and step and excess of the one before it
Added: TypeAlias = tuple[int, float, float, tuple[int, float] | None]

_RECENT = 48  # trials that a new one is compared with
_LATER = 2  # octaves of steps after which order is looked at again: a factor of four
_SHRINKAGE = 0.5  # squared octaves of steps that a slope of 0 counts for
_DOUBT = 1.0  # standard errors that are taken off a slope: what may be noise counts as none
_LARGEST = sys.float_info.max  # of a limit near 0, an excess may be infinite: sums must not be


class Trend(NamedTuple):
    """How far beyond its limits a checkpoint will lie: what workers are told of the study.

    An excess is that of :func:`combined`, on a scale that compresses large ones; a trial's
    changes by ``slope`` with each factor e of steps, give or take ``spread``.
    """

    pairs: int = 0  # checks that followed another one of the same trial
    slope: float = 0.0
    spread: float = 1.0
    start: float = 0.0  # mean excess of trials at step 1, and its spread
    start_spread: float = 1.0
    check_s: float = 0.0  # mean price of a check, and of a step
    step_s: float = 0.0

    def chance(self, step: int, checked_at: int, excess: float) -> float:
        """The probability that the limits hold at a step, by what the last check has found.

        ``excess`` is NaN for a trial that was never checked.
        """
        if math.isnan(excess):
            mean, spread = self.start + self.slope * _log(step), self.start_spread
        else:
            passed = max(0.0, _log(step) - _log(checked_at))
            mean = excess + self.slope * passed
            spread = self.spread * math.sqrt(passed + 0.05)
        return 0.5 * math.erfc(mean / max(spread, 1e-9) / math.sqrt(2.0))


class Learning:
    """Sums over the reports and checks of a study."""

    def __init__(self) -> None:
        # of changes from check to check: squared log steps, times the change, the change squared
        self._pairs, self._uu, self._ue, self._ee = 0, 0.0, 0.0, 0.0
        # of the last check of each trial: log steps, excess, their squares and product
        self._last = [0.0] * 6
        # what follows from all these sums, once it was asked for
        self._line: tuple[float, float, float, float] | None = None
        self._first: list[tuple[float, float]] = []  # loss and excess at first checks
        self._agreeing = [0, 0]
        self._then: dict[int, list[tuple[float, float]]] = {}  # by octave: losses then and later
        self._kept: dict[int, list[int]] = {}  # by octave: pairs in the same order, and all

    # -- adding ----------------------------------------------------------------------------------

    def add_check(
        self, step: int, loss: float, excess: float, before: tuple[int, float] | None
    ) -> None:
        """A check of a checkpoint; ``before``: step and excess of the one before it in its trial.

        A check that has failed, whose excess is NaN, says nothing and is none before another.
        """
        if math.isnan(excess):
            return
        at = _log(step)
        if before is None:
            _compare(self._first, self._agreeing, loss, excess)
        else:
            passed, changed = at - _log(before[0]), excess - before[1]
            if passed > 0:
                self._pairs += 1
                self._uu += passed * passed
                self._ue += passed * changed
                self._ee += changed * changed
            self._count(_log(before[0]), before[1], -1)
        self._count(at, excess, 1)

    def go_back(self, last: tuple[int, float] | None, to: tuple[int, float] | None) -> None:
        """A new attempt goes on before the last check of its trial: from an earlier one or none."""
        if last != to:
            for check, sign in ((last, -1), (to, 1)):
                if check is not None:
                    self._count(_log(check[0]), check[1], sign)

    def without(self, checks: list[Added], losses: list[tuple[int, float, float]]) -> Learning:
        """What would be known without these, which were added last of their trial."""
        past = copy(self)
        past._last, past._then, past._kept = [*self._last], {**self._then}, {**self._kept}
        for step, loss, excess, before in reversed(checks):
            at = _log(step)
            past._count(at, excess, -1)
            if before is None:
                past._first, past._agreeing = _left(past._first, (loss, excess))
                continue
            passed, changed = at - _log(before[0]), excess - before[1]
            if passed > 0:
                past._pairs -= 1
                past._uu -= passed * passed
                past._ue -= passed * changed
                past._ee -= changed * changed
            past._count(_log(before[0]), before[1], 1)
        for step, loss, earlier in losses:
            octave = step.bit_length() - 1 - _LATER
            past._then[octave], past._kept[octave] = _left(past._then[octave], (earlier, loss))
        return past

    def _count(self, at: float, excess: float, sign: int) -> None:
        self._line = None  # whoever changes the sums of changes comes by here
        for i, term in enumerate((1.0, at, excess, at * at, at * excess, excess * excess)):
            self._last[i] += sign * term

    def add_loss(self, step: int, loss: float, earlier: float | None) -> None:
        """A loss at a power of two; ``earlier``: the trial's own, two octaves before."""
        if earlier is not None:
            octave = step.bit_length() - 1 - _LATER
            then = self._then.setdefault(octave, [])
            _compare(then, self._kept.setdefault(octave, [0, 0]), earlier, loss)

    # -- asking ----------------------------------------------------------------------------------

    @property
    def agreement(self) -> float:
        """From 1 (a better objective comes with smaller violations) to -1 (with larger ones)."""
        agreeing, pairs = self._agreeing
        if not pairs:
            return 0.0
        trials = len(self._first)
        return (2 * agreeing / pairs - 1) * trials / (trials + 3)

    def order_kept(self, step: int, expected: float, weight: float) -> float:
        """Share of pairs of trials that kept their order from about this step on.

        ``expected`` counts for ``weight`` trials: what is assumed before anything was seen.
        """
        octave = step.bit_length() - 1
        kept, pairs = self._kept.get(octave, (0, 0))
        if not pairs:
            return expected
        trials = len(self._then[octave])
        return (kept / pairs * trials + expected * weight) / (trials + weight)

    def trend(self, check_s: float, step_s: float) -> Trend:
        """Whether limits are gained or lost along training, and where trials begin."""
        if self._line is None:
            self._line = self._fit()
        return Trend(self._pairs, *self._line, check_s, step_s)

    def _fit(self) -> tuple[float, float, float, float]:
        """Slope and spread of changes, start and its spread."""
        slope, spread = 0.0, 1.0
        if self._pairs:
            slope = self._ue / (self._uu + _SHRINKAGE)
            left = max(0.0, self._ee - 2 * slope * self._ue + slope * slope * self._uu)
            spread = math.sqrt(left / self._pairs)
            if self._pairs > 1:
                error = math.sqrt(left / (self._pairs - 1) / self._uu)
                slope = math.copysign(max(0.0, abs(slope) - _DOUBT * error), slope)
        n, u, e, uu, ue, ee = self._last
        start, start_spread = 0.0, 1.0
        if n:
            start = (e - slope * u) / n
            square = (ee - 2 * slope * ue + slope * slope * uu) / n
            start_spread = math.sqrt(max(0.0, square - start * start) + 1 / (n + 1))
        return slope, spread, start, start_spread


def combined(excess: tuple[float, ...]) -> float:
    """The largest of the excesses, large ones compressed: finite, or NaN where it is not known.

    Of constraints that were left out, or whose check has failed, nothing is known. One that is
    violated decides without them; where the others hold, they would have decided.

    >>> combined((-0.5, 0.0)), combined((math.nan, 0.0)), combined((math.nan, -0.0, 2.0)) > 0
    (0.0, nan, True)
    """
    largest, unknown = -math.inf, not excess
    for beyond in excess:
        if math.isnan(beyond):
            unknown = True
        elif beyond > largest:
            largest = beyond
    if unknown and not largest > 0:
        return math.nan
    return math.asinh(math.copysign(_LARGEST, largest) if math.isinf(largest) else largest)


def _log(step: int) -> float:
    return math.log(max(step, 1))  # steps of Optuna may begin at 0


def _compare(
    seen: list[tuple[float, float]], counts: list[int], first: float, second: float
) -> None:
    """Count the pairs with earlier ones in which both numbers order them the same way."""
    for other_first, other_second in seen[-_RECENT:]:
        if first != other_first and second != other_second:
            counts[0] += (first < other_first) == (second < other_second)
            counts[1] += 1
    seen.append((first, second))


def _left(
    seen: list[tuple[float, float]], entry: tuple[float, float]
) -> tuple[list[tuple[float, float]], list[int]]:
    """The others, and their counts."""
    others, counts = list[tuple[float, float]](), [0, 0]
    at = seen.index(entry)
    for first, second in (*seen[:at], *seen[at + 1 :]):
        _compare(others, counts, first, second)
    return others, counts
