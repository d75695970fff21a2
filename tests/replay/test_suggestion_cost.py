"""Suggestions take time on the simulated clock, by a stated model."""

from __future__ import annotations

from pathlib import Path

import pytest

from acetune.policies import DEFAULT_POLICY
from acetune.replay import judge, read_table, simulator
from acetune.replay.simulator import simulate, suggestion_s
from acetune.replay.synthetic import synthetic_table
from acetune.searchers import DEFAULT_SEARCHER, SEARCHER_NAMES

TABLES = Path(__file__).parents[2] / "tables"
TABLE = synthetic_table(configs=60, seed=3, max_steps=10).table


@pytest.mark.parametrize("searcher", SEARCHER_NAMES)
def test_every_searcher_has_its_price(searcher: str) -> None:
    first, later = suggestion_s(searcher, 0, 0), suggestion_s(searcher, 1000, 50_000)
    assert (first > 0) is (searcher != "random")
    assert first <= later < 10


def test_a_run_pays_for_its_suggestions(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int, int]] = []

    def slow(searcher: str, trials: int, reports: int) -> float:
        asked.append((searcher, trials, reports))
        return 100.0

    free = simulate(TABLE, "none", searcher="forest", seed=1, workers=1, max_trials=5)
    monkeypatch.setattr("acetune.replay.simulator.suggestion_s", slow)
    paid = simulate(TABLE, "none", searcher="forest", seed=1, workers=1, max_trials=5)
    assert [call[:2] for call in asked] == [("forest", trial) for trial in range(5)]
    reports = [made for _, _, made in asked]
    assert reports[0] == 0 and sorted(set(reports)) == reports
    assert paid.time_s - 500 == pytest.approx(free.time_s, abs=0.1)
    assert paid.best == free.best


def test_a_budget_ends_sooner_with_suggestions_that_take_long() -> None:
    pytest.importorskip("torch")  # what the Gaussian process is made of
    budget_s = 20 * TABLE.cost_s.sum() / len(TABLE.configs)
    trials = {
        searcher: simulate(TABLE, "none", searcher=searcher, workers=1, budget_s=budget_s).trials
        for searcher in ("random", "gp")
    }
    assert trials["gp"] < trials["random"]


@pytest.mark.parametrize("name", ["credit-lightgbm-confirm", "law-mlp"])
def test_suggestions_take_at_most_a_twentieth_of_training(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the model, where a step takes 5 and 80 milliseconds."""
    charged_s = list[float]()

    def charged(searcher: str, trials: int, reports: int) -> float:
        charged_s.append(suggestion_s(searcher, trials, reports))
        return charged_s[-1]

    monkeypatch.setattr(simulator, "suggestion_s", charged)
    judged = judge(read_table(TABLES / f"{name}.parquet"), cost_ratio=2.0)
    budget_s = 50 * judged.table.cost_s.sum() / len(judged.table.configs) / 4
    run = simulate(judged, DEFAULT_POLICY, searcher=DEFAULT_SEARCHER, budget_s=budget_s)
    assert len(charged_s) == run.trials > 50
    assert sum(charged_s) < run.primary_cost_s / 20
