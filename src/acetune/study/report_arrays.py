"""Reports and checks of a study as NumPy columns, read from its file.

Python's ``sqlite3`` makes an object of every value it hands over, and that is what reading costs.
So :func:`read_reports` asks for what differs from row to row only, and in a second query for the
few rows that are not as nearly all are: a report of a first attempt, checked itself if at all.

:mod:`acetune.study.read_ahead` runs this file as a program: so it imports nothing else of the
package.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

STEP, END, AFTER = 0, 1, 2
"""Kinds of report: one of a step, and a check at or after the end of its trial."""

UNCHECKED, INVALID, VALID = 0, 1, 2
"""Strata of reports, by their numbers in ``core/decision.py``; a test holds them to be the same."""

CONTINUE, STOP, FINISH = 0, 1, 2
"""What was decided at a report."""

KINDS = ("step", "end", "after")
STRATA = ("unchecked", "invalid", "valid")
DECISIONS = ("continue", "stop", "finish")

_REPORT_TYPES = {
    "seq": "i8",
    "trial": "i4",
    "attempt": "i2",
    "kind": "i1",
    "step": "i8",
    "objective": "f8",
    "checked_step": "i8",
    "checked_objective": "f8",
    "violation": "f8",
    "stratum": "i1",
    "decision": "i1",
    "primary_cost_s": "f8",
    "snapshot_cost_s": "f8",
    "time": "f8",
}
_ROW = np.dtype(list(_REPORT_TYPES.items()))
_CHECK_TYPES = {
    "seq": "i8",
    "constraint": "i2",
    "value": "f8",
    "stderr": "f8",
    "cost_s": "f8",
    "row": "i8",
}


@dataclass(frozen=True, eq=False)
class Reports:
    """The reports of a study, a column a field, in the order they were acknowledged.

    ``objective`` is NaN where it was; ``checked_step`` is 0 where nothing was checked;
    ``violation`` is NaN there and infinite where a check failed. ``kind``, ``stratum`` and
    ``decision`` hold the numbers named in this module. Ranks are not here. Nobody writes to the
    columns.
    """

    seq: Array
    trial: Array
    attempt: Array
    kind: Array
    step: Array
    objective: Array
    checked_step: Array
    checked_objective: Array
    violation: Array
    stratum: Array
    decision: Array
    primary_cost_s: Array
    snapshot_cost_s: Array
    time: Array

    def __len__(self) -> int:
        return len(self.seq)


@dataclass(frozen=True, eq=False)
class Checks:
    """The constraints that were evaluated, a column a field, in the order of their reports.

    ``constraint`` is an index into the goals' constraints, ``row`` one into :class:`Reports`;
    ``value`` is NaN where the check failed. Nobody writes to the columns.
    """

    seq: Array
    constraint: Array
    value: Array
    stderr: Array
    cost_s: Array
    row: Array

    def __len__(self) -> int:
        return len(self.seq)


class Growing:
    """Columns that grow at their end; what was handed out before stays as it was.

    >>> columns = Growing({"x": "i8"})
    >>> columns.append({"x": np.array([1, 2])})
    >>> before = columns.columns()["x"]
    >>> columns.append({"x": np.array([3])})
    >>> before.tolist(), columns.columns()["x"].tolist()
    ([1, 2], [1, 2, 3])
    """

    def __init__(self, types: Mapping[str, str]) -> None:
        self._buffers = {name: np.empty(0, dtype) for name, dtype in types.items()}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, new: Mapping[str, Array]) -> None:
        """Add rows: an array a column, all of one length."""
        count = len(next(iter(new.values())))
        for name, buffer in self._buffers.items():
            if self._length + count > len(buffer):
                larger = np.empty(self._room(count), buffer.dtype)
                larger[: self._length] = buffer[: self._length]
                self._buffers[name] = buffer = larger
            buffer[self._length : self._length + count] = new[name]
        self._length += count

    def _room(self, count: int) -> int:
        # the first reading of a study that has ended needs no room for more
        return count if self._length == 0 else (self._length + count) * 5 // 4 + 1024

    def columns(self) -> dict[str, Array]:
        """The columns as they are now, not to be written to."""
        found = {}
        for name, buffer in self._buffers.items():
            found[name] = view = buffer[: self._length]
            view.flags.writeable = False
        return found


def no_reports() -> Growing:
    """Columns for :class:`Reports`."""
    return Growing(_REPORT_TYPES)


def no_checks() -> Growing:
    """Columns for :class:`Checks`."""
    return Growing(_CHECK_TYPES)


_LAST = 2**63 - 1  # the largest number that SQLite knows
_USUAL = np.dtype(
    [("trial", "i8"), ("step", "i8")]
    + [(name, "f8") for name in ("objective", "violation", "primary_cost_s", "time")]
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


def read_reports(db: sqlite3.Connection, after: int, last: int = _LAST) -> dict[str, Array]:
    """The reports with a ``seq`` larger than ``after``, up to ``last``."""
    rows = np.fromiter(db.execute(_USUAL_REPORTS, (after, last)), dtype=_USUAL)
    seq = _sequence(db, after, last, len(rows))
    step, violation = rows["step"], rows["violation"]
    checked = ~np.isnan(violation)
    found: dict[str, Array] = {
        "seq": seq,
        "trial": rows["trial"],
        "attempt": np.ones(len(rows), "i2"),
        "kind": np.full(len(rows), STEP, "i1"),
        "step": step,
        "objective": rows["objective"],
        "checked_step": np.where(checked, step, 0),
        "checked_objective": np.where(checked, rows["objective"], np.nan),
        "violation": violation,
        "stratum": np.where(checked, np.where(violation == 0, VALID, INVALID), UNCHECKED),
        "decision": np.full(len(rows), CONTINUE, "i1"),
        "primary_cost_s": rows["primary_cost_s"],
        "snapshot_cost_s": np.zeros(len(rows)),
        "time": rows["time"],
    }
    _correct(found, db.execute(_ODD_REPORTS, (after, last)).fetchall())
    return found


def _correct(found: dict[str, Array], odd: list[tuple[Any, ...]]) -> None:
    """Put in place what the rows of ``_ODD_REPORTS`` have otherwise than nearly all rows."""
    if not odd:
        return
    seq, attempt, kind, stratum, decision, checked_step, checked_objective, snapshot = zip(
        *odd, strict=True
    )
    at = np.searchsorted(found["seq"], np.array(seq))
    found["attempt"][at] = attempt
    found["kind"][at] = [KINDS.index(word) for word in kind]
    found["stratum"][at] = [STRATA.index(word) for word in stratum]
    found["decision"][at] = [DECISIONS.index(word) for word in decision]
    found["checked_step"][at] = checked_step
    found["checked_objective"][at] = np.array(checked_objective, "f8")
    found["snapshot_cost_s"][at] = snapshot


def _sequence(db: sqlite3.Connection, after: int, last: int, count: int) -> Array:
    """The numbers of the reports: without gaps, unless somebody has deleted some."""
    largest = db.execute("SELECT coalesce(max(seq), 0) FROM reports WHERE seq <= ?", (last,))
    if largest.fetchone()[0] - after == count or count == 0:
        return np.arange(after + 1, after + 1 + count)
    sql = "SELECT seq FROM reports WHERE seq > ? AND seq <= ? ORDER BY seq"
    rows = db.execute(sql, (after, last))
    return np.fromiter((row[0] for row in rows), dtype="i8", count=count)


def read_checks(db: sqlite3.Connection, after: int, constraints: Sequence[str]) -> dict[str, Array]:
    """The checks of reports with a ``seq`` larger than ``after``, without their ``row``."""
    types = np.dtype([(name, kind) for name, kind in _CHECK_TYPES.items() if name != "row"])
    cases = " ".join(f"WHEN ? THEN {index}" for index in range(len(constraints)))
    several = len(constraints) > 1  # to tell names apart costs as much as two columns
    which = f'CASE "constraint" {cases} END' if several else "0"
    sql = (
        f"SELECT seq, {which}, value, stderr, cost_s FROM checks "
        'WHERE seq > ? ORDER BY seq, "constraint"'
    )
    values = (*constraints, after) if several else (after,)
    rows = np.fromiter(db.execute(sql, values), dtype=types)
    return {name: rows[name] for name in types.names or ()}


def rows_from_bytes(written: bytes) -> dict[str, Array]:
    """The columns that :func:`_write_reports` wrote, one row after the other."""
    rows = np.frombuffer(written, _ROW)
    return {name: rows[name] for name in _REPORT_TYPES}


def _write_reports(uri: str, last: int) -> None:
    """Write the reports up to ``last`` to the standard output."""
    db = sqlite3.connect(uri, uri=True, timeout=10)
    found = read_reports(db, 0, last)
    rows = np.empty(len(found["seq"]), _ROW)
    for name in _REPORT_TYPES:
        rows[name] = found[name]
    sys.stdout.buffer.write(rows.data)


if __name__ == "__main__":
    _write_reports(sys.argv[1], int(sys.argv[2]))
