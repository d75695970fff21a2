"""How a trial talks to its engine: what is said, and the protocol that every engine speaks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from acetune.core.decision import Decision
from acetune.core.goals import Estimate, FailedCheck, Goals
from acetune.core.learning import Trend, combined
from acetune.core.trial_record import Progress
from acetune.policies.policy import Due


class Plan(NamedTuple):
    """What the engine answers when training begins."""

    interval: int | None
    gate: float  # f*: a checkpoint worse than this cannot win
    keep_below: float  # models of valid checkpoints up to this loss are kept
    # constraints as they are to be measured, up to the first broken one; None: all, as declared
    order: tuple[str, ...] | None = None
    trend: Trend | None = None  # how limits move along training, for policies that learn


class Reply(NamedTuple):
    """What the engine answers to a report."""

    decision: Decision
    gate: float
    keep_below: float
    stop: bool  # by the policy, or because the study ends
    ended: bool  # stopped, or finished with this report
    trend: Trend | None = None  # as in a Plan


class Report(NamedTuple):
    """One report on its way to the engine."""

    step: int
    value: float
    checked_step: int | None = None
    measured: Mapping[str, Estimate | FailedCheck] | None = None
    primary_cost_s: float | None = None
    check_cost_s: Mapping[str, float] | None = None
    snapshot_cost_s: float = 0.0
    metrics: Mapping[str, float] | None = None
    waited_s: float = 0.0  # for others, so that checks are measured alone

    def advance(self, progress: Progress, goals: Goals, valid: bool | None) -> None:
        """Take the report into account as the driver does: so that asking costs no message."""
        excess = math.nan
        if self.measured is not None:
            excess = combined(goals.relative_excesses(self.measured))
        loss, costs = goals.objective.loss(self.value), (self.primary_cost_s, self.check_cost_s)
        progress.advance(self.step, loss, self.checked_step, valid, excess, *costs)


class Link(Protocol):
    """How a trial talks to its engine. Subclass it: some methods do nothing unless overridden."""

    def expect(self, checks: Iterable[Any]) -> None:
        """These checks may be made: told before training, and when a report gives others."""
        return

    def measuring(self, check: Callable[..., Any]) -> AbstractContextManager[None]:
        """What surrounds each call of a check, outside of the time that it takes."""
        return nullcontext()

    def begin(self, total_steps: int | None, startup_s: float) -> Plan:
        """Training begins; the last step is known now, or None."""

    def declare(self, total_steps: int) -> None:
        """The last step became known after the first report."""

    def note_hardware(self, description: str) -> None:
        """What the trial runs on, where a check depends on it; told before the first report."""
        return

    def fresh_gate(self, report: Report) -> float:
        """The gate as it is now: asked just before the check of ``report`` is paid for."""

    def checking(self, constraint: str | None) -> None:
        """A check with a timeout starts now; None: it has ended."""

    def judged(self, due: Due, valid: bool | None) -> None:
        """A check was due: whether all limits hold, None where it could not win and was not made.

        Told before the report that it belongs to.
        """
        return

    def report(self, report: Report) -> Reply:
        """A report; returns when it is safely recorded."""

    def finish(self, report: Report | None) -> None:
        """The trial ended by itself, with the check that was still due, if any."""

    def keep_model(self, step: int, model: object) -> None:
        """Write the model of a checkpoint to disk."""

    def keep_checkpoint(self, step: int, source: Callable[[Path], object] | Path) -> None:
        """Write what the trial could go on from to disk."""

    def close(self) -> None:
        """The trial has ended, well or not: it says nothing more."""
        return
