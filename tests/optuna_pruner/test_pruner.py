"""The pruner as an object: its options, copies of it, and the studies it refuses."""

from __future__ import annotations

import copy
import os
import pickle
from typing import Any

import cloudpickle
import optuna
import pytest

import acetune.optuna
from acetune import ACE, ASHA, Constraint, NoStopping
from acetune.core.errors import GoalError, StudyChangedError
from acetune.optuna import AcePruner
from acetune.policies import POLICY_NAMES, parse_policy
from optuna_pruner.kit import LIMIT, begun, loaded, made, play


def test_exactly_these_names_are_public() -> None:
    assert sorted(acetune.optuna.__all__) == [
        "AcePruner",
        "AceSampler",
        "FoundCheckpoint",
        "OptunaTrial",
        "UncheckedTrialsWarning",
        "best",
        "nearest_miss",
        "trial",
    ]
    assert all(hasattr(acetune.optuna, name) for name in acetune.optuna.__all__)


@pytest.mark.parametrize("name", [name for name in POLICY_NAMES if "+after" in name])
def test_policies_that_check_after_the_run_are_refused(name: str) -> None:
    with pytest.raises(GoalError, match=r"after the run.*constraints='callback'"):
        AcePruner([LIMIT], parse_policy(name))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"constraints": ["g <= 0.5"]}, "must be Constraint objects, got 'g <= 0.5'"),
        ({"constraints": LIMIT}, "constraints must be a list, got Constraint"),
        ({"constraints": [LIMIT, LIMIT]}, "'g' is used twice"),
        ({"constraints": [LIMIT], "objective": "g"}, "'g' is used twice"),
        ({"constraints": [Constraint("g", upper=1.0, timeout_s=3.0)]}, "timeout_s=3.0"),
        ({"policy": 7}, "policy must be a policy or its name, got 7"),
        ({"policy": "acee"}, "unknown policy 'acee'"),
        ({"confirm_top": 0}, "confirm_top must be a whole number >= 1, got 0"),
        ({"confirm_top": True}, "confirm_top must be a whole number >= 1, got True"),
        ({"objective": ""}, "must be the name of a metric, got ''"),
    ],
)
def test_options_that_make_no_sense_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(GoalError, match=message):
        AcePruner(**options)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, None, cloudpickle])
def test_a_copy_is_the_same_and_has_read_nothing(again: Any) -> None:
    study = made(ACE(truncation=0.5))
    play(study, [1.0, 2.0])
    assert isinstance(study.pruner, AcePruner)
    if again in (None, cloudpickle):
        same = pickle.loads((again or pickle).dumps(study.pruner))
    else:
        same = again(study.pruner)
    assert repr(same) == repr(study.pruner)
    assert same.constraints == study.pruner.constraints
    assert len(same._digests) == 0
    trial = study.ask()
    trial.report(9.0, 1)
    assert same.prune(loaded(study, same), study.trials[-1]) == trial.should_prune()


def test_a_whole_study_can_be_pickled() -> None:
    study = made(ACE(truncation=0.5))
    play(study, [1.0, 2.0])
    same = pickle.loads(pickle.dumps(study))
    assert play(same, [3.0, 4.0]).number == 1


def test_a_forked_process_reads_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    study = made()
    assert isinstance(study.pruner, AcePruner)
    mine = study.pruner.digest(study)
    assert study.pruner.digest(study) is mine
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert study.pruner.digest(study) is not mine


def test_several_objectives_are_refused() -> None:
    study = optuna.create_study(directions=["minimize", "maximize"], pruner=AcePruner([LIMIT]))
    with pytest.raises(GoalError, match=r"has 2 objectives.*constraints"):
        acetune.optuna.trial(study.ask(), total_steps=3)


def test_other_limits_than_the_study_began_with_are_refused() -> None:
    study = made()
    play(study, [1.0])
    for limits in ([Constraint("g", upper=0.6)], [], [LIMIT, Constraint("h", lower=1.0)]):
        other = loaded(study, AcePruner(limits))
        with pytest.raises(StudyChangedError, match=r"began with the constraints g <= 0\.5, now"):
            begun(other)
        trial = other.ask()
        trial.report(1.0, 1)
        with pytest.raises(StudyChangedError):
            trial.should_prune()
        with pytest.raises(StudyChangedError):
            acetune.optuna.best(other)


def test_another_policy_or_check_may_go_on_with_a_study() -> None:
    study = made()
    play(study, [1.0], [0.0])
    limit = Constraint("g", upper=0.5, check=lambda model: model)
    other = loaded(study, AcePruner([limit], NoStopping()))
    ace = begun(other, 1)
    ace.report(0.5, model=0.25)
    assert ace.finish() == 0.5


def test_the_first_of_two_processes_settles_the_limits() -> None:
    study = made()
    other = loaded(study, AcePruner([Constraint("g", upper=0.6)], ASHA()))
    trial = other.ask()
    trial.report(1.0, 1)
    trial.should_prune()  # it has read the study before there were limits
    begun(study)
    with pytest.raises(StudyChangedError):
        begun(other)
