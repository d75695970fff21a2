"""A table under limits: what is feasible, what the best is, what a check costs and gives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from acetune.core.errors import AcetuneError, GoalError, TableError
from acetune.core.goals import Constraint, Estimate, FailedCheck, Objective
from acetune.replay.curve_table import CurveTable, TableConstraint, make_table
from acetune.replay.judged_table import JudgedTable, judge
from acetune.replay.synthetic import synthetic_table

nan, inf = math.nan, math.inf


def small(mode: Any = "max", **changes: Any) -> CurveTable:
    metrics: dict[str, list[float]] = {
        "auc": [0.5, 0.6, 0.7],
        "eod": [0.25, nan, 0.26],
        "gain": [inf, -inf, 2.0],
        "auc@confirm": [0.4, 0.5, nan],
        "eod@confirm": [0.3, 0.2, 0.1],
    } | changes
    curves = [
        ({}, {name: column[:2] for name, column in metrics.items()}, [1.0, 2.0], None),
        ({}, {name: column[2:] for name, column in metrics.items()}, [3.0], None),
    ]
    limit = TableConstraint("eod", upper=0.25, cost_s=0.5, sparse=True)
    return make_table("small", Objective("auc", mode), [limit], curves)


UPPER, LOWER = Constraint("eod", upper=0.25), Constraint("eod", lower=0.26)


@pytest.mark.parametrize(
    ("constraints", "feasible"),
    [
        ([], [True, True, True]),
        ([UPPER], [True, False, False]),
        ([LOWER], [False, False, True]),
        ([Constraint("gain", lower=1.0)], [False, False, True]),  # infinity is no measurement
        ([Constraint("gain", upper=1.0)], [False, False, False]),
        ([LOWER, Constraint("gain", lower=2.0)], [False, False, True]),
        ([LOWER, Constraint("gain", upper=1.0)], [False, False, False]),
    ],
)
def test_feasible_is_what_a_check_would_find_valid(
    constraints: list[Constraint], feasible: list[bool]
) -> None:
    judged = judge(small(), constraints, cost_ratio=1.0)
    assert judged.feasible.tolist() == feasible
    checks = [judged.check(0, 1, -0.5), judged.check(0, 2, -0.6), judged.check(1, 1, -0.7)]
    assert [check.valid for check in checks] == feasible
    values = [value for value, ok in zip([0.5, 0.6, 0.7], feasible, strict=True) if ok]
    assert judged.best == max(values, default=None)
    least = judge(small("min"), constraints, cost_ratio=1.0)
    assert least.best == min(values, default=None)


def test_what_a_check_gives() -> None:
    judged = judge(small(), [UPPER, Constraint("gain", lower=4.0)], cost_ratio=1.0)
    check = judged.check(1, 1, -0.7)
    assert (check.step, check.loss, check.valid) == (1, -0.7, False)
    assert check.measured == {"eod": Estimate(0.26), "gain": Estimate(2.0)}
    assert check.violation == pytest.approx(0.01 / 0.25 + 2 / 4)
    missing = judged.check(0, 2, -0.6)
    assert missing.violation == inf
    assert all(isinstance(found, FailedCheck) for found in missing.measured.values())
    assert judged.losses.tolist() == [-0.5, -0.6, -0.7]
    assert judge(small("min")).losses.tolist() == [0.5, 0.6, 0.7]


def test_what_checks_cost() -> None:
    table = small()
    assert judge(table).check_cost_s == {"eod": 0.5}
    assert judge(table, cost_ratio=1.5).check_cost_s == {"eod": 3.0}  # the mean step costs 2 s
    both = [UPPER, Constraint("gain", lower=1.0)]
    assert judge(table, both, 1.5).check_cost_s == {"eod": 1.5, "gain": 1.5}
    assert judge(table, []).check_cost_s == {}
    assert judge(table, [], 1.5).check_cost_s == {}
    with pytest.raises(TableError, match="does not say what checking 'gain' costs"):
        _ = judge(table, both).check_cost_s


def test_the_answer_on_confirmation_rows() -> None:
    table = small()
    assert judge(table).confirmed(0, 1) == (0.4, True)
    assert judge(table).confirmed(0, 2) == (0.5, False)
    assert judge(table, [LOWER], 1.0).confirmed(0, 1) == (0.4, False)
    assert judge(table).confirmed(1, 1) is None  # was not measured there
    assert judge(table, [Constraint("gain", lower=1.0)], 1.0).confirmed(0, 1) is None  # never was
    assert judge(table, []).confirmed(0, 1) == (0.4, False)  # nothing to break


def test_the_limits_are_the_tables_unless_given() -> None:
    made = synthetic_table(30, difficulty=0.7)
    judged = judge(made.table)
    assert judged.constraints == (made.table.constraints[0].goal,)
    assert made.best is not None
    assert judged.best == made.best.value
    assert 1 - judged.feasible.mean() == pytest.approx(0.7, abs=0.05)
    assert np.array_equal(judged.feasible, made.table.metrics["gap"] <= judged.constraints[0].limit)


@pytest.mark.parametrize(
    ("constraints", "cost_ratio", "error", "message"),
    [
        ([Constraint("gap", upper=1)], 1.0, TableError, r"'small' has no metric 'gap'.*eod"),
        ([Constraint("eod", upper=1, margin_se=1)], 1.0, TableError, "no standard errors"),
        ([UPPER, UPPER], 1.0, GoalError, "'eod' is used twice"),
        ([Constraint("auc", upper=1)], 1.0, TableError, "'auc' is the objective"),
        (
            [Constraint("eod", upper=1, on="config", check=len)],
            1.0,
            GoalError,
            "'eod' is on the configuration",
        ),
        (UPPER, 1.0, GoalError, "constraints must be a list"),
        (["eod <= 0.25"], 1.0, GoalError, "must be Constraint objects, got 'eod <= 0.25'"),
        ([TableConstraint("eod", upper=1)], 1.0, GoalError, "must be Constraint objects"),
        ([UPPER], -1.0, TableError, "cost_ratio must be a finite number >= 0, got -1.0"),
        ([UPPER], nan, TableError, "got nan"),
        ([UPPER], inf, TableError, "got inf"),
        ([UPPER], "2", TableError, "got '2'"),
        ([UPPER], True, TableError, "got True"),
    ],
)
def test_what_makes_no_sense(
    constraints: Any, cost_ratio: Any, error: type[AcetuneError], message: str
) -> None:
    with pytest.raises(error, match=message):
        judge(small(), constraints, cost_ratio)


def test_a_judged_table_is_its_own_kind() -> None:
    assert isinstance(judge(small()), JudgedTable)
    assert judge(small()) != judge(small())  # as tables are: by identity


def test_the_best_feasible_loss_of_each_configuration() -> None:
    assert judge(small(), [UPPER], 1.0).best_losses.tolist() == [-0.5, inf]
    assert judge(small(), [LOWER], 1.0).best_losses.tolist() == [inf, -0.7]
    assert judge(small("min"), [], 1.0).best_losses.tolist() == [0.5, 0.7]
    made = synthetic_table(configs=30, seed=3, difficulty=0.6, noise=0.01)
    assert made.best is not None
    assert judge(made.table).best_losses.min() == -made.best.value
    assert judge(made.table).best_losses.argmin() == made.best.config
