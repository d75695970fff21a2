"""What Optuna is told of trials, and that it makes use of it."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState, create_trial

import acetune
from acetune import ACE, Constraint, Stopper
from acetune.core.errors import GoalError
from acetune.core.outcome import Outcome, outcome
from acetune.searchers.optuna_samplers import OptunaSearcher, distributions
from acetune.searchers.space import Space
from run.helpers import by_hand, g_of, tune
from searchers.helpers import SPACE, SQUARE, far_from, made, suggestions


def in_optuna(name: str = "tpe", seed: int | None = 0, **options: Any) -> OptunaSearcher:
    searcher = made(name, seed, **options)
    assert isinstance(searcher, OptunaSearcher)
    return searcher


def told(searcher: OptunaSearcher) -> list[FrozenTrial]:
    """The trials as Optuna has them."""
    return searcher._study.get_trials(deepcopy=False)


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
    stopper, searcher = stopper_with_misses(), in_optuna()
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
    searcher = in_optuna()
    searcher.ask(1)
    searcher.tell(1, Outcome(None, 0.75))
    trial = told(searcher)[0]
    assert (trial.state, trial.constraints) == (TrialState.PRUNED, {"violation": 0.75})


def test_a_study_tells_the_same(study: Path) -> None:
    searcher = in_optuna(space=Space({"x": acetune.uniform(0, 1)}))
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
    live, resumed = in_optuna("random"), in_optuna("random")
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
    searcher = in_optuna(points=[{"x": 0.5}])
    params = {"x": 0.25, "rate": 0.1, "n": 3, "m": 7, "kind": None, "fixed": 5}
    searcher.add(1, params, None)
    assert searcher.ask(2)["x"] == 0.5  # the point still waits
    searcher.tell(1, Outcome(3.0, 0.0))
    trial = told(searcher)[0]
    assert (trial.state, trial.value) == (TrialState.COMPLETE, 3.0)
    assert trial.params == {name: params[name] for name in SPACE.names}


# -- another configuration was run ---------------------------------------------------------------


def test_the_suggestion_ends_as_failed_and_what_was_run_is_added() -> None:
    searcher = in_optuna(space=SQUARE)
    run = {"x": 0.25, "y": 1.0}
    outcomes = [Outcome(3.0, 0.5), Outcome(None, 0.75), Outcome(None, 1.0, failed=True)]
    for number, found in enumerate(outcomes):
        searcher.ask(number)
        searcher.tell(number, found, run)
    states = [TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL]
    for suggested, added, state in zip(
        told(searcher)[::2], told(searcher)[1::2], states, strict=True
    ):
        assert suggested.state == TrialState.FAIL and suggested.params != run
        assert added.state == state and added.params == run
    assert told(searcher)[1].value == 3.0
    assert told(searcher)[1].constraints == {"violation": 0.5}


# -- what it is good for -------------------------------------------------------------------------

LINE = Space({"x": acetune.uniform(0.0, 1.0)})  # x >= 0.5 qualifies


def feasible_of_the_last_30(
    seed: int, loss: Callable[[float], float], told: bool, resumed: bool = False
) -> int:
    def result(x: float) -> Outcome:
        return Outcome(loss(x), max(0.0, 0.5 - x) if told else 0.0)

    searcher = in_optuna("tpe", seed, space=LINE)
    xs: list[float] = []
    for number in range(1, 81):
        if resumed and number == 41:
            searcher = in_optuna("tpe", seed + 1000, space=LINE)
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


# -- the Gaussian process ------------------------------------------------------------------------


def test_a_process_that_is_not_told_of_failures_fails_for_ever() -> None:
    """Plain Optuna: nothing has changed, so the same is suggested again."""
    ours = in_optuna("gp", space=SQUARE)
    plain = optuna.create_study(sampler=copy.deepcopy(ours._study.sampler))
    chance = random.Random(0)
    for number in range(12):
        params = {"x": chance.random(), "y": chance.random()}
        found = far_from(0.0, 0.0)(params)
        ours.add(number, params, found)
        plain.add_trial(
            create_trial(
                value=found.loss,
                params=params,
                distributions=distributions(SQUARE),
                constraints={"violation": 0.0},
            )
        )
    repeated = []
    for _ in range(2):
        trial = plain.ask(distributions(SQUARE))
        repeated.append(trial.params)
        plain.tell(trial, state=TrialState.FAIL)
    assert repeated[0] == repeated[1]

    failed = Outcome(None, 1.0, failed=True)
    found_by_us = suggestions(ours, range(20, 22), lambda _: failed)
    assert found_by_us[0] == repeated[0] != found_by_us[1]


def test_a_process_is_told_the_worst_loss_where_there_is_none() -> None:
    searcher = in_optuna("gp", space=SQUARE)
    outcomes = [
        Outcome(None, 1.0, failed=True),  # nothing is known yet
        Outcome(2.0, 0.0),
        Outcome(5.0, 0.5),
        Outcome(None, 1.5, failed=True),
        Outcome(None, 0.25),
    ]
    for number, found in enumerate(outcomes):
        searcher.ask(number)
        searcher.tell(number, found)
    assert [trial.value for trial in told(searcher)] == [None, 2.0, 5.0, 5.0, 5.0]
    assert [trial.constraints.get("violation") for trial in told(searcher)] == [
        None,
        0.0,
        0.5,
        1.5,
        0.25,
    ]


# -- CMA-ES --------------------------------------------------------------------------------------


def test_cmaes_is_told_the_objective_alone() -> None:
    """It would warn of a constraint; and draws options at random, with no word of warning."""
    searcher = in_optuna("cmaes")
    suggestions(searcher, range(20), lambda params: Outcome(params["x"], 0.5))
    assert all(trial.constraints == {} for trial in told(searcher))
    plain = optuna.create_study(sampler=optuna.samplers.CmaEsSampler(seed=0))
    trial = plain.ask(distributions(SQUARE))
    trial.set_constraint("violation", 0.5)
    with pytest.warns(UserWarning, match="will not use them"):
        plain.tell(trial, 1.0)


def generations(trials: Sequence[FrozenTrial]) -> set[int]:
    """Those of CMA-ES to which trials with a value belong."""
    complete = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    return {
        t.system_attrs["cma:generation"] for t in complete if "cma:generation" in t.system_attrs
    }


def test_cmaes_learns_from_trials_that_it_did_not_suggest() -> None:
    """Plain Optuna passes them over: those added and those that were given in full."""
    chance = random.Random(0)
    points = [{"x": chance.random(), "y": chance.random()} for _ in range(30)]
    best = far_from(0.5, 0.5)

    plain = optuna.create_study(sampler=optuna.samplers.CmaEsSampler(seed=0))
    for point in points[:15]:
        plain.add_trial(
            create_trial(value=best(point).loss, params=point, distributions=distributions(SQUARE))
        )
    for point in points[15:]:
        plain.enqueue_trial(point)
        trial = plain.ask(distributions(SQUARE))
        plain.tell(trial, best(point).loss)
    assert generations(plain.trials) == set()

    ours = in_optuna("cmaes", space=SQUARE, points=points[15:])
    for number, point in enumerate(points[:15]):
        ours.add(number, point, best(point))
    assert suggestions(ours, range(20, 35), best) == points[15:]
    assert generations(told(ours)) == {0, 1, 2, 3, 4}  # of six trials each, without the first


def test_an_unknown_sampler_is_named() -> None:
    with pytest.raises(GoalError, match="random, tpe, gp, cmaes, got 'tpa'"):
        OptunaSearcher(SPACE, "tpa")  # type: ignore[arg-type]
