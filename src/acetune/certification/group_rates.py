"""Differences and ratios between groups, with a test of each pair of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import permutations
from typing import Literal, NamedTuple

from acetune.certification import _two_shares as two_shares
from acetune.certification.bounds import Sense, strictest

MOST_PAIRS = 2_000  # of groups in all rates, for which people are shown a bound


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
    threshold: float | None = None  # of the scores; None where labels were given

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
            found = strictest(partial(self._of_pair, pair), level, sense, start, *ends)
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
