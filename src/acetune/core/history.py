"""Everything reported so far: the only mutable state of the core.

Reports are filed in ordered groups (the policy says which group and by what key), so that a rank is
a binary search. Costs, the best feasible checkpoint and each trial's own record stand beside them.
Nothing here decides; nothing outside appends.
"""

from __future__ import annotations

import math
import sys
from array import array
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from sortedcontainers import SortedList

from acetune.core.decision import Action, Decision, Stratum
from acetune.core.goals import Estimate, FailedCheck
from acetune.core.observation import CheckResult, Observation, TrialId

State: TypeAlias = Literal["running", "finished", "stopped", "failed", "interrupted"]
GroupId: TypeAlias = Hashable
Key: TypeAlias = float | tuple[float, float]


class Filing(NamedTuple):
    """Where a report is ranked: a group, and the key it is ordered by (smaller is better)."""

    group: GroupId
    key: Key


class Group:
    """The keys of all reports that are compared with each other, in order."""

    __slots__ = ("id", "keys")

    def __init__(self, group_id: GroupId) -> None:
        self.id = group_id
        self.keys: Any = SortedList()  # of Key; sortedcontainers is untyped

    def __len__(self) -> int:
        return len(self.keys)

    def better_than(self, key: Key) -> int:
        """How many are strictly better than ``key``."""
        return self.keys.bisect_left(key)  # type: ignore[no-any-return]


_NOBODY = Group(None)


@dataclass(slots=True)
class Costs:
    """Measured costs over all trials: sums and counts, so that means need no second pass."""

    primary_s: float = 0.0
    primary_n: int = 0
    check_s: dict[str, float] = field(default_factory=dict)
    check_n: dict[str, int] = field(default_factory=dict)
    snapshot_s: float = 0.0

    def add(
        self,
        primary_s: float | None,
        check_s: Mapping[str, float] | None,
        snapshot_s: float,
    ) -> None:
        """Count one report's costs."""
        if primary_s is not None:
            self.primary_s += primary_s
            self.primary_n += 1
        if check_s:
            for name, seconds in check_s.items():
                self.check_s[name] = self.check_s.get(name, 0.0) + seconds
                self.check_n[name] = self.check_n.get(name, 0) + 1
        self.snapshot_s += snapshot_s

    @property
    def mean_primary_s(self) -> float:
        """Mean primary cost of one iteration; 0 while nothing was timed."""
        return self.primary_s / self.primary_n if self.primary_n else 0.0

    @property
    def mean_check_s(self) -> float | None:
        """Cost of one check: the sum of each constraint's mean, with the snapshots taken for it.

        None while no check was timed.
        """
        if not self.check_n:
            return None
        checks = max(self.check_n.values())
        means = sum(self.check_s[name] / n for name, n in self.check_n.items())
        return means + self.snapshot_s / checks

    @property
    def ratio(self) -> float | None:
        """r = C_1 / C_2; None while it cannot be known."""
        check, primary = self.mean_check_s, self.mean_primary_s
        if check is None or primary <= 0:
            return None
        return min(check / primary, sys.float_info.max)

    @property
    def total_check_s(self) -> float:
        """All time spent on checks and on the snapshots taken for them."""
        return sum(self.check_s.values()) + self.snapshot_s


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
    checks: int = 0

    def advance(self, step: int, loss: float, checked_step: int | None) -> None:
        """Take a report into account."""
        self.last_step, self.last_loss = step, loss
        self.last_checked = checked_step == step
        if loss < self.best_loss or self.best_step == 0:
            self.best_step, self.best_loss = step, loss
        if checked_step is not None:
            self.checks += 1


_STRATA: tuple[Stratum, ...] = ("valid", "invalid", "unchecked")


class ReportLog:
    """The reports of one attempt, a column a field: about 50 bytes a report."""

    __slots__ = ("digest", "loss", "of", "rank", "step", "stratum", "violation")

    def __init__(self) -> None:
        self.step = array("q")
        self.loss = array("d")
        self.violation = array("d")
        self.stratum = array("b")
        self.digest = array("q")  # of what was measured, to know a repeated report by
        self.rank = array("q")
        self.of = array("q")

    def __len__(self) -> int:
        return len(self.step)

    def append(self, report: Observation, decision: Decision) -> None:
        """Add a report with its decision."""
        self.step.append(report.step)
        self.loss.append(report.loss)
        check = report.check
        self.violation.append(0.0 if check is None else check.violation)
        self.stratum.append(2 if check is None else 0 if check.valid else 1)
        self.digest.append(0 if check is None else digest(check.measured))
        self.rank.append(decision.rank or 0)
        self.of.append(decision.of or 0)

    def find(self, step: int) -> int | None:
        """Index of the report at ``step``, or None."""
        at = bisect_left(self.step, step)
        return at if at < len(self.step) and self.step[at] == step else None

    def stratum_at(self, index: int) -> Stratum:
        """Stratum of the report at ``index``."""
        return _STRATA[self.stratum[index]]


def digest(measured: Mapping[str, Estimate | FailedCheck]) -> int:
    """A number that is the same for the same measurements."""
    return hash(tuple(m if isinstance(m, Estimate) else None for m in measured.values()))


@dataclass(slots=True)
class TrialRecord:
    """One trial, its latest attempt."""

    id: TrialId
    attempt: int = 1
    progress: Progress = field(default_factory=Progress)
    cost_ratio: float | None = None
    state: State = "running"
    reason: str = ""
    gated_at: int | None = None  # first step whose due check was skipped: it could not win
    best_valid: Checkpoint | None = None
    nearest: Checkpoint | None = None  # least violating checked checkpoint
    log: ReportLog = field(default_factory=ReportLog)
    filings: list[tuple[int, Group, Key]] = field(default_factory=list)  # step, where, by what
    stop_decision: Decision | None = None

    def filed_in(self, group_id: GroupId) -> bool:
        """Whether a report of this attempt stands in the group."""
        return any(group.id == group_id for _, group, _ in self.filings)


class History:
    """All trials of a study.

    Parameters
    ----------
    keep:
        The gate compares with the ``keep``-th best valid trial; 1 is the paper's f*.
    """

    def __init__(self, keep: int = 1) -> None:
        self.keep = keep
        self.trials: dict[TrialId, TrialRecord] = {}
        self.costs = Costs()
        self.best: Checkpoint | None = None
        self.nearest: Checkpoint | None = None  # least violating of all checked checkpoints
        self.gate = math.inf
        self.reports = 0
        self.checks = 0
        self.strata: dict[Stratum, int] = {"valid": 0, "invalid": 0, "unchecked": 0}
        self._groups: dict[GroupId, Group] = {}
        self._valid_losses: Any = SortedList()  # each trial's best valid loss
        self._violations: Any = SortedList()  # positive and finite

    # -- reading ---------------------------------------------------------------------------------

    def group(self, group_id: GroupId) -> Group:
        """The reports filed under ``group_id`` (an empty group if there are none)."""
        return self._groups.get(group_id, _NOBODY)

    @property
    def median_violation(self) -> float:
        """Median of the positive finite violations seen, 0 if none was."""
        seen = self._violations
        if not seen:
            return 0.0
        middle = len(seen) // 2
        if len(seen) % 2:
            return float(seen[middle])
        return float(seen[middle - 1] / 2 + seen[middle] / 2)  # their sum might overflow

    @property
    def largest_violation(self) -> float:
        """Largest finite violation seen, 1 if none was."""
        return float(self._violations[-1]) if self._violations else 1.0

    def kth_best(self, k: int) -> float:
        """The k-th best of the trials' best valid losses, infinite if there are fewer."""
        found = self._valid_losses
        return float(found[k - 1]) if len(found) >= k else math.inf

    def ranked(self) -> list[Checkpoint]:
        """Each trial's best valid checkpoint, best first (the earlier trial on ties)."""
        found = [t.best_valid for t in self.trials.values() if t.best_valid is not None]
        return sorted(found, key=lambda checkpoint: checkpoint.loss)

    # -- appending -------------------------------------------------------------------------------

    def start(
        self,
        trial: TrialId,
        progress: Progress,
        cost_ratio: float | None,
        resumed_from: int = 0,
    ) -> TrialRecord:
        """Open a trial, or a new attempt of it that replaces the old one in the ranking.

        An attempt that goes on from a checkpoint at step ``resumed_from`` keeps the reports up to
        it: they are its own past.
        """
        old = self.trials.get(trial)
        record = TrialRecord(trial, progress=progress, cost_ratio=cost_ratio)
        if old is not None:
            record.attempt = old.attempt + 1
            # f* never rises: what was found valid stays found
            record.best_valid, record.nearest = old.best_valid, old.nearest
            if old.gated_at is not None and old.gated_at <= resumed_from:
                record.gated_at = old.gated_at
            self._inherit(record, old, resumed_from)
        self.trials[trial] = record
        return record

    def _inherit(self, record: TrialRecord, old: TrialRecord, upto: int) -> None:
        log = old.log
        for step, group, key in old.filings:
            if step > upto:
                group.keys.remove(key)
            else:
                record.filings.append((step, group, key))
        for index, step in enumerate(log.step):
            if step > upto:
                break
            for column in ReportLog.__slots__:
                getattr(record.log, column).append(getattr(log, column)[index])
            record.progress.advance(
                step, log.loss[index], step if log.stratum[index] != 2 else None
            )

    def append(
        self, record: TrialRecord, report: Observation, decision: Decision, filing: Filing | None
    ) -> None:
        """Take a report and the decision made on it."""
        check = report.check
        if check is None:
            self.strata["unchecked"] += 1
            record.progress.advance(report.step, report.loss, None)
        else:
            self.strata["valid" if check.valid else "invalid"] += 1
            record.progress.advance(report.step, report.loss, check.step)
            self.add_check(record, check)
        record.log.append(report, decision)
        if filing is not None:
            group = self._groups.get(filing.group)
            if group is None:
                group = self._groups[filing.group] = Group(filing.group)
            group.keys.add(filing.key)
            record.filings.append((report.step, group, filing.key))
        self.reports += 1
        self.costs.add(report.primary_cost_s, report.check_cost_s, report.snapshot_cost_s)
        if decision.action is Action.STOP:
            record.stop_decision = decision

    def add_check(self, record: TrialRecord, check: CheckResult) -> None:
        """Take the outcome of a check: f*, the nearest miss and what the searcher will be told."""
        self.checks += bool(check.measured)
        found = Checkpoint(
            record.id, record.attempt, check.step, check.loss, check.measured, check.violation
        )
        if check.valid:
            if check.loss < math.inf:
                self._add_valid(record, found)
            return
        if check.violation < math.inf and check.violation > 0:
            self._violations.add(check.violation)
        if record.nearest is None or _misses_less(found, record.nearest):
            record.nearest = found
        if self.nearest is None or _misses_less(found, self.nearest):
            self.nearest = found

    def _add_valid(self, record: TrialRecord, found: Checkpoint) -> None:
        previous = record.best_valid
        if previous is not None:
            if found.loss >= previous.loss:
                return
            self._valid_losses.remove(previous.loss)
        self._valid_losses.add(found.loss)
        record.best_valid = found
        if self.best is None or found.loss < self.best.loss:
            self.best = found
        self.gate = self.kth_best(self.keep)


def _misses_less(a: Checkpoint, b: Checkpoint) -> bool:
    return (a.violation, a.loss) < (b.violation, b.loss)


def count_by_state(trials: Iterable[TrialRecord]) -> dict[str, int]:
    """How many trials are in each state."""
    counts: dict[str, int] = {}
    for trial in trials:
        counts[trial.state] = counts.get(trial.state, 0) + 1
    return counts
