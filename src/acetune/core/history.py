"""Everything reported so far: the only mutable state of the core.

Reports are filed in ordered groups; the policy says which group and by what key. Costs, the best
feasible checkpoint and each trial's own record stand beside them. Nothing here decides; nothing
outside appends.
"""

from __future__ import annotations

import math
from array import array
from copy import copy
from typing import Any

from sortedcontainers import SortedList

from acetune.core._gains import Gains
from acetune.core.decision import Action, Decision, Stratum
from acetune.core.learning import Added, Learning, Trend, combined
from acetune.core.measured_costs import Costs
from acetune.core.observation import CheckResult, Observation, TrialId
from acetune.core.ranked_groups import Filing, Group, GroupId, median_of
from acetune.core.trial_record import Checkpoint, Progress, TrialRecord

_NOBODY = Group(None)


class History:
    """All trials of a study.

    Parameters
    ----------
    keep:
        The gate compares with the ``keep``-th best valid trial; 1 is the paper's f*.
    learns:
        Whether reports add to ``learning``. That takes longer than all else that is done with a
        report, so only policies that look at it have it done.
    """

    def __init__(self, keep: int = 1, *, learns: bool = False) -> None:
        self.keep = keep
        self._learns = learns
        self.trials: dict[TrialId, TrialRecord] = {}
        self.costs = Costs()
        self.learning = Learning()
        self.finished: list[TrialRecord] = []  # a record stays, whatever becomes of its state
        self._gains = Gains()
        self.best: Checkpoint | None = None
        self.best_loss = math.inf  # of all reports, checked or not
        self.nearest: Checkpoint | None = None  # least violating of all checked checkpoints
        self._nearest_miss = (math.inf, math.inf)
        self.gate = math.inf
        self.reports = 0
        self.reported_by = array("q")  # the place of the trial that made each report
        self.checks = 0
        self._valid_reports = self._invalid_reports = 0
        self._groups: dict[GroupId, Group] = {}
        self._sorted_valid_losses: Any = SortedList()  # each trial's best valid loss,
        # and what has changed since somebody asked for them: by trial, what stands there and now
        self._new_valid_losses: dict[TrialId, tuple[float | None, float]] = {}
        self._sorted_violations: Any = SortedList()  # positive and finite,
        self._new_violations: list[float] = []  # and those that nobody has asked for yet

    # -- reading ---------------------------------------------------------------------------------

    def group(self, group_id: GroupId) -> Group:
        """The reports filed under ``group_id`` (an empty group if there are none)."""
        return self._groups.get(group_id, _NOBODY)

    @property
    def strata(self) -> dict[Stratum, int]:
        """How many reports there are in each stratum."""
        valid, invalid = self._valid_reports, self._invalid_reports
        return {"valid": valid, "invalid": invalid, "unchecked": self.reports - valid - invalid}

    @property
    def _valid_losses(self) -> Any:
        """In order, as far as they are asked for: a trial that improves does so many times."""
        found = self._sorted_valid_losses
        for before, loss in self._new_valid_losses.values():
            if before is not None:
                found.remove(before)
            found.add(loss)
        self._new_valid_losses.clear()
        return found

    @property
    def _violations(self) -> Any:
        """In order. Many policies never ask, so that they are not kept in order all the time."""
        if self._new_violations:
            self._sorted_violations.update(self._new_violations)
            self._new_violations.clear()
        return self._sorted_violations

    @property
    def median_violation(self) -> float:
        """Median of the positive finite violations seen, 0 if none was."""
        found = self._violations
        return median_of(found) if found else 0.0

    @property
    def largest_violation(self) -> float:
        """Largest finite violation seen, 1 if none was."""
        found = self._violations
        return float(found[-1]) if found else 1.0

    @property
    def trend(self) -> Trend:
        """How limits move along training, for policies that learn."""
        return self.learning.trend(self.costs.mean_check_s or 0.0, self.costs.mean_primary_s)

    def kth_best(self, k: int) -> float:
        """The k-th best of the trials' best valid losses, infinite if there are fewer."""
        found = self._valid_losses
        return float(found[k - 1]) if len(found) >= k else math.inf

    def most_gained(self, step: int, last: int, loss: float) -> float:
        """The most that a finished trial like this one gained from a step on; see ``Gains``."""
        return self._gains.most(self.finished, step, last, loss)

    def without(self, record: TrialRecord, since: int, *, unlearn: bool = False) -> History:
        """The history without what a trial has filed from step ``since`` on: to decide on it anew.

        A view for asking, not for appending. All else is as it is now. ``unlearn``: what was
        learned from these reports is left out too, which takes a while.
        """
        past = copy(self)
        if unlearn:
            past.learning = self.learning.without(*_learned_from(record, since))
        past._groups = groups = dict(self._groups)
        for step, group, key in record.filings:
            if step >= since:
                if groups[group] is self._groups[group]:
                    groups[group] = groups[group].copy()
                groups[group].remove(key)
        return past

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
        record = TrialRecord(
            trial, order=len(self.trials), progress=progress, cost_ratio=cost_ratio
        )
        if old is not None:
            record.attempt, record.order = old.attempt + 1, old.order
            # f* never rises: what was found valid stays found
            record.best_valid, record.nearest = old.best_valid, old.nearest
            if old.gated_at is not None and old.gated_at <= resumed_from:
                record.gated_at = old.gated_at
            self._inherit(record, old, resumed_from)
            if self._learns:
                self.learning.go_back(old.last_excess, record.last_excess)
            # one that had finished counts as such again when this attempt does
            self.finished = [other for other in self.finished if other is not old]
        self.trials[trial] = record
        return record

    def _inherit(self, record: TrialRecord, old: TrialRecord, upto: int) -> None:
        log = old.log
        for filing in old.filings:
            step, group, key = filing
            if step > upto:
                self._groups[group].remove(key)
            else:
                record.filings.append(filing)
        for index, step in enumerate(log.step):
            if step > upto:
                break
            log.copy_to(record.log, index)
        record.verdicts = [verdict for verdict in old.verdicts if verdict[0] <= upto]
        record.progress.relive(old, upto)

    def withdraw(self, record: TrialRecord) -> None:
        """Take a trial out of the ranking: another one takes its place. What was found stays."""
        for _, group, key in record.filings:
            self._groups[group].remove(key)
        record.filings.clear()

    def append(
        self, record: TrialRecord, report: Observation, decision: Decision, filing: Filing | None
    ) -> None:
        """Take a report and the decision made on it."""
        # the busiest few lines of a study and of a replay: plain on purpose
        step, loss, check = report.step, report.loss, report.check
        progress, costs = record.progress, self.costs
        if self._learns:
            self._learn(record, report)
        primary_s, check_s = report.primary_cost_s, report.check_cost_s
        if primary_s is not None:
            costs.primary_s += primary_s
            costs.primary_n += step - progress.last_step  # a report may cover several iterations
        if check_s or report.snapshot_cost_s:
            costs.add_check(check_s, report.snapshot_cost_s, check)
        if check is None:
            record.last_check = None
            progress.advance(step, loss, None, None, math.nan, primary_s, check_s)
        else:
            excess = combined(check.excess) if check.excess else math.nan
            progress.advance(step, loss, check.step, check.valid, excess, primary_s, check_s)
            stratum: Stratum = "invalid"
            if check.valid:
                stratum = "valid"
                self._valid_reports += 1
            else:
                self._invalid_reports += 1
            verdict = (step, stratum, check.violation, check.step, check.excess)
            record.verdicts.append(verdict)
            self._add_check(record, check)
        record.log.append(report, decision)
        if filing is not None:
            name, key = filing.group, filing.key
            group = self._groups.get(name)
            if group is None:
                group = self._groups[name] = Group(name)
            group.add(key)
            record.filings.append((step, group.id, key))
        self.reports += 1
        self.reported_by.append(record.order)
        if loss < self.best_loss:
            self.best_loss = loss
        if decision.action is Action.STOP:
            record.stop_decision = decision

    def _learn(self, record: TrialRecord, report: Observation) -> None:
        """Take what a report, which is not in the record yet, says about the study."""
        step, check = report.step, report.check
        if check is not None:
            excess = combined(check.excess)
            self.learning.add_check(check.step, check.loss, excess, record.last_excess)
        if step >= 4 and step & (step - 1) == 0:  # a power of two
            earlier = record.log.find(step >> 2)
            if earlier is not None:
                self.learning.add_loss(step, report.loss, record.log.loss[earlier])

    def add_check(self, record: TrialRecord, check: CheckResult) -> None:
        """Take the outcome of a check that came without a report."""
        record.late_checks += ((self.reports, check.step, check.excess),)
        self._add_check(record, check)

    def _add_check(self, record: TrialRecord, check: CheckResult) -> None:
        """The outcome of a check: f*, the nearest miss and what the searcher will be told."""
        before, valid, costs = record.best_valid, check.valid, self.costs
        record.add_check(check)
        if check.measured:
            self.checks += 1
            if valid:
                costs.valid_n += 1
            else:
                costs.invalid_n += 1
        if valid:
            found = record.best_valid
            if found is not None and found is not before:
                self._add_valid(found, before)
            return
        if 0 < check.violation < math.inf:
            self._new_violations.append(check.violation)
        # for people: by what was measured
        violation = check.measured_violation
        if self.nearest is None or violation <= self._nearest_miss[0]:
            miss = violation, check.loss
            if self.nearest is None or miss < self._nearest_miss:
                self.nearest, self._nearest_miss = record.checkpoint(check), miss

    def _add_valid(self, found: Checkpoint, before: Checkpoint | None) -> None:
        """A trial has a better valid checkpoint than ``before``."""
        trial, loss = found.trial, found.loss
        stands = None if before is None else before.loss
        if trial in self._new_valid_losses:
            stands = self._new_valid_losses[trial][0]
        self._new_valid_losses[trial] = stands, loss
        if self.best is None or loss < self.best.loss:
            self.best = found
        if loss <= self.gate:  # else it is not among the best, and was not before
            self.gate = loss if self.keep == 1 else self.kth_best(self.keep)


def _learned_from(
    record: TrialRecord, since: int
) -> tuple[list[Added], list[tuple[int, float, float]]]:
    """The checks and losses that a trial has added to what is learned, from a step on."""
    log = record.log
    loss_at = dict(zip(log.step, log.loss, strict=True))
    checks: list[Added] = []
    before: tuple[int, float] | None = None
    for reported, _, _, step, beyond in record.verdicts:
        excess = combined(beyond)
        if not math.isnan(excess):
            if reported >= since:
                checks.append((step, loss_at[step], excess, before))
            before = step, excess
    losses = [
        (step, loss, loss_at[step >> 2])
        for step, loss in loss_at.items()
        if step >= max(since, 4) and step & (step - 1) == 0 and step >> 2 in loss_at
    ]
    return checks, losses
