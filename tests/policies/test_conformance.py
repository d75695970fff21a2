"""Every policy keeps to the protocol, as ``acetune.testing`` checks it, and to a little more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from acetune.core.errors import GoalError
from acetune.policies import POLICY_NAMES, Policy, parse_policy
from acetune.testing._policies import POLICY_CHECKS, RandomStudy, played

SETTINGS = (
    *POLICY_NAMES,
    "ace:truncation=0.5",
    "ace:truncation=1.0,min_steps=3",
    "ace-noskip:interval=1",
    "ace-hard:interval=1,min_steps=2",
    "ace-betaT:gate=False",
    "asha:reduction_factor=2",
    "asha:reduction_factor=3,min_steps=2",
    "hyperband:reduction_factor=2,brackets=2",
    "hyperband:reduction_factor=1.5,brackets=5,min_steps=2",
    "median:min_trials=1,min_steps=3",
    "bandit:slack_ratio=0.0",
    "bandit:slack_ratio=2.0,min_steps=3",
    "bandit:slack_amount=0.0",  # any other amount has a unit
    "truncation:truncation=0.5,every=2,min_steps=3",
    "truncation:truncation=1.0,min_steps=5",
    "curve:probability=0.5,min_finished=3,min_steps=2",
    "curve:probability=1.0,spacing=1.5",
    "asha-stratum:reduction_factor=2,min_steps=2",
    "asha-stratum-adaptive:reduction_factor=3,truncation=0.5",
    "asha-lex:reduction_factor=2",
    "asha-lex:reduction_factor=1.5,gate=False",
    "backoff:truncation=0.5,growth=2",
    "backoff:truncation=0.0,growth=1",
    "ace2:spacing=0,remember=False",
    "ace2:truncation=0.5,invalid_truncation=0.1,patience=0.5,defer=False",
    "ace2:spacing=2.5,patience=0.0",
    "adaptive:spacing=0,hope=0.5",
    "adaptive:invalid_truncation=0.0,hope=0.0,one_by_one=False",
)
every_policy = pytest.mark.parametrize("name", SETTINGS)


@every_policy
@pytest.mark.parametrize("check", POLICY_CHECKS, ids=lambda check: check.__name__)
def test_it_keeps_to_the_protocol(name: str, check: Callable[[Policy], None]) -> None:
    check(parse_policy(name))


# -- what ours do beyond it ----------------------------------------------------------------------


@every_policy
@pytest.mark.parametrize("power", [-20, -1, 1, 20])
def test_the_unit_of_the_objective_does_not_matter(name: str, power: int) -> None:
    policy = parse_policy(name)
    scaled = RandomStudy(policy, seed=1, value=lambda value: value * 2.0**power)
    assert scaled.answers == played(policy, 1).answers
    assert scaled.asked_for == played(policy, 1).asked_for


@pytest.mark.parametrize("name", [name for name in SETTINGS if "+after" in name])
def test_those_that_check_after_the_run_say_so(name: str) -> None:
    assert parse_policy(name).checks_after_run


@every_policy
def test_an_option_it_does_not_have_is_refused(name: str) -> None:
    with pytest.raises(GoalError, match="colour"):
        parse_policy(f"{name}{',' if ':' in name else ':'}colour=3")


def test_names_stand_for_different_policies() -> None:
    assert len({parse_policy(name) for name in POLICY_NAMES}) == len(POLICY_NAMES)


@pytest.mark.parametrize("text", ["", "acee", "ACE", "ace:truncation", "ace:truncation=2"])
def test_a_policy_that_does_not_exist_is_named(text: str) -> None:
    with pytest.raises(GoalError) as caught:
        parse_policy(text)
    assert repr(text.partition(":")[0]) in str(caught.value) or "truncation" in str(caught.value)
