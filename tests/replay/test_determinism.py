"""The same arguments give the same run; arguments that make no sense are refused."""

from __future__ import annotations

import gc
import math
import os
import pickle
import random
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from acetune.core.errors import AcetuneError, GoalError, SpaceError, TableError
from acetune.core.goals import Constraint
from acetune.policies import ACE, POLICY_NAMES, NoStopping, parse_policy
from acetune.replay.curve_table import CurveTable
from acetune.replay.judged_table import judge
from acetune.replay.runs import Cell, Run
from acetune.replay.simulator import simulate
from acetune.replay.synthetic import synthetic_table


def drawn(seed: int = 3) -> CurveTable:
    return synthetic_table(
        60, seed, max_steps=20, difficulty=0.7, drift=0.1, noise=0.01, confirmation=True
    ).table


def replayed(table: CurveTable, policy: Any = "ace", **options: Any) -> Run:
    return simulate(table, policy, **({"seed": 1, "workers": 3, "budget_s": 12.0} | options))


# -- the same again ------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_the_same_twice(policy: str) -> None:
    table = drawn()
    first = replayed(table, policy)
    assert replayed(table, policy) == first
    assert replayed(drawn(), policy) == first  # of another, equal table
    assert pickle.loads(pickle.dumps(first)) == first
    assert (first.policy, first.seed, first.mode) == (policy, 1, "max")
    limit = table.constraints[0].goal.describe()
    assert first.cell == Cell("synthetic", limit, None, 12.0, 3, "random")
    confirmed = None
    if first.incumbents:
        confirmed = judge(table).confirmed(*first.incumbents[-1][2:])
    assert (first.confirmed, first.broken) == (confirmed or (None, None))


@pytest.mark.parametrize("searcher", ["forest", "tpe", "cmaes", "blendsearch", "cfo"])
def test_the_same_twice_with_a_searcher(searcher: str) -> None:
    pytest.importorskip(
        {"forest": "numpy", "tpe": "optuna", "cmaes": "cmaes"}.get(searcher, "flaml")
    )
    table = drawn()
    options = {"searcher": searcher, "max_trials": 25}
    first = replayed(table, **options)
    random.seed(99)
    np.random.seed(99)  # whatever others draw from the global generators
    assert replayed(table, **options) == first
    assert replayed(table, **options, seed=2) != replace(first, seed=2)


def test_what_makes_a_difference_and_what_does_not() -> None:
    table = drawn()
    first = replayed(table)
    assert replayed(table, seed=2) != replace(first, seed=2)
    # a judged table, or limits that are spelled out
    assert simulate(judge(table), "ace", seed=1, workers=3, budget_s=12.0) == first
    goal = table.constraints[0].goal
    assert replayed(table, constraints=[goal]) == first
    # a policy by its name or as an object
    by_object = replayed(table, ACE())
    assert by_object == replace(first, policy=repr(ACE()))
    assert replayed(table, parse_policy("ace:truncation=0.25")) == by_object
    # a budget that does not bind
    unlimited = replayed(table, budget_s=math.inf)
    whole = replayed(table, budget_s=1e6)
    assert replace(unlimited, cell=whole.cell) == whole
    assert whole.trials == 60


def test_a_run_begins_as_the_same_run_with_a_larger_budget() -> None:
    table = drawn()
    longest = replayed(table, budget_s=math.inf)
    for budget_s in (0.01, 1.0, 5.0, 9.0, 12.0, longest.time_s):
        run = replayed(table, budget_s=budget_s)
        began = tuple(found for found in longest.incumbents if found.time_s <= budget_s)
        assert run.incumbents == began
        assert run.time_s == budget_s
        assert run.trials <= longest.trials


SCRIPT = """
from acetune.replay.simulator import simulate
from acetune.replay.synthetic import synthetic_table

table = synthetic_table(
    60, 3, max_steps=20, difficulty=0.7, drift=0.1, noise=0.01, confirmation=True
).table
for policy, searcher in [("ace", "random"), ("asha", "random"), ("curve+after", "random"),
                         ("ace", "tpe"), ("ace", "blendsearch"), ("ace", "forest")]:
    print(simulate(table, policy, searcher=searcher, seed=1, workers=3, budget_s=8.0))
"""


def test_the_same_in_another_process() -> None:
    pytest.importorskip("flaml")
    hash_seed = "12345" if os.environ.get("PYTHONHASHSEED") != "12345" else "54321"
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
    )
    table = drawn()
    policies = ("ace", "asha", "curve+after", "ace", "ace", "ace")
    searchers = ("random", "random", "random", "tpe", "blendsearch", "forest")
    expected = [
        replayed(table, policy, searcher=searcher, budget_s=8.0)
        for policy, searcher in zip(policies, searchers, strict=True)
    ]
    assert done.stdout.splitlines() == [repr(run) for run in expected]  # to the last digit


def test_a_table_is_left_as_it_was() -> None:
    table, untouched = drawn(), drawn()
    for policy in ("ace", "none+after"):
        replayed(table, policy, searcher="tpe")
    assert table.configs == untouched.configs
    for name, column in untouched.metrics.items():
        assert np.array_equal(table.metrics[name], column)


# -- garbage collection --------------------------------------------------------------------------


class Watching(NoStopping):
    """Notes whether garbage is collected during a replay, and may break it off."""

    def __init__(self, breaks: bool = False) -> None:
        super().__init__()
        self.breaks = breaks
        self.seen: set[bool] = set()

    def due(self, *arguments: Any) -> int | None:
        self.seen.add(gc.isenabled())
        if self.breaks:
            raise RuntimeError("enough")
        return super().due(*arguments)


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("breaks", [True, False])
def test_garbage_collection_is_as_it_was_before(enabled: bool, breaks: bool) -> None:
    policy, was_enabled = Watching(breaks), gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        if breaks:
            with pytest.raises(RuntimeError, match="enough"):
                replayed(drawn(), policy)
        else:
            replayed(drawn(), policy)
        assert gc.isenabled() == enabled
        assert policy.seen == {False}
    finally:
        (gc.enable if was_enabled else gc.disable)()


# -- what makes no sense -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"policy": "aec"}, GoalError, "unknown policy 'aec'"),
        ({"policy": "ace:truncation=2"}, GoalError, "truncation must be a share"),
        ({"policy": None}, GoalError, "policy must be a policy or its name, got None"),
        ({"policy": ACE}, GoalError, "policy must be a policy or its name, got <class"),
        ({"workers": 0}, GoalError, "workers must be a whole number >= 1, got 0"),
        ({"workers": -1}, GoalError, "workers .*got -1"),
        ({"workers": 2.0}, GoalError, r"workers .*got 2\.0"),
        ({"workers": True}, GoalError, "workers .*got True"),
        ({"workers": "2"}, GoalError, "workers .*got '2'"),
        ({"budget_s": 0}, GoalError, "budget_s must be a number of seconds > 0, got 0"),
        ({"budget_s": -1.0}, GoalError, r"budget_s .*got -1\.0"),
        ({"budget_s": math.nan}, GoalError, "budget_s .*got nan"),
        ({"budget_s": -math.inf}, GoalError, "budget_s .*got -inf"),
        ({"budget_s": "60"}, GoalError, "budget_s .*got '60'"),
        ({"budget_s": None}, GoalError, "budget_s .*got None"),
        ({"max_trials": 0}, GoalError, "max_trials must be a whole number >= 1, got 0"),
        ({"max_trials": -3}, GoalError, "max_trials .*got -3"),
        ({"max_trials": 2.5}, GoalError, r"max_trials .*got 2\.5"),
        ({"max_trials": True}, GoalError, "max_trials .*got True"),
        ({"startup_s": -0.1}, GoalError, r"startup_s must be a finite number >= 0, got -0\.1"),
        ({"startup_s": math.inf}, GoalError, "startup_s .*got inf"),
        ({"startup_s": math.nan}, GoalError, "startup_s .*got nan"),
        ({"startup_s": "1"}, GoalError, "startup_s .*got '1'"),
        ({"seed": -1}, GoalError, "seed must be a whole number >= 0, got -1"),
        ({"seed": None}, GoalError, "seed .*got None"),
        ({"seed": 1.5}, GoalError, r"seed .*got 1\.5"),
        ({"searcher": "tep"}, GoalError, "unknown searcher 'tep'"),
        ({"searcher": "tpe", "points": [{"x": 9.0}]}, SpaceError, r"x=9\.0 lies outside"),
        ({"cost_ratio": -1.0}, TableError, "cost_ratio must be a finite number >= 0"),
        ({"constraints": [Constraint("eod", upper=1)]}, TableError, "no metric 'eod'"),
        ({"constraints": Constraint("gap", upper=1)}, GoalError, "constraints must be a list"),
        ({"table": judge(drawn()), "cost_ratio": 1.0}, GoalError, "has its limits .* already"),
        ({"table": judge(drawn()), "constraints": []}, GoalError, "has its limits .* already"),
        (
            {"table": replace(drawn(), space=None), "searcher": "tpe"},
            TableError,
            "does not say what space",
        ),
    ],
)
def test_arguments_that_make_no_sense(
    options: dict[str, Any], error: type[AcetuneError], message: str
) -> None:
    options = {"table": drawn(), "policy": "ace"} | options
    with pytest.raises(error, match=message):
        simulate(options.pop("table"), options.pop("policy"), **options)
