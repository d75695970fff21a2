"""Several budgets in one replay; that its runs are right is held by tests/replay."""

from __future__ import annotations

import pytest

from acetune.core.errors import GoalError
from acetune.replay import judge, synthetic_table
from benchmarks.budgets import simulate_budgets


@pytest.mark.parametrize(
    ("policy", "budgets", "words"),
    [
        ("ace", [], "budgets must rise"),
        ("ace", [2.0, 1.0], "budgets must rise"),
        ("ace", [0.0, 1.0], "budgets must rise"),
        ("none+after", [1.0, 2.0], "checks after the run"),
    ],
)
def test_budgets_that_one_run_cannot_have(policy: str, budgets: list[float], words: str) -> None:
    with pytest.raises(GoalError, match=words):
        simulate_budgets(judge(synthetic_table(configs=3).table), policy, budgets)
