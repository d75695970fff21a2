"""ASHA by violation, then objective: by hand, and against the plain rule."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acetune.core.errors import GoalError
from acetune.core.goals import Constraint, FailedCheck
from acetune.policies import ASHALexicographic
from acetune.policies.stopper import Stopper
from core.test_against_reference import Pair, Study, studies
from properties import examples_or_more

from .plain import AshaLexRule


def stopper(policy: ASHALexicographic) -> Stopper:
    return Stopper(
        objective="loss", mode="min", constraints=[Constraint("g", upper=1.0)], policy=policy
    )


def test_all_reports_of_a_rung_are_ranked_together() -> None:
    study = stopper(ASHALexicographic(reduction_factor=1.01))  # nearly all go on

    def rank(value: float, g: float | FailedCheck | None) -> int | None:
        constraints = None if g is None else {"g": g}
        return study.start(len(study.history.trials), 9).observe(1, value, constraints).rank

    assert rank(2.0, 0.5) == 1  # valid
    assert rank(1.0, None) == 1  # unchecked: as if it were valid
    assert rank(0.0, 1.5) == 3  # invalid
    assert rank(0.0, 1.2) == 3  # less so
    assert rank(3.0, 0.0) == 3  # valid again
    assert rank(-9.0, FailedCheck("raised")) == 6
    assert rank(math.nan, None) == 7
    assert rank(math.nan, 0.0) == 7
    assert rank(0.0, 9.0) == 6  # before the failed check


def test_the_check_is_made_at_a_rung_if_the_checkpoint_may_win() -> None:
    study = stopper(ASHALexicographic())
    study.start("best", 9).observe(1, 0.5, {"g": 0.0})
    trial = study.start("a", 9)
    assert trial.check_due(1, 0.5) == 1
    assert trial.check_due(1, 0.51) is None
    assert trial.check_due(1, math.nan) is None
    trial.observe(1, 0.5, {"g": 0.0})
    assert trial.check_due(2, 0.0) is None  # no rung
    assert trial.check_due(4, 0.0) == 4
    assert trial.check_due(9, 0.0) == 9  # the last step
    assert trial.check_due(9, 0.6) is None
    assert stopper(ASHALexicographic(gate=False)).start("a", 9).check_due(1, math.nan) == 1


def test_one_in_four_rounded_up_goes_on() -> None:
    study = stopper(ASHALexicographic())
    first = study.start("a", 9).observe(1, 5.0, {"g": 3.0})
    assert first.reason == "rank 1 of 1 by violation and objective at the rung at step 1: kept"
    study.start("b", 9).observe(1, 1.0, {"g": 0.0})
    study.start("c", 9).observe(1, 2.0, {"g": 0.0})
    decision = study.start("d", 9).observe(1, 1.5)
    assert decision.reason == (
        "rank 2 of 4 by violation and objective at the rung at step 1: not in the best 1"
    )
    assert not study.start("e", 9).observe(1, 1.5).stop  # second of five


@pytest.mark.parametrize(
    "options", [{"reduction_factor": None}, {"min_steps": 1.0}, {"min_steps": 0}]
)
def test_bad_options_are_named(options: dict[str, Any]) -> None:
    (name, value) = next(iter(options.items()))
    with pytest.raises(GoalError, match=name) as caught:
        ASHALexicographic(**options)
    assert repr(value) in str(caught.value)


rules = st.builds(
    AshaLexRule,
    reduction_factor=st.sampled_from([4, 2, 3, 1.5]),
    min_steps=st.sampled_from([1, 1, 2]),
    gate=st.booleans(),
)


@examples_or_more(150)
@given(studies(rules, lengths=(3, 6, 10, 20, None, 1)))
def test_against_the_plain_rule(study: Study) -> None:
    Pair(study).play()
