"""Whether a file is a whole study file: looked at before anything else is done with it."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from acetune.core.errors import AcetuneError, MissingExtraError, StudyError, StudyFileError
from acetune.study._formats import known_format
from acetune.study.connections import connect_to_read, is_accompanied, lacks_log

APPLICATION_ID = 0x41434554  # "ACET"
MARK_NAME = "being_written"  # a table that is there until the file is closed
_HEADER = 100  # bytes of a SQLite file before its tables
_TORN_S = 1.0  # until what cannot be read is not merely being written


@contextlib.contextmanager
def understanding(path: Path, *others: type[Exception]) -> Iterator[None]:
    """A block that only looks at a study: if something goes wrong in it, the file is damaged.

    Errors of ``others`` mean something else, and pass.
    """
    passing: tuple[type[Exception], ...] = (StudyError, MissingExtraError, *others)
    try:
        yield
    except passing:
        raise
    except (
        sqlite3.Error,
        AcetuneError,
        ArithmeticError,
        AssertionError,
        AttributeError,
        LookupError,
        MemoryError,
        RecursionError,
        TypeError,
        ValueError,
    ) as e:
        raise StudyFileError(f"{path} is damaged ({type(e).__name__}: {e})") from e


def require_intact(path: Path) -> None:
    """Refuse what is not a whole study file of a version we know, without writing to it."""
    # Never opened by hand: if this process writes to the file, closing it would take SQLite's
    # locks away, and another process could delete the log that is being written.
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise StudyFileError(f"there is no study file {path}") from None
    except OSError as error:
        raise StudyFileError(f"cannot read {path}: {error.strerror}") from None
    if path.is_dir() or not os.access(path, os.R_OK):
        wrong = errno.EISDIR if path.is_dir() else errno.EACCES
        raise StudyFileError(f"cannot read {path}: {os.strerror(wrong)}")
    foreign = f"{path} is not a study file, or it is damaged; it was left untouched"
    if size < _HEADER:
        raise StudyFileError(foreign)
    try:
        application = _application(path)
    except (sqlite3.Error, UnicodeDecodeError):
        raise StudyFileError(foreign) from None
    if application != APPLICATION_ID:
        raise StudyFileError(f"{path} is a database of another program; it was left untouched")
    require_log(path)
    try:
        with contextlib.closing(connect_to_read(path)) as db:
            known_format(db, path)  # again: the log beside it may say another one
            verdict = db.execute("PRAGMA quick_check(1)").fetchone()[0]
            db.execute("SELECT count(*) FROM study")
    except sqlite3.OperationalError as error:
        raise StudyFileError(f"cannot read {path}: {error}") from None
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # also in SQLite's own messages
        raise StudyFileError(f"{path} is damaged ({error}); it was left untouched") from None
    if verdict != "ok":
        raise StudyFileError(f"{path} is damaged ({verdict}); it was left untouched")


def _application(path: Path) -> int:
    """Which program's database a file is; one of ours whose format is unknown is refused."""
    give_up = time.monotonic() + _TORN_S
    while True:
        try:
            # as if it never changed: nothing is put beside a file that may be another program's
            with contextlib.closing(connect_to_read(path, "&immutable=1")) as db:
                application = int(db.execute("PRAGMA application_id").fetchone()[0])
                if application == APPLICATION_ID:
                    known_format(db, path)
            return application
        except (sqlite3.Error, StudyFileError) as error:
            # looked at without a lock, a file that is being written may be half old, half new
            if not is_accompanied(path):
                raise
            if time.monotonic() > give_up:
                if isinstance(error, sqlite3.DatabaseError):
                    return _application_in_header(path)
                raise
            time.sleep(_TORN_S / 50)


def _application_in_header(path: Path) -> int:
    """Which program's database a file is that is only whole together with its log.

    It is where its process was killed, or its disk was full, while SQLite moved what the log holds
    into the file: that begins with the header, which already says how long the file is to become.
    """
    with contextlib.closing(connect_to_read(path, "&immutable=1")) as db:
        db.execute("PRAGMA writable_schema = ON")  # read it although it is shorter than it says
        return int(db.execute("PRAGMA application_id").fetchone()[0])


def require_log(path: Path) -> None:
    """Refuse a file that is marked as being written, and whose log is not beside it.

    To be called before anything is read: SQLite would put an empty log there.
    """
    try:
        if not lacks_log(path):
            return
        with contextlib.closing(connect_to_read(path, "&immutable=1")) as db:
            sql = f"SELECT 1 FROM sqlite_master WHERE name = '{MARK_NAME}'"
            if db.execute(sql).fetchone() is None:
                return
        if not lacks_log(path):  # somebody has begun to write it since
            return
    except (OSError, sqlite3.Error, UnicodeDecodeError):
        return  # something else is wrong, and said by those who know better
    raise StudyFileError(
        f"{path} is not whole: it was copied while it was written, or its process was killed, "
        f"and {path.name}-wal, with what was written last, is not next to it. Copy both files; "
        "or, if there is no such file any more, go on with what is here:  python -c "
        f"\"import sqlite3; sqlite3.connect({str(path)!r}).execute('DROP TABLE {MARK_NAME}')\""
    )


def require_one_name(path: Path) -> None:
    """A file with two names could have two writers, each with a lock and a log of its own."""
    if path.exists() and path.stat().st_nlink > 1:
        raise StudyFileError(
            f"{path} has another name (a hard link), under which another process could write to "
            "it; delete that name, or make a copy with: cp"
        )
