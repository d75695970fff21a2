"""Reading a large study in a second process, begun before this one has imported what it needs.

The reports of a study are only ever appended. So those up to a number may be read early and
elsewhere, and the view of the study reads the others itself. Nothing depends on the second process:
whatever goes wrong in it, the view reads everything.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from acetune.interprocess.child import CAPTURED, Process, start_interpreter
from acetune.study._formats import FORMAT
from acetune.study.connections import (
    computing_part,
    connect_to_read,
    lacks_log,
    reading_address,
)
from acetune.trial.hardware import thread_variables

if TYPE_CHECKING:
    from acetune.study.report_arrays import Array

# a file, and not a function of a module: it imports NumPy and nothing of acetune, which would take
# as long again (0.15 s where NumPy takes 0.2)
_PROGRAM = Path(__file__).with_name("_read_report_rows.py")
_MANY = 100_000  # reports; fewer are read in less time than a process needs to start
_SHARE = 0.7  # of the reports: this process has to import more, and begins later


class ReadAhead:
    """The first reports of a study, being read in another process; none if there are few.

    This module imports little, so that it can begin early. Use it as a context: at the end the
    other process is ended, if it has not.

    Parameters
    ----------
    path:
        The study file. Whatever is wrong with it, the view will say. One of another format than
        that of now is left to the view too, which brings it up in a copy.

    Attributes
    ----------
    last:
        The number of the last report that is read ahead; 0 if none is.
    """

    def __init__(self, path: Path) -> None:
        self.last = 0
        self._identity: tuple[int, ...] = ()
        self._process: Process | None = None
        with contextlib.suppress(OSError, ValueError, sqlite3.Error):
            found = path.stat()
            self._identity = found.st_dev, found.st_ino
            if lacks_log(path):  # reading would put an empty one there: the view looks first
                return
            with contextlib.closing(connect_to_read(path)) as db:
                known = db.execute("PRAGMA user_version").fetchone()[0] == FORMAT
                newest = _newest(db) if known and computing_part(db) is None else 0
            if newest >= _MANY:
                self._process = start_interpreter(
                    # -P: its neighbours here are not to be found in place of Python's own modules
                    ["-P", str(_PROGRAM), reading_address(path), str(int(_SHARE * newest))],
                    thread_variables(1),  # it only copies
                    **CAPTURED,
                )
                self.last = int(_SHARE * newest)

    def is_of(self, identity: tuple[int, ...], db: sqlite3.Connection) -> bool:
        """Whether reports of this file are being read, and it still has them.

        It has not if it was replaced meanwhile, or its study was begun anew.
        """
        return self.last > 0 and self._identity == identity and _newest(db) >= self.last

    def take(self) -> dict[str, Array] | None:
        """The reports up to ``last``, once; None if they could not be read."""
        process, self._process = self._process, None
        if process is None:
            return None
        written, _ = process.communicate()
        if process.returncode != 0:
            return None
        # here, as they import NumPy
        from acetune.study._read_report_rows import rows_from_bytes
        from acetune.study.report_arrays import columns_of

        return columns_of(rows_from_bytes(written))

    def close(self) -> None:
        """End the other process."""
        process, self._process = self._process, None
        if process is not None:
            with process:
                process.kill()

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _newest(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT coalesce(max(seq), 0) FROM reports").fetchone()[0])
