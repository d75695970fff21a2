"""What training and checking have cost so far, and how the checks came out."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Costs:
    """Measured costs over all trials: sums and counts, so that means need no second pass."""

    primary_s: float = 0.0
    primary_n: int = 0
    check_s: dict[str, float] = field(default_factory=dict)
    check_n: dict[str, int] = field(default_factory=dict)
    snapshot_s: float = 0.0
    snapshot_n: int = 0
    valid_n: int = 0  # how many checks found a valid checkpoint,
    invalid_n: int = 0  # and how many did not

    def add_check(self, check_s: Mapping[str, float] | None, snapshot_s: float) -> None:
        """Count the cost of a check by constraint, and of the snapshots taken for it."""
        for name, seconds in (check_s or {}).items():
            self.check_s[name] = self.check_s.get(name, 0.0) + seconds
            self.check_n[name] = self.check_n.get(name, 0) + 1
        if snapshot_s:
            self.snapshot_s += snapshot_s
            self.snapshot_n += 1

    @property
    def mean_primary_s(self) -> float:
        """Mean primary cost of one iteration; 0 while nothing was timed."""
        return self.primary_s / self.primary_n if self.primary_n else 0.0

    @property
    def mean_check_s(self) -> float | None:
        """Cost of one check: the sum of each constraint's mean, and the mean of a snapshot for it.

        One snapshot, however many a trial takes until its one check at the end: a trial that is
        checked at every step takes none, and must not be judged by what the others cost.
        None while no check was timed.
        """
        if not self.check_n:
            return None
        means = sum(self.check_s[name] / n for name, n in self.check_n.items())
        return means + (self.snapshot_s / self.snapshot_n if self.snapshot_n else 0.0)

    @property
    def ratio(self) -> float | None:
        """r = C_1 / C_2; None while it cannot be known."""
        check, primary = self.mean_check_s, self.mean_primary_s
        if check is None or primary <= 0:
            return None
        return min(check / primary, sys.float_info.max)

    @property
    def total_check_s(self) -> float:
        """All time spent on checks and on the snapshots taken for them."""
        return sum(self.check_s.values()) + self.snapshot_s
