"""True and False are no numbers, wherever one is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import acetune
from acetune import Constraint, Estimate, Stopper
from acetune.core.errors import AcetuneError, GoalError, ReportError, SpaceError, TableError
from acetune.core.goals import Objective, as_measurement
from acetune.core.numbers import as_number, as_whole, is_bool
from acetune.optuna import AcePruner
from acetune.ray import AceScheduler
from acetune.replay.curve_table import CurveTable, TableConstraint, make_table
from acetune.run._options import Settings
from acetune.searchers import make_searcher
from acetune.searchers.space import Space
from acetune.trial.checks import RaisedCheck, call_check

torch = pytest.importorskip("torch")

BOOLS = [
    True,
    False,
    np.bool_(True),
    np.array(False),
    np.array([True]),
    torch.tensor(True),
    torch.tensor([False]),
]
NUMBERS: list[Any] = [0, 1, 0.5, np.float32(0.5), np.int64(1), np.array(0.5), torch.tensor(0.5)]


@pytest.mark.parametrize("value", BOOLS, ids=repr)
def test_a_bool_is_refused_with_what_to_return(value: object) -> None:
    assert is_bool(value)
    for given in (value, (value, 0.1), Estimate(value, 0.1)):  # type: ignore[arg-type]
        with pytest.raises(ReportError, match=r"constraint 'gap' must be a .*itself, which"):
            as_measurement(given, "constraint 'gap'")
    with pytest.raises(ReportError, match="standard error of constraint 'gap' must be a number"):
        as_measurement((0.1, value), "constraint 'gap'")
    with pytest.raises(ReportError, match=r"give the measured number itself$"):
        as_number(value, "objective 'loss'")
    with pytest.raises(ReportError, match="step must be a whole number >= 1"):
        as_whole(value, "step", least=1)


@pytest.mark.parametrize("value", NUMBERS, ids=repr)
def test_a_number_is_taken_whatever_it_is_wrapped_in(value: object) -> None:
    assert not is_bool(value)
    assert as_number(value, "it") == float(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [3, np.int32(3), np.array(3), torch.tensor(3)], ids=repr)
def test_a_whole_number_is_taken_whatever_it_is_wrapped_in(value: object) -> None:
    found = as_whole(value, "step", least=1)
    assert found == 3 and type(found) is int


@pytest.mark.parametrize(
    "value", [0, 2.0, "2", None, np.array([1, 2]), torch.tensor(1.5), np.float64(1)], ids=repr
)
def test_what_is_no_whole_number_is_named(value: object) -> None:
    with pytest.raises(ReportError, match="step must be a whole number >= 1, got"):
        as_whole(value, "step", least=1)


def test_a_check_that_says_whether_its_limit_holds_is_a_failed_one() -> None:
    found = call_check(lambda model: model["a"] < 0.5, "gap", {"a": 0.2})
    assert isinstance(found, RaisedCheck)
    assert "the measured number itself, which acetune compares with the limit" in found.error


def observe(**report: Any) -> Callable[[], object]:
    def call() -> object:
        stopper = Stopper(objective="loss", mode="min", constraints=[Constraint("gap", upper=1)])
        return stopper.start("a", 5).observe(**({"step": 1, "value": 0.5} | report))

    return call


CURVE = ({"x": 1}, {"loss": [0.5, 0.4], "gap": [0.1, 0.2]}, [1.0, 1.0], None)
GAP = TableConstraint("gap", upper=0.5)


def table(**columns: Any) -> Callable[[], object]:
    params, metrics, costs, total = CURVE
    metrics = metrics | {name: values for name, values in columns.items() if name != "cost_s"}
    costs = columns.get("cost_s", costs)
    return lambda: make_table("t", Objective("loss"), [GAP], [(params, metrics, costs, total)])


def table_of_arrays() -> object:
    made = make_table("t", Objective("loss"), [GAP], [CURVE])
    columns = made.metrics | {"gap": np.array([True, False])}
    return CurveTable(
        "t", made.objective, (GAP,), made.configs, made.starts, columns, made.cost_s,
        made.total_steps,
    )  # fmt: skip


def settings(**options: Any) -> Callable[[], object]:
    defaults = {"workers": 1, "threads": 1, "max_trials": 3}
    return lambda: Settings(**(defaults | options))


def tuned(**options: Any) -> Callable[[], object]:
    space = {"x": acetune.uniform(0, 1)}
    goals = {"objective": "loss", "mode": "min", "max_trials": 1}
    return lambda: acetune.tune(print, space, **(goals | options))  # type: ignore[arg-type]


CALLS: dict[str, tuple[type[AcetuneError], Callable[[], object]]] = {
    "upper": (GoalError, lambda: Constraint("g", upper=True)),
    "lower": (GoalError, lambda: Constraint("g", lower=np.bool_(True))),
    "margin_se": (GoalError, lambda: Constraint("g", upper=1, margin_se=True)),
    "scale": (GoalError, lambda: Constraint("g", upper=1, scale=True)),
    "timeout_s": (GoalError, lambda: Constraint("g", upper=1, timeout_s=True)),
    "objective": (ReportError, observe(value=True)),
    "step": (ReportError, observe(step=True)),
    "a constraint": (ReportError, observe(constraints={"gap": False})),
    "primary_cost_s": (ReportError, observe(primary_cost_s=True)),
    "snapshot_cost_s": (ReportError, observe(snapshot_cost_s=False)),
    "constraint_cost_s": (
        ReportError,
        observe(constraints={"gap": 0.5}, constraint_cost_s={"gap": True}),
    ),
    "a column": (TableError, table(gap=[0.1, True])),
    "a column of bools": (TableError, table(gap=np.array([True, False]))),
    "the objective's column": (TableError, table(loss=[True, False])),
    "cost_s": (TableError, table(cost_s=[True, True])),
    "an array of a table": (TableError, table_of_arrays),
    "a bound": (SpaceError, lambda: acetune.uniform(0, np.bool_(True))),  # type: ignore[arg-type]
    "seed": (
        GoalError,
        lambda: make_searcher("random", Space({"x": acetune.uniform(0, 1)}), seed=True),
    ),
    "workers": (GoalError, tuned(workers=True)),
    "threads": (GoalError, tuned(threads=True)),
    **{
        name: (GoalError, settings(**{name: True}))
        for name in (
            "time_budget_s", "report_timeout_s", "max_trials", "retries",
            "stop_grace_s", "max_failures", "target", "patience_trials", "patience_s",
        )
    },
    "keep_models": (GoalError, tuned(keep_models=True)),
    "confirm_top": (GoalError, tuned(confirm_top=True)),
    "Stopper": (GoalError, lambda: Stopper(objective="a", mode="min", confirm_top=True)),
    "AcePruner": (GoalError, lambda: AcePruner([], confirm_top=True)),
    "AceScheduler": (GoalError, lambda: AceScheduler([], keep_models=True)),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_bools_are_refused_wherever_a_number_is_asked_for(name: str) -> None:
    error, call = CALLS[name]
    with pytest.raises(error, match=r"(must be|holds|must lie)"):
        call()
