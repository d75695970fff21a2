"""What the pruner says depends on what the storage holds, and on nothing else."""

from __future__ import annotations

import math
import pickle
import random
import warnings
from typing import Any

import optuna
import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

import acetune.optuna
from acetune import ACE, Adaptive
from acetune.optuna import AcePruner, OptunaTrial
from acetune.optuna._study_access import StudyAccess
from acetune.policies import POLICY_NAMES, parse_policy
from optuna_pruner.kit import LIMIT, NEVER, begun, loaded, made, play, told
from optuna_pruner.plain import should_stop
from properties import examples

VALUES = st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0, math.nan, math.inf])
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)  # shrinking these events takes minutes
KINDS = (
    "begin ask open declare report report report plain plain finish complete fail enqueue retry \
resume"
)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(KINDS.split()),
        st.integers(0, 3),  # which of the running trials
        st.integers(0, 3),  # how many steps further; back, for plain ones, if 0
        VALUES,
        st.sampled_from([0.0, 0.5, 0.75, 1.0]),  # what a check gives
    ),
    min_size=5,
    max_size=40,
)


class Play:
    """A study whose trials do all that Optuna's trials may do."""

    def __init__(self, policy: Any, storage: BaseStorage | None = None) -> None:
        self.study = made(policy, storage=storage)
        self.running: dict[int, tuple[optuna.Trial, OptunaTrial | None]] = {}
        for _ in range(3):
            self.do("begin", 0, 1, 0.5, 0.0)

    def do(self, what: str, which: int, further: int, value: float, g: float) -> None:
        """One event; one that makes no sense now is passed over."""
        if what in ("begin", "ask"):
            trial = self.study.ask()
            ace = None
            if what == "begin":
                ace = acetune.optuna.trial(trial, total_steps=6)
            self.running[trial.number] = trial, ace
        elif what == "enqueue":
            self.study.enqueue_trial({})
        elif fitting := sorted(number for number in self.running if self.fits(number, what)):
            self.act(fitting[which % len(fitting)], what, further, value, g)

    def fits(self, number: int, what: str) -> bool:
        """Whether a running trial may do this at all."""
        ace = self.running[number][1]
        if what in ("open", "plain", "complete"):
            return ace is None
        if what == "declare":
            return ace is not None and ace._progress.total_steps is None
        return ace is not None or what not in ("report", "finish")

    def act(self, number: int, what: str, further: int, value: float, g: float) -> None:
        trial, ace = self.running[number]
        last = self.frozen(number).last_step
        step = (-1 if last is None else last) + further
        if what == "plain" and step >= 0:
            if step not in self.frozen(number).intermediate_values:
                trial.report(value, step)
        elif what == "open":  # without a last step
            ace = acetune.optuna.trial(trial, None)
            ace.declare(None)
            self.running[number] = trial, ace
        elif what == "declare" and ace is not None:
            ace.declare(max(last or 0, 6))
        elif what == "report" and ace is not None and not ace.should_stop:
            step = max(step, (last or 0) + 1)
            if step <= 6:
                ace.report(value, step=step, constraints={"g": g})
        elif what in ("retry", "resume", "fail"):
            del self.running[number]
            failed = self.study.tell(number, state=TrialState.FAIL)
            if what != "fail":
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    retry = optuna.storages.RetryFailedTrialCallback(
                        inherit_intermediate_values=what == "resume"
                    )
                    retry(self.study, failed)
        elif what == "complete":
            del self.running[number]
            self.study.tell(number, 1.0)
        elif what == "finish" and ace is not None and last:
            del self.running[number]
            try:
                value = ace.finish()
                state = TrialState.FAIL if math.isnan(value) else TrialState.COMPLETE
            except optuna.TrialPruned:
                state = TrialState.PRUNED
            self.study.tell(number, value if state is TrialState.COMPLETE else None, state=state)

    def frozen(self, number: int) -> FrozenTrial:
        return self.study.get_trials(deepcopy=False)[number]


def asked_anew(study: optuna.Study, trial: FrozenTrial) -> bool:
    """A pruner that has seen nothing before."""
    pruner = pickle.loads(pickle.dumps(study.pruner))
    return pruner.prune(loaded(study, pruner), trial)


def known(study: optuna.Study, pruner: Any) -> Any:
    """What a pruner that was just asked knows of trials: how they are checked, who has ended."""
    digest = pruner.digest(study)
    plans = {
        number: (trial.progress.total_steps, trial.progress.interval, trial.cost_ratio)
        for number, trial in digest.history.trials.items()
    }
    return plans, digest.history.gate, [trial.id for trial in digest.history.finished]


def require_same_knowledge(study: optuna.Study) -> None:
    """A pruner that has seen nothing before knows the same."""
    anew = pickle.loads(pickle.dumps(study.pruner))
    for pruner in (study.pruner, anew):
        pruner.digest(study).refresh(StudyAccess(study))
    assert known(study, study.pruner) == known(study, anew)


@pytest.mark.filterwarnings("ignore::acetune.optuna.UncheckedTrialsWarning")
@examples(60, phases=PHASES)
@given(events=EVENTS, truncation=st.sampled_from([0.25, 0.5]), gate=st.booleans())
def test_the_same_as_anew_and_as_a_plain_second_writing(
    events: list[Any], truncation: float, gate: bool
) -> None:
    play = Play(ACE(truncation=truncation, interval=1, gate=gate))
    for event in events:
        play.do(*event)
        for number in play.running:
            trial = play.frozen(number)
            said = play.study.pruner.prune(play.study, trial)
            assert said == should_stop(play.study, number, truncation, limit=0.5)
            assert said == asked_anew(play.study, trial)
            assert said == play.study.pruner.prune(play.study, trial)
        require_same_knowledge(play.study)


@pytest.mark.filterwarnings("ignore::acetune.optuna.UncheckedTrialsWarning")
@pytest.mark.parametrize("name", [name for name in POLICY_NAMES if "+after" not in name])
@examples(6, phases=PHASES)
@given(events=EVENTS)
def test_every_policy_says_the_same_anew(name: str, events: list[Any]) -> None:
    play = Play(parse_policy(name))
    for event in events:
        play.do(*event)
        for number in play.running:
            trial = play.frozen(number)
            assert play.study.pruner.prune(play.study, trial) == asked_anew(play.study, trial)
        require_same_knowledge(play.study)


@pytest.mark.parametrize("name", [name for name in POLICY_NAMES if "+after" not in name])
def test_a_decision_taken_in_report_is_the_one_a_pruner_gives(name: str) -> None:
    study = made(parse_policy(name))
    for number in range(30):
        ace = begun(study, 6)
        for step in ace.steps():
            decision = ace.report((number * 7 % 10) / step, constraints={"g": number % 3 / 2})
            trial = study.trials[-1]
            assert asked_anew(study, trial) == decision.stop == ace.should_prune()
        try:
            study.tell(ace.number, ace.finish())
        except optuna.TrialPruned:
            study.tell(ace.number, state=TrialState.PRUNED)


@pytest.mark.parametrize("seed", [0, 5])
def test_asked_twice_what_a_report_has_taught_does_not_count_for_it(seed: int) -> None:
    """With its own check there may be pairs enough to give up hope, or a trend another way."""
    study, chance = made(Adaptive(spacing=0.0)), random.Random(seed)
    for _ in range(12):
        ace, base = begun(study, 12), chance.gauss(0.7, 0.3)
        for step in ace.steps():
            g = base + chance.gauss(0, 0.05)
            decision = ace.report(chance.random() / step, constraints={"g": g})
            trial = study.trials[-1]
            assert study.pruner.prune(study, trial) == decision.stop == asked_anew(study, trial)
            if decision.stop:
                break
        told(study, ace)


def test_a_trial_met_before_it_began_without_a_last_step_is_checked_as_it_began() -> None:
    study = made(ACE(truncation=0.5))
    asked = study.ask()
    for value, g in ((2.0, 0.85), (1.0, 0.0), (5.0, 0.0)):  # meanwhile, in the same process
        play(study, [value], [g])
    ace = acetune.optuna.trial(asked, None)
    assert ace.report(9.0, constraints={"g": 0.0}).stop  # could not win: not checked
    began = study.trials[0].system_attrs["ace:start"]
    assert (began["total_steps"], began["interval"]) == (None, 1)
    ace.declare(3)
    assert study.trials[0].system_attrs["ace:start"] == began | {"total_steps": 3}
    require_same_knowledge(study)
    assert told(study, ace).constraints == {}


def test_a_last_step_that_was_reported_before_it_was_declared() -> None:
    study = made(NEVER)
    ace = begun(study, None)
    ace.report(1.0, constraints={"g": 0.0})
    ace.declare(1)
    require_same_knowledge(study)
    assert told(study, ace).value == 1.0


# -- what is read --------------------------------------------------------------------------------


class Counting:
    """Counts the calls of a storage by name."""

    def __init__(self, storage: BaseStorage, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: dict[str, int] = {}
        for name in ("get_trial", "get_all_trials", "set_trial_system_attr", "get_best_trial"):
            monkeypatch.setattr(storage, name, self.counted(name, getattr(storage, name)))

    def counted(self, name: str, call: Any) -> Any:
        def counting(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] = self.calls.get(name, 0) + 1
            return call(*args, **kwargs)

        return counting


def test_a_report_reads_only_trials_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    study = made(ACE(truncation=0.0, interval="end"))
    for _ in range(20):
        play(study, [1.0, 2.0])
    others = [begun(study, 5) for _ in range(2)]
    ace = begun(study, 5)
    counting = Counting(study._storage, monkeypatch)
    ace.report(1.0, constraints={"g": 0.0})
    assert counting.calls == {"get_trial": len(others)}


def test_many_running_trials_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    study = made(ACE(truncation=0.0, interval="end"))
    others = [begun(study, 5) for _ in range(10)]
    for other in others:
        other.report(1.0, constraints={"g": 0.0})
    counting = Counting(study._storage, monkeypatch)
    others[0].report(2.0, constraints={"g": 0.0})
    assert counting.calls == {"get_all_trials": 1}


def test_asking_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    study = made()
    trial = study.ask()
    trial.report(1.0, 1)
    counting = Counting(study._storage, monkeypatch)
    assert not trial.should_prune()
    assert "set_trial_system_attr" not in counting.calls


# -- trials that come and go ---------------------------------------------------------------------


def replace_study(study: optuna.Study) -> optuna.Study:
    """Delete a study and create one of the same name: ids may be used again."""
    optuna.delete_study(study_name=study.study_name, storage=study._storage)
    return optuna.create_study(
        study_name=study.study_name, storage=study._storage, pruner=study.pruner
    )


def test_a_study_deleted_and_made_again_begins_anew(storage: BaseStorage) -> None:
    study = made(ACE(truncation=0.5, interval="end"), storage=storage, study_name="again")
    for value in (1.0, 2.0, 3.0):
        trial = study.ask()
        trial.report(value, 1)
        trial.should_prune()
        study.tell(trial, state=TrialState.FAIL)
    study = replace_study(study)
    trial = study.ask()
    trial.report(9.0, 1)
    assert not trial.should_prune()  # nobody to compare with
    ace = begun(replace_study(study), 3)
    assert not ace.report(99.0, constraints={"g": 0.0}).stop


def test_a_trial_left_running_counts_and_keeps_counting(storage: BaseStorage) -> None:
    study = made(ACE(truncation=0.5, interval="end"), storage=storage)
    left = study.ask()
    left.report(1.0, 1)
    for value in (2.0, 3.0):
        trial = study.ask()
        trial.report(value, 1)
        assert trial.should_prune()
        study.tell(trial, state=TrialState.PRUNED)


def test_a_waiting_trial_counts_once_it_reports(storage: BaseStorage) -> None:
    study = made(ACE(truncation=0.5, interval="end"), storage=storage)
    first = study.ask()
    study.enqueue_trial({})
    first.report(2.0, 1)
    assert not first.should_prune()
    second = study.ask()
    second.report(1.0, 1)
    assert first.should_prune()
    assert not second.should_prune()


def fail_and_retry(study: optuna.Study, number: int, inherit: bool) -> None:
    failed = study.tell(number, state=TrialState.FAIL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optuna.storages.RetryFailedTrialCallback(inherit_intermediate_values=inherit)(study, failed)


def test_a_retried_trial_inherits_no_checks(storage: BaseStorage) -> None:
    study = made(ACE(truncation=0.5, interval=1), storage=storage)
    ace = begun(study, 3)
    ace.report(1.0, constraints={"g": 0.0})
    fail_and_retry(study, ace.number, inherit=False)
    play(study, [0.5], [0.0])  # the retry is popped here, and ends at once
    late = begun(study, 3)
    late.report(1.0, constraints={"g": 0.0})  # gated: 0.5 was valid
    assert "ace:check:1" not in study.trials[late.number].system_attrs
    retry = study.trials[1]
    assert retry.system_attrs["failed_trial"] == 0
    assert retry.value == 0.5


def test_an_inherited_check_of_a_step_reported_anew_does_not_count() -> None:
    study = made(ACE(truncation=0.0, interval=1))
    ace = begun(study, 3)
    ace.report(1.0, constraints={"g": 0.0})
    fail_and_retry(study, ace.number, inherit=False)
    retry = begun(study, 3)
    assert retry.attempt == 2
    decision = retry.report(2.0, constraints={"g": 0.0})  # could not win: not checked
    assert decision.stratum == "unchecked"
    with pytest.raises(optuna.TrialPruned, match="could not win"):
        retry.finish()


def test_a_retried_trial_that_goes_on_keeps_its_past() -> None:
    study = made(NEVER)
    ace = begun(study, 4)
    ace.report(1.0, constraints={"g": 0.0})
    ace.report(3.0, constraints={"g": 0.0})
    fail_and_retry(study, ace.number, inherit=True)
    retry = begun(study, 4)
    assert list(retry.steps()) == [3, 4]
    retry.report(2.0, step=4, constraints={"g": 0.0})
    assert retry.finish() == 1.0


def test_a_retried_trial_with_nothing_left_to_train() -> None:
    study = made(NEVER)
    ace = begun(study, 2)
    ace.report(1.0, constraints={"g": 0.0})
    ace.report(2.0, constraints={"g": 0.0})
    fail_and_retry(study, ace.number, inherit=True)
    retry = acetune.optuna.trial(study.ask(), None)
    assert list(retry.steps(2)) == []
    assert retry.finish() == 1.0


def test_a_retried_trial_replaces_the_one_that_failed() -> None:
    study = made(ACE(truncation=0.5, interval="end"))
    failed = study.ask()
    failed.report(1.0, 1)
    fail_and_retry(study, failed.number, inherit=False)
    trial = study.ask()  # the retry
    trial.report(2.0, 1)
    assert not trial.should_prune()  # it is not compared with itself


def test_a_constraint_inherited_from_a_failed_trial_is_overwritten() -> None:
    study = made(NEVER)
    ace = begun(study, 1)
    ace.report(1.0, constraints={"g": 0.0})
    ace.finish()
    fail_and_retry(study, ace.number, inherit=False)
    assert play(study, [0.5], [1.0]).constraints == {"g": 1.0}
    with pytest.raises(ValueError, match="No feasible"):
        _ = study.best_trial


def test_a_check_without_its_value_is_not_seen() -> None:
    """A process may be killed between the two."""
    study = made(ACE(truncation=0.0, interval=1))
    ace = begun(study, 3)
    ace.report(1.0, constraints={"g": 1.0})
    found = dict(study.trials[0].system_attrs["ace:check:1"])
    found["measured"] = {"g": [0.0, 0.0]}
    found["step"] = 2
    study._storage.set_trial_system_attr(0, "ace:check:2", found)
    assert acetune.optuna.best(study) is None
    assert math.isinf(begun(loaded(study), 3)._gate)


def test_studies_of_one_pruner_are_kept_apart() -> None:
    pruner = AcePruner([LIMIT], ACE(truncation=0.5, interval="end"))
    studies = [optuna.create_study(pruner=pruner) for _ in range(2)]
    for study in studies:
        for value in (1.0, 2.0):
            trial = study.ask()
            trial.report(value, 1)
            assert trial.should_prune() == (value == 2.0)
