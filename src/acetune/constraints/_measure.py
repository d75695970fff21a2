"""A fairness metric on given rows: what does not depend on predictions is counted once."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from acetune.constraints._arrays import as_labels, as_weights, require_length
from acetune.constraints._groups import Groups, encode_groups
from acetune.constraints._rates import Comparison, Method, Rates, compare, shrunk_rates
from acetune.core.errors import GoalError
from acetune.core.goals import Estimate

_Array = NDArray[Any]
Aggregation: TypeAlias = Literal["worst_case", "mean"]
Undefined: TypeAlias = Literal["error", "nan"]

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
    agg: Aggregation = "worst_case"
    undefined: Undefined = "error"

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
    ) -> None:
        self._metric, self._options = METRICS[name], options.checked()
        groups = encode_groups(sensitive_features)
        self.rows = len(groups.codes)
        if not self.rows:
            raise GoalError("sensitive_features is empty: there is nothing to measure")
        self.groups = groups.number
        self.weights = None if sample_weight is None else as_weights(sample_weight)
        if self.weights is not None:
            require_length(self.weights, "sample_weight", self.rows)
        self._cells, self._shape = groups.codes, (1, groups.number)
        if self._metric.rates != (_SELECTION,):
            label = as_labels(y_true, "y_true")
            require_length(label, "y_true", self.rows)
            self._cells, self._shape = groups.codes + label * groups.number, (2, groups.number)
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

    def estimate(self, positive: NDArray[np.bool_], *, stderr: bool) -> Estimate:
        """The metric for predictions of all rows: a number, unless a rate has no rows to count."""
        if self._gap:
            return Estimate(math.nan, math.nan)
        if self.weights is None:
            selected = squares = self._sum(positive)
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
        return self._aggregate(found) if len(found) > 1 else found[0]

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
