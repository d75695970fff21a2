"""The metrics beside Fairlearn's, and beside a slow second implementation where those differ."""

from __future__ import annotations

import inspect
import math
from typing import Any

import fairlearn.metrics
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acetune.constraints import FairnessCheck, fairness
from acetune.core.errors import GoalError
from constraints.slow_fairness import slow_metric
from properties import examples

NAMES = fairness.__all__
GROUPS = ["a", "b", "c", "d"]


@st.composite
def rows(draw: st.DrawFn, complete: bool) -> dict[str, Any]:
    """Labels, predictions and groups; in complete ones every group has both labels."""
    groups = GROUPS[: draw(st.integers(1, 4))]
    row = st.tuples(st.integers(0, 1), st.integers(0, 1), st.sampled_from(groups))
    drawn = draw(st.lists(row, min_size=1, max_size=30))
    if complete:
        guesses = draw(st.lists(st.integers(0, 1), min_size=8, max_size=8))
        cells = [(label, group) for group in groups for label in (0, 1)]
        drawn += [
            (label, guess, group) for (label, group), guess in zip(cells, guesses, strict=False)
        ]
    y, predicted, group = zip(*drawn, strict=True)
    weights = st.lists(st.integers(1, 9), min_size=len(y), max_size=len(y))
    return {
        "y_true": list(y),
        "y_pred": list(predicted),
        "sensitive_features": list(group),
        "sample_weight": draw(st.none() | weights),
        "method": draw(st.sampled_from(["between_groups", "to_overall"])),
    }


#: for which labels (None: any) Fairlearn makes NaN where nobody with them is selected
NAN_THERE: dict[str, set[int | None]] = {
    "demographic_parity_ratio": {None},
    "equal_opportunity_ratio": {1},
    "equalized_odds_ratio": {1},
}


def rates_that_are_zero(drawn: dict[str, Any]) -> set[int | None]:
    """The labels of which nobody, in any group, is selected."""
    selected = {y for y, guess in zip(drawn["y_true"], drawn["y_pred"], strict=True) if guess}
    return ({0, 1} - selected) | (set() if selected else {None})


@pytest.mark.parametrize("name", NAMES)
@examples(30)
@given(drawn=rows(complete=True), agg=st.sampled_from(["worst_case", "mean"]))
def test_equal_to_fairlearn_where_every_rate_is_defined(
    name: str, drawn: dict[str, Any], agg: str
) -> None:
    options = {**drawn, **({"agg": agg} if "odds" in name else {})}
    ours = getattr(fairness, name)(**options)
    theirs = getattr(fairlearn.metrics, name)(**options)
    assert type(ours) is float
    zero = rates_that_are_zero(drawn)
    if name.endswith("odds_ratio") and agg == "mean" and len(zero & {0, 1}) == 1:
        assert ours == pytest.approx((1 + theirs) / 2, abs=1e-12)  # left out there
    elif name.endswith("ratio") and zero & NAN_THERE[name]:
        assert math.isnan(theirs)
        assert name == "equalized_odds_ratio" or ours == 1.0
    else:
        assert ours == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
@examples(100)
@given(drawn=rows(complete=False), agg=st.sampled_from(["worst_case", "mean"]))
def test_equal_to_the_slow_one_wherever(name: str, drawn: dict[str, Any], agg: str) -> None:
    options = {**drawn, **({"agg": agg} if "odds" in name else {})}
    ours = getattr(fairness, name)(**options, undefined="nan")
    slow = slow_metric(
        name,
        drawn["y_true"],
        drawn["y_pred"],
        drawn["sensitive_features"],
        drawn["sample_weight"],
        drawn["method"],
        agg if "odds" in name else "worst_case",
    )
    assert ours == pytest.approx(slow, abs=1e-12, nan_ok=True)


@examples(15)
@given(drawn=rows(complete=True), sexes=st.randoms(use_true_random=False))
def test_several_features_make_groups_as_in_fairlearn(drawn: dict[str, Any], sexes: Any) -> None:
    sex = [sexes.choice("fm") for _ in drawn["y_true"]]
    frame = pd.DataFrame({"sex": sex, "race": drawn["sensitive_features"]})
    options = {**drawn, "sensitive_features": frame}
    theirs = fairlearn.metrics.demographic_parity_difference(**options)
    found = fairness.demographic_parity_difference(**options)
    assert found == pytest.approx(theirs, abs=1e-12)
    for table in (frame.to_numpy(), frame.to_dict("list")):
        again = fairness.demographic_parity_difference(**{**drawn, "sensitive_features": table})
        assert again == found


@pytest.mark.parametrize("name", NAMES)
def test_the_parameters_are_those_of_fairlearn_and_then_ours(name: str) -> None:
    ours = list(inspect.signature(getattr(fairness, name)).parameters.values())
    theirs = inspect.signature(getattr(fairlearn.metrics, name)).parameters.values()
    assert [(p.name, p.kind, p.default) for p in ours[: len(theirs)]] == [
        (p.name, p.kind, p.default) for p in theirs
    ]
    assert [p.name for p in ours[len(theirs) :]] == ["threshold", "stderr", "undefined"]


class TestWhereFairlearnDiffers:
    """Rates without rows, and ratios of zeros, shown on both sides."""

    def test_a_rate_without_rows_is_zero_there(self) -> None:
        y, predicted, group = [1, 1, 0, 0], [1, 1, 0, 0], ["a", "a", "a", "b"]  # b: no positives
        given = {"sensitive_features": group}
        assert fairlearn.metrics.equal_opportunity_difference(y, predicted, **given) == 1.0
        assert math.isnan(
            fairness.equal_opportunity_difference(y, predicted, **given, undefined="nan")
        )

    @pytest.mark.parametrize("missing", [None, math.nan])
    def test_rows_without_a_group_are_refused_by_both(self, missing: Any) -> None:
        """Fairlearn does since 0.15; before, such rows were in no group, and in no rate."""
        y, predicted, group = [1, 1, 0, 0], [1, 0, 1, 0], ["a", "b", missing, "b"]
        given = {"sensitive_features": np.array(group, object)}
        with pytest.raises(ValueError, match="missing values"):
            fairlearn.metrics.demographic_parity_difference(y, predicted, **given)
        with pytest.raises(GoalError, match="missing value in row 2"):
            fairness.demographic_parity_difference(y, predicted, **given)
        with pytest.raises(GoalError, match="missing value in row 2"):
            FairnessCheck("demographic_parity_difference", y, **given)

    @pytest.mark.parametrize("method", ["between_groups", "to_overall"])
    @pytest.mark.parametrize(
        ("predicted", "agg", "theirs", "ours"),
        [
            ([1, 1, 0, 0], "worst_case", 1.0, 1.0),  # perfect
            ([1, 0, 0, 0], "worst_case", 0.0, 0.0),  # no false positives, and unlike true ones
            ([1, 0, 0, 0], "mean", 0.0, 0.5),
            ([0, 0, 1, 1], "worst_case", math.nan, 1.0),  # no true positives
            ([0, 0, 1, 1], "mean", 1.0, 1.0),
            ([0, 0, 1, 0], "worst_case", math.nan, 0.0),
            ([0, 0, 0, 0], "worst_case", math.nan, 1.0),
            ([0, 0, 0, 0], "mean", math.nan, 1.0),
        ],
    )
    def test_a_ratio_of_zeros_counts_there_or_not_depending_on_the_rate(
        self, predicted: list[int], agg: str, theirs: float, ours: float, method: str
    ) -> None:
        given: dict[str, Any] = {
            "sensitive_features": list("abab"),
            "agg": agg,
            "method": method,
        }
        y = [1, 1, 0, 0]
        found = fairlearn.metrics.equalized_odds_ratio(y, predicted, **given)
        assert found == pytest.approx(theirs, nan_ok=True)
        assert fairness.equalized_odds_ratio(y, predicted, **given) == ours


def test_thousands_of_rows_with_weights() -> None:
    rng = np.random.default_rng(5)
    y, predicted, group = (rng.integers(0, high, 3000) for high in (2, 2, 6))
    weights = rng.random(3000)
    for name in NAMES:
        given = {"sensitive_features": group, "sample_weight": weights}
        ours = getattr(fairness, name)(y, predicted, **given)
        assert ours == pytest.approx(getattr(fairlearn.metrics, name)(y, predicted, **given))
