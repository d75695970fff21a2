"""What every callback is given: the trial, and how often to save for another attempt."""

from __future__ import annotations

from dataclasses import dataclass

from acetune.core.numbers import require_whole
from acetune.core.errors import GoalError
from acetune.trial import Trial


def require_trial(trial: object) -> Trial:
    """The trial, or an error that says where to get one."""
    if isinstance(trial, Trial):
        return trial
    raise GoalError(
        f"the first argument is acetune's trial, got a {type(trial).__name__}; under Optuna it is "
        "acetune.optuna.trial(trial, total_steps=...), under Ray acetune.ray.trial(...)"
    )


@dataclass(frozen=True, slots=True)
class Saving:
    """After which steps training is saved for another attempt.

    >>> [step for step in range(1, 10) if Saving(4).due(step)]
    [4, 8]
    """

    checkpoint_every: int | None

    def __post_init__(self) -> None:
        if self.checkpoint_every is not None:
            require_whole("checkpoint_every", self.checkpoint_every, 1)

    def due(self, step: int) -> bool:
        """Whether this step is one of them."""
        return self.checkpoint_every is not None and step % self.checkpoint_every == 0
