"""What is kept of one trial: how far it came, what it reported, the best that was found in it."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import Literal, NamedTuple, TypeAlias

from acetune.core.decision import INVALID, STRATA, UNCHECKED, VALID, Decision, Stratum
from acetune.core.errors import ReportError
from acetune.core.goals import Estimate, FailedCheck
from acetune.core.learning import Trend, combined
from acetune.core.observation import CheckResult, Observation, TrialId
from acetune.core.ranked_groups import GroupId, Key
from acetune.core.reason import NO_REASON, Reason
from acetune.core.report_values import require_total_steps

State: TypeAlias = Literal["running", "finished", "stopped", "failed", "interrupted"]


class Checkpoint(NamedTuple):
    """A configuration at a step, with what was measured of it."""

    trial: TrialId
    attempt: int
    step: int
    loss: float
    measured: Mapping[str, Estimate | FailedCheck]
    violation: float


_new = tuple.__new__  # of a Checkpoint: half the time of calling the class

# What a check found: the step of the report that it came with, the stratum, the violation, the step
# of the checkpoint that was checked, and how far beyond each limit it lies (relative_excesses of
# Goals). A plain tuple: there is one for every check, and the garbage collector leaves it alone.
Verdict: TypeAlias = tuple[int, Stratum, float, int, tuple[float, ...]]


@dataclass(slots=True)
class Progress:
    """How far an attempt has come: all that is needed to say whether a check is due.

    Small on purpose: workers keep one of their own, so that asking costs no message.
    """

    total_steps: int | None = None
    # the first iteration at which a check is due; T: once, at the end. None: no such step is known
    interval: int | None = 1
    last_step: int = 0
    last_loss: float = math.inf
    last_checked: bool = False  # the last reported step itself was checked
    best_step: int = 0
    best_loss: float = math.inf
    best_checked: bool = False  # the best reported step was checked
    loss_sum: float = 0.0  # over all reports; infinite once one was
    checks: int = 0
    checked_at: int = 0  # the last report that came with a check
    violations: int = 0  # checks found invalid since the last valid one
    primary_s: float = 0.0  # what its training has cost, over so many iterations,
    iterations: int = 0
    last_check_s: float = 0.0  # and its last check
    excess: float = math.nan  # of the last check, see combined(); NaN before one
    trend: Trend | None = None  # what the study says, for policies that learn

    @property
    def planned(self) -> bool:
        """Whether its first check has a step: not where it reports past ``Trial``, unchecked."""
        return self.interval is not None

    def advance(
        self,
        step: int,
        loss: float,
        checked_step: int | None,
        valid: bool | None = None,
        excess: float = math.nan,
        primary_s: float | None = None,
        check_s: Mapping[str, float] | None = None,
    ) -> None:
        """Take a report into account, and what it has cost."""
        if primary_s is not None:
            self.primary_s += primary_s
            self.iterations += step - self.last_step  # a report may cover several iterations
        if check_s:
            self.last_check_s = sum(check_s.values())
        self.last_step, self.last_loss = step, loss
        self.last_checked = checked_step == step
        self.loss_sum += loss
        # a best step of 0 is none yet, or a step of Optuna's, which begin there
        if loss < self.best_loss or (self.best_step == 0 and self.best_loss == math.inf):
            self.best_step, self.best_loss, self.best_checked = step, loss, False
        if checked_step is not None:
            self.best_checked = self.best_checked or checked_step == self.best_step
            self.checks += 1
            self.checked_at = step
            self.violations = 0 if valid else self.violations + 1
            self.excess = excess

    def relive(self, before: TrialRecord, upto: int) -> None:
        """Take over what an attempt had reported up to a step, from whose checkpoint this goes on.

        What each report cost is not kept; a configuration is taken to cost the same throughout.
        """
        log, old = before.log, before.progress
        excesses = {reported: combined(excess) for reported, *_, excess in before.verdicts}
        for step, loss, stratum in zip(log.step, log.loss, log.stratum, strict=True):
            if step > upto:
                break
            checked = None if stratum == UNCHECKED else step
            self.advance(step, loss, checked, stratum == VALID, excesses.get(step, math.nan))
        if self.last_step and old.iterations:
            self.iterations = self.last_step
            self.primary_s = old.primary_s / old.iterations * self.iterations
        if self.checks:
            self.last_check_s = old.last_check_s


class ReportLog:
    """The reports of one attempt, a column a field: about 40 bytes a report."""

    __slots__ = ("digest", "loss", "of", "rank", "step", "stratum")

    def __init__(self) -> None:
        self.step = array("q")
        self.loss = array("d")
        self.stratum = array("b")
        self.rank = array("q")
        self.of = array("q")
        self.digest: dict[int, int] = {}  # step -> of what was measured: to know it again by

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
            self.stratum.append(UNCHECKED)
        else:
            self.stratum.append(VALID if check.valid else INVALID)
            if check.measured:
                self.digest[report.step] = digest(check.measured)

    def copy_to(self, other: ReportLog, index: int) -> None:
        """Give another log the report at ``index``."""
        for column in ("step", "loss", "stratum", "rank", "of"):
            getattr(other, column).append(getattr(self, column)[index])
        step = self.step[index]
        if step in self.digest:
            other.digest[step] = self.digest[step]

    def find(self, step: int) -> int | None:
        """Index of the report at ``step``, or None."""
        at = bisect_left(self.step, step)
        return at if at < len(self.step) and self.step[at] == step else None

    def stratum_at(self, index: int) -> Stratum:
        """Stratum of the report at ``index``."""
        return STRATA[self.stratum[index]]


_NONE = (math.nan, math.nan)
_pack = Struct("dd").pack


def digest(measured: Mapping[str, Estimate | FailedCheck]) -> int:
    """A number that is the same for the same measurements; 0 without any, which nobody keeps."""
    if not measured:
        return 0
    if len(measured) == 1:  # nearly always
        for name, found in measured.items():
            value, stderr = found if isinstance(found, Estimate) else _NONE
            return hash((name, _pack(value + 0.0, stderr)))
    parts: list[str | bytes] = []
    # in whatever order they were measured
    for name in sorted(measured):
        found = measured[name]
        value, stderr = found if isinstance(found, Estimate) else _NONE
        # as bytes: hash(-1.0) and hash(-2.0) are the same; 0.0 makes one of -0.0 and 0.0
        parts += (name, _pack(value + 0.0, stderr))
    return hash(tuple(parts))


@dataclass(slots=True)
class TrialRecord:
    """One trial, its latest attempt."""

    id: TrialId
    attempt: int = 1
    order: int = 0  # its place among the trials, as they started; a new attempt keeps it
    progress: Progress = field(default_factory=Progress)
    cost_ratio: float | None = None
    state: State = "running"
    reason: Reason = NO_REASON
    gated_at: int | None = None  # first step whose due check was skipped: it could not win
    best_valid: Checkpoint | None = None
    nearest: Checkpoint | None = None  # least violating checked checkpoint
    log: ReportLog = field(default_factory=ReportLog)
    filings: list[tuple[int, GroupId, Key]] = field(default_factory=list)  # step, where, by what
    stop_decision: Decision | None = None
    verdicts: list[Verdict] = field(default_factory=list)  # of the reports that came with a check
    # made outside a report: after how many of all trials, of which step, how far beyond each limit
    late_checks: tuple[tuple[int, int, tuple[float, ...]], ...] = ()
    # what came with the last report, or the check after it: for those who write it down
    last_check: CheckResult | None = None

    @property
    def last_excess(self) -> tuple[int, float] | None:
        """Step and excess of the last checkpoint whose check did not fail; None without one."""
        for *_, step, beyond in reversed(self.verdicts):
            excess = combined(beyond)
            if not math.isnan(excess):
                return step, excess
        return None

    def declare(self, total_steps: int) -> None:
        """The last step became known. Raises where it contradicts what was reported or told."""
        total, progress = require_total_steps(total_steps), self.progress
        if total is not None and total < progress.last_step:
            raise ReportError(
                f"total_steps={total} is below step {progress.last_step}, which trial {self.id!r} "
                "has reported"
            )
        if progress.total_steps is not None and progress.total_steps != total:
            raise ReportError(
                f"trial {self.id!r} has total_steps={progress.total_steps}; it cannot become "
                f"{total}"
            )
        progress.total_steps = total

    def place(self, step: int) -> int | None:
        """Where in the log a step stands that was reported before; None of a new one.

        Raises where the step can be neither.
        """
        last, total = self.progress.last_step, self.progress.total_steps
        if step <= last:
            index = self.log.find(step)
            if index is None:
                raise ReportError(
                    f"trial {self.id!r} reported step {step} after step {last}; steps must rise "
                    "(a retried trial is a new attempt: start it again)"
                )
            return index
        if self.state != "running":
            raise ReportError(f"trial {self.id!r} has {self.state}; step {step} comes too late")
        if total is not None and step > total:
            raise ReportError(f"step {step} lies beyond total_steps={total}")
        return None

    def add_check(self, check: CheckResult) -> None:
        """Remember what a check has found, if it is the trial's best."""
        self.last_check = check
        if check.valid:
            best = math.inf if self.best_valid is None else self.best_valid.loss
            if check.loss < best:
                self.best_valid = self.checkpoint(check)
        else:
            least, violation = self.nearest, check.violation
            if (
                least is None
                or violation < least.violation
                or (violation == least.violation and check.loss < least.loss)
            ):
                self.nearest = self.checkpoint(check)

    def checkpoint(self, check: CheckResult) -> Checkpoint:
        """The checkpoint that was checked."""
        fields = self.id, self.attempt, check.step, check.loss, check.measured, check.violation
        return _new(Checkpoint, fields)

    def filed_in(self, group_id: GroupId) -> bool:
        """Whether a report of this attempt stands in the group."""
        return any(group == group_id for _, group, _ in self.filings)
