"""A trial in this process, and small data: what the tests of the boosting callbacks share."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from acetune import ACE, Constraint, Trial
from acetune.core.goals import Goals, Objective
from acetune.core.trial_record import Progress
from acetune.testing._callbacks import NotingLink

EVERY_STEP = ACE(truncation=0, interval=1, gate=False)
AT_END = ACE(truncation=0, interval="end", gate=False)


class Engine(NotingLink):
    """The other end of a trial, by what the tests of boosting ask it for."""

    def __init__(self, folder: Path, *, stop_at: int | None = None) -> None:
        super().__init__(folder, 1, stop_at)

    @property
    def total_steps(self) -> int | None:
        return self.declared[-1]

    @property
    def steps(self) -> list[int]:
        return [report.step for report in self.reports]

    @property
    def values(self) -> list[float]:  # type: ignore[override]
        return [report.value for report in self.reports]

    @property
    def checked(self) -> list[int]:
        """The steps that were checked, in the order of checking."""
        found = [report for report in (*self.reports, *self.finished) if report is not None]
        return [report.checked_step for report in found if report.checked_step is not None]


def make_trial(
    engine: Engine,
    *,
    objective: str = "auc",
    mode: str = "max",
    check: Callable[[Any], Any] | None = None,
    policy: ACE = EVERY_STEP,
    checkpoint: tuple[Path, int] | None = None,
    clock: Callable[[], float] | None = None,
) -> Trial:
    """A trial of a study that keeps every new best model and has one constraint, if any."""
    constraints = () if check is None else (Constraint("g", upper=0.0, check=check),)
    goals = Goals(Objective(objective, mode), constraints)  # type: ignore[arg-type]
    engine.interval = policy.interval
    folder, done = checkpoint or (None, 0)
    progress = Progress(last_step=done, best_step=done, best_loss=0.0 if done else math.inf)
    return Trial(
        engine,
        goals,
        policy,
        number=1,
        params={},
        folder=engine.folder,
        checkpoint=folder,
        progress=progress,
        clock=clock,
    )


class Notes:
    """A check that always holds and notes what it was called with."""

    def __init__(self, look: Callable[[Any], Any] = lambda model: model) -> None:
        self.look, self.seen = look, list[Any]()

    def __call__(self, model: Any) -> float:
        self.seen.append(self.look(model))
        return 0.0


class Ticking:
    """A clock that moves only when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def rows(n: int = 240, classes: int = 2, seed: int = 0) -> tuple[Any, Any, Any, Any]:
    """Noisy data, to train and to validate on: X, y, X_valid, y_valid."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * n, 5))
    z = X[:, 0] + 0.5 * X[:, 1] ** 2 + rng.normal(size=2 * n)
    y = np.searchsorted(np.quantile(z, np.linspace(0, 1, classes + 1)[1:-1]), z)
    return X[:n], y[:n], X[n:], y[n:]
