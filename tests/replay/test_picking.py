"""Which recorded configuration comes next."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from acetune import Searcher
from acetune.core.errors import GoalError, SpaceError, TableError
from acetune.core.goals import Objective
from acetune.core.outcome import Outcome
from acetune.replay.curve_table import CurveTable, make_table
from acetune.replay.simulator import simulate
from acetune.replay.synthetic import synthetic_table
from acetune.replay.table_searcher import Nearest, Picker, RandomOrder, make_picker
from acetune.searchers.space import Space, choice, lograndint, loguniform, randint, uniform

FINE = Outcome(1.0, 0.0)


class Script(Searcher):
    """Suggests what it was given, the last one again and again, and notes what it is told."""

    def __init__(self, *suggestions: dict[str, Any]) -> None:
        self.suggestions = list(suggestions)
        self.asked: list[int] = []
        self.told: dict[int, tuple[Outcome, Mapping[str, Any] | None]] = {}

    def ask(self, trial: int) -> dict[str, Any]:
        self.asked.append(trial)
        return self.suggestions.pop(0) if len(self.suggestions) > 1 else self.suggestions[0]

    def tell(self, trial: int, outcome: Outcome, params: Mapping[str, Any] | None = None) -> None:
        self.told[trial] = (outcome, params)

    def add(self, trial: int, params: Mapping[str, Any], outcome: Outcome | None) -> None:
        raise AssertionError("a replay has no earlier sessions")


def table_of(space: Mapping[str, Any] | None, configs: Sequence[Mapping[str, Any]]) -> CurveTable:
    curves = [(config, {"loss": [1.0]}, [1.0], None) for config in configs]
    described = None if space is None else Space(space).describe()
    return make_table("places", Objective("loss"), [], curves, space=described)


def picked(
    space: Mapping[str, Any], configs: Sequence[Mapping[str, Any]], *suggestions: dict[str, Any]
) -> list[int | None]:
    """What is picked for the suggestions."""
    picker = Nearest(table_of(space, configs), Script(*suggestions), seed=0)  # type: ignore[arg-type]
    return [picker.pick(trial) for trial in range(1, len(suggestions) + 1)]


def all_of(picker: Picker, configs: int) -> list[int | None]:
    return [picker.pick(trial) for trial in range(1, configs + 1)]


# -- random order --------------------------------------------------------------------------------


def test_random_order_is_a_seeded_permutation() -> None:
    orders = {}
    for seed in range(20):
        picker = RandomOrder(30, seed)
        orders[seed] = all_of(picker, 30)
        assert sorted(orders[seed]) == list(range(30))  # type: ignore[type-var]
        assert picker.pick(31) is None
        assert picker.pick(32) is None
        picker.tell(1, FINE)
        assert all_of(RandomOrder(30, seed), 30) == orders[seed]
    assert len({tuple(order) for order in orders.values()}) == 20


def test_any_configuration_may_come_first() -> None:
    firsts = [RandomOrder(4, seed).pick(1) for seed in range(400)]
    for config in range(4):
        assert 60 < firsts.count(config) < 140  # 100 on average, give or take 9


def test_random_needs_no_space() -> None:
    table = table_of(None, [{"anything": "goes"}] * 5)
    assert isinstance(make_picker(table, "random", 3), RandomOrder)
    assert all_of(make_picker(table, "random", 3), 5) == all_of(RandomOrder(5, 3), 5)


# -- the nearest one -----------------------------------------------------------------------------


def test_dimensions_count_by_their_ranges() -> None:
    space = {"x": uniform(0, 1000), "y": uniform(0, 1)}
    configs = [{"x": 0.0, "y": 0.2}, {"x": 100.0, "y": 0.0}]
    # 0.1 of the range of x is nearer than 0.2 of that of y, though 100 is more than 0.2
    assert picked(space, configs, {"x": 0.0, "y": 0.0}) == [1]
    # squares are added: 0.15 in one is nearer than 0.11 in both
    configs = [{"x": 110.0, "y": 0.11}, {"x": 150.0, "y": 0.0}]
    assert picked(space, configs, {"x": 0.0, "y": 0.0}) == [1]


def test_a_logarithmic_dimension_counts_by_its_logarithm() -> None:
    configs = [{"lr": 0.01}, {"lr": 1.0}]
    # 0.2 is 1.3 decades from 0.01 and 0.7 from 1
    assert picked({"lr": loguniform(1e-4, 1.0)}, configs, {"lr": 0.2}) == [1]
    assert picked({"lr": uniform(1e-4, 1.0)}, configs, {"lr": 0.2}) == [0]
    configs = [{"n": 1}, {"n": 64}]
    assert picked({"n": lograndint(1, 1024)}, configs, {"n": 9}) == [1]
    assert picked({"n": randint(1, 1024)}, configs, {"n": 9}) == [0]
    # the range is that of the logarithms too: 0.3 of x is farther than 1 of 4 decades
    space = {"lr": loguniform(1e-4, 1.0), "x": uniform(0, 1)}
    configs = [{"lr": 1.0, "x": 0.3}, {"lr": 0.1, "x": 0.0}]
    assert picked(space, configs, {"lr": 1.0, "x": 0.0}) == [1]


def test_options_that_differ_are_as_far_apart_as_the_ends_of_a_range() -> None:
    space = {"act": choice(["relu", "gelu", None]), "x": uniform(0, 1)}
    configs = [{"act": "relu", "x": 0.0}, {"act": "gelu", "x": 0.99}]
    assert picked(space, configs, {"act": "gelu", "x": 0.0}) == [1]
    # and not farther: 0.8 in each of two dimensions is 1.13
    both = {**space, "y": uniform(0, 1)}
    configs = [{"act": "gelu", "x": 0.8, "y": 0.8}, {"act": "relu", "x": 0.0, "y": 0.0}]
    assert picked(both, configs, {"act": "gelu", "x": 0.0, "y": 0.0}) == [1]
    # whichever option it is, and None is one
    configs = [{"act": "relu", "x": 0.0}, {"act": None, "x": 0.0}, {"act": "gelu", "x": 0.01}]
    assert picked(space, configs, {"act": "gelu", "x": 0.0}) == [2]
    # two options that differ are farther than one
    space = {"a": choice(["p", "q"]), "b": choice(["p", "q"]), "x": uniform(0, 1)}
    configs = [{"a": "q", "b": "q", "x": 0.5}, {"a": "q", "b": "p", "x": 0.0}]
    assert picked(space, configs, {"a": "p", "b": "p", "x": 0.5}) == [1]


def test_options_that_are_equal_but_not_the_same() -> None:
    space = {"a": choice([1, True, 0, False]), "x": uniform(0, 1)}
    configs = [{"a": 1, "x": 0.3}, {"a": True, "x": 0.6}, {"a": False, "x": 0.1}]
    assert picked(space, configs, {"a": True, "x": 0.1}) == [1]
    assert picked(space, configs, {"a": 1, "x": 0.6}) == [0]
    assert picked(space, configs, {"a": 0, "x": 0.1}) == [2]


def test_of_equally_near_ones_the_first_recorded_comes_first() -> None:
    configs = [{"x": 0.75}, {"x": 0.25}, {"x": 0.25}, {"x": 0.0}]
    assert picked({"x": uniform(0, 1)}, configs, *[{"x": 0.5}] * 4) == [0, 1, 2, 3]


def test_none_is_picked_twice_and_then_there_are_none() -> None:
    configs = [{"x": x / 8} for x in (5, 1, 8, 3, 0)]
    script = Script({"x": 0.5})
    picker = Nearest(table_of({"x": uniform(0, 1)}, configs), script, 0)  # type: ignore[arg-type]
    # from 4/8 it is 1, 3, 4, 1 and 4 eighths
    assert all_of(picker, 5) == [0, 3, 1, 2, 4]
    assert picker.pick(6) is None
    assert picker.pick(7) is None
    assert script.asked == [1, 2, 3, 4, 5]  # nobody is asked in vain


def test_the_searcher_is_told_what_was_run() -> None:
    space = {"x": uniform(0, 1), "n": randint(1, 9), "fixed": 3}
    configs = [{"x": 0.5, "n": 2, "fixed": 3}, {"x": 1, "n": 9, "fixed": 3}]
    script = Script({"x": 0.9, "n": 8}, {"x": 0.9, "n": 8})
    picker = Nearest(table_of(space, configs), script, 0)  # type: ignore[arg-type]
    assert all_of(picker, 2) == [1, 0]
    picker.tell(2, Outcome(0.5, 0.0))
    picker.tell(1, Outcome(None, 2.0, failed=True))
    assert script.told == {
        2: (Outcome(0.5, 0.0), {"x": 0.5, "n": 2}),  # the searched dimensions alone
        1: (Outcome(None, 2.0, failed=True), {"x": 1.0, "n": 9}),
    }
    told = script.told[1][1]
    assert told is not None
    assert {name: type(value) for name, value in told.items()} == {"x": float, "n": int}


def test_a_dimension_with_one_value_takes_no_part() -> None:
    space = {"x": uniform(0, 1), "n": randint(4, 4), "lr": loguniform(0.1, 0.1)}
    configs = [{"x": x, "n": 4, "lr": 0.1} for x in (0.0, 1.0)]
    assert picked(space, configs, {"x": 0.9, "n": 4, "lr": 0.1}) == [1]


@pytest.mark.slow
def test_points_come_first() -> None:
    made = synthetic_table(50, seed=1).table
    points = [dict(made.configs[17]), {**made.configs[31], "x": made.configs[31]["x"] + 1e-6}]
    for searcher in ("tpe", "cfo"):
        picker = make_picker(made, searcher, 0, points)
        assert [picker.pick(1), picker.pick(2)] == [17, 31], searcher


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"space": None}, TableError, "'places' does not say what space"),
        ({"searcher": "tep"}, GoalError, "unknown searcher 'tep'"),
        ({"configs": [{"x": 0.5}, {"y": 0.5}]}, TableError, "configuration 1 .*'x' is missing"),
        ({"configs": [{"x": 0.5}, {"x": 1.5}]}, TableError, "configuration 1 .*x=1.5"),
        ({"configs": [{"x": "a"}]}, TableError, "configuration 0 .*x='a'"),
        ({"points": [{"x": 2.0}]}, SpaceError, "x=2.0 lies outside"),
        ({"points": [{"y": 1.0}]}, SpaceError, "'y' is not searched"),
        ({"points": [{"x": 0.5}], "searcher": "random"}, GoalError, r"no points .*\{'x': 0.5\}"),
    ],
)
def test_what_cannot_be_searched(
    change: dict[str, Any], error: type[Exception], message: str
) -> None:
    options = {"space": {"x": uniform(0, 1)}, "configs": [{"x": 0.5}], "searcher": "tpe"} | change
    table = table_of(options["space"], options["configs"])
    with pytest.raises(error, match=message):
        make_picker(table, options["searcher"], 0, options.get("points", ()))


# -- real searchers ------------------------------------------------------------------------------

SEARCHERS = {"tpe": "optuna", "cmaes": "cmaes", "blendsearch": "flaml", "cfo": "flaml"}


@pytest.mark.slow
@pytest.mark.parametrize("searcher", SEARCHERS)
def test_a_searcher_tries_everything_once(searcher: str) -> None:
    pytest.importorskip(SEARCHERS[searcher])
    table = synthetic_table(25, seed=2, max_steps=8, difficulty=0.6).table
    picker = make_picker(table, searcher, 1)
    order = []
    for trial in range(1, 26):
        config = picker.pick(trial)
        assert config is not None
        order.append(config)
        if trial % 5 == 0:
            picker.tell(trial, Outcome(None, 1.0, failed=True))
        else:
            picker.tell(trial, Outcome(-table.metrics["score"][table.starts[config]], 0.5))
    assert sorted(order) == list(range(25))
    assert picker.pick(26) is None


@pytest.mark.slow
@pytest.mark.parametrize("searcher", SEARCHERS)
def test_workers_may_have_trials_under_way_when_the_searcher_is_asked(searcher: str) -> None:
    pytest.importorskip(SEARCHERS[searcher])
    table = synthetic_table(40, seed=2, max_steps=8, difficulty=0.6).table
    run = simulate(table, "ace", searcher=searcher, seed=3, workers=4, budget_s=5.0)
    assert 4 < run.trials <= 40
    assert run.best is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("searcher", "difficulty"),
    [
        ("tpe", 0.0),
        ("cmaes", 0.0),  # it is blind to constraints
        ("blendsearch", 0.0),
        ("cfo", 0.0),
        ("tpe", 0.6),
    ],
)
def test_searchers_find_better_than_random_on_average(searcher: str, difficulty: float) -> None:
    pytest.importorskip(SEARCHERS[searcher])
    made = synthetic_table(600, seed=2, max_steps=8, difficulty=difficulty)
    assert made.best is not None

    def mean_regret(searcher: str, seeds: int) -> float:
        assert made.best is not None
        regrets = []
        for seed in range(seeds):
            run = simulate(
                made.table, "none", searcher=searcher, seed=seed, workers=1, max_trials=60
            )
            assert run.best is not None
            regrets.append(made.best.value - run.best)
        return statistics.fmean(regrets)

    assert 0 <= mean_regret(searcher, seeds=5) < 0.75 * mean_regret("random", seeds=50)


def test_suggestions_depend_on_the_seed() -> None:
    table = synthetic_table(100, seed=2, max_steps=8).table

    def order(seed: int) -> list[int | None]:
        return all_of(make_picker(table, "tpe", seed), 8)

    assert order(1) == order(1)
    assert order(1) != order(2)
