"""What training and checking have cost so far, and how the checks came out."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from acetune.core.observation import CheckResult


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
    # of the timed checks of several constraints: how often each was violated, or left out
    violated_n: dict[str, int] = field(default_factory=dict)
    left_out_n: dict[str, int] = field(default_factory=dict)

    def add_check(
        self,
        check_s: Mapping[str, float] | None,
        snapshot_s: float,
        check: CheckResult | None = None,
    ) -> None:
        """Count the cost of a check by constraint, and of the snapshots taken for it."""
        if check_s:
            sums, counts = self.check_s, self.check_n
            for name, seconds in check_s.items():
                if name in sums:
                    sums[name] += seconds
                    counts[name] += 1
                else:
                    sums[name], counts[name] = seconds, 1
            if check is not None:
                for name in check.violated:
                    if name in check_s:
                        self.violated_n[name] = self.violated_n.get(name, 0) + 1
                for name in check.left_out:
                    self.left_out_n[name] = self.left_out_n.get(name, 0) + 1
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

        A constraint that a check has left out has cost it nothing.

        One snapshot, however many a trial takes until its one check at the end: a trial that is
        checked at every step takes none, and must not be judged by what the others cost.
        None while no check was timed.
        """
        if not self.check_n:
            return None
        left_out = self.left_out_n.get
        means = sum(
            self.check_s[name] / (n + left_out(name, 0)) for name, n in self.check_n.items()
        )
        return means + (self.snapshot_s / self.snapshot_n if self.snapshot_n else 0.0)

    @property
    def ratio(self) -> float | None:
        """r = C_1 / C_2; None while it cannot be known."""
        check, primary = self.mean_check_s, self.mean_primary_s
        if check is None or primary <= 0:
            return None
        return min(check / primary, sys.float_info.max)

    def order(self, names: Sequence[str]) -> tuple[str, ...] | None:
        """Constraints in the order that finds a broken one for the least time on average.

        That is by cost over the odds of being broken; if they are independent, no other order
        does better. None while one was never timed.

        >>> costs = Costs(violated_n={"eod": 1, "afr": 9})
        >>> for name, seconds in (("eod", 1.0), ("afr", 2.0)):
        ...     costs.check_s[name], costs.check_n[name] = 10 * seconds, 10
        >>> costs.order(["eod", "afr"])
        ('afr', 'eod')
        """
        if any(name not in self.check_n for name in names):
            return None

        def price(name: str) -> float:
            n = self.check_n[name]
            odds = (self.violated_n.get(name, 0) + 1) / (n + 2)  # neither 0 nor 1
            return self.check_s[name] / n / odds

        return tuple(sorted(names, key=price))

    @property
    def total_check_s(self) -> float:
        """All time spent on checks and on the snapshots taken for them."""
        return sum(self.check_s.values()) + self.snapshot_s
