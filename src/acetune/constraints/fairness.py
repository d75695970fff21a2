"""Fairness metrics: how differently a classifier treats groups of people.

Names, parameters and values are those of `Fairlearn <https://fairlearn.org>`_ (Weerts et al., JMLR
2023), in plain NumPy and some hundred times faster. Equalised odds and equal opportunity are due to
Hardt, Price and Srebro (2016). All functions take, beside Fairlearn's parameters:

``threshold``
    ``None``: ``y_pred`` are labels, 0 or 1. A number: they are scores, and a score that reaches the
    threshold is a positive prediction. ``"prevalence"``: the same, with the share of positive
    labels in ``y_true`` as the threshold.
``stderr``
    ``True`` gives ``acetune.Estimate(value, stderr)``. Rates are binomial, given the groups' sizes;
    weights count by their effective size. The standard error is that of the groups that are
    furthest apart, and larger where others come near; where several are about equally far apart the
    value itself is too large on average (too small for ratios), and the interval reaches too far
    rather than not far enough on the unfair side.
``undefined``
    What becomes of a rate with no rows to count (a group without positive labels has no true
    positive rate): ``"error"``, which names the group and the rate, or ``"nan"``. Fairlearn takes
    such a rate as 0, and so as unfair.

A rate that is 0 in every group is the same in all, and its ratio is 1, with a standard error of
about 1.4: how rare what never happened is in each group, nobody knows. Of such a ratio Fairlearn
makes NaN. Of two ratios it leaves that one out of the mean, and of the minimum if it is that of the
false positive rates; if it is that of the true ones, the minimum is NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, Required, TypedDict, Unpack, cast, overload

from acetune.constraints._arrays import Threshold, as_positive, as_threshold, require_length
from acetune.constraints._rates import Aggregation, Measure, Method, Options, Undefined
from acetune.core.goals import Estimate

__all__ = [
    "demographic_parity_difference",
    "demographic_parity_ratio",
    "equal_opportunity_difference",
    "equal_opportunity_ratio",
    "equalized_odds_difference",
    "equalized_odds_ratio",
]


# -- the metrics as type checkers see them: with stderr=True they give an Estimate -----------------


class GroupOptions(TypedDict, total=False):
    """What a metric of one rate takes beside labels and predictions."""

    sensitive_features: Required[Any]
    method: Method
    sample_weight: Any
    threshold: Threshold
    undefined: Undefined


class OddsOptions(GroupOptions, total=False):
    """Of a metric of two rates: also how they are aggregated."""

    agg: Aggregation


class GroupMetric(Protocol):
    """A metric of one rate."""

    @overload
    def __call__(
        self, y_true: Any, y_pred: Any, *, stderr: Literal[False] = ..., **how: Unpack[GroupOptions]
    ) -> float: ...

    @overload
    def __call__(
        self, y_true: Any, y_pred: Any, *, stderr: Literal[True], **how: Unpack[GroupOptions]
    ) -> Estimate: ...


class OddsMetric(Protocol):
    """A metric of two rates."""

    @overload
    def __call__(
        self, y_true: Any, y_pred: Any, *, stderr: Literal[False] = ..., **how: Unpack[OddsOptions]
    ) -> float: ...

    @overload
    def __call__(
        self, y_true: Any, y_pred: Any, *, stderr: Literal[True], **how: Unpack[OddsOptions]
    ) -> Estimate: ...


def group_metric(function: Callable[..., float | Estimate]) -> GroupMetric:
    """The function itself, for type checkers."""
    return cast(GroupMetric, function)


def odds_metric(function: Callable[..., float | Estimate]) -> OddsMetric:
    """The function itself, for type checkers."""
    return cast(OddsMetric, function)


# -- the metrics -----------------------------------------------------------------------------------


@odds_metric
def equalized_odds_difference(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    method: Method = "between_groups",
    sample_weight: Any = None,
    agg: Aggregation = "worst_case",
    threshold: Threshold = None,
    stderr: bool = False,
    undefined: Undefined = "error",
) -> float | Estimate:
    """The largest difference between groups in true, or in false, positive rate.

    Parameters
    ----------
    y_true, y_pred:
        Labels and predictions, row by row: labels are 0 or 1; predictions too, or scores with a
        ``threshold``.
    sensitive_features:
        The group of each row: values of any kind. A table (data frame, dict of columns, array of
        two dimensions) makes a group of each combination that occurs.
    method:
        ``"between_groups"`` compares the groups with each other, ``"to_overall"`` each group
        with everybody.
    sample_weight:
        What each row counts.
    agg:
        ``"worst_case"`` takes the larger of the two differences, ``"mean"`` their mean.
    threshold, stderr, undefined:
        See the top of this module.

    >>> y, sex = [1, 1, 1, 0, 0, 0], ["f", "f", "m", "f", "m", "m"]
    >>> equalized_odds_difference(y, [1, 0, 1, 0, 0, 1], sensitive_features=sex)
    0.5
    >>> scores = [0.9, 0.3, 0.8, 0.1, 0.2, 0.6]
    >>> equalized_odds_difference(
    ...     y, scores, sensitive_features=sex, threshold=0.5, stderr=True
    ... ).value
    0.5
    """
    rows = y_true, y_pred, sensitive_features, sample_weight, threshold
    return _measured("equalized_odds_difference", rows, Options(method, undefined, agg), stderr)


@odds_metric
def equalized_odds_ratio(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    method: Method = "between_groups",
    sample_weight: Any = None,
    agg: Aggregation = "worst_case",
    threshold: Threshold = None,
    stderr: bool = False,
    undefined: Undefined = "error",
) -> float | Estimate:
    """The smallest ratio between groups of true, or of false, positive rates.

    ``agg="worst_case"`` takes the smaller of the two ratios. Parameters as for
    :func:`equalized_odds_difference`.

    >>> y, sex = [1, 1, 1, 0, 0, 0], ["f", "f", "m", "f", "m", "m"]
    >>> equalized_odds_ratio(y, [1, 0, 1, 1, 0, 1], sensitive_features=sex)
    0.5
    """
    rows = y_true, y_pred, sensitive_features, sample_weight, threshold
    return _measured("equalized_odds_ratio", rows, Options(method, undefined, agg), stderr)


@group_metric
def equal_opportunity_difference(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    method: Method = "between_groups",
    sample_weight: Any = None,
    threshold: Threshold = None,
    stderr: bool = False,
    undefined: Undefined = "error",
) -> float | Estimate:
    """The largest difference between groups in true positive rate.

    Parameters as for :func:`equalized_odds_difference`.

    >>> y, sex = [1, 1, 1, 0], ["f", "f", "m", "m"]
    >>> equal_opportunity_difference(y, [1, 0, 1, 0], sensitive_features=sex)
    0.5
    """
    rows = y_true, y_pred, sensitive_features, sample_weight, threshold
    return _measured("equal_opportunity_difference", rows, Options(method, undefined), stderr)


@group_metric
def equal_opportunity_ratio(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    method: Method = "between_groups",
    sample_weight: Any = None,
    threshold: Threshold = None,
    stderr: bool = False,
    undefined: Undefined = "error",
) -> float | Estimate:
    """The smallest ratio between groups of true positive rates.

    Parameters as for :func:`equalized_odds_difference`.

    >>> y, sex = [1, 1, 1, 0], ["f", "f", "m", "m"]
    >>> equal_opportunity_ratio(y, [1, 0, 1, 0], sensitive_features=sex)
    0.5
    """
    rows = y_true, y_pred, sensitive_features, sample_weight, threshold
    return _measured("equal_opportunity_ratio", rows, Options(method, undefined), stderr)


@group_metric
def demographic_parity_difference(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    method: Method = "between_groups",
    sample_weight: Any = None,
    threshold: Threshold = None,
    stderr: bool = False,
    undefined: Undefined = "error",
) -> float | Estimate:
    """The largest difference between groups in selection rate, the share predicted positive.

    Parameters as for :func:`equalized_odds_difference`; of ``y_true`` only the length matters,
    unless the threshold is its prevalence.

    >>> y, sex = [1, 1, 1, 0], ["f", "f", "m", "m"]
    >>> demographic_parity_difference(y, [1, 1, 1, 0], sensitive_features=sex)
    0.5
    """
    rows = y_true, y_pred, sensitive_features, sample_weight, threshold
    return _measured("demographic_parity_difference", rows, Options(method, undefined), stderr)


@group_metric
def demographic_parity_ratio(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    method: Method = "between_groups",
    sample_weight: Any = None,
    threshold: Threshold = None,
    stderr: bool = False,
    undefined: Undefined = "error",
) -> float | Estimate:
    """The smallest ratio between groups of selection rates.

    0.8 is the limit of the four-fifths rule. Parameters as for
    :func:`demographic_parity_difference`.

    >>> y, sex = [1, 1, 1, 0], ["f", "f", "m", "m"]
    >>> demographic_parity_ratio(y, [1, 1, 1, 0], sensitive_features=sex)
    0.5
    """
    rows = y_true, y_pred, sensitive_features, sample_weight, threshold
    return _measured("demographic_parity_ratio", rows, Options(method, undefined), stderr)


def _measured(
    metric: str, rows: tuple[Any, ...], options: Options, stderr: bool
) -> float | Estimate:
    """A metric of the rows as the functions above are given them."""
    y_true, y_pred, sensitive_features, sample_weight, threshold = rows
    measure = Measure(metric, y_true, sensitive_features, sample_weight, options, named=stderr)
    require_length(y_true, "y_true", measure.rows)  # demographic parity has not looked at it
    cut = as_threshold(threshold, y_true, measure.weights)
    positive = as_positive(y_pred, cut, "y_pred")
    require_length(positive, "y_pred", measure.rows)
    frozen = not isinstance(threshold, str)
    estimate = measure.estimate(positive, stderr=stderr, threshold=cut, frozen=frozen)
    return estimate if stderr else estimate.value
