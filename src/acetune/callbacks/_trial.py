"""The first argument of every callback."""

from __future__ import annotations

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
