"""Listeners that write a study to a tracker of experiments: one module per tracker.

``acetune.trackers.mlflow`` and ``acetune.trackers.wandb`` are opened on use, and with them the
tracker's own package.
"""

from __future__ import annotations

from typing import Any

from acetune.core.import_on_use import import_on_use

__all__ = ["mlflow", "wandb"]


def __getattr__(name: str) -> Any:
    return import_on_use(__name__, name, {}, __all__)
