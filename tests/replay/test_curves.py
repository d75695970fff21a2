"""The curve table in memory: parts that do not fit are named."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from acetune.core.errors import TableError
from acetune.core.goals import Objective
from acetune.replay.curve_table import CurveTable, TableConstraint, make_table
from replay.tables import AUC, CURVES, EOD, SPARSE, assert_same, curve, small


def test_a_table_answers_for_each_configuration() -> None:
    table = small()
    assert [table.steps(i) for i in range(3)] == [3, 1, 2]
    assert [table.complete(i) for i in range(3)] == [True, False, False]
    assert table.total_steps.tolist() == [3, 40, 0]
    assert table.curve(2, "auc").tolist() == [0.9, 0.91]
    assert table.mean_cost_s == pytest.approx(14.5 / 6)
    assert table.mean_check_cost_s == 0.0153
    assert not table.has_confirmation
    assert repr(table) == "<CurveTable 'small': 3 configurations, 6 steps, max auc, eod <= 0.25>"


def test_the_arrays_are_read_only_and_the_givers_stay_writable() -> None:
    table = small()
    with pytest.raises(ValueError, match="read-only"):
        table.cost_s[0] = 1
    mine = np.array([0.5, 0.5])
    make_table("t", AUC, [], [({}, {"auc": mine}, mine, None)])
    mine[0] = 0.6


def test_confirmation_needs_every_judged_metric() -> None:
    def with_columns(*names: str) -> CurveTable:
        return small(curves=[({}, {name: [0.1] for name in ("auc", "eod", *names)}, [1], None)])

    assert not with_columns("auc@confirm").has_confirmation
    assert with_columns("auc@confirm", "eod@confirm").has_confirmation


def test_numpy_values_of_parameters_become_plain() -> None:
    table = small(curves=[({"n": np.int64(3)}, {"auc": [0.5], "eod": [0.5]}, [1], None)])
    assert type(table.configs[0]["n"]) is int


def test_a_subset_takes_configurations_in_order_with_repeats() -> None:
    table = small(space={"lr": {"float": [0, 1], "log": False}}, made={"seed": 1})
    subset = table.subset([2, 0, 2])
    assert_same(
        subset,
        small(curves=[CURVES[i] for i in (2, 0, 2)], space=table.space, made={"seed": 1}),
    )
    assert_same(table.subset(np.arange(3)), table)


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([], "at least one configuration, got none"),
        ([0, 3], "no configuration 3; the table has 0 to 2"),
        ([-1], "no configuration -1"),
        ([True, False, True], r"list of indices, got \[True"),
        ([0.5], "list of indices"),
    ],
)
def test_a_subset_that_is_none(indices: Any, message: str) -> None:
    with pytest.raises(TableError, match=message):
        small().subset(indices)


WRONG_PARTS: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "no curves": (lambda: {"curves": []}, "the table is empty"),
    "no steps": (
        lambda: {"curves": curve(auc=[], eod=[], cost_s=[])},
        "configuration 1 has no rows; record it",
    ),
    "a metric less": (
        lambda: {"curves": [CURVES[0], ({}, {"auc": [1]}, [1], None)]},
        r"configuration 1 has the metrics \['auc'\], those before it \['auc', 'eod'\]",
    ),
    "a value less": (
        lambda: {"curves": curve(eod=[0.1])},
        "configuration 1 has 1 values of 'eod' but 2 costs",
    ),
    "text": (lambda: {"curves": curve(auc=["a", "b"])}, "configuration 1: 'auc' must be a list of"),
    "two dimensions": (lambda: {"curves": curve(auc=[[1], [2]])}, "configuration 1: 'auc' must be"),
    "NaN objective": (
        lambda: {"curves": curve(auc=[0.5, math.nan])},
        r"configuration 1, step 2: 'auc' is nan; it must be finite \(1 such rows\)",
    ),
    "endless objective": (
        lambda: {"curves": curve(auc=[math.inf, 0.5])},
        "configuration 1, step 1: 'auc' is inf",
    ),
    "NaN constraint": (
        lambda: {"curves": curve(eod=[0.1, math.nan])},
        "configuration 1, step 2: 'eod' is nan;.*mark the constraint sparse",
    ),
    "endless sparse constraint": (
        lambda: {"curves": curve(eod=[0.1, -math.inf]), "constraints": [SPARSE]},
        "configuration 1, step 2: 'eod' is -inf",
    ),
    "NaN cost": (
        lambda: {"curves": curve(cost_s=[1, math.nan])},
        "configuration 1, step 2: 'cost_s' is nan; a cost is a finite number of seconds, 0 or more",
    ),
    "negative cost": (lambda: {"curves": curve(cost_s=[-1, 1])}, "step 1: 'cost_s' is -1"),
    "fewer in total than recorded": (
        lambda: {"curves": curve(total=1)},
        "configuration 1 has 2 steps of a total of 1; the total must be at least that, or 0",
    ),
    "objective unknown": (
        lambda: {"objective": Objective("f1", "max")},
        r"the objective 'f1' has no column; the metrics are \['auc', 'eod'\]",
    ),
    "constraint unknown": (
        lambda: {"constraints": [TableConstraint("dpd", upper=1, cost_s=1)]},
        "the constraint 'dpd' has no column",
    ),
    "constraint twice": (lambda: {"constraints": [EOD, EOD]}, "'eod' is used twice"),
    "constraint on the objective": (
        lambda: {"constraints": [TableConstraint("auc", upper=1)]},
        "'auc' is used twice",
    ),
    "confirmation of nothing": (
        lambda: {"curves": [({}, {"auc": [1], "eod": [0], "f1@confirm": [1]}, [1], None)]},
        "column 'f1@confirm' confirms 'f1', which has no column",
    ),
    "NaN confirmation": (
        lambda: {"curves": [({}, {"auc": [1], "eod": [0], "eod@confirm": [math.nan]}, [1], None)]},
        "configuration 0, step 1: 'eod@confirm' is nan",
    ),
    "a metric called step": (
        lambda: {"curves": [({}, {"auc": [1], "eod": [0], "step": [1]}, [1], None)]},
        "a metric cannot be called 'step'",
    ),
    "no limit": (
        lambda: {"constraints": [TableConstraint("eod")]},
        "'eod': give exactly one of upper and lower, got upper=None, lower=None",
    ),
    "two limits": (
        lambda: {"constraints": [TableConstraint("eod", upper=1, lower=0)]},
        "exactly one of upper and lower, got upper=1, lower=0",
    ),
    "check that pays": (
        lambda: {"constraints": [TableConstraint("eod", upper=1, cost_s=-1)]},
        "cost_s of the constraint 'eod' must be finite and >= 0, got -1",
    ),
    "check that costs text": (
        lambda: {"constraints": [TableConstraint("eod", upper=1, cost_s="1")]},  # type: ignore[arg-type]
        "cost_s of the constraint 'eod' must be a number of seconds, got '1'",
    ),
}


@pytest.mark.parametrize("case", WRONG_PARTS)
def test_parts_that_do_not_fit(case: str) -> None:
    changes, message = WRONG_PARTS[case]
    with pytest.raises(TableError, match=message):
        small(**changes())


def test_a_table_without_a_name() -> None:
    with pytest.raises(TableError, match="needs a name, got ''"):
        make_table("", AUC, [EOD], CURVES)


def test_wrong_arrays_given_directly() -> None:
    table = small()
    fields = {name: getattr(table, name) for name in table.__dataclass_fields__}
    for changes, message in [
        ({"starts": np.array([0, 6])}, "starts must have 4 offsets from 0 to 6"),
        ({"starts": np.array([0, 3, 3, 6])}, "configuration 1 has no rows"),
        ({"starts": np.array([[0, 3], [4, 6]])}, "starts must have one dimension"),
        ({"total_steps": np.array([3, 4])}, "total_steps has 2 entries for 3"),
        ({"metrics": {**table.metrics, "f1": np.ones(5)}}, "'f1' has 5 rows, cost_s has 6"),
    ]:
        with pytest.raises(TableError, match=message):
            CurveTable(**(fields | changes))
