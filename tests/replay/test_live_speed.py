"""How fast a machine is, from trials that are unlike those of the table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acetune.core.errors import TableError
from acetune.core.goals import Objective
from acetune.replay.curves import CurveTable, TableConstraint, make_table
from acetune.reproduce.live_runs import Trained
from acetune.reproduce.live_speed import Calibration, slowdown
from acetune.reproduce.paper import START
from acetune.space import Space, lograndint, loguniform, uniform

LIMIT = 0.45


def made_table(space: dict[str, Any], configs: int = 80, seed: int = 0) -> CurveTable:
    """Curves in the space of the task, made up; a step's cost depends on leaves, bins and step."""
    rng = np.random.default_rng(seed)
    curves = []
    for _ in range(configs):
        params = drawn(space, rng)
        step = np.arange(1, params["n_estimators"] + 1)
        auc = 0.85 - rng.uniform(0, 0.02) - 0.3 / (step + 1)
        eod = np.clip(rng.uniform(0.2, 0.6) + rng.normal(0, 0.02, len(step)), 0, 1)
        curves.append((params, {"auc": auc, "eod": eod}, cost_of(params, len(step)), None))
    limit = TableConstraint("eod", upper=LIMIT, cost_s=0.001)
    return make_table("made", Objective("auc", "max"), [limit], curves, space=space)


def drawn(space: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    params = dict(START)
    params["n_estimators"] = int(np.exp(rng.uniform(np.log(4), np.log(300))))
    params["num_leaves"] = int(
        np.exp(rng.uniform(np.log(4), np.log(space["num_leaves"]["integer"][1])))
    )
    params["log_max_bin"] = int(rng.integers(3, 12))
    return params


def cost_of(params: dict[str, Any], steps: int) -> np.ndarray:
    """A hundred times from the cheapest to the dearest, and falling from step to step."""
    each = 1e-4 * params["num_leaves"] ** 0.7 * 1.2 ** params["log_max_bin"]
    return np.asarray(each * np.arange(1, steps + 1) ** -0.2)


def credit_space() -> dict[str, Any]:
    return {
        "n_estimators": lograndint(4, 3000),
        "num_leaves": lograndint(4, 21000),
        "min_child_samples": lograndint(2, 129),
        "learning_rate": loguniform(1 / 1024, 1.0),
        "log_max_bin": lograndint(3, 11),
        "colsample_bytree": uniform(0.01, 1.0),
        "reg_alpha": loguniform(1 / 1024, 1024),
        "reg_lambda": loguniform(1 / 1024, 1024),
    }


def test_the_speed_of_a_machine_whatever_was_trained_on_it() -> None:
    """Three times slower, on trials that are cheaper and shorter than the table's."""
    space = Space(credit_space()).describe()
    table = made_table(space, configs=300)
    rng = np.random.default_rng(1)
    trained = []
    for _ in range(60):
        params = drawn(space, rng)
        params["num_leaves"] = min(params["num_leaves"], 60)
        steps = int(rng.integers(1, params["n_estimators"] + 1))
        noise = np.exp(rng.normal(0, 0.1))
        trained.append(Trained(params, steps, 3 * noise * float(cost_of(params, steps).sum())))
    mean_step_s = sum(t.seconds for t in trained) / sum(t.steps for t in trained)
    assert mean_step_s / table.mean_cost_s < 2  # what a ratio of means would say
    assert slowdown(table, trained) == pytest.approx(3, rel=0.06)


def test_costs_are_told_in_the_tables_units() -> None:
    """A machine half as fast, whose checks take as long as one of the table's mean steps."""
    found = Calibration(slower=2.0, trials=9, step_s=0.01, check_s=0.02, table_step_s=0.01)
    assert found.in_table_s(120) == 60
    assert found.cost_ratio == pytest.approx(1)
    assert found.live_ratio == pytest.approx(2)


def test_a_table_without_its_space_is_refused() -> None:
    curves = [({"x": 1}, {"auc": [0.5]}, [0.1], None)]
    with pytest.raises(TableError, match="--no-replay"):
        slowdown(make_table("t", Objective("auc", "max"), [], curves), [])
