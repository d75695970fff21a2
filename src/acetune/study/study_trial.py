"""A trial as the driver of a study knows it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acetune.policies.stopper import StopperTrial


@dataclass(slots=True)
class StudyTrial:
    """A trial of a study, its latest attempt."""

    number: int
    attempt: int
    params: dict[str, Any]
    resumed_from: int = 0
    checkpoint: Path | None = None
    failures: int = 0
    handle: StopperTrial | None = None  # None until training begins

    @property
    def running(self) -> bool:
        """Whether the attempt may still report."""
        return self.handle is not None and self.handle.state == "running"

    @property
    def begun(self) -> StopperTrial:
        """The attempt as the stopper knows it, once training has begun."""
        assert self.handle is not None, "a trial begins before it reports"
        return self.handle
