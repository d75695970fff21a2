"""Limits as people write them: ``eod<=0.25``."""

from __future__ import annotations

import re

from acetune.core.errors import GoalError
from acetune.core.goals import Constraint

_LIMIT = re.compile(r"\s*([^<>=\s](?:[^<>=]*[^<>=\s])?)\s*([<>]=)\s*([^<>=\s]+)\s*")


def parse_limit(text: str) -> Constraint:
    """A constraint from ``METRIC<=NUMBER`` or ``METRIC>=NUMBER``; spaces do not matter.

    >>> parse_limit("eod<=0.25").upper
    0.25
    >>> parse_limit(" recall >= 9e-1 ").describe()
    'recall >= 0.9'
    """
    form = f"a limit reads METRIC<=NUMBER or METRIC>=NUMBER, such as eod<=0.25; got {text!r}"
    match = _LIMIT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise GoalError(form)
    metric, sign, number = match.groups()
    try:
        limit = float(number)
    except ValueError:
        raise GoalError(f"{form}, where {number!r} is no number") from None
    return Constraint(metric, upper=limit) if sign == "<=" else Constraint(metric, lower=limit)
