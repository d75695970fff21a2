"""How many fresh rows a certificate needs: before anybody spends an hour."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np

from acetune.certification import _two_shares as two_shares
from acetune.certification._binomial import at_least, at_most
from acetune.certification._bounded_means import sum_p_value
from acetune.certification.bounds import normal_quantile
from acetune.core.errors import GoalError

Comparison: TypeAlias = Literal["difference", "ratio"]
MOST_ROWS = 10_000_000
_HOPELESS = 1000.0  # times as many rows


def rows_for_share(value: float, limit: float, level: float, power: float) -> int:
    """Rows at which a share is certified with this probability: exact for the binomial bound.

    >>> rows_for_share(0.22, 0.25, 0.05, 0.8)
    1263
    """
    _require_apart(value, limit)

    def enough(rows: int) -> bool:
        if value < limit:
            most = _largest(rows, lambda count: at_most(count, rows, limit) <= level)
            return most >= 0 and at_most(most, rows, value) >= power
        fewest = rows - _largest(rows, lambda miss: at_least(rows - miss, rows, limit) <= level)
        return fewest <= rows and at_least(fewest, rows, value) >= power

    return _fewest(enough)


def rows_for_estimate(
    value: float, limit: float, level: float, power: float, deviation: float
) -> int:
    """Rows at which a mean with this standard deviation per row is certified: nearly.

    >>> rows_for_estimate(0.22, 0.25, 0.05, 0.8, 0.4)
    1100
    """
    _require_apart(value, limit)
    reach = normal_quantile(1 - level) + normal_quantile(power)
    return math.ceil((reach * deviation / (limit - value)) ** 2)


def rows_for_mean(value: float, limit: float, level: float, power: float, deviation: float) -> int:
    """The same for the betting bound, which pays a little for assuming nothing."""
    _require_apart(value, limit)
    paid = math.sqrt(2 * math.log(1 / level)) + normal_quantile(power)
    return math.ceil((paid * deviation / abs(limit - value)) ** 2)


def rows_for_groups(
    value: float,
    limit: float,
    level: float,
    power: float,
    *,
    rate: float,
    smallest: float,
    comparison: Comparison,
    base: float = 1.0,
) -> int:
    """Rows in all at which two groups are certified to be near enough to each other.

    ``rate`` is that of the group with the smaller one, ``smallest`` the smaller group's share of
    the rows and ``base`` the share of the rows that the rate is about: those with label 1, for
    true positive rates. The smaller group has the larger rate, which needs more rows.
    """
    _require_apart(value, limit)
    first = rate + value if comparison == "difference" else rate / value
    a, c = (1.0, limit) if comparison == "difference" else (limit, 0.0)
    if not 0 < first <= 1:
        raise GoalError(f"rates of {rate:g} and {first:g} cannot be: choose another rate")

    def enough(rows: int) -> bool:
        n, m = round(rows * base * smallest), round(rows * base * (1 - smallest))
        if n < 1 or m < 1:
            return False
        # at the counts that are worse than what comes up with the wanted probability
        spread = a**2 * first * (1 - first) / n + rate * (1 - rate) / m
        room = normal_quantile(power) * math.sqrt(spread)
        x = first * n + room * _part(a**2 * first * (1 - first) / n, spread) * n / a
        y = rate * m - room * _part(rate * (1 - rate) / m, spread) * m
        found = min(n, math.ceil(x)), n, max(0, math.floor(y)), m
        return two_shares.p_value(*found, a, 1.0, c) <= level

    return _fewest(enough)


def rows_for_clusters(value: float, limit: float, level: float, power: float) -> int:
    """Clusters of the same size at which an average of their failures is certified."""
    _require_apart(value, limit)
    if value > limit:  # the same of what did not fail
        value, limit = 1 - value, 1 - limit

    def enough(rows: int) -> bool:
        seen = value + normal_quantile(power) * math.sqrt(value * (1 - value) / rows)
        weights = np.full(rows, 1 / rows)
        return seen < limit and sum_p_value(seen * weights, weights, limit) <= level

    return _fewest(enough)


def calls_for_percentile(
    percentile: float, level: float, exceeding: float, power: float, block: int = 1
) -> int:
    """Calls at which a percentile is certified if a share ``exceeding`` of calls takes longer.

    ``block`` calls in a row count as one.

    >>> calls_for_percentile(95, 0.05, 0.0, 0.8), calls_for_percentile(95, 0.05, 0.0, 0.8, 40)
    (59, 2360)
    """
    allowed = 1 - percentile / 100
    if exceeding >= allowed:
        raise GoalError(
            f"if {exceeding:.3g} of the calls take longer than the limit, the {percentile:g}th "
            "percentile breaks it: nothing can be certified"
        )

    def enough(calls: int) -> bool:
        most = _largest(calls, lambda count: at_most(count, calls, allowed) <= level)
        return most >= 0 and at_most(most, calls, exceeding) >= power

    return block * _fewest(enough)


def more_rows(p_value: float, level: float, power: float = 0.8) -> float | None:
    """How many times as many rows would probably bring a p-value below a level.

    A distance in standard errors grows with the square root of the rows. None where that is no
    help: the value lies on its limit, or beyond it.

    >>> round(more_rows(0.1, 0.05), 1)
    3.8
    """
    if not 0 < p_value < 0.5:
        return None
    factor = (
        (normal_quantile(1 - level) + normal_quantile(power)) / normal_quantile(1 - p_value)
    ) ** 2
    return None if factor > _HOPELESS else max(1.0, factor)


def _part(variance: float, whole: float) -> float:
    return variance / whole if whole else 0.5


def _require_apart(value: float, limit: float) -> None:
    if value == limit:
        raise GoalError(
            f"a model at {value:g} lies on its limit: no number of rows certifies that; aim for "
            "some distance"
        )


def _largest(most: int, holds: Callable[[int], bool]) -> int:
    """The largest count for which a condition holds that small ones are likelier to meet; or -1."""
    low, high = -1, most
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _fewest(enough: Callable[[int], bool]) -> int:
    """The fewest rows that are enough, and stay so for a while: counts make steps."""
    high = 1
    while not enough(high):
        high *= 2
        if high > MOST_ROWS:
            raise GoalError(
                f"more than {MOST_ROWS:,} rows would be needed: the model is too near its limit"
            )
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle
    return high
