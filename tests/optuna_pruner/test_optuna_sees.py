"""Samplers, plots and tables of Optuna see the constraints."""

from __future__ import annotations

import math

import optuna
import pytest
from optuna.samplers import BaseSampler, GPSampler, NSGAIISampler, TPESampler
from optuna.trial import TrialState

import acetune.optuna
from acetune import ACE, ACE2, Constraint
from acetune.optuna import AcePruner
from optuna_pruner.kit import LIMIT, NEVER, begun, loaded, made, objective, play, told

both_ways = pytest.mark.parametrize("for_dashboard", [True, False], ids=["default", "once"])


@pytest.mark.parametrize(
    ("sampler", "trials"),
    [
        (TPESampler(seed=1), 25),
        (NSGAIISampler(seed=1, population_size=6), 25),
        (GPSampler(seed=1, n_startup_trials=10), 13),
    ],
    ids=["TPE", "NSGA-II", "GP"],
)
@both_ways
@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_samplers_run_and_the_best_trial_is_feasible(
    sampler: BaseSampler, trials: int, for_dashboard: bool
) -> None:
    study = made(ACE(), for_dashboard=for_dashboard, sampler=sampler)
    study.optimize(objective, n_trials=trials)
    best = study.best_trial
    assert best.constraints["g"] <= 0
    twice = for_dashboard and not isinstance(sampler, GPSampler)
    for trial in study.get_trials(states=(TrialState.COMPLETE,)):
        # as samplers want it: the same for all
        assert trial.constraints.keys() == ({"0", "g"} if twice else {"g"})
        assert len(set(trial.constraints.values())) == 1


@both_ways
def test_tpe_sees_the_violations(for_dashboard: bool) -> None:
    study = made(NEVER, for_dashboard=for_dashboard, sampler=TPESampler(seed=1))
    study.optimize(objective, n_trials=20)
    infeasible = [t for t in study.trials if any(v > 0 for v in t.constraints.values())]
    assert infeasible
    assert all(optuna.samplers._tpe.sampler._get_infeasible_trial_score(t) > 0 for t in infeasible)


@both_ways
def test_tpe_searches_where_the_limit_holds(for_dashboard: bool) -> None:
    """Small x is better, and below 0.5 not allowed: without the constraint it would go to 0."""
    study = made(NEVER, for_dashboard=for_dashboard, sampler=TPESampler(seed=1))
    study.optimize(objective, n_trials=60)
    late = [trial.params["x"] for trial in study.trials[-20:]]
    assert 0.4 < sum(late) / len(late) < 0.8


@both_ways
def test_plots_and_tables(for_dashboard: bool) -> None:
    study = made(ACE(), for_dashboard=for_dashboard, sampler=TPESampler(seed=1))
    study.optimize(objective, n_trials=15)
    for plot in ("optimization_history", "intermediate_values", "slice", "timeline", "edf"):
        assert getattr(optuna.visualization, f"plot_{plot}")(study) is not None
    table = study.trials_dataframe()
    assert len(table) == 15
    history = optuna.visualization.plot_optimization_history(study)
    names = {trace.name for trace in history.data}
    infeasible = [
        t for t in study.trials if t.state is TrialState.COMPLETE and t.constraints["g"] > 0
    ]
    assert ("Infeasible Trial" in names) == bool(infeasible)


@both_ways
def test_an_infeasible_trial_is_shown_as_one(for_dashboard: bool) -> None:
    study = made(NEVER, for_dashboard=for_dashboard)
    play(study, [2.0], [0.0])
    play(study, [1.0], [1.0])
    history = optuna.visualization.plot_optimization_history(study)
    shown = {trace.name: list(trace.y) for trace in history.data if trace.y is not None}
    assert shown["Infeasible Trial"] == [1.0]
    best = next(list(trace.y) for trace in history.data if trace.name == "Best Value")
    assert [value for value in best if not math.isnan(value)][-1] == 2.0


def test_the_dashboard_is_given_the_list_that_it_reads() -> None:
    study = optuna.create_study(pruner=AcePruner([LIMIT], NEVER), sampler=TPESampler(seed=1))
    play(study, [2.0], [0.25])
    trial = play(study, [1.0], [1.0])
    assert trial.system_attrs["constraints"] == [1.0]
    assert trial.constraints == {"0": 1.0, "g": 1.0}
    assert study.best_trial.number == 0


def test_a_gaussian_process_sees_each_constraint_once() -> None:
    sampler = optuna.samplers.GPSampler(seed=1)
    study = optuna.create_study(pruner=AcePruner([LIMIT], NEVER), sampler=sampler)
    assert play(study, [1.0], [1.0]).constraints == {"g": 1.0}


def test_several_constraints_one_by_one() -> None:
    """What was left out is told to samplers as violated by its whole limit."""
    limits = (Constraint("dear", upper=0.5), Constraint("cheap", upper=0.32))
    policy = ACE2(truncation=0.0, invalid_truncation=0.0, spacing=0.0, patience=1.0, defer=False)
    study = made(policy, limits)
    called = []
    for x in (0.9, 0.8, 0.2, 0.64):
        ace = begun(study, 2)
        for _ in ace.steps():
            checks = {
                "dear": lambda x=x: called.append(("dear", x)) or 0.25,
                "cheap": lambda x=x: called.append(("cheap", x)) or x,
            }
            costs = {"dear": 5.0, "cheap": 0.1}
            ace.report(-x, constraints=checks, primary_cost_s=1.0, constraint_cost_s=costs)
        told(study, ace)
    assert called[:4] == [("dear", 0.9), ("cheap", 0.9)] * 2  # before anything was timed
    assert called[4:6] == [("cheap", 0.8)] * 2
    assert called[6:10] == [("cheap", 0.2), ("dear", 0.2)] * 2
    assert called[10:] == [("cheap", 0.64)] * 2
    last = study.trials[-1]
    assert last.constraints == {"dear": 1.0, "cheap": pytest.approx(1.0)}
    assert study.best_trial.number == 2
    found = acetune.optuna.nearest_miss(study)
    assert found is not None and (found.trial, found.violation) == (3, pytest.approx(1.0))
    assert loaded(study).best_trial.number == 2
