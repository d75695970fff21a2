"""What is known of a trial inside its own worker, by the same rules as in the driver."""

from __future__ import annotations

import math
from dataclasses import replace

from acetune.core.decision import Action, Decision, Stratum
from acetune.core.trial_record import Progress
from acetune.policies.stopper import Stopper
from acetune.ray import _result_format as wire
from acetune.ray._broadcast import Terms
from acetune.trial.link import Report

_DRIVER_DECIDES = Decision(Action.CONTINUE, "decided in the driver")


class Standing:
    """One run of a trainable: its progress, its best checkpoint, and where its model is."""

    def __init__(self, trial: str, terms: Terms) -> None:
        self._goals = goals = terms.goals
        self._stopper = Stopper(
            objective=goals.objective.name,
            mode=goals.objective.mode,
            constraints=goals.constraints,
            policy=terms.policy,
        )
        self._handle = self._stopper.start(trial)
        self.record = self._handle.record
        self.progress = self.record.progress
        self.stratum: Stratum = "unchecked"
        self.models: dict[int, wire.Model] = {}  # by step

    def begin(self, attempt: wire.Attempt, progress: Progress) -> None:
        """The plan is known; ``progress`` is what an earlier run has left."""
        self.progress = replace(
            progress, total_steps=attempt.total_steps, interval=attempt.interval
        )
        self.record.progress = self.progress

    def declare(self, total_steps: int) -> None:
        """The last step became known late."""
        self._handle.declare(total_steps)

    @property
    def valid_loss(self) -> float:
        """Of the best valid checkpoint so far."""
        best = self.record.best_valid
        return math.inf if best is None else best.loss

    def take(self, report: Report) -> None:
        """A report."""
        self._handle.observe(
            report.step,
            report.value,
            report.measured,
            report.primary_cost_s,
            report.check_cost_s,
            checked_step=report.checked_step,
            decided=_DRIVER_DECIDES,
        )
        self._judge(report)

    def end(self, report: Report | None) -> None:
        """The trial ended by itself, with the check that was still due, if any."""
        if report is None:
            self._handle.finish()
        else:
            self._handle.finish(report.measured, checked_step=report.checked_step)
            self._judge(report)

    def _judge(self, report: Report) -> None:
        self.stratum = "unchecked"
        if report.measured is not None or not self._goals.constraints:
            valid, _ = self._goals.judge(report.measured or {})
            self.stratum = "valid" if valid else "invalid"

    def best(self, loss: float | None) -> wire.Best:
        """The checkpoint that searchers are told of, with the loss they are told."""
        found = self.record.best_valid or self.record.nearest
        step = self.record.progress.best_step if found is None else found.step
        measured = {} if found is None else found.measured
        model = self.models.get(step, wire.Model())
        return wire.Best(
            step,
            math.inf if loss is None else loss,
            self.record.best_valid is not None,
            model.folder,
            {c.name: wire.readable(measured, c.name) for c in self._goals.constraints},
            model.size,
            model.digest,
        )
