"""Study files with damage of all kinds, and what every verb makes of them."""

from __future__ import annotations

import contextlib
import functools
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

from tools.chaos.campaign import Part, Tally
from tools.chaos.verbs import study_in, try_verbs

FILES = 10  # of a round
_PAGE = 4096
_ODD = (
    *(None, 0, -1, 1, 2, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 0.5, 1e308, -1e308, 9e999, -9e999),
    *("", "x", "1", "nan", "[]", "{}", "null", "true", '{"x": ', '{"x": 1e999}', '{"x": NaN}'),
    *('{"x": {"y": []}}', "[[" * 2000, "\0", "a\0b", b"", b"\xff\xfe", b"\x80" * 20, "9" * 400),
    *("[1, 2, 3]", '"text"', '{"name": 3}', '{"size": [1]}', "../../x", "x" * 100_000),
)


def _bytes(chance: random.Random, data: bytearray) -> str:
    """Other bytes somewhere."""
    start = chance.randrange(100 if chance.random() < 0.2 else len(data))
    some = chance.choice([1, 1, 8, 64, 1000])
    for at in range(start, min(start + some, len(data))):
        data[at] = chance.randrange(256)
    return f"{some} other bytes at {start}"


def _bit(chance: random.Random, data: bytearray) -> str:
    at = chance.randrange(len(data))
    data[at] ^= 1 << chance.randrange(8)
    return f"a bit at {at}"


def _cut(chance: random.Random, data: bytearray) -> str:
    size = chance.choice([0, 1, 99, 100, 4095, 4096, chance.randrange(len(data))])
    del data[size:]
    return f"cut to {size} bytes"


def _longer(chance: random.Random, data: bytearray) -> str:
    some = chance.choice([1, 100, _PAGE, 10 * _PAGE])
    data += chance.randbytes(some)
    return f"{some} bytes more"


def _page(chance: random.Random, data: bytearray) -> str:
    """A page of zeros, of noise, or another one."""
    pages = max(1, len(data) // _PAGE)
    at, other = chance.randrange(pages), chance.randrange(pages)
    new = chance.choice(
        [bytes(_PAGE), chance.randbytes(_PAGE), data[other * _PAGE : (other + 1) * _PAGE]]
    )
    data[at * _PAGE : (at + 1) * _PAGE] = new
    return f"another page {at}"


def _moved(chance: random.Random, data: bytearray) -> str:
    """A piece is missing in the middle."""
    at, some = chance.randrange(len(data)), chance.choice([1, 100, _PAGE])
    del data[at : at + some]
    return f"{some} bytes left out at {at}"


def _in_file(
    damage: Callable[[random.Random, bytearray], str], chance: random.Random, study: Path
) -> str:
    """Damage of the file, or of its log where it has one."""
    log = study.with_name(study.name + "-wal")
    path = log if log.exists() and log.stat().st_size and chance.random() < 0.6 else study
    data = bytearray(path.read_bytes())
    said = [damage(chance, data) for _ in range(chance.choice([1, 1, 1, 3])) if data]
    path.write_bytes(data)
    return f"{', '.join(said)} of {path.name[5:]}"


def _cell(chance: random.Random, study: Path) -> str:
    """Other values in the tables, which SQLite takes as well as any."""
    said = []
    with contextlib.closing(sqlite3.connect(study)) as db:
        db.execute("PRAGMA ignore_check_constraints = ON")
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        for _ in range(chance.choice([1, 1, 2, 5])):
            table = chance.choice([name for name in tables if not name.startswith("sqlite_")])
            columns = [row[1] for row in db.execute(f'PRAGMA table_info("{table}")')]
            column, value = chance.choice(columns), chance.choice(_ODD)
            rows = db.execute(f'SELECT * FROM "{table}"').fetchall()
            if not rows:
                continue
            place = chance.randrange(len(rows))
            same = " AND ".join(f'"{name}" IS ?' for name in columns)
            with contextlib.suppress(sqlite3.Error):
                db.execute(
                    f'UPDATE "{table}" SET "{column}" = ? WHERE {same}', (value, *rows[place])
                )
                said.append(f"{table}.{column} of row {place} is {value!r:.60}")
        db.commit()
    return ", ".join(said) or "nothing"


def _rows(chance: random.Random, study: Path) -> str:
    """Rows, columns, tables or indexes that are missing."""
    with contextlib.closing(sqlite3.connect(study)) as db:
        known = db.execute("SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
        kind, name = chance.choice(known.fetchall())
        statements = [f'DROP {kind} "{name}"']
        if kind == "table":
            columns = [row[1] for row in db.execute(f'PRAGMA table_info("{name}")')]
            statements += [
                f'DELETE FROM "{name}" WHERE random() % 2',
                f'DELETE FROM "{name}"',
                f'ALTER TABLE "{name}" DROP COLUMN "{chance.choice(columns)}"',
                f'ALTER TABLE "{name}" RENAME COLUMN "{chance.choice(columns)}" TO other',
                f'ALTER TABLE "{name}" ADD COLUMN other',
            ]
        sql = chance.choice(statements)
        with contextlib.suppress(sqlite3.Error):
            db.execute(sql)
            db.commit()
    return sql


_DAMAGES: tuple[Callable[[random.Random, Path], str], ...] = (
    *(functools.partial(_in_file, one) for one in (_bytes, _bytes, _bit, _cut, _page, _moved)),
    functools.partial(_in_file, _longer),
    *(_cell, _cell, _cell, _rows),
)


def damages(chance: random.Random, folder: Path, tally: Tally, files: int = FILES) -> None:
    """A round: some files."""
    for number in range(files):
        place = folder / str(number)
        place.mkdir()
        study = study_in(place, chance)
        what = chance.choice(_DAMAGES)(chance, study)
        tally.count("damaged files")
        try_verbs(study, chance, tally, what)


PART = Part(
    promise="Any verb on a damaged study file answers, or ends with one of acetune's errors; it "
    "never changes a file that it only reads.",
    how="Studies of this and all older formats, also with the log that a killed driver leaves, in "
    "which bytes, bits or pages are others, missing or added, or values, rows, columns, tables "
    "and indexes; four or five of the 13 verbs that read on each, at random, and `resume` on one "
    "of twenty.",
    round=damages,
    rounds=200,
    small=functools.partial(damages, files=3),
    limit_s=None,
)
