"""Constraint-aware tuning on Ray Tune: a scheduler, the trial, and the best feasible result.

Needs ``pip install 'acetune[ray]'``.
"""

from __future__ import annotations

from acetune.core.errors import MissingExtraError

try:
    import ray.tune  # noqa: F401
except ImportError as error:
    raise MissingExtraError("ray[tune]", "ray") from error

from acetune.ray._results import BestResult, best_result
from acetune.ray._scheduler import AceScheduler
from acetune.ray._search import AceSearch
from acetune.ray._trainable import RayTrial, trial

__all__ = ["AceScheduler", "AceSearch", "BestResult", "RayTrial", "best_result", "trial"]
