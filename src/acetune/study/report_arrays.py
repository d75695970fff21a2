"""Reports and checks of a study as NumPy columns, read from its file."""

from __future__ import annotations

import math
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from acetune.core.decision import INVALID as INVALID  # strata by their numbers, for all readers
from acetune.core.decision import STRATA as STRATA
from acetune.core.decision import UNCHECKED as UNCHECKED
from acetune.core.decision import VALID as VALID
from acetune.core.report_values import LARGEST_COST_S, LARGEST_STEP
from acetune.study._read_report_rows import LAST, ReportRows, read_rows
from acetune.study._read_report_rows import Array as Array
from acetune.study._validation import LARGEST_TRIAL, YEARS

STEP, END, AFTER = 0, 1, 2
"""Kinds of report: one of a step, and a check at or after the end of its trial."""

CONTINUE, STOP, FINISH = 0, 1, 2
"""What was decided at a report."""

KINDS = ("step", "end", "after")
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
_CHECK_TYPES = {
    "seq": "i8",
    "constraint": "i2",
    "value": "f8",
    "stderr": "f8",
    "cost_s": "f8",
    "margin_se": "f8",
    "row": "i8",
}


_LARGEST = sys.float_info.max
_RANGES = {  # of columns, by name: the least and the most; NaN stands for nothing
    "trial": (1, LARGEST_TRIAL),
    "attempt": (1, 2**15 - 1),
    "step": (1, LARGEST_STEP),
    "checked_step": (0, LARGEST_STEP),
    **dict.fromkeys(("primary_cost_s", "snapshot_cost_s", "cost_s"), (0, LARGEST_COST_S)),
    "violation": (0, math.inf),
    "value": (-_LARGEST, _LARGEST),
    **dict.fromkeys(("stderr", "margin_se"), (0, _LARGEST)),
    "time": YEARS,
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
    margin_se: Array
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


def read_reports(db: sqlite3.Connection, after: int, last: int = LAST) -> dict[str, Array]:
    """The reports with a ``seq`` larger than ``after``, up to ``last``."""
    return columns_of(read_rows(db, after, last))


def columns_of(rows: ReportRows) -> dict[str, Array]:
    """Rows of the file as columns."""
    count, usual = len(rows.seq), rows.usual
    step, violation = usual["step"], usual["violation"]
    checked = ~np.isnan(violation)
    found: dict[str, Array] = {
        "seq": rows.seq,
        "trial": usual["trial"],
        "attempt": np.ones(count, "i2"),
        "kind": np.full(count, STEP, "i1"),
        "step": step,
        "objective": usual["objective"],
        "checked_step": np.where(checked, step, 0),
        "checked_objective": np.where(checked, usual["objective"], np.nan),
        "violation": violation,
        "stratum": np.where(checked, np.where(violation == 0, VALID, INVALID), UNCHECKED),
        "decision": np.full(count, CONTINUE, "i1"),
        "primary_cost_s": usual["primary_cost_s"],
        "snapshot_cost_s": np.zeros(count),
        "time": usual["time"],
    }
    odd = rows.odd
    if len(odd):  # put in place what they have otherwise
        at = np.searchsorted(rows.seq, odd["seq"])
        for name in ("attempt", "checked_step", "checked_objective", "snapshot_cost_s"):
            found[name][at] = odd[name]
        for name, words in (("kind", KINDS), ("stratum", STRATA), ("decision", DECISIONS)):
            found[name][at] = _numbers(odd[name], words)
    _require_columns(found)
    return found


def _numbers(written: Array, words: Sequence[str]) -> Array:
    """The places of what was written among the words; another word is a damaged file."""
    found = np.full(len(written), -1, "i1")
    for number, word in enumerate(words):
        found[written == word.encode()] = number
    if (found < 0).any():
        raise ValueError(f"{written[found.argmin()]!r} is none of {', '.join(words)}")
    return found


def read_checks(db: sqlite3.Connection, after: int, constraints: Sequence[str]) -> dict[str, Array]:
    """The checks of reports with a ``seq`` larger than ``after``, without their ``row``."""
    types = np.dtype([(name, kind) for name, kind in _CHECK_TYPES.items() if name != "row"])
    cases = " ".join(f"WHEN ? THEN {index}" for index in range(len(constraints)))
    several = len(constraints) > 1  # to tell names apart costs as much as two columns
    which = f'CASE "constraint" {cases} END' if several else "0"
    sql = (
        f"SELECT seq, {which}, value, stderr, cost_s, margin_se FROM checks "
        'WHERE seq > ? ORDER BY seq, "constraint"'
    )
    values = (*constraints, after) if several else (after,)
    rows = np.fromiter(db.execute(sql, values), dtype=types)
    found = {name: rows[name] for name in types.names or ()}
    _require_columns(found)
    return found


def _require_columns(columns: Mapping[str, Array]) -> None:
    """Raise ValueError if a number is out of the range that its column has."""
    for name, (least, most) in _RANGES.items():
        if name in columns and len(columns[name]):
            low, high = np.fmin.reduce(columns[name]), np.fmax.reduce(columns[name])
            if low < least or high > most:
                raise ValueError(f"{name} cannot be {low if low < least else high}")
