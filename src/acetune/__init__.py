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
    Adaptive,
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
from acetune.policies.stopper import Stopper
from acetune.searchers.searcher import Searcher
from acetune.searchers.space import choice, lograndint, loguniform, randint, uniform
from acetune.trial.trial import Trial

if TYPE_CHECKING:
    from acetune.certification.evidence import Mean, Share
    from acetune.run.study_callbacks import StudyCallback
    from acetune.run.tuning import tune
    from acetune.study.result import StudyResult, load

__version__ = "0.1.0"

__all__ = [
    "ACE",
    "ACE2",
    "ASHA",
    "ASHALexicographic",
    "ASHAStratum",
    "AcetuneError",
    "Adaptive",
    "Backoff",
    "Bandit",
    "Constraint",
    "Estimate",
    "Hyperband",
    "Mean",
    "MedianStopping",
    "NoStopping",
    "PerformanceCurve",
    "Policy",
    "Searcher",
    "Share",
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
    "Mean": "acetune.certification.evidence",
    "Share": "acetune.certification.evidence",
    "StudyCallback": "acetune.run.study_callbacks",
    "StudyResult": "acetune.study.result",
    "load": "acetune.study.result",
    "tune": "acetune.run.tuning",
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
