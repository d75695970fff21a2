"""What the adapter writes to a study's storage, beside what Optuna itself keeps.

A report of Optuna is one float, so checks travel in attributes of the trial::

    ace:start          total_steps, interval and cost ratio, when training begins
    ace:check:<step>   the check made at that report, written before the report itself
    ace:hardware       what it runs on, where a check depends on that
    ace:end            how the trial ended, with the check made then, if any
    ace:goals          of the study: its limits

Each carries the number of its trial: Optuna's retry callback copies the attributes of a failed
trial to the next try, to which they do not belong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from acetune.core.goals import Constraint, Estimate, FailedCheck, Goals
from acetune.core.reason import Reason, Wording, stated
from acetune.core.report_values import from_json, to_json
from acetune.core.trial_record import State

START, CHECK, END, GOALS = "ace:start", "ace:check:", "ace:end", "ace:goals"
HARDWARE = "ace:hardware"

Measured = Mapping[str, Estimate | FailedCheck]


class Spent(NamedTuple):
    """What a trial has spent since it began: seconds and how often."""

    primary_s: float = 0.0
    iterations: int = 0
    snapshot_s: float = 0.0
    snapshots: int = 0


class StoredCheck(NamedTuple):
    """A check, and what its trial had spent by then."""

    step: int  # of the checkpoint that was checked
    measured: Measured
    check_s: Mapping[str, float]
    spent: Spent


class StoredStart(NamedTuple):
    """How a trial began."""

    total_steps: int | None
    interval: int | None
    ratio: float | None


class StoredEnd(NamedTuple):
    """How a trial ended."""

    state: State
    reason: Reason
    check: StoredCheck | None
    spent: Spent | None  # None where nobody has written it


# -- trials --------------------------------------------------------------------------------------


def write_start(number: int, start: StoredStart) -> dict[str, Any]:
    """The value of ``ace:start``."""
    return {"trial": number, **start._asdict()}


def read_start(number: int, attributes: Mapping[str, Any]) -> StoredStart | None:
    """How the trial began, or None if it has not begun."""
    found = own(number, attributes.get(START))
    if found is None:
        return None
    return StoredStart(found["total_steps"], found["interval"], found["ratio"])


def write_check(number: int, check: StoredCheck) -> dict[str, Any]:
    """The value of ``ace:check:<step>``."""
    return {"trial": number, **_check(check)}


def read_check(number: int, attributes: Mapping[str, Any], step: int) -> StoredCheck | None:
    """The check made at the report of ``step``, or None."""
    found = own(number, attributes.get(f"{CHECK}{step}"))
    return None if found is None else _as_check(found)


def write_end(number: int, end: StoredEnd) -> dict[str, Any]:
    """The value of ``ace:end``."""
    check = None if end.check is None else _check(end.check)
    spent = list(end.spent or Spent())
    return {
        "trial": number,
        "state": end.state,
        "reason": {**end.reason.wording._asdict(), "numbers": dict(end.reason.numbers)},
        "check": check,
        "spent": spent,
    }


def read_end(number: int, attributes: Mapping[str, Any]) -> StoredEnd | None:
    """How the trial ended, or None if it has not, or without acetune."""
    found = own(number, attributes.get(END))
    if found is None:
        return None
    check = None if found["check"] is None else _as_check(found["check"])
    return StoredEnd(found["state"], _reason(found["reason"]), check, Spent(*found["spent"]))


def _reason(found: Any) -> Reason:
    if isinstance(found, str):  # as earlier versions wrote it
        return stated("earlier", found)
    return Reason(Wording(found["code"], found["sentence"], found["short"]), found["numbers"])


def own(number: int, found: Any) -> Any:
    """The attribute if it is the trial's own, and was not inherited from one that failed."""
    return found if isinstance(found, dict) and found.get("trial") == number else None


def _check(check: StoredCheck) -> dict[str, Any]:
    return {
        "step": check.step,
        "measured": {name: to_json(result) for name, result in check.measured.items()},
        "check_s": dict(check.check_s),
        "spent": list(check.spent),
    }


def _as_check(found: Mapping[str, Any]) -> StoredCheck:
    measured = {name: from_json(result) for name, result in found["measured"].items()}
    return StoredCheck(found["step"], measured, found["check_s"], Spent(*found["spent"]))


# -- the study -----------------------------------------------------------------------------------


def write_goals(goals: Goals) -> list[dict[str, Any]]:
    """The value of ``ace:goals``: the limits. Directions are Optuna's own business."""
    return [
        {"name": c.name, "upper": c.upper, "lower": c.lower, "margin_se": c.margin}
        | ({} if c.scale is None else {"scale": c.scale})
        for c in goals.constraints
    ]


def read_goals(found: list[dict[str, Any]]) -> tuple[Constraint, ...]:
    """The limits of a study."""
    return tuple(Constraint(**limit) for limit in found)
