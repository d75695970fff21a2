"""What was measured on fresh rows, with what it takes to bound it: one class per kind of metric.

A check or ``confirm`` returns a value; a :class:`Measured` one carries its evidence along. The
evidence answers one question: how surprising is this if the true value lies beyond the limit? It
answers with a p-value, or with why there is none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

import numpy as np

from acetune.certification._binomial import at_least, at_most, lower_bound, upper_bound
from acetune.certification._bounded_means import betting_p_value, sum_p_value
from acetune.certification.bounds import Sense, always, normal_quantile, strictest, within
from acetune.certification.group_rates import GroupRates
from acetune.core.goals import Constraint, Noted


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
        return 0.0 if within(self.value, limit, sense) else 1.0

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
        if always(limit, sense, 0.0, 1.0):
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
        if always(limit, sense, self.low, self.high):
            return 0.0
        values, width = np.array(self.values), self.high - self.low
        if sense == "<=":
            return betting_p_value((values - self.low) / width, (limit - self.low) / width)
        return betting_p_value((self.high - values) / width, (self.high - limit) / width)

    def bound(self, level: float, sense: Sense) -> float:
        """The strictest limit that would be certified."""
        mean = math.fsum(self.values) / len(self.values) if self.values else math.nan
        return strictest(self.p_value, level, sense, mean, self.low, self.high)


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
        found = strictest(self._of_sum, level, sense, seen, 0.0, whole)
        return self.low + (self.high - self.low) * found


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
