"""acetune: tuning for models that must also qualify.

Checks constraints while trials train, only when a check is worth its cost, and stops trials by
objective and violation together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acetune.core import errors
from acetune.core.errors import AcetuneError, TrialStopped
from acetune.core.goals import Constraint, Estimate
from acetune.policies import (
    ACE,
    ACE2,
    ASHA,
    ASHALexicographic,
    ASHAStratum,
    Backoff,
    Bandit,
    Hyperband,
    MedianStopping,
    NoStopping,
    PerformanceCurve,
    Policy,
    TruncationSelection,
)
from acetune.searchers.base import Searcher
from acetune.space import choice, lograndint, loguniform, randint, uniform
from acetune.stopper import Stopper
from acetune.trial import Trial

if TYPE_CHECKING:
    from acetune.listener import StudyCallback
    from acetune.study.result import StudyResult, load
    from acetune.tuning import tune

__version__ = "0.1.0"

__all__ = [
    "ACE",
    "ACE2",
    "ASHA",
    "ASHALexicographic",
    "ASHAStratum",
    "AcetuneError",
    "Backoff",
    "Bandit",
    "Constraint",
    "Estimate",
    "Hyperband",
    "MedianStopping",
    "NoStopping",
    "PerformanceCurve",
    "Policy",
    "Searcher",
    "Stopper",
    "StudyCallback",
    "StudyResult",
    "Trial",
    "TrialStopped",
    "TruncationSelection",
    "choice",
    "errors",
    "load",
    "lograndint",
    "loguniform",
    "randint",
    "tune",
    "uniform",
]

# The parts that need the study file, the terminal or the engines: loaded on first use, so that a
# worker process, which needs none of them, starts fast.
_ON_USE = {
    "StudyCallback": "acetune.listener",
    "StudyResult": "acetune.study.result",
    "load": "acetune.study.result",
    "tune": "acetune.tuning",
}
# and the homes of those who run another tuner: `import acetune` is enough for acetune.ray
_ROOMS = (
    "callbacks",
    "constraints",
    "distributed",
    "export",
    "optuna",
    "plot",
    "ray",
    "replay",
    "testing",
)


def __getattr__(name: str) -> Any:
    import importlib

    if name in _ROOMS:
        return importlib.import_module(f"acetune.{name}")
    if name in _ON_USE:
        return getattr(importlib.import_module(_ON_USE[name]), name)
    raise AttributeError(f"module 'acetune' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
