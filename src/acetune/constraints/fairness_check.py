"""A fairness limit as the check of a constraint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from acetune.constraints._arrays import (
    Threshold,
    as_labels,
    as_positive,
    as_threshold,
    require_length,
)
from acetune.constraints._measure import METRICS, Aggregation, Measure, Options
from acetune.constraints._rates import Method
from acetune.core.errors import GoalError
from acetune.core.goals import Estimate

MetricName: TypeAlias = Literal[
    "demographic_parity_difference",
    "demographic_parity_ratio",
    "equal_opportunity_difference",
    "equal_opportunity_ratio",
    "equalized_odds_difference",
    "equalized_odds_ratio",
]


class FairnessCheck:
    """A metric of :mod:`acetune.constraints.fairness` on given rows, as a constraint's check.

    It takes what ``trial.report(model=...)`` was given: the scores of the rows, in their order; an
    object that has them as its attribute ``scores`` (the callbacks of :mod:`acetune.callbacks`
    report such); or anything, with ``scores`` to get them from it. Groups and labels are counted
    once, here, so that a check takes a fraction of a millisecond for thousands of rows. A group
    without rows that a rate is about is an error here, before anything is trained; with every rate
    defined the metric is, whatever the predictions.

    Parameters
    ----------
    metric:
        The name of the metric: give ``Constraint`` an ``upper`` limit for a difference, a ``lower``
        one for a ratio.
    y_true, sensitive_features, method, sample_weight, agg:
        As the function of that name takes them.
    threshold:
        A score from this on is a positive prediction; ``"prevalence"``: the share of positive
        labels in ``y_true``; None: what comes are labels, 0 or 1.
    scores:
        Called with the reported model; returns the scores.
    stderr:
        Whether the check gives a standard error too, which ``Constraint(margin_se=...)`` and
        intervals use.

    >>> y, sex = [1, 1, 1, 0, 0, 0], ["f", "f", "m", "f", "m", "m"]
    >>> check = FairnessCheck("equal_opportunity_difference", y, sex, threshold=0.5)
    >>> check([0.9, 0.3, 0.8, 0.1, 0.2, 0.6]).value
    0.5
    """

    def __init__(
        self,
        metric: MetricName,
        y_true: Any,
        sensitive_features: Any,
        *,
        threshold: Threshold = 0.5,
        scores: Callable[[Any], Any] | None = None,
        method: Method = "between_groups",
        sample_weight: Any = None,
        agg: Aggregation = "worst_case",
        stderr: bool = True,
    ) -> None:
        if metric not in METRICS:
            raise GoalError(f"unknown fairness metric {metric!r}; there are {sorted(METRICS)}")
        if scores is not None and not callable(scores):
            raise GoalError(
                "scores must be a function of the reported model, such as lambda model: "
                f"model.predict(X), got {type(scores).__name__}"
            )
        options = Options(method, agg)
        self._measure = Measure(metric, y_true, sensitive_features, sample_weight, options)
        require_length(y_true, "y_true", self._measure.rows)
        if self._measure.groups == 1:
            raise GoalError(
                "sensitive_features has one group only: there is nothing to compare it with"
            )
        self.metric = metric
        self.threshold = as_threshold(threshold, y_true, self._measure.weights)
        self.stderr = stderr
        self._scores = scores

    def __call__(self, model: Any) -> Estimate:
        """The metric for a reported model, or for its scores."""
        if self._scores is not None:
            scores, what = self._scores(model), "what scores(model) gave"
        elif (found := getattr(model, "scores", None)) is not None:
            scores, what = found, f"{type(model).__name__}.scores"
        else:
            scores, what = model, "what was reported as model"
            if not hasattr(model, "__len__"):
                raise GoalError(
                    f"FairnessCheck needs scores and was given {type(model).__qualname__}: report "
                    "model=scores, or give FairnessCheck(scores=lambda model: ...)"
                )
        if self.threshold is None:
            positive = as_labels(scores, what)
        else:
            positive = as_positive(scores, self.threshold, what)
        require_length(positive, what, self._measure.rows)
        return self._measure.estimate(positive, stderr=self.stderr)

    def __repr__(self) -> str:
        rule = "labels" if self.threshold is None else f"scores >= {self.threshold:g}"
        return f"FairnessCheck({self.metric}, {rule}, {self._measure.groups} groups)"
