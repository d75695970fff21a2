"""The curve table on disk: what is written is read back."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from acetune.core.errors import MissingExtraError, TableError
from acetune.replay.curve_table import CurveTable, TableConstraint, make_table, offsets
from acetune.replay.table_file import read_table, write_table
from properties import examples
from replay.tables import AUC, EOD, SPARSE, assert_same, curve, small


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    table = small(space={"lr": {"float": [0.0, 1.0], "log": False}}, made={"seed": 3, "v": ["1"]})
    write_table(tmp_path / "t.parquet", table)
    assert_same(read_table(str(tmp_path / "t.parquet")), table)


def test_unchecked_checkpoints_are_read_as_they_were_written(tmp_path: Path) -> None:
    metrics = {
        "auc": [0.5, 0.6],
        "eod": [math.nan, 0.2],
        "note": [math.inf, math.nan],
        "auc@confirm": [math.nan, 0.61],
    }
    table = small(constraints=[SPARSE], curves=[({}, metrics, [1, 1], 0)])
    write_table(tmp_path / "t.parquet", table, {"eod": 3})
    assert_same(read_table(tmp_path / "t.parquet"), table)


def test_a_lower_limit_and_no_limit_at_all(tmp_path: Path) -> None:
    for constraints in ([], [TableConstraint("eod", lower=0.1, cost_s=0)]):
        write_table(tmp_path / "t.parquet", small(constraints=constraints))
        assert read_table(tmp_path / "t.parquet").constraints == tuple(constraints)


numbers = st.floats(allow_nan=False, allow_infinity=False)
costs = st.floats(min_value=0, allow_infinity=False)
curves = st.lists(
    st.tuples(
        st.dictionaries(st.text(), st.one_of(st.none(), st.booleans(), st.integers(), numbers)),
        st.lists(st.tuples(numbers, numbers, costs), min_size=1, max_size=6),
        st.one_of(st.none(), st.just(0), st.integers(6, 2**31 - 1)),
    ),
    min_size=1,
    max_size=5,
)


@examples(60)
@given(curves=curves, name=st.text(min_size=1))
def test_any_table_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, curves: list[Any], name: str
) -> None:
    made = []
    for params, steps, total in curves:
        auc, eod, cost = zip(*steps, strict=True)
        made.append((params, {"auc": auc, "eod": eod}, cost, total))
    table = make_table(name, AUC, [EOD], made)
    path = tmp_path_factory.mktemp("any") / "t.parquet"
    write_table(path, table)
    assert_same(read_table(path), table)


def test_only_the_whole_file_ever_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.parquet"
    write_table(path, small())
    before = path.read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parquet.ParquetWriter, "write_table", full)
    with pytest.raises(TableError, match=r"cannot write .*t.parquet: No space left"):
        write_table(path, small())
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]
    assert path.read_bytes() == before


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"cannot write .*nowhere/t.parquet"):
        write_table(tmp_path / "nowhere" / "t.parquet", small())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"curves": curve(params={"f": max})},
            "configuration 1 must be plain JSON.*not JSON serializable",
        ),
        ({"curves": curve(params={"f": math.nan})}, "configuration 1 must be plain JSON.*'f': nan"),
        ({"made": {"at": Path("x")}}, "made must be plain JSON"),
        ({"space": {"lr": math.inf}}, "space must be plain JSON"),
    ],
)
def test_what_json_cannot_hold(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TableError, match=message):
        write_table(tmp_path / "t.parquet", small(**changes))
    assert not list(tmp_path.iterdir())


def test_without_pyarrow_the_error_names_the_install_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'acetune\[replay\]'"):
        read_table(tmp_path / "t.parquet")
    with pytest.raises(MissingExtraError, match="pyarrow"):
        write_table(tmp_path / "t.parquet", small())


def test_rounded_curves_make_a_small_file(tmp_path: Path) -> None:
    """About 5 bytes a row of three columns, where float64 as they are take 24."""
    rng = np.random.default_rng(0)
    lengths = np.exp(rng.uniform(math.log(4), math.log(1000), 500)).astype(int)
    starts = offsets(lengths)
    rows = int(starts[-1])
    progress = (np.arange(rows) - np.repeat(starts[:-1], lengths)) / np.repeat(lengths, lengths)
    level, speed = (np.repeat(rng.uniform(a, b, 500), lengths) for a, b in [(0.7, 0.8), (1, 9)])
    walk = np.cumsum(rng.normal(0, 5e-5, rows))
    auc = level - 0.1 * np.exp(-speed * progress) + walk - np.repeat(walk[starts[:-1]], lengths)
    eod = np.abs(0.3 - level + 0.4 * progress + rng.normal(0, 2e-3, rows))
    cost = np.repeat(rng.lognormal(-5, 0.5, 500), lengths) * rng.lognormal(0, 0.1, rows)
    table = CurveTable(
        "big", AUC, (EOD,), ({},) * 500, starts, {"auc": auc, "eod": eod}, cost, lengths
    )
    path = tmp_path / "t.parquet"
    write_table(path, table, {"auc": 5, "eod": 4, "cost_s": 2})
    assert path.stat().st_size < 6 * rows
    np.testing.assert_array_equal(read_table(path).metrics["auc"], np.round(auc, 5))
    write_table(path, table)
    assert path.stat().st_size < 24 * rows
    assert_same(read_table(path), table)
