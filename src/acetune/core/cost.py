"""What a trial is expected to cost, and what training and checking have cost so far.

The expectations are those of Chen et al. (2022). Costs are in units of C_2, the primary cost of one
iteration; ``r`` is C_1 / C_2, the cost of one check over it; ``p`` the probability that a trial is
stopped at a check; ``T`` its last iteration; ``beta`` the number of iterations between checks.
Theorem 1: the cheapest beta is 1 or T.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from acetune.core.errors import GoalError
from acetune.core.observation import CheckResult

# Below this p*T the closed form loses digits to cancellation and the series is exact to 1e-15.
_SERIES_BELOW = 1e-3


def expected_cost_sum(beta: int, p: float, r: float, T: int) -> float:
    """Equation 1 over C_2, term by term, for a whole number beta.

    There are z checks, (z-1) beta < T <= z beta.

    >>> expected_cost_sum(beta=1, p=0.5, r=2, T=1)
    3.0
    """
    _require(p, r, T)
    if not 1 <= beta <= T:
        raise GoalError(f"beta must lie between 1 and T={T}, got {beta}")
    z = -(-T // beta)
    stays = (1 - p) ** z * (r * z + T)
    leaves = sum((1 - p) ** (k - 1) * p * (r * k + k * beta) for k in range(1, z + 1))
    return stays + leaves


def expected_cost(beta: float, p: float, r: float, T: float) -> float:
    """Equation 2 over C_2: ``(r + beta) (1 - (1-p)^(T/beta)) / p``.

    >>> expected_cost(beta=16, p=0.5, r=14, T=16)
    30.0
    """
    _require(p, r, T)
    if not 1 <= beta <= T:
        raise GoalError(f"beta must lie between 1 and T={T}, got {beta}")
    checks = T / beta
    if p == 0:
        return (r + beta) * checks
    if p == 1:
        return r + beta
    return (r + beta) * -math.expm1(checks * math.log1p(-p)) / p


def interval_threshold(p: float, T: float) -> float:
    """The cost ratio of Theorem 1: below it checking every iteration is cheaper, else at the end.

    ``(pT + (1-p)^T - 1) / (1 - p - (1-p)^T)``, computed without overflow or cancellation.

    >>> round(interval_threshold(p=0.5, T=16), 3)
    14.0
    """
    _require(p, 0.0, T)
    if p == 0:
        return 0.0
    if p == 1 or T == 1:
        return math.inf
    log_q = math.log1p(-p)
    # numerator and denominator are both divided by p, which may be so small that its square is 0
    if p * T < _SERIES_BELOW:
        # pT + (1-p)^T - 1 is the binomial series of (1-p)^T from its quadratic term on
        a, b, c = (T - 2) * p, (T - 3) * p, (T - 4) * p
        numerator = T / 2 * p * (T - 1) * (1 - a / 3 * (1 - b / 4 * (1 - c / 5)))
    else:
        numerator = T + math.expm1(T * log_q) / p
    denominator = -(1 - p) * math.expm1((T - 1) * log_q) / p
    return numerator / denominator if denominator > 0 else math.inf


def best_interval(p: float, r: float, T: int) -> int:
    """The cheapest interval by Theorem 1: 1 or T (T on equality and for p = 0).

    >>> best_interval(p=0.5, r=20, T=16), best_interval(p=0.5, r=20, T=64)
    (16, 1)
    """
    _require(p, r, T)
    if T == 1:
        return 1
    return 1 if r < interval_threshold(p, T) else T


def _require(p: float, r: float, T: float) -> None:
    if not 0 <= p <= 1:
        raise GoalError(f"p must lie between 0 and 1, got {p}")
    if not (math.isfinite(r) and r >= 0):
        raise GoalError(f"r must be a finite number >= 0, got {r}")
    if not (math.isfinite(T) and T >= 1):
        raise GoalError(f"T must be a finite number >= 1, got {T}")


# -- measured --------------------------------------------------------------------------------------


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
        for name, seconds in (check_s or {}).items():
            self.check_s[name] = self.check_s.get(name, 0.0) + seconds
            self.check_n[name] = self.check_n.get(name, 0) + 1
            if check is not None and name in check.violated:
                self.violated_n[name] = self.violated_n.get(name, 0) + 1
        if check_s and check is not None:
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
        """Constraints in the order that finds a violated one for the least time on average.

        That is by cost over the odds of being violated; if they are independent, no other order
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
