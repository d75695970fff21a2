"""Models that give nearly all rows the same answer: they are fair, and robust, and of no use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

from acetune.core.errors import DegenerateModelError, GoalError
from acetune.core.numbers import is_number

Degenerate: TypeAlias = Literal["report", "fail"]
_ROUNDING = 1e-12
LEAST_SHARE = 0.01  # of the rows that do not get the most frequent answer


def require_degenerate(degenerate: str, least_share: float | None) -> None:
    """Validate what a check does about such models."""
    if degenerate not in get_args(Degenerate):
        raise GoalError(f"degenerate must be 'report' or 'fail', got {degenerate!r}")
    if least_share is not None and not (is_number(least_share) and 0 <= least_share <= 0.5):
        raise GoalError(
            "least_share, of the rows that do not get the most frequent answer, must be a share "
            f"between 0 and 0.5, got {least_share!r}"
        )


def judge_predictions(
    predicted: Mapping[str, float], least_share: float, degenerate: Degenerate, **more: Any
) -> dict[str, Any]:
    """What a check notes of a model's answers; an error where they are not to pass."""
    most = max(predicted, key=lambda label: predicted[label])
    nearly_all = 1 - predicted[most] < least_share - _ROUNDING
    if nearly_all and degenerate == "fail":
        raise DegenerateModelError(
            f"the model predicts {most} for {100 * predicted[most]:.4g} % of the rows, and "
            f"degenerate='fail' asks for other answers on {100 * least_share:.3g} % at least"
        )
    return {"predicted": dict(predicted), **more, "degenerate": nearly_all}
