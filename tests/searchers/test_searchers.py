"""What holds for every searcher."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import acetune
from acetune import Constraint, Searcher, Trial
from acetune.core.errors import GoalError, MissingExtraError, SpaceError
from acetune.core.outcome import Outcome
from acetune.searchers import SEARCHER_NAMES, make_searcher
from acetune.searchers.space import Space
from acetune.testing import check_searcher
from run.helpers import tune
from searchers.helpers import SPACE, SQUARE, distance, far_from, made, suggestions

# these are told the constraint and make use of it; the others never look at it
AWARE, BLIND = ["forest", "tpe", "gp", "blendsearch", "cfo"], ["random", "cmaes"]
REST = {"rate": 0.1, "m": 7, "kind": None, "fixed": 5}

every_searcher = pytest.mark.parametrize("name", SEARCHER_NAMES)


def trials(name: str, many: int) -> range:
    """The Gaussian process is slow: one suggestion beyond its first ten random ones."""
    return range(1, 12) if name == "gp" else range(1, many + 1)


def mixed(params: dict[str, Any]) -> Outcome:
    return Outcome(params["x"] + params["rate"], max(0.0, 0.5 - params["x"]))


def test_each_is_either_told_of_constraints_or_blind() -> None:
    assert sorted(AWARE + BLIND) == sorted(SEARCHER_NAMES)


@every_searcher
def test_it_keeps_to_the_protocol(name: str) -> None:
    def make(space: dict[str, Any], seed: int) -> Searcher:
        return made(name, seed, Space(space))

    check_searcher(make, trials=len(trials(name, 30)))


# -- asking --------------------------------------------------------------------------------------


@every_searcher
def test_suggestions_lie_in_the_space(name: str) -> None:
    for params in suggestions(made(name), trials(name, 60), mixed):
        assert list(params) == ["x", "rate", "n", "m", "kind"]
        assert all(SPACE.dimensions[key].contains(value) for key, value in params.items())
        assert [type(params[key]) for key in ("x", "rate", "n", "m")] == [float, float, int, int]


@every_searcher
def test_dimensions_with_one_value_or_odd_names(name: str) -> None:
    space = Space(
        {
            "a/b": acetune.uniform(0.0, 1.0),
            "config/c.d": acetune.randint(3, 3),
            "float": acetune.loguniform(2.0, 2.0),
            "option": acetune.choice([None]),
        }
    )
    for params in suggestions(made(name, space=space), trials(name, 20), far_from_the_first):
        assert list(params) == space.names
        assert list(params.values())[1:] == [3, 2.0, None]


def far_from_the_first(params: dict[str, Any]) -> Outcome:
    return Outcome(float(next(iter(params.values()))), 0.0)


@every_searcher
def test_a_space_with_few_configurations_may_be_asked_for_ever(name: str) -> None:
    space = Space({"a": acetune.choice(["one", "two"]), "b": acetune.randint(1, 2)})
    found = suggestions(made(name, space=space), trials(name, 30), lambda _: Outcome(1.0, 0.0))
    assert len({tuple(params.values()) for params in found}) >= 3


@every_searcher
def test_a_space_of_a_single_configuration(name: str) -> None:
    space = Space({"a": acetune.choice(["one"]), "b": acetune.uniform(2.0, 2.0)})
    found = suggestions(made(name, space=space), trials(name, 15), lambda _: Outcome(1.0, 0.0))
    assert found == [{"a": "one", "b": 2.0}] * len(found)


@every_searcher
def test_a_seed_repeats_the_suggestions(name: str) -> None:
    numbers = trials(name, 25)
    first = suggestions(made(name, 3), numbers, mixed)
    assert suggestions(made(name, 3), numbers, mixed) == first
    for seed, other in [(3, 4), (None, None)]:
        pair = [suggestions(made(name, s), range(1, 4), mixed) for s in (seed, other)]
        assert pair[0] != pair[1]


@every_searcher
def test_points_first_then_the_searchers_own(name: str) -> None:
    searcher = made(name, points=[{"x": 0.5, "kind": True}, {"n": 3}])
    first, second, third = (searcher.ask(number) for number in (1, 2, 3))
    assert (first["x"], first["kind"]) == (0.5, True) and second["n"] == 3
    assert third["x"] != 0.5


@every_searcher
def test_workers_may_ask_before_others_have_answered(name: str) -> None:
    searcher = made(name, space=SQUARE)
    for batch in range(3):
        asked = [searcher.ask(10 * batch + number) for number in range(1, 6)]
        assert len({tuple(params.values()) for params in asked}) == 5
        for number in (3, 1, 5, 2, 4):
            searcher.tell(10 * batch + number, far_from(0.5, 0.5)(asked[number - 1]))


def test_an_unknown_searcher_is_named() -> None:
    with pytest.raises(
        GoalError,
        match=r"'cma'; did you mean 'cmaes'\? choose from forest, random, tpe, gp, cmaes, b",
    ):
        make_searcher("cma", SPACE)


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("gp", "torch", "gp"),
        ("gp", "scipy", "gp"),
        ("cmaes", "cmaes", "cmaes"),
        ("cfo", "flaml", "flaml"),
        ("blendsearch", "flaml", "flaml"),
    ],
)
def test_a_missing_package_is_named(
    name: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'acetune\[{extra}\]'"):
        make_searcher(name, SPACE)


# -- telling -------------------------------------------------------------------------------------


@every_searcher
@pytest.mark.parametrize("failed", [False, True])
def test_trials_without_a_value_only(name: str, failed: bool) -> None:
    searcher = made(name, space=SQUARE)
    found = suggestions(searcher, trials(name, 30), lambda _: Outcome(None, 1.0, failed))
    assert len({tuple(params.values()) for params in found}) == len(found)


# -- another configuration was run ---------------------------------------------------------------


def some(seed: int, n: int = 12) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    return [{"x": chance.random(), "y": chance.random()} for _ in range(n)]


def after(name: str, suggested: Sequence[dict[str, Any]], run: Sequence[dict[str, Any]]) -> Any:
    """What is suggested after some trials in which other configurations were run."""
    searcher = made(name, space=SQUARE, points=suggested)
    best = far_from(0.5, 0.5)
    for number, (point, other) in enumerate(zip(suggested, run, strict=True)):
        assert searcher.ask(number) == point
        searcher.tell(number, best(other), {**other, "not searched": 1})
    return suggestions(searcher, range(100, 102), best)


@every_searcher
def test_what_was_run_counts_and_not_what_was_suggested(name: str) -> None:
    expected = after(name, some(1), some(2))
    assert after(name, some(3), some(2)) == expected
    if name != "random":
        assert after(name, some(1), some(4)) != expected


@pytest.mark.parametrize("name", [name for name in SEARCHER_NAMES if name != "random"])
def test_it_goes_where_what_was_run_did_well(name: str) -> None:
    """As in a replay: every suggestion is answered by the nearest of some recorded ones."""
    recorded, best = some(0, 200), (0.75, 0.25)
    searcher = made(name, space=SQUARE)
    run = []
    for number in trials(name, 60):
        asked = tuple(searcher.ask(number).values())
        run.append(min(recorded, key=lambda params: distance(params, asked)))
        recorded.remove(run[-1])
        searcher.tell(number, far_from(*best)(run[-1]), run[-1])
    half = len(run) // 2
    ahead = 10 if name == "gp" else half
    early, late = run[:half], run[ahead:]
    mean = [sum(distance(params, best) for params in part) / len(part) for part in (early, late)]
    assert mean[1] < mean[0]


@every_searcher
def test_a_configuration_outside_the_space_is_refused(name: str) -> None:
    for params, text in [
        ({"x": 2.0, "y": 0.5}, "x=2.0 lies outside"),
        ({"x": 0.5}, "'y' is missing"),
    ]:
        searcher = made(name, space=SQUARE)
        searcher.ask(1)
        with pytest.raises(SpaceError, match=text):
            searcher.tell(1, Outcome(1.0, 0.0), params)


# -- resuming ------------------------------------------------------------------------------------


@every_searcher
def test_a_trial_that_is_trained_again_is_told_later(name: str) -> None:
    searcher = made(name, points=[{"x": 0.5}])
    searcher.add(1, {"x": 0.25, "n": 3, **REST}, None)
    assert searcher.ask(2)["x"] == 0.5  # the point still waits
    searcher.tell(1, Outcome(3.0, 0.0))
    searcher.tell(2, Outcome(2.0, 0.0))
    assert searcher.ask(3)["x"] not in (0.25, 0.5)


@every_searcher
def test_points_of_an_earlier_session_are_not_tried_again(name: str) -> None:
    searcher = made(name, points=[{"x": 0.25}, {"x": 0.5, "n": 2}])
    searcher.add(1, {"x": 0.25, "n": 1, **REST}, Outcome(1.0, 0.0))
    searcher.add(2, {"x": 0.5, "n": 3, **REST}, Outcome(1.0, 0.0))  # not quite that point
    second = searcher.ask(3)
    assert (second["x"], second["n"]) == (0.5, 2)
    assert searcher.ask(4)["x"] not in (0.25, 0.5)


@pytest.mark.parametrize("name", [name for name in SEARCHER_NAMES if name != "random"])
def test_a_resumed_search_knows_what_was_learnt(name: str) -> None:
    best = (0.9, 0.1)
    resumed, anew = made(name, space=SQUARE), made(name, space=SQUARE)
    for number, params in enumerate(some(0, 80)):
        resumed.add(number, params, far_from(*best)(params))
    resumed.add(90, {"x": 0.5, "y": 0.5}, Outcome(None, 0.0, failed=True))
    resumed.add(91, {"x": 0.5, "y": 0.6}, Outcome(None, 0.5))
    mean = [
        sum(distance(params, best) for params in found) / 3
        for found in (
            suggestions(resumed, range(100, 103), far_from(*best)),
            suggestions(anew, range(100, 103), far_from(*best)),
        )
    ]
    assert mean[0] < 0.7 * mean[1]


@pytest.mark.parametrize("name", ["cmaes", "blendsearch"])
def test_a_study_of_two_sessions(name: str, study: Path) -> None:
    def train(trial: Trial) -> None:
        if trial.number == 3:
            raise MemoryError("too large")
        trial.report(trial.params["x"], model=trial.params["x"])

    for max_trials in (4, 8):
        result = tune(
            train,
            study,
            searcher=name,
            seed=0,
            max_trials=max_trials,
            space={"x": acetune.uniform(0.0, 1.0), "y": acetune.choice(["a", None])},
            constraints=[
                Constraint("g", lower=0.3, check=lambda model: model),
                Constraint("h", upper=0.9, on="config", check=lambda params: params["x"]),
            ],
        )
    assert result.best is not None and 0.3 <= result.best.params["x"] <= 0.9


# -- what it is good for -------------------------------------------------------------------------


def feasible(searcher: Searcher, told: bool, numbers: range) -> float:
    """The share of feasible suggestions among the later ones, where the limit binds: the lower x
    the better, and x >= 0.5 qualifies."""

    def outcome(params: dict[str, Any]) -> Outcome:
        return Outcome(params["x"], max(0.0, 0.5 - params["x"]) if told else 0.0)

    late = suggestions(searcher, numbers, outcome)[len(numbers) * 5 // 8 :]
    return sum(params["x"] >= 0.5 for params in late) / len(late)


@pytest.mark.parametrize("name", AWARE)
def test_searchers_that_see_the_constraint_make_use_of_it(name: str) -> None:
    numbers = range(1, 17) if name == "gp" else range(1, 81)
    told, untold = (feasible(made(name, space=SQUARE), told, numbers) for told in (True, False))
    blind = feasible(made("cmaes", space=SQUARE), True, range(1, 81))
    assert told >= 0.4
    assert untold <= 0.2 and blind <= 0.2


@pytest.mark.parametrize("name", BLIND)
def test_the_others_are_blind(name: str) -> None:
    def outcome(violation: float) -> list[dict[str, Any]]:
        numbers = range(1, 41)
        return suggestions(made(name), numbers, lambda p: Outcome(p["x"], violation * p["rate"]))

    assert outcome(1.0) == outcome(0.0)
