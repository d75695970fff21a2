"""The study file: one SQLite database, one writer, tables a person can query.

Everything acknowledged is committed first; in WAL mode a commit survives the process being killed
at any moment. The file is checked before it is opened for writing, so that a damaged or foreign
one is left as it was.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from acetune.core.errors import GoalError, StudyFileError
from acetune.core.goals import Estimate
from acetune.core.reason import Reason, Wording
from acetune.core.report_values import to_json
from acetune.study._formats import (
    FORMAT,
    SCHEMA,
    bring_up,
    connect_as_now,
    keep_copy,
    known_format,
    make_private,
)
from acetune.study._queries import Queries
from acetune.study._validation import require_cells
from acetune.study._write_lock import release_lock, take_lock
from acetune.study.connections import network_file_system
from acetune.study.integrity import (
    APPLICATION_ID,
    MARK_NAME,
    require_intact,
    require_one_name,
    understanding,
)
from acetune.study.table_rows import CheckRow, EarlierTrial, NewVerdict
from acetune.trial.artifacts import sync_folder

Durability: TypeAlias = Literal["process", "power"]
FileFault = sqlite3.Error  # what writing may raise within a transaction; it ends in a StudyError
_MARK = f"CREATE TABLE IF NOT EXISTS {MARK_NAME} (process INTEGER)"  # is there until it is closed


class Store(Queries):
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
            lock = take_lock(path)
        except OSError as error:
            raise StudyFileError(
                f"cannot write the study file {path}: {error.strerror}; give a path in a folder "
                "you may write to, study='...'"
            ) from None
        if path.exists():  # since the caller looked; nobody can make it now that we have the lock
            release_lock(lock, path)
            raise StudyFileError(f"{path} has just been made by another process; try again")
        try:
            # built under another name: a study file that exists is a whole one
            building = path.with_name(path.name + "-new")
            building.unlink(missing_ok=True)
            make_private(building)
            db = sqlite3.connect(building)
            # in one transaction: each waits for the disk
            db.executescript(
                f"BEGIN; PRAGMA application_id = {APPLICATION_ID}; "
                f"PRAGMA user_version = {FORMAT}; {SCHEMA}"
            )
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
            release_lock(lock, path)
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
        require_one_name(path)
        require_intact(path)
        try:
            lock = take_lock(path)
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
            release_lock(lock, path)
            if isinstance(error, sqlite3.Error):
                raise StudyFileError(f"cannot open {path} for writing: {error}") from None
            raise
        return store

    @classmethod
    def read(cls, path: Path) -> Store:
        """Open an existing study file for reading, also while a study is running."""
        require_intact(path)
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
                    self._db.execute(f"DROP TABLE IF EXISTS {MARK_NAME}")
                self._db.execute("PRAGMA journal_mode = DELETE")
        self._db.close()
        if self._lock is not None:
            release_lock(self._lock, self.path)
            self._lock = None

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

    def put_earlier_checks(self, checks: Iterable[tuple[str, int]]) -> None:
        """How far beyond the limits trials of other studies lie, by the places of their rows."""
        self._db.executemany("UPDATE earlier_trials SET checks = ? WHERE place = ?", checks)


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
