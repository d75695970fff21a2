"""What a trial is expected to cost, by how often its constraint is checked (Chen et al. 2022).

Costs are in units of C_2, the primary cost of one iteration; ``r`` is C_1 / C_2, the cost of one
check over it; ``p`` the probability that a trial is stopped at a check; ``T`` its last iteration;
``beta`` the number of iterations between checks. Theorem 1: the cheapest beta is 1 or T.
"""

from __future__ import annotations

import math

from acetune.core.errors import GoalError

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
