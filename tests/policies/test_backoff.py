"""Back-off: by hand, and against the plain rule."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acetune.core.errors import GoalError
from acetune.core.goals import Constraint, FailedCheck
from acetune.policies import ACE, Backoff
from acetune.policies.stopper import Stopper
from core.test_against_reference import Pair, Study, studies
from properties import examples_or_more

from .plain import BackoffRule


def stopper(policy: Backoff | ACE) -> Stopper:
    return Stopper(
        objective="loss", mode="min", constraints=[Constraint("g", upper=1.0)], policy=policy
    )


def checked_at(policy: Backoff, found: dict[int, float | FailedCheck], steps: int) -> list[int]:
    """Where a trial is checked that improves at each step; ``found``: 2.0 elsewhere."""
    trial = stopper(policy).start("a", steps)
    checked = []
    for step in range(1, steps + 1):
        due = trial.check_due(step, -float(step))
        assert due in (None, step)
        measured = None if due is None else {"g": found.get(step, 2.0)}
        trial.observe(step, -float(step), measured)
        if due is not None:
            checked.append(step)
    return checked


# -- when to check -------------------------------------------------------------------------------


def test_each_violation_in_a_row_multiplies_the_gap() -> None:
    policy = Backoff(truncation=0.0, growth=2)
    assert checked_at(policy, {}, 40) == [1, 3, 7, 15, 31, 40]  # the last step always
    assert checked_at(policy, {3: 0.0}, 15) == [1, 3, 4, 6, 10, 15]  # valid: begins anew
    assert checked_at(policy, dict.fromkeys(range(9), 1.0), 8) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_the_gap_is_rounded_down() -> None:
    """1.5, 2.25, 3.375, 5.06 and 7.59 steps."""
    assert checked_at(Backoff(truncation=0.0, growth=1.5), {}, 20) == [1, 2, 4, 7, 12, 19, 20]


def test_a_failed_check_is_a_violation() -> None:
    found = {1: FailedCheck("raised"), 3: math.nan}
    assert checked_at(Backoff(truncation=0.0, growth=2), found, 8) == [1, 3, 7, 8]


def test_a_growth_of_one_checks_every_step() -> None:
    assert checked_at(Backoff(truncation=0.0, growth=1), {}, 5) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("growth", [1e9, 1e300])
def test_any_growth_will_do(growth: float) -> None:
    assert checked_at(Backoff(truncation=0.0, growth=growth), {}, 9) == [1, 9]


def test_the_gate_skips_what_cannot_win_and_the_step_after_is_due_again() -> None:
    study = stopper(Backoff(truncation=0.0))
    study.start("best", 9).observe(1, 0.5, {"g": 1.0})
    trial = study.start("a", 9)
    assert trial.check_due(1, 0.51) is None
    assert trial.check_due(1, math.nan) is None
    trial.observe(1, 0.51)
    assert trial.check_due(2, 0.5) == 2
    assert trial.check_due(9, 0.51) is None


def test_a_trial_that_ends_by_itself_is_checked_unless_it_just_was() -> None:
    trial = stopper(Backoff(truncation=0.0, growth=4)).start("a")
    trial.observe(1, 0.1, {"g": 2.0})
    assert trial.finish_due() is None
    trial.observe(2, 0.3)
    assert trial.finish_due() == trial.finish_due(snapshot=False) == 2  # not the best one


def test_a_new_attempt_goes_on_counting() -> None:
    study = stopper(Backoff(truncation=0.0, growth=2))
    first = study.start("a", 40)
    for step in range(1, 9):
        first.observe(step, 0.0, {"g": 2.0} if step in (1, 3, 7) else None)
    assert study.start("a", 40, resumed_from=6).check_due(7, 0.0) == 7  # four after step 3
    first = study.start("a", 40, resumed_from=2)
    assert (first.check_due(3, 0.0), first.record.progress.violations) == (3, 1)
    assert study.start("a", 40).check_due(1, 0.0) == 1


# -- whom to stop --------------------------------------------------------------------------------


def test_strata_are_ranked_as_by_ace() -> None:
    """Reports between checks are unchecked, whatever was found before."""
    study, ace = (stopper(p) for p in (Backoff(truncation=0.5), ACE(truncation=0.5)))
    reports = [(3.0, 2.0), (1.0, 5.0), (1.0, None), (2.0, None), (9.0, 0.0), (8.0, 2.5)]
    for index, (value, g) in enumerate(reports):
        measured = None if g is None else {"g": g}
        ours = study.start(index, 9).observe(1, value, measured)
        assert ours == ace.start(index, 9).observe(1, value, measured)
    trial = study.start("a", 9)
    trial.observe(1, 0.0, {"g": 1.5})
    assert trial.observe(2, 0.0).stratum == "unchecked"


def test_reasons() -> None:
    study = stopper(Backoff(truncation=0.5))
    kept = study.start("a", 9).observe(3, 1.0, {"g": 1.5})
    assert kept.reason == "rank 1 of 1 invalid reports at step 3: kept"
    cut = study.start("b", 9).observe(3, 0.0, {"g": 1.75})
    assert cut.reason == "rank 2 of 2 invalid reports at step 3: in the worst 50%"


# -- options, and the plain rule -----------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"growth": 0.5},
        {"growth": math.nan},
        {"growth": math.inf},
        {"growth": True},
        {"growth": "2"},
        {"truncation": 2},
        {"truncation": -0.1},
        {"truncation": None},
    ],
)
def test_bad_options_are_named(options: dict[str, Any]) -> None:
    (name, value) = next(iter(options.items()))
    with pytest.raises(GoalError, match=name) as caught:
        Backoff(**options)
    assert repr(value) in str(caught.value)


rules = st.builds(
    BackoffRule,
    truncation=st.sampled_from([0.35, 0.25, 0.0, 0.1, 0.5, 1.0]),
    growth=st.sampled_from([1.2, 2, 1.5, 3, 1, 1e6]),
)


@examples_or_more(80)
@given(studies(rules, lengths=(6, 10, 20, 40, None, 3, 1)))
def test_against_the_plain_rule(study: Study) -> None:
    Pair(study).play()
