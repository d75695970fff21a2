"""Tables made by code: their answer is known, and each knob does what it says."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acetune.core.errors import GoalError
from acetune.replay.curve_table import CurveTable
from acetune.replay.synthetic import BestFeasible, synthetic_table
from acetune.replay.table_file import read_table, write_table
from acetune.searchers.space import Integer, Space, uniform


def feasible(table: CurveTable) -> Any:
    limit = table.constraints[0].upper
    assert limit is not None
    return table.metrics["gap"] <= limit


def by_brute_force(table: CurveTable) -> BestFeasible | None:
    best = None
    goal = table.constraints[0].goal
    for config in range(len(table.configs)):
        curves = zip(table.curve(config, "score"), table.curve(config, "gap"), strict=True)
        for step, (score, gap) in enumerate(curves, start=1):
            if gap <= goal.limit and (best is None or score > best.value):
                best = BestFeasible(config, step, float(score))
    return best


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"seed": 1, "difficulty": 0.9},
        {"seed": 2, "difficulty": 0.95, "drift": 0.2},
        {"seed": 3, "difficulty": 0.8, "drift": -0.2, "noise": 0.02},
        {"configs": 1, "max_steps": 1},
        {"configs": 3, "difficulty": 0},
    ],
)
def test_the_known_answer_is_the_best_feasible_checkpoint(options: dict[str, Any]) -> None:
    table, best = synthetic_table(**options)
    assert best == by_brute_force(table)


def test_the_values_follow_the_formula() -> None:
    table, _ = synthetic_table(configs=10, drift=0.1, max_steps=40)
    for config, params in enumerate(table.configs):
        x, y, steps = params["x"], params["y"], params["steps"]
        s = np.arange(1, steps + 1) / 40
        score = 0.9 - 0.4 * (x - 0.7) ** 2 - 0.3 * np.exp(-(2 + 6 * y) * s)
        gap = 0.1 + 0.3 * x + 0.1 * y + 0.1 * (s - 0.5)
        assert table.curve(config, "score") == pytest.approx(score, abs=6e-5)
        assert table.curve(config, "gap") == pytest.approx(gap, abs=6e-5)
        assert 10 <= steps <= 40
        assert table.complete(config)
    costs = table.cost_s[table.starts[:-1]]
    assert len(set(costs)) == 10
    assert table.mean_check_cost_s == pytest.approx(2 * table.mean_cost_s, abs=1e-6)
    assert (
        table.space
        == Space(
            {"x": uniform(0, 1), "y": uniform(0, 1), "steps": Integer(10, 40, log=True)}
        ).describe()
    )


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_difficulty_is_the_share_of_checkpoints_that_violate(noise: float) -> None:
    shares, limits, values = [], [], []
    for difficulty in (0.0, 0.25, 0.5, 0.75, 0.9, 0.99):
        table, best = synthetic_table(200, seed=5, difficulty=difficulty, noise=noise)
        assert best is not None
        share = 1 - feasible(table).mean()
        assert share == pytest.approx(difficulty, abs=0.02)  # whole curves tie where noise is 0
        shares.append(share)
        limits.append(table.constraints[0].upper)
        values.append(best.value)
    assert shares == sorted(shares)
    assert limits == sorted(limits, reverse=True)
    assert values == sorted(values, reverse=True)
    assert values[0] > values[-1]


def test_nothing_is_feasible_at_difficulty_1() -> None:
    table, best = synthetic_table(difficulty=1.0)
    assert best is None
    assert not feasible(table).any()


def test_drift_moves_feasible_checkpoints() -> None:
    def mean_progress(drift: float) -> float:
        table, _ = synthetic_table(200, drift=drift)
        lengths = np.diff(table.starts)
        step = np.arange(len(table.cost_s)) - np.repeat(table.starts[:-1], lengths) + 1
        return float((step / np.repeat(lengths, lengths))[feasible(table)].mean())

    early, even, late = mean_progress(0.3), mean_progress(0.0), mean_progress(-0.3)
    assert early < even - 0.05
    assert late > even + 0.05


def test_confirmation_has_noise_of_its_own() -> None:
    plain, _ = synthetic_table(noise=0.01)
    assert not plain.has_confirmation
    table, _ = synthetic_table(noise=0.01, confirmation=True)
    assert table.has_confirmation
    assert (table.metrics["score"] == plain.metrics["score"]).all()
    difference = table.metrics["gap@confirm"] - table.metrics["gap"]
    assert difference.std() == pytest.approx(0.01 * math.sqrt(2), rel=0.1)


def test_a_seed_always_makes_the_same_table(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_table(tmp_path / name, synthetic_table(30, 7, noise=0.1, confirmation=True).table)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    other = synthetic_table(30, 8).table
    assert read_table(tmp_path / "one").configs != other.configs


def test_searching_options_are_kept() -> None:
    made = synthetic_table(3, 4, drift=0.5).table.made
    assert made.pop("by") == "acetune.replay.synthetic"  # as in tables of before
    again = synthetic_table(**made).table
    assert again.configs == synthetic_table(3, 4, drift=0.5).table.configs


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"configs": 0}, "configs must be a whole number >= 1, got 0"),
        ({"configs": 2.5}, "configs .* got 2.5"),
        ({"max_steps": 0}, "max_steps .* got 0"),
        ({"difficulty": 1.1}, "difficulty must lie between 0 and 1, got 1.1"),
        ({"difficulty": math.nan}, "got nan"),
        ({"noise": -0.1}, "noise must be finite and >= 0, got -0.1"),
        ({"cost_ratio": math.inf}, "cost_ratio .* got inf"),
        ({"drift": math.nan}, "drift must be finite, got nan"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(GoalError, match=message):
        synthetic_table(**options)
