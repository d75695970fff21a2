"""The answer of a study."""

from __future__ import annotations

import warnings

import optuna
import pytest
from optuna.storages import BaseStorage
from optuna.trial import TrialState

import acetune.optuna
from acetune import ACE, Constraint, Estimate
from acetune.core.errors import GoalError
from acetune.optuna import FoundCheckpoint, UncheckedTrialsWarning
from optuna_pruner.kit import NEVER, begun, loaded, made, objective, play, told


def test_nothing_checked_nothing_found() -> None:
    study = made()
    assert acetune.optuna.best(study) is None
    assert acetune.optuna.nearest_miss(study) is None


def test_what_is_no_study_is_refused() -> None:
    for found in (acetune.optuna.best, acetune.optuna.nearest_miss):
        with pytest.raises(GoalError, match=r"a study of Optuna is needed, .* got None"):
            found(None)  # type: ignore[arg-type]
    with pytest.raises(GoalError, match=r"constraints must be a list such as .* got None"):
        acetune.optuna.AcePruner(None)  # type: ignore[arg-type]


def test_the_step_with_what_was_measured(storage: BaseStorage) -> None:
    study = made(NEVER, storage=storage)
    trial = study.ask({"x": optuna.distributions.IntDistribution(3, 3)})
    ace = acetune.optuna.trial(trial, total_steps=3)
    for value, g in ((3.0, 0.0), (2.0, 0.25), (1.0, 0.75)):
        ace.report(value, constraints={"g": lambda g=g: Estimate(g, 0.01)})
    told(study, ace)
    best = FoundCheckpoint(0, 2, 2.0, {"g": Estimate(0.25, 0.01)}, {"x": 3}, 0.0)
    miss = FoundCheckpoint(0, 3, 1.0, {"g": Estimate(0.75, 0.01)}, {"x": 3}, 0.5)
    without = optuna.load_study(study_name=study.study_name, storage=storage)
    for one in (study, loaded(study), without):
        assert acetune.optuna.best(one) == best
        assert acetune.optuna.nearest_miss(one) == miss
        assert acetune.optuna.best(one).status == "unconfirmed"  # nobody looks at fresh data


def test_the_earliest_of_equals() -> None:
    study = made(NEVER)
    for _ in range(2):
        play(study, [1.0, 1.0], [0.0, 0.0])
    found = acetune.optuna.best(study)
    assert found is not None
    assert (found.trial, found.step) == (0, 1)


def test_a_checkpoint_of_a_trial_that_runs_or_failed_counts() -> None:
    study = made(NEVER)
    ace = begun(study, 5)
    ace.report(1.0, constraints={"g": 0.0})
    for _ in range(2):
        found = acetune.optuna.best(study)
        assert found is not None
        assert found.value == 1.0
        if study.trials[0].state is TrialState.RUNNING:
            study.tell(0, state=TrialState.FAIL)


def test_it_agrees_with_optuna_where_all_trials_are_ours() -> None:
    for seed in range(5):
        sampler = optuna.samplers.TPESampler(seed=seed)
        study = made(ACE(), sampler=sampler)
        study.optimize(objective, n_trials=40)
        found = acetune.optuna.best(study)
        assert found is not None
        assert found.value == study.best_trial.value
        assert found.constraints["g"].value <= 0.5
        assert found.params == study.best_trial.params
        assert study.best_trial.constraints["g"] <= 0


def test_without_constraints_any_checkpoint_qualifies() -> None:
    study = made(ACE(truncation=0.0), ())
    ace = begun(study, 2)
    for value in (1.0, 2.0):
        ace.report(value)
    told(study, ace)
    found = acetune.optuna.best(study)
    assert found is not None
    assert (found.step, found.value, found.constraints) == (1, 1.0, {})
    assert acetune.optuna.nearest_miss(study) is None


def test_a_study_of_another_kind_is_named() -> None:
    with pytest.raises(GoalError, match="was not run with acetune"):
        acetune.optuna.best(optuna.create_study())


# -- trials from before --------------------------------------------------------------------------


def with_earlier_trials(count: int) -> optuna.Study:
    earlier = optuna.create_study()
    for value in range(count):
        trial = earlier.ask()
        trial.report(-1.0, 1)
        earlier.tell(trial, value - 10.0)
    return loaded(earlier, made().pruner)


def test_earlier_trials_are_not_called_feasible_and_it_is_said_once() -> None:
    study = with_earlier_trials(2)
    with pytest.warns(UncheckedTrialsWarning, match="2 completed trials without constraints"):
        play(study, [1.0], [0.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trial = play(study, [2.0], [0.9])
        found = acetune.optuna.best(study)
    assert trial.state is TrialState.PRUNED  # the gate is that of the valid one, 1.0
    assert found is not None
    assert (found.trial, found.value) == (2, 1.0)
    assert study.best_trial.number == 0  # Optuna's own view, which the notice is about


def test_they_are_ranked_all_the_same() -> None:
    study = with_earlier_trials(6)
    ace = begun_with_notice(study)
    assert ace.report(1.0, constraints={"g": 0.0}).of in (1, 7)


def begun_with_notice(study: optuna.Study) -> acetune.optuna.OptunaTrial:
    with pytest.warns(UncheckedTrialsWarning):
        return begun(study, 3)


def test_the_notice_comes_with_the_answer_too() -> None:
    study = with_earlier_trials(1)
    with pytest.warns(UncheckedTrialsWarning, match="a completed trial without constraints"):
        assert acetune.optuna.best(study) is None


def test_and_when_a_plain_trial_asks() -> None:
    study = with_earlier_trials(1)
    trial = study.ask()
    trial.report(1.0, 1)
    with pytest.warns(UncheckedTrialsWarning):
        trial.should_prune()


def test_trials_that_carry_constraints_of_their_own_need_no_notice() -> None:
    earlier = optuna.create_study()
    trial = earlier.ask()
    trial.set_constraint("mine", 1.0)
    earlier.tell(trial, 1.0)
    study = loaded(earlier, made().pruner)
    play(study, [1.0], [0.0])
    found = acetune.optuna.best(study)
    assert found is not None
    assert found.trial == 1


def test_limits_of_both_kinds_are_remembered() -> None:
    limits = (Constraint("g", upper=0.5, margin_se=1.0), Constraint("h", lower=2.0, scale=4.0))
    study = made(NEVER, limits)
    ace = begun(study, 1)
    ace.report(1.0, constraints={"g": 0.5, "h": 1.0})
    told(study, ace)
    without = optuna.load_study(study_name=study.study_name, storage=study._storage)
    miss = acetune.optuna.nearest_miss(without)
    assert miss is not None
    assert miss.violation == 0.25
