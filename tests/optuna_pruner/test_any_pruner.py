"""What Optuna asks of any pruner, under every policy."""

from __future__ import annotations

import math

import optuna
import pytest
from optuna.storages import BaseStorage
from optuna.trial import TrialState

from acetune import ACE, ASHA, MedianStopping, TruncationSelection
from acetune.policies import POLICY_NAMES, parse_policy
from optuna_pruner.kit import made

pytestmark = pytest.mark.filterwarnings("ignore::acetune.optuna.UncheckedTrialsWarning")
NAMES = [name for name in POLICY_NAMES if "+after" not in name]
every_policy = pytest.mark.parametrize("name", NAMES)
STRICT = [ACE(truncation=0.5), ASHA(reduction_factor=2), MedianStopping(min_trials=1)]
STRICT += [TruncationSelection(truncation=0.5, every=1, min_steps=1)]
strict_policies = pytest.mark.parametrize("policy", STRICT, ids=lambda p: type(p).__name__)


def finished(study: optuna.Study, values: dict[int, float], state: TrialState) -> None:
    trial = study.ask()
    for step, value in values.items():
        trial.report(value, step)
    study.tell(trial, 1.0 if state is TrialState.COMPLETE else None, state=state)


@every_policy
def test_a_trial_that_reported_nothing_goes_on(name: str) -> None:
    study = made(parse_policy(name))
    assert not study.ask().should_prune()
    finished(study, {1: 1.0}, TrialState.COMPLETE)
    assert not study.ask().should_prune()


@every_policy
@pytest.mark.parametrize("value", [1.0, -1.0, 0.0])
def test_the_only_trial_goes_on(name: str, value: float) -> None:
    trial = made(parse_policy(name)).ask()
    for step in range(1, 8):
        trial.report(value, step)
        assert not trial.should_prune()


@every_policy
@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_the_best_trial_goes_on(name: str, direction: str) -> None:
    study = made(parse_policy(name), direction=direction)
    better = 1.0 if direction == "maximize" else -1.0
    for _ in range(6):
        finished(study, dict.fromkeys(range(1, 9), 0.0), TrialState.COMPLETE)
    trial = study.ask()
    for step in range(1, 9):
        trial.report(better, step)
        assert not trial.should_prune()


@strict_policies
@pytest.mark.parametrize("direction", ["minimize", "maximize"])
@pytest.mark.parametrize("state", [TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL])
def test_the_worst_of_many_stops(policy: ACE, direction: str, state: TrialState) -> None:
    study = made(policy, direction=direction)
    worse = -1.0 if direction == "maximize" else 1.0
    for _ in range(6):
        finished(study, dict.fromkeys(range(1, 9), 0.0), state)
    trial = study.ask()
    trial.report(worse, 4)
    assert trial.should_prune()


@every_policy
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_taken(name: str, value: float) -> None:
    study = made(parse_policy(name))
    for _ in range(5):
        finished(study, {1: value, 4: 0.5}, TrialState.COMPLETE)
    trial = study.ask()
    trial.report(0.0, 1)
    assert not trial.should_prune()  # it is better than what is not finite
    worst = study.ask()
    for step in (1, 4):
        worst.report(value, step)
        assert worst.should_prune() in (True, False)


@strict_policies
def test_a_nan_ranks_last(policy: ACE) -> None:
    study = made(policy)
    for _ in range(6):
        finished(study, {1: 1e300}, TrialState.COMPLETE)
    trial = study.ask()
    trial.report(math.nan, 1)
    assert trial.should_prune()


@every_policy
def test_asking_twice_gives_the_same(name: str) -> None:
    study = made(parse_policy(name))
    for value in (3.0, 1.0, 2.0, 5.0, 4.0, 9.0):
        trial = study.ask()
        for step in (1, 2, 4):
            trial.report(value, step)
            said = [trial.should_prune() for _ in range(3)]
            assert len(set(said)) == 1
        study.tell(trial, value)


@every_policy
def test_steps_may_be_skipped_and_start_anywhere(name: str) -> None:
    study = made(parse_policy(name))
    for steps in ((0, 1, 2), (5,), (1, 10, 100), (0,), (2, 3)):
        trial = study.ask()
        for step in steps:
            trial.report(float(step), step)
            trial.should_prune()
        study.tell(trial, 0.0)


def test_the_best_of_a_trial_that_began_at_step_zero_is_not_forgotten() -> None:
    study = made(MedianStopping(min_trials=1, min_steps=1))
    finished(study, {0: 1.0, 1: 1.0}, TrialState.COMPLETE)
    trial = study.ask()
    trial.report(0.5, 0)
    trial.report(9.0, 1)
    assert not trial.should_prune()  # its best so far is better than the median


def test_only_equal_steps_compare() -> None:
    study = made(ACE(truncation=0.5))
    for step in (1, 3):
        finished(study, {step: 0.0}, TrialState.COMPLETE)
    trial = study.ask()
    trial.report(9.0, 2)
    assert not trial.should_prune()


def test_steps_in_any_order() -> None:
    study = made(ACE(truncation=0.5))
    first = study.ask()
    for step in (5, 1, 3):
        first.report(1.0, step)
        first.should_prune()
    second = study.ask()
    for step in (3, 1):
        second.report(2.0, step)
        assert second.should_prune() == (step == 3 or second.should_prune())
    assert second.should_prune()


def test_a_step_reported_again_is_ignored_as_optuna_does() -> None:
    study = made(ACE(truncation=0.5))
    finished(study, {1: 1.0}, TrialState.COMPLETE)
    trial = study.ask()
    trial.report(0.5, 1)
    with pytest.warns(UserWarning, match="already reported"):
        trial.report(9.0, 1)
    assert not trial.should_prune()


def plain_objective(trial: optuna.Trial) -> float:
    x = trial.suggest_float("x", 0, 1)
    for step in range(5):
        trial.report(x, step)
        if trial.should_prune():
            raise optuna.TrialPruned
    return x


@every_policy
def test_it_runs_a_study(name: str) -> None:
    study = made(parse_policy(name))
    study.optimize(plain_objective, n_trials=20)
    assert any(trial.state is TrialState.COMPLETE for trial in study.trials)


def test_it_runs_a_study_on_any_storage(storage: BaseStorage) -> None:
    study = made(ACE(truncation=0.5), storage=storage)
    study.optimize(plain_objective, n_trials=8)
    states = [trial.state for trial in study.trials]
    assert set(states) <= {TrialState.COMPLETE, TrialState.PRUNED}
    assert states.count(TrialState.COMPLETE) > 0


def test_several_threads_share_a_study() -> None:
    study = made(ACE(truncation=0.5))
    study.optimize(plain_objective, n_trials=40, n_jobs=4)
    assert len(study.trials) == 40
    assert any(trial.state is TrialState.PRUNED for trial in study.trials)


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_an_optuna_pruner_may_wrap_it() -> None:
    inner = made(ACE(truncation=0.5)).pruner
    study = optuna.create_study(pruner=optuna.pruners.PatientPruner(inner, patience=0))
    finished(study, {1: 0.0, 2: 0.0}, TrialState.COMPLETE)
    trial = study.ask()
    trial.report(1.0, 1)
    trial.report(2.0, 2)
    assert trial.should_prune()
