"""Checks that never work, and calls of report that never can: the study ends early, saying why."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import acetune
from acetune import ACE, Constraint, Trial
from acetune.constraints import FairnessCheck
from acetune.core.errors import DegenerateModelError, StudyError
from run.helpers import Events, report_rows, rows, states, tune


def train(trial: Trial) -> None:
    for step in trial.steps(3):
        trial.report(trial.number + 1 / step, model=trial.number)


def broken(model: int) -> float:
    return model["gap"]  # type: ignore[index, no-any-return]


def run(study: Path, check: Callable[[Any], Any], trials: int = 12, **options: Any) -> Any:
    defaults: dict[str, Any] = {"policy": ACE(interval=1), "max_failures": 5}
    constraints = [Constraint("gap", upper=0.1, check=check)]
    return tune(train, study, constraints=constraints, xs=range(trials), **(defaults | options))


def test_checks_that_always_raise_end_the_study_with_the_cause(study: Path) -> None:
    events = Events()
    with pytest.raises(StudyError, match="'gap' failed in all 5 trials") as caught:
        run(study, broken, callbacks=[events])

    text = str(caught.value)
    assert "TypeError: 'int' object is not subscriptable" in text
    assert 'test_broken_checks.py: return model["gap"]' in text  # where
    assert "acetune explain " in text and "study.db 1" in text
    assert "trial 1: x=0; trial 2: x=1;" in text and "go on with max_failures=20" in text
    assert len(states(study)) == 5  # of 12
    assert [note for note in events.notices if "the check of 'gap' failed in trial 1" in note]


def test_a_limit_that_is_broken_first_does_not_hide_a_check_that_always_raises(
    study: Path,
) -> None:
    """A report without a failure says nothing of what was left out."""
    small = Constraint("small", upper=0, check=lambda model: model % 3)  # a third satisfies it
    limits = [small, Constraint("gap", upper=0.1, check=broken)]
    policy = acetune.ACE2(truncation=0.0, invalid_truncation=0.0, spacing=0.0)
    options = {"constraints": limits, "policy": policy, "max_failures": 3, "max_trials": 30}
    with pytest.raises(StudyError, match="'gap' failed in all 3 trials"):
        tune(train, study, xs=range(30), **options)
    partly = rows(study, "SELECT count(*) AS n FROM checks GROUP BY seq HAVING n = 1")
    assert partly  # some reports had no failure
    # nor in a session after this one
    with pytest.raises(StudyError, match="'gap' failed in"):
        tune(train, study, xs=range(30), **options)
    assert len(states(study)) < 20


def test_the_result_of_such_a_study_names_the_cause(study: Path) -> None:
    with pytest.raises(StudyError):
        run(study, broken)
    result = acetune.load(study)

    assert result.best is None and result.nearest_miss is None
    assert result.failed_check is not None and result.failed_check.constraint == "gap"
    text = str(result)
    made = result.ledger.checks
    assert f"every one of the {made} checks that were made failed" in text
    assert "the check of 'gap' says: TypeError: 'int' object is not subscriptable" in text
    assert f"acetune explain {study} 1" in text
    assert "by an error: the check of 'gap' failed in all 5 trials" in text
    assert "\nended " in text and "and the study was ended\n" in text  # and no half sentence
    assert "nearest miss" not in text and "ace-beta1" not in text


def test_a_study_without_a_file_is_not_to_be_looked_into_later() -> None:
    """Its file goes when the program ends."""

    def sometimes(model: int) -> float:
        return 0.0 if model == 1 else broken(model)

    limits = [Constraint("gap", upper=0.1, check=sometimes)]
    space = {"x": acetune.uniform(0, 1)}
    common: dict[str, Any] = {"objective": "loss", "mode": "min", "progress": False, "workers": 1}
    common["policy"] = ACE(truncation=0, interval=1, gate=False)
    result = acetune.tune(train, space, constraints=limits, max_trials=3, **common)
    text = str(result)
    assert "give study= to look closer" in text and "acetune explain" not in text
    limits = [Constraint("gap", upper=0.1, check=broken)]
    with pytest.raises(StudyError, match="give study= to look closer") as caught:
        acetune.tune(train, space, constraints=limits, max_trials=9, **common)
    assert "acetune explain" not in str(caught.value) and "rm -r" not in str(caught.value)


def test_checks_only_at_the_end_of_trials_that_end_by_themselves_count_too(study: Path) -> None:
    def short(trial: Trial) -> None:
        trial.report(1.0, model=1)

    events = Events()
    with pytest.raises(StudyError, match="failed in all 3 trials that it was called in"):
        tune(
            short,
            study,
            constraints=[Constraint("gap", upper=0.1, check=broken)],
            xs=range(9),
            policy="ace-betaT",
            max_failures=3,
            callbacks=[events],
        )
    assert len(states(study)) == 3
    assert [note for note in events.notices if "the check of 'gap' failed in trial 1" in note]


def refusing(model: int) -> float:
    raise DegenerateModelError("one class for everybody")


@pytest.mark.parametrize(
    "check",
    [
        refusing,  # what a poor model may earn
        lambda model: 0.0 if model == 3 else 1 / 0,  # it works, if rarely
        lambda model: 0.0 if model == 3 else math.nan,
    ],
)
def test_checks_that_work_now_and_then_or_refuse_models_do_not_end_it(
    study: Path, check: Any
) -> None:
    result = run(study, check, trials=9)
    assert sum(result.counts.values()) == 9


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (math.nan, "constraint 'gap' is nan"),
        (-math.inf, "constraint 'gap' is -inf"),
        ((0.1, math.nan), "standard error of constraint 'gap' is nan"),
        ((0.1, -1.0), "standard error of constraint 'gap' is -1.0"),
    ],
)
def test_checks_that_never_give_a_number_end_the_study_once_trials_have_ended(
    study: Path, given: Any, words: str
) -> None:
    with pytest.raises(StudyError, match="'gap' failed in all 5 trials") as caught:
        run(study, lambda model: given)
    assert f"in trial 1, with:\n{words}\n" in str(caught.value)
    assert "go on with max_failures=20" in str(caught.value)
    assert len(states(study)) == 5 and "running" not in states(study)[:4]


def test_a_check_that_gives_numbers_late_in_training_is_not_a_broken_one(study: Path) -> None:
    def young(trial: Trial) -> None:
        for step in trial.steps(3):
            trial.report(1 / step, model=0.0 if step == 3 else math.nan)

    limits = [Constraint("gap", upper=0.1, check=float)]
    policy = ACE(interval=1, truncation=0)
    result = tune(young, study, constraints=limits, policy=policy, xs=range(3), max_failures=1)
    assert result.counts == {"finished": 3}


def test_trials_that_a_policy_stops_before_checks_give_numbers_do_not_end_it(study: Path) -> None:
    def young(trial: Trial) -> None:
        for step in trial.steps(9):
            trial.report(trial.number + 1 / step, model=0.0 if step == 9 else math.nan)

    limits = [Constraint("gap", upper=0.1, check=float)]
    options: dict[str, Any] = {"policy": "asha-lex", "xs": range(12), "max_failures": 3}
    result = tune(young, study, constraints=limits, **options)
    assert sum(result.counts.values()) == 12 and result.counts["stopped"] > 6


class TestAnObjectiveThatIsNoNumber:
    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_in_all_trials_ends_the_study(self, study: Path, value: float) -> None:
        def diverges(trial: Trial) -> None:
            for _ in trial.steps(3):
                trial.report(value)

        with pytest.raises(StudyError, match="'loss' was NaN or infinite in every") as caught:
            tune(diverges, study, xs=range(9), max_failures=4)
        text = str(caught.value)
        assert "of all 4 trials" in text and f"trial 1 reported {value} at step 1" in text
        assert "trial 1: x=0; trial 2: x=1;" in text and "go on with max_failures=16" in text
        assert len(states(study)) == 4
        assert "was NaN or infinite" in str(acetune.load(study))

    def test_in_some_trials_does_not(self, study: Path) -> None:
        def sometimes(trial: Trial) -> None:
            for step in trial.steps(2):
                trial.report(1.0 if trial.number == 1 and step == 2 else math.nan)

        assert sum(tune(sometimes, study, xs=range(3), max_failures=1).counts.values()) == 3
        # nor in a session after this one
        assert sum(tune(sometimes, study, xs=range(6), max_failures=1).counts.values()) == 6


def test_a_check_that_worked_in_an_earlier_session_is_not_a_broken_one(study: Path) -> None:
    def check(model: int) -> float:
        return 0.0 if model < 3 else 1 / 0

    policy = ACE(interval=1, gate=False)  # else nothing worse than the first is checked
    run(study, check, trials=2, policy=policy)
    result = run(study, check, trials=9, policy=policy)
    assert sum(result.counts.values()) == 9
    assert "none feasible" not in str(result) and "the first, of 'gap': ZeroDivision" in str(result)


def test_a_mended_check_goes_on(study: Path) -> None:
    with pytest.raises(StudyError):
        run(study, broken)
    result = run(study, lambda model: 0.0)  # no value of the broken one is in the study
    assert result.best is not None and result.best.trial > 5
    assert result.counts["finished"] + result.counts.get("stopped", 0) == 12


# -- calls of report that cannot work ------------------------------------------------------------

CALLS: dict[str, tuple[Callable[[Trial], Any], str]] = {
    "misspelt objective": (
        lambda t: t.report(los=1.0, model=1),
        r"report\(loss=...\), got \['los'\]; or did you mean objective='los'",
    ),
    "no objective": (lambda t: t.report(model=1), "got nothing"),
    "step by its place": (
        lambda t: t.report(1.0, 1, model=1),
        r"was given 1 too: name the step, as in report\(value, step=step\); steps count from 1",
    ),
    "steps from 0": (
        lambda t: t.report(1.0, step=0, model=1),
        r"step is 0, and steps count from 1: in a loop from 0 write step=step \+ 1",
    ),
    "objective twice": (lambda t: t.report(1.0, loss=1.0, model=1), "given twice"),
    "constraint as metric": (lambda t: t.report(1.0, gap=1.0, model=1), "'gap' is a constraint"),
    "unknown check": (lambda t: t.report(1.0, model=1, constraints={"gab": 1}), "constraint 'gab'"),
    "no model": (lambda t: t.report(1.0), "takes a model, but none was reported"),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_no_trial_can_make_ends_the_study_at_once(study: Path, call: str) -> None:
    report, words = CALLS[call]
    constraint = Constraint("gap", upper=1, check=lambda model: 0.0)
    with pytest.raises(StudyError, match=f"calls report wrongly(.|\n)*{words}") as caught:
        tune(report, study, constraints=[constraint], xs=range(9), retries=3)

    assert states(study) == ["failed"]  # once, and not tried again
    assert "Traceback" in str(caught.value)
    assert "calls report wrongly" in str(acetune.load(study))


def test_a_wrong_call_in_some_trials_fails_those_without_another_try(study: Path) -> None:
    def sometimes(trial: Trial) -> None:
        trial.report(**{"loss" if trial.number % 2 else "los": 1.0})

    result = tune(sometimes, study, xs=range(6), retries=3)
    assert result.counts == {"finished": 3, "failed": 3}
    assert len(states(study)) == 6


def test_an_error_that_may_depend_on_the_parameters_is_tried_again(study: Path) -> None:
    def train(trial: Trial) -> None:
        trial.report(loss=None if trial.attempt == 1 else 1.0)

    assert tune(train, study, retries=1).counts == {"finished": 1}


# -- warnings of checks --------------------------------------------------------------------------


def test_raw_margins_against_a_threshold_for_probabilities_are_noticed_once(study: Path) -> None:
    y, groups = np.tile([0, 0, 1, 1], 10), np.tile([0, 1], 20)
    check = FairnessCheck("equalized_odds_difference", y, groups)

    def margins(trial: Trial) -> None:
        for step in trial.steps(3):
            trial.report(1.0, model=np.linspace(-4, 4, 40) * step)

    events = Events()
    constraint = Constraint("eod", upper=1, check=check)
    tune(
        margins,
        study,
        constraints=[constraint],
        xs=range(4),
        workers=2,
        policy=ACE(interval=1),
        callbacks=[events],
    )
    (notice,) = events.notices
    assert "scores outside 0 to 1" in notice and "threshold=0)" in notice
    assert rows(study, "SELECT count(*) AS n FROM checks WHERE value IS NULL")[0]["n"] == 0
    assert all(row["stratum"] != "unchecked" for row in report_rows(study)[:1])


def test_a_notice_of_a_check_does_not_lift_its_timeout(study: Path) -> None:
    def check(model: object) -> float:
        import time
        import warnings

        from acetune.core.errors import GoalWarning

        warnings.warn("about the check", GoalWarning, stacklevel=1)
        time.sleep(60)
        return 0.0

    constraint = Constraint("g", upper=1, check=check, timeout_s=1.0)
    events = Events()
    tune(train, study, constraints=[constraint], policy=ACE(interval=1), callbacks=[events])
    assert states(study) == ["failed"] and "about the check" in events.notices


@pytest.mark.parametrize("how", ["a check", "a value"])
def test_a_check_that_says_whether_its_limit_holds_ends_the_study_with_the_cause(
    study: Path, how: str
) -> None:
    """True is no number: taken as 1 under an upper limit, what fails would be recommended."""

    def given(trial: Trial) -> None:
        for step in trial.steps(3):
            fine = np.bool_(trial.number < 3)
            trial.report(
                1 / step, model=fine, constraints={"gap": fine} if how == "a value" else {}
            )

    limit = Constraint("gap", upper=0.5, check=None if how == "a value" else lambda fine: fine)
    with pytest.raises(StudyError, match="'gap' failed in all 4 trials") as caught:
        tune(given, study, constraints=[limit], xs=range(9), max_failures=4)
    assert "give the measured number itself, which acetune compares" in str(caught.value)
    assert len(states(study)) == 4
    assert {row["stratum"] for row in report_rows(study)} <= {"invalid", "unchecked"}
