"""The study file: one SQLite database, one writer, tables a person can query.

Everything acknowledged is committed first; in WAL mode a commit survives the process being killed
at any moment. The file is checked before it is opened for writing, so that a damaged or foreign
one is left as it was.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import math
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from acetune.core.errors import (
    AcetuneError,
    GoalError,
    MissingExtraError,
    StudyError,
    StudyFileError,
    StudyLockedError,
)
from acetune.core.goals import Estimate, FailedCheck
from acetune.core.reason import Reason, Wording
from acetune.core.report_values import from_columns, to_json
from acetune.core.trial_record import State
from acetune.study._formats import (
    FORMAT,
    SCHEMA,
    Reasons,
    bring_up,
    connect_as_now,
    keep_copy,
    known_format,
    make_private,
    read_wordings,
)
from acetune.study._validation import json_object, read_candidates, require_cells
from acetune.study.connections import (
    connect_to_read,
    is_accompanied,
    lacks_log,
    network_file_system,
)
from acetune.trial.artifacts import (
    Kept,
    OutsideError,
    confined,
    is_in_experiment,
    require_kept_name,
    sync_folder,
)

_new = tuple.__new__  # of a row: half the time of calling the class
Durability: TypeAlias = Literal["process", "power"]
FileFault = sqlite3.Error  # what writing may raise within a transaction; it ends in a StudyError
_APPLICATION_ID = 0x41434554  # "ACET"
_AT_ONCE = 10_000  # numbers in a query; SQLite takes 32,766
_HEADER = 100  # bytes of a SQLite file before its tables
_TORN_S = 1.0  # until what cannot be read is not merely being written
_MARK_NAME = "being_written"
_MARK = f"CREATE TABLE IF NOT EXISTS {_MARK_NAME} (process INTEGER)"  # is there until it is closed


class TrialRow(NamedTuple):
    """One row of ``trials``: an attempt of a trial."""

    trial: int
    attempt: int
    params: dict[str, Any]
    total_steps: int | None
    interval: int | None
    cost_ratio: float | None
    resumed_from: int
    state: State | Literal["rejected"]
    startup_cost_s: float | None
    started: float
    ended: float | None
    reason: Reason  # why it ended
    schedule: Reason  # when it is checked

    @classmethod
    def read(cls, values: tuple[Any, ...], reasons: Reasons) -> TrialRow:
        """The row of what :meth:`Store.trial_values` gives."""
        params = json_object(values[2], "params")
        return cls._make(
            (
                *(values[0], values[1], params, *values[3:11]),
                *(reasons[values[11:13]], reasons[values[13:]]),
            )
        )


class ReportRow(NamedTuple):
    """One row of ``reports`` with its checks."""

    seq: int
    trial: int
    attempt: int
    kind: str
    step: int
    objective: float
    checked_step: int | None
    checked_objective: float | None
    violation: float | None
    stratum: str
    rank: int | None
    of: int | None
    decision: str
    primary_cost_s: float | None
    snapshot_cost_s: float
    time: float
    metrics: str | None


class CheckRow(NamedTuple):
    """One row of ``checks``."""

    constraint: str
    value: float | None
    stderr: float | None
    cost_s: float | None
    error: str | None
    margin_se: float = 0.0  # by which it was judged
    note: str | None = None  # JSON: what else the check has said of the model

    @property
    def measurement(self) -> Estimate | FailedCheck:
        """What was measured."""
        return from_columns(self.value, self.stderr, self.error)


class EarlierTrial(NamedTuple):
    """One row of ``earlier_trials``: a trial of another study that this one learns from."""

    params: str  # JSON, as are the next but two
    total_steps: int | None
    ended: int
    reports: str  # [step, loss] each; smaller is better
    checks: str  # [step, how far beyond each limit] each


class NewVerdict(NamedTuple):
    """What a report with a check comes to by other limits; one not judged counts as unchecked."""

    checked_step: int | None
    checked_objective: float | None
    violation: float | None
    stratum: str
    seq: int


class KeptRow(NamedTuple):
    """One row of ``checkpoints``, found to be where it has to be."""

    trial: int
    attempt: int
    step: int
    kind: str
    kept: Kept


class Store:
    """A study file that is open. Use :meth:`create`, :meth:`open` or :meth:`read`.

    Parameters
    ----------
    path, connection, lock:
        The file, opened; the lock is that of a writer.
    experiment:
        The folder of a Ray experiment, whose trials keep their models in folders of their own.
        A reader looks for it where the study file is.
    """

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        lock: int | None,
        experiment: Path | None = None,
    ) -> None:
        self.path = path
        self._experiment = experiment
        self._db = connection
        self._lock = lock
        self._place: tuple[int, int] | None = None  # device and inode of the file, of a writer
        self._size, self._lost = 0, False
        self.notices: list[str] = []  # what has happened to the file, for the user to know
        self._wordings: dict[str, Wording] = {}  # what codes mean, once one was written
        newest = connection.execute("SELECT coalesce(max(seq), 0) FROM reports").fetchone()
        self._seq: int = newest[0]

    # -- opening ---------------------------------------------------------------------------------

    @classmethod
    def create(cls, path: Path, study: Mapping[str, Any], experiment: Path | None = None) -> Store:
        """Make a new study file and lock it."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = _lock(path)
        except OSError as error:
            raise StudyFileError(
                f"cannot write the study file {path}: {error.strerror}; give a path in a folder "
                "you may write to, study='...'"
            ) from None
        if path.exists():  # since the caller looked; nobody can make it now that we have the lock
            _unlock(lock, path)
            raise StudyFileError(f"{path} has just been made by another process; try again")
        try:
            # built under another name: a study file that exists is a whole one
            building = path.with_name(path.name + "-new")
            building.unlink(missing_ok=True)
            make_private(building)
            db = sqlite3.connect(building)
            db.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {FORMAT}")
            db.executescript(SCHEMA)
            _insert_study(db, study)
            db.execute(_MARK)
            db.commit()
            db.close()
            for leftover in ("-wal", "-shm", "-journal"):  # of a killed study that was deleted
                path.with_name(path.name + leftover).unlink(missing_ok=True)
            building.rename(path)
            sync_folder(path.parent)
            return cls(path, _connect(path), lock, experiment)._writing()
        except BaseException as error:
            _unlock(lock, path)
            if isinstance(error, (OSError, sqlite3.Error)):
                raise StudyFileError(f"cannot write the study file {path}: {error}") from None
            raise

    @classmethod
    def open(
        cls,
        path: Path,
        experiment: Path | None = None,
        look: Callable[[Store], None] = lambda store: None,
    ) -> Store:
        """Open an existing study file for writing; refused while another process has it.

        One of an older format is brought up to this one, and a copy of it kept. ``look`` is called
        before anything is done to the file, and may raise.
        """
        _require_one_name(path)
        _inspect(path)
        try:
            lock = _lock(path)
        except OSError as error:
            raise StudyFileError(f"cannot open {path} for writing: {error.strerror}") from None
        db = None
        try:
            db = _connect(path)
            version = known_format(db, path)
            with understanding(path, sqlite3.Error):
                store = cls(path, db, lock, experiment)
                if version == FORMAT:
                    require_cells(db)
                store.kept()  # what leads elsewhere is refused
            look(store)
            if version < FORMAT:
                copy = keep_copy(db, path, version)
                with understanding(path, sqlite3.Error):
                    bring_up(db, version)
                    require_cells(db)
                store.notices.append(
                    f"{path.name} was brought up from format {version} to {FORMAT}; {copy.name} "
                    "next to it is a copy of what it was: delete that when you like"
                )
            with db:
                db.execute(_MARK)
            store._writing()
        except BaseException as error:
            if db is not None:
                db.close()
            _unlock(lock, path)
            if isinstance(error, sqlite3.Error):
                raise StudyFileError(f"cannot open {path} for writing: {error}") from None
            raise
        return store

    @classmethod
    def read(cls, path: Path) -> Store:
        """Open an existing study file for reading, also while a study is running."""
        _inspect(path)
        db = None
        try:
            with understanding(path, sqlite3.Error):
                db = connect_as_now(path)
                store = cls(path, db, None)
                require_cells(db, arrays=True)
                store.kept()
        except BaseException as error:
            if db is not None:
                db.close()
            if isinstance(error, sqlite3.Error):
                raise StudyFileError(f"cannot read {path}: {error}") from None
            raise
        return store

    def _writing(self) -> Store:
        """Begin to write: from now on there is a log beside the file."""
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("SELECT 1 FROM sqlite_master").fetchone()  # makes the log
        self.put_on_disk()  # after a power cut a marked file without one would not be whole
        found = self.path.stat()
        self._place, self._size = (found.st_dev, found.st_ino), found.st_size
        kind = network_file_system(self.path)
        if kind is not None:
            self.notices.append(
                f"{self.path.name} lies on {kind}, a network file system, where its log cannot be "
                "shared between machines: look at it on this machine only, and let no other one "
                "run it; a local disk is safer"
            )
        return self

    def outlast(self, durability: Durability) -> None:
        """What commits survive from now on: that a process is killed, or a power cut too."""
        self._db.execute(f"PRAGMA synchronous = {'FULL' if durability == 'power' else 'NORMAL'}")
        self._db.execute("PRAGMA fullfsync = ON")  # macOS has a sync that reaches the disk itself

    def require_in_place(self) -> None:
        """Raise StudyFileError if the file that is being written is not there any more.

        SQLite goes on writing to a file that was deleted or moved.
        """
        if self._place is None or self._lost:
            return
        try:
            found = self.path.stat()
        except OSError as error:
            wrong = f"was deleted or moved while it was written ({error.strerror})"
        else:
            if (found.st_dev, found.st_ino) != self._place:
                wrong = "was replaced by another file while it was written"
            elif found.st_size < self._size:
                wrong = "was cut off by somebody else while it was written"
            else:
                self._size = found.st_size
                return
        self._lost = True
        raise StudyFileError(
            f"{self.path} {wrong}; the study has ended. What was moved is whole as soon as this "
            "process has ended; bring the file back, or begin a new study"
        )

    def close(self) -> None:
        """Close the file and let others have it: one file, with nothing beside it."""
        # of a file that was moved the rest is written to where it is now
        if self._lock is not None and not (self._lost and self.path.exists()):
            # without its log a file is read with nothing put beside it; who reads now keeps the log
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("PRAGMA busy_timeout = 1000")
                with self._db:
                    self._db.execute(f"DROP TABLE IF EXISTS {_MARK_NAME}")
                self._db.execute("PRAGMA journal_mode = DELETE")
        self._db.close()
        if self._lock is not None:
            _unlock(self._lock, self.path)
            self._lock = None

    @property
    def files(self) -> Path:
        """The folder beside the study file for models, checkpoints and logs."""
        file = self.path.resolve() if self.path.is_symlink() else self.path
        return file.with_name(file.name + ".files")

    # -- writing ---------------------------------------------------------------------------------

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Write several things as one. What was written counts once this block has ended.

        It counts also when something else than the file went wrong in between: each thing written
        is whole in itself, and an error must not take back what has happened.
        """
        try:
            try:
                yield
            finally:
                self._db.commit()
        except sqlite3.Error as error:
            if self._lost:  # which was said
                return
            raise StudyFileError(f"cannot write to {self.path}: {error}") from error

    def add_session(self, started: float, host: str) -> int:
        """A run of the driver begins."""
        cursor = self._db.execute(
            "INSERT INTO sessions (started, host) VALUES (?, ?)", (started, host)
        )
        return int(cursor.lastrowid or 0)

    def beat(self, session: int, seconds: float, search_s: float) -> None:
        """How long the session has run so far, in all and searching."""
        self._db.execute(
            "UPDATE sessions SET seconds = ?, search_s = ? WHERE session = ?",
            (seconds, search_s, session),
        )

    def end_session(self, session: int, why: Reason) -> None:
        """A run of the driver ends in good order."""
        self._db.execute(
            "UPDATE sessions SET ended = ?, ended_numbers = ? WHERE session = ?",
            (*self._coded(why), session),
        )

    def add_trial(
        self, trial: int, attempt: int, params: Mapping[str, Any], started: float, resumed_from: int
    ) -> None:
        """An attempt begins."""
        self._db.execute(
            "INSERT INTO trials (trial, attempt, params, state, started, resumed_from) "
            "VALUES (?, ?, ?, 'running', ?, ?)",
            (trial, attempt, json.dumps(params), started, resumed_from),
        )

    def set_plan(
        self,
        trial: int,
        attempt: int,
        total_steps: int | None,
        interval: int | None,
        cost_ratio: float | None,
        schedule: Reason,
        startup_s: float | None = None,
    ) -> None:
        """The last step is known, the interval, and when checks are due by them.

        ``startup_s`` is what the set-up before the first iteration cost; None: as it was.
        """
        self._db.execute(
            "UPDATE trials SET total_steps = ?, interval = ?, cost_ratio = ?, schedule = ?, "
            "schedule_numbers = ?, startup_cost_s = coalesce(?, startup_cost_s) "
            "WHERE trial = ? AND attempt = ?",
            (total_steps, interval, cost_ratio, *self._coded(schedule), startup_s, trial, attempt),
        )

    def end_trial(
        self,
        trial: int,
        attempt: int,
        state: str,
        reason: Reason,
        ended: float,
        traceback: str | None = None,
    ) -> None:
        """An attempt ends."""
        self._db.execute(
            "UPDATE trials SET state = ?, reason = ?, reason_numbers = ?, ended = ?, traceback = ? "
            "WHERE trial = ? AND attempt = ?",
            (state, *self._coded(reason), ended, _writable(traceback), trial, attempt),
        )

    def _coded(self, reason: Reason) -> tuple[str, str]:
        """A reason as two columns; what its code means is noted where it is new.

        What is written once keeps its meaning: a code that comes back with other words gets a
        number, as it does when a policy has changed since an earlier session.
        """
        if not reason:
            return "", "{}"
        known = self._wordings = self._wordings or self.wordings()
        code, sentence, short = (_writable(part) or "" for part in reason.wording)
        name, n = code, 1
        while name in known and known[name][1:] != (sentence, short):
            n += 1
            name = f"{code}_{n}"
        if name not in known:
            known[name] = Wording(name, sentence, short)
            self._db.execute("INSERT INTO wordings VALUES (?, ?, ?)", known[name])
        return name, json.dumps(dict(reason.numbers), default=_plain)

    def add_report(self, row: tuple[Any, ...], checks: Iterable[CheckRow] = ()) -> int:
        """Append a report (the fields of :class:`ReportRow` without seq) with its checks."""
        self._seq += 1
        marks = "?, " * len(row) + "?"
        self._db.execute(f"INSERT INTO reports VALUES ({marks})", (self._seq, *row))
        for check in checks:
            check = check._replace(error=_writable(check.error))
            self._db.execute(
                "INSERT INTO checks VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (self._seq, *check)
            )
        return self._seq

    def add_checkpoint(
        self,
        trial: int,
        attempt: int,
        step: int,
        kind: str,
        path: str,
        size: int,
        digest: str | None = None,
    ) -> None:
        """A model or a resumable state lies on disk."""
        self._db.execute(
            "INSERT OR REPLACE INTO checkpoints (trial, attempt, step, kind, path, bytes, digest) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (trial, attempt, step, kind, path, size, digest),
        )

    def drop_checkpoint(self, trial: int, attempt: int, step: int, kind: str) -> None:
        """A model or a resumable state is not kept any more."""
        self._db.execute(
            "DELETE FROM checkpoints WHERE trial = ? AND attempt = ? AND step = ? AND kind = ?",
            (trial, attempt, step, kind),
        )

    def put_on_disk(self) -> None:
        """Wait until all that was committed would outlast a power cut.

        Only the log is synced: whoever opens and closes the file itself loses SQLite's locks on it.
        """
        try:
            log = os.open(f"{self.path}-wal", os.O_RDONLY)
        except FileNotFoundError:  # all of it is in the file itself, and was synced on its way
            return
        try:
            os.fsync(log)
        finally:
            os.close(log)
        sync_folder(self.path.parent)

    def name_trial(self, trial: int, name: str) -> None:
        """Another engine's name of a trial, by which it is known again after a restore."""
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS names (trial INTEGER PRIMARY KEY, name TEXT UNIQUE)"
        )
        # a name that is given again has left the trial that had it
        self._db.execute("INSERT OR REPLACE INTO names VALUES (?, ?)", (trial, name))

    def set_hardware(self, trial: int, attempt: int, description: str) -> None:
        """What an attempt ran on: kept where a check depends on it."""
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS hardware (trial INTEGER NOT NULL, "
            "attempt INTEGER NOT NULL, description TEXT NOT NULL, PRIMARY KEY (trial, attempt))"
        )
        self._db.execute(
            "INSERT OR REPLACE INTO hardware VALUES (?, ?, ?)",
            (trial, attempt, _writable(description)),
        )

    def add_wait(self, trial: int, attempt: int, seconds: float) -> None:
        """An attempt has waited for others, because a check is measured alone."""
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS waits (trial INTEGER NOT NULL, attempt INTEGER NOT NULL, "
            "seconds REAL NOT NULL, PRIMARY KEY (trial, attempt))"
        )
        self._db.execute(
            "INSERT INTO waits VALUES (?, ?, ?) ON CONFLICT DO UPDATE "
            "SET seconds = seconds + excluded.seconds",
            (trial, attempt, seconds),
        )

    def add_earlier_study(self, path: str, digest: str, trials: Sequence[EarlierTrial]) -> None:
        """Another study that the searcher learns from: its trials, as they were when it began."""
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS earlier_studies (path TEXT PRIMARY KEY, "
            "digest TEXT NOT NULL)"
        )
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS earlier_trials (place INTEGER PRIMARY KEY, "
            "study TEXT NOT NULL, params TEXT NOT NULL, total_steps INTEGER, "
            "ended INTEGER NOT NULL, reports TEXT NOT NULL, checks TEXT NOT NULL)"
        )
        self._db.execute("INSERT INTO earlier_studies VALUES (?, ?)", (path, digest))
        self._db.executemany(
            "INSERT INTO earlier_trials (study, params, total_steps, ended, reports, checks) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            ((path, *trial) for trial in trials),
        )

    def add_confirmation(
        self,
        trial: int,
        attempt: int,
        step: int,
        status: str,
        metrics: Mapping[str, Estimate],
        error: str | None,
        time: float,
        look: int = 1,
        bounds: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """The confirmation data was used once more."""
        written = {name: to_json(found) for name, found in metrics.items()}
        bounded = json.dumps(dict(bounds or {}))
        self._db.execute(
            "INSERT INTO confirmations (trial, attempt, step, status, metrics, error, time, look, "
            "bounds) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(trial, attempt, step, status, json.dumps(written)),
                *(_writable(error), time, look, bounded),
            ),
        )

    def put_look(
        self,
        look: int,
        level: float,
        data: str | None,
        candidates: Sequence[tuple[int, int, int]],
        started: float,
    ) -> None:
        """What a look at fresh data will test, and in which order: written before it does.

        Its time is later than that of any change of a check, also where the clock was set back.
        """
        self._db.execute(
            "INSERT INTO looks VALUES (?, ?, ?, ?, "
            "max(?, (SELECT coalesce(max(time), 0) + 0.001 FROM check_changes)), NULL)",
            (look, level, _writable(data), json.dumps(candidates), started),
        )

    def end_look(self, look: int, ended: float) -> None:
        """A look has come to its end: its candidates are never tested again on these rows."""
        self._db.execute("UPDATE looks SET ended = ? WHERE look = ?", (ended, look))

    def _end_open_look(self, ended: float) -> None:
        self._db.execute("UPDATE looks SET ended = ? WHERE ended IS NULL", (ended,))

    def looks(self) -> list[dict[str, Any]]:
        """All looks at fresh data, with their candidates decoded."""
        return decoded_looks(self.rows("SELECT * FROM looks ORDER BY look"))

    def begin_anew(self, study: Mapping[str, Any]) -> None:
        """Forget all trials and sessions, and be about another study. Files beside it stay."""
        tables = self.rows("SELECT name FROM sqlite_master WHERE type = 'table'")
        for table in tables:
            self._db.execute(f"DELETE FROM {table['name']}")
        self._wordings = {}
        _insert_study(self._db, study)
        text = f"nothing was reported in {self.path.name} so far: the study is started again"
        self.notices.append(text)

    def set_settings(self, settings: str, constraints: str) -> None:
        """What a resume may change: settings, limits and the margins that acetune chooses."""
        self._db.execute("UPDATE study SET settings = ?, constraints = ?", (settings, constraints))

    def set_code(self, code: str, code_hash: str) -> None:
        """What train, confirm and the checks are made of now."""
        self._db.execute("UPDATE study SET code = ?, code_hash = ?", (code, code_hash))

    def add_check_change(
        self, how: str, what: Sequence[str], time: float, done: float | None
    ) -> int:
        """The study goes on with a changed check.

        Its time is not before that of any look at fresh data, also where the clock was set back.
        """
        cursor = self._db.execute(
            "INSERT INTO check_changes (time, seq, how, what, done) VALUES "
            "(max(?, (SELECT coalesce(max(started), 0) FROM looks)), ?, ?, ?, ?)",
            (time, self._seq, how, _writable(json.dumps(list(what))), done),
        )
        return int(cursor.lastrowid or 0)

    def set_checks_aside(self, change: int, time: float) -> None:
        """What was measured so far counts no more; it is kept, in a table of its own.

        A look at fresh data that was under way ends: what it has found so far was of other checks.
        """
        self._end_open_look(time)
        self._db.execute(
            "INSERT INTO earlier_checks SELECT ?, seq, trial, attempt, checked_step, "
            'checked_objective, "constraint", value, stderr, cost_s, error, margin_se, note '
            "FROM checks JOIN reports USING (seq)",
            (change,),
        )
        self._db.execute("DELETE FROM checks")
        self._db.execute("DELETE FROM reports WHERE kind != 'step'")  # they were checks alone
        self._db.execute(
            "UPDATE reports SET checked_step = NULL, checked_objective = NULL, violation = NULL, "
            "stratum = 'unchecked'"
        )

    def waiting_change(self) -> int | None:
        """The change of a check after which kept models wait to be measured again, if any."""
        found = self._db.execute("SELECT max(change) FROM check_changes WHERE done IS NULL")
        change: int | None = found.fetchone()[0]
        return change

    def end_check_changes(self, done: float) -> None:
        """All kept models were measured again."""
        self._db.execute("UPDATE check_changes SET done = ? WHERE done IS NULL", (done,))

    def add_limit_change(self, what: Sequence[str], time: float) -> int:
        """The study goes on under other limits: those of until now are noted.

        A look at fresh data that was under way ends: what it has listed was for other limits.
        """
        self._end_open_look(time)
        cursor = self._db.execute(
            "INSERT INTO limit_changes (time, session, seq, look, earlier, what) VALUES (?, "
            "(SELECT coalesce(max(session), 0) + 1 FROM sessions), ?, "
            "(SELECT coalesce(max(look), 0) FROM looks), (SELECT constraints FROM study), ?)",
            (time, self._seq, _writable(json.dumps(list(what)))),
        )
        return int(cursor.lastrowid or 0)

    def judge_again(
        self, change: int, verdicts: Iterable[NewVerdict], margins: Mapping[str, float]
    ) -> None:
        """Reports are judged by other limits, with these margins; what was said until now stays."""
        self._db.execute(
            "INSERT INTO earlier_verdicts SELECT ?, seq, checked_step, checked_objective, "
            'violation, stratum, json_group_object("constraint", margin_se) '
            "FROM reports JOIN checks USING (seq) GROUP BY seq",
            (change,),
        )
        self._db.executemany(
            "UPDATE reports SET checked_step = ?, checked_objective = ?, violation = ?, "
            "stratum = ? WHERE seq = ?",
            verdicts,
        )
        self._db.executemany(
            'UPDATE checks SET margin_se = ? WHERE "constraint" = ?',
            [(margin, name) for name, margin in margins.items()],
        )

    def judged_anew(self) -> int:
        """The last report that was decided on under other limits than those of now; 0: none."""
        found = self._db.execute("SELECT coalesce(max(seq), 0) FROM limit_changes").fetchone()
        return int(found[0])

    def limit_changes(self) -> list[dict[str, Any]]:
        """With which other limits the study went on, what they were and what has changed."""
        return decoded_limit_changes(self.rows("SELECT * FROM limit_changes ORDER BY change"))

    def checked_before(self) -> dict[int, tuple[int, float]]:
        """Step and objective of checkpoints that count as unchecked, by the ``seq`` of the report.

        Not all of their constraints were measured, and what was holds by the current limits.
        """
        found = self._db.execute(
            "SELECT e.seq, e.checked_step, e.checked_objective FROM earlier_verdicts e "
            "JOIN reports r USING (seq) WHERE r.stratum = 'unchecked' AND e.checked_step NOT NULL "
            "ORDER BY change"
        )
        return {seq: (step, value) for seq, step, value in found}

    def verdicts_then(self, numbers: Sequence[int]) -> dict[int, str]:
        """In which stratum reports were when they were decided on, where they were judged anew."""
        rows = self._numbered("earlier_verdicts", numbers)
        return {row["seq"]: row["stratum"] for row in sorted(rows, key=lambda r: -r["change"])}

    def earlier_checks_by_place(self) -> list[tuple[int, str]]:
        """How far beyond the limits trials of other studies lie, and where that is."""
        return self._db.execute("SELECT place, checks FROM earlier_trials").fetchall()

    def put_earlier_checks(self, checks: Iterable[tuple[str, int]]) -> None:
        """How far beyond the limits trials of other studies lie, by the places of their rows."""
        self._db.executemany("UPDATE earlier_trials SET checks = ? WHERE place = ?", checks)

    def measured_constraints(self) -> set[str]:
        """The constraints of which a check has given a number."""
        sql = 'SELECT DISTINCT "constraint" FROM checks WHERE value IS NOT NULL'
        return {name for (name,) in self._db.execute(sql)}

    def checked(self) -> set[tuple[int, int, int]]:
        """Trial, attempt and step of all checkpoints that were checked."""
        sql = "SELECT trial, attempt, checked_step FROM reports WHERE checked_step NOT NULL"
        return set(self._db.execute(sql))

    # -- reading ---------------------------------------------------------------------------------

    def understanding(self) -> AbstractContextManager[None]:
        """A block that only reads: if something goes wrong in it, the file holds nonsense."""
        return understanding(self.path)

    def study(self) -> dict[str, Any]:
        """The one row of ``study``."""
        return self.rows("SELECT * FROM study")[0]

    def rows(self, sql: str, values: tuple[Any, ...] = ()) -> list[dict[str, Any]]:
        """The rows of a query as dicts."""
        cursor = self._db.execute(sql, values)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def wordings(self) -> dict[str, Wording]:
        """What the codes of reasons mean."""
        return read_wordings(self._db)

    def reasons(self) -> Reasons:
        """Why trials and sessions ended, and when trials are checked, by their columns."""
        return Reasons(self.wordings())

    def names(self) -> dict[str, int]:
        """Trials by the names that another engine gave them: most studies have none."""
        if not self.rows("SELECT 1 FROM sqlite_master WHERE name = 'names'"):
            return {}
        return dict(self._db.execute("SELECT name, trial FROM names"))

    def hardware(self) -> dict[tuple[int, int], str]:
        """What attempts ran on, by trial and attempt, as far as it was noted."""
        if not self.rows("SELECT 1 FROM sqlite_master WHERE name = 'hardware'"):
            return {}
        rows = self._db.execute("SELECT trial, attempt, description FROM hardware")
        return {(trial, attempt): description for trial, attempt, description in rows}

    def waited(self) -> float:
        """Seconds that all attempts have waited, because checks are measured alone."""
        if not self.rows("SELECT 1 FROM sqlite_master WHERE name = 'waits'"):
            return 0.0
        return float(
            self._db.execute("SELECT coalesce(sum(seconds), 0.0) FROM waits").fetchone()[0]
        )

    def earlier_studies(self) -> dict[str, str]:
        """The studies that this one learns from: digests of their trials, by path."""
        if not self.rows("SELECT 1 FROM sqlite_master WHERE name = 'earlier_studies'"):
            return {}
        return dict(self._db.execute("SELECT path, digest FROM earlier_studies"))

    def earlier_trials(self) -> list[EarlierTrial]:
        """Their trials."""
        if not self.earlier_studies():
            return []
        sql = (
            "SELECT params, total_steps, ended, reports, checks FROM earlier_trials ORDER BY place"
        )
        return [EarlierTrial(*row) for row in self._db.execute(sql)]

    def reports(self, last: int | None = None) -> Iterator[tuple[ReportRow, list[CheckRow]]]:
        """All reports in the order they were acknowledged, each with its checks.

        ``last`` is the number of the last one: others may have come since somebody looked.
        """
        checks = self._db.execute("SELECT * FROM checks ORDER BY seq")
        ahead = checks.fetchone()
        upto = (2**63 - 1 if last is None else last,)
        for values in self._db.execute("SELECT * FROM reports WHERE seq <= ? ORDER BY seq", upto):
            row = _new(ReportRow, values)
            if values[5] is None:  # SQLite has no NaN
                row = row._replace(objective=math.nan)
            found = []
            while ahead is not None and ahead[0] == row.seq:
                found.append(CheckRow(*ahead[1:]))
                ahead = checks.fetchone()
            yield row, found

    def attempts(self) -> list[TrialRow]:
        """All attempts of all trials, in order."""
        reasons = self.reasons()
        return [TrialRow.read(values, reasons) for values in self.trial_values()]

    def trial_values(self) -> list[tuple[Any, ...]]:
        """The same as the file has it: for those who read only what has changed."""
        return self._db.execute(
            "SELECT trial, attempt, params, total_steps, interval, cost_ratio, resumed_from, "
            "state, startup_cost_s, started, ended, reason, reason_numbers, schedule, "
            "schedule_numbers FROM trials ORDER BY trial, attempt"
        ).fetchall()

    def traceback(self, trial: int, attempt: int) -> str | None:
        """Of the error that an attempt ended with, if it did."""
        sql = "SELECT traceback FROM trials WHERE trial = ? AND attempt = ?"
        found: tuple[str | None] = self._db.execute(sql, (trial, attempt)).fetchone()
        return found[0]

    def rejected(self) -> dict[int, dict[str, Any]]:
        """The parameters of the trials that break a limit on the configuration."""
        rows = self._db.execute("SELECT trial, params FROM trials WHERE state = 'rejected'")
        return {trial: json.loads(params) for trial, params in rows}

    def has_measured(self, constraints: int) -> bool:
        """Whether any check has given a finite number for so many constraints."""
        sql = (
            "SELECT 1 FROM reports JOIN checks USING (seq) WHERE violation < 9e999 "
            "GROUP BY seq HAVING count(*) = ? LIMIT 1"
        )
        return self._db.execute(sql, (constraints,)).fetchone() is not None

    def reports_at(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """The rows of ``reports`` with these numbers (``seq``), in order."""
        return self._numbered("reports", numbers)

    def checks_at(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """The rows of ``checks`` that belong to reports with these numbers, in their order."""
        return self._numbered("checks", numbers)

    def _numbered(self, table: str, numbers: Sequence[int]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for first in range(0, len(numbers), _AT_ONCE):
            some = tuple(numbers[first : first + _AT_ONCE])
            marks = ", ".join("?" * len(some))
            found += self.rows(f"SELECT * FROM {table} WHERE seq IN ({marks}) ORDER BY seq", some)
        return found

    def first_failed_check(self) -> tuple[int, str, str] | None:
        """Trial, constraint and error of the first check that gave no number.

        Not of one that was left out because of another.
        """
        found: tuple[int, str, str] | None = self._db.execute(
            'SELECT trial, "constraint", error FROM checks JOIN reports USING (seq) '
            "WHERE value IS NULL ORDER BY seq, cost_s IS NULL LIMIT 1"
        ).fetchone()
        return found

    def kept(self, where: str = "", values: tuple[Any, ...] = ()) -> list[KeptRow]:
        """Models and resumable states, by trial, attempt and step.

        Each path is that of its own row, inside the folder of the study: a file that says
        something else is refused, since what it names would be loaded, or deleted.
        """
        sql = (
            "SELECT c.*, EXISTS (SELECT 1 FROM trials t WHERE t.trial = c.trial "
            f"AND t.attempt = c.attempt) AS known FROM checkpoints c {where} "
            "ORDER BY trial, attempt, step"
        )
        return [self.understood(row) for row in self.rows(sql, values)]

    def understood(self, row: Mapping[str, Any]) -> KeptRow:
        """A row of ``checkpoints`` whose path was found to be where it has to be."""
        trial, attempt, step, kind = (row[c] for c in ("trial", "attempt", "step", "kind"))
        try:
            folder = self.kept_folder(trial, attempt, step, kind, row["path"])
            for column in ("trial", "attempt", "step", "bytes"):
                if type(row[column]) is not int:  # a column of SQLite's may hold anything
                    raise OutsideError(f"{row[column]!r} is no {column}")
            if not row.get("known", True):
                raise OutsideError(f"there is no attempt {attempt} of trial {trial}")
        except (OutsideError, TypeError, ValueError) as error:
            raise StudyFileError(
                f"{self.path} is damaged or was tampered with: its table checkpoints names "
                f"{row['path']!r} ({error}); nothing outside the study's own folder was touched"
            ) from None
        return KeptRow(trial, attempt, step, kind, Kept(folder, row["bytes"], row.get("digest")))

    def root_of(self, folder: Path) -> Path:
        """The folder that a kept one must lie in: the study's, or that of a Ray experiment."""
        if self._experiment is not None and not folder.is_relative_to(self.files):
            return self._experiment
        return self.files

    def kept_folder(self, trial: int, attempt: int, step: int, kind: str, path: str) -> Path:
        """Where a model or a resumable state lies; raises OutsideError if it may not lie there."""
        root, inside = self.files, path
        experiment = self._experiment
        if experiment is None and self._lock is None:  # a reader: it deletes nothing
            experiment = self.files.parent
        if experiment is not None and kind == "model":
            with contextlib.suppress(ValueError):  # earlier versions wrote the whole path
                inside = str(Path(path).relative_to(experiment.resolve()))
            if is_in_experiment(inside, step):
                confined(experiment, experiment / inside)
                return experiment / inside
        require_kept_name(trial, attempt, step, kind, path)
        confined(root, root / path)
        return root / path

    def since(self, trial: int, checked_step: int) -> tuple[int, float]:
        """Trials that have ended, and seconds searched, since a checkpoint was found valid."""
        found = self._db.execute(
            "SELECT min(time) FROM reports WHERE trial = ? AND checked_step = ? "
            "AND stratum = 'valid'",
            (trial, checked_step),
        ).fetchone()[0]
        if found is None:
            return 0, 0.0
        ended = self._db.execute(
            "SELECT count(*) FROM trials AS t WHERE ended > ? "
            "AND state IN ('finished', 'stopped', 'failed') AND attempt = "
            "(SELECT max(attempt) FROM trials WHERE trial = t.trial)",
            (found,),
        ).fetchone()[0]
        seconds = self._db.execute(
            "SELECT coalesce(sum(max(0.0, min(search_s, started + search_s - ?))), 0.0) "
            "FROM sessions",
            (found,),
        ).fetchone()[0]
        return int(ended), float(seconds)

    def searched(self) -> float:
        """Seconds that all sessions have searched: what counts against the budget."""
        found = self._db.execute("SELECT coalesce(sum(search_s), 0.0) FROM sessions").fetchone()
        return float(found[0])


def decoded_looks(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of ``looks`` whose candidates are tuples of trial, attempt and step."""
    return [{**row, "candidates": read_candidates(row["candidates"])} for row in rows]


def decoded_limit_changes(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of ``limit_changes`` with their JSON decoded."""
    return [
        {**row, "earlier": json.loads(row["earlier"]), "what": json.loads(row["what"])}
        for row in rows
    ]


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


@contextlib.contextmanager
def reading(path: Path) -> Iterator[Store]:
    """A study file opened for reading."""
    with contextlib.closing(Store.read(path)) as store, store.understanding():
        yield store


def _insert_study(db: sqlite3.Connection, study: Mapping[str, Any]) -> None:
    marks = ", ".join("?" * len(study))
    db.execute(f"INSERT INTO study ({', '.join(study)}) VALUES ({marks})", list(study.values()))


def _writable(text: str | None) -> str | None:
    """Text of unknown origin as SQLite takes it: half characters are written out."""
    return text if text is None else text.encode("utf-8", "backslashreplace").decode("utf-8")


def _plain(value: object) -> float | str:
    """A number of a policy of somebody's own, such as one of NumPy's, as JSON takes it."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return str(value)


def require_durability(value: str) -> None:
    """Refuse what names nothing that a report may have to outlast."""
    if value not in get_args(Durability):
        raise GoalError(f"durability must be 'process' or 'power', got {value!r}")


def _connect(path: Path) -> sqlite3.Connection:
    # used by one thread at a time, but an experiment may be closed by another than ran it
    db = sqlite3.connect(path, timeout=10, check_same_thread=False)
    # a commit survives the process being killed; see Store.outlast for power cuts
    db.execute("PRAGMA synchronous = NORMAL")
    return db


def _inspect(path: Path) -> None:
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
    if application != _APPLICATION_ID:
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
                if application == _APPLICATION_ID:
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
            sql = f"SELECT 1 FROM sqlite_master WHERE name = '{_MARK_NAME}'"
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
        f"\"import sqlite3; sqlite3.connect({str(path)!r}).execute('DROP TABLE {_MARK_NAME}')\""
    )


def _require_one_name(path: Path) -> None:
    """A file with two names could have two writers, each with a lock and a log of its own."""
    if path.exists() and path.stat().st_nlink > 1:
        raise StudyFileError(
            f"{path} has another name (a hard link), under which another process could write to "
            "it; delete that name, or make a copy with: cp"
        )


def _lock(path: Path) -> int:
    """An advisory lock that ends with the process, however it ends."""
    beside = _lock_file(path)
    # a link in its place would have some other file overwritten
    lock = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_file_at(lock, beside):  # whoever had it has deleted it since it was opened
            os.close(lock)
            return _lock(path)
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"process {os.getpid()}".encode(), 0)
    except BlockingIOError:
        owner = os.read(lock, 100).decode(errors="replace").strip() or "another process"
        os.close(lock)
        raise StudyLockedError(
            f"{path} is being run by {owner}; wait for it to end, or look at it with: "
            f"acetune show {path}"
        ) from None
    except OSError:  # a full disk, say
        os.close(lock)
        raise
    return lock


def _lock_file(path: Path) -> Path:
    return path.with_name(path.name + "-lock")


def _is_file_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _unlock(lock: int, path: Path) -> None:
    """Delete the lock and let go of it.

    In this order: whoever has opened it meanwhile sees then that it is the lock no more.
    """
    with contextlib.suppress(OSError):
        _lock_file(path).unlink()
    with contextlib.suppress(OSError):
        os.close(lock)
