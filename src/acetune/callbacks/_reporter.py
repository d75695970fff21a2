"""What the callbacks of the deep learning frameworks share: one training that reports to a trial.

A framework's callback knows when a validation has ended, what it found and how many there will be.
Everything else about reporting is here, so that all of them behave alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from acetune.callbacks._random import same_randomness
from acetune.callbacks._trial import require_trial
from acetune.core.errors import ReportError
from acetune.core.numbers import as_number
from acetune.validation import require_total_steps


class Candidate(Protocol):
    """The model as one validation found it: what checks are called with."""

    def keep(self) -> object:
        """The same with a copy of the weights: training goes on without changing it."""


_C = TypeVar("_C", bound=Candidate)


class Reporter:
    """Reports the validations of a training, in steps that the framework counts.

    Parameters
    ----------
    trial:
        The trial, of any engine, or the same shared by several ranks.
    metric:
        Name of the framework's metric that is the objective.
    total_steps:
        The last step, where the framework does not know it, or knows that of one training of
        several.
    """

    def __init__(self, trial: Any, metric: str, total_steps: int | None) -> None:
        if not (callable(getattr(trial, "report", None)) and hasattr(trial, "should_stop")):
            require_trial(trial)  # says what is wrong; a SharedTrial is no Trial, but will do
        if not isinstance(metric, str) or not metric:
            raise ReportError(
                f"metric must be the name of a metric of the validation, got {metric!r}"
            )
        self.trial, self.metric = trial, metric
        self._given = require_total_steps(total_steps)
        self._total: int | None = None
        self.last_step = 0  # the last one reported here

    def begin(self, expected: int | None) -> None:
        """Training begins, and will be validated that many times (None: nobody knows)."""
        if self.last_step and self._given is None:
            raise ReportError(
                "a second training reports to the same trial: say how many validations all of "
                "them have together, as ReportCallback(..., total_steps=...)"
            )
        if self._given is not None and expected is not None and expected > self._given:
            raise self._too_small(expected)
        self._total = self._given if self._given is not None else expected
        self.trial.declare(self._total)
        self.trial.start_step()

    def value(self, metrics: Mapping[str, Any], *names: str) -> float:
        """The objective among what the framework has logged, by the first name that is there."""
        for name in names or (self.metric,):
            if name in metrics:
                return as_number(metrics[name], f"metric {name!r}")
        raise self.unknown(metrics)

    def unknown(self, names: Iterable[str]) -> ReportError:
        """The error for a metric that no validation has."""
        return ReportError(
            f"the validation has no metric {self.metric!r}; it has {sorted(names)}: give one of "
            "them as ReportCallback(trial, metric=...)"
        )

    def report(
        self,
        step: int,
        value: float,
        candidate: _C,
        checkpoint: Callable[[Path], object] | None = None,
    ) -> bool:
        """Report a validation. Whether training has to stop."""
        over = self._total is not None and step > self._total
        # some frameworks train on a little after they were told to stop, and validate again
        if over and self._given is not None and not self.trial.should_stop:
            raise self._too_small(step)
        if not self.trial.should_stop and not over:
            with same_randomness():
                self.trial.report(
                    value,
                    step=step,
                    model=candidate,
                    snapshot=lambda found: found.keep(),
                    checkpoint=checkpoint,
                )
            self.last_step = max(self.last_step, step)
        return bool(self.trial.should_stop)

    def _too_small(self, step: int) -> ReportError:
        return ReportError(
            f"total_steps={self._given} is too small: training goes to step {step}; give "
            f"ReportCallback(..., total_steps={step}) or more, or train for less"
        )


def alone_only(checkpoints: bool, ranks: int) -> None:
    """An error where a checkpoint would have to be written by several ranks together."""
    if checkpoints and ranks > 1:
        raise ReportError(
            f"checkpoints=True works in a training of one process, this one has {ranks}; use the "
            "framework's own checkpoints"
        )
