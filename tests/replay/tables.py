"""A small table for tests, and what makes two equal."""

from __future__ import annotations

from typing import Any

import numpy as np

from acetune.core.goals import Objective
from acetune.replay.curve_table import CurveTable, TableConstraint, make_table

AUC = Objective("auc", "max")
EOD = TableConstraint("eod", upper=0.25, cost_s=0.0153)
SPARSE = TableConstraint("eod", upper=0.25, cost_s=0.1, sparse=True)
CURVES: list[Any] = [
    (
        {"lr": 0.1, "act": "relu"},
        {"auc": [0.7, 0.8, 0.85], "eod": [0.1, 0.2, 0.3]},
        [1, 2, 3],
        None,
    ),
    ({"lr": 0.2, "act": None}, {"auc": [0.6], "eod": [0.25]}, [0.5], 40),
    ({"lr": 0.3, "act": "gelu"}, {"auc": [0.9, 0.91], "eod": [0.5, 0.5]}, [4, 4], 0),
]


def small(**changes: Any) -> CurveTable:
    given: dict[str, Any] = {"objective": AUC, "constraints": [EOD], "curves": CURVES}
    return make_table("small", **(given | changes))


def assert_same(one: CurveTable, other: CurveTable) -> None:
    for name in ("name", "objective", "constraints", "configs", "space", "made"):
        assert getattr(one, name) == getattr(other, name)
    for name in ("starts", "total_steps", "cost_s"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert list(one.metrics) == list(other.metrics)
    for metric, column in one.metrics.items():
        np.testing.assert_array_equal(column, other.metrics[metric])


def curve(**changes: Any) -> list[Any]:
    values = {"auc": [0.5, 0.6], "eod": [0.1, 0.2], "cost_s": [1, 1], "params": {}, "total": None}
    values |= changes
    params, cost_s, total = (values.pop(name) for name in ("params", "cost_s", "total"))
    return [CURVES[0], (params, values, cost_s, total)]
