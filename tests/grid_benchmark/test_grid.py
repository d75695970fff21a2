"""Cells, scores and what they say, against plain computations."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from acetune.core.errors import AcetuneError, GoalError
from acetune.replay.curve_table import CurveTable
from acetune.replay.judged_table import judge, parse_limit
from acetune.replay.simulator import simulate
from acetune.replay.synthetic import synthetic_table
from benchmarks.grid_cells import CellRunner, GridCell, Score, Scores, budget_s, score_all
from benchmarks.grid_file import read_scores, write_scores
from benchmarks.grid_summary import (
    HeldOut,
    best_policy,
    choose_elsewhere,
    merged,
    rank_in_cells,
    scored_everywhere,
    summarise_policy,
    with_held_out,
)
from benchmarks.regret import regret_scale
from benchmarks.regret_lines import regret_by_ratio
from benchmarks.regret_strips import regret_strips

LIMIT = "gap<=0.25"


def made() -> CurveTable:
    return synthetic_table(configs=60, seed=2, max_steps=20, noise=0.01).table


def cell(table: str = "a", ratio: float = 2.0, configs: int = 10, kind: str = "hard") -> GridCell:
    return GridCell(table, kind, LIMIT, ratio, configs)


def score(regret: float, check_share: float = 0.0, first: float = 0.0) -> Score:
    return Score(regret, 0.1, first, 0.0, check_share, check_share, 0.0, 10.0, 0.0)


# -- scores of real runs ---------------------------------------------------------------------------


def test_the_budget_is_the_time_of_so_many_mean_configurations() -> None:
    table = made()
    total_s = sum(float(cost) for cost in table.cost_s)
    assert budget_s(table, 6, workers=4) == pytest.approx(total_s / 10 / 4)


@pytest.mark.parametrize("processes", [1, 2])
def test_scores_are_means_over_seeds(processes: int) -> None:
    runner = CellRunner({"a": made, "b": made}, seeds=3, workers=4)
    pairs = [(cell(t, r), p) for t in "ab" for r in (2.0, 24.0) for p in ("none", "ace")]
    scores = dict(score_all(runner, pairs, processes))
    assert set(scores) == set(pairs)
    assert scores[cell("a"), "ace"] == scores[cell("b"), "ace"]

    table = made()
    judged = judge(table, [parse_limit(LIMIT)], 2.0)
    budget, scale = budget_s(table, 10, 4), regret_scale(judged)
    runs = [simulate(judged, "ace", seed=seed, budget_s=budget) for seed in range(3)]
    found = scores[cell("a"), "ace"]
    regrets = [scale.regret(run.loss) for run in runs]
    assert found.regret == pytest.approx(statistics.mean(regrets))
    assert found.regret_sd == pytest.approx(statistics.stdev(regrets))
    firsts = [1.0 if r.time_to_first_s is None else r.time_to_first_s / budget for r in runs]
    assert found.first == pytest.approx(statistics.mean(firsts))
    assert found.nothing == statistics.mean(run.best is None for run in runs)
    shares = [r.constraint_cost_s / (r.constraint_cost_s + r.primary_cost_s) for r in runs]
    assert found.check_share == pytest.approx(statistics.mean(shares))
    assert found.false_stops == pytest.approx(statistics.mean(run.false_stops for run in runs))
    assert found.trials == pytest.approx(statistics.mean(run.trials for run in runs))


def test_the_number_of_trials_can_be_limited_and_a_whole_table_is_noticed() -> None:
    runner = CellRunner({"a": made}, seeds=1, workers=4)
    limited = GridCell("a", "hard", LIMIT, 2.0, 60, max_trials=5)
    assert runner(((limited,), "none"))[0].trials == 5
    assert runner(((cell(configs=600),), "none"))[0][-2:] == (60.0, 1.0)


def test_a_run_that_found_nothing_has_regret_1_and_no_first() -> None:
    runner = CellRunner({"a": made}, seeds=2, workers=1)
    tight = GridCell("a", "hard", "gap<=0.13", 2.0, 1)
    (found,) = runner(((tight,), "none"))
    assert (found.regret, found.first, found.nothing) == (1.0, 1.0, 1.0)


def test_cells_that_differ_in_their_budgets_score_as_each_alone() -> None:
    runner = CellRunner({"a": made}, seeds=2, workers=4)
    pairs = [(cell(ratio=r, configs=c), "ace2") for c in (20, 5) for r in (2.0, 24.0)]
    together = dict(score_all(runner, pairs))
    assert together == {pair: runner(((pair[0],), pair[1]))[0] for pair in pairs}
    assert len(set(together.values())) == 4


@pytest.mark.parametrize("processes", [1, 2])
def test_what_fails_is_said(processes: int) -> None:
    runner = CellRunner({"a": made}, seeds=1, workers=4)
    pairs = [(cell(), "ace"), (cell(), "no such policy")]
    with pytest.raises(AcetuneError, match="no such policy"):
        list(score_all(runner, pairs, processes))


# -- on disk ---------------------------------------------------------------------------------------


def test_scores_come_back_from_disk(tmp_path: Path) -> None:
    scores: Scores = {
        cell(): {"ace": score(0.123456789), "none": score(1.0)},
        GridCell("b", "easy", LIMIT, 0.1, 50, "tpe", 150): {"ace": score(0.5)},
    }
    path = tmp_path / "deep" / "grid.json"
    write_scores(path, {"seeds": 3, "part": "random"}, scores)
    about, found = read_scores(path)
    assert about == {"seeds": 3, "part": "random"}
    assert found[cell()]["ace"] == score(0.12346)
    assert list(found) == list(scores) and list(found[cell()]) == ["ace", "none"]
    assert [entry.name for entry in path.parent.iterdir()] == ["grid.json"]
    write_scores(path, {}, {})
    assert read_scores(path) == ({}, {})


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"columns": [], "cells": [{"scores": {}}]}'])
def test_what_is_no_file_of_scores_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "grid.json"
    path.write_text(text)
    with pytest.raises(AcetuneError, match="does not hold the scores"):
        read_scores(path)
    with pytest.raises(AcetuneError, match="cannot read"):
        read_scores(tmp_path / "missing.json")


# -- what they say ---------------------------------------------------------------------------------

SCORES: Scores = {
    cell("a", 2.0): {"x": score(0.1, 0.2), "y": score(0.3, 0.6), "z": score(0.1)},
    cell("a", 24.0): {"x": score(0.4, 0.4), "y": score(0.2, 0.8), "z": score(0.5)},
    cell("b", 2.0): {"x": score(0.6), "y": score(0.4), "z": score(0.6)},
    cell("c", 2.0): {"x": score(0.0), "y": score(0.9), "z": score(0.3)},
}


def test_means_worst_cell_and_ranks_by_hand() -> None:
    found = summarise_policy(SCORES, "x", list(SCORES))
    assert found.regret == pytest.approx((0.1 + 0.4 + 0.6 + 0.0) / 4)
    assert (found.worst, found.worst_cell) == (0.6, cell("b", 2.0))
    assert found.check_share == pytest.approx(0.6 / 4)
    assert best_policy(SCORES, ["y", "x"], list(SCORES)) == "x"
    ranks = rank_in_cells(SCORES, ["x", "y", "z"], list(SCORES))
    # by cell: x 1.5, 2, 2.5, 1; y 3, 1, 1, 3; z 1.5, 3, 2.5, 2
    assert dict(zip(ranks.policies, ranks.average_ranks, strict=True)) == {
        "x": 1.75,
        "y": 2.0,
        "z": 2.25,
    }
    assert ranks.blocks == 4
    with pytest.raises(GoalError, match="no cells"):
        summarise_policy(SCORES, "x", [])


def test_settings_are_chosen_on_other_tables_and_judged_on_the_one_left_out() -> None:
    cells = list(SCORES)
    choices = choose_elsewhere(SCORES, ["x", "y"], cells, [("a",), ("b",), ("c",)])
    assert choices == [
        HeldOut(("a",), "x", pytest.approx(0.3)),  # b and c: x 0.6, 0.0; y 0.4, 0.9
        HeldOut(("b",), "x", pytest.approx(0.5 / 3)),
        HeldOut(("c",), "y", pytest.approx(0.3)),  # a and b: x 1.1, y 0.9, of 3
    ]
    scores = with_held_out(SCORES, "chosen", choices)
    regrets = [by_policy["chosen"].regret for by_policy in scores.values()]
    assert regrets == [0.1, 0.4, 0.6, 0.9]
    together = choose_elsewhere(SCORES, ["x", "y"], cells, [("a", "b")])
    assert [choice.setting for choice in together] == ["x"]
    assert [c.table for c in with_held_out(SCORES, "chosen", together)] == ["a", "a", "b"]
    with pytest.raises(GoalError, match="no tables are left"):
        choose_elsewhere(SCORES, ["x"], cells, [("a", "b", "c")])


def test_scores_of_several_files_are_put_together() -> None:
    more: Scores = {cell("a", 2.0): {"w": score(0.0)}}
    both = merged([SCORES, more])
    assert scored_everywhere(both, ["w", "x"]) == [cell("a", 2.0)]
    assert scored_everywhere(both, ["x"]) == list(SCORES)
    assert "w" not in SCORES[cell("a", 2.0)]


# -- pictures --------------------------------------------------------------------------------------


def test_lines_hold_the_regrets_by_ratio() -> None:
    groups = {"hard": {"ace": {0.1: 0.2, 24.0: 0.6}}, "easy": {"ace": {0.1: 0.0, 24.0: 0.0}}}
    figure = regret_by_ratio(groups, labels={"none": "none", "ace": "ACE"})
    assert [(tuple(line.x), tuple(line.y)) for line in figure.data] == [
        ((0, 1), (0.2, 0.6)),
        ((0, 1), (0.0, 0.0)),
    ]
    assert [line.name for line in figure.data if line.showlegend] == ["ACE"]
    assert list(figure.layout.xaxis.ticktext) == ["0.1", "24"]
    with pytest.raises(GoalError, match="nothing to draw"):
        regret_by_ratio({}, labels={})


def test_strips_hold_the_regret_of_every_cell() -> None:
    figure = regret_strips(SCORES, {"y": "Y", "x": "X"})
    dots = [trace for trace in figure.data if trace.mode == "markers"]
    assert [(dot.name, list(dot.x)) for dot in dots if dot.name == "X"] == [
        ("X", [0.1, 0.4]),
        ("X", [0.6]),
        ("X", [0.0]),
    ]
    assert list(figure.layout.yaxis.ticktext) == ["hard, 2, 10", "hard, 24, 10"]
    with pytest.raises(GoalError, match="one to three policies"):
        regret_strips(SCORES, {})
