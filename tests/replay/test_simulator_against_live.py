"""The same trials live, on one worker, and replayed from a table: the same decisions.

The live training function reports what the table holds, costs included, so that nothing depends on
a clock.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acetune import Constraint, Trial
from acetune.core.goals import Objective
from acetune.policies import POLICY_NAMES, parse_policy
from acetune.replay.curve_table import CurveTable, TableConstraint, make_table
from acetune.replay.judged_table import judge
from acetune.replay.simulator import simulate
from acetune.replay.synthetic import synthetic_table
from acetune.study.store import reading
from run.helpers import InOrder, report_rows, trial_rows, tune

from . import watching
from .watching import Reported, replay

SEED = 5


def complete_table() -> CurveTable:
    """Feasible early and violating late, with ties."""
    return synthetic_table(18, 4, max_steps=12, difficulty=0.7, drift=0.2, noise=0.02).table


def ragged_table() -> CurveTable:
    """Curves that end before T, or whose T nobody knows; two limits, one of them seldom measured.

    No interval may be chosen by costs here: a live trial that ends by itself times its last check
    by the clock.
    """
    rng = np.random.default_rng(8)
    curves = []
    for config in range(16):
        steps = int(rng.integers(1, 9))
        gap = rng.choice([0.1, 0.2, 0.3], steps)
        recall = rng.choice([0.7, 0.8, 0.9, math.nan], steps)
        metrics = {"loss": rng.choice([1.0, 2.0, 3.0, 4.0], steps), "gap": gap, "recall": recall}
        total = [None, steps + 3, 0][config % 3]
        curves.append(({}, metrics, rng.choice([0.5, 1.0], steps), total))
    limits = [
        TableConstraint("gap", upper=0.2, cost_s=1.0),
        TableConstraint("recall", lower=0.8, cost_s=0.25, sparse=True),
    ]
    return make_table("ragged", Objective("loss", "min"), limits, curves)


def recorded_training(table: CurveTable) -> tuple[Any, dict[str, Any]]:
    """A training function that reports the recorded curve of configuration ``x``, and its checks.

    A model is its place in the table.
    """
    starts = table.starts.tolist()
    values = table.metrics[table.objective.name].tolist()
    columns = {c.metric: table.metrics[c.metric].tolist() for c in table.constraints}
    check_cost_s = {c.metric: c.cost_s for c in table.constraints}
    cost_s, totals = table.cost_s.tolist(), table.total_steps.tolist()

    def train(trial: Trial) -> None:
        config = int(trial.params["x"])
        for step in trial.steps(totals[config] or None):
            row = starts[config] + step - 1
            if row == starts[config + 1]:
                return
            trial.report(
                values[row],
                model=row,
                snapshot=int,
                constraints=checks,
                primary_cost_s=cost_s[row],
                constraint_cost_s=check_cost_s,
            )

    def looked_up(name: str) -> Any:
        return lambda row: columns[name][row]

    checks = {name: looked_up(name) for name in columns}
    return train, checks


def compare(
    table: CurveTable, policy: str, study: Path, trials: int, *, by_clock: bool = False
) -> watching.Watched:
    """Run both; ``by_clock`` says that not all costs were given to the live study."""
    order = np.random.default_rng(SEED).permutation(len(table.configs)).tolist()
    picker = watching.InOrder(order)
    replayed = replay(judge(table), policy, picker=picker, max_trials=trials)

    train, checks = recorded_training(table)
    searcher = InOrder(order[:trials])
    after = parse_policy(policy).checks_after_run
    constraints = [
        Constraint(
            c.metric, upper=c.upper, lower=c.lower, check=checks[c.metric] if after else None
        )
        for c in table.constraints
    ]
    live = tune(
        train,
        study,
        objective=table.objective.name,
        mode=table.objective.mode,
        constraints=constraints,
        policy=policy,
        searcher=searcher,
        max_trials=trials,
    )

    columns = Reported._fields
    assert replayed.reports == [Reported(*(r[c] for c in columns)) for r in report_rows(study)]
    attempts = trial_rows(study)
    assert order[:trials] == [int(json.loads(row["params"])["x"]) for row in attempts]
    assert replayed.configs == order[:trials]
    assert replayed.states == [row["state"] for row in attempts]
    assert replayed.intervals == [row["interval"] for row in attempts]
    records = replayed.stopper.history.trials.values()
    assert [str(record.reason) for record in records] == [row["reason"] for row in attempts]
    if not by_clock:
        assert [r.cost_ratio for r in records] == [row["cost_ratio"] for row in attempts]
    assert dict(picker.told) == searcher.told

    run = simulate(judge(table), policy, seed=SEED, workers=1, max_trials=trials)
    answer = live.best
    if answer is None:
        assert run.best is None
    else:
        assert run.best == answer.value
        assert run.incumbents[-1][2:] == (int(answer.params["x"]), answer.step)
    return replayed


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_complete_curves(policy: str, study: Path) -> None:
    replayed = compare(complete_table(), policy, study, trials=16)
    # there was something to agree on
    assert ("stopped" in replayed.states) == (not policy.startswith("none"))
    assert {report.stratum for report in replayed.reports} == {"valid", "invalid", "unchecked"}
    if policy == "ace":
        assert len(set(replayed.intervals)) > 2  # 1 for some, their own T for others


@pytest.mark.parametrize(
    "policy", ["ace-beta1", "ace-betaT", "asha:reduction_factor=2", "asha-lex", "none", "median"]
)
def test_curves_that_end_early(policy: str, study: Path) -> None:
    replayed = compare(ragged_table(), policy, study, trials=16, by_clock=True)
    assert ("end" in {report.kind for report in replayed.reports}) == (policy != "ace-beta1")


def two_limits_table() -> CurveTable:
    """A dear limit that is declared first, and a cheap one that is mostly violated."""
    table = complete_table()
    rows = np.arange(len(table.cost_s))
    size = np.round(0.5 + 0.5 * np.sin(1.0 + 0.7 * rows), 3)
    (gap,) = table.constraints
    limits = (replace(gap, cost_s=2.0), TableConstraint("size", upper=0.6, cost_s=0.01))
    return replace(table, metrics={**table.metrics, "size": size}, constraints=limits)


def test_several_constraints_one_by_one(study: Path) -> None:
    """The live study leaves out what the replay leaves out."""
    table = two_limits_table()
    policy = "ace2:truncation=0.1,invalid_truncation=0.1"
    replayed = compare(table, policy, study, trials=16)
    with reading(study) as store:
        rows = store.rows('SELECT "constraint" AS name, count(*) AS n FROM checks GROUP BY name')
    live = {row["name"]: row["n"] for row in rows}
    costs = replayed.stopper.history.costs
    assert live == costs.check_n
    assert 1 < live["gap"] < live["size"]
    assert costs.left_out_n == {"gap": live["size"] - live["gap"]}
    assert costs.order(["gap", "size"]) == ("size", "gap")

    whole = compare(table, f"{policy},one_by_one=False", study.with_name("all.ace"), trials=16)
    made = whole.stopper.history.costs
    assert made.check_n["gap"] == made.check_n["size"] and made.left_out_n == {}


def test_without_constraints(study: Path) -> None:
    table = replace(complete_table(), constraints=())
    replayed = compare(table, "ace:truncation=0.5", study, trials=16)
    assert {report.stratum for report in replayed.reports} == {"valid"}
