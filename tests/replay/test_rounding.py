"""Rounding gives the very numbers that the decimals denote."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acetune.core.errors import TableError
from acetune.replay.table_file import fixed, read_table, significant, write_table
from replay.tables import small

numbers = st.floats(allow_nan=False, allow_infinity=False)


def test_digits_round_metrics_confirmation_and_costs(tmp_path: Path) -> None:
    metrics = {"auc": [0.853124], "eod": [0.25004], "auc@confirm": [0.853124], "eod@confirm": [0.2]}
    table = small(curves=[({}, metrics, [0.012345], None)])
    digits = {"auc": 5, "eod": 4, "auc@confirm": 3, "cost_s": 2}
    write_table(tmp_path / "t.parquet", table, digits)
    read = read_table(tmp_path / "t.parquet")
    assert {name: column.tolist() for name, column in read.metrics.items()} == {
        "auc": [0.85312],
        "eod": [0.25],  # so a limit of 0.25 holds, as written
        "auc@confirm": [0.853],
        "eod@confirm": [0.2],
    }
    assert read.cost_s.tolist() == [0.012]


@given(st.lists(numbers, min_size=1), st.integers(0, 15))
def test_fixed_decimals_are_the_doubles_that_those_decimals_denote(
    values: list[float], decimals: int
) -> None:
    rounded = fixed(np.array(values), decimals)
    np.testing.assert_array_equal(fixed(rounded, decimals), rounded)
    for value, result in zip(values, rounded.tolist(), strict=True):
        if abs(value) < 2**52 / 10**decimals:
            assert result == float(f"{Decimal(result):.{decimals}f}")
            assert abs(Decimal(result) - Decimal(value)) <= Decimal(10) ** -decimals
        else:
            assert result == value


@given(st.lists(st.floats(1e-250, 1e250), min_size=1), st.integers(1, 15))
def test_significant_digits_are_close_and_few(values: list[float], digits: int) -> None:
    rounded = significant(np.array(values), digits)
    for value, result in zip(values, rounded.tolist(), strict=True):
        assert result == pytest.approx(value, rel=0.5001 * 10.0 ** (1 - digits))
        if 1e-7 < value < 1e15:
            assert result == float(f"{result:.{digits - 1}e}")


def test_tiny_and_huge_costs_survive_rounding() -> None:
    column = np.array([0.0, 5e-324, 1e-310, 1.7e308])
    np.testing.assert_allclose(significant(column, 2), column, rtol=0.05, atol=1e-299)


@pytest.mark.parametrize(
    ("digits", "message"),
    [
        ({"f1": 3}, r"digits of 'f1': there is no such column; there are \['auc', 'eod', 'cost_s'"),
        ({"auc": -1}, "digits of 'auc' must be a number from 0 to 15, got -1"),
        ({"auc": 2.5}, "got 2.5"),
        ({"cost_s": True}, "got True"),
    ],
)
def test_digits_that_make_no_sense(tmp_path: Path, digits: Any, message: str) -> None:
    with pytest.raises(TableError, match=message):
        write_table(tmp_path / "t.parquet", small(), digits)
