"""What part of an axis to show, so that a few wild values do not hide the rest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from acetune.report.figures._drawing import Json
from acetune.report.figures._figure_data import Floats

_FAR = 1e300  # what an axis can show; beyond it differences are no numbers any more


class Window(NamedTuple):
    """The part of an axis that is shown, and how many values lie outside."""

    low: float
    high: float
    outside: int

    @property
    def range(self) -> list[float]:
        """As Plotly wants it."""
        return [self.low, self.high]

    @property
    def span(self) -> float:
        """How much it covers."""
        return self.high - self.low


def window(values: Floats, keep: Sequence[float] = ()) -> Window:
    """Where nearly all values lie, and all that must be seen.

    Cut only where the rest, one in 25 on each side, would take more than half of the axis.

    >>> window(np.r_[np.linspace(0, 1, 100), 1e9], keep=[1.5]).outside
    1
    """
    values = within_reach(values[np.isfinite(values)])
    kept = within_reach(np.array([v for v in keep if math.isfinite(v)], float))
    if not len(values) + len(kept):
        return Window(0.0, 1.0, 0)
    if len(values):
        middle = np.quantile(values, [0.04, 0.96])
        kept = np.concatenate([kept, middle])
    low, high = float(kept.min()), float(kept.max())
    if len(values):
        room = 0.5 * (high - low)
        least, most = float(values.min()), float(values.max())
        low = min(low, least) if least >= low - room else low - 0.1 * room
        high = max(high, most) if most <= high + room else high + 0.1 * room
    pad = 0.05 * ((high - low) or abs(high)) or 1.0
    low, high = low - pad, high + pad
    return Window(low, high, int(np.sum((values < low) | (values > high))))


def within_reach(values: Floats) -> Floats:
    """The values, those that no axis can show at its farthest ends.

    >>> within_reach(np.array([-1.7e308, 2.0])).tolist()
    [-1e+300, 2.0]
    """
    return np.clip(values, -_FAR, _FAR)


def log_axis(low: float, high: float) -> Json:
    """A logarithmic axis between two powers of ten, its ticks written out and not too many.

    >>> log_axis(0.0, 1.5)["ticktext"]
    ['1', '2', '5', '10', '20']
    """
    digits = (1, 2, 5) if high - low < 1.7 else (1, 3) if high - low < 3 else (1,)
    every = max(1, math.ceil((high - low) / 7))  # decades
    powers = range(math.floor(low), math.ceil(high) + 1)
    # from text, as 5 * 10.0**-1 and the like are not always what people would write
    ticks = [float(f"{digit}e{power}") for power in powers if not power % every for digit in digits]
    ticks = [tick for tick in ticks if low <= math.log10(tick) <= high]
    text = [f"{tick:g}" if tick < 1e5 else f"{tick:.0e}" for tick in ticks]
    return {"type": "log", "range": [low, high], "tickvals": ticks, "ticktext": text}
