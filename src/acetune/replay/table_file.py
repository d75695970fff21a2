"""The curve table on disk: one Parquet file that any Parquet reader understands.

Columns: ``config`` and ``step`` (int32), a float column a metric, ``cost_s`` (float). The schema
metadata key ``acetune`` holds JSON: ``format``, ``name``, ``objective`` (``metric``, ``mode``),
``constraints`` (``metric``, ``upper`` or ``lower``, ``cost_s``) and ``configs``. Readers of the
basic format can ignore the rest: ``space``, ``made``, ``sparse`` in a constraint, and
``incomplete``, the planned number of steps (null: not known) of curves that were cut off.

>>> import tempfile
>>> from acetune.core.goals import Objective
>>> from acetune.replay import make_table
>>> curves = [({"lr": 0.1}, {"auc": [0.71234, 0.8]}, [0.02, 0.02], None)]
>>> path = Path(tempfile.mkdtemp(), "curves.parquet")
>>> write_table(path, make_table("one", Objective("auc", "max"), [], curves), {"auc": 3})
>>> read_table(path).curve(0, "auc").tolist()
[0.712, 0.8]
"""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acetune.core.errors import TableError
from acetune.core.import_on_use import import_extra
from acetune.core.numbers import is_whole
from acetune.replay._table_header import (
    describe_table,
    parse_header,
    read_constraint,
    read_objective,
    read_total_steps,
)
from acetune.replay.curve_table import CONFIRM, RESERVED, CurveTable, Floats, Ints, offsets

_KEY = b"acetune"
_CHECKSUM_KEY = b"acetune-sha256"  # of that and of the columns; earlier versions wrote none
_KEYS = ("config", "step")  # whole numbers; the other columns are floats
_POWERS = np.array([float(f"1e{power}") for power in range(301)])  # np.power may be an ulp off
_ONE_PAGE = 2**30  # bytes or rows: more than any column has; pages of their own compress worse


def read_table(path: str | os.PathLike[str]) -> CurveTable:
    """Read a curve table and check all of it; what is wrong is a :class:`TableError`.

    A float32 is read as the shortest decimal that denotes it, 0.3 and not 0.30000001: what was
    written as 0.3 meets a limit of 0.3.
    """
    path = Path(path)
    pyarrow, parquet = _pyarrow()
    try:
        path.open("rb").close()
    except FileNotFoundError:
        raise TableError(f"there is no curve table {path}") from None
    except OSError as error:
        raise TableError(f"cannot read {path}: {error.strerror}") from None
    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            schema = file.schema_arrow
            header = _header(schema)
            _require_columns(schema, pyarrow.types)
            read = file.read()
        columns = {name: read.column(name) for name in read.column_names}
        _require_checksum(schema.metadata, columns)
        return _table(header, columns)
    except TableError as error:
        raise TableError(f"{path}: {error}") from None
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise TableError(
            f"{path} is no Parquet file, or it is cut off or damaged ({reason}); copy it again, or "
            "record it again"
        ) from None


def write_table(
    path: str | os.PathLike[str], table: CurveTable, digits: Mapping[str, int] | None = None
) -> None:
    """Write a curve table; under its name it is whole or not there.

    ``digits`` rounds, so that the file is small: decimals of each metric (and of its ``@confirm``
    column, unless that has an entry of its own), and significant digits of ``cost_s``. Read back
    are the numbers nearest to those decimals.
    """
    path = Path(path)
    pyarrow, parquet = _pyarrow()
    header = describe_table(table)
    columns = rounded_columns(table, digits or {})
    lengths = np.diff(table.starts)
    steps = np.arange(len(table.cost_s)) - np.repeat(table.starts[:-1], lengths) + 1
    config = np.repeat(np.arange(len(lengths)), lengths)
    keys = {"config": config.astype(np.int32), "step": steps.astype(np.int32)}
    written = pyarrow.table({**keys, **columns})
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with parquet.ParquetWriter(
            partial, written.schema, **_small(columns), **_pages(parquet)
        ) as writer:
            writer.write_table(written, row_group_size=_ONE_PAGE)
            checksum = _checksum(_as_bytes(header), {**keys, **columns})
            writer.add_key_value_metadata({_KEY: header, _CHECKSUM_KEY: checksum})
        partial.replace(path)
    except OSError as error:
        raise TableError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        partial.unlink(missing_ok=True)


def _small(columns: dict[str, Floats]) -> dict[str, Any]:
    """Writer options for a small file: one dictionary a rounded column, one row group, zstd.

    On 900,000 rows of LightGBM curves a dictionary of float64 beat plain float32 and its byte
    streams, and a dictionary of float32 was no smaller.
    """
    repetitive = [name for name, column in columns.items() if _repeats(column)]
    encodings = dict.fromkeys(columns.keys() - set(repetitive), "BYTE_STREAM_SPLIT")
    return {
        "compression": "zstd",
        "compression_level": 19,
        "use_dictionary": repetitive,
        "dictionary_pagesize_limit": _ONE_PAGE,
        "column_encoding": encodings | dict.fromkeys(_KEYS, "DELTA_BINARY_PACKED"),
        "write_statistics": False,
        "write_page_checksum": True,
        "store_schema": False,  # it would hold the metadata a second time
    }


def _pages(parquet: Any) -> dict[str, int]:
    pages = {"data_page_size": _ONE_PAGE}
    if "max_rows_per_page" in inspect.signature(parquet.ParquetWriter).parameters:
        pages["max_rows_per_page"] = _ONE_PAGE  # older versions of pyarrow know no such limit
    return pages


def _repeats(column: Floats) -> bool:
    """Whether a dictionary of the distinct values pays."""
    return len(np.unique(column)) * 4 < len(column)


def _as_bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _checksum(header: bytes, columns: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 of what a table says, however it is stored."""
    found = hashlib.sha256(header)
    for name in sorted(columns):
        column = columns[name]
        if column.dtype.kind == "f":  # there is one NaN and one zero
            column = np.where(np.isnan(column), np.nan, column) + column.dtype.type(0)
        found.update(f"\n{name} {column.dtype.str} {len(column)}\n".encode())
        found.update(np.ascontiguousarray(column).data)
    return found.hexdigest()


def _require_checksum(metadata: Mapping[bytes, bytes], columns: Mapping[str, Any]) -> None:
    written = metadata.get(_CHECKSUM_KEY)
    if written is None:  # of an earlier version, or of another program
        return
    found = _checksum(metadata[_KEY], {name: c.to_numpy() for name, c in columns.items()})
    if found.encode() != written:
        raise TableError(
            "what it holds is not what was written: its checksum is another one; copy it again, or "
            f"take the key {_CHECKSUM_KEY.decode()!r} out of its metadata if it was changed on "
            "purpose"
        )


def _header(schema: Any) -> dict[str, Any]:
    text = (schema.metadata or {}).get(_KEY)
    if text is None:
        raise TableError(
            "a Parquet file, but no curve table: its schema metadata have no key 'acetune'; "
            "write one with acetune.replay.table_file.write_table"
        )
    return parse_header(text)


def _require_columns(schema: Any, types: Any) -> None:
    names = schema.names
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise TableError(f"there are two columns {twice[0]!r}; rename one")
    for name in RESERVED:
        if name not in names:
            raise TableError(
                f"there is no column {name!r}; the columns are {names}, and config, step and "
                "cost_s are needed"
            )
    for name in names:
        kind = schema.field(name).type
        if name in _KEYS and not types.is_integer(kind):
            raise TableError(f"column {name!r} holds {kind}; convert it to int32")
        if name not in _KEYS and not types.is_floating(kind):
            raise TableError(
                f"column {name!r} holds {kind}; convert it to float64 (float32 will do) or drop it"
            )


def _table(header: dict[str, Any], columns: dict[str, Any]) -> CurveTable:
    """The table from its header and its columns as pyarrow has them."""
    configs = header["configs"]
    config, step = (_whole_numbers(columns.pop(name), name) for name in _KEYS)
    starts = _starts(config, step, len(configs))
    floats = {name: _decimals(column.to_numpy()) for name, column in columns.items()}
    cost_s = floats.pop("cost_s")
    return CurveTable(
        header["name"],
        read_objective(header["objective"]),
        tuple(read_constraint(described) for described in header["constraints"]),
        tuple(configs),
        starts,
        floats,
        cost_s,
        read_total_steps(np.diff(starts), header.get("incomplete") or {}),
        header.get("space"),
        header.get("made") or {},
    )


def _whole_numbers(column: Any, name: str) -> Ints:
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy()))
        raise TableError(f"row {row + 1}: {name!r} is empty; every row needs it")
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _starts(config: Ints, step: Ints, configs: int) -> Ints:
    """Row offsets, once every configuration has its steps 1, 2, ... in order."""
    if not configs or not len(config):
        raise TableError(
            f"the table is empty: it has {configs} configurations and {len(config)} rows; "
            "record at least one step of one"
        )
    outside = (config < 0) | (config >= configs)
    if outside.any():
        row = int(np.argmax(outside))
        raise TableError(
            f"row {row + 1}: there is no configuration {config[row]}; the metadata list "
            f"0 to {configs - 1}"
        )
    back = np.diff(config) < 0
    if back.any():
        row = int(np.argmax(back)) + 1
        raise TableError(
            f"row {row + 1}: configuration {config[row]} comes after {config[row - 1]}; "
            "sort the rows by config and step"
        )
    lengths = np.bincount(config, minlength=configs)
    if not lengths.all():
        raise TableError(
            f"configuration {int(np.argmin(lengths))} has no rows; "
            "record it, or take it out of the metadata's configs"
        )
    starts = offsets(lengths)
    due = np.arange(len(step)) - starts[config] + 1
    wrong = step != due
    if wrong.any():
        row = int(np.argmax(wrong))
        raise TableError(
            f"row {row + 1}: configuration {config[row]} has step {step[row]} where step "
            f"{due[row]} is due; steps count from 1, in order, with no gaps and no repeats"
        )
    return starts


def _decimals(column: NDArray[Any]) -> Floats:
    if column.dtype == np.float64:
        return column
    distinct, places = np.unique(column, return_inverse=True)
    return np.array([str(value) for value in distinct], dtype=np.float64)[places]


def require_parquet() -> None:
    """An error if tables cannot be written here: to be known before hours of training."""
    _pyarrow()


def _pyarrow() -> tuple[Any, Any]:
    pyarrow, parquet = "pyarrow", "pyarrow.parquet"
    return import_extra(pyarrow, pyarrow, "replay"), import_extra(parquet, pyarrow, "replay")


def rounded_columns(table: CurveTable, digits: Mapping[str, int]) -> dict[str, Floats]:
    """Metrics in so many decimals, and ``cost_s`` in so many significant digits."""
    known = [*table.metrics, "cost_s"]
    for name, count in digits.items():
        if name not in known:
            raise TableError(f"digits of {name!r}: there is no such column; there are {known}")
        if not is_whole(count) or not 0 <= count <= 15:
            raise TableError(f"digits of {name!r} must be a number from 0 to 15, got {count!r}")
    columns = {}
    for metric, column in table.metrics.items():
        decimals = digits.get(metric, digits.get(metric.removesuffix(CONFIRM)))
        columns[metric] = column if decimals is None else fixed(column, decimals)
    kept = digits.get("cost_s")
    columns["cost_s"] = table.cost_s if kept is None else significant(table.cost_s, kept)
    return columns


def fixed(column: Floats, decimals: int) -> Floats:
    """The doubles nearest to the values in so many decimals.

    >>> fixed(np.array([0.123456, -0.0001, 1e300, np.nan]), 3).tolist()
    [0.123, 0.0, 1e+300, nan]
    """
    # both this and a whole number below 2**52 are exact: there is one rounding, in the end
    scale = float(_POWERS[decimals])
    small = np.abs(column) < 2**52 / scale  # beyond that a double has no decimals to round
    rounded = np.rint(np.where(small, column, 0.0) * scale) / scale
    return np.where(small, rounded + 0.0, column)  # + 0.0 takes the sign off a zero


def significant(column: Floats, digits: int) -> Floats:
    """The doubles nearest to the values in so many significant digits.

    >>> significant(np.array([0.012345, 0.0, 1234.5]), 2).tolist()
    [0.012, 0.0, 1200.0]
    """
    magnitude = np.floor(np.log10(np.where(column > 0, column, 1.0))).astype(int)
    decimals = np.clip(digits - 1 - magnitude, -300, 300)
    shift, unshift = _POWERS[np.maximum(decimals, 0)], _POWERS[np.maximum(-decimals, 0)]
    rounded: Floats = np.rint(column * shift / unshift) * unshift / shift  # one of the two is 1
    return rounded
