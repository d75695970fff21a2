"""Values as figures show them: words and numbers for people, and what part of an axis to show."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from acetune.core import formatting as words
from acetune.report.figures._figure_data import Floats

_DIGITS = 5
_HUGE = 1e300  # not rounded: rounded up it might leave what a float holds


def short(text: object, most: int = 40) -> str:
    """Text of unknown origin on one line, shortened.

    >>> short("learning\\nrate"), short("x" * 50, 8)
    ('learning rate', 'xxxxxxx…')
    """
    # before anything else: what is cut off need not be looked at
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)[: 4 * most]).split())
    return words.cut(line, most)


def safe(text: object, most: int = 40) -> str:
    """The same as Plotly takes it: no tags, no formulas. It does not know ``&quot;``.

    >>> safe("<b>lr</b>"), safe("$x$")
    ('&lt;b&gt;lr&lt;/b&gt;', '&#36;x&#36;')
    """
    return html.escape(short(text, most), quote=False).replace("$", "&#36;")


def number(value: float | None, digits: int = 4) -> str:
    """A number as people read it.

    >>> number(0.123456), number(None), number(float("inf")), number(123456.0)
    ('0.1235', 'none', 'infinite', '123,456')
    """
    if value is None or math.isnan(value):
        return "none"
    if math.isinf(value):
        return "infinite" if value > 0 else "-infinite"
    return words.number(value, digits)


def time_unit(span_s: float) -> tuple[float, str]:
    """Seconds in the unit of an axis, and its name.

    >>> time_unit(90), time_unit(1e5)
    ((1.0, 's'), (3600.0, 'h'))
    """
    if span_s < 600:
        return 1.0, "s"
    return (60.0, "min") if span_s < 6 * 3600 else (3600.0, "h")


def plain(values: ArrayLike, digits: int = _DIGITS) -> list[Any]:
    """Numbers for JSON: as many digits as a picture needs, None where there is no finite number.

    >>> plain([0.123456789, float("nan"), 12345678.9])
    [0.12346, None, 12346000.0]
    """
    array: NDArray[Any] = np.asarray(values)
    if array.dtype.kind in "iu":
        whole: list[Any] = array.tolist()
        return whole
    array = array.astype(float)
    rounded = [
        (float(f"{v:.{digits}g}") if abs(v) < _HUGE else v) if math.isfinite(v) else None
        for v in array.tolist()
    ]
    return [int(v) if v is not None and v == int(v) and abs(v) < 1e4 else v for v in rounded]


def plain_near(values: ArrayLike, span: float) -> list[Any]:
    """Numbers for JSON, rounded to a ten-thousandth of what the axis spans.

    >>> plain_near([1000.123456, 1000.2], span=1.0)
    [1000.1235, 1000.2]
    """
    if not (math.isfinite(span) and span > 0):
        return plain(values, 12)
    places = 4 - math.floor(math.log10(span))
    array = np.asarray(values, float)
    return [
        (round(v, places) if abs(v) < _HUGE else v) if math.isfinite(v) else None
        for v in array.tolist()
    ]


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


def log_axis(low: float, high: float) -> dict[str, Any]:
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
