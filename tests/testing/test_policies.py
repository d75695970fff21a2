"""What is wrong with a policy is found, and said."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from acetune import ACE, ACE2, NoStopping, Policy
from acetune.core.decision import Action, Decision
from acetune.core.history import History
from acetune.core.observation import Observation
from acetune.core.ranked_groups import Filing
from acetune.core.trial_record import Progress, TrialRecord
from acetune.testing import check_policy


@dataclass(frozen=True)
class GoOn(Policy):
    """The least that a policy can be."""

    def decide(
        self, trial: TrialRecord, report: Observation, filing: Filing | None, history: History
    ) -> Decision:
        return Decision(Action.CONTINUE, "always", report.stratum, step=report.step)


class NoDataclass(GoOn):
    def __init__(self, share: float) -> None:
        object.__setattr__(self, "share", share)


@dataclass(frozen=True)
class Counting(GoOn):
    seen: list[int] = field(default_factory=list)

    def decide(self, *arguments: Any) -> Decision:
        return Decision(Action.CONTINUE, "always")


@dataclass(frozen=True)
class Remembering(GoOn):
    """It keeps what it saw, where equality does not look."""

    def decide(
        self, trial: TrialRecord, report: Observation, filing: Filing | None, history: History
    ) -> Decision:
        seen = vars(self).setdefault("seen", [])
        seen.append(report.step)
        return Decision(Action.CONTINUE, "always", numbers={"seen": len(seen)})


@dataclass(frozen=True)
class ByName(GoOn):
    def decide(
        self, trial: TrialRecord, report: Observation, filing: Filing | None, history: History
    ) -> Decision:
        stop = str(report.trial).endswith("7")
        return Decision(Action.STOP if stop else Action.CONTINUE, "by its name")


@dataclass(frozen=True)
class Silent(GoOn):
    def decide(self, *arguments: Any) -> Decision:
        return Decision(Action.CONTINUE, "")


@dataclass(frozen=True)
class HalfRanked(GoOn):
    def decide(self, *arguments: Any) -> Decision:
        return Decision(Action.CONTINUE, "ranked", rank=1)


@dataclass(frozen=True)
class NoneBetter(GoOn):
    def decide(self, *arguments: Any) -> Decision:
        return Decision(Action.CONTINUE, "None of the others was better")


@dataclass(frozen=True)
class Unknown(GoOn):
    def decide(self, *arguments: Any) -> Decision:
        numbers: dict[str, Any] = {"limit": None}
        return Decision(Action.CONTINUE, "below {limit}", numbers=numbers)


@dataclass(frozen=True)
class NoCopy(GoOn):
    def may_check_best(self, trial: Progress) -> bool:
        return False


@dataclass(frozen=True)
class Ahead(GoOn):
    def due(self, trial: Progress, step: int, loss: float) -> int | None:
        return 3


@dataclass(frozen=True)
class Beyond(GoOn):
    def first_check(self, total_steps: int | None, costs: object) -> int | None:
        return 20


@pytest.mark.parametrize(
    "policy", [GoOn(), NoneBetter(), NoStopping(), ACE(interval=1), ACE2()], ids=repr
)
def test_a_good_one_passes(policy: Policy) -> None:
    check_policy(policy)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (NoDataclass(0.5), r"its options {} do not make it again"),
        (Counting([1]), r"it has no hash .*@dataclasses.dataclass\(frozen=True\)"),
        (Remembering(), "decides otherwise at step"),
        (ByName(), "with other names are decided on otherwise; use trial.order"),
        (Silent(), "the reason of .* reads ''|without a reason"),
        (HalfRanked(), "only one of rank and of"),
        (Unknown(), "limit of .* is None"),
        (NoCopy(), r"may_check_best\(\) was False: no copy"),
        (Ahead(), r"due\(\) at step 1 must be None, that step or the best one, 1; got 3"),
        (Beyond(), r"first_check\(1, ...\) must be a step of the trial, got 20"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Policy) else "",
)
def test_what_is_wrong_is_said(policy: Policy, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_policy(policy)


def test_a_class_is_no_policy() -> None:
    with pytest.raises(AssertionError, match=r"does not inherit from acetune.Policy"):
        check_policy(GoOn)  # type: ignore[arg-type]
