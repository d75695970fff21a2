"""Callbacks that report a framework's training to a trial: one module per framework.

``acetune.callbacks.lightgbm`` and the others are opened on use, and with them the framework.
"""

from __future__ import annotations

from typing import Any

from acetune.core.import_on_use import import_on_use

__all__ = [
    "catboost",
    "keras",
    "lightgbm",
    "lightning",
    "sklearn",
    "transformers",
    "xgboost",
]


def __getattr__(name: str) -> Any:
    return import_on_use(__name__, name, {}, __all__)
