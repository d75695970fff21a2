"""A fairness limit as the check of a constraint."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from numpy.typing import NDArray

from acetune.certification.evidence import another_kind
from acetune.certification.group_rates import GroupRates
from acetune.constraints._arrays import (
    Threshold,
    as_column,
    as_labels,
    as_positive,
    as_threshold,
    require_length,
)
from acetune.constraints._one_class import (
    LEAST_SHARE,
    Degenerate,
    judge_predictions,
    require_degenerate,
)
from acetune.constraints._rates import METRICS, Aggregation, Measure, Method, Options
from acetune.core.did_you_mean import suggesting
from acetune.core.errors import GoalError, GoalWarning
from acetune.core.goals import Constraint, Estimate, Noted, with_note
from acetune.core.say_once import SayOnce

_OTHER_NAMES = dict.fromkeys(
    ("predict", "score", "predict_proba", "model"),
    "scores=lambda model: model.predict_proba(X)[:, 1]",
)
_OTHER_NAMES |= dict.fromkeys(("y", "labels", "target"), "y_true=y")
_OTHER_NAMES |= dict.fromkeys(("sensitive", "groups", "group"), "sensitive_features=groups")
_OTHER_NAMES |= dict.fromkeys(("upper", "lower", "margin_se"), "Constraint(..., check=...)")
_OTHER_NAMES |= {"weights": "sample_weight"}
_FEW_GROUPS, _ROWS_EACH = 10, 10  # more groups, of fewer rows on average, are warned of
_ROUNDING = 1e-6  # by which probabilities may leave 0 to 1

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
        intervals use, and the counts that a certificate needs.

    degenerate:
        What becomes of a model that predicts one class for nearly all rows, which is perfectly
        fair: ``"report"`` says so with the answer of the study, ``"fail"`` makes it a failed check,
        so that such a model never qualifies.
    least_share:
        It does where fewer rows than this share get the rarer prediction: by default a tenth of the
        share of the rarer label, and 0.01 at most.

    Raises
    ------
    GoalError
        Also from ``Constraint``, where the limit is on the wrong side, so that only unfair models
        would qualify, or beyond what the metric can be, so that none would. To ask for unfairness
        all the same, hide the check in a function of your own.

    Warns
    -----
    GoalWarning
        Once, where scores outside 0 to 1 meet a threshold between them: they may be raw margins; or
        where scores within 0 to 1 meet a threshold outside. Also where there are many groups of few
        rows, as of a number that was not binned.

    >>> y, sex = [1, 1, 1, 0, 0, 0], ["f", "f", "m", "f", "m", "m"]
    >>> check = FairnessCheck("equal_opportunity_difference", y, sex, threshold=0.5)
    >>> check([0.9, 0.3, 0.8, 0.1, 0.2, 0.6]).value
    0.5
    """

    value_range = (0.0, 1.0)  # of every metric here

    @suggesting(_OTHER_NAMES)
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
        degenerate: Degenerate = "report",
        least_share: float | None = None,
    ) -> None:
        if metric not in METRICS:
            raise GoalError(f"unknown fairness metric {metric!r}; there are {sorted(METRICS)}")
        if scores is not None and not callable(scores):
            raise GoalError(
                "scores must be a function of the reported model, such as lambda model: "
                f"model.predict(X), got {type(scores).__name__}"
            )
        options = Options(method, agg=agg)
        self._given: dict[str, Any] = {"threshold": threshold, "method": method, "agg": agg}
        self._measure = Measure(
            metric, y_true, sensitive_features, sample_weight, options, named=True
        )
        require_length(y_true, "y_true", self._measure.rows)
        if self._measure.groups == 1:
            raise GoalError(
                "sensitive_features has one group only: there is nothing to compare it with"
            )
        if self._measure.groups > _FEW_GROUPS and self.rows < _ROWS_EACH * self._measure.groups:
            warnings.warn(
                f"sensitive_features has {self._measure.groups} groups in {self.rows} rows, too "
                "few in each to compare them; bin a number (pd.cut, pd.qcut), or merge small "
                "groups",
                GoalWarning,
                stacklevel=3,  # the caller of FairnessCheck()
            )
        require_degenerate(degenerate, least_share)
        self.degenerate = degenerate
        self.least_share = _least_share(y_true) if least_share is None else float(least_share)
        self._given |= {"degenerate": degenerate, "least_share": least_share}
        self.metric = metric
        self.threshold = as_threshold(threshold, y_true, self._measure.weights)
        self._frozen = not isinstance(threshold, str)  # not taken from these rows
        self.stderr = stderr
        self._scores = scores
        self._notice = SayOnce(_warn)

    def require_limit(self, constraint: Constraint) -> None:
        """Refuse a limit that only unfair models, or none, can meet; called by ``Constraint``."""
        low, high = self.value_range
        name, limit = f"constraint {constraint.name!r}", constraint.limit
        ratio = METRICS[self.metric].comparison == "ratio"
        given, meant = ("upper", "lower") if constraint.lower is None else ("lower", "upper")
        if (given == "upper") == ratio:  # the wrong side: harmless only if it never binds
            fair = high if ratio else low
            if low <= limit <= high and limit != fair:
                raise GoalError(
                    f"{name}: {self.metric} is {fair:g} where groups are treated alike, so "
                    f"{given}={limit:g} would let only unfair models through; did you mean "
                    f"{meant}={limit:g}?"
                )
        if (limit < low) if given == "upper" else (limit > high):
            raise GoalError(
                f"{name}: {self.metric} lies between {low:g} and {high:g}, so no model can keep "
                f"{given}={limit:g}"
            )
        if (limit > high) if given == "upper" else (limit < low):
            percent = f"; for {limit:g} % write {limit / 100:g}" if 1 < limit <= 100 else ""
            warnings.warn(
                f"{name}: {self.metric} lies between {low:g} and {high:g}, so {given}={limit:g} "
                f"always holds{percent}",
                GoalWarning,
                stacklevel=4,  # the caller of Constraint()
            )

    def __call__(self, model: Any) -> Estimate:
        """The metric for a reported model, or for its scores."""
        if self._scores is not None:
            scores, what = self._scores(model), "what scores(model) gave"
        elif (found := getattr(model, "scores", None)) is not None:
            scores, what = found, f"{type(model).__name__}.scores"
        else:
            scores, what = model, "what report(model=...) was given"
            if not hasattr(model, "__len__"):
                raise GoalError(
                    f"FairnessCheck needs scores and was given {type(model).__qualname__}: report "
                    "model=scores, or give FairnessCheck(scores=lambda model: ...)"
                )
        if self.threshold is not None:
            scores = as_column(scores, what)
            self._look_at(scores, self.threshold)
        positive = as_positive(scores, self.threshold, what)
        require_length(
            positive,
            what,
            self._measure.rows,
            "give the score of each row that FairnessCheck was made with, in their order",
        )
        counts = self._measure.counts(positive)
        share, groups = self._measure.selection(counts)
        predicted = {"0": 1 - share, "1": share}
        note = judge_predictions(predicted, self.least_share, self.degenerate, groups=groups)
        found = self._measure.estimate(
            positive,
            stderr=self.stderr,
            # labels are cut alike by any threshold between them
            threshold=None if _are_labels(scores) else self.threshold,
            frozen=self._frozen,
            counts=counts,
        )
        if not isinstance(found, Noted):
            return with_note(found, note)
        found.note = note
        return found

    @property
    def rows(self) -> int:
        """How many rows it measures on."""
        return self._measure.rows

    def _identity(self) -> dict[str, Any]:
        """What it was made with: a study that goes on compares it."""
        given = {"metric": self.metric, "stderr": self.stderr, "scores": self._scores}
        return given | self._given | {"rows": self._measure}

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that it compares: a certificate needs fresh rows of all of them."""
        return self._measure.group_names

    def evidence_mismatch(self, found: object) -> str | None:
        """Why fresh rows tell nothing of what this check measures; asked before a certificate.

        Nothing is known of a rate, or of a group, that is not there, and leaving out the worst one
        would be a way to a certificate.
        """
        if not isinstance(found, GroupRates):
            return another_kind(found, GroupRates, self.metric)
        metric, rates = METRICS[self.metric], [rate.name for rate in found.rates]
        if found.comparison != metric.comparison or not set(metric.rates) <= set(rates):
            return (
                f"the search measured {self.metric}, and confirm the {found.comparison} of each "
                f"{' and each '.join(rates)}: return the same metric"
            )
        ours, other = self.threshold, found.threshold
        if ours is not None and other is not None and not math.isclose(ours, other, rel_tol=1e-6):
            return (
                f"the search took scores from {ours:g} on for positive, and confirm from "
                f"{other:g} on: give both one threshold, as in threshold=check.threshold"
            )
        lost = [name for name in self.groups if name not in found.groups]
        if not lost:
            return None
        which = f"{lost[0]} is" if len(lost) == 1 else f"{lost[0]} and {len(lost) - 1} more are"
        return (
            f"the search compared groups that the fresh rows do not have ({which} missing): name "
            "the groups alike, and draw rows of all of them"
        )

    def _look_at(self, scores: NDArray[Any], threshold: float) -> None:
        """Warn once of scores that a threshold for probabilities does not fit."""
        low, high = scores.min(), scores.max()  # NaN is refused later
        if low >= -_ROUNDING and high <= 1.0 + _ROUNDING and not 0.0 <= threshold <= 1.0:
            predicted = "none of them positive" if threshold > 1 else "all of them positive"
            self._notice(
                f"FairnessCheck({self.metric!r}) is given scores that lie all within 0 to 1, and "
                f"with threshold={threshold:g} takes {predicted}, which is perfectly fair; "
                "probabilities need a threshold between 0 and 1"
            )
        if 0.0 < threshold < 1.0 and (low < -_ROUNDING or high > 1.0 + _ROUNDING):
            # without the scores' own numbers: all workers say the same, and it is shown once
            self._notice(
                f"FairnessCheck({self.metric!r}) is given scores outside 0 to 1 and takes those "
                f"from {threshold:g} on for positive predictions; raw margins (log-odds) need "
                "FairnessCheck(..., threshold=0), or probabilities as scores"
            )

    def __repr__(self) -> str:
        rule = "labels" if self.threshold is None else f"scores >= {self.threshold:g}"
        return f"FairnessCheck({self.metric}, {rule}, {self._measure.groups} groups)"


def _least_share(y_true: Any) -> float:
    """A tenth of the share of the rarer label; demographic parity takes labels of any kind."""
    try:
        positive = float(as_labels(y_true, "y_true").mean())
    except GoalError:
        return LEAST_SHARE
    return min(LEAST_SHARE, min(positive, 1 - positive) / 10)


def _are_labels(scores: object) -> bool:
    return getattr(getattr(scores, "dtype", None), "kind", "") in "biu"


def _warn(text: str) -> None:
    warnings.warn(text, GoalWarning, stacklevel=5)  # the caller of the check
