"""Names of a package, and optional packages, that are imported when they are first used.

A worker process starts fast because it opens only what its study needs.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from importlib import import_module
from typing import Any

from acetune.core.errors import MissingExtraError


def import_on_use(
    package: str, name: str, homes: Mapping[str, str], modules: Container[str] = ()
) -> Any:
    """What a package's ``__getattr__`` answers.

    Parameters
    ----------
    package, name:
        Whose ``__getattr__`` was asked, and for what.
    homes:
        In which module each name is.
    modules:
        The package's own modules that are opened on use too.

    >>> import_on_use("fractions", "Decimal", {"Decimal": "decimal"})
    <class 'decimal.Decimal'>
    """
    if name in modules:
        return import_module(f"{package}.{name}")
    if name in homes:
        return getattr(import_module(homes[name]), name)
    raise AttributeError(f"module {package!r} has no attribute {name!r}")


def import_extra(module: str, package: str, extra: str) -> Any:
    """A module of an optional package, or an error that names the install command."""
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtraError(package, extra) from None
