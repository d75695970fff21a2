"""The sampler that learns from every report."""

from __future__ import annotations

import math
import multiprocessing
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import BaseSampler, RandomSampler
from optuna.storages import BaseStorage
from optuna.trial import TrialState, create_trial

import acetune.optuna
from acetune import ACE, ACE2
from acetune.core.errors import GoalError
from acetune.core.outcome import StudyCurves
from acetune.optuna import AcePruner, AceSampler
from acetune.optuna._study_curves import OptunaCurves, ParameterSpace
from optuna_pruner.kit import LIMIT, NEVER, begun, made, objective, play, told
from optuna_pruner.worker import opened, pruner, sample

# -- parameters ----------------------------------------------------------------------------------

EVERY_STEP = ACE(interval=1)  # what is checked does not depend on the clock
EVERY: dict[str, BaseDistribution] = {
    "float": FloatDistribution(-1.0, 2.0),
    "log": FloatDistribution(1e-5, 1e3, log=True),
    "step": FloatDistribution(0.1, 1.0, step=0.3),
    "int": IntDistribution(-3, 5),
    "log int": IntDistribution(1, 1000, log=True),
    "int step": IntDistribution(2, 11, step=3),
    "choice": CategoricalDistribution([None, True, 1.5, "a", "b", 2]),
    "two": CategoricalDistribution((False, True)),
}


def test_every_kind_of_parameter_comes_back() -> None:
    space = ParameterSpace(EVERY)
    rng = np.random.default_rng(0)
    seen: dict[str, set[Any]] = {name: set() for name in EVERY}
    for _ in range(300):
        suggested = space.space.at(rng.random(len(EVERY)).tolist())
        params = space.decode(suggested)
        for name, value in params.items():
            assert EVERY[name]._contains(EVERY[name].to_internal_repr(value)), (name, value)
            seen[name].add((type(value), value))
        trial = create_trial(params=params, distributions=EVERY, value=0.0)
        assert space.encode(trial) == pytest.approx(suggested)
    assert [len(seen[name]) for name in ("step", "int", "int step", "choice", "two")] == [
        4,
        9,
        4,
        6,
        2,
    ]
    assert {kind for kind, _ in seen["int step"] | seen["int"] | seen["log int"]} == {int}


def mixed(trial: optuna.Trial) -> float:
    """One of each, the better the higher."""
    a = trial.suggest_float("float", -1.0, 2.0)
    b = trial.suggest_float("log", 1e-5, 1e3, log=True)
    c = trial.suggest_float("step", 0.1, 1.0, step=0.3)
    d = trial.suggest_int("int", -3, 5)
    e = trial.suggest_int("int step", 2, 11, step=3)
    f = trial.suggest_categorical("choice", [None, True, "a", "b"])
    trial.suggest_categorical("the only", [4])
    trial.suggest_float("one", 3.0, 3.0)
    return a + math.log10(b) / 3 + c + d / 5 + e / 11 + 2 * (f == "a")


def test_a_study_without_anything_of_acetune(storage: BaseStorage) -> None:
    study = optuna.create_study(storage=storage, sampler=AceSampler(seed=3), direction="maximize")
    study.optimize(mixed, n_trials=60)
    values = [trial.value for trial in study.trials]
    assert np.median(values[30:]) > np.median(values[:12]) + 1.0
    assert [t.params["choice"] for t in study.trials[30:]].count("a") > 20


def plain_objective(trial: optuna.Trial) -> float:
    """Reports and prunes as Optuna's own documentation does; steps begin at 0."""
    x = trial.suggest_float("x", 0.0, 1.0)
    for step in range(5):
        trial.report(abs(x - 0.3) + 1 / (1 + step), step)
        if trial.should_prune():
            raise optuna.TrialPruned
    return abs(x - 0.3)


def nested(trial: optuna.Trial) -> float:
    """Nets with two layers, the second of them at 0.7, are best."""
    kind = trial.suggest_categorical("kind", ["line", "net", "tree"])
    ace = acetune.optuna.trial(trial, total_steps=4)
    if kind == "line":
        value = 1.0
    elif kind == "tree":
        value = 1.0 - trial.suggest_int("depth", 1, 9) / 20
    else:
        layers = trial.suggest_int("layers", 1, 3)
        units = [trial.suggest_float(f"units {i}", 0.0, 1.0) for i in range(layers)]
        value = 0.8 if layers < 2 else abs(units[1] - 0.7) + (layers > 2)
    for step in ace.steps():
        ace.report(value + 1 / step, constraints={"g": 0.1})
    return ace.finish()


# -- what follows from what ----------------------------------------------------------------------


def params_of(study: optuna.Study) -> list[dict[str, Any]]:
    return [trial.params for trial in study.get_trials(deepcopy=False)]


@pytest.mark.parametrize("objective", [objective, plain_objective, nested])
def test_a_study_that_goes_on_is_as_if_nothing_had_happened(objective: Any) -> None:
    """Another process would read the same: what is sampled follows from the storage."""
    limits = () if objective is plain_objective else (LIMIT,)
    whole = made(EVERY_STEP, limits, sampler=AceSampler(seed=5))
    whole.optimize(objective, n_trials=40)
    assert {trial.state for trial in whole.trials} == {TrialState.COMPLETE, TrialState.PRUNED}
    in_parts = made(EVERY_STEP, limits)
    for _ in range(8):
        again = optuna.load_study(
            study_name=in_parts.study_name,
            storage=in_parts._storage,
            sampler=AceSampler(seed=5),
            pruner=AcePruner(limits, EVERY_STEP, for_dashboard=False),
        )
        again.optimize(objective, n_trials=5)
    assert params_of(in_parts) == params_of(whole)
    other = made(EVERY_STEP, limits, sampler=AceSampler(seed=6))
    other.optimize(objective, n_trials=2)
    assert params_of(other) != params_of(whole)[:2]


def test_the_same_seed_in_two_workers_gives_no_suggestion_twice() -> None:
    study = made(sampler=AceSampler(seed=5), policy=NEVER)
    study.optimize(objective, n_trials=15)
    trials = []
    for _ in range(6):  # all at once
        trials.append(study.ask())
        study.sampler.reseed_rng()
        trials[-1].suggest_float("x", 0.0, 1.0)
        trials[-1].suggest_float("new", 0.0, 1.0)  # no trial has had it
    assert len({trial.params["x"] for trial in trials}) == 6
    assert len({trial.params["new"] for trial in trials}) == 6
    study.optimize(objective, n_trials=6, n_jobs=2)
    xs = [params["x"] for params in params_of(study)]
    assert len(set(xs)) == len(xs) == 27


def test_it_can_be_pickled_and_shown() -> None:
    sampler = AceSampler(seed=4)
    study = made(EVERY_STEP, sampler=sampler)
    study.optimize(objective, n_trials=14)
    copy = pickle.loads(pickle.dumps(sampler))
    assert repr(copy) == repr(sampler) == "AceSampler(seed=4)"
    before, after = (
        made_again.sample_relative(study, study.trials[-1], {"x": FloatDistribution(0.0, 1.0)})
        for made_again in (sampler, copy)
    )
    assert before == after
    assert AceSampler().seed != AceSampler().seed


def test_one_sampler_may_serve_several_studies() -> None:
    sampler = AceSampler(seed=4)
    studies = [made(EVERY_STEP, sampler=sampler) for _ in range(2)]
    for _ in range(16):
        for study in studies:
            study.optimize(objective, n_trials=1)
    alone = made(EVERY_STEP, sampler=AceSampler(seed=4))
    alone.optimize(objective, n_trials=16)
    assert params_of(studies[0]) == params_of(studies[1]) == params_of(alone)


def test_a_study_that_was_deleted_and_made_again(tmp_path: Path) -> None:
    sampler, storage = AceSampler(seed=4), opened("journal", str(tmp_path / "log"))
    for _ in range(2):
        study = made(EVERY_STEP, sampler=sampler, storage=storage, study_name="s")
        study.optimize(objective, n_trials=20)
        found = params_of(study)
        optuna.delete_study(study_name="s", storage=storage)
    alone = made(EVERY_STEP, sampler=AceSampler(seed=4))
    alone.optimize(objective, n_trials=20)
    assert found == params_of(alone)


# -- what it learns from -------------------------------------------------------------------------


def curves_of(study: optuna.Study) -> OptunaCurves:
    return OptunaCurves(study, study.get_trials(), lambda trial: trial.params)


def test_it_sees_the_curves_that_the_pruner_decides_on() -> None:
    study = made(ACE2())
    study.optimize(objective, n_trials=25)
    running = begun(study, 8)
    running.report(0.3, constraints={"g": 0.1})
    assert isinstance(study.pruner, AcePruner)
    digest = study.pruner.digest(study)
    numbers = {trial.number: trial.params for trial in study.trials}
    expected = StudyCurves(digest.history, lambda number: numbers[number])
    found = curves_of(study)
    assert found.reports == expected.reports
    assert list(found.first(found.reports + 1)) == list(expected.first(expected.reports + 1))
    assert any(curve.checks for curve in found.first(99))
    assert not list(found.first(found.reports))[-1].ended


def test_the_first_reports_are_those_of_the_first_trials() -> None:
    study = made(NEVER)
    for first in (0.1, 0.9, 0.4):
        play(study, [first, first - 0.1, first - 0.2], [0.4, 0.6, 0.7])
    found = curves_of(study)
    assert found.reports == 9
    two = list(found.first(5))
    assert [curve.losses.tolist() for curve in two] == [pytest.approx([0.1, 0.0, -0.1]), [0.9, 0.8]]
    assert [curve.ended for curve in two] == [True, False]
    assert [[step for step, _ in curve.checks] for curve in two] == [[1, 2, 3], [1, 2]]
    assert two[0].checks[1][1] == pytest.approx((0.2,))


def test_a_check_at_the_end_is_one_too() -> None:
    study = made(ACE2())
    ace = begun(study, 50)
    ace.report(0.7, constraints={"g": 0.4})
    for step in range(2, 5):
        ace.report(0.7 - step / 100, constraints={"g": lambda: 0.3})
    told(study, ace)
    play(study, [0.1, 0.1])
    history = study.pruner.digest(study).history  # type: ignore[attr-defined]
    expected = list(StudyCurves(history, lambda number: {}).first(6))
    found = list(curves_of(study).first(6))
    assert [curve.checks for curve in found] == [curve.checks for curve in expected]


def test_it_works_with_other_pruners(storage: BaseStorage) -> None:
    study = optuna.create_study(
        storage=storage, sampler=AceSampler(seed=1), pruner=optuna.pruners.MedianPruner()
    )
    study.optimize(plain_objective, n_trials=50)
    states = [trial.state for trial in study.trials]
    assert {TrialState.COMPLETE, TrialState.PRUNED} == set(states)
    late = [abs(trial.params["x"] - 0.3) for trial in study.trials[20:]]
    assert np.median(late) < 0.05
    first = next(curves_of(study).first(5))
    assert first.steps.tolist() == [0, 1, 2, 3, 4] and first.ended and first.total_steps is None
    # the value at the end is what Optuna compares by
    assert first.losses[-1] == study.trials[0].value != study.trials[0].intermediate_values[4]


def test_constraints_of_optunas_own_count() -> None:
    def constrained(trial: optuna.Trial) -> float:
        x, y = (trial.suggest_float(name, 0.0, 1.0) for name in "xy")
        trial.set_constraint("b", x + y - 1.0)
        trial.set_constraint("a", -1.0)
        return (x - 0.9) ** 2 + (y - 0.3) ** 2

    study = optuna.create_study(sampler=AceSampler(seed=1))
    study.optimize(constrained, n_trials=70)
    late = study.trials[30:]
    assert np.mean([trial.constraints["b"] <= 0.05 for trial in late]) > 0.6
    assert study.best_value < 0.03  # within the limit 0.02 is the best
    assert next(curves_of(study).first(1)).checks == [(1, (-1.0, study.trials[0].constraints["b"]))]
    with_old = optuna.create_study()
    with warnings.catch_warnings(action="ignore"):
        with_old.add_trial(create_trial(value=1.0, system_attrs={"constraints": [0.5, -1.0]}))
    assert next(curves_of(with_old).first(1)).checks == [(1, (0.5, -1.0))]


def test_odd_trials_do_no_harm() -> None:
    study = made(sampler=AceSampler(seed=0))
    plain = {"x": 0.5}, {"x": FloatDistribution(0.0, 1.0)}
    for state in (TrialState.FAIL, TrialState.PRUNED, TrialState.RUNNING, TrialState.WAITING):
        study.add_trial(create_trial(state=state, params=plain[0], distributions=plain[1]))
    study.add_trial(
        create_trial(
            state=TrialState.PRUNED,
            params=plain[0],
            distributions=plain[1],
            intermediate_values={3: math.nan, 1: math.inf, 2: 1.0},
        )
    )
    assert [curve.losses.tolist() for curve in curves_of(study).first(9)] == [
        [math.inf, 1.0, math.inf]
    ]
    study.enqueue_trial({"x": 0.25})
    study.optimize(objective, n_trials=20)
    assert 0.25 in [trial.params.get("x") for trial in study.trials]

    def fails(trial: optuna.Trial) -> float:
        trial.suggest_float("x", 0.0, 1.0)
        raise ValueError

    study.optimize(fails, n_trials=3, catch=ValueError)
    study.optimize(objective, n_trials=3)


def test_a_retried_trial_takes_the_place_of_the_one_that_failed() -> None:
    study = made()
    params = {"params": {"x": 0.5}, "distributions": {"x": FloatDistribution(0.0, 1.0)}}
    values = {"intermediate_values": {1: 0.5}}
    study.add_trial(create_trial(state=TrialState.FAIL, **params, **values))
    again = {"retry_history": [0], "failed_trial": 0}
    study.add_trial(create_trial(value=0.1, system_attrs=again, **params, **values))
    assert len(list(curves_of(study).first(9))) == 1


def test_several_objectives_are_refused() -> None:
    study = optuna.create_study(directions=["minimize", "maximize"], sampler=AceSampler())
    with pytest.raises(GoalError, match="has 2 objectives; AceSampler takes one"):
        study.ask().suggest_float("x", 0.0, 1.0)
    with pytest.raises(GoalError, match="seed"):
        AceSampler(seed=-1)


# -- parameters that not every trial has ---------------------------------------------------------


def chosen(sampler: BaseSampler, storage: BaseStorage | None = None) -> optuna.Study:
    study = made(EVERY_STEP, sampler=sampler, storage=storage)
    study.optimize(nested, n_trials=70)
    return study


def test_parameters_may_depend_on_others(storage: BaseStorage) -> None:
    study = chosen(AceSampler(seed=0), storage)
    late = [trial.params for trial in study.trials[35:]]
    assert np.mean([p["kind"] == "net" and p["layers"] == 2 for p in late]) > 0.5
    near = [abs(p["units 1"] - 0.7) for p in late if p.get("layers") == 2]
    assert np.median(near) < 0.15
    known = study.sampler.infer_relative_search_space(study, study.trials[-1])
    assert set(known) == {"kind", "depth", "layers", "units 0", "units 1", "units 2"}


def test_bounds_may_depend_on_other_parameters() -> None:
    def moving(trial: optuna.Trial) -> float:
        most = trial.suggest_int("most", 1, 10)
        n = trial.suggest_int("n", 1, most)
        x = trial.suggest_float("x", 0.0, 0.1 * n, step=0.05)
        return float(abs(n - 4) + x)

    study = optuna.create_study(sampler=AceSampler(seed=0))
    with warnings.catch_warnings(action="ignore"):
        study.optimize(moving, n_trials=60)
    for trial in study.trials:
        assert trial.params["n"] <= trial.params["most"]
        assert 0 <= trial.params["x"] <= 0.1 * trial.params["n"] + 1e-9
    assert study.best_value < 0.2


# -- what it is good for -------------------------------------------------------------------------


def test_it_finds_better_checkpoints_than_random_search() -> None:
    """The best x is 0.5, where the limit begins to hold; small ones are better and invalid."""

    def regret(sampler: BaseSampler) -> float:
        study = made(EVERY_STEP, sampler=sampler)
        study.optimize(two, n_trials=40)
        found = acetune.optuna.best(study)
        return math.inf if found is None else found.value

    def two(trial: optuna.Trial) -> float:
        x, y = (trial.suggest_float(name, 0.0, 1.0) for name in "xy")
        ace = acetune.optuna.trial(trial, total_steps=6)
        for step in ace.steps():
            value = (x - 0.2) ** 2 + (y - 0.8) ** 2 + 0.5 / step
            ace.report(value, constraints={"g": lambda: 1.0 - x})
        return ace.finish()

    ours = [regret(AceSampler(seed=seed)) for seed in range(6)]
    chance = [regret(RandomSampler(seed=seed)) for seed in range(6)]
    assert np.median(ours) < np.median(chance)
    assert sum(a < b for a, b in zip(ours, chance, strict=True)) >= 5


# -- several processes ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sqlite", "journal"])
def test_three_processes_share_a_study(kind: str, tmp_path: Path) -> None:
    path = str(tmp_path / "shared")
    storage = opened(kind, path)
    study = optuna.create_study(study_name="s", storage=storage, pruner=pruner())
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        pool.starmap(sample, [(kind, path, 7, 10)] * 3)  # of one seed
    trials = study.get_trials()
    assert len(trials) == 30
    assert {trial.state for trial in trials} <= {TrialState.COMPLETE, TrialState.PRUNED}
    assert len({tuple(trial.params.items()) for trial in trials}) == 30
    assert acetune.optuna.best(study) is not None
    # what a sampler made now would suggest is what one that has seen it all would
    space = {name: FloatDistribution(0, 1) for name in "xy"}
    asked = study.ask()
    one, other = (
        AceSampler(seed=7).sample_relative(study, storage.get_trial(asked._trial_id), space)
        for _ in range(2)
    )
    assert one == other
    if kind == "sqlite":
        storage.remove_session()
        storage.engine.dispose()
