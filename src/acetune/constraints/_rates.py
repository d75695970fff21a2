"""A fairness metric on given rows: rates of groups compared, with a standard error.

What does not depend on predictions is counted once.

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

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from acetune.certification.evidence import Evidence, Measured, Refused
from acetune.certification.group_rates import GroupRates, Rate
from acetune.constraints._arrays import (
    Groups,
    as_labels,
    as_weights,
    encode_groups,
    require_length,
    require_same_index,
)
from acetune.core.errors import GoalError
from acetune.core.goals import Estimate

_Array = NDArray[Any]
_FEW = 16  # groups
Method: TypeAlias = Literal["between_groups", "to_overall"]
Comparison: TypeAlias = Literal["difference", "ratio"]
Undefined: TypeAlias = Literal["error", "nan"]
Aggregation: TypeAlias = Literal["worst_case", "mean"]


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


_FPR, _TPR, _SELECTION = "false positive rate", "true positive rate", "selection rate"


class Metric(NamedTuple):
    """What a metric compares between groups, and how."""

    rates: tuple[str, ...]
    comparison: Comparison


METRICS = {
    "demographic_parity_difference": Metric((_SELECTION,), "difference"),
    "demographic_parity_ratio": Metric((_SELECTION,), "ratio"),
    "equal_opportunity_difference": Metric((_TPR,), "difference"),
    "equal_opportunity_ratio": Metric((_TPR,), "ratio"),
    "equalized_odds_difference": Metric((_FPR, _TPR), "difference"),
    "equalized_odds_ratio": Metric((_FPR, _TPR), "ratio"),
}


class Options(NamedTuple):
    """How a metric is taken, as the public functions take it; validated by :meth:`checked`."""

    method: Method = "between_groups"
    undefined: Undefined = "error"
    agg: Aggregation = "worst_case"

    def checked(self) -> Self:
        """Itself, or an error that names the bad option."""
        allowed = {
            "method": ("between_groups", "to_overall"),
            "agg": ("worst_case", "mean"),
            "undefined": ("error", "nan"),
        }
        for name, value in self._asdict().items():
            if value not in allowed[name]:
                first, second = allowed[name]
                raise GoalError(f"{name} must be {first!r} or {second!r}, got {value!r}")
        return self


_DEFAULTS = Options()


class Measure:
    """One metric on given rows, to be asked for many predictions.

    ``named``: groups are called by their names in :meth:`selection`.

    >>> measure = Measure("demographic_parity_difference", [0, 1, 1], ["f", "m", "m"])
    >>> measure.estimate(np.array([False, True, False]), stderr=False).value
    0.5
    """

    def __init__(
        self,
        name: str,
        y_true: Any,
        sensitive_features: Any,
        sample_weight: Any = None,
        options: Options = _DEFAULTS,
        *,
        named: bool = False,  # whether a certificate may be wanted: it names the groups
    ) -> None:
        self._metric, self._options = METRICS[name], options.checked()
        groups = encode_groups(sensitive_features)
        self.rows = len(groups.codes)
        if not self.rows:
            raise GoalError("sensitive_features is empty: there is nothing to measure")
        others = {"y_true": y_true, "sample_weight": sample_weight}
        require_same_index(groups.columns, others)
        self.groups = groups.number
        self.group_names = groups.names() if named else ()
        self.weights = None if sample_weight is None else as_weights(sample_weight)
        if self.weights is not None:
            require_length(self.weights, "sample_weight", self.rows)
        self._cells, self._shape = groups.codes, (1, groups.number)
        if self._metric.rates != (_SELECTION,):
            label = as_labels(y_true, "y_true")
            require_length(label, "y_true", self.rows)
            self._cells, self._shape = groups.codes + label * groups.number, (2, groups.number)
        if named:
            cells = np.bincount(self._cells, minlength=self._shape[0] * self._shape[1])
            self._rows_of = cells.reshape(self._shape).sum(axis=0)
        # a row of cells for each rate; those of equal opportunity are the second, with label 1
        self._first = self._shape[0] - len(self._metric.rates)
        self._total = self._sum(self.weights)
        self._squares = self._total if self.weights is None else self._sum(self.weights**2)
        empty = np.argwhere(self._total == 0).tolist()
        self._gap = self._complaint(groups, *empty[0]) if empty else ""
        if self._gap:
            if options.undefined == "error":
                raise GoalError(self._gap)
            return
        self._share = self._total / self._total.sum(axis=1, keepdims=True)

    def estimate(
        self,
        positive: NDArray[np.bool_],
        *,
        stderr: bool,
        threshold: float | None = None,
        frozen: bool = True,
        counts: _Array | None = None,
    ) -> Estimate:
        """The metric for predictions of all rows: a number, unless a rate has no rows to count.

        With a standard error it comes with what a certificate needs; not so where the
        ``threshold`` of the predictions was taken from these rows (``frozen=False``). ``counts``
        are those of :meth:`counts`, where they are known.
        """
        if self._gap:
            return Estimate(math.nan, math.nan)
        if self.weights is None:
            counts = self.counts(positive) if counts is None else counts
            selected = squares = counts[self._first :]
        else:
            selected = self._sum(self.weights * positive)
            squares = self._sum(self.weights**2 * positive) if stderr else selected
        values = selected / self._total
        parts: tuple[_Array, ...] = values, self._share
        if stderr:
            parts += shrunk_rates(selected, self._total, squares, self._squares)
        found = [
            compare(Rates(*one), self._metric.comparison, self._options.method)
            for one in zip(*parts, strict=True)
        ]
        value = self._aggregate(found) if len(found) > 1 else found[0]
        return Measured(*value, self._evidence(selected, threshold, frozen)) if stderr else value

    def counts(self, positive: NDArray[np.bool_]) -> _Array:
        """How many rows are predicted positive, by label (where it matters) and group."""
        found = np.bincount(self._cells, positive, self._shape[0] * self._shape[1])
        return found.reshape(self._shape)

    def selection(self, counts: _Array) -> tuple[float, dict[str, float]]:
        """The share of rows that are predicted positive, of all and in each of a few groups."""
        of_group = counts.sum(axis=0)
        share = float(of_group.sum()) / self.rows
        few = self.group_names if self.groups <= _FEW else ()  # of more nobody reads the shares
        return share, dict(zip(few, (of_group / self._rows_of).tolist(), strict=False))

    def _evidence(self, selected: _Array, threshold: float | None, frozen: bool) -> Evidence:
        """The counts of all groups, or why they certify nothing."""
        refused = None
        if self.weights is not None:
            refused = "rows with weights have no exact bound: leave sample_weight out of confirm"
        elif self._options.method != "between_groups":
            refused = "method='to_overall' has no exact bound: use method='between_groups'"
        elif len(self._metric.rates) > 1 and self._options.agg != "worst_case":
            refused = "agg='mean' has no exact bound: use agg='worst_case'"
        elif not frozen:
            refused = (
                "its threshold was taken from the fresh rows: take it from the rows of the search, "
                "as in threshold=check.threshold"
            )
        if refused is not None:
            return Refused(refused)
        whole = selected.astype(int).tolist()
        counts = zip(self._metric.rates, whole, self._total.tolist(), strict=True)
        rates = tuple(Rate(name, tuple(x), tuple(n)) for name, x, n in counts)
        return GroupRates(
            rates, self._metric.comparison, groups=self.group_names, threshold=threshold
        )

    def _sum(self, weights: _Array | None) -> _Array:
        """Sums by cell, or counts."""
        sums = np.bincount(self._cells, weights, self._shape[0] * self._shape[1])
        return sums.reshape(self._shape)[self._first :]

    def _aggregate(self, found: list[Estimate]) -> Estimate:
        values, errors = zip(*found, strict=True)
        if self._options.agg == "mean":  # rates of different rows are independent
            return Estimate(sum(values) / len(values), math.hypot(*errors) / len(errors))
        sign = 1.0 if self._metric.comparison == "difference" else -1.0
        worst = max(sign * value for value in values)
        reach = max(sign * value + error for value, error in found)
        return Estimate(sign * worst, reach - worst)

    def _complaint(self, groups: Groups, place: int, group: int) -> str:
        """Why a rate cannot be computed."""
        rate = self._metric.rates[place]
        rows = "no rows" if self.weights is None else "no weight"
        if rate != _SELECTION:
            rows += f" with label {int(rate == _TPR)}"
        return (
            f"the {rate} of group {groups.name(group)} is undefined: it has {rows}; merge small "
            "groups or leave them out"
        )

    def __getstate__(self) -> dict[str, Any]:
        cells = self._cells.astype(np.min_scalar_type(self._shape[0] * self._shape[1]))
        return {**self.__dict__, "_cells": cells}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._cells = self._cells.astype(np.intp)
