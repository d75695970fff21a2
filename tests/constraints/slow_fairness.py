"""The fairness metrics once more, slow and obvious: lists, loops and every pair of groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

RATES = {"demographic_parity": [None], "equal_opportunity": [1], "equalized_odds": [0, 1]}


def slow_metric(
    name: str,
    y: Sequence[int],
    predicted: Sequence[int],
    group: Sequence[object],
    weights: Sequence[float] | None = None,
    method: str = "between_groups",
    agg: str = "worst_case",
) -> float:
    """The metric; NaN where a rate is not defined."""
    family, comparison = name.rsplit("_", 1)
    weights = [1.0] * len(y) if weights is None else weights

    def rate(label: int | None, member: object) -> float:
        total = selected = 0.0
        for truth, guess, who, weight in zip(y, predicted, group, weights, strict=True):
            if (label is None or truth == label) and member in (None, who):
                total += weight
                selected += weight * guess
        return selected / total if total else math.nan

    found = []
    for label in RATES[family]:
        rates = [rate(label, member) for member in dict.fromkeys(group)]
        others = rates if method == "between_groups" else [rate(label, None)]
        pairs = [*product(rates, others), *product(others, rates)]
        if any(math.isnan(value) for value in rates):
            return math.nan
        if comparison == "difference":
            found.append(max(a - b for a, b in pairs))
        else:
            found.append(min([1.0, *(a / b for a, b in pairs if b > 0)]))  # all 0: all the same
    if agg == "mean":
        return sum(found) / len(found)
    return max(found) if comparison == "difference" else min(found)
