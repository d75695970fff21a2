"""The fairness metrics as type checkers see them: with ``stderr=True`` they give an Estimate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, cast, overload

from acetune.constraints._arrays import Threshold
from acetune.constraints._measure import Aggregation, Undefined
from acetune.constraints._rates import Method
from acetune.core.goals import Estimate


class GroupMetric(Protocol):
    """A metric of one rate."""

    @overload
    def __call__(
        self,
        y_true: Any,
        y_pred: Any,
        *,
        sensitive_features: Any,
        method: Method = ...,
        sample_weight: Any = ...,
        threshold: Threshold = ...,
        stderr: Literal[False] = ...,
        undefined: Undefined = ...,
    ) -> float: ...

    @overload
    def __call__(
        self,
        y_true: Any,
        y_pred: Any,
        *,
        sensitive_features: Any,
        method: Method = ...,
        sample_weight: Any = ...,
        threshold: Threshold = ...,
        stderr: Literal[True],
        undefined: Undefined = ...,
    ) -> Estimate: ...


class OddsMetric(Protocol):
    """A metric of two rates, which are aggregated."""

    @overload
    def __call__(
        self,
        y_true: Any,
        y_pred: Any,
        *,
        sensitive_features: Any,
        method: Method = ...,
        sample_weight: Any = ...,
        agg: Aggregation = ...,
        threshold: Threshold = ...,
        stderr: Literal[False] = ...,
        undefined: Undefined = ...,
    ) -> float: ...

    @overload
    def __call__(
        self,
        y_true: Any,
        y_pred: Any,
        *,
        sensitive_features: Any,
        method: Method = ...,
        sample_weight: Any = ...,
        agg: Aggregation = ...,
        threshold: Threshold = ...,
        stderr: Literal[True],
        undefined: Undefined = ...,
    ) -> Estimate: ...


def group_metric(function: Callable[..., float | Estimate]) -> GroupMetric:
    """The function itself, for type checkers."""
    return cast(GroupMetric, function)


def odds_metric(function: Callable[..., float | Estimate]) -> OddsMetric:
    """The function itself, for type checkers."""
    return cast(OddsMetric, function)
