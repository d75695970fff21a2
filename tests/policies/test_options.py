"""What the study file says of a policy must not change: a study begun before goes on by it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from acetune import ACE, ACE2, Bandit, Policy
from acetune.core.decision import Action, Decision
from acetune.core.errors import GoalError
from acetune.core.history import History
from acetune.core.observation import Observation
from acetune.core.ranked_groups import Filing
from acetune.core.trial_record import TrialRecord
from acetune.policies import POLICY_NAMES, parse_policy

# as the study files of the first version have it: a policy and its options, as written and stored
_LINES = (Path(__file__).parent / "stored_options.txt").read_text().splitlines()
STORED = {text: stored for text, _, stored in (line.partition(" ") for line in _LINES)}


def test_every_name_is_here() -> None:
    assert set(POLICY_NAMES) <= set(STORED)


@pytest.mark.parametrize(("text", "stored"), STORED.items(), ids=list(STORED))
def test_the_study_file_says_the_same_as_ever(text: str, stored: str) -> None:
    policy = parse_policy(text)
    assert json.dumps({"name": type(policy).__name__, **policy.options()}) == stored
    options = ", ".join(f"{name}={value!r}" for name, value in policy.options().items())
    assert repr(policy) == f"{type(policy).__name__}({options})"


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_an_option_cannot_be_changed_afterwards(name: str) -> None:
    policy = parse_policy(name)
    for option, value in policy.options().items():
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(policy, option, value)


def test_options_may_be_given_by_place() -> None:
    assert ACE(0.5, 1, False, "first-violation", 3) == ACE(
        truncation=0.5, interval=1, gate=False, stopping="first-violation", min_steps=3
    )
    assert Bandit(None, 0.5, 2, "after").options() == {
        "slack_ratio": None,
        "slack_amount": 0.5,
        "min_steps": 2,
        "constraints": "after",
    }
    assert dataclasses.replace(ACE2(), spare=False) == ACE2(spare=False)


class GoOn(Policy):
    """The least that a policy can be."""

    def decide(
        self, trial: TrialRecord, report: Observation, filing: Filing | None, history: History
    ) -> Decision:
        return Decision(Action.CONTINUE, "always", report.stratum, step=report.step)


def test_a_policy_that_is_no_dataclass_is_told_how_to_be_one() -> None:
    with pytest.raises(
        GoalError, match=r"options of GoOn .* @dataclasses.dataclass\(frozen=True\)"
    ):
        GoOn().options()
