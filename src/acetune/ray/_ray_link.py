"""How a trial inside a Ray trainable talks to the scheduler in the driver.

A report goes out as a Ray result. Ray answers nothing but "go on": a trial that is stopped never
comes back from ``tune.report``. What else a trial must know is in the broadcast.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from acetune.core.decision import Action, Decision
from acetune.core.goals import Estimate, FailedCheck
from acetune.core.observation import CheckResult, Observation, unconstrained
from acetune.core.outcome import outcome
from acetune.core.trial_record import Checkpoint, Progress, TrialRecord
from acetune.policies.policy import Due, check_order, passes_gate
from acetune.ray import _result_format as wire
from acetune.ray._storage import Storage
from acetune.ray.broadcast import BroadcastReader, Terms, View
from acetune.trial.artifacts import (
    cannot_keep,
    checkpoint_writer,
    name_in_experiment,
    read_through,
    write_model,
)
from acetune.trial.checks import timed_out
from acetune.trial.link import Link, Plan, Reply, Report

_WENT_ON = "the scheduler let it go on"
_DRIVER_DECIDES = Decision(Action.CONTINUE, "decided in the driver")


class Saving(NamedTuple):
    """A checkpoint that goes out with a report."""

    write: Callable[[Path], object]
    progress: Progress  # where the trial stands with it


class Outlet(Protocol):
    """Where results go: ``tune.report``, or what ``step()`` of a class trainable returns."""

    storage: Storage

    def ready_to_save(self) -> None:
        """Raise if reports cannot carry checkpoints."""

    def send(self, result: dict[str, Any], message: wire.Message, saving: Saving | None) -> None:
        """Send a result."""


class RayLink(Link):
    """A :class:`~acetune.trial.link.Link` whose engine is the scheduler of a Ray experiment.

    Parameters
    ----------
    trial, token:
        Ray's name of the trial, and one for this run of its trainable.
    reader, terms, view:
        The broadcast, and what it said when the trial began.
    outlet:
        Where results go.
    progress:
        Where the trial stands: shared with its Trial.
    """

    def __init__(
        self,
        trial: str,
        token: str,
        reader: BroadcastReader,
        terms: Terms,
        view: View,
        outlet: Outlet,
        progress: Progress,
    ) -> None:
        self._trial, self._reader, self._terms = trial, reader, terms
        self._view, self._outlet, self._progress = view, outlet, progress
        self._attempt = wire.Attempt(token, None, None, None, 0.0, progress.last_step)
        # what this run has come to: in every result, which only the worker can write to
        self._record = TrialRecord(trial)
        self._verdict: tuple[Due, bool] | None = None  # of the trial, on its latest check
        self._models: dict[int, wire.Model] = {}  # the last one kept, by its step
        self._last: Report | None = None
        self._saving: Callable[[Path], object] | None = None
        self._about: Report | None = None  # the report whose check is being made
        self._watchdog: threading.Timer | None = None

    # -- the protocol ----------------------------------------------------------------------------

    def begin(self, total_steps: int | None, startup_s: float) -> Plan:
        """See Link. The interval is chosen here, by the costs in the broadcast."""
        costs = self._view.costs
        interval = self._terms.policy.first_check(total_steps, costs)
        self._attempt = self._attempt._replace(
            total_steps=total_steps,
            interval=interval,
            cost_ratio=costs.ratio,
            startup_s=startup_s,
            resumed_from=self._progress.last_step,
        )
        order = check_order(self._terms.policy, self._terms.goals, costs)
        return Plan(interval, self._gate(), self._keep_below(), order, self._view.trend)

    def declare(self, total_steps: int) -> None:
        """See Link. The driver learns it with the next report."""
        self._stand()
        self._record.declare(total_steps)
        self._attempt = self._attempt._replace(total_steps=total_steps)

    def note_hardware(self, description: str) -> None:
        """See Link. The driver learns it with the first report."""
        self._attempt = self._attempt._replace(hardware=description)

    def resume_at(self, step: int) -> None:
        """Ray has restored a class trainable behind our back, before its first report here."""
        self._progress.last_step = step
        self._attempt = self._attempt._replace(resumed_from=step)

    def fresh_gate(self, report: Report) -> float:
        """See Link. As fresh as can be had without waiting."""
        self._about = report
        self._look()
        return self._gate()

    def checking(self, constraint: str | None) -> None:
        """See Link. A check that outruns its timeout takes its trial along: it cannot be ended."""
        if self._watchdog is not None:
            self._watchdog.cancel()
            self._watchdog = None
        for limit in self._terms.goals.constraints if constraint is not None else ():
            if limit.name == constraint and limit.timeout_s is not None:
                overdue = (limit.name, limit.timeout_s)
                self._watchdog = threading.Timer(limit.timeout_s, self._give_up, overdue)
                self._watchdog.daemon = True
                self._watchdog.start()

    def judged(self, due: Due, valid: bool | None) -> None:
        """See Link. What the trial found is told on; the driver judges, and decides."""
        if valid is not None:
            self._verdict = due, valid
        elif self._record.gated_at is None:
            self._record.gated_at = due.step

    def report(self, report: Report) -> Reply:
        """See Link. Does not return if the trial was stopped."""
        record = self._record
        self._stand()
        before = record.place(report.step)
        if before is None:
            self._take(report)
        self._last = report
        self._send(wire.Message(self._attempt, report), report)
        if self._wants_news(report):
            self._reader.ask()
        self._look()
        ended = report.step == self._attempt.total_steps
        stratum = record.log.stratum_at(-1 if before is None else before)
        decision = Decision(Action.CONTINUE, _WENT_ON, stratum, step=report.step)
        keep_below, trend = self._keep_below(), self._view.trend
        return Reply(decision, self._gate(), keep_below, stop=False, ended=ended, trend=trend)

    def finish(self, report: Report | None) -> None:
        """See Link. Also without a check: so the driver knows that none was forgotten."""
        assert self._last is not None  # it reported before it ended
        check = None if report is None else self._check(report)
        if check is not None:
            self._record.add_check(check)
        self._send(wire.Message(self._attempt, None, report, closed=True), self._last)

    def keep_model(self, step: int, model: object) -> None:
        """See Link. A model that cannot be kept costs the model, not the trial."""
        name = name_in_experiment(self._attempt.token, step)
        try:
            with tempfile.TemporaryDirectory() as folder:
                write_model(Path(folder), model)
                written = read_through(Path(folder))
                self._outlet.storage.keep(Path(folder), name)
        except Exception as error:
            self._reader.notice = cannot_keep(error)
            return
        self._models = {step: wire.Model(name, *written)}

    def keep_checkpoint(self, step: int, source: Callable[[Path], object] | Path) -> None:
        """See Link. It goes out with the report."""
        self._outlet.ready_to_save()
        self._saving = checkpoint_writer(source)

    # -- inside ----------------------------------------------------------------------------------

    def _stand(self) -> None:
        """Where the trial stands. It counts a report itself when that has come back."""
        self._record.progress = replace(self._progress)

    def _take(self, report: Report) -> None:
        """Count a report that is new."""
        record, goals, check = self._record, self._terms.goals, self._check(report)
        report.advance(record.progress, goals, None if check is None else check.valid)
        loss = goals.objective.loss(report.value)
        record.log.append(Observation(self._trial, report.step, loss, check), _DRIVER_DECIDES)
        if check is not None:
            record.add_check(check)
        if report.step == record.progress.total_steps:
            record.state = "finished"

    def _check(self, report: Report) -> CheckResult | None:
        """The check that came with a report, by the verdict that the trial itself had on it."""
        goals = self._terms.goals
        if not goals.constraints:
            return unconstrained(report.step, goals.objective.loss(report.value))
        if report.measured is None:
            return None
        assert self._verdict is not None  # the trial has made the check
        due, valid = self._verdict
        violation = 0.0 if valid else goals.violation(report.measured)
        return CheckResult(due.step, due.loss, report.measured, valid, violation, violation)

    @property
    def _valid_loss(self) -> float:
        """Of the best valid checkpoint so far."""
        best = self._record.best_valid
        return math.inf if best is None else best.loss

    def _gate(self) -> float:
        return self._view.kth_best(self._terms.confirm_top, self._trial, self._valid_loss)

    def _keep_below(self) -> float:
        return self._view.kth_best(self._terms.keep_models, self._trial, self._valid_loss)

    def _wants_news(self, report: Report) -> bool:
        """Whether a lower f* could spare this trial its next check: else it need not be asked."""
        if not self._terms.goals.constraints:
            return False
        total, interval = self._attempt.total_steps, self._attempt.interval
        along = interval is not None and interval != total  # a report may cover many steps: ask
        next_is_due = along or (total is not None and report.step + 1 >= total)
        loss = self._terms.goals.objective.loss(report.value)
        return next_is_due and passes_gate(self._terms.policy, loss, self._gate())

    def _look(self) -> None:
        view = self._reader.answer()
        if view is not None:
            self._view = view

    def _send(self, message: wire.Message, shown: Report) -> None:
        goals = self._terms.goals
        loss, violation, _ = outcome(self._record, self._view)
        latest = message.end or shown
        result: dict[str, Any] = {
            goals.objective.name: shown.value,
            **(shown.metrics or {}),
            **{c.name: wire.readable(latest.measured, c.name) for c in goals.constraints},
            wire.BEST_VALUE: goals.objective.value(math.inf if loss is None else loss),
            wire.VIOLATION: math.nan if self._checked is None else violation,
        }
        best = self._best(loss, violation)
        message = message._replace(best=best, notice=self._reader.notice)
        self._reader.notice = ""
        write, self._saving = self._saving, None
        saving = None if write is None else Saving(write, self._record.progress)
        self._outlet.send(result, message, saving)

    @property
    def _checked(self) -> Checkpoint | None:
        """The best checkpoint that was checked."""
        return self._record.best_valid or self._record.nearest

    def _best(self, loss: float | None, violation: float) -> wire.Best:
        """The checkpoint that searchers are told of, with the loss they are told."""
        record, found = self._record, self._checked
        step = record.progress.best_step if found is None else found.step
        measured = {} if found is None else found.measured
        model = self._models.get(step, wire.Model())
        return wire.Best(
            step,
            math.inf if loss is None else loss,
            record.best_valid is not None,
            model.folder,
            {name: one for name, one in measured.items() if isinstance(one, Estimate)},
            model.size,
            model.digest,
            violation,
        )

    def _give_up(self, constraint: str, timeout_s: float) -> None:
        """The last resort against a check that does not return: end the process, and say why."""
        error = str(timed_out(constraint, timeout_s))
        if self._about is not None:
            names = [constraint.name for constraint in self._terms.goals.constraints]
            failed = self._about._replace(measured=dict.fromkeys(names, FailedCheck(error)))
            words = wire.Message(self._attempt, failed, overdue=constraint)
            self._reader.leave(self._trial, wire.encode(words))
        print(f"acetune: {error}; ending the trial's process", file=sys.stderr, flush=True)
        os._exit(1)
