"""Comparisons of runs, against hand computations, brute force and SciPy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest

from acetune.core.errors import GoalError
from acetune.replay.runs import Cell, Incumbent, Run
from acetune.replay.statistics import (
    Interval,
    Signs,
    best_over_time,
    friedman,
    nemenyi_critical_difference,
    paired_signs,
    rank_policies,
    rank_rows,
    ranks_of,
)
from paper.intervals import bootstrap_mean, paired_differences

HARD = Cell("credit", "eod <= 0.25", 1.94, 35.0, 4, "random")
EASY = Cell("credit", "eod <= 0.325", 1.94, 35.0, 4, "random")

Steps = Sequence[tuple[float, float]]


def run(
    policy: str,
    seed: int,
    best: float | Steps | None,
    cell: Cell = HARD,
    mode: str = "max",
) -> Run:
    """A run with its best value, or its values over time."""
    steps = [] if best is None else [(1.0, best)] if isinstance(best, float) else best
    found = tuple(Incumbent(time_s, value, 0, 1) for time_s, value in steps)
    return Run(policy, cell, seed, mode, found, 10, 100, 50, 0, 30.0, 5.0, 35.0)


def runs(
    values: dict[str, Sequence[float | None]], cell: Cell = HARD, mode: str = "max"
) -> list[Run]:
    return [
        run(policy, seed, best, cell, mode)
        for policy, found in values.items()
        for seed, best in enumerate(found)
    ]


# -- paired comparisons ----------------------------------------------------------------------------


def test_a_positive_difference_means_that_the_first_was_better_whichever_way_is_up() -> None:
    values = {"ace": [0.8, 0.9], "asha": [0.7, 0.95]}
    assert paired_differences(runs(values), "ace", "asha") == {HARD: pytest.approx([0.1, -0.05])}
    assert paired_differences(runs(values, mode="min"), "ace", "asha") == {
        HARD: pytest.approx([-0.1, 0.05])
    }


def test_failures_have_no_difference_but_a_sign() -> None:
    found = runs(
        {
            "ace": [0.8, None, 0.9, None, 0.7, 0.6],
            "asha": [0.7, 0.6, None, None, 0.7, 0.8],
        }
    )
    assert paired_differences(found, "ace", "asha") == {HARD: pytest.approx([0.1, 0.0, -0.2])}
    assert paired_signs(found, "ace", "asha") == {HARD: Signs(better=2, tie=2, worse=2)}
    assert paired_signs(found, "asha", "ace") == {HARD: Signs(better=2, tie=2, worse=2)}


def test_only_seeds_and_cells_that_both_have_run_are_paired_in_the_order_of_seeds() -> None:
    found = [
        run("ace", 3, 0.5),
        run("ace", 1, 0.4),
        run("asha", 1, 0.1),
        run("asha", 2, 0.9),
        run("asha", 3, 0.3),
        run("ace", 1, 0.9, EASY),
        run("asha", 2, 0.9, EASY),
    ]
    assert paired_differences(found, "ace", "asha") == {HARD: pytest.approx([0.3, 0.2])}


def test_a_cell_in_which_nobody_found_anything_has_no_differences() -> None:
    found = runs({"ace": [None, None], "asha": [None, None]})
    assert paired_differences(found, "ace", "asha") == {HARD: []}
    assert paired_signs(found, "ace", "asha")[HARD] == Signs(0, 2, 0)


def test_runs_that_cannot_be_paired() -> None:
    found = runs({"ace": [0.5], "asha": [0.4]})
    with pytest.raises(GoalError, match="no runs of 'ac'; there are ace, asha"):
        paired_differences(found, "ac", "asha")
    with pytest.raises(GoalError, match=r"two runs of 'ace' in one place: .*seed 0"):
        paired_differences([*found, found[0]], "ace", "asha")
    with pytest.raises(GoalError, match="minimise and maximise"):
        paired_signs([*found, run("ace", 1, 0.3, mode="min")], "ace", "asha")


# -- the bootstrap ---------------------------------------------------------------------------------


def test_the_interval_is_that_of_all_resamples() -> None:
    values = [1.0, 2.0, 4.0, 9.0, 9.5]
    means = [np.mean(drawn) for drawn in itertools.product(values, repeat=5)]  # all 3125
    low, high = np.quantile(means, [0.05, 0.95])
    found = bootstrap_mean(values, level=0.9, samples=200_000)
    assert found == pytest.approx((5.1, low, high), abs=0.02)


def test_the_interval_covers_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(400):
        interval = bootstrap_mean(rng.normal(3, 1, 30), level=0.9, samples=600)
        covered += interval.low <= 3 <= interval.high
    assert 0.84 <= covered / 400 <= 0.93


def test_the_seed_decides() -> None:
    values = np.random.default_rng(0).normal(size=25)
    assert bootstrap_mean(values) == bootstrap_mean(values)
    assert bootstrap_mean(values) != bootstrap_mean(values, seed=1)


def test_many_values_are_drawn_in_blocks() -> None:
    values = np.random.default_rng(0).normal(size=30_000)
    found = bootstrap_mean(values, samples=200)
    assert found.mean == pytest.approx(values.mean())
    half = 1.96 * values.std() / math.sqrt(len(values))
    assert found.high - found.low == pytest.approx(2 * half, rel=0.25)


def test_one_value_is_its_own_interval() -> None:
    assert bootstrap_mean([0.25]) == Interval(0.25, 0.25, 0.25)


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([], {}, "at least one"),
        ([1.0, math.nan], {}, "finite numbers"),
        ([1.0], {"level": 1.0}, "level must lie between 0 and 1, got 1.0"),
        ([1.0], {"samples": 0}, "samples must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_bootstrapped(
    values: list[float], options: dict[str, float], message: str
) -> None:
    with pytest.raises(GoalError, match=message):
        bootstrap_mean(values, **options)  # type: ignore[arg-type]


# -- ranks -----------------------------------------------------------------------------------------


def test_nemenyi_quantiles_are_those_printed_by_demsar() -> None:
    printed = {
        0.05: [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164],
        0.10: [1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920],
    }
    for alpha, row in printed.items():
        found = [
            nemenyi_critical_difference(k, 1, alpha) / math.sqrt(k * (k + 1) / 6)
            for k in range(2, 11)
        ]
        assert found == pytest.approx(row, abs=0.0011)  # three of the printed ones end a digit off


def test_critical_differences_that_do_not_exist() -> None:
    with pytest.raises(GoalError, match=r"two policies or more.*got 1"):
        nemenyi_critical_difference(1, 5)
    with pytest.raises(GoalError, match="alpha=1"):
        nemenyi_critical_difference(3, 5, alpha=1)


def test_ranks_within_rows_are_those_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    losses = np.random.default_rng(0).integers(0, 5, (40, 7)).astype(float)
    losses[losses == 4] = math.inf  # failures: last, and tied
    assert rank_rows(losses) == pytest.approx(stats.rankdata(losses, axis=1))


def test_the_friedman_test_is_that_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(2).integers(0, 6, (15, 5)) + np.arange(5) * 0.5
    wanted = stats.friedmanchisquare(*values.T)
    assert friedman(rank_rows(values)) == pytest.approx((wanted.statistic, wanted.pvalue))


def test_blocks_that_say_nothing_and_blocks_that_agree() -> None:
    assert friedman(rank_rows([[1.0, 2.0, 3.0]])) == (0.0, 1.0)
    assert friedman(rank_rows([[1.0, 1.0], [2.0, 2.0]])) == (0.0, 1.0)
    assert friedman(rank_rows([[1.0, 2.0, 3.0]] * 5)) == pytest.approx((10, math.exp(-5)))


def test_average_ranks_by_hand() -> None:
    found = runs(
        {
            "none": [0.5, None, 0.2, None],
            "asha": [0.6, 0.6, 0.3, None],
            "ace": [0.7, 0.6, 0.1, 0.4],
        }
    )
    # by seed: none 3, 3, 2, 2.5; asha 2, 1.5, 1, 2.5; ace 1, 1.5, 3, 1
    ranks = rank_policies(found, over="runs")
    assert ranks.policies == ("ace", "asha", "none")
    assert ranks.average_ranks == pytest.approx((6.5 / 4, 7 / 4, 10.5 / 4))
    assert ranks.blocks == 4
    assert ranks.critical_difference == pytest.approx(2.343 * math.sqrt(12 / 24), abs=1e-3)
    assert ranks.cliques == (("ace", "asha", "none"),)


def test_over_cells_a_cell_is_one_block() -> None:
    values = {"ace": [0.7, 0.7, 0.5], "asha": [0.6, 0.6, 0.6], "none": [0.1, 0.2, 0.1]}
    upside_down = {policy: [-v for v in found] for policy, found in values.items()}
    found = runs(values) + runs(upside_down, cell=EASY)
    ranks = rank_policies(found)
    assert ranks.blocks == 2
    assert dict(zip(ranks.policies, ranks.average_ranks, strict=True)) == {
        "ace": 2.0,
        "asha": 2.0,
        "none": 2.0,
    }
    assert ranks.friedman_p == pytest.approx(1)
    assert rank_policies(runs(values)).average_ranks == (1.0, 2.0, 3.0)


def test_minimising_turns_the_ranks_round() -> None:
    values = {"ace": [0.7, 0.8], "asha": [0.6, 0.5]}
    assert rank_policies(runs(values)).policies == ("ace", "asha")
    assert rank_policies(runs(values, mode="min")).policies == ("asha", "ace")


def test_cliques_are_the_maximal_groups_that_are_not_told_apart() -> None:
    rng = np.random.default_rng(5)
    for _ in range(30):
        shifts = rng.normal(0, 1.5, 8)
        values = {f"p{i}": list(rng.normal(shift, 1, 25)) for i, shift in enumerate(shifts)}
        ranks = rank_policies(runs(values), over="runs")
        at = dict(zip(ranks.policies, ranks.average_ranks, strict=True))
        alike = [
            set(group)
            for size in range(2, 9)
            for group in itertools.combinations(ranks.policies, size)
            if max(map(at.get, group)) - min(map(at.get, group)) < ranks.critical_difference
        ]
        maximal = [group for group in alike if not any(group < other for other in alike)]
        assert sorted(map(sorted, ranks.cliques)) == sorted(map(sorted, maximal))


def test_the_critical_difference_shrinks_with_the_root_of_the_blocks() -> None:
    few, many = nemenyi_critical_difference(6, 5), nemenyi_critical_difference(6, 500)
    assert few == pytest.approx(10 * many)


def test_runs_that_cannot_be_ranked() -> None:
    found = runs({"ace": [0.5, 0.6], "asha": [0.4, 0.4]})
    with pytest.raises(GoalError, match=r"no 'asha' in credit, .*seed 1"):
        rank_policies(found[:-1])
    with pytest.raises(GoalError, match="at least two policies"):
        rank_policies(found[:2])
    with pytest.raises(GoalError, match="over must be 'cells' or 'runs', got 'seeds'"):
        rank_policies(found, over="seeds")  # type: ignore[arg-type]
    with pytest.raises(GoalError, match="alpha must lie between 0 and 1, got 0"):
        rank_policies(found, alpha=0)


# -- progress over time ----------------------------------------------------------------------------


CURVES: list[Steps | None] = [
    [(1.0, 0.5), (4.0, 0.8)],
    [(2.0, 0.6)],
    [(3.0, 0.1), (5.0, 0.9)],
    None,
]


def progress_runs(mode: str = "max") -> list[Run]:
    sign = 1 if mode == "max" else -1
    return [
        run("ace", seed, steps and [(t, sign * v) for t, v in steps], mode=mode)
        for seed, steps in enumerate(CURVES)
    ]


def test_the_mean_over_time_by_hand() -> None:
    found = best_over_time(progress_runs(), [0, 1, 1.9, 2, 3, 4, 5, 9])
    assert found.share == pytest.approx([0, 0.25, 0.25, 0.5, 0.75, 0.75, 0.75, 0.75])
    nan = math.nan  # fewer than half have found something
    wanted = [nan, nan, nan, 0.55, 0.4, 0.5, 2.3 / 3, 2.3 / 3]
    assert found.centre == pytest.approx(wanted, nan_ok=True)
    assert (np.isnan(found.low) == np.isnan(found.centre)).all()


def test_minimising_is_the_mirror_image() -> None:
    times = np.linspace(0, 6, 13)
    up, down = best_over_time(progress_runs(), times), best_over_time(progress_runs("min"), times)
    assert down.centre == pytest.approx(-up.centre, nan_ok=True)
    assert down.low == pytest.approx(-up.high, nan_ok=True)
    assert down.high == pytest.approx(-up.low, nan_ok=True)


def test_the_band_of_the_mean_is_its_bootstrap_interval() -> None:
    values = np.random.default_rng(3).normal(0.8, 0.05, 20)
    found = best_over_time([run("ace", s, float(v)) for s, v in enumerate(values)], [0, 1, 2])
    wanted = bootstrap_mean(values)
    assert (found.centre[1], found.low[1], found.high[1]) == pytest.approx(wanted, abs=1e-3)


def test_the_band_leaves_out_what_was_not_found() -> None:
    values: list[float | None] = [0.1, 0.5, 0.9, None, None]
    found = best_over_time(
        [run("ace", s, v) for s, v in enumerate(values)], [1], level=0.6, samples=30_000
    )
    means = []
    for drawn in itertools.product(values, repeat=5):
        known = [value for value in drawn if value is not None]
        means += [np.mean(known)] if known else []
    assert (found.low[0], found.high[0]) == pytest.approx(np.quantile(means, [0.2, 0.8]), abs=0.02)


def test_runs_without_progress() -> None:
    found = best_over_time([run("ace", 0, None), run("ace", 1, None)], [1, 2])
    assert np.isnan(found.centre).all()
    assert (found.share == 0).all()
    with pytest.raises(GoalError, match="one policy in one cell"):
        best_over_time([run("ace", 0, 0.5), run("asha", 0, 0.5)], [1])
    with pytest.raises(GoalError, match="one policy in one cell"):
        best_over_time([], [1])
    with pytest.raises(GoalError, match="level must lie between 0 and 1, got 1"):
        best_over_time([run("ace", 0, 0.5)], [1], level=1)


def test_ranks_of_numbers_are_those_of_runs_with_these_numbers() -> None:
    losses = [[0.3, 0.1, 0.2], [0.5, 0.5, 0.1], [0.2, 0.3, 0.4]]
    cells = [Cell("t", f"g <= {i}", 1.0, 1.0, 1, "random") for i in range(len(losses))]
    found = [
        run(policy, 0, loss, cell, "min")
        for cell, row in zip(cells, losses, strict=True)
        for policy, loss in zip("abc", row, strict=True)
    ]
    assert ranks_of(["a", "b", "c"], rank_rows(losses)) == rank_policies(found)
