"""Ready-made constraints: limits that a model must keep, and their checks.

Adding one is a check in a file of its own and a line in these tables; :class:`acetune.Constraint`
itself is in ``core/goals.py``. Each part is loaded on first use: a worker that checks a model's
size needs no NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from acetune.core.errors import GoalError
from acetune.core.goals import DEFAULT_MARGIN, Constraint
from acetune.core.import_on_use import import_on_use

if TYPE_CHECKING:
    from acetune.constraints.fairness_check import FairnessCheck
    from acetune.constraints.latency import LatencyCheck
    from acetune.constraints.robustness import RobustnessCheck

__all__ = [
    "FairnessCheck",
    "LatencyCheck",
    "RobustnessCheck",
    "constraint",
    "fairness",
    "latency",
    "robustness",
    "size",
]

_ON_USE = {
    "FairnessCheck": "acetune.constraints.fairness_check",
    "LatencyCheck": "acetune.constraints.latency",
    "RobustnessCheck": "acetune.constraints.robustness",
}
_ROOMS = ("fairness", "latency", "robustness", "size")


def constraint(
    bare: None = None,
    /,
    *,
    upper: float | None = None,
    lower: float | None = None,
    name: str | None = None,
    margin_se: float | Literal["auto"] = DEFAULT_MARGIN,
    scale: float | None = None,
    timeout_s: float | None = None,
    on: Literal["model", "config"] = "model",
    exact: bool = False,
) -> Callable[[Callable[..., Any]], Constraint]:
    """Make a function the check of a :class:`acetune.Constraint` that is named after it.

    Parameters
    ----------
    name:
        Another name than the function's.
    upper, lower, margin_se, scale, timeout_s, on, exact:
        As :class:`acetune.Constraint` takes them. With ``on="config"`` the function takes the
        configuration, a dict, and configurations beyond the limit are never trained.

    The function itself stays reachable as ``check``.

    >>> @constraint(upper=64, on="config")
    ... def kilobytes(params):
    ...     return params["width"] * 0.4
    >>> kilobytes.describe()
    'kilobytes <= 64'
    >>> kilobytes.check({"width": 100})
    40.0
    """
    if bare is not None:
        raise GoalError("a constraint needs a limit: write @constraint(upper=...) or lower=...")

    def make(function: Callable[..., Any]) -> Constraint:
        found = name if name is not None else getattr(function, "__name__", "")
        if not found or found == "<lambda>":
            raise GoalError(f"{function!r} has no name to take: give constraint(name=...)")
        return Constraint(
            found,
            upper=upper,
            lower=lower,
            check=function,
            margin_se=margin_se,
            scale=scale,
            timeout_s=timeout_s,
            on=on,
            exact=exact,
        )

    return make


def __getattr__(name: str) -> Any:
    return import_on_use(__name__, name, _ON_USE, _ROOMS)


def __dir__() -> list[str]:
    return __all__
