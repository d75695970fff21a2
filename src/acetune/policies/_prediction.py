"""A straight line through points, and how sure it is of the next one. Plain Python, no state."""

from __future__ import annotations

import math
from collections.abc import Sequence


def chance_below(points: Sequence[tuple[float, float]], x: float, limit: float) -> float | None:
    """The probability that y at ``x`` is below ``limit``, by the points (x, y) seen before.

    Ordinary least squares; y at a new x then follows Student's distribution with two degrees of
    freedom less than there are points, wider the fewer they are and the farther x lies from them.
    Points that lie on a line exactly give 0 or 1. None where they say nothing: fewer than three,
    or all at one x. All numbers must be finite. The cost is linear in the number of points.

    >>> chance_below([(1, 1), (2, 2), (3, 3)], x=4, limit=4.5)
    1.0
    >>> round(chance_below([(1, 1.1), (2, 1.9), (3, 2.9), (4, 4.1)], x=5, limit=4), 3)
    0.023
    """
    n = len(points)
    if n < 3:
        return None
    # In units of the largest number: squares can neither overflow nor depend on the unit.
    unit = max(abs(x), abs(limit), *(max(abs(a), abs(b)) for a, b in points)) or 1.0
    xs, ys = [a / unit for a, _ in points], [b / unit for _, b in points]
    # fsum: the same points in another order give the same answer
    mean_x, mean_y = math.fsum(xs) / n, math.fsum(ys) / n
    spread = math.fsum((a - mean_x) ** 2 for a in xs)
    if spread == 0 or min(xs) == max(xs):  # a mean of equal numbers may be rounded
        return None
    slope = math.fsum((a - mean_x) * (b - mean_y) for a, b in zip(xs, ys, strict=True)) / spread
    left = math.fsum((b - mean_y - slope * (a - mean_x)) ** 2 for a, b in zip(xs, ys, strict=True))
    away = x / unit - mean_x
    ahead = limit / unit - (mean_y + slope * away)
    error = math.sqrt(left / (n - 2) * (1 + 1 / n + away * away / spread))
    if error == 0:
        return 1.0 if ahead > 0 else 0.0
    return student_cdf(ahead / error, n - 2)


def student_cdf(t: float, df: int) -> float:
    """Student's distribution function for a whole number of degrees of freedom, by its finite sum.

    Abramowitz and Stegun 26.7.3 and 26.7.4.

    >>> round(student_cdf(-2.015, 5), 4)
    0.05
    """
    theta = math.atan(t / math.sqrt(df))
    cos_2 = df / (df + t * t)
    odd = df % 2
    term = math.cos(theta) if odd else 1.0
    total, k = 0.0, 1 + odd
    while k < df and term > 1e-18:
        total += term
        term *= cos_2 * k / (k + 1)
        k += 2
    within = math.sin(theta) * total
    if odd:
        within = 2 / math.pi * (theta + within)
    return min(1.0, max(0.0, 0.5 + within / 2))
