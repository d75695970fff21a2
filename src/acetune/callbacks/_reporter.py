"""What callbacks share: the trial they are given, and a training that reports to it.

The callback of a deep learning framework knows when a validation has ended, what it found and how
many there will be. Everything else about reporting is here, so that all of them behave alike.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from acetune.core.errors import GoalError, ReportError
from acetune.core.numbers import as_number, require_whole
from acetune.core.report_values import require_total_steps
from acetune.trial.trial import Trial


def require_trial(trial: object) -> Trial:
    """The trial, or an error that says where to get one."""
    if isinstance(trial, Trial):
        return trial
    raise GoalError(
        f"the first argument is acetune's trial, got a {type(trial).__name__}; under Optuna it is "
        "acetune.optuna.trial(trial, total_steps=...), under Ray acetune.ray.trial(...)"
    )


@dataclass(frozen=True, slots=True)
class SaveEvery:
    """After which steps training is saved for another attempt.

    >>> [step for step in range(1, 10) if SaveEvery(4).due(step)]
    [4, 8]
    """

    checkpoint_every: int | None

    def __post_init__(self) -> None:
        if self.checkpoint_every is not None:
            require_whole("checkpoint_every", self.checkpoint_every, 1)

    def due(self, step: int) -> bool:
        """Whether this step is one of them."""
        return self.checkpoint_every is not None and step % self.checkpoint_every == 0


@contextlib.contextmanager
def same_randomness() -> Iterator[None]:
    """Afterwards the global generators stand where they stood before.

    When a check is made depends on what checks cost: without this, so would the curves of a seeded
    training. Python's generator, NumPy's and PyTorch's (on the CPU and the current GPU).

    >>> random.seed(0)
    >>> with same_randomness():
    ...     inside = random.random()
    >>> random.random() == inside
    True
    """
    torch = sys.modules.get("torch")
    gpu = torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized()
    python, numpy = random.getstate(), np.random.get_state()
    on_cpu = None if torch is None else torch.get_rng_state()
    on_gpu = torch.cuda.get_rng_state() if torch is not None and gpu else None
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        if torch is not None:
            torch.set_rng_state(on_cpu)
            if on_gpu is not None:
                torch.cuda.set_rng_state(on_gpu)


class Candidate(Protocol):
    """The model as one validation found it: what checks are called with."""

    def keep(self) -> object:
        """The same with a copy of the weights: training goes on without changing it."""


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
        candidate: Candidate,
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
