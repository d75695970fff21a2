"""The rows of ``reports``, read from a study file into NumPy arrays as they are.

Python's ``sqlite3`` makes an object of every value it hands over, and that is what reading costs.
So :func:`read_rows` asks for what differs from row to row only, and in a second query for the few
rows that are not as nearly all are: a report of a first attempt, checked itself if at all.

:mod:`acetune.study.read_ahead` runs this file as a program: so it imports nothing else of the
package, which would take as long as reading many rows. What the words in the rows stand for is said
in :mod:`acetune.study.report_arrays`.
"""

from __future__ import annotations

import pickle
import sqlite3
import sys
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

LAST = 2**63 - 1  # the largest number that SQLite knows
_USUAL = np.dtype(
    [("trial", "i8"), ("step", "i8")]
    + [(name, "f8") for name in ("objective", "violation", "primary_cost_s", "time")]
)
_ODD = np.dtype(
    [("seq", "i8"), ("attempt", "i8")]
    + [(name, "S12") for name in ("kind", "stratum", "decision")]  # longer than any of the words
    + [("checked_step", "i8"), ("checked_objective", "f8"), ("snapshot_cost_s", "f8")]
)
_USUAL_REPORTS = """
SELECT trial, step, objective, violation, primary_cost_s, time
FROM reports WHERE seq > ? AND seq <= ? ORDER BY seq
"""
_ODD_REPORTS = """
SELECT seq, attempt, kind, stratum, decision, coalesce(checked_step, 0), checked_objective,
    snapshot_cost_s
FROM reports WHERE seq > ? AND seq <= ? AND (decision != 'continue' OR attempt != 1
    OR snapshot_cost_s != 0 OR kind != 'step' OR CASE WHEN violation IS NULL
        THEN stratum != 'unchecked' OR checked_step NOT NULL OR checked_objective NOT NULL
        ELSE stratum != CASE violation WHEN 0 THEN 'valid' ELSE 'invalid' END
            OR checked_step IS NOT step OR checked_objective IS NOT objective END)
ORDER BY seq
"""


class ReportRows(NamedTuple):
    """Reports: their numbers, what nearly always differs, and the rows that are not as usual."""

    seq: Array
    usual: Array
    odd: Array


def read_rows(db: sqlite3.Connection, after: int, last: int = LAST) -> ReportRows:
    """The reports with a ``seq`` larger than ``after``, up to ``last``."""
    usual = np.fromiter(db.execute(_USUAL_REPORTS, (after, last)), dtype=_USUAL)
    seq = _sequence(db, after, last, len(usual))
    return ReportRows(seq, usual, np.fromiter(db.execute(_ODD_REPORTS, (after, last)), dtype=_ODD))


def _sequence(db: sqlite3.Connection, after: int, last: int, count: int) -> Array:
    """The numbers of the reports: without gaps, unless somebody has deleted some."""
    largest = db.execute("SELECT coalesce(max(seq), 0) FROM reports WHERE seq <= ?", (last,))
    if largest.fetchone()[0] - after == count or count == 0:
        return np.arange(after + 1, after + 1 + count)
    sql = "SELECT seq FROM reports WHERE seq > ? AND seq <= ? ORDER BY seq"
    rows = db.execute(sql, (after, last))
    return np.fromiter((row[0] for row in rows), dtype="i8", count=count)


def rows_from_bytes(written: bytes) -> ReportRows:
    """What this file wrote as a program."""
    return ReportRows(*pickle.loads(written))


def _write_rows(uri: str, last: int) -> None:
    """Write the reports up to ``last`` to the standard output."""
    db = sqlite3.connect(uri, uri=True, timeout=10)
    pickle.dump(tuple(read_rows(db, 0, last)), sys.stdout.buffer, protocol=5)


if __name__ == "__main__":
    _write_rows(sys.argv[1], int(sys.argv[2]))
