"""The mean of values that lie in a known range, without any assumption about their distribution.

Rows that were drawn independently are bet on (Waudby-Smith and Ramdas, *Estimating means of bounded
random variables by betting*, 2024): whoever bets, row after row, that the mean lies within the
limit cannot become rich if it does not. The bound adapts to how much the rows vary. Sums of
independent parts that are not alike, such as sentences with several cases each, have the bounds of
Hoeffding (1963) and Bentkus (2004), as in Bates et al. (2021).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from acetune.certification._binomial import at_most

_Array = NDArray[np.float64]
_AIM = 0.05  # the level that bets are best for; they are valid at every level
_LARGEST_BET = 0.75  # of what could be lost at once


def betting_p_value(values: _Array, limit: float) -> float:
    """How surprising values between 0 and 1 are if their mean is ``limit`` or more.

    The order is shuffled, always in the same way: a file may be sorted by label.

    >>> betting_p_value(np.full(200, 0.1), 0.2) < 1e-4
    True
    """
    if limit >= 1.0:
        return 0.0
    if limit <= 0.0 or not len(values):
        return 1.0
    shuffled = np.random.default_rng(0).permutation(values)
    before = np.arange(1, len(values) + 1)  # rows seen before each one, and one that was made up
    # of each row against the mean after it, so that only the past tells the next bet
    after = (0.5 + np.cumsum(shuffled)) / (before + 1)
    squares = np.concatenate([[0.0], np.cumsum((shuffled - after) ** 2)[:-1]])
    variance = (0.25 + squares) / before
    size = np.sqrt(2 * math.log(1 / _AIM) / (len(values) * variance))
    bets = np.minimum(size, _LARGEST_BET / (1.0 - limit))
    wealth = np.cumsum(np.log1p(bets * (limit - shuffled)))
    return min(1.0, math.exp(-max(0.0, float(wealth.max()))))


def sum_p_value(parts: _Array, weights: _Array, limit: float) -> float:
    """How surprising the sum of independent parts is if its mean is ``limit`` or more.

    Each part lies between 0 and its weight.

    >>> weights = np.full(1000, 0.001)
    >>> round(sum_p_value(0.1 * weights, weights, 0.15), 6) < 0.001
    True
    """
    whole = float(weights.sum())
    if limit >= whole:
        return 0.0
    if limit <= 0.0 or not len(parts):
        return 1.0
    seen = float(parts.sum())
    if seen >= limit:
        return 1.0
    by_range = math.exp(-2 * (limit - seen) ** 2 / float(weights @ weights))
    # the same parts, as shares of the largest weight
    number, largest = len(weights), float(weights.max())
    share, mean = seen / (number * largest), limit / (number * largest)
    by_entropy = math.exp(-number * _divergence(share, mean))
    by_binomial = math.e * at_most(math.ceil(number * share - 1e-9), number, mean)
    return min(1.0, by_range, by_entropy, by_binomial)


def _divergence(share: float, mean: float) -> float:
    """Of two coins, in nats."""
    found = 0.0
    if share > 0:
        found += share * math.log(share / mean)
    if share < 1:
        found += (1 - share) * math.log((1 - share) / (1 - mean))
    return found
