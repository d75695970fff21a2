"""Ticks of logarithmic axes."""

from __future__ import annotations

import math


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 of each decade between two positive numbers; only 1 over many decades.

    >>> log_ticks(0.4, 30)
    [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]
    """
    steps = (1, 2, 5) if high / low < 1e5 else (1,)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    # from text, as 5 * 10.0**-1 and the like are not always what people would write
    ticks = [float(f"{step}e{power}") for power in range(first, last + 1) for step in steps]
    return [tick for tick in ticks if low <= tick <= high]
