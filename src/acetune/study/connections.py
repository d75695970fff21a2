"""SQLite files, for all who keep something in one: no other room imports ``sqlite3``."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sqlite3
import tempfile
from pathlib import Path

Connection = sqlite3.Connection
Fault = sqlite3.Error
Clash = sqlite3.IntegrityError  # a row with this key is there already

_MOUNTS = Path("/proc/self/mountinfo")
_OCTAL = re.compile(r"\\([0-7]{3})")  # a space in a name, say
_NETWORKED = ("nfs", "cifs", "smb", "afs", "9p", "ceph", "lustre", "beegfs", "gpfs", "fuse.sshfs")
_PLAIN = re.compile(r"CREATE (TABLE|INDEX|UNIQUE INDEX) ", re.IGNORECASE)
_NO_CODE = re.compile(  # literals, names in quotes and comments
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^]]*\]|--[^\n]*|/\*.*?(?:\*/|\Z)""", re.DOTALL
)
_COMPUTES = re.compile(r"\b(CHECK|GENERATED|AS)\b", re.IGNORECASE)


def connect(path: Path) -> Connection:
    """A file opened for writing; it is made where there is none."""
    return sqlite3.connect(path)


def connect_to_read(path: Path, options: str = "") -> Connection:
    """A file opened for reading, also while another process writes to it.

    ``options`` are further ones of SQLite's address of a file, such as ``&immutable=1``.
    """
    address, file = reading_address(path), path.resolve()
    if _never_ends(file):
        raise sqlite3.OperationalError("it is a pipe or a device, not a file")
    effective = os.access in os.supports_effective_ids
    if options or os.access(file.parent, os.W_OK, effective_ids=effective):
        return sqlite3.connect(address + options, uri=True, timeout=10)
    db = sqlite3.connect(address, uri=True, timeout=10)
    try:
        db.execute("SELECT 1 FROM sqlite_master LIMIT 1")
    except sqlite3.OperationalError:  # SQLite has to put a file beside one that has a log
        db.close()
        return _connect_where_nothing_can_be_written(file)
    return db


def _never_ends(path: Path) -> bool:
    """Whether opening it would wait, for ever perhaps."""
    return path.exists() and not (path.is_file() or path.is_dir())


def _connect_where_nothing_can_be_written(file: Path) -> Connection:
    """On a read-only disk nobody writes; what is in a log is read from a copy of both files."""
    log = file.with_name(file.name + "-wal")
    try:
        logged = log.stat().st_size > 0
    except OSError:
        logged = False
    if not logged:
        return sqlite3.connect(f"{file.as_uri()}?mode=ro&immutable=1", uri=True)
    with tempfile.TemporaryDirectory(prefix="acetune-") as folder:
        copy = Path(folder, "study.db")
        try:
            shutil.copyfile(file, copy)
            shutil.copyfile(log, f"{copy}-wal")
        except OSError as error:
            raise sqlite3.OperationalError(f"cannot copy it to read it: {error}") from None
        db = sqlite3.connect(copy)
        db.execute("SELECT 1 FROM sqlite_master LIMIT 1")  # its files are open now
        return db


def reading_address(path: Path) -> str:
    """The address by which SQLite opens a file for reading."""
    return f"{path.resolve().as_uri()}?mode=ro"


def write_copy(path: Path, place: Path) -> None:
    """One new file with all that a file and its log hold."""
    with contextlib.closing(connect_to_read(path)) as db:
        db.execute("VACUUM INTO ?", (str(place),))


def is_accompanied(path: Path) -> bool:
    """Whether a log or a lock lies beside a file: somebody may be writing it."""
    file = path.resolve()
    beside = (file.with_name(file.name + ending) for ending in ("-wal", "-journal", "-lock"))
    return any(map(os.path.lexists, beside))


def lacks_log(path: Path) -> bool:
    """Whether a file that may have a log is alone, and nobody is about to write it."""
    if is_accompanied(path) or _never_ends(path):
        return False
    # nobody writes it, so it may be opened by hand; a copy that SQLite has made needs no log
    with path.open("rb") as opened:
        return opened.read(20)[18:] == b"\2\2"


def computing_part(db: Connection) -> str | None:
    """What of a database computes something when it is used, perhaps without end, if anything.

    A view does, a trigger, a virtual table, and a table with generated columns or conditions.
    """
    for name, sql in db.execute("SELECT name, sql FROM sqlite_master WHERE sql NOT NULL"):
        # SQLite goes by the statement alone, whatever the columns beside it say
        code = _NO_CODE.sub(" ", str(sql))
        if not _PLAIN.match(str(sql)) or _COMPUTES.search(code):
            return str(name)
    return None


def network_file_system(path: Path, mounts: Path = _MOUNTS) -> str | None:
    """The kind of file system that a file lies on, if it is one of a network; Linux tells."""
    try:
        lines = mounts.read_text(errors="replace").splitlines()
    except OSError:
        return None
    folder, longest, kind = path.resolve(), -1, ""
    for line in lines:
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(), after.split()
        if len(fields) < 5 or not kinds:
            continue
        place = Path(_OCTAL.sub(lambda found: chr(int(found[1], 8)), fields[4]))
        if len(place.parts) >= longest and folder.is_relative_to(place):
            longest, kind = len(place.parts), kinds[0]  # of two at one place the later counts
    return kind if kind.startswith(_NETWORKED) else None


def has_table(path: Path, name: str) -> bool:
    """Whether a file is a database with such a table."""
    try:
        with contextlib.closing(connect_to_read(path)) as db:
            sql = "SELECT 1 FROM sqlite_master WHERE name = ?"
            return db.execute(sql, (name,)).fetchone() is not None
    except Fault:
        return False
