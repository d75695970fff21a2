"""What is recorded: a training function with everything around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from acetune.core.goals import Constraint, Mode
from acetune.space import Dimension, Scalar
from acetune.trial import Trial


@dataclass(frozen=True)
class Task:
    """A training function with everything around it: what ``tune`` and ``record`` take."""

    name: str
    train: Callable[[Trial], object]
    space: Mapping[str, Dimension | Scalar]
    objective: str
    mode: Mode
    constraints: tuple[Constraint, ...]
    confirm: Callable[[Any], Mapping[str, object]] | None = None
    digits: Mapping[str, int] = field(default_factory=dict)  # decimals worth recording
