"""Study files that are whole databases, and hold what acetune would never write."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from acetune import Estimate

ACTING = "\x1b[31mred\x07", "\u202eturned", "\x9b2J"
"""What must never reach a terminal."""

_VALUES: list[Any] = [
    *(None, 0, -1, 1, 2**31, 2**63 - 1, -(2**63), 1e308, -1e308, float("inf"), float("-inf")),
    *("", "x", *ACTING, b"\xff\xfe", "a" * 100_000, "[]", "{}", "null", "[1]", '{"a": 1}'),
    *("NaN", "-1", "1e999", "9" * 5000, "[" * 100_000, '"\\ud800"', "../../etc", "/etc/passwd"),
    *(253402300800.0, 1e15, -1e15, "continue", "running", "valid", "after", "certified"),
]
_INSIDE: list[Any] = [  # of JSON
    *(None, 0, -1, 2**63, 10**400, 1e308, float("nan"), float("inf"), "", "\ud800", *ACTING),
    *([], {}, [1], {"a": 1}, [[1, 2]], True, "max", "g", {"name": "g"}, -1.5, {"upper": 1}, 1e15),
]


def _changed(value: Any, chance: random.Random) -> Any:
    """A JSON value of which one thing, somewhere inside, is another one."""
    if chance.random() < 0.3 or not isinstance(value, (dict, list)) or not value:
        return chance.choice(_INSIDE)
    if isinstance(value, list):
        place = chance.randrange(len(value))
        new = [] if chance.random() < 0.2 else [_changed(value[place], chance)]
        return [*value[:place], *new, *value[place + 1 :]]
    name, what = chance.choice(list(value)), chance.random()
    found = {key: inside for key, inside in value.items() if key != name}
    if what < 0.15:
        return found
    if what < 0.25:
        return {**found, chance.choice(["zz", "\x1b[2J", "\ud800"]): value[name]}
    return {**found, name: _changed(value[name], chance)}


def make_hostile(path: Path, chance: random.Random) -> list[str]:
    """Change some cells of a study file, or add or delete a row; returns what was done."""
    done = []
    with closing(sqlite3.connect(path)) as db:
        names = "SELECT name FROM sqlite_master WHERE type = 'table'"
        tables = [name for (name,) in db.execute(names)]
        for _ in range(chance.choice([1, 1, 1, 2, 3])):
            table = chance.choice(tables)
            info = db.execute(f"PRAGMA table_info({table})").fetchall()
            column = chance.choice(info)[1]
            keys = [f'"{row[1]}"' for row in info if row[5]] or ["rowid"]
            rows = db.execute(f'SELECT {", ".join(keys)}, "{column}" FROM {table}').fetchall()
            where = " AND ".join(f"{key} = ?" for key in keys)
            with suppress(sqlite3.Error, OverflowError, ValueError, RecursionError):
                if not rows:
                    values = [chance.choice(_VALUES) for _ in info]
                    db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(info))})", values)
                    done.append(f"a row of {table}")
                    continue
                *place, old = chance.choice(rows)
                if chance.random() < 0.06:
                    db.execute(f"DELETE FROM {table} WHERE {where}", place)
                    done.append(f"no {table} {place}")
                    continue
                new = chance.choice(_VALUES)
                if isinstance(old, str) and old[:1] in ("{", "[") and chance.random() < 0.8:
                    new = json.dumps(_changed(json.loads(old), chance))
                db.execute(f'UPDATE {table} SET "{column}" = ? WHERE {where}', [new, *place])
                done.append(f"{table}.{column} {place}: {new!r:.200}")
        db.commit()
    return done


class NoEvidence(Estimate):
    """Its evidence cannot be had. By name: modules of tests may travel by value."""

    @property
    def evidence(self) -> object:
        raise ZeroDivisionError("no rows")
