"""Tables as Parquet: the same as in CSV, with real types and the study's goals beside them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from acetune.core.errors import MissingExtraError
from acetune.export.columns import (
    CHECKS,
    REPORTS,
    Column,
    Row,
    check_rows,
    trial_columns,
    trial_rows,
)
from acetune.export.gathered import Gathered, gathering
from acetune.export.places import replacing, require_free, table_files

_ROWS = 50_000  # at a time: what is held in memory, and a row group


def to_parquet(
    study: str | os.PathLike[str], output: str | os.PathLike[str], *, force: bool = False
) -> list[Path]:
    """Write a study as Parquet; returns the files. Needs pyarrow: ``acetune[replay]``.

    Parameters
    ----------
    study:
        The study file; the study may be running.
    output:
        A name that ends in ``.parquet``: the trials, one row each. Any other: a folder with
        ``trials.parquet``, ``reports.parquet`` and ``checks.parquet``.
    force:
        Overwrite these files where they exist.

    The metadata of each schema has, under ``acetune``, the goals, the policy, the settings and the
    confirmations as JSON. A parameter whose values are of several types (and not all numbers) is
    written as text.
    """
    pyarrow = _pyarrow()
    paths = table_files(output, ".parquet")
    require_free(paths, force=force)
    with gathering(Path(study)) as gathered, replacing(paths) as parts:
        if len(parts) > 1:
            _write_reports(pyarrow, gathered, parts[1], parts[2])
        found = trial_columns(gathered)
        with _Table(pyarrow, parts[0], [column for column, _ in found], gathered.info) as table:
            rows = trial_rows(found, gathered)
            while some := list(islice(rows, _ROWS)):
                table.add(some)
    return paths


def _write_reports(pyarrow: Any, gathered: Gathered, reports: Path, checks: Path) -> None:
    info, passing = gathered.info, gathered.reports()
    with (
        _Table(pyarrow, reports, REPORTS, info) as report_table,
        _Table(pyarrow, checks, CHECKS, info) as check_table,
    ):
        while some := list(islice(passing, _ROWS)):
            report_table.add([row for row, _ in some])
            check_table.add([check for row, checked in some for check in check_rows(row, checked)])


class _Table:
    """A Parquet file that is written some rows at a time."""

    def __init__(self, pyarrow: Any, path: Path, columns: Iterable[Column], info: Any) -> None:
        types = {
            "integer": pyarrow.int64(),
            "number": pyarrow.float64(),
            "boolean": pyarrow.bool_(),
            "text": pyarrow.string(),
            "time": pyarrow.timestamp("us", tz="UTC"),
        }
        self._columns = list(columns)
        fields = [(_utf8(column.name), types[column.kind]) for column in self._columns]
        self._schema = pyarrow.schema(fields, metadata={"acetune": json.dumps(info)})
        self._pyarrow = pyarrow
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

    def __enter__(self) -> _Table:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()


def _cells(column: Column, cells: tuple[Any, ...]) -> Iterator[Any] | tuple[Any, ...]:
    if column.kind == "time":
        return (None if cell is None else round(cell * 1e6) for cell in cells)
    if column.kind == "text":
        return (None if cell is None else _utf8(cell) for cell in cells)
    return cells


def _utf8(text: str) -> str:
    """Half characters, which JSON can hold and UTF-8 cannot, are written out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("pyarrow", "replay") from None
    return pyarrow
