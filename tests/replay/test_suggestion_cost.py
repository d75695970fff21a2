"""Suggestions take time on the simulated clock, by a stated model."""

from __future__ import annotations

import pytest

from acetune.replay.simulator import simulate, suggestion_s
from acetune.replay.synthetic import synthetic_table
from acetune.searchers import SEARCHER_NAMES

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
