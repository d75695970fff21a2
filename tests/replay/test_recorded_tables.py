"""The tables in the repository: whole, small, and with what made them."""

from __future__ import annotations

from pathlib import Path

import pytest

from acetune.replay.table import read_table
from acetune.searchers.base import searched_part
from acetune.space import Space

TABLES = Path(__file__).parents[2] / "tables"


@pytest.mark.parametrize(
    ("name", "curves", "confirmed"),
    [
        ("credit-lightgbm", 2_000, False),
        ("credit-lightgbm-confirm", 1_000, True),
        ("law-mlp", 400, True),
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
