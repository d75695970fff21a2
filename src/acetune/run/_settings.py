"""How a study runs, apart from what it is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Workers, budgets and limits."""

    workers: int
    threads: int
    devices: Sequence[str] = ()
    time_budget_s: float | None = None
    max_trials: int | None = None
    retries: int = 0
    report_timeout_s: float | None = None
    stop_grace_s: float = 30.0
    max_failures: int = 5
