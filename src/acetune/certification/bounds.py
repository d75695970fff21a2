"""What the kinds of evidence need to bound a value."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import Literal, TypeAlias

Sense: TypeAlias = Literal["<=", ">="]
_STEPS = 24  # of a bisection, for bounds that people read


def normal_quantile(share: float) -> float:
    """The point that a standard normal stays below with this probability.

    >>> round(normal_quantile(0.95), 3)
    1.645
    """
    return NormalDist().inv_cdf(share)


def within(value: float, limit: float, sense: Sense) -> bool:
    """Whether a value keeps the limit."""
    return value <= limit if sense == "<=" else value >= limit


def always(limit: float, sense: Sense, low: float, high: float) -> bool:
    """Whether no possible value breaks the limit."""
    return limit >= high if sense == "<=" else limit <= low


def strictest(
    p_value: Callable[[float, Sense], float],
    level: float,
    sense: Sense,
    value: float,
    low: float,
    high: float,
) -> float:
    """The limit nearest to the value whose p-value is small enough; the end of the range if none.

    By bisection from the outside, so that the limit returned would be certified.
    """
    inside, outside = value, high if sense == "<=" else low
    for _ in range(_STEPS):
        middle = (inside + outside) / 2
        if p_value(middle, sense) <= level:
            outside = middle
        else:
            inside = middle
    return outside
