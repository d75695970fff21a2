"""SQLite files, for all who keep something in one: no other room imports ``sqlite3``."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

Connection = sqlite3.Connection
Fault = sqlite3.Error
Clash = sqlite3.IntegrityError  # a row with this key is there already


def connect(path: Path) -> Connection:
    """A file opened for writing; it is made where there is none."""
    return sqlite3.connect(path)


def connect_to_read(path: Path, options: str = "") -> Connection:
    """A file opened for reading, also while another process writes to it.

    ``options`` are further ones of SQLite's address of a file, such as ``&immutable=1``.
    """
    return sqlite3.connect(reading_address(path) + options, uri=True, timeout=10)


def reading_address(path: Path) -> str:
    """The address by which SQLite opens a file for reading."""
    return f"{path.resolve().as_uri()}?mode=ro"


def write_copy(path: Path, place: Path) -> None:
    """One new file with all that a file and its log hold."""
    with contextlib.closing(connect_to_read(path)) as db:
        db.execute("VACUUM INTO ?", (str(place),))


def has_table(path: Path, name: str) -> bool:
    """Whether a file is a database with such a table."""
    try:
        with contextlib.closing(connect_to_read(path)) as db:
            sql = "SELECT 1 FROM sqlite_master WHERE name = ?"
            return db.execute(sql, (name,)).fetchone() is not None
    except Fault:
        return False
