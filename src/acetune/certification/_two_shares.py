"""Two shares of different people compared, exactly: a rate in one group against that in another.

The null hypothesis is ``a * p1 - b * p2 >= c``: with a = b = 1 that the first rate is larger by c
or more, with c = 0 and b = 1 that the second is at most a times the first. The test rejects when
``a * x / n - b * y / m`` is small. Its p-value is the largest probability, over the rates on the
boundary of the hypothesis, of what was seen or less. No approximation of the distribution is made,
so that groups of five people are as safe as groups of five thousand. Up to ``STUDENTISED`` rows,
"small" is meant in standard errors under the hypothesis, which finds more in small groups.

Rates that the data rule out are left out of that maximum (Berger and Boos, *P values maximized over
a confidence set for the nuisance parameter*, 1994): those outside of the intervals of both rates at
a level of ``RULED_OUT``, which is added to the p-value.

For a true pair of rates inside the hypothesis, any boundary point between ``p2`` and the point that
belongs to ``p1`` makes a rejection more likely, because the rejected outcomes are those with few
successes in the first group and many in the second. The intersection of both intervals holds such a
point whenever both intervals hold; where it is empty, the p-value is 1.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from acetune.certification._binomial import lower_bound, upper_bound

_Array = NDArray[np.float64]
RULED_OUT = 1e-6
STUDENTISED = 4_000  # rows of both groups
_GRID = 97  # boundary points: the probability is smooth in them
_TIE = 1e-9


def p_value(x: int, n: int, y: int, m: int, a: float, b: float, c: float) -> float:
    """How surprising x of n and y of m are if ``a * p1 - b * p2 >= c``.

    >>> round(p_value(20, 100, 20, 100, 1, 1, 0.15), 4)
    0.0069
    >>> p_value(0, 5, 0, 5, 1, 1, 0.1) > 0.5      # five people show little
    True
    """
    end = min(1.0, (a - c) / b)  # where the first rate is 1
    if end < 0:
        return 0.0  # nothing can be so far apart
    (least, most), (lowest, highest) = _not_ruled_out(x, n), _not_ruled_out(y, m)
    low, high = max(0.0, lowest, (a * least - c) / b), min(end, highest, (a * most - c) / b)
    if low > high:
        return 1.0 if a * x / n - b * y / m > c else RULED_OUT
    second = np.linspace(low, high, _GRID)
    first = np.clip((c + b * second) / a, 0.0, 1.0)
    xs = _window(n, float(first.min()), float(first.max()))
    ys = _window(m, float(second.min()), float(second.max()))
    if n + m <= STUDENTISED:
        seen = _distance(np.array([[float(x)]]), n, np.array([[float(y)]]), m, a, b, c)
        near = _distance(xs[None, :], n, ys[:, None], m, a, b, c) <= seen + _TIE
        # the most successes in the first group for each count in the second; it never falls
        last = np.where(near.any(axis=1), len(xs) - 1 - near[:, ::-1].argmax(axis=1), -1)
        place = np.maximum.accumulate(last)
    else:
        reach = np.floor(n / a * (a * x / n - b * y / m + b * ys / m) + _TIE)
        place = np.clip(reach - xs[0], -1, len(xs) - 1).astype(int)
    below = np.cumsum(_masses(xs, n, first), axis=1)
    reached = np.where(place < 0, 0.0, below[:, place])
    chance = (_masses(ys, m, second) * reached).sum(axis=1)
    return min(1.0, float(chance.max()) + RULED_OUT)


@lru_cache(maxsize=4096)  # of a group in a rate, asked for with every other group
def _not_ruled_out(count: int, rows: int) -> tuple[float, float]:
    """The rates that the data leave possible."""
    tail = RULED_OUT / 4
    return lower_bound(count, rows, tail), upper_bound(count, rows, tail)


def _distance(xs: _Array, n: int, ys: _Array, m: int, a: float, b: float, c: float) -> _Array:
    """How far outcomes lie beyond the hypothesis, in standard errors on its boundary."""
    both = (xs + ys - n * c / a) / (m + n * b / a)
    second = np.minimum(np.maximum(both, 0.0), min(1.0, (a - c) / b))  # faster than np.clip
    first = np.minimum(np.maximum((c + b * second) / a, 0.0), 1.0)
    variance = (a**2 / n) * (first * (1 - first)) + (b**2 / m) * (second * (1 - second))
    beyond: _Array = (a * xs / n - b * ys / m - c) / np.sqrt(np.maximum(variance, 1e-12))
    return beyond


def _window(rows: int, low: float, high: float) -> _Array:
    """The counts that matter: eight standard deviations around the means, and some more."""
    spread = 8 * math.sqrt(rows * 0.25 if low <= 0.5 <= high else rows * _widest(low, high)) + 40
    least, most = math.floor(rows * low - spread), math.ceil(rows * high + spread)
    return np.arange(max(0, least), min(rows, most) + 1, dtype=float)


def _widest(low: float, high: float) -> float:
    return max(low * (1 - low), high * (1 - high))


def _masses(counts: _Array, rows: int, shares: _Array) -> _Array:
    """Binomial probabilities: a row for each share, a column for each count."""
    inner = np.clip(shares, 1e-300, 1 - 1e-16)[:, None]
    logs = _log_factorials(rows)
    at = counts.astype(int)
    ways = logs[rows] - logs[at] - logs[rows - at]
    masses: _Array = np.exp(ways + counts * np.log(inner) + (rows - counts) * np.log1p(-inner))
    masses[shares <= 0] = counts == 0
    masses[shares >= 1] = counts == rows
    return masses


@lru_cache(maxsize=64)
def _log_factorials(rows: int) -> _Array:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1.0, rows + 1)))])
