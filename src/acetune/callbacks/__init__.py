"""Callbacks that report a framework's training to a trial: one module a framework.

``acetune.callbacks.lightgbm`` and the others are opened on use, and with them the framework.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["keras", "lightgbm", "lightning", "sklearn", "transformers", "xgboost"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return importlib.import_module(f"acetune.callbacks.{name}")
    raise AttributeError(f"module 'acetune.callbacks' has no attribute {name!r}")
