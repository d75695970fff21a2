"""The binomial distribution, exactly: tails, and the bounds of Clopper and Pearson.

A small routine instead of SciPy, which would more than double what ``pip install acetune`` weighs.
The tests compare it with SciPy's.
"""

from __future__ import annotations

import math
from collections.abc import Callable

_SMALLEST = 1e-300
_MOST_STEPS = 100_000


def beta_cdf(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by Lentz's continued fraction.

    >>> round(beta_cdf(0.5, 2, 3), 6)
    0.6875
    """
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    if x > (a + 1.0) / (a + b + 2.0):  # the other tail converges faster
        return 1.0 - _beta_tail(1.0 - x, b, a)
    return _beta_tail(x, a, b)


def _beta_tail(x: float, a: float, b: float) -> float:
    ways = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(ways + a * math.log(x) + b * math.log1p(-x)) / a
    found, c, d = 1.0, 1.0, 0.0
    for step in range(_MOST_STEPS):
        half, odd = divmod(step, 2)
        if step == 0:
            factor = 1.0
        elif odd:
            factor = -(a + half) * (a + b + half) * x / ((a + step - 1) * (a + step))
        else:
            factor = half * (b - half) * x / ((a + step - 1) * (a + step))
        d = 1.0 / _away_from_zero(1.0 + factor * d)
        c = _away_from_zero(1.0 + factor / c)
        found *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return min(1.0, front * (found - 1.0))


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _SMALLEST else _SMALLEST


def at_most(count: int, rows: int, share: float) -> float:
    """The probability of ``count`` successes or fewer in so many rows.

    >>> round(at_most(0, 59, 0.05), 4)      # why a 95th percentile takes 59 calls
    0.0485
    """
    if count < 0:
        return 0.0
    if count >= rows:
        return 1.0
    return beta_cdf(1.0 - share, rows - count, count + 1)


def at_least(count: int, rows: int, share: float) -> float:
    """The probability of ``count`` successes or more in so many rows."""
    if count <= 0:
        return 1.0
    if count > rows:
        return 0.0
    return beta_cdf(share, count, rows - count + 1)


def upper_bound(count: int, rows: int, level: float) -> float:
    """The upper bound of Clopper and Pearson (1934): too low with a probability of ``level``.

    >>> round(upper_bound(0, 100, 0.05), 4)
    0.0295
    """
    if count >= rows:
        return 1.0
    return _root(lambda share: at_most(count, rows, share) <= level)


def lower_bound(count: int, rows: int, level: float) -> float:
    """The lower bound of Clopper and Pearson (1934): too high with a probability of ``level``."""
    return 1.0 - upper_bound(rows - count, rows, level)


def _root(reached: Callable[[float], bool]) -> float:
    """The least share from which on ``reached`` is true, from above."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if reached(middle):
            high = middle
        else:
            low = middle
    return high
