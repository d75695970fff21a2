"""A quantile of a sample, with its standard error."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from acetune.core.goals import Estimate

_WIDTH = 8.0  # standard deviations of a rank: what lies further away weighs nothing


def quantile(sample: NDArray[np.float64], share: float) -> Estimate:
    """The least value that at least ``share`` of a sorted sample does not exceed.

    The standard error is that of Maritz and Jarrett (*A note on estimating the variance of the
    sample median*, 1978), for any quantile: the one that endless bootstrapping would give. It
    takes the sample for independent draws.

    >>> quantile(np.arange(1.0, 101.0), 0.95).value
    95.0
    """
    n = len(sample)
    rank = max(1, math.ceil(n * share - 1e-9))
    spread = _WIDTH * math.sqrt(n * share * (1.0 - share)) + 1.0
    first, last = max(0, math.floor(rank - spread)), min(n, math.ceil(rank + spread))
    reached = _at_least(rank, n, np.arange(first, last + 1) / n)
    weights = np.diff(reached)
    value = float(sample[rank - 1])
    apart = sample[first:last] - value  # exactly 0 where all are equal
    variance = float(weights @ (apart - weights @ apart) ** 2)
    return Estimate(value, math.sqrt(max(0.0, variance)))


def _at_least(rank: int, n: int, chance: NDArray[np.float64]) -> NDArray[np.float64]:
    """That ``rank`` or more of ``n`` draws fall below where one does with this ``chance``."""
    total = np.zeros_like(chance)
    total[chance >= 1.0] = 1.0
    inner = (chance > 0.0) & (chance < 1.0)
    below, above = np.log(chance[inner]), np.log1p(-chance[inner])
    for count in range(rank, n + 1):
        ways = math.lgamma(n + 1) - math.lgamma(count + 1) - math.lgamma(n - count + 1)
        total[inner] += np.exp(ways + count * below + (n - count) * above)
    return total
