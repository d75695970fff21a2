"""The bandit policy: by hand, and against the plain rule."""

from __future__ import annotations

import math
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acetune.core.errors import GoalError
from acetune.policies import Bandit
from acetune.policies.stopper import Stopper
from core.test_against_reference import Pair, Study, studies
from properties import examples_or_more

from .plain import BanditRule

Mode = Literal["min", "max"]


def judged(policy: Bandit, mode: Mode, best: float, value: float) -> bool:
    """Whether a trial stops when another one has reported ``best``."""
    study = Stopper(objective="value", mode=mode, policy=policy)
    study.start("best", 9).observe(1, best)
    return study.start("other", 9).observe(1, value).stop


@pytest.mark.parametrize(
    ("mode", "best", "at_the_limit", "beyond"),
    [
        ("max", 5.0, 4.0, 3.99),  # 5 / 1.25
        ("min", 4.0, 5.0, 5.01),  # 4 * 1.25
        ("max", -4.0, -5.0, -5.01),
        ("min", -5.0, -4.0, -3.99),
        ("max", 0.0, 0.0, -0.01),  # a ratio of nothing is nothing
        ("min", 0.0, 0.0, 0.01),
        ("max", 5.0, 9.0, 3.0),
    ],
)
def test_slack_as_a_ratio(mode: Mode, best: float, at_the_limit: float, beyond: float) -> None:
    policy = Bandit(slack_ratio=0.25)
    assert not judged(policy, mode, best, at_the_limit)
    assert judged(policy, mode, best, beyond)


@pytest.mark.parametrize(
    ("mode", "best", "at_the_limit", "beyond"),
    [
        ("max", 5.0, 4.75, 4.74),
        ("min", 5.0, 5.25, 5.26),
        ("max", -5.0, -5.25, -5.26),
        ("min", 0.0, 0.25, 0.26),
    ],
)
def test_slack_as_an_amount(mode: Mode, best: float, at_the_limit: float, beyond: float) -> None:
    policy = Bandit(slack_amount=0.25)
    assert not judged(policy, mode, best, at_the_limit)
    assert judged(policy, mode, best, beyond)


def test_one_slack_is_in_force() -> None:
    assert (Bandit().slack_ratio, Bandit().slack_amount) == (0.1, None)
    assert Bandit(slack_amount=0).slack_ratio is None
    assert Bandit(slack_ratio=0).slack_ratio == 0
    with pytest.raises(GoalError, match=r"only one .* got 0\.1 and 0\.2"):
        Bandit(slack_ratio=0.1, slack_amount=0.2)


def test_the_best_of_all_steps_and_all_trials_counts_and_so_does_the_own_best() -> None:
    study = Stopper(objective="value", mode="max", policy=Bandit(slack_ratio=1.0))
    gone = study.start("gone", 9)
    gone.observe(1, 8.0)
    gone.fail("on purpose")
    trial = study.start("a", 9)
    assert not trial.observe(1, 4.0).stop
    assert not trial.observe(2, 0.0).stop  # its best is 4
    decision = study.start("b", 9).observe(5, 3.9)
    assert decision.stop
    assert decision.reason == "its best by step 5 is not within a factor 2 of the best of all"


def test_what_an_attempt_reached_stays_the_best_when_it_is_replaced() -> None:
    study = Stopper(objective="value", mode="min", policy=Bandit(slack_ratio=0.0))
    study.start("a", 9).observe(1, 1.0)
    assert study.start("a", 9).observe(1, 2.0).stop


def test_no_trial_stops_in_its_first_steps() -> None:
    study = Stopper(objective="value", mode="min", policy=Bandit(slack_amount=0.5, min_steps=3))
    study.start("best", 9).observe(1, 0.0)
    trial = study.start("a", 9)
    assert trial.observe(2, 1.0).reason == "within the first 3 steps"
    decision = trial.observe(3, 1.0)
    assert decision.reason == "its best by step 3 is not within 0.5 of the best of all"


@pytest.mark.parametrize(
    ("best", "value", "stops"),
    [
        (math.nan, math.nan, False),
        (math.nan, 1.0, False),
        (1.0, math.nan, True),
        (1.0, math.inf, True),
        (-math.inf, 1.0, False),
        (1e308, 1.7e308, False),  # the threshold overflows
    ],
)
@pytest.mark.parametrize("policy", [Bandit(slack_ratio=1.0), Bandit(slack_amount=1e308)])
def test_values_that_are_not_finite(policy: Bandit, best: float, value: float, stops: bool) -> None:
    assert judged(policy, "min", best, value) is stops


@pytest.mark.parametrize(
    "options",
    [
        {"slack_ratio": -0.1},
        {"slack_ratio": math.nan},
        {"slack_ratio": True},
        {"slack_amount": math.inf},
        {"slack_amount": "0.1"},
        {"min_steps": 0},
        {"constraints": None},
    ],
)
def test_bad_options_are_named(options: dict[str, Any]) -> None:
    (name, value) = next(iter(options.items()))
    with pytest.raises(GoalError, match=name) as caught:
        Bandit(**options)
    assert repr(value) in str(caught.value)


slacks = st.sampled_from([(0.1, None), (0.0, None), (1.0, None), (None, 0.25), (None, 0.0)])
rules = st.builds(
    lambda slack, min_steps, constraints: BanditRule(*slack, min_steps, constraints),
    slacks,
    min_steps=st.sampled_from([1, 1, 2, 3]),
    constraints=st.sampled_from(["callback", "callback", "after"]),
)


@examples_or_more(120)
@given(studies(rules, lengths=(3, 6, 10, None, 1)))
def test_against_the_plain_rule(study: Study) -> None:
    Pair(study).play()
