"""Formats of the study file: its tables now, and how a file of an earlier format comes to them."""

from __future__ import annotations

import contextlib
import filecmp
import json
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path

from acetune.certification.account import Account
from acetune.core.errors import StudyFileError
from acetune.core.reason import NO_REASON, Reason, Wording
from acetune.study._validation import read_numbers
from acetune.study.connections import computing_part, connect_to_read
from acetune.trial.artifacts import sync_folder

FORMAT = 7

SCHEMA = """
CREATE TABLE study (                -- one row
    objective   TEXT NOT NULL,      -- JSON: name, mode
    constraints TEXT NOT NULL,      -- JSON list: name, upper or lower, margin_se, scale, on;
                                    -- margin_se: of the last session, where auto_margin is set;
                                    -- limits: of now, earlier ones are in limit_changes
    policy      TEXT NOT NULL,
    space       TEXT NOT NULL,      -- JSON
    settings    TEXT NOT NULL,      -- JSON: budgets, workers, seed, searcher, confirm_top, source
    versions    TEXT NOT NULL,      -- JSON: of Python and the packages that matter
    code_hash   TEXT NOT NULL,      -- of the source of train and checks: compared where code is {}
    code        TEXT NOT NULL DEFAULT '{}', -- JSON: what train, confirm and each check are made of
    created     REAL NOT NULL,
    confidence  REAL NOT NULL DEFAULT 0.95 -- of certificates; fixed when the study is created
);
CREATE TABLE sessions (             -- one row a run of the driver
    session INTEGER PRIMARY KEY, started REAL NOT NULL, host TEXT,
    seconds REAL NOT NULL DEFAULT 0,    -- in all
    search_s REAL NOT NULL DEFAULT 0,   -- without late checks and confirmation: the budget's share
    ended TEXT,                         -- why: a code; NULL while it runs, or if it was killed
    ended_numbers TEXT NOT NULL DEFAULT '{}'
);
CREATE TABLE trials (
    trial INTEGER NOT NULL, attempt INTEGER NOT NULL, params TEXT NOT NULL,
    total_steps INTEGER, interval INTEGER, cost_ratio REAL, resumed_from INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL,            -- running finished stopped failed interrupted rejected
    traceback TEXT, startup_cost_s REAL, started REAL NOT NULL, ended REAL,
    reason TEXT NOT NULL DEFAULT '',            -- why it ended: a code of wordings
    reason_numbers TEXT NOT NULL DEFAULT '{}',  -- JSON: what its sentence is filled with
    schedule TEXT NOT NULL DEFAULT '',          -- when it is checked: a code of wordings
    schedule_numbers TEXT NOT NULL DEFAULT '{}',
    PRIMARY KEY (trial, attempt)
);
CREATE TABLE wordings (             -- what codes mean
    code TEXT PRIMARY KEY,
    sentence TEXT NOT NULL,         -- with the names of numbers in braces
    short TEXT NOT NULL             -- with those that many trials have in common; '': the sentence
);
CREATE TABLE reports (              -- one row a (trial, attempt, step, kind): the one writer sees
                                    -- to that; an index for it would cost a fifth of each report
    seq INTEGER PRIMARY KEY, trial INTEGER NOT NULL, attempt INTEGER NOT NULL,
    kind TEXT NOT NULL,             -- step: a report; end, after: a check at or after a trial's end
    step INTEGER NOT NULL, objective REAL, -- NULL where it was NaN
    checked_step INTEGER, checked_objective REAL, violation REAL,
    stratum TEXT NOT NULL, rank INTEGER, of INTEGER,
    decision TEXT NOT NULL,         -- continue stop finish
    primary_cost_s REAL, snapshot_cost_s REAL NOT NULL DEFAULT 0, time REAL NOT NULL, metrics TEXT
);
CREATE TABLE checks (
    seq INTEGER NOT NULL, "constraint" TEXT NOT NULL, value REAL, stderr REAL, cost_s REAL,
    error TEXT,
    margin_se REAL NOT NULL DEFAULT 0,  -- in force when it was judged: a resume keeps to it
    note TEXT,                          -- JSON: what else the check has said of the model
    PRIMARY KEY (seq, "constraint")
) WITHOUT ROWID;
CREATE TABLE checkpoints (          -- kept models, and what resumable trials go on from
    trial INTEGER NOT NULL, attempt INTEGER NOT NULL, step INTEGER NOT NULL,
    kind TEXT NOT NULL,             -- model resume
    path TEXT NOT NULL, bytes INTEGER NOT NULL,
    digest TEXT,                    -- SHA-256 of what was written; NULL: by a version without it
    PRIMARY KEY (trial, attempt, step, kind)
);
CREATE TABLE looks (                -- rounds of confirmation: what was fixed before each
    look INTEGER PRIMARY KEY,
    level REAL NOT NULL,            -- the error probability that it may spend
    data TEXT,                      -- which fresh rows: a name or a checksum; NULL: not said
    candidates TEXT NOT NULL,       -- JSON list: [trial, attempt, step], in the order of the test
    started REAL NOT NULL, ended REAL   -- NULL: it goes on with the next session
);
CREATE TABLE check_changes (        -- with which changed checks the study went on
    change INTEGER PRIMARY KEY, time REAL NOT NULL,
    seq INTEGER NOT NULL,           -- the last report before it
    how TEXT NOT NULL,              -- accept measure_again; data confirm: a warning was given
    what TEXT NOT NULL,             -- JSON list: what has changed, a line each
    done REAL                       -- when it was settled; NULL: models wait to be measured again
);
CREATE TABLE earlier_checks (       -- values of an earlier check, set aside by measure_again
    change INTEGER NOT NULL, seq INTEGER NOT NULL, trial INTEGER NOT NULL,
    attempt INTEGER NOT NULL, checked_step INTEGER, checked_objective REAL,
    "constraint" TEXT NOT NULL, value REAL, stderr REAL, cost_s REAL, error TEXT,
    margin_se REAL NOT NULL, note TEXT
);
CREATE TABLE limit_changes (        -- with which other limits the study went on
    change INTEGER PRIMARY KEY, time REAL NOT NULL,
    session INTEGER NOT NULL,       -- the first one under the new limits
    seq INTEGER NOT NULL,           -- the last report before it
    look INTEGER NOT NULL,          -- the last look at fresh data before it
    earlier TEXT NOT NULL,          -- JSON: the constraints until then, as in study
    what TEXT NOT NULL              -- JSON list: what has changed, a line each
);
CREATE TABLE earlier_verdicts (     -- of reports that were judged anew: what was said until then
    change INTEGER NOT NULL, seq INTEGER NOT NULL,
    checked_step INTEGER, checked_objective REAL, violation REAL, stratum TEXT NOT NULL,
    margins TEXT NOT NULL,          -- JSON: constraint -> margin_se
    PRIMARY KEY (change, seq)
) WITHOUT ROWID;
CREATE TABLE confirmations (        -- every use of the confirmation data
    use INTEGER PRIMARY KEY, trial INTEGER NOT NULL, attempt INTEGER NOT NULL,
    step INTEGER NOT NULL,
    status TEXT NOT NULL,           -- certified holds broken; unconfirmed if confirm went wrong
    metrics TEXT NOT NULL,          -- JSON: name -> [value, stderr]
    error TEXT, time REAL NOT NULL,
    look INTEGER NOT NULL DEFAULT 1,
    bounds TEXT NOT NULL DEFAULT '{}'   -- JSON: constraint -> its bound, p-value and method
);
"""

CONFIDENCE = 0.95  # of studies that were begun before there were certificates
EARLIER = "earlier"  # the code of what a version without codes wrote as text


def _to_2(db: sqlite3.Connection) -> None:
    """Checksums of what is kept."""
    db.execute("ALTER TABLE checkpoints ADD COLUMN digest TEXT")


def _to_3(db: sqlite3.Connection) -> None:
    """Reasons as codes with numbers, where there were sentences."""
    for table, column in (
        ("trials", "reason_numbers TEXT NOT NULL DEFAULT '{}'"),
        ("trials", "schedule TEXT NOT NULL DEFAULT ''"),
        ("trials", "schedule_numbers TEXT NOT NULL DEFAULT '{}'"),
        ("sessions", "ended_numbers TEXT NOT NULL DEFAULT '{}'"),
    ):
        db.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
    db.execute(
        "CREATE TABLE wordings (code TEXT PRIMARY KEY, sentence TEXT NOT NULL, short TEXT NOT NULL)"
    )
    first_due = "first due at step {first} of {steps}"
    wordings = (
        (EARLIER, "{text}", ""),
        (f"{EARLIER}_stop", "{text}", "stopped by the policy"),
        (f"{EARLIER}_schedule", first_due, "along the way"),
        (f"checked_once_{EARLIER}", first_due, "at the end"),
        ("interrupted_by_user", "interrupted by the user", ""),
        ("session_failed", "an error: {text}", ""),
    )
    db.executemany("INSERT INTO wordings VALUES (?, ?, ?)", wordings)
    rows = db.execute("SELECT rowid, state, reason, interval, total_steps FROM trials").fetchall()
    for row, state, reason, interval, total in rows:
        code = f"{EARLIER}_stop" if state == "stopped" else EARLIER
        ended = (code, json.dumps({"text": reason})) if reason else ("", "{}")
        planned = ("", "{}")
        if interval is not None:
            numbers = {"first": interval, "steps": "an unknown number" if total is None else total}
            once = total is not None and 1 != interval >= total
            code = f"checked_once_{EARLIER}" if once else f"{EARLIER}_schedule"
            planned = (code, json.dumps(numbers))
        db.execute(
            "UPDATE trials SET reason = ?, reason_numbers = ?, schedule = ?, schedule_numbers = ? "
            "WHERE rowid = ?",
            (*ended, *planned, row),
        )
    for row, text in db.execute(
        "SELECT session, ended FROM sessions WHERE ended NOT NULL"
    ).fetchall():
        code, numbers = EARLIER, {"text": text}
        if text == "interrupted by the user":  # as those versions wrote it
            code, numbers = "interrupted_by_user", {}
        elif text.startswith("an error: "):
            code, numbers = "session_failed", {"text": text.removeprefix("an error: ")}
        db.execute(
            "UPDATE sessions SET ended = ?, ended_numbers = ? WHERE session = ?",
            (code, json.dumps(numbers), row),
        )


def _to_4(db: sqlite3.Connection) -> None:
    """Looks at fresh data, and what may be claimed after them."""
    db.execute(f"ALTER TABLE study ADD COLUMN confidence REAL NOT NULL DEFAULT {CONFIDENCE}")
    db.execute("ALTER TABLE confirmations ADD COLUMN look INTEGER NOT NULL DEFAULT 1")
    db.execute("ALTER TABLE confirmations ADD COLUMN bounds TEXT NOT NULL DEFAULT '{}'")
    db.execute(
        "CREATE TABLE looks (look INTEGER PRIMARY KEY, level REAL NOT NULL, data TEXT, "
        "candidates TEXT NOT NULL, started REAL NOT NULL, ended REAL)"
    )
    for before, now in (("confirmed", "holds"), ("failed", "broken")):  # none was certified
        db.execute("UPDATE confirmations SET status = ? WHERE status = ?", (now, before))
    uses = db.execute(
        "SELECT trial, attempt, step, time FROM confirmations ORDER BY use"
    ).fetchall()
    if uses:  # they have been the first look
        judged = list(dict.fromkeys((trial, attempt, step) for trial, attempt, step, _ in uses))
        times = [time for *_, time in uses]
        db.execute(
            "INSERT INTO looks VALUES (1, ?, NULL, ?, ?, ?)",
            (Account(CONFIDENCE).level(1), json.dumps(judged), times[0], times[-1]),
        )


def _to_5(db: sqlite3.Connection) -> None:
    """With each check the margin by which it was judged: until now one for the whole study."""
    db.execute("ALTER TABLE checks ADD COLUMN margin_se REAL NOT NULL DEFAULT 0")
    for (constraints,) in db.execute("SELECT constraints FROM study").fetchall():
        for limit in json.loads(constraints):
            db.execute(
                'UPDATE checks SET margin_se = ? WHERE "constraint" = ?',
                (limit["margin_se"], limit["name"]),
            )


def _to_6(db: sqlite3.Connection) -> None:
    """What the checks are, how they have changed, and what they say beside a value."""
    db.execute("ALTER TABLE study ADD COLUMN code TEXT NOT NULL DEFAULT '{}'")
    db.execute("ALTER TABLE checks ADD COLUMN note TEXT")
    db.execute(
        "CREATE TABLE check_changes (change INTEGER PRIMARY KEY, time REAL NOT NULL, "
        "seq INTEGER NOT NULL, how TEXT NOT NULL, what TEXT NOT NULL, done REAL)"
    )
    db.execute(
        "CREATE TABLE earlier_checks (change INTEGER NOT NULL, seq INTEGER NOT NULL, "
        "trial INTEGER NOT NULL, attempt INTEGER NOT NULL, checked_step INTEGER, "
        'checked_objective REAL, "constraint" TEXT NOT NULL, value REAL, stderr REAL, '
        "cost_s REAL, error TEXT, margin_se REAL NOT NULL, note TEXT)"
    )


def _to_7(db: sqlite3.Connection) -> None:
    """The history of limits, and what was judged by earlier ones."""
    db.execute(
        "CREATE TABLE limit_changes (change INTEGER PRIMARY KEY, time REAL NOT NULL, "
        "session INTEGER NOT NULL, seq INTEGER NOT NULL, look INTEGER NOT NULL, "
        "earlier TEXT NOT NULL, what TEXT NOT NULL)"
    )
    db.execute(
        "CREATE TABLE earlier_verdicts (change INTEGER NOT NULL, seq INTEGER NOT NULL, "
        "checked_step INTEGER, checked_objective REAL, violation REAL, stratum TEXT NOT NULL, "
        "margins TEXT NOT NULL, PRIMARY KEY (change, seq)) WITHOUT ROWID"
    )


_STEPS = {
    1: _to_2,
    2: _to_3,
    3: _to_4,
    4: _to_5,
    5: _to_6,
    6: _to_7,
}  # from each older format to the next one


def known_format(db: sqlite3.Connection, path: Path) -> int:
    """The format of a file; one that this version does not know is refused.

    So is one with a part that computes something, perhaps without end.
    """
    if (part := computing_part(db)) is not None:
        raise StudyFileError(
            f"{path} is damaged, or not of acetune: its {part!r:.100} computes something when it "
            "is used; it was left untouched"
        )
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > FORMAT:
        raise StudyFileError(
            f"{path} was written by a newer acetune (format {version}, this one reads {FORMAT}); "
            "upgrade with: pip install --upgrade acetune"
        )
    if version < 1:
        raise StudyFileError(
            f"{path} is damaged: it has format {version}, which no acetune has written (this one "
            f"reads 1 to {FORMAT}); it was left untouched"
        )
    return version


def bring_up(db: sqlite3.Connection, version: int) -> None:
    """Bring a file of an older format up to this one, all at once or not at all."""
    if version == FORMAT:
        return
    db.execute("BEGIN IMMEDIATE")
    with db:  # commits, or rolls back
        for older in range(version, FORMAT):
            _STEPS[older](db)
        db.execute(f"PRAGMA user_version = {FORMAT}")


def keep_copy(db: sqlite3.Connection, path: Path, version: int) -> Path:
    """A copy of the file as it is, beside it, on disk before the file is brought up.

    What is there stays: a copy of another moment gets a number.
    """
    file = path.resolve()
    building = file.with_name(f"{file.name}.format-{version}-new")
    try:
        building.unlink(missing_ok=True)
        try:
            make_private(building)
            with contextlib.closing(sqlite3.connect(building)) as copy:
                db.backup(copy)  # with what is in the log beside the file
            place, n = file.with_name(f"{file.name}.format-{version}"), 1
            while os.path.lexists(place):
                if place.is_file() and filecmp.cmp(building, place, shallow=False):
                    return place  # somebody was interrupted here before
                n += 1
                place = file.with_name(f"{file.name}.format-{version}-{n}")
            building.rename(place)
            sync_folder(file.parent)
            return place
        finally:
            building.unlink(missing_ok=True)
    except (OSError, sqlite3.Error) as error:
        raise StudyFileError(
            f"{path} has format {version} and has to be brought up to {FORMAT} for its study to go "
            f"on; a copy of it has to be made next to it first, and cannot be: {error}; it was "
            "left as it was"
        ) from None


def make_private(path: Path) -> None:
    """An empty file that only its owner may read; what SQLite puts beside it will be like it."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def connect_as_now(path: Path) -> sqlite3.Connection:
    """A study file to read, in the format of now: one of an older format is brought up in a copy.

    The copy is in memory. The file itself changes only when its study goes on.
    """
    with contextlib.ExitStack() as opened:
        db = opened.enter_context(contextlib.closing(connect_to_read(path)))
        version = known_format(db, path)
        if version < FORMAT:
            copy = opened.enter_context(contextlib.closing(sqlite3.connect(":memory:")))
            db.backup(copy)
            db.close()
            db = copy
            bring_up(db, version)
        opened.pop_all()  # it stays open
    return db


def read_wordings(db: sqlite3.Connection) -> dict[str, Wording]:
    """What the codes in a file mean."""
    found = db.execute("SELECT code, sentence, short FROM wordings")
    return {code: Wording(code, sentence, short) for code, sentence, short in found}


class Reasons(dict[tuple[str, str], Reason]):
    """Reasons by their two columns, read when they are asked for: many trials share one."""

    def __init__(self, wordings: Mapping[str, Wording]) -> None:
        super().__init__()
        self._wordings = wordings

    def __missing__(self, columns: tuple[str, str]) -> Reason:
        """One that was not read yet."""
        code, numbers = columns
        found = NO_REASON
        if code:
            wording = self._wordings.get(code, Wording(code, code))
            found = Reason(wording, read_numbers(numbers))
        self[columns] = found
        return found
