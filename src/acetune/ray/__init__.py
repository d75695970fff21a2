"""Constraint-aware tuning on Ray Tune: a scheduler, the trial, and the best feasible result.

Needs ``pip install 'acetune[ray]'``.
"""

from __future__ import annotations

from acetune.core.errors import MissingExtraError

try:
    import ray.tune  # noqa: F401
except ImportError as error:
    raise MissingExtraError("ray[tune]", "ray") from error

from acetune.ray.results import BestResult, best_result
from acetune.ray.scheduler import AceScheduler
from acetune.ray.search import AceSearch
from acetune.ray.trainable import RayTrial, trial

__all__ = ["AceScheduler", "AceSearch", "BestResult", "RayTrial", "best_result", "trial"]
