"""The few distributions that the comparisons need, so that no statistics package is needed.

Tails of chi-square and F by the incomplete gamma and beta functions (series and continued fractions
as in Press et al., *Numerical Recipes*, section 6.2 and 6.4); the studentised range of infinitely
many degrees of freedom by its integral. Right to nine digits and more, tails included.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acetune.core.errors import GoalError

_EPSILON = 1e-16
_TINY = 1e-300
_MOST_TERMS = 100_000


def chi_square_tail(x: float, df: float) -> float:
    """The probability that a chi-square variable exceeds ``x``.

    >>> round(chi_square_tail(3.841459, 1), 6)
    0.05
    """
    if df <= 0:
        raise GoalError(f"degrees of freedom must be positive, got {df}")
    return _gamma_tail(df / 2, x / 2) if x > 0 else 1.0


def f_tail(x: float, df1: float, df2: float) -> float:
    """The probability that an F variable exceeds ``x``.

    >>> round(f_tail(3.885294, 2, 12), 6)
    0.05
    """
    if df1 <= 0 or df2 <= 0:
        raise GoalError(f"degrees of freedom must be positive, got {df1} and {df2}")
    if x <= 0:
        return 1.0
    return _beta_share(df2 / 2, df1 / 2, df2 / (df2 + df1 * x))


def student_t_quantile(level: float, df: float) -> float:
    """The t that ``|t|`` stays below with probability ``level``.

    >>> round(student_t_quantile(0.95, 19), 4)
    2.093
    """
    _require_share("level", level)
    return _rising_root(lambda t: 1 - level - f_tail(t * t, 1, df))


def studentised_range_quantile(level: float, k: int) -> float:
    """The q that the range of ``k`` standard normal variables stays below with probability level.

    >>> round(studentised_range_quantile(0.95, 10), 3)
    4.474
    """
    _require_share("level", level)
    if k < 2:
        raise GoalError(f"a range needs at least two variables, got {k}")
    # The integrand is smooth and gone at the ends: the plain sum over a grid is right to 1e-13.
    z = np.linspace(-9.0, 9.0, 289)
    weights = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0]) * k
    below = _normal(z)

    def share(q: float) -> float:
        return float(weights @ (below - _normal(z - q)) ** (k - 1))

    return _rising_root(lambda q: share(q) - level)


def _normal(z: NDArray[Any]) -> NDArray[Any]:
    """The standard normal distribution function."""
    return np.fromiter((math.erfc(-value / math.sqrt(2)) / 2 for value in z), float, len(z))


def _gamma_tail(a: float, x: float) -> float:
    """The upper regularised incomplete gamma function Q(a, x), for x > 0."""
    if math.isinf(x):
        return 0.0
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:  # the series converges fast here, the fraction elsewhere
        term = total = 1 / a
        for n in range(1, _MOST_TERMS):
            term *= x / (a + n)
            total += term
            if term < total * _EPSILON:
                break
        return 1 - total * scale
    return scale * _fraction(
        x + 1 - a, ((-n * (n - a), x + 2 * n + 1 - a) for n in range(1, _MOST_TERMS))
    )


def _beta_share(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast on the other side
        return 1 - _beta_share(b, a, 1 - x)
    log_scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    scale = math.exp(log_scale + a * math.log(x) + b * math.log1p(-x)) / a
    odd_even = (
        term
        for m in range(_MOST_TERMS)
        for term in (
            (-(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)), 1.0),
            ((m + 1) * (b - m - 1) * x / ((a + 2 * m + 1) * (a + 2 * m + 2)), 1.0),
        )
    )
    return scale * _fraction(1.0, odd_even)


def _fraction(first: float, terms: Any) -> float:
    """``1 / (first + a1 / (b1 + a2 / (b2 + ...)))`` by Lentz's method; terms give (a, b)."""
    value = c = first if first else _TINY
    d = 0.0
    for a, b in terms:
        d = b + a * d
        d = 1 / (d if abs(d) > _TINY else _TINY)
        c = b + a / c
        c = c if abs(c) > _TINY else _TINY
        value *= c * d
        if abs(c * d - 1) < 4 * _EPSILON:
            break
    return 1 / value


def _rising_root(function: Callable[[float], float]) -> float:
    """Where a rising function crosses zero, on the positive numbers, by bisection."""
    low, high = 0.0, 1.0
    while function(high) < 0:
        low, high = high, 2 * high
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if function(middle) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _require_share(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise GoalError(f"{name} must lie between 0 and 1, got {value}")
