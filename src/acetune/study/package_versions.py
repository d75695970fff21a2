"""Which versions of what were at work: kept with studies, tables and results."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from importlib import metadata


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """Of Python and of those packages that are installed."""
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
