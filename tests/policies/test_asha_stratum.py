"""ASHA inside strata: by hand, and against the plain rule."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acetune.core.cost import best_interval
from acetune.core.errors import GoalError
from acetune.core.goals import Constraint
from acetune.policies import ASHAStratum
from acetune.policies.stopper import Stopper
from core.test_against_reference import Pair, Study, studies
from properties import examples_or_more

from .plain import AshaStratumRule


def stopper(policy: ASHAStratum) -> Stopper:
    return Stopper(
        objective="loss", mode="min", constraints=[Constraint("g", upper=1.0)], policy=policy
    )


def test_the_constraint_is_due_at_every_rung_and_at_the_last_step() -> None:
    trial = stopper(ASHAStratum()).start("a", 20)
    due = []
    for step in range(1, 21):
        if trial.check_due(step, 0.0) is not None:
            due.append(step)
            trial.observe(step, 0.0, {"g": 0.0})
        else:
            trial.observe(step, 0.0)
    assert due == [1, 4, 16, 20]
    assert trial.state == "finished"


def test_there_is_no_gate() -> None:
    study = stopper(ASHAStratum())
    study.start("best", 9).observe(1, 0.0, {"g": 0.0})
    assert study.start("a", 9).check_due(1, 5.0) == 1
    assert study.start("b", 9).check_due(1, math.nan) == 1


def test_reports_are_ranked_inside_their_stratum() -> None:
    study = stopper(ASHAStratum())
    assert not study.start("v1", 9).observe(1, 0.0, {"g": 0.0}).stop
    assert not study.start("i1", 9).observe(1, 5.0, {"g": 2.0}).stop  # the first invalid one
    decision = study.start("v2", 9).observe(1, 0.5, {"g": 0.0})
    assert decision.stop
    assert decision.reason == ("rank 2 of 2 valid reports at the rung at step 1: not in the best 1")
    # by violation first, then by objective
    better = study.start("i2", 9).observe(1, 9.0, {"g": 1.5})
    assert (better.stop, better.rank, better.of, better.stratum) == (False, 1, 2, "invalid")
    assert study.start("i3", 9).observe(1, 8.0, {"g": 1.5}).rank == 1
    assert study.start("i4", 9).observe(1, 9.0, {"g": 1.5}).rank == 2
    assert study.start("u1", 9).observe(1, 99.0).reason == (
        "rank 1 of 1 unchecked reports at the rung at step 1: kept"
    )


def test_one_in_four_rounded_up_goes_on() -> None:
    study = stopper(ASHAStratum())
    for index in range(4):
        study.start(index, 9).observe(1, float(index), {"g": 0.0})
    decision = study.start("a", 9).observe(1, 0.5, {"g": 0.0})  # second of five
    assert (decision.stop, decision.rank, decision.numbers["places"]) == (False, 2, 2)
    assert study.start("b", 9).observe(1, 1.0, {"g": 0.0}).stop  # third of six


def test_a_rung_is_taken_by_the_first_report_at_or_past_it() -> None:
    study = stopper(ASHAStratum())
    trial = study.start("a", 100)
    assert trial.check_due(7, 0.0) == 7
    assert trial.observe(7, 0.0, {"g": 0.0}).of == 1  # at the rung of step 4
    assert trial.check_due(8, 0.0) is None
    assert trial.observe(8, 0.0).reason == "step 8 is between rungs"  # that of step 1 stays empty
    assert study.start("b", 100).observe(4, 1.0, {"g": 0.0}).of == 2


def test_the_adaptive_interval_is_that_of_theorem_1() -> None:
    policy = ASHAStratum(interval="adaptive", truncation=0.5)
    study = stopper(policy)
    assert study.start("unknown T").interval == 1
    assert study.start("T = 1", 1).interval == 1
    first = study.start("no check timed", 16)
    assert first.interval == 16
    first.observe(1, 0.0, {"g": 0.0}, primary_cost_s=1.0, constraint_cost_s=13.0)
    assert [best_interval(0.5, 13.0, T) for T in (16, 8)] == [1, 8]
    assert study.start("cheap", 16).interval == 1
    assert study.start("dear", 8).interval == 8


def test_once_at_the_end_means_the_best_checkpoint() -> None:
    study = stopper(ASHAStratum(interval="adaptive"))
    trial = study.start("a", 5)
    assert trial.interval == 5
    for step, value in enumerate((3.0, 1.0, 2.0, 2.0), start=1):
        assert trial.check_due(step, value) is None
        assert trial.observe(step, value).stratum == "unchecked"
    assert trial.finish_due() == 2
    assert trial.check_due(5, 2.0) == 2
    assert trial.check_due(5, 0.5) == 5
    assert trial.check_due(5, 2.0, snapshot=False) == 5


def test_a_trial_that_ends_between_rungs_is_checked_there() -> None:
    study = stopper(ASHAStratum())
    trial = study.start("a", 9)
    trial.observe(1, 0.0, {"g": 0.0})
    assert trial.finish_due() is None
    trial.observe(2, 0.0)
    assert trial.finish_due() == 2


@pytest.mark.parametrize(
    "options",
    [
        {"reduction_factor": 0.5},
        {"min_steps": -1},
        {"interval": "end"},
        {"interval": True},
        {"interval": 2},
        {"truncation": 1.5},
    ],
)
def test_bad_options_are_named(options: dict[str, Any]) -> None:
    (name, value) = next(iter(options.items()))
    with pytest.raises(GoalError, match=name) as caught:
        ASHAStratum(**options)
    assert repr(value) in str(caught.value)


rules = st.builds(
    AshaStratumRule,
    reduction_factor=st.sampled_from([4, 2, 3, 1.5]),
    min_steps=st.sampled_from([1, 1, 2]),
    interval=st.sampled_from([1, "adaptive"]),
    truncation=st.sampled_from([0.25, 0.5, 0.0, 1.0]),
)


@examples_or_more(200)
@given(studies(rules, lengths=(3, 6, 10, 20, None, 1)))
def test_against_the_plain_rule(study: Study) -> None:
    Pair(study).play()
