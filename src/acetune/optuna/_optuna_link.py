"""Between a trial of acetune and Optuna's: what is written, in which order, and who decides."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import optuna
from optuna.samplers import GPSampler
from optuna.trial import FrozenTrial

from acetune.core.errors import ReportError
from acetune.core.goals import Goals
from acetune.core.history import History
from acetune.core.outcome import outcome
from acetune.core.reason import BY_ITSELF, LAST_STEP
from acetune.core.trial_record import Progress, State, TrialRecord
from acetune.optuna._attributes import (
    CHECK,
    END,
    HARDWARE,
    START,
    Spent,
    StoredCheck,
    StoredEnd,
    own,
    write_check,
    write_end,
    write_start,
)
from acetune.optuna._pruner import AcePruner, notice_unchecked
from acetune.optuna._study_access import (
    StudyAccess,
    is_reported,
    set_constraint,
    set_constraint_list,
    stored,
    trial_id,
)
from acetune.policies import Policy
from acetune.searchers.optuna_samplers import amounts
from acetune.trial.checks import notice_bad_checks
from acetune.trial.link import Link, Plan, Reply, Report

KeepModel = Callable[[int, object], object]


class OptunaLink(Link):
    """What a trial says, to the study's storage and to the pruner's digest of it."""

    def __init__(
        self,
        trial: optuna.Trial,
        before: FrozenTrial,
        pruner: AcePruner,
        keep_model: KeepModel | None,
    ) -> None:
        self._trial, self._before = trial, before
        self._pruner, self._keep = pruner, keep_model
        self._number, self._id = trial.number, trial_id(trial)
        self._access = StudyAccess(trial.study)
        self._digest = pruner.digest(trial.study)
        self._total: int | None = None
        self._last = 0
        self._primary_s = self._snapshot_s = 0.0
        self._iterations = self._snapshots = 0
        self._end_check: StoredCheck | None = None
        self._stopped = self._ended = False
        self.reported = False  # anything but what was inherited
        self._reason = BY_ITSELF

    # -- what the trial says ---------------------------------------------------------------------

    def begin(self, total_steps: int | None, startup_s: float) -> Plan:
        """Training begins: the trial gets its interval, for good."""
        study, digest = self._trial.study, self._digest
        self._pruner.settle_goals(study)
        with digest.lock:
            digest.refresh(self._access, self._number)
            plan = digest.plan(total_steps)
            self._adopt_checks()
            self._write(START, write_start(self._number, plan))
            handle = digest.meet(self._access, stored(self._trial))
            self._total, self._last = total_steps, handle.record.progress.last_step
            gate, order, trend = digest.history.gate, digest.order, handle.record.progress.trend
        notice_unchecked(study, digest.unconstrained)
        return Plan(plan.interval, gate, self._keep_below(gate), order, trend)

    def declare(self, total_steps: int) -> None:
        """The last step became known after the first report."""
        with self._digest.lock:
            start = self._digest.declare(self._number, total_steps)
            self._write(START, write_start(self._number, start))
        self._total = total_steps

    def note_hardware(self, description: str) -> None:
        """What the trial runs on."""
        self._write(HARDWARE, {"trial": self._number, "description": description})

    def fresh_gate(self, report: Report) -> float:
        """The gate by what the storage holds now."""
        with self._digest.lock:
            self._digest.refresh(self._access, self._number)
            return self._digest.history.gate

    def checking(self, constraint: str | None) -> None:
        """Checks run in the user's own process; nobody could cut one off."""

    def report(self, report: Report) -> Reply:
        """Write a report and decide on it."""
        digest, number, step = self._digest, self._number, report.step
        total = self._total
        if step <= self._last or self._ended or (total is not None and step > total):
            return self._not_taken(report)
        if is_reported(self._trial, step):
            raise ReportError(
                f"step {step} of trial {self._number} was reported to Optuna already; report with "
                "ace.report(...) alone, which calls trial.report itself"
            )
        self._spend(report)
        check = None
        if report.measured is not None:
            # before the value, so that nobody takes a checked step for an unchecked one
            check = self._stored_check(report)
            self._write(f"{CHECK}{step}", write_check(number, check))
        self._trial.report(report.value, step)
        self._last, self.reported = step, True
        notice_bad_checks(digest.goals, number, report, digest.notice)
        with digest.lock:
            decision = digest.report(self._access, number, step, report.value, check)
            gate, trend = digest.history.gate, digest.handle(number).record.progress.trend
        self._ended = decision.stop or step == total
        if decision.stop:
            self._stopped, self._reason = True, decision.because
        elif self._ended:
            self._reason = LAST_STEP
        keep_below = self._keep_below(gate)
        return Reply(decision, gate, keep_below, decision.stop, self._ended, trend)

    def finish(self, report: Report | None) -> None:
        """The trial ended by itself, with the check that was still due, if any."""
        if report is not None and report.measured is not None:
            self._spend(report)
            self._end_check = self._stored_check(report)

    def keep_model(self, step: int, model: object) -> None:
        """Nothing is kept, unless the user does it."""
        if self._keep is not None:
            self._keep(step, model)

    def keep_checkpoint(self, step: int, source: Callable[[Path], object] | Path) -> None:
        """Optuna starts no trial again by itself."""
        raise ReportError(
            "report(checkpoint=...) has no place under Optuna, which does not go on with a trial; "
            "save what you need yourself, in trial.folder for example"
        )

    # -- the end ---------------------------------------------------------------------------------

    def conclude(self) -> OptunaOutcome:
        """Write how the trial ended, and what Optuna is told of it."""
        digest, number = self._digest, self._number
        state: State = "stopped" if self._stopped else "finished"
        end = StoredEnd(state, self._reason, self._end_check, self._spent())
        self._write(END, write_end(number, end))
        with digest.lock:
            digest.refresh(self._access, number)
            digest.end(number, end)
            record = digest.handle(number).record
            record.gated_at = skipped_at(record, digest.policy)
            outcome = optuna_outcome(record, digest.history, digest.goals, stopped=self._stopped)
        for name, value in outcome.constraints.items():
            set_constraint(self._trial, name, value)
        # a Gaussian process would count every constraint twice
        by_process = isinstance(self._trial.study.sampler, GPSampler)
        if self._pruner.for_dashboard and outcome.constraints and not by_process:
            set_constraint_list(self._trial, list(outcome.constraints.values()))
        return outcome

    # -- inside ----------------------------------------------------------------------------------

    def _write(self, key: str, value: object) -> None:
        self._access.set_trial_attribute(self._id, key, value)

    def _keep_below(self, gate: float) -> float:
        return -math.inf if self._keep is None else gate

    def _not_taken(self, report: Report) -> Reply:
        """A step that was reported before, or an error that says why it comes too late."""
        with self._digest.lock:
            handle, gate = self._digest.handle(self._number), self._digest.history.gate
            decision = handle.observe(report.step, report.value, report.measured)
        return Reply(decision, gate, self._keep_below(gate), self._stopped, self._ended)

    def _spend(self, report: Report) -> None:
        if report.primary_cost_s is not None and report.step > self._last:
            self._primary_s += report.primary_cost_s
            self._iterations += report.step - self._last
        if report.snapshot_cost_s:
            self._snapshot_s += report.snapshot_cost_s
            self._snapshots += 1

    def _spent(self) -> Spent:
        return Spent(self._primary_s, self._iterations, self._snapshot_s, self._snapshots)

    def _stored_check(self, report: Report) -> StoredCheck:
        assert report.checked_step is not None  # a check is one of a checkpoint
        assert report.measured is not None
        costs = report.check_cost_s or {}
        return StoredCheck(report.checked_step, report.measured, costs, self._spent())

    def _adopt_checks(self) -> None:
        """Make the checks of inherited reports this trial's own; what they cost is counted."""
        number, values = self._number, self._before.intermediate_values
        for key, value in self._before.system_attrs.items():
            if not key.startswith(CHECK) or own(number, value) is not None:
                continue
            if int(key[len(CHECK) :]) in values:
                self._write(
                    key, value | {"trial": number, "check_s": {}, "spent": [0.0, 0, 0.0, 0]}
                )


class OptunaOutcome(NamedTuple):
    """What Optuna's trial ends with: its constraints, and its value; None: it is pruned."""

    value: float | None
    constraints: dict[str, float]
    why: str


def optuna_outcome(
    record: TrialRecord, history: History, goals: Goals, *, stopped: bool
) -> OptunaOutcome:
    """The outcome that Optuna's trial gets when it ends: its state, value and constraints.

    It follows the one table of :func:`acetune.core.outcome.outcome`, in Optuna's terms:

    =========================================  ==========  =======================================
    the trial                                  state       value and constraints
    =========================================  ==========  =======================================
    has a valid checkpoint                     COMPLETE    its best valid one, also if it was
                                                           stopped
    was checked, never valid, ended by itself  COMPLETE    its nearest miss
    was checked, never valid, stopped          PRUNED      constraints of its nearest miss
    unchecked because it could not win         PRUNED      no constraints
    unchecked because no check was due         PRUNED      constraints that add up to the median
                                                           violation seen; none while none was seen
    never had a finite objective               FAIL, or    no constraints, or those of its nearest
                                               PRUNED      miss
    =========================================  ==========  =======================================

    Only COMPLETE trials can be ``study.best_trial``, so that a trial without a check never is: not
    even one that could not win when it was skipped, for the trial that was better may fail.
    """
    ended = outcome(record, history)
    found = record.best_valid or record.nearest
    if found is None:
        constraints = _shared(goals, ended.violation) if not ended.failed else {}
        gated = record.gated_at is not None and not ended.failed
        why = "not checked, as it could not win" if gated else "not checked"
    else:
        constraints = amounts(goals, found.measured, history.largest_violation)
        why = "a valid checkpoint" if record.best_valid else "no checkpoint kept the limits"
    if record.best_valid is None and (stopped or (found is None and not ended.failed)):
        return OptunaOutcome(None, constraints, why)
    if ended.loss is None:  # Optuna takes NaN for a failure; a trial with checks is more than that
        return OptunaOutcome(
            math.nan if found is None else None, constraints, "no finite objective"
        )
    return OptunaOutcome(goals.objective.value(ended.loss), constraints, why)


def skipped_at(record: TrialRecord, policy: Policy) -> int | None:
    """The first step whose check was due and not made, of a trial without any check."""
    if record.progress.checks:
        return None
    progress = Progress(record.progress.total_steps, record.progress.interval)
    for step, loss in zip(record.log.step, record.log.loss, strict=True):
        if policy.due(progress, step, loss) is not None:
            return step
        progress.advance(step, loss, None)
    ended = record.state == "finished" and policy.due_at_end(progress) is not None
    return progress.last_step if ended else None


def _shared(goals: Goals, violation: float) -> dict[str, float]:
    """A violation that is only estimated, in equal parts."""
    if violation <= 0:
        return {}
    part = max(violation / len(goals.constraints), sys.float_info.min)
    return {constraint.name: part for constraint in goals.constraints}
