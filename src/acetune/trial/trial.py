"""The Trial object: what a training function sees.

It times iterations, calls checks only when they are due and worth it, keeps a copy of the best
checkpoint where that may be needed later, and ends the training loop when the trial is stopped.
The same object serves every engine; an engine is a :class:`Link`.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, Never, Self

from acetune.core.decision import Decision
from acetune.core.errors import ReportCallError, ReportError, TrialStopped
from acetune.core.goals import Goals, Objective
from acetune.core.numbers import quoted
from acetune.core.report_values import (
    require_cost,
    require_step,
    require_total_steps,
    split_costs,
    split_metrics,
)
from acetune.core.trial_record import Progress
from acetune.policies.policy import Due, Policy, check_due, finish_due, passes_gate
from acetune.trial.checks import MISSING, Constant, Missing, arguments_for, evaluate, takes_model
from acetune.trial.hardware import synchronised_clock
from acetune.trial.link import Link, Report

_FROM_ONE = (
    "steps count from 1: in a loop from 0 write step=step + 1, or loop over trial.steps(N), which "
    "needs no step="
)
_UNCHANGING = (bool, int, float, complex, str, bytes, tuple, frozenset, PurePath, type(None))


class Trial:
    """One configuration being trained.

    Attributes
    ----------
    params:
        The configuration, a dict.
    number, attempt:
        Which trial this is, and which try at it (from 1).
    checkpoint:
        The folder an earlier attempt saved with ``report(checkpoint=...)``, or None. ``steps``
        goes on after the step it was saved at.
    folder:
        A folder of the trial's own for whatever it writes, or what makes one when asked for it.
    device, threads:
        The device this worker was given (or None) and how many threads it should use. A GPU is the
        only one that the worker sees: use it as ``"cuda:0"`` or ``"cuda"``.
    """

    _objective_named_by = "objective={}"

    def __init__(
        self,
        link: Link,
        goals: Goals,
        policy: Policy,
        *,
        number: int,
        params: Mapping[str, Any],
        folder: Path | Callable[[], Path],
        attempt: int = 1,
        checkpoint: Path | None = None,
        progress: Progress | None = None,  # where a resumed attempt stands
        device: str | None = None,
        threads: int = 1,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.params: dict[str, Any] = dict(params)
        self.number, self.attempt = number, attempt
        self.checkpoint, self._folder = checkpoint, folder
        self.device, self.threads = device, threads
        self._link, self._goals, self._policy = link, goals, policy
        self._progress = Progress() if progress is None else progress
        self._clock = clock or synchronised_clock
        self._owner = os.getpid()
        self._reporting = threading.RLock()  # several threads may report: one after the other
        self._begun = False
        self._stop = False
        self._ended = False  # the engine has closed the trial: at its last step, or by stopping it
        self._reason = ""
        self._gate = self._keep_below = math.inf
        self._order: tuple[str, ...] | None = None  # of checks, see Plan
        self._step: int | None = None  # the current one of steps(), None outside such a loop
        self._checks: dict[str, Callable[..., Any]] = {
            c.name: c.check for c in self._goals.constraints if c.check is not None
        }
        link.expect(self._checks.values())  # may wait, which is no time of the trial's
        self._created = self._clock()
        self._iteration_began: float | None = None
        self._snapshot_s = 0.0
        self._best: tuple[int, object] | None = None  # a copy of the best checkpoint, by its step
        self._model: object = MISSING  # as last reported
        self._best_valid_loss = math.inf
        self._best_bold_loss = math.inf  # of those that hold but for a margin of acetune's own

    # -- what training functions use -------------------------------------------------------------

    @property
    def folder(self) -> Path:
        """A folder of the trial's own for whatever it writes."""
        if not isinstance(self._folder, Path):
            self._folder = self._folder()
        return self._folder

    def steps(self, total_steps: int | None = None) -> Iterator[int]:
        """The steps to train, from 1 (or after the checkpoint) to ``total_steps``.

        Ends by itself when the trial is stopped. ``total_steps`` may be an upper bound: leave the
        loop when training has converged. Where no last step is known, here or before, it goes on
        until you leave the loop.
        """
        self.declare(total_steps)
        total_steps = self._progress.total_steps
        step = self._progress.last_step
        while not self._stop and (total_steps is None or step < total_steps):
            step += 1
            self._step = step
            self.start_step()
            yield step
            step = max(step, self._progress.last_step)

    def declare(self, total_steps: int | None) -> None:
        """Tell the last step where it is known only once training starts."""
        total = require_total_steps(total_steps)
        with self._reporting:
            if not self._begun:
                self._begin(total)
            elif total is not None and total != self._progress.total_steps:
                self._link.declare(total)
                self._progress.total_steps = total

    def __enter__(self) -> Self:
        """For engines that do not call the training function: ``with ... as trial``."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Training has ended: the check that is still due is made, unless an error ended it."""
        try:
            if kind is None:
                self.close()
        finally:
            self._link.close()

    def start_step(self) -> None:
        """An iteration begins now. ``steps`` calls this; frameworks' callbacks do it themselves."""
        if self._iteration_began is None:
            self._iteration_began = self._clock()

    @property
    def objective(self) -> Objective:
        """The metric to report: its name, and whether more or less of it is better."""
        return self._goals.objective

    @property
    def last_step(self) -> int:
        """The last step reported; after a failure, the one that the checkpoint was saved at."""
        return self._progress.last_step

    @property
    def should_stop(self) -> bool:
        """Whether the trial was told to stop: leave the training loop then."""
        return self._stop

    @property
    def stop_reason(self) -> str:
        """Why the trial was told to stop, or an empty string."""
        return self._reason

    def report(
        self,
        value: float | None = None,
        /,
        *others: Never,
        step: int | None = None,
        model: object = MISSING,
        constraints: Mapping[str, Any] | None = None,
        snapshot: Callable[[Any], object] | None = None,
        checkpoint: Callable[[Path], object] | Path | str | None = None,
        primary_cost_s: float | None = None,
        constraint_cost_s: float | Mapping[str, float] | None = None,
        **metrics: float,
    ) -> Decision:
        """Report the objective at a step; constraints are checked if that is due and worth it.

        Several threads may call it: they wait for each other.

        Parameters
        ----------
        value:
            The objective; or give it by its name, as in ``report(auc=0.8)``. Other names are
            recorded as extra metrics.
        step:
            The step, where ``steps`` is not used; one more than the last by default.
        model:
            What checks are called with, and what is kept of a valid checkpoint: a model, scores, a
            ``pathlib.Path`` (whose file or folder is copied).
        constraints:
            Checks by constraint name, instead of or in place of ``Constraint(check=...)``.
        snapshot:
            Makes a copy of ``model`` (``copy.deepcopy``, say), called only when needed: so that
            the best checkpoint, not the last one, can be checked at the end.
        checkpoint:
            A folder to go on from after a failure, or a function that writes one.
        primary_cost_s, constraint_cost_s:
            Costs in seconds instead of the clock's; then no time is measured at all.
        """
        with self._reporting:
            now = self._clock()
            self._require_owner()
            if others:
                raise ReportCallError(
                    "report takes one value by its place, the objective, and was given "
                    f"{quoted(others[0])} too: name the step, as in report(value, step=step); "
                    f"{_FROM_ONE}"
                )
            if self._stop:
                raise TrialStopped(
                    f"trial {self.number} was told to stop ({self._reason}); leave the loop when "
                    "trial.should_stop is true"
                )
            value, extra = split_metrics(self._goals, value, metrics, self._objective_named_by)
            checks = self._require_checks(constraints, model)
            if not self._begun:
                self._begin(None)
            step = self._next_step(step)
            if primary_cost_s is not None:
                primary: float | None = require_cost(primary_cost_s, "primary_cost_s")
            else:
                primary = None if self._iteration_began is None else now - self._iteration_began
            self._model = model
            loss = self._goals.objective.loss(value)
            report = Report(step, value, primary_cost_s=primary, metrics=extra or None)
            valid = None
            # a step reported again is not checked or saved again
            if step > self._progress.last_step:
                report, valid = self._check_report(
                    report, loss, checks, model, snapshot, constraint_cost_s
                )
                if checkpoint is not None:
                    source = Path(checkpoint) if isinstance(checkpoint, str) else checkpoint
                    self._link.keep_checkpoint(step, source)
            if primary_cost_s is None and constraint_cost_s is None:
                report = report._replace(snapshot_cost_s=self._snapshot_s)
            self._snapshot_s = 0.0  # costs that are given replace the clock's, this one too
            reply = self._link.report(report)
            if step > self._progress.last_step:
                report.advance(self._progress, self._goals, valid)
            self._gate, self._keep_below = reply.gate, reply.keep_below
            self._progress.trend = reply.trend
            self._ended = reply.ended
            if reply.stop:
                self._stop, self._reason = True, reply.decision.reason
            # without steps() the next iteration begins here; with it, when the loop comes round
            self._iteration_began = self._clock() if self._step is None else None
            return reply.decision

    # -- what engines use ------------------------------------------------------------------------

    @property
    def model(self) -> object:
        """The model as last reported; ``MISSING`` if that report had none."""
        return self._model

    def close(self) -> None:
        """The training function has returned: make the check that is still due, say good-bye."""
        with self._reporting:  # of a thread that still does
            try:
                self._close()
            finally:
                self._link.close()

    # -- inside ----------------------------------------------------------------------------------

    def _close(self) -> None:
        if self._progress.last_step == 0:
            raise ReportError(
                "the training function returned without reporting anything; call "
                f"trial.report({self._goals.objective.name}=...) after each step"
            )
        progress = self._progress
        if self._policy.checks_after_run:
            self._keep_best()
        if self._ended:
            return
        self._require_owner()
        due = None
        if self._goals.constraints:
            kept = self._has_best()
            due = finish_due(self._policy, progress, self._gate, best_kept=kept)
        report = Report(progress.last_step, self._goals.objective.value(progress.last_loss))
        if due is None or not self._worth_it(due, report):
            self._link.finish(None)
            return
        model = self._model
        if self._best and self._best[0] == due.step:
            model = self._best[1]
            if due.step != progress.last_step:
                _require_copy(model, self._model, due.step, progress.last_step)
        report, _ = self._checked(report, due, self._checks, model, None)
        self._link.finish(report._replace(snapshot_cost_s=self._snapshot_s))

    def _begin(self, total_steps: int | None) -> None:
        self._require_owner()
        if total_steps is None:
            total_steps = self._progress.total_steps  # where the engine was told before
        startup_s = self._clock() - self._created
        plan = self._link.begin(total_steps, startup_s)
        self._progress.total_steps, self._progress.interval = total_steps, plan.interval
        self._gate, self._keep_below, self._order = plan.gate, plan.keep_below, plan.order
        self._progress.trend = plan.trend
        self._begun = True

    def _next_step(self, step: int | None) -> int:
        if step is None:
            step = self._progress.last_step + 1 if self._step is None else self._step
        if type(step) is int and step == 0:
            raise ReportCallError(f"step is 0, and {_FROM_ONE}")
        return require_step(step)

    def _require_checks(
        self, given: Mapping[str, Any] | None, model: object
    ) -> dict[str, Callable[..., Any]]:
        names = [constraint.name for constraint in self._goals.constraints]
        for name, check in (given or {}).items():
            if name not in names:
                raise ReportCallError(f"unknown constraint {name!r}; this study has {names}")
            # a plain value is a check that costs nothing
            self._checks[name] = check if callable(check) else Constant(check)
        if given:
            self._link.expect(self._checks.values())
        missing = [name for name in names if name not in self._checks]
        if missing:
            raise ReportCallError(
                f"constraint {missing[0]!r} has no check: give Constraint({missing[0]!r}, "
                f"check=...), or report(constraints={{{missing[0]!r}: function}})"
            )
        if not self._progress.last_step:
            for name, check in self._checks.items():
                arguments_for(check, name, model)  # refused now, not when the first check is due
        return self._checks

    def _require_owner(self) -> None:
        if os.getpid() != self._owner:
            raise ReportError(
                "report was called in a forked process; report from the process that the training "
                "function was called in"
            )

    def _check_report(
        self,
        report: Report,
        loss: float,
        checks: dict[str, Callable[..., Any]],
        model: object,
        snapshot: Callable[[Any], object] | None,
        cost: float | Mapping[str, float] | None,
    ) -> tuple[Report, bool | None]:
        """Keep a copy where one may be needed, and make the check that is due, if any.

        Returns the report with what was measured, and whether that is valid: None, if unchecked.
        """
        step, progress, policy = report.step, self._progress, self._policy
        if not self._goals.constraints:  # every checkpoint qualifies
            self._keep(step, loss, model, snapshot)
            return report, None
        last = step == progress.total_steps
        kept = self._has_best()
        due = check_due(policy, progress, step, loss, self._gate, best_kept=kept)
        best = loss < progress.best_loss or progress.best_step == 0
        wanted = policy.may_check_best(progress) and passes_gate(policy, loss, self._gate)
        # at the last step the model itself is at hand, unless it is to outlive the trial
        wanted = wanted and (not last or policy.checks_after_run)
        if best and wanted and snapshot is not None and not isinstance(model, Missing):
            began = self._clock()
            self._best = (step, snapshot(model))
            self._snapshot_s += self._clock() - began
        if due is None or not self._worth_it(due, report):
            return report, None
        subject = model
        if due.step != step:
            assert self._best is not None  # best_kept said so
            subject = self._best[1]
            _require_copy(subject, model, due.step, step)
        return self._checked(report, due, checks, subject, cost, snapshot)

    def _worth_it(self, due: Due, report: Report) -> bool:
        """Whether a check that is due can still win, by the freshest gate that can be had."""
        if due.open:
            gate = self._link.fresh_gate(report._replace(checked_step=due.step))
            self._gate = min(self._gate, gate)
            if passes_gate(self._policy, due.loss, self._gate):
                return True
        self._link.judged(due, None)
        return False

    def _checked(
        self,
        report: Report,
        due: Due,
        checks: dict[str, Callable[..., Any]],
        model: object,
        cost: float | Mapping[str, float] | None,
        snapshot: Callable[[Any], object] | None = None,
    ) -> tuple[Report, bool]:
        best = due.loss < min(self._gate, self._best_valid_loss)
        measured, costs, valid = evaluate(
            self._goals,
            checks,
            model,
            self._clock,
            self._link.checking,
            measuring=self._link.measuring,
            best=best,
            order=self._order,
        )
        if valid or self._goals.keeps(measured):
            copied = self._best is not None and self._best[1] is model
            self._keep(due.step, due.loss, model, None if copied else snapshot, bold=not valid)
        if cost is not None:
            costs = split_costs(self._goals, cost, measured)
        self._link.judged(due, valid)
        report = report._replace(checked_step=due.step, measured=measured, check_cost_s=costs)
        return report, valid

    def _keep(
        self,
        step: int,
        loss: float,
        model: object,
        snapshot: Callable[[Any], object] | None,
        *,
        bold: bool = False,
    ) -> None:
        """Write the model of a checkpoint that holds, if it is the trial's best and may win.

        A ``bold`` one holds but for the margin that acetune has chosen.
        """
        if loss >= self._best_valid_loss or (bold and loss >= self._best_bold_loss):
            return
        if bold:
            self._best_bold_loss = loss
        else:
            self._best_valid_loss = loss
        if loss <= self._keep_below and not isinstance(model, Missing):
            self._link.keep_model(step, model if snapshot is None else snapshot(model))

    def _has_best(self) -> bool:
        """Whether a copy of the best checkpoint so far exists and every check can use it."""
        return (
            self._best is not None
            and self._best[0] == self._progress.best_step
            and all(takes_model(check) for check in self._checks.values())
        )

    def _keep_best(self) -> None:
        """For checks after the run: the best checkpoint's model, or the last one's, on disk."""
        if self._has_best():
            assert self._best is not None
            self._link.keep_model(*self._best)
        elif not isinstance(self._model, Missing):
            self._link.keep_model(self._progress.last_step, self._model)


def _require_copy(copy: object, model: object, step: int, now: int) -> None:
    """That a snapshot is none of the model which is trained on: its check would be of a later step.

    What cannot be changed in place may be the same at both steps.
    """
    if copy is model and not isinstance(copy, _UNCHANGING):
        raise ReportCallError(
            f"the snapshot of step {step} is the very object that was reported at step {now}: what "
            "is checked would be the later model; snapshot= must copy, as copy.deepcopy does"
        )
