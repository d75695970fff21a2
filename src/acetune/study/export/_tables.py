"""The three tables of an export, trials, reports and checks: as CSV, or as Parquet with types."""

from __future__ import annotations

import csv
import json
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, TextIO, TypeAlias

from acetune.core.formatting import flattened
from acetune.core.import_on_use import import_extra
from acetune.searchers.space import flat_names
from acetune.study.atomic_write import replacing
from acetune.study.export._gathered import Gathered, gathering
from acetune.study.export.destinations import require_free, table_files
from acetune.study.table_rows import CheckRow, ReportRow

Kind: TypeAlias = Literal["integer", "number", "boolean", "text", "time"]
Row: TypeAlias = tuple[Any, ...]

_ROWS = 50_000  # at a time: what is held in memory, and a row group of Parquet


def to_csv(
    study: str | os.PathLike[str], output: str | os.PathLike[str], *, force: bool = False
) -> list[Path]:
    """Write a study as CSV; returns the files.

    Parameters
    ----------
    study:
        The study file; the study may be running.
    output:
        A name that ends in ``.csv``: the trials, one row each. Any other: a folder with
        ``trials.csv``, ``reports.csv``, ``checks.csv`` and ``study.json``, which has the goals,
        the policy, the settings and the confirmations.
    force:
        Overwrite these files where they exist.

    Cells hold the data as they are, in UTF-8, whatever a spreadsheet may take them for. Numbers
    are written in full; times are ISO 8601 in UTC. An empty cell is nothing: a value that is
    unknown, a parameter that the trial does not have, or one that is None.
    """
    paths = table_files(output, ".csv")
    if len(paths) > 1:
        paths.append(Path(output) / "study.json")
    require_free(paths, force=force)
    with gathering(Path(study)) as gathered, replacing(paths) as parts:
        _write(gathered, parts, _CsvTable)
        if len(parts) > 1:
            with _open(parts[3]) as file:
                json.dump(gathered.info, file, indent=2)
    return paths


def to_parquet(
    study: str | os.PathLike[str], output: str | os.PathLike[str], *, force: bool = False
) -> list[Path]:
    """Write a study as Parquet; returns the files. Needs pyarrow: ``acetune[replay]``.

    Parameters as for :func:`to_csv`, with the ending ``.parquet`` and without ``study.json``.

    The metadata of each schema has, under ``acetune``, the goals, the policy, the settings and the
    confirmations as JSON. A parameter whose values are of several types (and not all numbers) is
    written as text.
    """
    pyarrow = _pyarrow()
    paths = table_files(output, ".parquet")
    require_free(paths, force=force)
    with gathering(Path(study)) as gathered, replacing(paths) as parts:
        _write(gathered, parts, partial(_ParquetTable, pyarrow, gathered.info))
    return paths


# -- what the tables hold --------------------------------------------------------------------------


class ExportColumn(NamedTuple):
    """Name and type of a column; times are seconds since 1970."""

    name: str
    kind: Kind
    cells: Sequence[Any] = ()  # what stands in it, in that of trials


_KINDS: dict[str, Kind] = {
    "time": "time",
    **dict.fromkeys(("seq", "trial", "attempt", "step", "checked_step", "rank", "of"), "integer"),
    **dict.fromkeys(("attempts", "total_steps", "interval", "last_step"), "integer"),
    **dict.fromkeys(("reports", "checks"), "integer"),
    **dict.fromkeys(
        ("kind", "stratum", "decision", "metrics", "constraint", "error", "note"), "text"
    ),
    **dict.fromkeys(("state", "reason"), "text"),
}


def _kind(name: str) -> Kind:
    return _KINDS.get(name, "number")


REPORTS = [ExportColumn(name, _kind(name)) for name in ReportRow._fields]
CHECKS = [
    ExportColumn(name, _kind(name))
    for name in ("seq", "trial", "attempt", "step", *CheckRow._fields)
]


def trial_columns(gathered: Gathered) -> list[ExportColumn]:
    """The columns of the table of trials: as in ``StudyResult.trials``, and more."""
    rows, numbers = gathered.trials, gathered.numbers
    found = [gathered.found.get(row.trial) for row in rows]
    answer = None if gathered.answer is None else gathered.answer.trial
    columns = [ExportColumn(n, _kind(n), cells) for n, cells in numbers.described.items()]
    columns += [
        ExportColumn("stratum", "text", [gathered.stratum(row.trial) for row in rows]),
        ExportColumn("found_attempt", "integer", _of(found, "attempt")),
        ExportColumn("found_step", "integer", _of(found, "step")),
        ExportColumn("found_objective", "number", _of(found, "value")),
        ExportColumn("violation", "number", _of(found, "violation")),
        ExportColumn("confirmation", "text", [gathered.status(row.trial) for row in rows]),
        ExportColumn("answer", "boolean", [row.trial == answer for row in rows]),
    ]
    columns += [ExportColumn(n, "number", cells) for n, cells in numbers.measured(found).items()]
    columns += [
        ExportColumn("startup_s", "number", gathered.startup_s),
        ExportColumn("training_s", "number", numbers.training_s.tolist()),
        ExportColumn("checks_s", "number", numbers.checks_s.tolist()),
        ExportColumn("snapshots_s", "number", numbers.snapshots_s.tolist()),
        ExportColumn("started", "time", [row.started for row in rows]),
        ExportColumn("ended", "time", [row.ended for row in rows]),
    ]
    params = [flattened(row.params) for row in rows]
    # in the order they were declared
    names = dict.fromkeys(flat_names(gathered.info["space"]))
    names.update(dict.fromkeys(name for its in params for name in its))
    columns += [_parameter(name, [its.get(name) for its in params]) for name in names]
    return columns


def as_text(value: object) -> str:
    """A value of a parameter in words: lists and objects as JSON."""
    return json.dumps(value) if isinstance(value, (list, dict)) else str(value)


def _parameter(name: str, values: list[Any]) -> ExportColumn:
    """A column for a parameter: of one type if its values are, else of words."""
    kinds = {type(value) for value in values if value is not None}
    large = any(type(value) is int and abs(value) >= 2**63 for value in values)
    kind: Kind = "text"
    if kinds == {bool}:
        kind = "boolean"
    elif kinds and kinds <= {int, float} and not large:
        kind = "integer" if kinds == {int} else "number"
    if kind == "text":
        values = [None if value is None else as_text(value) for value in values]
    return ExportColumn(f"param.{name}", kind, values)


def _of(things: Sequence[object], field: str) -> list[Any]:
    """A field of each, None where there is no such thing."""
    return [None if thing is None else getattr(thing, field) for thing in things]


# -- files -----------------------------------------------------------------------------------------


class _Table(AbstractContextManager["_Table"]):
    """A file that a table is written to, some rows at a time."""

    @abstractmethod
    def add(self, rows: list[Row]) -> None: ...


def _write(
    gathered: Gathered, paths: list[Path], table: Callable[[Path, Sequence[ExportColumn]], _Table]
) -> None:
    """The trials; reports and checks too, where there are files for them."""
    if len(paths) > 1:
        passing = gathered.reports()
        with table(paths[1], REPORTS) as reports, table(paths[2], CHECKS) as checks:
            while some := list(islice(passing, _ROWS)):
                reports.add([row for row, _ in some])
                checks.add(
                    [
                        # the step is that of the checkpoint checked
                        (row.seq, row.trial, row.attempt, row.checked_step, *check)
                        for row, found in some
                        for check in found
                    ]
                )
    columns = trial_columns(gathered)
    with table(paths[0], columns) as trials:
        rows = zip(*(column.cells for column in columns), strict=True)
        while batch := list(islice(rows, _ROWS)):
            trials.add(batch)


class _CsvTable(_Table):
    def __init__(self, path: Path, columns: Sequence[ExportColumn]) -> None:
        self._file = _open(path)
        # lines end as in RFC 4180: then the writer also quotes cells that hold half of such an end
        self._lines = csv.writer(self._file, lineterminator="\r\n")
        self._lines.writerow([column.name for column in columns])
        self._times = [place for place, column in enumerate(columns) if column.kind == "time"]

    def add(self, rows: list[Row]) -> None:
        for i in self._times:
            rows = [(*row[:i], _time(row[i]), *row[i + 1 :]) for row in rows]
        self._lines.writerows(rows)

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _open(path: Path) -> TextIO:
    # half characters, which JSON can hold and UTF-8 cannot, are written out
    return path.open("w", encoding="utf-8", errors="backslashreplace", newline="")


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")


class _ParquetTable(_Table):
    def __init__(
        self, pyarrow: Any, info: Any, path: Path, columns: Sequence[ExportColumn]
    ) -> None:
        types = {
            "integer": pyarrow.int64(),
            "number": pyarrow.float64(),
            "boolean": pyarrow.bool_(),
            "text": pyarrow.string(),
            "time": pyarrow.timestamp("us", tz="UTC"),
        }
        self._pyarrow, self._columns = pyarrow, columns
        fields = [(utf8(column.name), types[column.kind]) for column in columns]
        self._schema = pyarrow.schema(fields, metadata={"acetune": json.dumps(info)})
        self._writer = pyarrow.parquet.ParquetWriter(path, self._schema, compression="zstd")

    def add(self, rows: list[Row]) -> None:
        if not rows:
            return
        arrays = [
            self._pyarrow.array(_cells(column, cells), field.type, from_pandas=False)
            for column, cells, field in zip(
                self._columns, zip(*rows, strict=True), self._schema, strict=True
            )
        ]
        self._writer.write_table(self._pyarrow.table(arrays, schema=self._schema))

    def __exit__(self, *_: object) -> None:
        self._writer.close()


def _cells(column: ExportColumn, cells: tuple[Any, ...]) -> Iterator[Any] | tuple[Any, ...]:
    if column.kind == "time":
        return (None if cell is None else round(cell * 1e6) for cell in cells)
    if column.kind == "text":
        return (None if cell is None else utf8(cell) for cell in cells)
    return cells


def utf8(text: str) -> str:
    """Half characters, which JSON can hold and UTF-8 cannot, are written out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _pyarrow() -> Any:
    import_extra("pyarrow.parquet", "pyarrow", "replay")
    return import_extra("pyarrow", "pyarrow", "replay")
