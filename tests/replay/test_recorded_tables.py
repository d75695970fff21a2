"""The tables in the repository: whole, small, and with what made them."""

from __future__ import annotations

from pathlib import Path

import pytest

from acetune.core.goals import Constraint
from acetune.replay import judge, read_table, simulate, summarise
from acetune.searchers.searcher import searched_part
from acetune.searchers.space import Space

TABLES = Path(__file__).parents[2] / "tables"


@pytest.mark.parametrize(
    ("name", "curves", "confirmed"),
    [
        ("credit-lightgbm", 2_000, False),
        ("credit-lightgbm-confirm", 1_000, True),
        ("law-mlp", 400, True),
        ("sst2-minilm", 100, False),
    ],
)
def test_a_recorded_table(name: str, curves: int, confirmed: bool) -> None:
    path = TABLES / f"{name}.parquet"
    assert path.stat().st_size < 6_000_000
    table = read_table(path)
    assert table.name == name and table.has_confirmation is confirmed
    assert len(table.configs) >= curves
    assert (table.total_steps == table.starts[1:] - table.starts[:-1]).all()  # all complete
    assert (table.cost_s > 0).all() and table.mean_check_cost_s > 0
    assert table.space is not None
    space = Space.from_description(table.space)
    for config in table.configs:
        assert searched_part(space, config) == config
    assert table.made.keys() >= {"command", "seed", "versions"}
    assert "/" not in table.made["command"].replace("tables/", "")  # no folders of a machine
    readme = (TABLES / "README.md").read_text()
    assert f"| `{path.name}` | {len(table.configs):,} complete | {len(table.cost_s):,} |" in readme


@pytest.mark.slow
def test_the_picture_of_the_paper_comes_out() -> None:
    """Where the differences are clear: checks cheap, the limit hard. Trials are of that order too.

    More seeds, more cells and intervals over tables: docs/results.
    """
    table = read_table(TABLES / "credit-lightgbm.parquet")
    judged = judge(table, [Constraint("eod", upper=0.25)], cost_ratio=1.94)
    policies = ("ace", "none", "asha", "ace-hard", "ace-betaT")
    runs = {
        policy: [simulate(judged, policy, seed=seed, budget_s=35.0) for seed in range(8)]
        for policy in policies
    }
    means = {policy: summarise(found)[0] for policy, found in runs.items()}
    ace = means["ace"].mean
    assert ace is not None
    for other in policies[1:]:
        mean = means[other].mean
        assert mean is not None and ace > mean, other
    assert means["ace"].failures == 0 and means["ace-betaT"].failures > 0
    assert 30 < means["none"].trials < 100
    assert 100 < means["ace"].trials < 600
    assert means["asha"].trials > 1500
