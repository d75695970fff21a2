"""What was measured on fresh rows, with what it takes to bound it: one class per kind of metric.

A check or ``confirm`` returns a value; a :class:`Measured` one carries its evidence along. The
evidence answers one question: how surprising is this if the true value lies beyond the limit? It
answers with a p-value, or with why there is none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import permutations
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from acetune.certification import _two_shares as two_shares
from acetune.certification._binomial import at_least, at_most, lower_bound, upper_bound
from acetune.certification._bounded_means import betting_p_value, sum_p_value
from acetune.core.errors import GoalError
from acetune.core.goals import Constraint, Noted
from acetune.core.numbers import as_number, as_whole, is_number

Sense: TypeAlias = Literal["<=", ">="]
MOST_PAIRS = 2_000  # of groups in all rates, for which people are shown a bound
_STEPS = 24  # of a bisection, for bounds that people read


class Evidence(Protocol):
    """What fresh rows say of one constraint."""

    @property
    def rows(self) -> int | None:
        """How many rows, calls or clusters; None where that is not known."""

    @property
    def how(self) -> str:
        """The method, in words."""

    @property
    def approximate(self) -> bool:
        """Whether its error probability holds only nearly, for many rows."""

    def refused(self, sense: Sense) -> str | None:
        """Why it certifies nothing, and what to do; None: it can."""

    def p_value(self, limit: float, sense: Sense) -> float:
        """How surprising it is if the true value lies beyond the limit."""

    def bound(self, level: float, sense: Sense) -> float:
        """What the true value stays within, but for a probability of ``level``."""


class Measured(Noted):
    """An estimate with its evidence; everywhere else it is the estimate alone."""

    evidence: Evidence

    def __new__(cls, value: float, stderr: float, evidence: Evidence | None = None) -> Self:
        """Without evidence only while it is unpickled."""
        made = super().__new__(cls, value, stderr)
        if evidence is not None:
            made.evidence = evidence
        return made


def evidence_of(constraint: Constraint, value: object) -> Evidence:
    """The evidence that comes with a value, or what can be said of it without."""
    found = getattr(value, "evidence", None)
    if constraint.compared_directly:
        number, stderr = value if isinstance(value, tuple) else (value, 0.0)
        if found is not None or stderr != 0:
            return Refused(
                f"{constraint.name!r} is declared exact, but what was returned is an estimate: "
                "leave exact=True out, or return a number that is none"
            )
        return Exact(float(number))
    if found is not None:
        why = _beyond_its_range(constraint, found)
        ask = getattr(constraint.check, "evidence_mismatch", None)
        if why is None and callable(ask):  # a check knows what it measures
            why = ask(found)
        return found if why is None else Refused(why)
    if isinstance(value, tuple) and len(value) == 2:
        return Normal(float(value[0]), float(value[1]))
    return Refused(
        "a plain number says nothing of how sure it is: return acetune.Share(count, rows), "
        "acetune.Mean(losses) or acetune.Estimate(value, stderr), or declare "
        f"Constraint({constraint.name!r}, exact=True) if it is no estimate"
    )


def _beyond_its_range(constraint: Constraint, found: Evidence) -> str | None:
    """That no possible value breaks the limit: limit and values are in different units."""
    if isinstance(found, (Counts, GroupRates)):
        low, high, what, hint = 0.0, 1.0, "a share lies", ", shares and not percent"
    elif isinstance(found, (Rows, Parts)):
        low, high, what, hint = found.low, found.high, "its values lie", ""
    else:
        return None
    limit = constraint.limit
    if low <= limit <= high or (limit < low) == (constraint.lower is None):
        return None
    return (
        f"{what} between {low:g} and {high:g}, so the limit {limit:g} says nothing about "
        f"{'it' if hint else 'them'}: give limit and values in the same units{hint}"
    )


# -- the kinds -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Exact:
    """A number that is not estimated from rows, such as the size of a model."""

    value: float
    rows: int | None = None
    how: str = "compared with the limit: it is no estimate"
    approximate: bool = False

    def refused(self, sense: Sense) -> str | None:
        """Never."""
        return None

    def p_value(self, limit: float, sense: Sense) -> float:
        """0 where it keeps the limit, else 1."""
        return 0.0 if _within(self.value, limit, sense) else 1.0

    def bound(self, level: float, sense: Sense) -> float:
        """The value itself."""
        return self.value


@dataclass(frozen=True, slots=True)
class Refused:
    """No bound is known."""

    why: str
    rows: int | None = None
    how: str = "no bound"
    approximate: bool = False

    def refused(self, sense: Sense) -> str | None:
        """Always."""
        return self.why

    def p_value(self, limit: float, sense: Sense) -> float:
        """1: it certifies nothing."""
        return 1.0

    def bound(self, level: float, sense: Sense) -> float:
        """None is known."""
        return math.nan


@dataclass(frozen=True, slots=True)
class Normal:
    """A value with a standard error of the user's own."""

    value: float
    stderr: float
    rows: int | None = None
    how: str = "normal approximation from the standard error"
    approximate: bool = True

    def refused(self, sense: Sense) -> str | None:
        """Where the standard error is 0."""
        if self.stderr > 0:
            return None
        return (
            "its standard error is 0, and nothing that is estimated is known so well: return "
            "acetune.Share(count, rows), acetune.Mean(losses) or a standard error above 0"
        )

    def p_value(self, limit: float, sense: Sense) -> float:
        """Of a normal distribution."""
        if self.refused(sense) is not None:
            return 1.0
        beyond = (self.value - limit) / self.stderr
        return 0.5 * math.erfc(-(beyond if sense == "<=" else -beyond) / math.sqrt(2))

    def bound(self, level: float, sense: Sense) -> float:
        """So many standard errors from the value."""
        if self.refused(sense) is not None:
            return math.nan
        reach = normal_quantile(1 - level) * self.stderr
        return self.value + reach if sense == "<=" else self.value - reach


@dataclass(frozen=True, slots=True)
class Counts:
    """So many of so many rows, drawn independently."""

    count: int
    rows: int
    how: str = "exact binomial bound (Clopper-Pearson)"
    approximate: bool = False

    def refused(self, sense: Sense) -> str | None:
        """Where there are no rows."""
        return None if self.rows else "no rows were counted"

    def p_value(self, limit: float, sense: Sense) -> float:
        """Of a binomial distribution."""
        if not self.rows:
            return 1.0
        if _always(limit, sense, 0.0, 1.0):
            return 0.0
        tail = at_most if sense == "<=" else at_least
        return tail(self.count, self.rows, min(1.0, max(0.0, limit)))

    def bound(self, level: float, sense: Sense) -> float:
        """Of Clopper and Pearson."""
        found = upper_bound if sense == "<=" else lower_bound
        return found(self.count, self.rows, level) if self.rows else math.nan


@dataclass(frozen=True, slots=True)
class Rows:
    """The value of each row, all within a known range: their mean counts."""

    values: tuple[float, ...]
    low: float
    high: float
    how: str = "betting bound for values in a known range"
    approximate: bool = False

    @property
    def rows(self) -> int:
        """How many values."""
        return len(self.values)

    def refused(self, sense: Sense) -> str | None:
        """Where there are no rows."""
        return None if self.values else "there are no rows"

    def p_value(self, limit: float, sense: Sense) -> float:
        """The inverse of what a bettor would have won."""
        if not self.values:
            return 1.0
        if _always(limit, sense, self.low, self.high):
            return 0.0
        values, width = np.array(self.values), self.high - self.low
        if sense == "<=":
            return betting_p_value((values - self.low) / width, (limit - self.low) / width)
        return betting_p_value((self.high - values) / width, (self.high - limit) / width)

    def bound(self, level: float, sense: Sense) -> float:
        """The strictest limit that would be certified."""
        mean = math.fsum(self.values) / len(self.values) if self.values else math.nan
        return _strictest(self.p_value, level, sense, mean, self.low, self.high)


@dataclass(frozen=True, slots=True)
class Parts:
    """A sum of independent parts, each between 0 and its weight, such as means of clusters.

    The weights must not depend on the data: a cluster that weighs more for its size, where size
    tells of failures, would make the sum another one than the bound is of. What is limited is
    ``low`` where the sum is 0, and ``high`` where it is 1.
    """

    parts: tuple[float, ...]
    weights: tuple[float, ...]
    how: str = "Hoeffding-Bentkus bound of the mean over independent clusters"
    approximate: bool = False
    low: float = 0.0
    high: float = 1.0
    tests: tuple[str, ...] = ()  # of a suite: by which rule each passes is part of its name

    @property
    def rows(self) -> int:
        """How many clusters."""
        return len(self.parts)

    def refused(self, sense: Sense) -> str | None:
        """Where there are no parts."""
        return None if self.parts else "there are no cases"

    def p_value(self, limit: float, sense: Sense) -> float:
        """Of Hoeffding's and of Bentkus' inequality, the smaller one."""
        return self._of_sum((limit - self.low) / (self.high - self.low), sense)

    def _of_sum(self, limit: float, sense: Sense) -> float:
        parts, weights = np.array(self.parts), np.array(self.weights)
        if sense == "<=":
            return sum_p_value(parts, weights, limit)
        return sum_p_value(weights - parts, weights, float(weights.sum()) - limit)

    def bound(self, level: float, sense: Sense) -> float:
        """The strictest limit that would be certified."""
        seen, whole = math.fsum(self.parts), math.fsum(self.weights)
        found = _strictest(self._of_sum, level, sense, seen, 0.0, whole)
        return self.low + (self.high - self.low) * found


class Rate(NamedTuple):
    """A rate in every group: how many were selected, of how many."""

    name: str
    selected: tuple[int, ...]
    total: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GroupRates:
    """The largest difference between groups, or the smallest ratio, of one rate or several.

    All pairs of groups must hold in all rates. Each is tested at the full level: a model that
    breaks the limit breaks it in some pair, and that one test alone passes wrongly with at most
    the probability of the level (an intersection-union test, Berger 1982).
    """

    rates: tuple[Rate, ...]
    comparison: Literal["difference", "ratio"]
    how: str = "exact test of every pair of groups in every rate"
    approximate: bool = False
    groups: tuple[str, ...] = ()  # their names, where they are known

    @property
    def rows(self) -> int:
        """How many rows the rate with the fewest is about."""
        return min(sum(rate.total) for rate in self.rates)

    @property
    def smallest(self) -> int:
        """How many rows the smallest group has in any rate."""
        return min(min(rate.total, default=0) for rate in self.rates)

    def refused(self, sense: Sense) -> str | None:
        """Where groups are missing or empty, or the limit on the side that unfair models keep."""
        if any(len(rate.total) < 2 for rate in self.rates):
            return "the fresh rows have one group alone: there is nothing to compare it with"
        if self.smallest == 0:
            return "a group has no rows to count: merge small groups or draw more rows"
        if (self.comparison == "difference") != (sense == "<="):
            return f"a {self.comparison} has no bound on that side"
        return None

    def p_value(self, limit: float, sense: Sense) -> float:
        """The largest over all ordered pairs and rates."""
        return self.p_value_until(limit, sense, 1.0)

    def p_value_until(self, limit: float, sense: Sense, level: float) -> float:
        """The same; where it is above ``level``, that of the first pair that is.

        Those that look worst are first, so that it is nearly the largest. The rest of many groups
        is spared: one pair that does not pass is enough.
        """
        if self.refused(sense) is not None:
            return 1.0
        largest = 0.0
        for pair in sorted(self._pairs(), key=partial(self._beyond, limit), reverse=True):
            largest = max(largest, self._one(pair, limit))
            if largest > level:
                break
        return largest

    def _pairs(self) -> list[tuple[int, int, int, int]]:
        return [
            (rate.selected[i], rate.total[i], rate.selected[j], rate.total[j])
            for rate in self.rates
            for i, j in permutations(range(len(rate.total)), 2)
        ]

    def _one(self, pair: tuple[int, int, int, int], limit: float) -> float:
        """That the first rate is not larger by the limit, or the second not a too small part."""
        if self.comparison == "difference":
            if limit >= 1.0 or limit <= 0.0:
                return float(limit <= 0.0)
            return compared(*pair, 1.0, limit)
        if limit >= 1.0 or limit <= 0.0:
            return float(limit >= 1.0)
        return compared(*pair, limit, 0.0)

    def bound(self, level: float, sense: Sense) -> float:
        """The strictest limit that would be certified: of the pair that is worst off.

        None is computed for more than ``MOST_PAIRS``: it is for people, and decides nothing.
        """
        if self.refused(sense) is not None or len(self._pairs()) > MOST_PAIRS:
            return math.nan
        ends = (0.0, 1.0)
        found: float | None = None
        for pair in sorted(self._pairs(), key=self._distance, reverse=True):
            if found is not None and self._one(pair, found) <= level:
                continue  # not the worst
            apart = self._distance(pair)
            value = apart if self.comparison == "difference" else -apart
            start = min(1.0, max(0.0, value))
            found = _strictest(partial(self._of_pair, pair), level, sense, start, *ends)
        assert found is not None  # there are two groups at least
        return found

    def _of_pair(self, pair: tuple[int, int, int, int], limit: float, sense: Sense) -> float:
        return self._one(pair, limit)

    def _beyond(self, limit: float, pair: tuple[int, int, int, int]) -> float:
        """How far beyond the limit a pair looks, in standard errors: nearly as its p-value goes."""
        x, n, y, m = pair
        first, second = (x + 0.5) / (n + 1), (y + 0.5) / (m + 1)
        a, c = (1.0, limit) if self.comparison == "difference" else (limit, 0.0)
        variance = a * a * first * (1 - first) / n + second * (1 - second) / m
        return (a * first - second - c) / math.sqrt(variance)

    def _distance(self, pair: tuple[int, int, int, int]) -> float:
        """How unfair a pair looks."""
        x, n, y, m = pair
        if self.comparison == "difference":
            return x / n - y / m
        return -(y / m) / (x / n) if x else 0.0


@lru_cache(maxsize=4096)
def compared(x: int, n: int, y: int, m: int, a: float, c: float) -> float:
    """How surprising x of n and y of m are if ``a * p1 - p2 >= c``: one pair, in one direction."""
    return two_shares.p_value(x, n, y, m, a, 1.0, c)


@dataclass(frozen=True, slots=True)
class Quantile:
    """Times of calls, of which a share may exceed the limit: 0.05 for a 95th percentile.

    A machine that is slow is slow for several calls. So ``block`` calls count as one, as if all
    were slow or none: the fewer such blocks there are, the less is certified. How long a spell may
    be is assumed, so it is approximate. A time that is no number counts as longer than any limit.
    """

    times: tuple[float, ...]
    share: float
    hardware: str
    block: int = 1
    approximate: bool = True
    unit: ClassVar[str] = "calls"  # what there would have to be more of

    @property
    def rows(self) -> int:
        """How many calls."""
        return len(self.times)

    @property
    def how(self) -> str:
        """With what it was measured on: it is true there alone."""
        alone = "as if independent" if self.block == 1 else f"{self.block} in a row counted as one"
        return f"bound from the order of {self.rows} calls on {self.hardware}, {alone}"

    def refused(self, sense: Sense) -> str | None:
        """On the side where a percentile is no limit."""
        return None if sense == "<=" else "a percentile has no bound on that side"

    def p_value(self, limit: float, sense: Sense) -> float:
        """That so few calls took longer if more than the share do."""
        if self.refused(sense) is not None:
            return 1.0
        return self._surprise(sum(not time <= limit for time in self.times))

    def _surprise(self, longer: int) -> float:
        """That so few calls take longer, in whole blocks."""
        return at_most(-(-longer // self.block), self.rows // self.block, self.share)

    def times_more(self, limit: float, level: float) -> float | None:
        """How many times as many calls would do, if as few of them are slow; None: no number."""
        longer = sum(not time <= limit for time in self.times) / max(1, self.rows)
        if longer > self.share / 2:
            return None  # too near: nothing simple can be said
        blocks = max(1, self.rows // self.block)
        while at_most(math.ceil(longer * blocks), blocks, self.share) > level:
            blocks += max(1, blocks // 50)
        return max(1.0, blocks * self.block / max(1, self.rows))

    def bound(self, level: float, sense: Sense) -> float:
        """The time of a call that is far enough up the order; infinite with too few calls."""
        if self.refused(sense) is not None:
            return math.nan
        ordered = sorted((math.inf if t != t else t for t in self.times), reverse=True)
        for longer in range(len(ordered)):
            if self._surprise(longer) > level:
                return math.inf if longer == 0 else ordered[longer - 1]
        return ordered[-1] if ordered else math.inf


def another_kind(found: object, own: type, metric: str) -> str | None:
    """That fresh rows gave something else than a check measures, of which they tell nothing.

    What is no evidence of this file stays: someone has written it for the purpose. So does a
    normal approximation, which is marked as such.
    """
    what = next((name for kind, name in _IN_WORDS.items() if isinstance(found, kind)), None)
    if what is None or isinstance(found, own):
        return None
    return f"the search measured {metric}, and confirm gave {what}: return what the check returns"


_IN_WORDS: dict[type, str] = {
    Exact: "an exact number",
    Counts: "a share of rows",
    Rows: "a mean over rows",
    Parts: "a mean over clusters or a failure rate",
    GroupRates: "a comparison of groups",
    Quantile: "a percentile of times",
}


# -- what users return ---------------------------------------------------------------------------


class Share(Measured):
    """A share with its counts, for ``confirm``: so many of so many rows.

    Its bound is exact (Clopper and Pearson), so that it can be certified at any number of rows.

    Parameters
    ----------
    count, rows:
        How many rows have the property, of how many that were drawn independently.

    >>> missed = Share(12, 400)
    >>> missed.value
    0.03
    """

    def __new__(cls, count: int, rows: int) -> Self:
        """The share, with a standard error that has a success and a failure added."""
        count = as_whole(count, "count", 0, GoalError)
        rows = as_whole(rows, "rows", 0, GoalError)
        if rows < 1 or count > rows:
            raise GoalError(f"Share needs 0 <= count <= rows, and a row, got {count} of {rows}")
        p = (count + 1) / (rows + 2)
        made = super().__new__(cls, count / rows, math.sqrt(p * (1 - p) / rows))
        made.evidence = Counts(count, rows)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        counts = self.evidence
        assert isinstance(counts, Counts)
        return Share, (counts.count, counts.rows)


class Mean(Measured):
    """The mean of a bounded value per row, for ``confirm``: a loss between 0 and 1, say.

    Its bound needs no assumption about the distribution: only the range, and independent rows.

    Parameters
    ----------
    values:
        One value per row.
    low, high:
        What a value can be, known before looking at the data.
    clusters:
        Where rows are not independent, what they have in common: rows of one person, say. The value
        is then the mean over clusters: each counts once, with the mean of its rows, however many
        they are. That is what the limit is about, and what is bounded; not the mean over rows.

    >>> round(Mean([0.0, 1.0, 0.5, 0.5]).value, 2)
    0.5
    >>> Mean([1.0, 1.0, 1.0, 0.0], clusters=["ann", "ann", "ann", "bob"]).value
    0.5
    """

    def __new__(
        cls,
        values: Sequence[float],
        low: float = 0.0,
        high: float = 1.0,
        clusters: Sequence[Any] | None = None,
    ) -> Self:
        """The mean with its standard error."""
        found = _numbers(values)
        if not (is_number(low) and is_number(high) and low < high):
            raise GoalError(f"Mean(low=, high=) must be numbers, low < high, got {low!r}, {high!r}")
        outside = ~((found >= low) & (found <= high))  # NaN too
        if outside.any():
            raise GoalError(
                f"Mean(values) must lie between low={low:g} and high={high:g}; row "
                f"{int(outside.argmax())} has {found[outside][0]:g}"
            )
        evidence: Evidence = Rows(tuple(found.tolist()), float(low), float(high))
        if clusters is not None:
            found = cluster_means(found, clusters)
            weights = np.full(len(found), 1 / len(found))
            parts = (found - low) / (high - low) * weights
            evidence = Parts(
                tuple(parts.tolist()), tuple(weights.tolist()), low=float(low), high=float(high)
            )
        mean = float(found.mean())
        stderr = float(found.std(ddof=1)) / math.sqrt(len(found)) if len(found) > 1 else 0.0
        made = super().__new__(cls, mean, stderr)
        made.evidence = evidence
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (float(self.value), float(self.stderr), self.evidence)


def _numbers(values: Any) -> NDArray[np.float64]:
    """One number per row, of what is one: NumPy makes numbers of texts and times as well."""
    given = np.ma.getdata(np.asanyarray(values))
    hidden = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
    if hidden is not None and hidden.any():
        row = int(np.flatnonzero(hidden)[0])
        raise GoalError(f"Mean(values) is masked in row {row}: leave such rows out")
    if given.ndim != 1 or not len(given):
        raise GoalError(f"Mean(values) needs one number per row, got shape {given.shape}")
    if given.dtype.kind == "O":  # a frame's own kinds of column, or Python's objects
        return np.array([as_number(value, "Mean(values)") for value in given])
    if given.dtype.kind not in "buif":
        raise GoalError(f"Mean(values) must be numbers, got an array of {given.dtype}")
    return given.astype(float)


def _again(value: float, stderr: float, evidence: Evidence) -> Measured:
    return Measured(value, stderr, evidence)


def cluster_means(values: NDArray[np.float64], clusters: Sequence[Any]) -> NDArray[np.float64]:
    """The mean of each cluster.

    >>> cluster_means(np.array([1.0, 0.0, 0.25, 0.5]), ["a", "a", "b", "c"]).tolist()
    [0.5, 0.25, 0.5]
    """
    if len(clusters) != len(values):
        raise GoalError(f"{len(clusters)} clusters for {len(values)} rows")
    for row, name in enumerate(clusters):
        if _is_missing(name):  # each NaN would be a cluster of its own
            raise GoalError(f"row {row} has no cluster ({name}): name one, or leave the row out")
    names = {name: place for place, name in enumerate(dict.fromkeys(clusters))}
    codes = [names[name] for name in clusters]
    return np.bincount(codes, values, len(names)) / np.bincount(codes, minlength=len(names))


def _is_missing(name: Any) -> bool:
    """None, NaN, and pandas' own, which refuse to be compared."""
    if isinstance(name, str):
        return False
    return name is None or str(name) in ("<NA>", "NaT") or bool(name != name)


# -- inside --------------------------------------------------------------------------------------


def normal_quantile(share: float) -> float:
    """The point that a standard normal stays below with this probability.

    >>> round(normal_quantile(0.95), 3)
    1.645
    """
    from statistics import NormalDist

    return NormalDist().inv_cdf(share)


def _within(value: float, limit: float, sense: Sense) -> bool:
    return value <= limit if sense == "<=" else value >= limit


def _always(limit: float, sense: Sense, low: float, high: float) -> bool:
    """Whether no possible value breaks the limit."""
    return limit >= high if sense == "<=" else limit <= low


def _strictest(
    p_value: Callable[[float, Sense], float],
    level: float,
    sense: Sense,
    value: float,
    low: float,
    high: float,
) -> float:
    """The limit nearest to the value whose p-value is small enough; the end of the range if none.

    By bisection from the outside, so that the limit returned would be certified.
    """
    inside, outside = value, high if sense == "<=" else low
    for _ in range(_STEPS):
        middle = (inside + outside) / 2
        if p_value(middle, sense) <= level:
            outside = middle
        else:
            inside = middle
    return outside
