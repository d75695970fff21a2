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
from bisect import bisect_left
from collections.abc import Sequence
from copy import copy
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple, TypeAlias

# a check, as it was added: step, loss, excess, and step and excess of the one before it
Added: TypeAlias = tuple[int, float, float, tuple[int, float] | None]

_RECENT = 48  # trials that a new one is compared with
_LATER = 2  # octaves of steps after which order is looked at again: a factor of four
_STRETCH = math.log(4.0)  # limits may move otherwise in each stretch of log steps
_SHRINKAGE = 0.5  # squared octaves of steps that a slope of 0 counts for
_COMMON = 1.0  # as many that the common slope counts for in a stretch
_DOUBT = 1.0  # standard errors that are taken off a slope: what may be noise counts as none
_LARGEST = sys.float_info.max  # of a limit near 0, an excess may be infinite: sums must not be
_ONE, _EXCESS = -2, -1  # beside the stretches in the sums over last checks


class Trend(NamedTuple):
    """How far beyond its limits a checkpoint will lie: what workers are told of the study.

    An excess is that of :func:`combined`, on a scale that compresses large ones. While a factor e
    of steps passes, a trial's changes by the slope of that stretch of training, give or take
    ``spread``: a limit may be gained early and lost late.
    """

    pairs: int = 0  # checks that followed another one of the same trial
    slopes: tuple[float, ...] = ()  # of each factor of four of steps; the last one from there on
    spread: float = 1.0
    start: float = 0.0  # mean excess of trials at step 1, and its spread
    start_spread: float = 1.0
    check_s: float = 0.0  # mean price of a check, and of a step
    step_s: float = 0.0

    def slope(self, step: int) -> float:
        """How the excess changes from this step on: below 0 limits are gained, above 0 lost."""
        if not self.slopes:
            return 0.0
        return self.slopes[min(int(_log(step) / _STRETCH), len(self.slopes) - 1)]

    def chance(self, step: int, checked_at: int, excess: float) -> float:
        """The probability that the limits hold at a step, by what the last check has found.

        ``excess`` is NaN for a trial that was never checked.
        """
        return self._chances((step,), checked_at, excess)[0]

    def best_chance(
        self, first: int, last: int, checked_at: int, excess: float
    ) -> tuple[float, int]:
        """The best chance that the limits hold from one step to another, and where that is."""
        turns = _turns(len(self.slopes))
        steps = [first, *[step for step in turns if first < step < last], last]
        chances = self._chances(steps, checked_at, excess)
        return max(zip(chances, steps, strict=True))

    def _chances(self, steps: Sequence[int], checked_at: int, excess: float) -> list[float]:
        """See :meth:`chance`; of several steps at once, for policies ask at every report."""
        slopes, found = self.slopes, []
        ends, before = _course(slopes)
        unchecked = math.isnan(excess)
        since = 0.0 if unchecked else _log(checked_at)
        moved_then = 0.0 if unchecked else _moved(since, slopes, ends, before)
        for step in steps:
            at = _log(step)
            if unchecked:
                mean = self.start + _moved(at, slopes, ends, before)
                spread = self.start_spread
            else:
                passed, mean = at - since, excess
                if passed > 0.0:
                    mean += _moved(at, slopes, ends, before) - moved_then
                else:
                    passed = 0.0
                spread = self.spread * math.sqrt(passed + 0.05)
            found.append(0.5 * math.erfc(mean / (1e-9 if spread < 1e-9 else spread) / _ROOT_2))
        return found


_ROOT_2 = math.sqrt(2.0)


@lru_cache(maxsize=64)
def _turns(stretches: int) -> tuple[int, ...]:
    """The steps at which one stretch of training ends and the next begins."""
    return tuple(round(math.exp(i * _STRETCH)) for i in range(1, stretches))


@lru_cache(maxsize=16)  # a study has one trend at a time, and its trials those of a moment ago
def _course(slopes: tuple[float, ...]) -> tuple[list[float], list[float]]:
    """Where each stretch but the last ends, in log steps, and what has changed before each."""
    ends = [(i + 1) * _STRETCH for i in range(len(slopes) - 1)]
    return ends, list(accumulate((slope * _STRETCH for slope in slopes[:-1]), initial=0.0))


def _moved(at: float, slopes: tuple[float, ...], ends: list[float], before: list[float]) -> float:
    """How an excess has changed since step 1."""
    if not slopes:
        return 0.0
    stretch = bisect_left(ends, at)
    return before[stretch] + slopes[stretch] * (at - stretch * _STRETCH)


class Learning:
    """Sums over the reports and checks of a study."""

    def __init__(self) -> None:
        self._all = _Changes()  # from check to check
        self._changes: dict[int, _Changes] = {}  # by stretch of training
        # products, summed over the last checks of trials, of one, excess, log steps by stretch
        self._last: dict[tuple[int, int], float] = {}
        self._known: Trend | None = None  # what follows from these sums, until one changes
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
        if before is None:
            _compare(self._first, self._agreeing, loss, excess)
        else:
            self._change(before, (step, excess), 1)
            self._count(before, -1)
        self._count((step, excess), 1)

    def go_back(self, last: tuple[int, float] | None, to: tuple[int, float] | None) -> None:
        """A new attempt goes on before the last check of its trial: from an earlier one or none."""
        if last != to:
            for check, sign in ((last, -1), (to, 1)):
                if check is not None:
                    self._count(check, sign)

    def without(self, checks: list[Added], losses: list[tuple[int, float, float]]) -> Learning:
        """What would be known without these, which were added last of their trial."""
        past = copy(self)
        past._last, past._then, past._kept = {**self._last}, {**self._then}, {**self._kept}
        past._all = copy(self._all)
        past._changes = {stretch: copy(changes) for stretch, changes in self._changes.items()}
        for step, loss, excess, before in reversed(checks):
            past._count((step, excess), -1)
            if before is None:
                past._first, past._agreeing = _left(past._first, (loss, excess))
            else:
                past._change(before, (step, excess), -1)
                past._count(before, 1)
        for step, loss, earlier in losses:
            octave = step.bit_length() - 1 - _LATER
            past._then[octave], past._kept[octave] = _left(past._then[octave], (earlier, loss))
        return past

    def _change(self, before: tuple[int, float], after: tuple[int, float], sign: int) -> None:
        """From one check of a trial to its next: evenly, as far as is known."""
        began, ended = _log(before[0]), _log(after[0])
        if (passed := ended - began) > 0:
            self._known = None
            changed = after[1] - before[1]
            self._all.add(passed, changed, sign)
            for stretch in range(int(began / _STRETCH), int(ended / _STRETCH) + 1):
                part = _within(stretch, ended) - _within(stretch, began)
                if part > 0:
                    sums = self._changes.setdefault(stretch, _Changes())
                    sums.add(part, changed * part / passed, sign)
                    if not sums.pairs:
                        del self._changes[stretch]

    def _count(self, check: tuple[int, float], sign: int) -> None:
        """The last check of a trial."""
        self._known = None
        at = _log(check[0])
        terms = [(_ONE, 1.0), (_EXCESS, check[1])]
        terms += [(i, _within(i, at)) for i in range(math.ceil(at / _STRETCH))]
        for i, a in terms:
            for j, b in terms:
                self._last[i, j] = self._last.get((i, j), 0.0) + sign * a * b

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
        known = self._known
        if known is None:
            known = self._trend()
        if known.check_s != check_s or known.step_s != step_s:
            known = Trend(*known[:5], check_s, step_s)
        self._known = known
        return known

    def _trend(self) -> Trend:
        pairs, spread = self._all.pairs, 1.0
        slopes: tuple[float, ...] = ()
        if pairs:
            common = self._all.uc / (self._all.uu + _SHRINKAGE)
            left = self._all.left(common)
            spread, variance = math.sqrt(left / pairs), left / max(1, pairs - 1)
            common = _less_noise(common, variance / self._all.uu)
            none = _Changes()
            slopes = tuple(
                common + self._changes.get(i, none).deviation(common, variance)
                for i in range(max(self._changes) + 1)
            )
        trials = self._last.get((_ONE, _ONE), 0.0)
        if not trials:
            return Trend(pairs, slopes, spread)
        # what each excess has been at step 1: the last one's slope holds from there on
        weights = {_EXCESS: 1.0}
        if slopes:
            for i in {i for i, _ in self._last if i >= 0}:
                weights[i] = -slopes[min(i, len(slopes) - 1)]
        start = sum(w * self._last.get((_ONE, i), 0.0) for i, w in weights.items()) / trials
        square = sum(
            v * w * self._last.get((i, j), 0.0)
            for i, v in weights.items()
            for j, w in weights.items()
        )
        variance = max(0.0, square / trials - start * start)
        return Trend(pairs, slopes, spread, start, math.sqrt(variance + 1 / (trials + 1)))


class _Changes:
    """Sums over changes of an excess while log steps pass."""

    def __init__(self) -> None:
        self.pairs, self.uu, self.uc, self.cc = 0, 0.0, 0.0, 0.0

    def add(self, passed: float, changed: float, sign: int) -> None:
        self.pairs += sign
        self.uu += sign * passed * passed
        self.uc += sign * passed * changed
        self.cc += sign * changed * changed

    def left(self, slope: float) -> float:
        """Sum of squares that a slope does not explain."""
        return max(0.0, self.cc - 2 * slope * self.uc + slope * slope * self.uu)

    def deviation(self, slope: float, variance: float) -> float:
        """How far the slope here is from another one, less what may be noise."""
        squares = self.uu + _COMMON
        return _less_noise((self.uc - slope * self.uu) / squares, variance / squares)


def _less_noise(slope: float, variance: float) -> float:
    return math.copysign(max(0.0, abs(slope) - _DOUBT * math.sqrt(variance)), slope)


def _within(stretch: int, at: float) -> float:
    """How much of a stretch lies before a place on the log scale of steps."""
    return min(max(at - stretch * _STRETCH, 0.0), _STRETCH)


def combined(excess: tuple[float, ...]) -> float:
    """The largest of the excesses, large ones compressed: finite, or NaN where it is not known.

    Of constraints that were left out, or whose check has failed, nothing is known. One that is
    violated decides without them; where the others hold, they would have decided.

    >>> combined((-0.5, 0.0)), combined((math.nan, 0.0)), combined((math.nan, -0.0, 2.0)) > 0
    (0.0, nan, True)
    """
    if len(excess) == 1:  # nearly always
        largest = excess[0]
        if -_LARGEST <= largest <= _LARGEST:
            return math.asinh(largest)
    elif not excess:
        return math.nan
    else:
        known = [beyond for beyond in excess if not math.isnan(beyond)]
        largest = max(known, default=math.nan)
        if len(known) < len(excess) and not largest > 0:
            return math.nan
    if math.isnan(largest):
        return math.nan  # always the same object, so that what holds it can be compared
    return math.asinh(math.copysign(_LARGEST, largest) if math.isinf(largest) else largest)


def _log(step: int) -> float:
    return math.log(step) if step > 1 else 0.0  # steps of Optuna may begin at 0


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
