"""Numbers that people give as arguments, validated: errors name the argument and its value."""

from __future__ import annotations

import math
from typing import TypeGuard

from acetune.core.errors import GoalError


def is_number(value: object) -> TypeGuard[float]:
    """Whether an argument is a finite number (True and False are none).

    >>> is_number(3), is_number(0.5), is_number(True), is_number(float("nan")), is_number("3")
    (True, True, False, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value)


def require_whole(name: str, value: int, least: int) -> None:
    """Validate an argument that counts something."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise GoalError(f"{name} must be a whole number >= {least}, got {value!r}")


def require_share(name: str, value: float) -> None:
    """Validate an argument that is a share of something."""
    if not is_number(value) or not 0 <= value <= 1:
        raise GoalError(f"{name} must be a share between 0 and 1, got {value!r}")
