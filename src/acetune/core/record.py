"""What is kept of one trial: how far it came, what it reported, the best that was found in it."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from acetune.core.decision import Decision, Stratum
from acetune.core.goals import Estimate, FailedCheck
from acetune.core.groups import Group, GroupId, Key
from acetune.core.observation import Observation, TrialId

State: TypeAlias = Literal["running", "finished", "stopped", "failed", "interrupted"]


class Checkpoint(NamedTuple):
    """A configuration at a step, with what was measured of it."""

    trial: TrialId
    attempt: int
    step: int
    loss: float
    measured: Mapping[str, Estimate | FailedCheck]
    violation: float


@dataclass(slots=True)
class Progress:
    """How far an attempt has come: all that is needed to say whether a check is due.

    Small on purpose: workers keep one of their own, so that asking costs no message.
    """

    total_steps: int | None = None
    interval: int | None = 1  # 1: every iteration; else once, at the end (T, or None if unknown)
    last_step: int = 0
    last_loss: float = math.inf
    last_checked: bool = False  # the last reported step itself was checked
    best_step: int = 0
    best_loss: float = math.inf
    loss_sum: float = 0.0  # over all reports; infinite once one was
    checks: int = 0

    def advance(self, step: int, loss: float, checked_step: int | None) -> None:
        """Take a report into account."""
        self.last_step, self.last_loss = step, loss
        self.last_checked = checked_step == step
        self.loss_sum += loss
        if loss < self.best_loss or self.best_step == 0:
            self.best_step, self.best_loss = step, loss
        if checked_step is not None:
            self.checks += 1


_STRATA: tuple[Stratum, ...] = ("valid", "invalid", "unchecked")


class ReportLog:
    """The reports of one attempt, a column a field: about 50 bytes a report."""

    __slots__ = ("digest", "loss", "of", "rank", "step", "stratum")

    def __init__(self) -> None:
        self.step = array("q")
        self.loss = array("d")
        self.stratum = array("b")
        self.digest = array("q")  # of what was measured, to know a repeated report by
        self.rank = array("q")
        self.of = array("q")

    def __len__(self) -> int:
        return len(self.step)

    def append(self, report: Observation, decision: Decision) -> None:
        """Add a report with its decision."""
        check = report.check
        self.step.append(report.step)
        self.loss.append(report.loss)
        self.rank.append(decision.rank or 0)
        self.of.append(decision.of or 0)
        if check is None:
            self.stratum.append(2)
            self.digest.append(0)
        else:
            self.stratum.append(0 if check.valid else 1)
            self.digest.append(digest(check.measured))

    def find(self, step: int) -> int | None:
        """Index of the report at ``step``, or None."""
        at = bisect_left(self.step, step)
        return at if at < len(self.step) and self.step[at] == step else None

    def stratum_at(self, index: int) -> Stratum:
        """Stratum of the report at ``index``."""
        return _STRATA[self.stratum[index]]


_NONE = (math.nan, math.nan)


def digest(measured: Mapping[str, Estimate | FailedCheck]) -> int:
    """A number that is the same for the same measurements."""
    numbers = array("d")
    for found in measured.values():
        # adding 0.0 makes -0.0 and 0.0 one number
        numbers.extend((found.value + 0.0, found.stderr) if isinstance(found, Estimate) else _NONE)
    return hash(numbers.tobytes())  # of the bytes: hash(-1.0) and hash(-2.0) are the same


@dataclass(slots=True)
class TrialRecord:
    """One trial, its latest attempt."""

    id: TrialId
    attempt: int = 1
    order: int = 0  # its place among the trials, as they started; a new attempt keeps it
    progress: Progress = field(default_factory=Progress)
    cost_ratio: float | None = None
    state: State = "running"
    reason: str = ""
    gated_at: int | None = None  # first step whose due check was skipped: it could not win
    best_valid: Checkpoint | None = None
    nearest: Checkpoint | None = None  # least violating checked checkpoint
    log: ReportLog = field(default_factory=ReportLog)
    # where its reports are ranked: the step, the group and the key of each, side by side
    filed_steps: list[int] = field(default_factory=list)
    filed_groups: list[Group] = field(default_factory=list)
    filed_keys: list[Key] = field(default_factory=list)
    stop_decision: Decision | None = None

    def filed_in(self, group_id: GroupId) -> bool:
        """Whether a report of this attempt stands in the group."""
        return any(group.id == group_id for group in self.filed_groups)

    def file(self, step: int, group: Group, key: Key) -> None:
        """Remember where a report is ranked."""
        self.filed_steps.append(step)
        self.filed_groups.append(group)
        self.filed_keys.append(key)
