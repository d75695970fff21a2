"""The one writer of a study: policy, history and costs (the stopper), and the study file.

Engines call it from one thread. What a call writes is committed by the engine's transaction before
anything is acknowledged, so the file never knows less than a worker was told.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from acetune.core.decision import Action, Decision
from acetune.core.goals import Estimate, FailedCheck, Goals
from acetune.core.history import History
from acetune.core.observation import Observation
from acetune.core.outcome import Outcome, StudyCurves, outcome
from acetune.core.reason import Reason, Value, Wording
from acetune.core.trial_record import Progress, State
from acetune.policies.decide_again import decide_again
from acetune.policies.stopper import Stopper
from acetune.study._journal import Journal, StudyJournal
from acetune.study._kept_models import KeptModels
from acetune.study.session import StudyTrial
from acetune.study.store import Store
from acetune.study.table_rows import CheckRow, ReportRow, TrialRow
from acetune.trial.link import Plan, Reply, Report

_BEFORE = Wording("before", "as decided before")
_GOES_ON = Action.CONTINUE.value
_LARGE = 100_000  # reports
_NO_NUMBERS: Mapping[str, Value] = {}
_FREED = Reason(Wording("limits_changed", "the limits have changed since it was stopped"))
_DRIVER_ENDED = Reason(Wording("driver_ended", "its driver process was ended"))


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """For a block that makes no garbage in circles: looking for it takes a quarter of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextlib.contextmanager
def left_alone(history: History) -> Iterator[None]:
    """For a block in which a large history stays: no garbage is looked for in what is there now.

    A single look through a million reports takes seconds. It is made up for at the end.
    """
    if history.reports < _LARGE or gc.get_freeze_count():  # somebody else has set things aside
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class Coordinator:
    """Takes what trials report, decides, and tells a journal.

    Parameters
    ----------
    stopper:
        Who decides.
    journal:
        Who remembers. By default nobody does: a replay.
    """

    def __init__(self, stopper: Stopper, journal: Journal | None = None) -> None:
        self.stopper = stopper
        self.trials: dict[int, StudyTrial] = {}
        self.rejected = 0  # configurations that were never trained
        self._journal = journal or Journal()
        self._next = 1

    @property
    def goals(self) -> Goals:
        """Objective and constraints."""
        return self.stopper.goals

    @property
    def curves(self) -> StudyCurves:
        """What trials have reported: for the searcher."""
        return StudyCurves(self.stopper.history, lambda number: self.trials[number].params)

    # -- trials ----------------------------------------------------------------------------------

    def next_number(self) -> int:
        """The number that the next new trial will have."""
        return self._next

    def add_trial(self, params: Mapping[str, Any]) -> StudyTrial:
        """A new trial."""
        trial = StudyTrial(self._next, 1, dict(params))
        self._next += 1
        self.trials[trial.number] = trial
        self._journal.added(trial)
        return trial

    def reject(self, params: Mapping[str, Any], reason: Reason) -> int:
        """A configuration that breaks a limit on the configuration alone: never trained."""
        trial = StudyTrial(self._next, 1, dict(params))
        self._next += 1
        self.rejected += 1
        self._journal.added(trial)
        self._journal.ended(trial, "rejected", reason)
        return trial.number

    def begin(
        self,
        trial: StudyTrial,
        total_steps: int | None,
        startup_s: float,
        chosen: tuple[int | None, float | None] | None = None,
    ) -> Plan:
        """Training begins: the trial gets its interval.

        ``chosen`` are the interval and the cost ratio by which a worker has chosen it itself.
        """
        order = self.stopper.order
        if chosen is None:
            handle = self.stopper.start(trial.number, total_steps, resumed_from=trial.resumed_from)
        else:
            handle = self.stopper.restart(trial.number, total_steps, *chosen, trial.resumed_from)
        handle.record.order = trial.number - 1  # the order of beginning is not in the file
        trial.handle = handle
        self._journal.planned(trial, total_steps, startup_s)
        trend = handle.record.progress.trend
        return Plan(handle.interval, self.gate, self._journal.keep_below, order, trend)

    def progress(self, trial: StudyTrial) -> Progress:
        """Where a new attempt stands before its first report: past its checkpoint, if any."""
        progress = Progress()
        record = self.stopper.history.trials.get(trial.number)
        if trial.resumed_from and record is not None:
            progress.relive(record, trial.resumed_from)
        return progress

    def declare(self, trial: StudyTrial, total_steps: int) -> None:
        """The last step became known late."""
        trial.begun.declare(total_steps)
        self._journal.planned(trial, total_steps)

    # -- reports ---------------------------------------------------------------------------------

    @property
    def gate(self) -> float:
        """What a checkpoint's loss must not exceed to be worth a check."""
        return self.stopper.history.gate

    def report(self, trial: StudyTrial, report: Report) -> Reply:
        """A report: decided on and written, unless it was acknowledged before."""
        handle = trial.begun
        known = handle.record.progress.last_step
        decision = handle.observe(
            report.step,
            report.value,
            report.measured,
            report.primary_cost_s,
            report.check_cost_s,
            checked_step=report.checked_step,
            snapshot_cost_s=report.snapshot_cost_s,
        )
        if report.step > known:
            self._journal.reported(trial, report, decision)
        ended = handle.state != "running"
        keep_below, trend = self._journal.keep_below, handle.record.progress.trend
        return Reply(decision, self.gate, keep_below, decision.stop, ended, trend)

    def finish(self, trial: StudyTrial, report: Report | None) -> None:
        """The trial ended by itself."""
        handle = trial.begun
        if handle.state != "running":
            return
        if report is None or report.measured is None:
            handle.finish()
        else:
            handle.finish(
                report.measured,
                report.check_cost_s,
                checked_step=report.checked_step,
                snapshot_cost_s=report.snapshot_cost_s,
            )
            self._journal.checked(trial, report, "end")
        self._journal.ended(trial, handle.state, handle.record.reason)
        self._journal.settled(trial)

    def check_after_run(
        self, number: int, step: int, measured: Mapping[str, Any], costs: Mapping[str, float]
    ) -> None:
        """A check made after the run, of a checkpoint that was kept for it."""
        trial = self.trials[number]
        handle = trial.begun
        check = handle.add_check(measured, costs, step)
        value = self.goals.objective.value(check.loss)
        report = Report(step, value, step, check.measured, check_cost_s=costs)
        self._journal.checked(trial, report, "after")

    def fail(self, trial: StudyTrial, reason: str | Reason, traceback: str | None = None) -> None:
        """The trial ended with an error."""
        self._end(trial, "failed", reason, traceback)

    def interrupt(self, trial: StudyTrial, reason: str | Reason) -> None:
        """The trial was cut off by the end of the budget, or by the user."""
        self._end(trial, "interrupted", reason)

    def fail_check(self, trial: StudyTrial, report: Report, reason: Reason) -> Decision | None:
        """A check that had to be cut off: it counts as a failed one, and its trial has failed."""
        handle = trial.begun
        decision = None
        if report.step > handle.record.progress.last_step:
            decision = self.report(trial, report).decision
        elif report.measured is not None and report.checked_step is not None:
            handle.add_check(report.measured, report.check_cost_s, report.checked_step)
            self._journal.checked(trial, report, "end")
        if handle.state != "failed":  # whatever the policy made of the report
            handle.restore("running")
            self.fail(trial, reason)
        return decision

    def outcome(self, number: int) -> Outcome:
        """What the searcher is told of a trial."""
        record = self.stopper.history.trials.get(number)
        if record is None:
            return Outcome(None, self.stopper.history.largest_violation, failed=True)
        return outcome(record, self.stopper.history)

    def _end(
        self,
        trial: StudyTrial,
        state: State,
        reason: str | Reason,
        traceback: str | None = None,
    ) -> None:
        if trial.handle is None:  # it never came to train
            trial.handle = self.stopper.restart(trial.number, None, 1, None, trial.resumed_from)
        if trial.handle.state != "running":
            return
        if state == "failed":
            trial.failures += 1
            trial.handle.fail(reason)
        else:
            trial.handle.interrupt(reason)
        self._journal.ended(trial, state, trial.handle.record.reason, traceback)


class StudyCoordinator(Coordinator):
    """One with a study file, from which a study goes on after whatever has ended it.

    Parameters
    ----------
    store, stopper:
        Where to remember, and who decides.
    keep_models:
        Models of the best so many valid checkpoints stay on disk.
    clock:
        Seconds since the epoch, for the time stamps in the file.
    """

    def __init__(
        self,
        store: Store,
        stopper: Stopper,
        keep_models: int = 3,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store = store
        self.kept_models = KeptModels(store, stopper, keep_models)
        super().__init__(stopper, StudyJournal(store, self.kept_models, stopper.goals, clock))
        self.on_notice: Callable[[str], object] = lambda text: None  # what the user should know
        self._clock = clock

    def add_attempt(self, number: int, resumed_from: int | None = None) -> StudyTrial:
        """Another try at a trial that failed or was cut off, from its checkpoint if it has one.

        ``resumed_from`` is the step of a checkpoint that somebody else keeps.
        """
        trial = self.trials[number]
        trial.attempt += 1
        trial.handle = None
        self.kept_models.forget_arriving(number)
        if resumed_from is None:
            trial.checkpoint, trial.resumed_from, broken = self.kept_models.resume_point(number)
            for text in broken:
                begins = f"goes on from step {trial.resumed_from}"
                if trial.checkpoint is None:
                    begins = "begins from its start"
                self.on_notice(f"trial {number} {begins}: {text}")
        else:
            trial.checkpoint, trial.resumed_from = None, resumed_from
        self._journal.added(trial)
        return trial

    def note_hardware(self, trial: StudyTrial, description: str) -> None:
        """What the attempt runs on, where a check depends on it."""
        self.store.set_hardware(trial.number, trial.attempt, description)

    # -- resuming --------------------------------------------------------------------------------

    @no_garbage_collection()
    def load(self, retries: int = 0) -> list[int]:
        """Replay the study file into the history; returns the trials that were under way."""
        attempts = self.store.attempts()
        plans = {(row.trial, row.attempt): row for row in attempts}
        judged_anew = self.store.judged_anew()
        freed: dict[tuple[int, int], Observation] = {}
        for report, checks in self.store.reports():
            place = report.trial, report.attempt
            if report.seq > judged_anew:
                self._replay(report, checks, plans[place])
            elif (asked := self._replay_anew(report, checks, plans[place])) is not None:
                freed[place] = asked
        under_way = []
        for row in attempts:
            number, state, reason = row.trial, row.state, row.reason
            self._next = max(self._next, number + 1)
            if state == "rejected":
                self.rejected += 1
                continue
            trial = self._reopen(row)
            trial.failures += state == "failed"
            if state == "running":
                state, reason = "interrupted", _DRIVER_ENDED
                with self.store.transaction():
                    self.store.end_trial(number, row.attempt, state, reason, self._clock())
            if row.attempt == trial.attempt:
                handle = trial.begun
                if state == "finished":
                    handle.finish()  # notes what the gate skipped then, which is not in the file
                handle.restore(state, reason)
        self._go_on_with(freed)
        for number, trial in self.trials.items():
            state = trial.begun.state
            if state == "interrupted" or (state == "failed" and trial.failures <= retries):
                under_way.append(number)
        self.kept_models.load()
        return under_way

    def _reopen(self, row: TrialRow) -> StudyTrial:
        """The trial of an attempt's row, started in the history if that attempt is new there."""
        number, attempt = row.trial, row.attempt
        trial = self.trials.get(number)
        if trial is not None and trial.attempt >= attempt and trial.handle is not None:
            return trial  # nearly always
        if trial is None:
            trial = self.trials[number] = StudyTrial(number, attempt, row.params)
        if trial.handle is None or trial.attempt < attempt:
            trial.attempt = attempt
            trial.handle = self.stopper.restart(
                number, row.total_steps, row.interval, row.cost_ratio, row.resumed_from
            )
            # an attempt before it that never reported is not in the history
            trial.handle.record.attempt = attempt
            trial.handle.record.order = number - 1
        return trial

    def _replay_anew(
        self, row: ReportRow, checks: Sequence[CheckRow], plan: TrialRow
    ) -> Observation | None:
        """Replay a report that was decided on under other limits.

        Returns it if it was decided to stop, which would not be decided by the current limits.
        """
        handle, asked = self._reopen(plan).begun, None
        record, policy = handle.record, self.stopper.policy
        if row.kind == "step" and row.decision == Action.STOP.value:
            report = handle.as_report(
                row.step,
                row.objective,
                _measured(row, checks),
                row.primary_cost_s,
                _costs(checks),
                checked_step=row.checked_step,
            )
            filing = policy.file(record, report)
            if not policy.decide(record, report, filing, self.stopper.history).stop:
                asked = report
        gated_at = record.gated_at
        open_now = row.kind == "step" and handle.check_due(row.step, row.objective) is not None
        self._replay(row, checks, plan)
        if open_now:  # that no check was made then does not mean that it could not win now
            record.gated_at = gated_at
        return asked

    def _go_on_with(self, freed: Mapping[tuple[int, int], Observation]) -> None:
        """Trials that would not be stopped by the current limits count as cut off.

        Those that the policy would stop now that it knows all the others, and those without a
        checkpoint, count as they are.
        """
        stopper, going_on = self.stopper, []
        for (number, attempt), report in freed.items():
            trial = self.trials[number]
            record = trial.begun.record
            if trial.attempt != attempt or record.state != "stopped":
                continue
            if decide_again(record, report, stopper.policy, stopper.history).stop:
                continue
            with self.store.transaction():
                checkpoint, _, _ = self.kept_models.resume_point(number)
            if checkpoint is not None:
                trial.begun.restore("interrupted", _FREED)
                going_on.append(str(number))
        if going_on:
            one = len(going_on) == 1
            self.store.notices.append(
                f"trial{'s' * (not one)} {', '.join(going_on)} go{'es' * one} on from "
                f"{'its checkpoint' if one else 'their checkpoints'}: by the current limits "
                f"{'it' if one else 'they'} would not have been stopped"
            )

    def _replay(self, row: ReportRow, checks: Sequence[CheckRow], plan: TrialRow) -> None:
        handle = self._reopen(plan).begun
        measured = costs = margins = None
        if checks:  # most reports come without
            measured, costs = _measured(row, checks), _costs(checks)
            margins = {c.constraint: c.margin_se for c in checks}  # what was judged stays judged
        if row.kind == "step":
            stratum: Any = row.stratum
            rank, of, step = row.rank, row.of, row.step
            if row.decision == _GOES_ON:
                action, why, numbers = Action.CONTINUE, _BEFORE, _NO_NUMBERS
            else:
                action, why = Action(row.decision), plan.reason.wording
                numbers = plan.reason.numbers
            decided = Decision(action, why, stratum, rank, of, step, numbers)
            if measured is None and costs is None:
                loss = self.goals.objective.loss(row.objective)
                spent = row.primary_cost_s, row.snapshot_cost_s
                handle.observe_again(step, loss, *spent, decided)
                return
            handle.observe(
                row.step,
                row.objective,
                measured,
                row.primary_cost_s,
                costs,
                checked_step=row.checked_step if measured else None,
                snapshot_cost_s=row.snapshot_cost_s,
                decided=decided,
                margins=margins,
            )
        elif measured is not None:
            assert row.checked_step is not None
            handle.add_check(
                measured,
                costs,
                row.checked_step,
                snapshot_cost_s=row.snapshot_cost_s,
                margins=margins,
            )
        if measured is not None:
            self.kept_models.note(row.trial, row.attempt, handle.record.last_check)


def _measured(
    row: ReportRow, checks: Sequence[CheckRow]
) -> dict[str, Estimate | FailedCheck] | None:
    """What was measured, if that is a check: some of it alone is none, see ``judge_again``."""
    if row.stratum == "unchecked":
        return None
    return {c.constraint: c.measurement for c in checks} or None


def _costs(checks: Sequence[CheckRow]) -> dict[str, float] | None:
    return {c.constraint: c.cost_s for c in checks if c.cost_s is not None} or None
