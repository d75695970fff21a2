"""Study files that are whole and mean harm: what is in them is shown, and nothing else happens."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pickle
import random
import sqlite3
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from tools.chaos.campaign import Part, Tally
from tools.chaos.verbs import GOING_ON, study_in, try_verbs

FILES = 4  # of a round
_TEXTS = (
    "<script>alert('chaos')</script>",
    "</script><img src=x onerror=alert('chaos')>",
    "\x1b]0;chaos\x07\x1b[2J\x1b[31mred",
    "\x9b2J\x85next",
    "\u202eesrever\u2066",
    "[bold]markup[/bold] [/] [link=file:///etc/passwd]x[/link]",
    "=cmd|' /C calc'!A1",
    "{numbers} {0} {__class__}",
    "a\nb\rc\td",
    "\0 in the middle",
    "../../../../etc/passwd",
    "x" * 1_000_000,
    "\u0301" * 5000,
    "%s %n %x",
    "'; DROP TABLE reports; --",
    "",
)
_NAMES = (*_TEXTS, "half \udc82")  # in JSON, which SQLite takes
_NUMBERS: tuple[Any, ...] = (
    *(1e308, -1e308, 5e-324, 9e999, -9e999, 1e18, 253402300800.0, -62135596801.0, 1e300),
    *(2**31, 2**53 + 1, 2**63 - 1, -(2**63), 0, -1, 10**9),
)
_JSON = (
    *('{"x": 1e400}', '{"x": NaN}', '{"x": -Infinity}', '{"x": 1' + "0" * 5000 + "}"),
    *('{"x": ' + "[" * 900 + "]" * 900 + "}", "[" * 100_000, '{"x": "\\ud800"}', '{"\\u0000": 1}'),
    *('{"__class__": "os.system"}', '{"x": {"y": {"z": 1}}}', '{"": 0}', "[]", "null", "1", '""'),
)
_SHOWN = (
    *("trials.traceback", "trials.reason", "trials.state", "trials.schedule", "sessions.host"),
    *("sessions.ended", "checks.error", "checks.note", "confirmations.error", "looks.data"),
    *("confirmations.status", "wordings.sentence", "wordings.short", "reports.stratum"),
    *("reports.decision", "reports.metrics", "study.versions", "study.code_hash"),
)
_PICKLES = "models that run code"
_MORE = 20_000  # rows
_TRIES = 20


class _Runs:
    """Pickled: a command that tells that it was run."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._place),)


def _texts(chance: random.Random, db: sqlite3.Connection, canary: Path) -> str:
    """Text that means something to terminals, pages or tables, where names and errors are."""
    text = chance.choice(_TEXTS)
    table, _, column = chance.choice(_SHOWN).partition(".")
    _set(db, table, column, text)
    return f"{table}.{column} is {text!r:.60}"


def _names(chance: random.Random, db: sqlite3.Connection, canary: Path) -> str:
    """The same as the name of the objective, of a constraint or of a parameter."""
    text = chance.choice(_NAMES)
    kind = chance.choice(["objective", "constraint", "parameter", "value"])
    if kind == "objective":
        known = json.loads(db.execute("SELECT objective FROM study").fetchone()[0])
        _set(db, "study", "objective", json.dumps({**known, "name": text}))
    elif kind == "constraint":
        known = json.loads(db.execute("SELECT constraints FROM study").fetchone()[0])
        old, known[0]["name"] = known[0]["name"], text
        _set(db, "study", "constraints", json.dumps(known))
        with contextlib.suppress(sqlite3.Error, UnicodeEncodeError):
            db.execute('UPDATE checks SET "constraint" = ? WHERE "constraint" = ?', (text, old))
    else:
        params = {text: 1.0} if kind == "parameter" else {"x": text, "kind": text}
        _set(db, "trials", "params", json.dumps(params))
    return f"{kind} {text!r:.60}"


def _numbers(chance: random.Random, db: sqlite3.Connection, canary: Path) -> str:
    """Numbers at the edges of what there is: steps, times, costs, values."""
    number = chance.choice(_NUMBERS)
    columns = [
        (table, row[1])
        for table in ("trials", "reports", "checks", "sessions", "study", "checkpoints", "looks")
        for row in db.execute(f"PRAGMA table_info({table})")
        if row[2] in ("INTEGER", "REAL")
    ]
    table, column = chance.choice(columns)
    if chance.random() < 0.3:
        _set(db, table, column, number)
        return f"{table}.{column} is {number}"
    known = [row[0] for row in db.execute(f'SELECT "{column}" FROM {table}')] or [None]
    with contextlib.suppress(sqlite3.Error):
        sql = f'UPDATE {table} SET "{column}" = ? WHERE "{column}" IS ?'
        db.execute(sql, (number, chance.choice(known)))
    return f"{table}.{column} is {number} in one row or more"


def _json(chance: random.Random, db: sqlite3.Connection, canary: Path) -> str:
    """JSON that Python takes, or that is no JSON."""
    text = chance.choice(_JSON)
    table, column = chance.choice(
        [
            *(("trials", "params"), ("trials", "reason_numbers"), ("study", "settings")),
            *(("study", "objective"), ("study", "constraints"), ("study", "policy")),
            *(("study", "space"), ("study", "versions"), ("study", "code")),
            *(("confirmations", "metrics"), ("confirmations", "bounds")),
        ]
    )
    _set(db, table, column, text)
    return f"{table}.{column} is {text:.60}"


def _paths(chance: random.Random, db: sqlite3.Connection, canary: Path) -> str:
    """Files elsewhere, as models or as what to run."""
    path = chance.choice(["../outside", str(canary.parent / "outside"), "a/../../outside", "/"])
    if chance.random() < 0.5:
        db.execute("UPDATE checkpoints SET path = ?", (path,))
        return f"models are in {path}"
    settings = json.loads(db.execute("SELECT settings FROM study").fetchone()[0])
    source = canary.parent / "evil.py"
    source.write_text(f"import os\nos.mkdir({str(canary)!r})\n")
    _set(db, "study", "settings", json.dumps({**settings, "source": str(source)}))
    return "it names a file to run"


def _code(chance: random.Random, db: sqlite3.Connection, canary: Path) -> str:
    """A database that does something when it is read or written."""
    made = chance.choice(
        [
            "CREATE TRIGGER t AFTER INSERT ON reports BEGIN DELETE FROM trials; END",
            "CREATE TRIGGER t AFTER UPDATE ON sessions BEGIN UPDATE trials SET state = 'x'; END",
            "ALTER TABLE checks RENAME TO other; CREATE VIEW checks AS SELECT * FROM other",
            "ALTER TABLE reports RENAME TO other; CREATE VIEW reports AS WITH RECURSIVE n(i) AS "
            "(SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT other.* FROM other, n",
            "ALTER TABLE trials ADD COLUMN g AS (randomblob(100000000))",
        ]
    )
    with contextlib.suppress(sqlite3.Error):
        db.executescript(made)
    return made[:60]


def _many(chance: random.Random, db: sqlite3.Connection, canary: Path) -> str:
    """More rows than anybody would write."""
    sql = chance.choice(
        [
            f"WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n LIMIT {_MORE}) "
            "INSERT INTO trials (trial, attempt, params, state, started) "
            "SELECT i, 1, '{}', 'finished', 0 FROM n",
            f"WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n LIMIT {_MORE}) "
            "INSERT INTO wordings SELECT 'code' || i, 'words', 'word' FROM n",
        ]
    )
    with contextlib.suppress(sqlite3.Error):
        db.execute(sql)
    return sql[-60:]


def _pickles(chance: random.Random, study: Path, canary: Path) -> str:
    """Models that run something when they are loaded: only ``load()`` may."""
    for folder in study.with_name("study.db.files").glob("*/*/model-*"):
        for path in folder.iterdir():
            path.write_bytes(pickle.dumps(_Runs(canary)))
    return _PICKLES


def _set(db: sqlite3.Connection, table: str, column: str, value: object) -> None:
    with contextlib.suppress(sqlite3.Error):
        db.execute("PRAGMA ignore_check_constraints = ON")
        db.execute(f'UPDATE {table} SET "{column}" = ?', (value,))


def _state(db: sqlite3.Connection) -> tuple[int, int]:
    """Changes when something in the database does."""
    return db.total_changes, db.execute("PRAGMA schema_version").fetchone()[0]


_HARMS: tuple[Callable[[random.Random, sqlite3.Connection, Path], str], ...] = (
    *(_texts, _texts, _names, _names, _numbers, _numbers, _json, _paths, _code, _many),
)


class _Page(HTMLParser):
    """Finds what would run."""

    runs = False
    _script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A picture that runs something."""
        self._script = tag == "script"
        self.runs |= tag == "img" and any(name == "onerror" for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        """A script of ours."""
        self.runs |= self._script and data.lstrip().startswith("alert('chaos")
        self._script = False


def _require_harmless(
    what: str, canary: Path, name: str, said: str, pages: Sequence[str], tally: Tally
) -> None:
    """What is printed moves no cursor and turns no text round; in pages nothing runs."""
    # who goes on loads models, and those run what they like: that is said
    ran = canary.exists() and not (what == _PICKLES and name in GOING_ON)
    tally.require("wrong", not ran, f"{name} has run code: {what}")
    for sign in ("\x1b", "\x9b", "\x07", "\u202e", "\u2066"):
        tally.require("wrong", sign not in said, f"{name} prints {sign!r}: {what}")
    for text in pages:
        page = _Page()
        page.feed(text)
        tally.require("wrong", not page.runs, f"the page of {name} runs a script: {what}")


def harms(chance: random.Random, folder: Path, tally: Tally, files: int = FILES) -> None:
    """A round: some files."""
    for number in range(files):
        place = folder / str(number)
        place.mkdir()
        study = study_in(place, chance)
        outside, canary = place / "outside", place / "canary"
        outside.mkdir()
        (outside / "model.pkl").write_bytes(pickle.dumps(_Runs(canary)))
        if chance.random() < 0.1:
            what = _pickles(chance, study, canary)
        else:
            with contextlib.closing(sqlite3.connect(study)) as db:
                before = _state(db)
                for _ in range(_TRIES):  # not every study has all tables, or rows in them
                    what = chance.choice(_HARMS)(chance, db, canary)
                    if _state(db) != before:
                        break
                db.commit()
        tally.count("hostile files")

        look = functools.partial(_require_harmless, what, canary)
        try_verbs(study, chance, tally, what, look=look, each=True)
        tally.require("wrong", outside.is_dir(), f"a folder elsewhere was deleted: {what}")


PART = Part(
    promise="A study file from elsewhere can do nothing but be read: what it holds is shown "
    "harmlessly or refused; nothing in it is run, and nothing outside its folder is touched.",
    how="Well-formed studies with control characters, bidirectional text, markup and scripts in "
    "names and errors; numbers, times and steps at the edges of what there is; deep and huge "
    "JSON; paths elsewhere; triggers, views and models that run something. Every verb on each.",
    round=harms,
    rounds=50,
    small=functools.partial(harms, files=1),
    limit_s=None,
)
