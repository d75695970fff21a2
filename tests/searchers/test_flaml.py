"""Where plain FLAML goes wrong, and that our searcher does not.

Each ``test_plain_...`` shows what FLAML does by itself. If one fails, FLAML has fixed it, and the
remedy in ``acetune.searchers._flaml`` can go.
"""

from __future__ import annotations

import itertools
import json
import logging
import math
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optuna.trial import TrialState

import acetune
from acetune.core.errors import GoalError, SpaceError
from acetune.core.outcome import Outcome
from acetune.searchers._flaml import FlamlSearcher, _flaml
from acetune.searchers.space import Space
from searchers.helpers import SPACE, SQUARE, far_from, made, suggestions

flaml = _flaml()
METHODS = ["blendsearch", "cfo"]
both = pytest.mark.parametrize("method", METHODS)


def plain(method: str = "cfo", space: Any = None, **options: Any) -> Any:
    """FLAML itself, on a square, with c <= 1."""
    algorithm = {"cfo": flaml.CFO, "blendsearch": flaml.BlendSearch}[method]
    options = {"metric_constraints": [("c", "<=", 1.0)], "seed": 3} | options
    return algorithm(metric="loss", mode="min", space=space or square(), **options)


def square() -> dict[str, Any]:
    return {"x": flaml.tune.uniform(0, 1), "y": flaml.tune.uniform(0, 1)}


def ours(method: str = "cfo", space: Space = SQUARE, seed: int | None = 3, **options: Any) -> Any:
    return FlamlSearcher(space, method, seed=seed, **options)  # type: ignore[arg-type]


def complete(search: Any, name: str, config: dict[str, Any], loss: float, c: float = 1.0) -> None:
    result = {"loss": loss, "c": c, "time_total_s": 1.0, "config": dict(config)}
    search.on_trial_complete(name, result)


def run_plain(search: Any, trials: int, result: Callable[[Any], tuple[float, float]]) -> list[Any]:
    """What plain FLAML suggests, None where it does not."""
    found = []
    for number in range(trials):
        found.append(search.suggest(str(number)))
        if found[-1] is not None:
            complete(search, str(number), found[-1], *result(found[-1]))
    return found


def begun(search: Any) -> list[dict[str, Any]]:
    """Where the local searches are."""
    threads = search._search_thread_pool
    return [thread._search_alg.best_config for number, thread in threads.items() if number]


def incumbents(searcher: FlamlSearcher) -> list[dict[str, Any]]:
    return [searcher._coded.decode(config) for config in begun(searcher._search)]


def infeasible_wins(search: Any) -> bool:
    """After a feasible trial, one that is better and far from feasible."""
    first = search.suggest("1")
    complete(search, "1", first, loss=1.0)
    second = search.suggest("2")
    complete(search, "2", second, loss=0.0, c=4.0)
    assert begun(search)[0] in (first, second)
    return bool(begun(search)[0] == second)


# -- the constraint ------------------------------------------------------------------------------


def test_plain_local_search_ignores_the_constraint_if_the_space_comes_later() -> None:
    late = flaml.CFO(metric="loss", mode="min", metric_constraints=[("c", "<=", 1.0)], seed=3)
    late.set_search_properties("loss", "min", square())
    assert infeasible_wins(late)
    assert not infeasible_wins(plain())


@pytest.mark.parametrize("value", [0.0, None, math.nan])
def test_plain_takes_some_values_as_satisfied(value: float | None) -> None:
    """An accuracy of at least 0.5 is wanted."""
    for accuracy, satisfied in [(0.1, False), (value, True)]:
        search = plain(metric_constraints=[("accuracy", ">=", 0.5)])
        config = search.suggest("1")
        search.on_trial_complete("1", {"loss": 1.0, "accuracy": accuracy, "config": config})
        assert search._metric_constraint_satisfied == satisfied


def test_plain_moves_to_where_an_intermediate_result_was_good_and_infeasible() -> None:
    search = plain()
    first = search.suggest("1")
    complete(search, "1", first, loss=1.0)
    second = search.suggest("2")
    search.on_trial_result("2", {"loss": 0.0, "c": 4.0, "config": second})
    complete(search, "2", second, loss=0.0, c=4.0)
    assert begun(search) == [second]


@both
@pytest.mark.parametrize("violation", [1e-6, 0.1, 3.0])
def test_an_infeasible_trial_never_wins(method: str, violation: float) -> None:
    searcher = ours(method)
    first = searcher.ask(1)
    searcher.tell(1, Outcome(1.0, violation))
    assert not incumbents(searcher)  # a local search begins from a feasible one only
    first = searcher.ask(2)
    searcher.tell(2, Outcome(1.0, 0.0))
    assert incumbents(searcher) == [first]
    for number in range(3, 9):
        searcher.ask(number)
        searcher.tell(number, Outcome(-1000.0, violation))
    assert incumbents(searcher) == [first]


def thousands(x: float, y: float) -> tuple[float, float]:
    """Loss and violation: lower is better, x below 0.5 does not qualify."""
    return 1000.0 * (x + y), max(0.0, 0.5 - x)


@pytest.mark.parametrize("seed", range(3))
def test_plain_walks_off_where_losses_are_large(seed: int) -> None:
    def result(config: dict[str, Any]) -> tuple[float, float]:
        loss, violation = thousands(**config)
        return loss, 1.0 + violation

    late = run_plain(plain(seed=seed), 80, result)[40:]
    assert not any(config["x"] >= 0.5 for config in late if config is not None)


@both
@pytest.mark.parametrize("seed", range(3))
def test_the_size_of_losses_does_not_matter(method: str, seed: int) -> None:
    def run(scale: float) -> list[dict[str, Any]]:
        def outcome(params: dict[str, Any]) -> Outcome:
            loss, violation = thousands(**params)
            return Outcome(scale * loss, violation)

        return suggestions(ours(method, seed=seed), range(80), outcome)

    found = run(1.0)
    assert sum(params["x"] >= 0.5 for params in found[40:]) >= 14
    if method == "cfo":  # BlendSearch may round differently when it compares its searches
        assert run(2.0**-12) == found


# -- where the search begins ---------------------------------------------------------------------

LOW = {"x": 0.05, "y": 0.05}


@both
def test_plain_never_leaves_a_low_cost_point_where_nothing_qualifies(method: str) -> None:
    search = plain(method, low_cost_partial_config=dict(LOW))
    found = run_plain(search, 100, lambda config: (1.0, 1.0 + max(0.0, 0.5 - config["x"])))
    assert max(config["x"] for config in found if config is not None) < 0.2


@both
@pytest.mark.parametrize("loss", [1.0, None])
def test_a_low_cost_point_where_nothing_qualifies_is_left(method: str, loss: float | None) -> None:
    def outcome(params: dict[str, Any]) -> Outcome:
        violation = max(0.0, 0.5 - params["x"])
        return Outcome(loss if violation else 1.0, violation)

    found = suggestions(ours(method, low_cost=LOW), range(40), outcome)
    assert found[0] == LOW
    assert max(params["x"] for params in found[1:5]) < 0.5  # step by step
    assert sum(params["x"] >= 0.5 for params in found) >= 10


def test_a_low_cost_point_outside_the_space_is_refused() -> None:
    with pytest.raises(SpaceError, match="x=2 lies outside"):
        ours(low_cost={"x": 2})


POINTS = [{"x": 0.1, "y": 0.1}, {"x": 0.5, "y": 0.5}, {"x": 0.9, "y": 0.9}]


def test_plain_cfo_begins_from_nowhere_after_several_points() -> None:
    search = plain(points_to_evaluate=[dict(point) for point in POINTS])
    run_plain(search, 3, lambda config: (abs(config["x"] - 0.5), 1.0))
    assert begun(search) == [{}]
    with pytest.raises(KeyError):
        search.suggest("3")


def test_cfo_begins_from_the_best_point() -> None:
    searcher = ours(points=POINTS)
    assert suggestions(searcher, range(3), far_from(0.5, 0.5)) == POINTS
    assert incumbents(searcher) == [POINTS[1]]
    searcher.ask(3)


def test_plain_takes_earlier_results_without_their_constraint() -> None:
    """The first is the best, and does not qualify; there is no way to say so."""
    search = plain(points_to_evaluate=[dict(p) for p in POINTS], evaluated_rewards=[0.0, 0.5, 1.0])
    assert begun(search) == [POINTS[0]]


@both
def test_a_resumed_search_goes_on_from_the_best_feasible(method: str) -> None:
    searcher = ours(method)
    for number, (point, violation) in enumerate(zip(POINTS[::-1], [0.0, 0.0, 0.5], strict=True)):
        searcher.add(number, point, Outcome(point["x"], violation))
    searcher.add(3, {"x": 0.2, "y": 0.2}, Outcome(None, 0.0))
    searcher.ask(4)
    assert incumbents(searcher) == [POINTS[1]]


# -- the global search ---------------------------------------------------------------------------


def test_plain_tells_the_global_search_results_of_other_configurations() -> None:
    search = plain("blendsearch", low_cost_partial_config=dict(LOW))
    found = run_plain(search, 30, lambda config: (config["x"], 1.5))
    asked = {
        name: search._gs._ot_study.trials[t.number] for name, t in search._gs._ot_trials.items()
    }
    complete = {int(n): t for n, t in asked.items() if t.state == TrialState.COMPLETE}
    wrong = [n for n, trial in complete.items() if trial.params["x"] != found[n]["x"]]
    assert len(wrong) > 20


@pytest.mark.parametrize("low_cost", [None, LOW])
def test_the_global_search_is_told_what_was_run(low_cost: dict[str, Any] | None) -> None:
    searcher = ours("blendsearch", low_cost=low_cost)
    found = suggestions(searcher, range(60), lambda p: Outcome(p["x"], max(0.0, 0.2 - p["x"])))
    trials = searcher._global._sampler._study.trials
    known = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    assert 5 < len(known) < 60  # local searches keep theirs to themselves
    for trial in known:
        assert trial.params in found
        assert trial.value == trial.params["x"]
        assert trial.constraints["violation"] == max(0.0, 0.2 - trial.params["x"])
    assert not [trial for trial in trials if trial.state == TrialState.RUNNING]


def test_the_global_search_knows_what_is_under_way() -> None:
    searcher = ours("blendsearch")
    asked = [searcher.ask(number) for number in range(6)]
    trials = searcher._global._sampler._study.trials
    running = [trial.params for trial in trials if trial.state == TrialState.RUNNING]
    assert running == asked[1:]  # the first is FLAML's own


# -- clock, chance and Ray -----------------------------------------------------------------------


def at_pace(pace: float, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count()
    monkeypatch.setattr(time, "time", lambda: 1e9 + pace * next(ticks))


def test_plain_depends_on_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for pace in (0.0, 0.5):
        at_pace(pace, monkeypatch)
        search = plain("blendsearch", time_budget_s=30)
        found.append(run_plain(search, 60, lambda c: ((c["x"] - 0.3) ** 2 + c["y"], 1.0)))
    assert found[0] != found[1]


@both
def test_suggestions_depend_neither_on_the_clock_nor_on_others_chance(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for pace in (0.0, 1000.0):
        at_pace(pace, monkeypatch)
        np.random.seed(int(pace))
        random.seed(pace)
        found.append(suggestions(ours(method), range(40), far_from(0.3, 0.0)))
    assert found[0] == found[1]


WITHOUT_RAY = """
import sys
sys.modules["ray"] = None
sys.path.insert(0, sys.argv[1])
from searchers.test_flaml import rounded
print(rounded("blendsearch"), rounded("cfo"), sep=chr(10))
"""


def rounded(method: str) -> str:
    """Some suggestions; Ray draws log-uniform numbers that differ in the last digit."""

    def outcome(params: dict[str, Any]) -> Outcome:
        return Outcome(params["x"] + params["rate"], max(0.0, 0.5 - params["x"]))

    found = suggestions(made(method, 1), range(30), outcome)
    kept = [
        {name: f"{v:.8g}" if isinstance(v, float) else v for name, v in params.items()}
        for params in found
    ]
    return json.dumps(kept)


def test_suggestions_are_the_same_with_and_without_ray() -> None:
    """FLAML takes Ray's domains, base class and Optuna wrapper where Ray is installed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_RAY, str(Path(__file__).parent.parent)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [rounded("blendsearch"), rounded("cfo")]
    assert done.stderr == ""


@both
def test_seeds_of_any_size(method: str) -> None:
    with pytest.raises(TypeError):
        plain(seed=None)
    for seed in (-1, 2**32):
        with pytest.raises(ValueError):
            plain(seed=seed)
    for seed in (None, 0, -1, 2**32 - 1, 10**20):
        assert ours(method, seed=seed).ask(1)


def test_it_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handler, level = logging.StreamHandler(), root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        for method in METHODS:
            suggestions(ours(method), range(20), far_from(0.5, 0.5))
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    assert capfd.readouterr() == ("", "")


# -- the space -----------------------------------------------------------------------------------


def test_plain_makes_strings_of_mixed_options() -> None:
    kinds = flaml.tune.choice(["a", 2, None, True])
    search = plain("blendsearch", space={"kind": kinds} | square())
    found = []
    with pytest.raises(TypeError):  # and then stumbles over them
        for number in range(60):
            config = search.suggest(str(number))
            if config is not None:
                found.append(config["kind"])
                complete(search, str(number), config, config["x"])
    assert {"2", "True", "None"} & set(found)


@both
def test_options_come_back_as_they_are(method: str) -> None:
    options = ["a", 2, None, True, 1.0, 1, "2", False]
    searcher = ours(method, Space({"kind": acetune.choice(options), "x": acetune.uniform(0, 1)}))
    found = [params["kind"] for params in suggestions(searcher, range(150), first_is_best)]
    assert {(type(option), option) for option in found} == {(type(o), o) for o in options}


def first_is_best(params: dict[str, Any]) -> Outcome:
    return Outcome(params["x"], 0.0)


@pytest.mark.parametrize(
    ("space", "error"),
    [
        ({"x": acetune.uniform(1.0, 1.0)}, ZeroDivisionError),
        ({"n": acetune.randint(2, 2)}, ZeroDivisionError),
        ({"x": acetune.loguniform(2.0, 2.0)}, RuntimeWarning),
        ({"a/b": acetune.uniform(0.0, 1.0)}, ValueError),
    ],
)
def test_plain_cannot_take_some_dimensions(space: dict[str, Any], error: type[Exception]) -> None:
    """That ours can is in test_searchers.py."""
    ((name, dimension),) = space.items()
    low, high = dimension.low, dimension.high
    if isinstance(dimension, acetune.searchers.space.Integer):
        domain = flaml.tune.randint(low, high + 1)
    else:
        domain = (flaml.tune.loguniform if dimension.log else flaml.tune.uniform)(low, high)
    with pytest.raises(error):
        run_plain(plain(space={name: domain}), 5, lambda _: (1.0, 1.0))


def test_plain_rounds_out_of_bounds() -> None:
    search = plain(space={"rate": flaml.tune.loguniform(1e-5, 3.0)})
    found = run_plain(search, 60, lambda config: (-config["rate"], 1.0))
    assert max(config["rate"] for config in found if config is not None) > 3.0


@both
def test_bounds_are_reached_and_kept(method: str) -> None:
    space = Space(
        {
            "rate": acetune.loguniform(1e-5, 3.0),
            "n": acetune.randint(-2, 5),
            "m": acetune.lograndint(1, 30),
            "size": acetune.choice([64, 16.0, 32]),
        }
    )
    for sign in (1, -1):
        found = suggestions(
            ours(method, space),
            range(150),
            lambda p: Outcome(sign * (p["rate"] / 3 + p["n"] + p["m"] + p["size"]), 0.0),  # noqa: B023
        )
        ends = {name: (max if sign < 0 else min)(p[name] for p in found) for name in space.names}
        assert ends == (
            {"rate": 3.0, "n": 5, "m": 30, "size": 64}
            if sign < 0
            else {"rate": 1e-5, "n": -2, "m": 1, "size": 16.0}
        )
        assert all(space.dimensions[k].contains(v) for params in found for k, v in params.items())


# -- nothing to suggest --------------------------------------------------------------------------


@both
def test_plain_may_have_no_suggestion(method: str) -> None:
    search = plain(method, space={"n": flaml.tune.randint(0, 3)})
    assert None in run_plain(search, 20, lambda config: (float(config["n"]), 1.0))


@both
def test_there_is_always_a_suggestion(method: str) -> None:
    space = Space({"n": acetune.randint(0, 2), "kind": acetune.choice(["a", "b"])})
    searcher = ours(method, space)
    found = suggestions(searcher, range(12), lambda p: Outcome(float(p["n"]), 0.0))
    assert len({tuple(params.values()) for params in found}) == 6  # and new ones first
    suggestions(searcher, range(12, 40), lambda p: Outcome(float(p["n"]), 0.0))


@both
def test_many_may_be_under_way(method: str) -> None:
    searcher = ours(method)
    searcher.ask(0)
    searcher.tell(0, Outcome(1.0, 0.0))
    asked = [searcher.ask(number) for number in range(1, 100)]
    assert len({tuple(params.values()) for params in asked}) >= 95
    for number in range(1, 100):
        searcher.tell(number, far_from(0.5, 0.5)(asked[number - 1]))
    searcher.ask(100)


# -- no value ------------------------------------------------------------------------------------


def test_plain_needs_a_value() -> None:
    search = plain()
    config = search.suggest("1")
    with pytest.raises(KeyError):
        search.on_trial_complete("1", {"c": 1.5, "config": config})


@both
@pytest.mark.parametrize("failed", [False, True])
def test_a_configuration_without_a_value_is_not_suggested_again(method: str, failed: bool) -> None:
    space = Space({"n": acetune.randint(1, 30)})

    def outcome(params: dict[str, Any]) -> Outcome:
        value = float(params["n"])
        return Outcome(value, 0.0) if value > 10 else Outcome(None, 1.0, failed)

    searcher = ours(method, space)
    found = [params["n"] for params in suggestions(searcher, range(30), outcome)]
    assert sorted(found) == list(range(1, 31))
    assert all(incumbent["n"] > 10 for incumbent in incumbents(searcher))


# -- another configuration was run ---------------------------------------------------------------


@both
def test_the_search_moves_to_what_was_run(method: str) -> None:
    searcher = ours(method)
    searcher.ask(1)
    searcher.tell(1, Outcome(9.0, 0.0), {"x": 0.6, "y": 0.7})
    assert incumbents(searcher) == [{"x": 0.6, "y": 0.7}]  # begun there
    for number in range(2, 50):
        suggested = searcher.ask(number)
        proposer = searcher._search._trial_proposed_by[str(number)]
        if proposer:  # a local search
            break
        searcher.tell(number, Outcome(9.0 / number, 0.0))
    searcher.tell(number, Outcome(0.0, 0.0), {"x": 0.2, "y": 0.3})
    assert {"x": 0.2, "y": 0.3} in incumbents(searcher)
    assert suggested not in incumbents(searcher)
    local = searcher._search._search_thread_pool[proposer]._search_alg
    assert local.best_obj == 0.0
    config = searcher._coded.encode(suggested)
    assert local.config_signature(config) not in searcher._search._result  # it may come again


@both
def test_the_size_of_the_last_step_stays(method: str) -> None:
    """Moves begin from what was run, with the step that the local search had."""
    searcher = ours(method)
    searcher.ask(1)
    searcher.tell(1, Outcome(1.0, 0.0), {"x": 0.5, "y": 0.5})
    local = searcher._search._search_thread_pool[1]._search_alg
    direction = local.suggest("probe")
    moved = math.dist(direction.values(), (0.5, 0.5))
    assert moved == pytest.approx(local.step)


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(GoalError, match="'blendsearch' or 'cfo', got 'flow2'"):
        ours("flow2", SPACE)
