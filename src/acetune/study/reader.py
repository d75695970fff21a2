"""A study file as all who look at a study see it: columns in memory, read as they grow."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from acetune.core.errors import GoalError, StudyFileError
from acetune.core.goals import Goals, goals_from_json
from acetune.core.reason import Reason
from acetune.study._formats import connect_as_now
from acetune.study._queries import decoded_limit_changes, decoded_looks
from acetune.study._validation import read_confirmation, read_lines, read_study
from acetune.study.findings import judged_now, looks_of_earlier_checks, set_aside
from acetune.study.integrity import require_log, understanding
from acetune.study.limit_changes import limits_at
from acetune.study.report_arrays import (
    Array,
    Checks,
    Reports,
    no_checks,
    no_reports,
    read_checks,
    read_reports,
)
from acetune.study.store import Store
from acetune.study.table_rows import TrialRow
from acetune.trial.artifacts import Kept

if TYPE_CHECKING:
    from acetune.study.read_ahead import ReadAhead

_Stat: TypeAlias = tuple[int, ...] | None  # what changes when a file does; None: there is none

_SMALL = (
    ("study", "rowid"),
    ("sessions", "session"),
    ("looks", "look"),
    ("check_changes", "change"),
    ("limit_changes", "change"),
    ("confirmations", "use"),
    ("checkpoints", "trial, attempt, step"),
)


class StudyView:
    """A study file, read into columns. It is never written to, and may be running.

    Used by one thread at a time, not always the same one. The file is open only while it is read:
    a driver that ends meanwhile is then the last to close it, and SQLite tidies up after it.

    Parameters
    ----------
    path:
        The study file.
    ahead:
        Who has begun to read it, if somebody has.
    whole:
        The file is known to be a whole study file, as it is to the one who writes it: it is not
        looked through.

    Attributes
    ----------
    path, info, goals:
        Where the file is, its row of the table ``study`` with JSON decoded, and what is wanted.
    reports, checks:
        The columns (:class:`~acetune.study.report_arrays.Reports`,
        :class:`~acetune.study.report_arrays.Checks`).
    trials:
        The latest attempt of each trial, in the order of their numbers.
    sessions, looks, check_changes, limit_changes, confirmations:
        The rows of these tables, in order; what was measured is decoded. What fresh data said is
        judged by the current limits, and set aside where it is about an earlier check.
    ended:
        Why the last session ended; None while it runs, or if it was killed.
    models:
        The models that are kept, by trial, attempt and step.
    startup_s, waited_s, disk_bytes:
        What starting all attempts took, how long they waited because checks are measured alone, and
        how much models and checkpoints take.
    running:
        Whether a process has the study now, to write to it.
    code_bytes:
        What the code for the workers, with its data, takes on disk: only while a session runs.
    tables:
        The rows of ``study``, ``sessions``, ``looks``, ``check_changes``, ``limit_changes``,
        ``confirmations`` and ``checkpoints`` as they are.
    memory:
        For those who derive something from the columns and want to go on where they were.
    """

    info: dict[str, Any]
    goals: Goals
    reports: Reports
    checks: Checks
    trials: list[TrialRow]
    sessions: list[dict[str, Any]]
    looks: list[dict[str, Any]]
    check_changes: list[dict[str, Any]]
    limit_changes: list[dict[str, Any]]
    confirmations: list[dict[str, Any]]
    ended: Reason | None
    models: dict[tuple[int, int, int], Kept]
    startup_s: float
    waited_s: float
    disk_bytes: int
    running: bool

    def __init__(
        self, path: str | Path, ahead: ReadAhead | None = None, *, whole: bool = False
    ) -> None:
        self.path = Path(path)
        self._ahead = ahead
        # what SQLite and the driver keep beside the file lies beside the file itself, not a link
        self._file = self.path.resolve() if self.path.is_symlink() else self.path
        self._reports, self._checks = no_reports(), no_checks()
        self._last_seq = 0
        self._opened: Store | None = None
        self._trial_rows: dict[int, tuple[Any, ...]] = {}
        self._earlier: dict[int, list[TrialRow]] = {}
        self._places: dict[int, int] = {}
        self._attempts: Array = np.zeros(1, "i4")  # the latest, by trial
        self.tables: dict[str, list[dict[str, Any]]] = {}
        self._signature: tuple[_Stat, ...] = ()
        self._settled = False
        self._free: _Stat = None
        self.trials = []
        self.running = False
        self.memory: dict[str, Any] = {}
        if whole:
            self._begin()
            return
        # Once, what is no whole study file is refused; SQLite looks it through beside the reading.
        require_log(self.path)
        with ThreadPoolExecutor(1) as beside:
            looked_through = beside.submit(lambda: Store.read(self.path).close())
            try:
                self._begin()
            except StudyFileError:
                looked_through.result()  # knows better what is wrong, if anything is
                raise
            looked_through.result()

    def _begin(self) -> None:
        self._id = self._identity()
        self.refresh()

    def refresh(self) -> bool:
        """Read what is new. True if anything has changed; cheap when nothing has."""
        if self._identity() != self._id:
            raise StudyFileError(f"{self.path} was replaced by another file; open it again")
        signature = (self._stat(""), self._stat("-wal"))
        same = signature == self._signature
        changed = False
        # The times of files are coarse: what was committed in the same tick as the look before
        # shows at a second look.
        if not (same and self._settled):
            changed = self._read()
        self._signature, self._settled = signature, same
        was, self.running = self.running, self._is_running()
        return changed or was != self.running

    def _forget_columns(self) -> None:
        """What was read counts no more: read all of it again."""
        self._reports, self._checks = no_reports(), no_checks()
        self._last_seq = 0
        self.memory.clear()

    def close(self) -> None:
        """Let go of the columns; the file itself is not open."""
        self._reports, self._checks = no_reports(), no_checks()
        self._show_columns()
        self.memory.clear()

    def __enter__(self) -> StudyView:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def open(self) -> Iterator[Store]:
        """The study file, for a question that the columns do not answer.

        Within a block that has it open, the same one: opening takes longer than most questions.
        """
        if self._opened is not None:
            yield self._opened
            return
        with self._connected() as (store, _):
            self._opened = store
            try:
                yield store
            finally:
                self._opened = None

    def trial(self, number: int) -> TrialRow | None:
        """The latest attempt of a trial, or None."""
        at = self._places.get(number)
        return None if at is None else self.trials[at]

    def params(self, number: int) -> dict[str, Any]:
        """The parameters of a trial."""
        return self.trials[self._places[number]].params

    def attempts(self, number: int) -> list[TrialRow]:
        """All attempts of a trial, in order."""
        return [*self._earlier.get(number, []), self.trials[self._places[number]]]

    def attempt(self, number: int, attempt: int) -> TrialRow:
        """One attempt of a trial."""
        latest = self.trials[self._places[number]]
        if latest.attempt == attempt:
            return latest
        return next(row for row in self._earlier[number] if row.attempt == attempt)

    def numbers(self, trial: int, attempt: int) -> list[int]:
        """The numbers (``seq``) of the reports of an attempt, in order."""
        its = (self.reports.trial == trial) & (self.reports.attempt == attempt)
        found: list[int] = self.reports.seq[its].tolist()
        return found

    @property
    def code_bytes(self) -> int:
        """See the class. Its file has no name, so that the study file tells its size."""
        taken = self.info["settings"].get("code_bytes", 0)
        return taken if self.running and self.ended is None and type(taken) is int else 0

    @property
    def is_latest(self) -> Array:
        """Whether a report belongs to the latest attempt of its trial."""
        latest: Array = self._attempts[self.reports.trial] == self.reports.attempt
        return latest

    # -- reading ---------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _connected(self) -> Iterator[tuple[Store, sqlite3.Connection]]:
        with contextlib.ExitStack() as opened:
            try:
                with understanding(self.path, sqlite3.Error, UnicodeDecodeError):
                    db = connect_as_now(self._file)
                    opened.callback(db.close)
                    store = Store(self._file, db, None)
            except (sqlite3.Error, UnicodeDecodeError) as error:  # also in SQLite's own messages
                raise StudyFileError(f"cannot read {self.path}: {error}") from None
            with store.understanding():
                yield store, db

    def _read(self) -> bool:
        with self._connected() as (store, db):
            db.execute("BEGIN")  # all tables as they were at one moment
            changed = self._read_small_tables(store)
            changed |= self._read_trials(store)
            changed |= self._read_columns(db)
        return changed

    def _read_small_tables(self, store: Store) -> bool:
        read = {name: store.rows(f"SELECT * FROM {name} ORDER BY {by}") for name, by in _SMALL}
        if read == self.tables:
            return False
        for name in ("check_changes", "limit_changes"):
            if read[name] != self.tables.get(name, read[name]):
                self._forget_columns()  # checks may have been set aside, or judged anew
        self.tables = read
        info = read["study"][0]
        self.goals = goals_from_json(info["objective"], info["constraints"])
        self.info = read_study(info)
        self.sessions = read["sessions"]
        self.ended = None
        if self.sessions and self.sessions[-1]["ended"] is not None:
            last = self.sessions[-1]
            self.ended = store.reasons()[last["ended"], last["ended_numbers"]]
        self.looks = decoded_looks(read["looks"])
        self.check_changes = [
            {**row, "what": read_lines(row["what"], "what")} for row in read["check_changes"]
        ]
        self.limit_changes = decoded_limit_changes(read["limit_changes"])
        names = [constraint.name for constraint in self.goals.constraints]
        self.confirmations = [read_confirmation(use, names) for use in read["confirmations"]]
        if self.limit_changes:
            limits = self.info["constraints"]
            self.confirmations = [
                judged_now(
                    use, self.goals, limits_at(self.limit_changes, limits, "look", use["look"])
                )
                for use in self.confirmations
            ]
        earlier = looks_of_earlier_checks(self.looks, self.check_changes)
        self.confirmations = [
            set_aside(use) if use["look"] in earlier else use for use in self.confirmations
        ]
        self.models = {
            (row.trial, row.attempt, row.step): row.kept
            for row in map(store.understood, read["checkpoints"])
            if row.kind == "model"
        }
        self.disk_bytes = sum(row["bytes"] for row in read["checkpoints"])
        return True

    def _read_trials(self, store: Store) -> bool:
        rows, reasons = store.trial_values(), store.reasons()
        self.startup_s = sum(row[8] or 0.0 for row in rows)
        self.waited_s = store.waited()
        latest = {row[0]: row for row in rows}  # the last of several attempts stays
        if latest == self._trial_rows:
            return False
        self._earlier = {}
        if len(latest) < len(rows):
            for row in rows:
                if row is not latest[row[0]]:
                    self._earlier.setdefault(row[0], []).append(TrialRow.read(row, reasons))
        known = {trial.trial: trial for trial in self.trials}
        self.trials = [
            known[number] if self._trial_rows.get(number) == row else TrialRow.read(row, reasons)
            for number, row in latest.items()
        ]
        self._trial_rows = latest
        self._places = {number: place for place, number in enumerate(latest)}
        if not 0 < min(latest, default=1) <= max(latest, default=1) < 2**31:
            raise ValueError(f"it has trials {min(latest)} to {max(latest)}")
        self._attempts = np.zeros(1 + max(latest, default=0), "i4")
        self._attempts[list(latest)] = [row[1] for row in latest.values()]
        return True

    def _read_columns(self, db: sqlite3.Connection) -> bool:
        ahead, self._ahead = self._ahead, None
        if ahead is not None and not ahead.is_of(self._id, db):
            ahead = None
        new = read_reports(db, self._last_seq if ahead is None else ahead.last)
        if ahead is None and not len(new["seq"]) and hasattr(self, "reports"):
            return False
        names = [constraint.name for constraint in self.goals.constraints]
        checks = read_checks(db, self._last_seq, names)
        if ahead is not None:  # last: until here it had time to read
            self._reports.append(ahead.take() or read_reports(db, 0, ahead.last))
        self._reports.append(new)
        columns = self._reports.columns()
        seq = columns["seq"]
        self._require_known(columns["trial"], columns["attempt"])
        self._checks.append(checks | {"row": np.searchsorted(seq, checks["seq"])})
        self._last_seq = int(seq[-1]) if len(seq) else 0
        self._show_columns()
        return True

    def _require_known(self, trial: Array, attempt: Array) -> None:
        """Every report is of an attempt that the file knows."""
        if len(trial) and not 0 < trial.min() <= trial.max() < len(self._attempts):
            raise ValueError(f"it has reports of a trial {trial.max()} that it does not know")
        strange = np.flatnonzero((attempt < 1) | (attempt > self._attempts[trial]))
        if len(strange):
            raise ValueError(
                f"it has reports of an attempt {attempt[strange[0]]} of trial {trial[strange[0]]} "
                "that it does not know"
            )

    def _show_columns(self) -> None:
        self.reports = Reports(**self._reports.columns())
        self.checks = Checks(**self._checks.columns())

    # -- the files -------------------------------------------------------------------------------

    def _stat(self, ending: str) -> _Stat:
        try:
            found = Path(f"{self._file}{ending}").stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

    def _identity(self) -> tuple[int, ...]:
        try:
            found = self.path.stat()
        except OSError:
            raise StudyFileError(f"there is no study file {self.path} any more") from None
        return found.st_dev, found.st_ino

    def _is_running(self) -> bool:
        """Whether its lock is held.

        To ask the kernel one has to take the lock, if only for microseconds, and a driver that
        starts just then would be refused. So it is asked shared, which disturbs no driver that
        runs, and once it was free not again before the lock file has changed: whoever takes the
        lock writes its number there.
        """
        signature = self._stat("-lock")
        if signature is None or signature == self._free:
            return False
        try:
            lock = os.open(f"{self._file}-lock", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # a file system without locks: nobody can hold one
            return False
        finally:
            os.close(lock)
        self._free = signature
        return False


def as_path(study: str | Path) -> Path:
    """The name of a study file as a path; what is no name is an error."""
    if not isinstance(study, (str, os.PathLike)):
        raise GoalError(f"study must be the name of a file, such as 'study.db', got {study!r}")
    return Path(study)


@contextlib.contextmanager
def viewing(path: str | Path, ahead: ReadAhead | None = None) -> Iterator[StudyView]:
    """A study file read for a block that only looks at it: what goes wrong there is the file's."""
    with StudyView(path, ahead) as view, understanding(view.path):
        yield view
