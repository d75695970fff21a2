"""Raising with a message: ``assert`` would be silent under ``python -O``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

_T = TypeVar("_T")


def require(condition: object, message: str) -> None:
    """An AssertionError unless something holds."""
    if not condition:
        raise AssertionError(message)


def require_all(checks: Iterable[Callable[[_T], None]], subject: _T, name: str) -> None:
    """Run checks one after the other; the message of one that fails begins with a name."""
    for check in checks:
        try:
            check(subject)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error
