"""Where an export goes: which format a name stands for, and files that are not overwritten."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from acetune.core.errors import AcetuneError, GoalError

Format: TypeAlias = Literal["csv", "parquet", "optuna"]
FORMATS: tuple[Format, ...] = get_args(Format)

_BY_SUFFIX: dict[str, Format] = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".db": "optuna",
    ".sqlite": "optuna",
    ".sqlite3": "optuna",
    ".log": "optuna",
}
_OUR_STUDIES = b"ACET"  # the application id in the header of a study file
_HEADER, _APPLICATION = 100, slice(68, 72)


def format_of(output: str, asked: str | None = None) -> Format:
    """The format that was asked for, or else the one that the name stands for.

    >>> format_of("trials.parquet"), format_of("sqlite:///optuna.db"), format_of("folder")
    ('parquet', 'optuna', 'csv')
    """
    if asked is not None:
        for known in FORMATS:
            if asked.lower() == known:
                return known
        raise GoalError(f"unknown format {asked!r}; it may be {', '.join(FORMATS)}")
    if "://" in output:
        return "optuna"
    path = Path(output)
    if path.suffix.lower() in _BY_SUFFIX and not path.is_dir():
        return _BY_SUFFIX[path.suffix.lower()]
    if not path.suffix or path.is_dir():
        return "csv"
    raise GoalError(
        f"cannot tell the format of {output!r} by its ending {path.suffix!r}; use .csv, .parquet, "
        ".db or .log (Optuna), a name without an ending for a folder of CSV files, or --format"
    )


def without_password(output: str) -> str:
    """A name or URL as it may be printed: without a password.

    >>> without_password("mysql://me:secret@host/studies")
    'mysql://...@host/studies'
    """
    scheme, separator, rest = output.rpartition("://")
    return f"{scheme}{separator}...@{rest.rpartition('@')[2]}" if "@" in rest and scheme else output


def is_study_file(path: Path) -> bool:
    """Whether there is a study file of acetune at ``path``: those are never written to."""
    try:
        with path.open("rb") as file:
            return file.read(_HEADER)[_APPLICATION] == _OUR_STUDIES
    except OSError:
        return False


def require_free(paths: list[Path], *, force: bool) -> None:
    """An error if a file exists that is not to be overwritten."""
    for path in paths:
        if is_study_file(path):
            raise AcetuneError(f"{path} is a study file; an export does not overwrite one")
        if path.is_dir():
            raise AcetuneError(f"{path} is a folder; give the name of a file, or remove it")
        if path.exists() and not force:
            raise AcetuneError(f"{path} exists; give another name, or overwrite it with --force")


def table_files(output: str | os.PathLike[str], suffix: str) -> list[Path]:
    """A file with the trials alone, or those of trials, reports and checks in a folder.

    >>> [str(path) for path in table_files("best.csv", ".csv")], len(table_files("all", ".csv"))
    (['best.csv'], 3)
    """
    place = Path(output)
    if place.suffix.lower() == suffix and not place.is_dir():
        return [place]
    return [place / f"{name}{suffix}" for name in ("trials", "reports", "checks")]
