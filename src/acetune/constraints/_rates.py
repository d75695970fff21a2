"""Rates of groups compared: the largest difference or the smallest ratio, with a standard error.

Rates are shares of binomial counts, given how many rows each group has. The variance of one is
taken with a success and a failure added (Agresti and Caffo, 2000), so that a small group in which
nobody, or everybody, was selected does not pass for one that is known exactly.

A rate that is 0 in every group is the same in all of them, and its ratio is 1. How sure that is,
the rates with a success and a failure added tell: not at all, as a ratio of rates that may be
anything near 0. Its standard error is about the square root of 2, whatever the number of rows.

The standard error reaches as far as any pair of groups does: it is the largest *difference plus its
own standard error* among all pairs, less the largest difference. Where one pair stands out this is
the delta method's standard error of that pair. Where others come near, or a small group could
overtake, it is larger. The largest of several noisy differences is biased upwards; that bias is
left in the value, as in Fairlearn's. For ratios all this holds the other way round.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from acetune.core.goals import Estimate

_Array = NDArray[Any]
Method: TypeAlias = Literal["between_groups", "to_overall"]
Comparison: TypeAlias = Literal["difference", "ratio"]


class Rates(NamedTuple):
    """One rate, of every group."""

    value: _Array
    share: _Array  # of the group among all rows that the rate is about
    shrunk: _Array | None = None  # with a success and a failure added, and
    variance: _Array | None = None  # where a standard error is wanted


def shrunk_rates(
    positive: _Array, total: _Array, positive_squares: _Array, squares: _Array
) -> tuple[_Array, _Array]:
    """``positive / total`` with a success and a failure added, and the variance with those.

    The arguments are sums of row weights and of their squares. Without weights all are counts, and
    with p = (k + 1) / (n + 2) the variance is p (1 - p) / n. With weights the added rows weigh as
    much as one of the effective sample.

    >>> p, variance = shrunk_rates(*np.array([[0.0, 5], [10, 10], [0, 5], [10, 10]]))
    >>> p.round(4).tolist(), variance.round(4).tolist()
    ([0.0833, 0.5], [0.0076, 0.025])
    """
    added = squares / total
    p = (positive + added) / (total + 2 * added)
    selected, others = positive_squares + added**2, squares - positive_squares + added**2
    variance: _Array = ((1 - p) ** 2 * selected + p**2 * others) / (total * (total + 2 * added))
    return p, variance


def compare(rates: Rates, comparison: Comparison, method: Method) -> Estimate:
    """How far apart the groups' rates are."""
    if comparison == "ratio" and not rates.value.any():
        return _ratio_of_zeros(rates, method)
    return _COMPARE[comparison, method](rates)


def _difference_between(rates: Rates) -> Estimate:
    p, v = rates.value, rates.variance
    value = float(p.max() - p.min())
    if v is None or len(p) == 1:
        return Estimate(value)
    a, b = _pairs(len(p))
    return _reach(value, np.abs(p[a] - p[b]), v[a] + v[b])


def _difference_to_overall(rates: Rates) -> Estimate:
    p, share, _, v = rates
    gaps = np.abs(p - p @ share)
    value = float(gaps.max())
    if v is None or len(p) == 1:
        return Estimate(value)
    return _reach(value, gaps, v - 2 * share * v + share**2 @ v)


def _ratio_between(rates: Rates) -> Estimate:
    p, v = rates.value, rates.variance
    value = float(p.min() / p.max())
    if v is None or len(p) == 1:
        return Estimate(value)
    order = np.argsort(p, kind="stable")
    p, v = p[order], v[order]
    a, b = _pairs(len(p))  # the second of a pair has the larger rate
    a, b = a[p[b] > 0], b[p[b] > 0]
    ratios = p[a] / p[b]
    return _reach(value, -ratios, (v[a] + ratios**2 * v[b]) / p[b] ** 2)


def _ratio_to_overall(rates: Rates) -> Estimate:
    p, share, _, v = rates
    overall = p @ share
    large = np.maximum(p, overall)
    ratios = np.minimum(p, overall) / large
    value = float(ratios.min())
    if v is None or len(p) == 1:
        return Estimate(value)
    # of r = small / large: Var(small) + r^2 Var(large) - 2 r Cov(small, large), over large^2
    whole = share**2 @ v
    ours, theirs = np.where(p <= overall, (v, np.full_like(v, whole)), (np.full_like(v, whole), v))
    variance = (ours + ratios**2 * theirs - 2 * ratios * share * v) / large**2
    return _reach(value, -ratios, variance)


def _ratio_of_zeros(rates: Rates, method: Method) -> Estimate:
    """1, with the standard error of the logarithm: at 1 that is the ratio's own."""
    _, share, p, v = rates
    if p is None or v is None or len(p) == 1:
        return Estimate(1.0)
    if method == "between_groups":
        a, b = _pairs(len(p))
        variance = (v / p**2)[a] + (v / p**2)[b]
    else:
        overall = p @ share
        variance = v / p**2 + share**2 @ v / overall**2 - 2 * share * v / (p * overall)
    return _reach(1.0, np.full_like(variance, -1.0), variance)


_COMPARE: dict[tuple[Comparison, Method], Callable[[Rates], Estimate]] = {
    ("difference", "between_groups"): _difference_between,
    ("difference", "to_overall"): _difference_to_overall,
    ("ratio", "between_groups"): _ratio_between,
    ("ratio", "to_overall"): _ratio_to_overall,
}


def _reach(value: float, unfairness: _Array, variance: _Array) -> Estimate:
    """``value`` with the standard error that the docstring of this module tells of."""
    # rounding may leave a variance a hair below zero
    most = (unfairness + np.sqrt(np.maximum(variance, 0.0))).max()
    return Estimate(value, float(most - unfairness.max()))


@lru_cache(maxsize=64)
def _pairs(groups: int) -> tuple[_Array, _Array]:
    first, second = np.triu_indices(groups, 1)
    return first, second
