"""Curve tables of other programs, damaged ones and ones that make no sense."""

from __future__ import annotations

import contextlib
import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pytest
from pyarrow import parquet

from acetune.core.errors import TableError
from acetune.replay.table_file import read_table, write_table
from replay.tables import small

HEADER: dict[str, Any] = {
    "format": 1,
    "name": "theirs",
    "objective": {"metric": "auc", "mode": "max"},
    "constraints": [{"metric": "eod", "upper": 0.3, "cost_s": 0.0153}],
    "configs": [{"lr": 0.1}, {"lr": 0.2}],
}
COLUMNS: dict[str, Any] = {
    "config": np.array([0, 0, 0, 1, 1], dtype=np.int32),
    "step": np.array([1, 2, 3, 1, 2], dtype=np.int32),
    "auc": np.array([0.7, 0.8, 0.9, 0.6, 0.7], dtype=np.float32),
    "eod": np.array([0.1, 0.3, 0.2, 0.2, 0.2], dtype=np.float32),
    "cost_s": np.array([0.1, 0.1, 0.1, 0.2, 0.2], dtype=np.float32),
}


def write(path: Path, columns: dict[str, Any], header: object) -> None:
    """A file as another program would write it; a header of None or bytes is taken as it is."""
    text = header if isinstance(header, bytes | None) else json.dumps(header).encode()
    table = pa.table({name: column for name, column in columns.items() if column is not None})
    if text is not None:
        table = table.replace_schema_metadata({"acetune": text})
    parquet.write_table(table, path)


def test_the_basic_format_is_read(tmp_path: Path) -> None:
    write(tmp_path / "t.parquet", COLUMNS, HEADER)
    table = read_table(tmp_path / "t.parquet")
    assert (table.space, table.made) == (None, {})
    assert table.complete(0)
    assert table.complete(1)
    assert table.curve(0, "eod").tolist() == [0.1, 0.3, 0.2]  # not 0.30000001, above the limit
    assert table.cost_s.tolist() == [0.1, 0.1, 0.1, 0.2, 0.2]


def test_wider_columns_and_unknown_keys_are_fine(tmp_path: Path) -> None:
    columns = {name: column.astype(column.dtype.str[:2] + "8") for name, column in COLUMNS.items()}
    write(tmp_path / "t.parquet", columns, {**HEADER, "later": 1, "made": None})
    assert read_table(tmp_path / "t.parquet").metrics["auc"].dtype == np.float64


def test_pandas_reads_what_was_written(tmp_path: Path) -> None:
    write_table(tmp_path / "t.parquet", small(), {"auc": 5})
    frame = pandas.read_parquet(tmp_path / "t.parquet")
    assert list(frame.columns) == ["config", "step", "auc", "eod", "cost_s"]
    assert [str(kind) for kind in frame.dtypes] == ["int32", "int32", *["float64"] * 3]
    assert frame["step"].tolist() == [1, 2, 3, 1, 1, 2]
    assert frame["auc"].tolist() == [0.7, 0.8, 0.85, 0.6, 0.9, 0.91]
    header = json.loads(parquet.read_schema(tmp_path / "t.parquet").metadata[b"acetune"])
    assert header["objective"] == {"metric": "auc", "mode": "max"}
    assert header["constraints"] == [{"metric": "eod", "upper": 0.25, "cost_s": 0.0153}]
    assert header["incomplete"] == {"1": 40, "2": None}
    assert header["configs"][0] == {"lr": 0.1, "act": "relu"}


def constraint(**changes: Any) -> dict[str, Any]:
    described = {**HEADER["constraints"][0], **changes}
    return {"constraints": [{k: v for k, v in described.items() if v != "left out"}]}


def cell(column: str, row: int, value: float) -> dict[str, Any]:
    changed = COLUMNS[column].copy()
    changed[row] = value
    return {column: changed}


def nulls(column: str) -> dict[str, Any]:
    return {column: pa.array([None, *COLUMNS[column][1:].tolist()], pa.int32())}


NO_ROWS = {name: column[:0] for name, column in COLUMNS.items()}
WRONG_FILES: dict[str, tuple[dict[str, Any], Any, str]] = {
    # case: changes of the columns, changes of the header (or the whole of it), message
    "foreign": ({}, None, "a Parquet file, but no curve table.*write one with"),
    "no JSON": ({}, b"{", r"metadata 'acetune' are no JSON \(.*write the file again"),
    "no text": ({}, b"\xff\xfe\xfd", "are no JSON"),
    "nested without end": ({}, b"[" * 100_000, "are no JSON"),
    "no object": ({}, b"[1]", r"must be a JSON object, got \[1\]"),
    "newer": ({}, {"format": 2}, r"newer acetune \(format 2, this one reads 1\); upgrade"),
    "no format": ({}, {"format": None}, '"format": 1, got None'),
    "format as text": ({}, {"format": "1"}, "got '1'"),
    "no name": ({}, {"name": 3}, "need 'name', text; got 3"),
    "empty name": ({}, {"name": ""}, "needs a name, got ''"),
    "no configs": ({}, {"configs": None}, "need 'configs', a list; got None"),
    "config as list": ({}, {"configs": [{}, []]}, r"configuration 1 must be an object, got \[\]"),
    "space as list": ({}, {"space": [1]}, r"'space' must be an object, got \[1\]"),
    "objective as text": ({}, {"objective": "auc"}, "need 'objective', an object; got 'auc'"),
    "objective without mode": ({}, {"objective": {"metric": "auc"}}, "objective .* needs 'mode'"),
    "objective with a wrong mode": (
        {},
        {"objective": {"metric": "auc", "mode": "up"}},
        "mode must be 'min' or 'max', got 'up'",
    ),
    "objective elsewhere": (
        {},
        {"objective": {"metric": "f1", "mode": "max"}},
        r"the objective 'f1' has no column; the metrics are \['auc', 'eod'\]",
    ),
    "constraint as text": ({}, {"constraints": ["eod<=1"]}, "must be an object, got 'eod<=1'"),
    "constraint elsewhere": ({}, constraint(metric="dpd"), "the constraint 'dpd' has no column"),
    "constraint without metric": (
        {},
        constraint(metric="left out"),
        "constraint .* needs 'metric'",
    ),
    "constraint without cost": ({}, constraint(cost_s="left out"), "constraint .* needs 'cost_s'"),
    "constraint with a negative cost": ({}, constraint(cost_s=-1), "must be finite and >= 0, got"),
    "constraint without limit": (
        {},
        constraint(upper="left out"),
        "exactly one of upper and lower",
    ),
    "constraint with two": ({}, constraint(lower=0), "exactly one.*got upper=0.3, lower=0"),
    "constraint with a huge limit": ({}, constraint(upper=10**400), "limit must be finite, got 10"),
    "constraint NaN": ({}, constraint(upper=math.nan), "limit must be finite, got nan"),
    "sparse as text": ({}, constraint(sparse="yes"), "must be true or false, got 'yes'"),
    "incomplete elsewhere": ({}, {"incomplete": {"7": 9}}, "configuration '7'; there are 0 to 1"),
    "incomplete by name": ({}, {"incomplete": {"a": 9}}, "configuration 'a'"),
    "incomplete but whole": (
        {},
        {"incomplete": {"0": 3}},
        "gives configuration 0 3 steps in total; it has 3 rows",
    ),
    "incomplete by half": ({}, {"incomplete": {"0": 4.5}}, "gives configuration 0 4.5 steps"),
    "incomplete for ever": ({}, {"incomplete": {"0": 10**30}}, "gives configuration 0 10000"),
    "no step": (
        {"step": None},
        {},
        r"there is no column 'step'; the columns are \['config', 'auc'",
    ),
    "no cost": ({"cost_s": None}, {}, "there is no column 'cost_s'"),
    "float steps": ({"step": np.ones(5)}, {}, "column 'step' holds double; convert it to int32"),
    "text": ({"note": ["a"] * 5}, {}, "column 'note' holds string; .* or drop it"),
    "integer metric": (
        {"auc": np.ones(5, dtype=int)},
        {},
        "'auc' holds int64; convert it to float",
    ),
    "empty steps": (nulls("step"), {}, "row 1: 'step' is empty"),
    "empty configs": (nulls("config"), {}, "row 1: 'config' is empty"),
    "no rows": (NO_ROWS, {}, "the table is empty: it has 2 configurations and 0 rows"),
    "nothing at all": (NO_ROWS, {"configs": []}, "the table is empty"),
    "config beyond": (cell("config", 4, 2), {}, "row 5: there is no configuration 2;.*0 to 1"),
    "config below": (cell("config", 0, -1), {}, "row 1: there is no configuration -1"),
    "config unsorted": (cell("config", 1, 1), {}, "row 3: configuration 0 comes after 1; sort"),
    "config without rows": ({}, {"configs": [{}, {}, {}]}, "configuration 2 has no rows"),
    "from 0": ({"step": np.array([0, 1, 2, 0, 1])}, {}, "row 1: configuration 0 has step 0 where"),
    "gap": (cell("step", 2, 4), {}, "row 3: configuration 0 has step 4 where step 3 is due"),
    "repeat": (cell("step", 4, 1), {}, "row 5: configuration 1 has step 1 where step 2 is due"),
    "confirmation of nothing": (
        {"f1@confirm": np.ones(5)},
        {},
        "'f1@confirm' confirms 'f1', which has no column",
    ),
    "NaN objective": (cell("auc", 4, math.nan), {}, "configuration 1, step 2: 'auc' is nan"),
    "endless objective": (cell("auc", 0, math.inf), {}, "configuration 0, step 1: 'auc' is inf"),
    "null objective": (
        {"auc": pa.array([0.1, None, 0.2, 0.3, 0.4])},
        {},
        "configuration 0, step 2: 'auc' is nan",
    ),
    "NaN constraint": (cell("eod", 2, math.nan), {}, "step 3: 'eod' is nan.*sparse"),
    "NaN cost": (cell("cost_s", 3, math.nan), {}, "configuration 1, step 1: 'cost_s' is nan"),
    "negative cost": (cell("cost_s", 3, -0.5), {}, "configuration 1, step 1: 'cost_s' is -0.5"),
}


@pytest.mark.parametrize("case", WRONG_FILES)
def test_a_wrong_file_is_named_with_what_is_wrong(tmp_path: Path, case: str) -> None:
    columns, header, message = WRONG_FILES[case]
    path = tmp_path / "curves.parquet"
    write(path, COLUMNS | columns, {**HEADER, **header} if isinstance(header, dict) else header)
    with pytest.raises(TableError, match=message) as refused:
        read_table(path)
    assert str(refused.value).startswith(f"{path}: ")


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    columns = [*COLUMNS.values(), COLUMNS["auc"]]
    table = pa.table([pa.array(column) for column in columns], names=[*COLUMNS, "auc"])
    header = {"acetune": json.dumps(HEADER)}
    parquet.write_table(table.replace_schema_metadata(header), tmp_path / "t.parquet")
    with pytest.raises(TableError, match="two columns 'auc'; rename one"):
        read_table(tmp_path / "t.parquet")


def test_a_file_that_is_not_there_or_no_file(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"there is no curve table .*none.parquet"):
        read_table(tmp_path / "none.parquet")
    with pytest.raises(TableError, match=r"cannot read .*: Is a directory"):
        read_table(tmp_path)


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "curves.csv"
    for content in (b"", b"config,step\n0,1\n", b"PAR1" * 10):
        path.write_bytes(content)
        with pytest.raises(TableError, match=r"curves.csv is no Parquet file, or it is cut off"):
            read_table(path)


def test_a_file_cut_off_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_table(path, small())
    whole = path.read_bytes()
    for length in range(0, len(whole), 37):
        path.write_bytes(whole[:length])
        with pytest.raises(TableError, match=r"cut off or damaged.*copy it again"):
            read_table(path)


def test_damaged_data_are_not_taken_for_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_table(path, small())
    whole = path.read_bytes()
    column = parquet.ParquetFile(path).metadata.row_group(0).column(2)
    at = column.data_page_offset + column.total_compressed_size - 3  # inside its last page
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
    with pytest.raises(TableError, match=r"damaged \(.*; copy it again"):
        read_table(path)


def test_flipped_bytes_raise_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_table(path, small())
    whole = path.read_bytes()
    for at in range(0, len(whole), 5):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x80]) + whole[at + 1 :])
        with contextlib.suppress(TableError):
            read_table(path)


def test_a_damaged_table_is_never_taken_for_another_one(tmp_path: Path) -> None:
    path, chance, refused = tmp_path / "curves.parquet", random.Random(0), 0
    write_table(path, small(), {"cost_s": 2})
    whole, table = path.read_bytes(), read_table(path)
    for number in range(200):
        broken = bytearray(whole)
        start = (
            chance.randrange(len(broken)) if number % 2 else len(broken) - chance.randrange(1500)
        )
        for place in range(max(4, start), min(start + chance.choice([1, 8, 64]), len(broken))):
            broken[place] = chance.randrange(256)
        path.write_bytes(broken)
        try:
            found = read_table(path)
        except TableError:
            refused += 1
            continue
        for metric, column in table.metrics.items():
            assert np.array_equal(found.metrics[metric], column, equal_nan=True)
        assert np.array_equal(found.cost_s, table.cost_s)
        assert (found.configs, found.constraints, found.objective, found.name) == (
            table.configs,
            table.constraints,
            table.objective,
            table.name,
        )
    assert refused > 100
