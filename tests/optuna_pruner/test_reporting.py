"""The trial inside an objective function, and what Optuna is told in the end."""

from __future__ import annotations

import copy
import logging
import math
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

import acetune.optuna
from acetune import ACE, ASHA, Constraint, Estimate, NoStopping
from acetune.core.errors import GoalError, ReportError
from acetune.optuna import AcePruner
from optuna_pruner.kit import LIMIT, NEVER, begun, loaded, made, objective, play, told


def stopping_at_once() -> ACE:
    """Stops every trial at its first report."""
    return ACE(truncation=1.0, interval=1, gate=False)


# -- what Optuna is told -------------------------------------------------------------------------


def test_the_best_valid_checkpoint_with_its_constraint() -> None:
    study = made(NEVER)
    trial = play(study, [3.0, 1.0, 2.0, 0.5], [0.1, 0.25, 0.0, 0.9])
    assert trial.state is TrialState.COMPLETE
    assert trial.value == 1.0
    assert trial.constraints == {"g": -0.5}  # half the limit below it
    assert study.best_trial.number == trial.number


def test_it_is_complete_even_if_the_policy_stopped_it() -> None:
    study = made(stopping_at_once())
    trial = play(study, [3.0, 1.0], [0.1, 0.1])
    assert trial.state is TrialState.COMPLETE
    assert (trial.value, trial.last_step) == (3.0, 1)


def test_the_nearest_miss_of_a_trial_that_ended_by_itself() -> None:
    study = made(NEVER)
    trial = play(study, [1.0, 2.0, 3.0], [1.0, 0.75, 1.0])
    assert trial.state is TrialState.COMPLETE
    assert trial.value == 2.0
    assert trial.constraints == {"g": 0.5}
    with pytest.raises(ValueError, match="No feasible"):
        _ = study.best_trial


def test_the_nearest_miss_of_a_trial_that_was_stopped() -> None:
    study = made(stopping_at_once())
    trial = play(study, [1.0, 2.0], [1.0, 0.75])
    assert trial.state is TrialState.PRUNED
    assert trial.constraints == {"g": 1.0}


def test_unchecked_because_it_could_not_win() -> None:
    study = made(ACE(truncation=0.0, interval=1))
    play(study, [1.0], [0.0])
    trial = play(study, [2.0, 3.0], [0.0, 0.0])
    assert trial.state is TrialState.PRUNED
    assert trial.constraints == {}
    assert study.best_trial.number == 0


def test_unchecked_because_no_check_was_due() -> None:
    study = made(ACE(truncation=0.0, interval=1, gate=False))
    for violation in (0.1, 0.2, 0.4):
        play(study, [1.0], [0.5 + violation / 2])
    policy = ACE(truncation=1.0, interval="end")
    late = loaded(study, AcePruner([LIMIT], policy, for_dashboard=False))
    trial = play(late, [1.0, 0.5], [0.0, 0.0])
    assert trial.state is TrialState.PRUNED
    assert trial.constraints == {"g": pytest.approx(0.2)}  # the median that was seen


def test_unchecked_and_nothing_seen_yet() -> None:
    trial = play(made(ACE(truncation=1.0, interval="end")), [1.0, 0.5])
    assert trial.state is TrialState.PRUNED
    assert trial.constraints == {}


def test_an_unchecked_trial_is_never_the_best_even_if_the_better_one_fails() -> None:
    study = made(ACE(truncation=0.0, interval=1))
    better = begun(study, 3)
    better.report(1.0, constraints={"g": 0.0})
    play(study, [2.0], [0.0])
    study.tell(better.number, state=TrialState.FAIL)
    with pytest.raises(ValueError, match=r"No trials are completed|[Rr]ecord"):
        _ = study.best_trial
    found = acetune.optuna.best(study)
    assert found is not None
    assert (found.trial, found.step) == (better.number, 1)


def test_no_finite_objective_is_a_failure() -> None:
    study = made(NEVER)
    assert play(study, [math.nan, math.inf], [0.0, 0.0]).state is TrialState.FAIL
    study = made(stopping_at_once())
    assert play(study, [math.nan, math.inf], [0.0, 0.0]).state is TrialState.PRUNED


def test_no_finite_objective_but_a_miss_is_pruned_with_it() -> None:
    trial = play(made(NEVER), [math.nan], [1.0])
    assert trial.state is TrialState.PRUNED
    assert trial.constraints == {"g": 1.0}


def test_a_failed_check_is_told_as_the_worst_seen() -> None:
    def broken() -> float:
        raise RuntimeError("no data")

    study = made(NEVER, (LIMIT, Constraint("h", lower=1.0)))
    ace = begun(study, 1)
    ace.report(1.0, constraints={"g": 2.0, "h": 1.0})
    assert told(study, ace).constraints == {"g": 3.0, "h": 0.0}
    ace = begun(study, 1)
    ace.report(0.0, constraints={"g": broken, "h": 1.0})
    trial = told(study, ace)
    assert trial.state is TrialState.COMPLETE
    assert trial.constraints == {"g": 1.5, "h": 1.5}  # one failed, so the other was not called
    assert acetune.optuna.best(study) is None


def test_margins_count() -> None:
    study = made(NEVER, (Constraint("g", upper=0.5, margin_se=2.0),))
    ace = begun(study, 1)
    ace.report(1.0, constraints={"g": lambda: Estimate(0.45, 0.05)})
    trial = told(study, ace)
    assert trial.constraints["g"] == pytest.approx(0.1)


def test_a_violation_too_small_to_divide_is_still_one() -> None:
    study = made(NEVER, (Constraint("g", upper=0.0, scale=1e10),))
    ace = begun(study, 1)
    ace.report(1.0, constraints={"g": 5e-324})
    assert told(study, ace).constraints["g"] > 0
    assert acetune.optuna.best(study) is None
    assert acetune.optuna.nearest_miss(study) is not None


def test_without_constraints_the_best_checkpoint_counts() -> None:
    study = made(ACE(truncation=1.0), ())
    ace = begun(study, 3)
    ace.report(1.0)
    trial = told(study, ace)
    assert (trial.state, trial.value, trial.constraints) == (TrialState.COMPLETE, 1.0, {})


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_the_direction_is_the_studys(direction: str) -> None:
    study = made(NEVER, direction=direction)
    trial = play(study, [3.0, 1.0, 2.0], [0.0, 0.0, 0.0])
    assert trial.value == (1.0 if direction == "minimize" else 3.0)


# -- the check at the end ------------------------------------------------------------------------


def test_the_check_still_due_is_made_when_the_loop_ends_early() -> None:
    study = made(ACE(interval="end"))
    ace = begun(study, 10)
    checked = []

    def check(model: list[float]) -> float:
        checked.append(model)
        return 0.0

    for value in (3.0, 1.0, 2.0):
        ace.report(value, model=[value], constraints={"g": check}, snapshot=copy.copy)
    trial = told(study, ace)
    assert checked == [[1.0]]
    assert (trial.state, trial.value, trial.constraints) == (TrialState.COMPLETE, 1.0, {"g": -1.0})
    found = acetune.optuna.best(study)
    assert found is not None
    assert (found.trial, found.step, found.value) == (0, 2, 1.0)


def test_the_check_at_the_last_step_looks_back() -> None:
    study = made(ACE(interval="end"))
    ace = begun(study, 3)
    for value in (1.0, 2.0, 3.0):
        ace.report(value, model=value, constraints={"g": lambda m: m / 10}, snapshot=copy.copy)
    trial = told(study, ace)
    assert (trial.value, trial.constraints) == (1.0, {"g": pytest.approx(-0.8)})


def test_finish_twice_is_the_same() -> None:
    study = made(NEVER)
    ace = begun(study, 1)
    ace.report(1.0, constraints={"g": 0.0})
    assert ace.finish() == ace.finish() == 1.0
    pruned = begun(study, 1)
    pruned.report(math.nan, constraints={"g": 1.0})
    for _ in range(2):
        with pytest.raises(optuna.TrialPruned, match="no finite objective"):
            pruned.finish()


def test_nothing_reported_is_an_error() -> None:
    with pytest.raises(ReportError, match="without reporting anything"):
        begun(made()).finish()


# -- the loop ------------------------------------------------------------------------------------


def test_the_loop_ends_by_itself_and_should_prune_tells() -> None:
    study = made(ACE(truncation=1.0, interval="end", min_steps=3))
    ace = begun(study, 10)
    steps = []
    for step in ace.steps():
        assert not ace.should_prune()
        ace.report(1.0, constraints={"g": 0.0})
        steps.append(step)
    assert steps == [1, 2, 3]
    assert ace.should_prune()
    with pytest.raises(optuna.TrialPruned, match=r"rank 1 of 1 unchecked.*not checked"):
        ace.finish()


def test_the_last_step_is_never_stopped() -> None:
    ace = begun(made(stopping_at_once()), 1)
    assert not ace.report(1.0, constraints={"g": 1.0}).stop
    assert not ace.should_prune()


def test_total_steps_may_come_late() -> None:
    study = made(ACE(interval=1))
    ace = acetune.optuna.trial(study.ask(), None)
    ace.report(1.0, constraints={"g": 0.0})
    ace.declare(2)
    assert list(ace.steps()) == [2]
    ace.report(1.0, step=2)
    with pytest.raises(ReportError, match="comes too late"):
        ace.report(1.0, step=3)
    with pytest.raises(ReportError, match="cannot become 7"):
        ace.declare(7)


def test_a_step_beyond_the_last_and_a_step_back_are_errors() -> None:
    ace = begun(made(NEVER), 5)
    ace.report(1.0, step=3, constraints={"g": 0.0})
    with pytest.raises(ReportError, match="reported step 2 after step 3"):
        ace.report(1.0, step=2)
    with pytest.raises(ReportError, match="step 6 lies beyond total_steps=5"):
        ace.report(1.0, step=6)


def test_a_step_reported_twice_stands_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(logging.getLogger("acetune.optuna"), "warning", said.append)
    study = made(NEVER)
    ace = begun(study, 5)
    for step in (1, 2):
        ace.report(1.0, step=step, constraints={"g": 0.0})
        ace.report(1.0, step=step)
        ace.report(2.0, step=step)
    assert study.trials[0].intermediate_values == {1: 1.0, 2: 1.0}
    assert said == ["trial 0 reported step 1 again with other values; the first report stands"]


def test_the_objective_has_a_name() -> None:
    study = optuna.create_study(pruner=AcePruner([LIMIT], objective="auc"))
    ace = begun(study, 1)
    with pytest.raises(
        ReportError, match=r"report\(auc=\.\.\.\).* did you mean AcePruner\(objective='acc'\)\?"
    ):
        ace.report(acc=1.0, constraints={"g": 0.0})
    ace.report(auc=1.0, constraints={"g": 0.0})
    assert ace.finish() == 1.0


def test_a_checkpoint_to_go_on_from_has_no_place() -> None:
    with pytest.raises(ReportError, match="no place under Optuna"):
        begun(made()).report(1.0, constraints={"g": 0.0}, checkpoint=Path("somewhere"))


def test_models_go_where_the_user_wants_them() -> None:
    study = made(NEVER)
    kept: list[tuple[int, object]] = []
    ace = begun(study, 4, keep_model=lambda step, model: kept.append((step, model)))
    for value, g in ((3.0, 0.0), (1.0, 0.9), (2.0, 0.0), (2.5, 0.0)):
        ace.report(value, model=value, constraints={"g": g})
    assert kept == [(1, 3.0), (3, 2.0)]
    told(study, ace)
    ace = begun(study, 1, keep_model=lambda step, model: kept.append((step, model)))
    ace.report(2.1, model=2.1, constraints={"g": 0.0})  # valid, but it cannot win
    assert len(kept) == 2


def test_a_folder_is_made_when_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    study = made(study_name="a / study")
    ace = begun(study)
    assert not list(tmp_path.iterdir())
    assert ace.folder == Path("a-study.files/trial-0")
    assert ace.folder.is_dir()
    assert begun(study, folder=tmp_path / "mine").folder == tmp_path / "mine"


def test_another_pruner_is_named() -> None:
    study = optuna.create_study(pruner=optuna.pruners.MedianPruner())
    with pytest.raises(GoalError, match=r"MedianPruner.*AcePruner"):
        acetune.optuna.trial(study.ask(), total_steps=3)


def test_another_trial_is_named() -> None:
    fixed: Any = optuna.trial.FixedTrial({"x": 1})
    with pytest.raises(GoalError, match="FixedTrial"):
        acetune.optuna.trial(fixed, total_steps=3)


def test_params_and_number_are_optunas() -> None:
    study = made()
    study.ask()
    trial = study.ask({"x": optuna.distributions.FloatDistribution(0, 1)})
    ace = acetune.optuna.trial(trial, total_steps=3)
    assert (ace.number, ace.attempt, ace.params) == (1, 1, trial.params)


# -- costs and the gate --------------------------------------------------------------------------


@pytest.mark.parametrize(("check_s", "interval"), [(0.01, 1), (1000.0, 20)])
def test_costs_travel_and_choose_the_interval(check_s: float, interval: int) -> None:
    study = made(ACE())
    ace = begun(study, 4)
    for step in ace.steps():
        costs = {"primary_cost_s": 1.0, "constraint_cost_s": check_s if step == 4 else None}
        ace.report(1.0, constraints={"g": 0.0}, **costs)  # type: ignore[arg-type]
    told(study, ace)
    for one in (study, loaded(study)):
        trial = begun(one, 20)
        start = one.trials[trial.number].system_attrs["ace:start"]
        assert start["interval"] == interval
        assert start["ratio"] == pytest.approx(check_s)


def test_snapshots_count_as_cost_of_checks() -> None:
    ticks = iter(range(10_000))
    study = made(ACE())
    ace = acetune.optuna.trial(study.ask(), 3, clock=lambda: float(next(ticks)))
    for step in ace.steps():
        ace.report(-step, model=step, constraints={"g": lambda m: 0.0}, snapshot=copy.copy)
    told(study, ace)
    assert study.trials[0].system_attrs["ace:end"]["spent"][2:] == [2.0, 2]
    begun(study, 9)
    ratio = study.trials[1].system_attrs["ace:start"]["ratio"]
    assert ratio == pytest.approx(2.0)  # a check and a snapshot take a tick each, as a step does


def test_the_gate_is_asked_again_before_a_check_is_paid_for() -> None:
    study = made(ACE(truncation=0.0, interval=1))
    other = loaded(study)
    mine = begun(study, 2)
    mine.report(5.0, constraints={"g": 0.0})
    play(other, [1.0], [0.0])
    called = []
    mine.report(4.0, constraints={"g": lambda: called.append(1) or 0.0})
    assert called == []
    assert study.trials[0].system_attrs.keys() == {"ace:start", "ace:check:1"}


@pytest.mark.parametrize("policy", [ASHA(), NoStopping(), ACE(stopping="first-violation")])
def test_other_policies_check_where_they_do(policy: Any) -> None:
    study = made(policy)
    trial = play(study, [1.0] * 5, [0.0] * 5)
    assert trial.state is TrialState.COMPLETE
    assert trial.constraints == {"g": -1.0}


def test_several_threads_report_to_a_study() -> None:
    study = made(ACE(truncation=0.5, interval=1))
    study.optimize(objective, n_trials=40, n_jobs=4)
    assert len(study.trials) == 40
    assert {trial.state for trial in study.trials} <= {TrialState.COMPLETE, TrialState.PRUNED}
    found = acetune.optuna.best(study)
    assert found is not None
    assert found.value == study.best_trial.value


def test_a_step_reported_to_optuna_as_well_is_refused() -> None:
    study = made(NEVER)
    trial = study.ask()
    ace = acetune.optuna.trial(trial, 3)
    trial.report(980.0, 1)
    with pytest.raises(ReportError, match=r"step 1 of trial 0 was reported to Optuna already"):
        ace.report(1.0, constraints={"g": 0.0})


def test_a_check_that_fails_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []  # by the logger, however other libraries have left logging
    logger = logging.getLogger("acetune.optuna")
    monkeypatch.setattr(logger, "warning", said.append)

    def check() -> float:
        raise RuntimeError("no data")

    study = made(NEVER)
    ace = begun(study, 2)
    for _ in ace.steps():
        ace.report(1.0, constraints={"g": check})
    told(study, ace)
    failed = "the check of 'g' failed in trial 0 at step 1: RuntimeError"
    assert sum(failed in text for text in said) == 1
    assert acetune.optuna.best(study) is None
