"""How fast a machine is, from trials that are unlike those of the table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acetune.core.errors import TableError
from acetune.core.goals import Objective
from acetune.replay.curve_table import CurveTable, TableConstraint, make_table
from acetune.replay.statistics import Interval
from acetune.searchers.space import Space, lograndint, loguniform, uniform
from paper.live_costs import ExpectedCosts
from paper.live_runs import Trained
from paper.live_speed import Calibration, Slowdown, require_space, slowdown
from paper.published import START

LIMIT = 0.45


def made_table(
    space: dict[str, Any], configs: int = 80, seed: int = 0, noise: float = 0.0
) -> CurveTable:
    """Curves in the space of the task, made up; a step's cost depends on leaves, bins and step.

    With noise there are configurations that are dearer than their hyperparameters tell, and such
    that are cheaper, by a factor whose logarithm has this standard deviation.
    """
    rng = np.random.default_rng(seed)
    curves = []
    for _ in range(configs):
        params = drawn(space, rng)
        step = np.arange(1, params["n_estimators"] + 1)
        auc = 0.85 - rng.uniform(0, 0.02) - 0.3 / (step + 1)
        eod = np.clip(rng.uniform(0.2, 0.6) + rng.normal(0, 0.02, len(step)), 0, 1)
        cost = cost_of(params, len(step))
        if noise:
            cost = cost * np.exp(rng.normal(0, noise))
        curves.append((params, {"auc": auc, "eod": eod}, cost, None))
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


def made_trials(space: dict[str, Any], number: int, times: float, noise: float, seed: int) -> Any:
    """Live trials that are cheaper and shorter than the table's, on a slower machine."""
    rng = np.random.default_rng(seed)
    trained = []
    for _ in range(number):
        params = drawn(space, rng)
        params["num_leaves"] = min(params["num_leaves"], 60)
        steps = int(rng.integers(1, params["n_estimators"] + 1))
        factor = times * np.exp(rng.normal(0, noise))
        trained.append(Trained(params, steps, factor * float(cost_of(params, steps).sum())))
    return trained


def test_the_speed_of_a_machine_whatever_was_trained_on_it() -> None:
    """Three times slower, on trials that are cheaper and shorter than the table's."""
    space = Space(credit_space()).describe()
    table = made_table(space, configs=300)
    trained = made_trials(space, 60, 3.0, 0.1, seed=1)
    mean_step_s = sum(t.seconds for t in trained) / sum(t.steps for t in trained)
    assert mean_step_s / table.mean_cost_s < 2  # what a ratio of means would say
    found = slowdown(table, {("ace", 20): trained})
    assert found.whole.mean == pytest.approx(3, rel=0.06)
    assert found.whole.low < found.whole.mean < found.whole.high
    assert found.trials == 60


def test_sums_are_compared_as_a_budget_is_used_up_by_them() -> None:
    """A machine that is as fast, with costs that scatter: the geometric mean of it is 1 / 1.28."""
    space = Space(credit_space()).describe()
    table = made_table(space, configs=400, noise=0.7)
    steady = made_trials(space, 300, 1.0, 0.7, seed=1)
    found = slowdown(table, {("none", 20): steady})
    assert found.whole.mean == pytest.approx(1, abs=0.1)
    assert found.whole.low < 1 < found.whole.high
    assert found.understated == pytest.approx(np.exp(0.7**2 / 2), rel=0.1)


def test_the_fit_is_corrected_on_curves_held_out_of_it() -> None:
    space = Space(credit_space()).describe()
    costs = ExpectedCosts(made_table(space, configs=400, noise=0.7))
    begun = [(trial.params, trial.steps) for trial in made_trials(space, 50, 1.0, 0.0, seed=1)]
    raised = costs.seconds(begun) / costs.uncorrected(begun)
    assert (raised > 1.1).all()
    assert len(set(np.round(raised, 6))) == len({steps.bit_length() for _, steps in begun})
    exact = ExpectedCosts(made_table(space, configs=400))
    assert exact.seconds(begun) == pytest.approx(exact.uncorrected(begun), rel=0.02)


def test_a_machine_that_drifts_is_seen_by_seed_and_policy() -> None:
    space = Space(credit_space()).describe()
    trained = {
        (policy, seed): made_trials(space, 40, times, 0.05, seed=seed)  # the same in both policies
        for seed, times in ((20, 3.0), (21, 1.5))
        for policy in ("none", "ace")
    }
    trained["asha", 20] = []
    found = slowdown(made_table(space, configs=300), trained)
    for policy in ("none", "ace", None):
        assert found.by[policy, 20] == pytest.approx(3.0, rel=0.08)
        assert found.by[policy, 21] == pytest.approx(1.5, rel=0.08)
    assert 1.5 < found.by["ace", None] < 3
    assert found.by[None, None] == found.whole.mean
    assert not any(policy == "asha" for policy, _ in found.by)
    assert found.trials == 160
    assert found.configs <= 80  # each was trained by both


def test_costs_are_told_in_the_tables_units() -> None:
    """A machine half as fast, whose checks take as long as one of the table's mean steps."""
    slow = Slowdown(Interval(2.0, 1.5, 2.5), {(None, None): 2.0}, 9, 9, 1.0)
    found = Calibration(slow, step_s=0.01, check_s=0.02, table_step_s=0.01)
    assert found.in_table_s(120) == 60
    assert found.cost_ratio == pytest.approx(1)
    assert found.live_ratio == pytest.approx(2)


def test_a_table_without_its_space_is_refused() -> None:
    curves = [({"x": 1}, {"auc": [0.5]}, [0.1], None)]
    with pytest.raises(TableError, match="--no-replay"):
        require_space(make_table("t", Objective("auc", "max"), [], curves), {})
