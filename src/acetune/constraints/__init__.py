"""Ready-made constraints: what a model must satisfy, and how it is checked.

Each part is loaded on first use: a worker that checks a model's size needs no NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acetune.constraints.own import constraint

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


def __getattr__(name: str) -> Any:
    import importlib

    if name in _ROOMS:
        return importlib.import_module(f"acetune.constraints.{name}")
    if name in _ON_USE:
        return getattr(importlib.import_module(_ON_USE[name]), name)
    raise AttributeError(f"module 'acetune.constraints' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
