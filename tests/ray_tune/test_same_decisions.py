"""The same reports through Ray Tune, one trial at a time, and replayed: the same decisions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import acetune.ray
from acetune import Constraint
from acetune.ray import AceScheduler
from acetune.replay.curve_table import CurveTable
from acetune.replay.judged_table import judge
from replay import watching
from replay.test_simulator_against_live import (
    SEED,
    complete_table,
    ragged_table,
    recorded_training,
)
from replay.watching import Reported, replay

from .helpers import fit, rows

pytestmark = [
    pytest.mark.usefixtures("local_ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.*"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def compare(table: CurveTable, policy: str, folder: Path, *, by_clock: bool = False) -> None:
    order = np.random.default_rng(SEED).permutation(len(table.configs)).tolist()[:14]
    picker = watching.InOrder(order)
    replayed = replay(judge(table), policy, picker=picker)
    train, _ = recorded_training(table)

    def trainable(config: dict[str, int]) -> None:
        with acetune.ray.trial(total_steps=None, params={"x": config["case"]}) as trial:
            train(trial)

    constraints = [Constraint(c.metric, upper=c.upper, lower=c.lower) for c in table.constraints]
    fit(
        trainable,
        folder,
        order,
        scheduler=AceScheduler(constraints, policy),
        metric=table.objective.name,
        mode=table.objective.mode,
    )
    found = rows(folder, "SELECT * FROM reports ORDER BY seq")
    assert [Reported(*(row[c] for c in Reported._fields)) for row in found] == replayed.reports
    trials = rows(folder, "SELECT * FROM trials ORDER BY trial, attempt")
    assert [row["state"] for row in trials] == replayed.states
    assert [row["interval"] for row in trials] == replayed.intervals
    records = list(replayed.stopper.history.trials.values())
    assert [row["reason"] for row in trials] == [str(record.reason) for record in records]
    if not by_clock:
        assert [row["cost_ratio"] for row in trials] == [record.cost_ratio for record in records]
    assert "stopped" in replayed.states  # there was something to agree on


@pytest.mark.parametrize(
    "policy", ["ace", "ace2", "adaptive", "ace-hard", "asha", "asha-stratum-adaptive", "median"]
)
def test_complete_curves(policy: str, tmp_path: Path) -> None:
    compare(complete_table(), policy, tmp_path)


@pytest.mark.parametrize("policy", ["ace-betaT", "asha-lex"])
def test_curves_that_end_early(policy: str, tmp_path: Path) -> None:
    compare(ragged_table(), policy, tmp_path, by_clock=True)
