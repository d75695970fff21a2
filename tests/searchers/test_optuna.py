"""What Optuna is told of trials, and that it makes use of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import FrozenTrial, TrialState

import acetune
from acetune import ACE, Constraint, Searcher, Stopper
from acetune.core.errors import GoalError
from acetune.core.outcome import Outcome, outcome
from acetune.searchers import SEARCHER_NAMES, make_searcher
from acetune.searchers.optuna import OptunaSearcher
from acetune.space import Space
from engines.helpers import by_hand, g_of, tune

SPACE = Space(
    {
        "x": acetune.uniform(0.0, 1.0),
        "rate": acetune.loguniform(1e-4, 1.0),
        "n": acetune.randint(1, 8),
        "m": acetune.lograndint(1, 100),
        "kind": acetune.choice(["a", 2, None, True]),
        "fixed": 5,
    }
)


def made(name: str = "tpe", seed: int | None = 0, **options: Any) -> OptunaSearcher:
    searcher = make_searcher(name, options.pop("space", SPACE), seed=seed, **options)
    assert isinstance(searcher, OptunaSearcher)
    return searcher


def told(searcher: OptunaSearcher) -> list[FrozenTrial]:
    """The trials as Optuna has them."""
    return searcher._study.get_trials(deepcopy=False)


def suggestions(searcher: Searcher, numbers: Sequence[int]) -> list[dict[str, Any]]:
    found = []
    for number in numbers:
        found.append(searcher.ask(number))
        searcher.tell(number, Outcome(float(number % 3), 0.5 * (number % 2)))
    return found


# -- asking --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SEARCHER_NAMES)
def test_suggestions_lie_in_the_space(name: str) -> None:
    for params in suggestions(made(name), range(1, 40)):
        assert list(params) == ["x", "rate", "n", "m", "kind"]
        assert all(SPACE.dimensions[key].contains(value) for key, value in params.items())
        assert type(params["n"]) is int and type(params["x"]) is float


@pytest.mark.parametrize("name", SEARCHER_NAMES)
def test_a_seed_repeats_the_suggestions(name: str) -> None:
    numbers = range(1, 20)
    first = suggestions(made(name, 3), numbers)
    assert suggestions(made(name, 3), numbers) == first
    assert suggestions(made(name, 4), numbers) != first
    assert suggestions(made(name, None), numbers) != suggestions(made(name, None), numbers)


def test_points_first_then_the_sampler() -> None:
    searcher = made(points=[{"x": 0.5, "kind": True}, {"n": 3}])
    first, second, third = (searcher.ask(number) for number in (1, 2, 3))
    assert (first["x"], first["kind"]) == (0.5, True) and second["n"] == 3
    assert third["x"] != 0.5


def test_workers_may_ask_before_others_have_answered() -> None:
    searcher = made()
    asked = [searcher.ask(number) for number in range(1, 6)]
    for number in (3, 1, 5, 2, 4):
        searcher.tell(number, Outcome(float(number), 0.0))
    assert [trial.value for trial in told(searcher)] == [1, 2, 3, 4, 5]
    assert [trial.params for trial in told(searcher)] == asked


def test_an_unknown_searcher_is_named() -> None:
    with pytest.raises(GoalError, match=r"'cmaes'; choose from random, tpe"):
        make_searcher("cmaes", SPACE)


# -- telling -------------------------------------------------------------------------------------


def trial_of(
    stopper: Stopper, name: int, reports: Sequence[tuple[float, float | None]], total: int = 9
) -> Outcome:
    """A trial's outcome after (loss, g or not checked) at steps 1, 2, ..."""
    trial = stopper.start(name, total)
    for step, (loss, g) in enumerate(reports, 1):
        trial.observe(step, loss, None if g is None else {"g": g})
    return outcome(trial.record, stopper.history)


def stopper_with_misses() -> Stopper:
    """Three misses were seen, with violations 1, 2 and 4; nothing was valid yet."""
    limit = Constraint("g", upper=1)
    stopper = Stopper(objective="loss", mode="min", constraints=[limit], policy=ACE(0, interval=1))
    trial_of(stopper, 100, [(9.0, 2.0), (9.0, 3.0), (9.0, 5.0)])
    return stopper


def test_every_row_of_the_table_reaches_optuna() -> None:
    stopper, searcher = stopper_with_misses(), made()
    nan, inf = math.nan, math.inf

    failed = stopper.start(1, 9)
    failed.observe(1, 3.0)
    failed.fail("out of memory")
    end = stopper.restart(2, 9, 9, None)  # checked at its end only, and stopped before
    end.observe(1, 4.0)
    outcomes = {
        "failed": outcome(failed.record, stopper.history),
        "no check was due": outcome(end.record, stopper.history),
        "never finite": trial_of(stopper, 3, [(nan, None), (inf, None)]),
        "checked, never valid": trial_of(stopper, 4, [(1.0, 9.0), (2.0, 1.5), (3.0, 7.0)]),
        "only failed checks": trial_of(stopper, 5, [(2.5, nan)]),
        "valid": trial_of(stopper, 6, [(5.0, 0.0), (4.0, 9.0), (6.0, 1.0)]),
        "skipped by the gate": trial_of(stopper, 7, [(8.0, None), (7.0, None)]),
        "failed after a valid checkpoint": trial_of(stopper, 8, [(6.0, 0.0), (5.5, nan)]),
    }
    expected: dict[str, tuple[TrialState, float | None, float | None]] = {
        "failed": (TrialState.FAIL, None, None),
        "no check was due": (TrialState.COMPLETE, 4.0, 2.0),  # the median miss
        "never finite": (TrialState.FAIL, None, None),
        "checked, never valid": (TrialState.COMPLETE, 2.0, 0.5),
        "only failed checks": (TrialState.COMPLETE, 2.5, 8.0),  # the largest miss, not infinity
        "valid": (TrialState.COMPLETE, 5.0, 0.0),
        "skipped by the gate": (TrialState.COMPLETE, 7.0, 0.0),
        "failed after a valid checkpoint": (TrialState.COMPLETE, 6.0, 0.0),
    }
    for number, (row, found) in enumerate(outcomes.items()):
        searcher.ask(number)
        searcher.tell(number, found)
        trial = told(searcher)[number]
        state, value, violation = expected[row]
        assert (trial.state, trial.value) == (state, value), row
        assert trial.constraints == ({} if violation is None else {"violation": violation}), row
        if violation is not None:
            assert math.isfinite(violation)


def test_a_configuration_that_was_turned_down_has_a_violation_and_no_value() -> None:
    searcher = made()
    searcher.ask(1)
    searcher.tell(1, Outcome(None, 0.75))
    trial = told(searcher)[0]
    assert (trial.state, trial.constraints) == (TrialState.PRUNED, {"violation": 0.75})


def test_a_study_tells_the_same(study: Path) -> None:
    searcher = made(space=Space({"x": acetune.uniform(0, 1)}))
    table = [[(5.0, 3.0), (4.0, 2.5)], [(3.0, 1.0), (2.0, 9.0)], [(8.0, 1.0)]]
    tune(
        by_hand(table),
        study,
        max_trials=3,
        searcher=searcher,
        space={"x": acetune.uniform(0, 1)},
        constraints=[Constraint("g", upper=2, check=g_of)],
        policy=ACE(0, interval=1),
    )
    found = [(trial.value, trial.constraints["violation"]) for trial in told(searcher)]
    assert found == [(4.0, 0.25), (3.0, 0.0), (8.0, 0.0)]


# -- resuming ------------------------------------------------------------------------------------


def test_added_trials_look_as_if_they_had_been_told() -> None:
    live, resumed = made("random"), made("random")
    outcomes = [
        Outcome(1.0, 0.0),
        Outcome(2.0, 0.5),
        Outcome(None, 0.75),
        Outcome(None, 1.0, failed=True),
    ]
    for number, found in enumerate(outcomes):
        params = SPACE.complete(live.ask(number))
        live.tell(number, found)
        resumed.add(number, params, found)
    for one, other in zip(told(live), told(resumed), strict=True):
        assert (one.state, one.params, one.constraints, one.distributions) == (
            other.state,
            other.params,
            other.constraints,
            other.distributions,
        )
        assert one.values == other.values


def test_a_trial_that_is_trained_again_is_told_later() -> None:
    searcher = made(points=[{"x": 0.5}])
    params = {"x": 0.25, "rate": 0.1, "n": 3, "m": 7, "kind": None, "fixed": 5}
    searcher.add(1, params, None)
    assert searcher.ask(2)["x"] == 0.5  # the point still waits
    searcher.tell(1, Outcome(3.0, 0.0))
    trial = told(searcher)[0]
    assert (trial.state, trial.value) == (TrialState.COMPLETE, 3.0)
    assert trial.params == {name: params[name] for name in SPACE.names}


def test_points_of_an_earlier_session_are_not_tried_again() -> None:
    searcher = made(points=[{"x": 0.25}, {"x": 0.5, "n": 2}])
    rest = {"rate": 0.1, "m": 7, "kind": None, "fixed": 5}
    searcher.add(1, {"x": 0.25, "n": 1, **rest}, Outcome(1.0, 0.0))
    searcher.add(2, {"x": 0.5, "n": 3, **rest}, Outcome(1.0, 0.0))  # not quite that point
    second = searcher.ask(3)
    assert (second["x"], second["n"]) == (0.5, 2)
    assert searcher.ask(4)["x"] not in (0.25, 0.5)


# -- what it is good for -------------------------------------------------------------------------

LINE = Space({"x": acetune.uniform(0.0, 1.0)})  # x >= 0.5 qualifies


def feasible_of_the_last_30(
    seed: int, loss: Callable[[float], float], told: bool, resumed: bool = False
) -> int:
    def result(x: float) -> Outcome:
        return Outcome(loss(x), max(0.0, 0.5 - x) if told else 0.0)

    searcher = made("tpe", seed, space=LINE)
    xs: list[float] = []
    for number in range(1, 81):
        if resumed and number == 41:
            searcher = made("tpe", seed + 1000, space=LINE)
            for earlier, x in enumerate(xs, 1):
                searcher.add(earlier, {"x": x}, result(x))
        xs.append(searcher.ask(number)["x"])
        searcher.tell(number, result(xs[-1]))
    return sum(x >= 0.5 for x in xs[50:])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("resumed", [False, True])
def test_tpe_goes_where_models_qualify(seed: int, resumed: bool) -> None:
    """The loss has its lowest basin where nothing qualifies, and a second one where all does."""

    def loss(x: float) -> float:
        return min((x - 0.1) ** 2, (x - 0.8) ** 2 + 0.05)

    assert feasible_of_the_last_30(seed, loss, told=True, resumed=resumed) >= 25
    assert feasible_of_the_last_30(seed, loss, told=False, resumed=resumed) <= 5


@pytest.mark.parametrize("seed", range(3))
def test_where_the_limit_binds_tpe_stays_near_it(seed: int) -> None:
    """The best feasible point lies on the limit itself, so about every second suggestion misses."""
    told = feasible_of_the_last_30(seed, lambda x: x, told=True)
    untold = feasible_of_the_last_30(seed, lambda x: x, told=False)
    assert told >= untold + 10
