"""The metrics by hand: what they take, and what they refuse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from acetune import Estimate
from acetune.constraints import fairness
from acetune.constraints._arrays import encode_groups
from acetune.constraints.fairness import (
    demographic_parity_difference,
    demographic_parity_ratio,
    equal_opportunity_difference,
    equalized_odds_difference,
    equalized_odds_ratio,
)
from acetune.core.errors import AcetuneError, GoalError

#: true positive rates: f 1/2, m 1, x 3/4; false positive rates: f 1/2, m 1/4, x 1/2
Y = [*(1, 1, 0, 0), *(1, 1, 0, 0, 0, 0), *(1, 1, 1, 1, 0, 0)]
GUESS = [*(1, 0, 1, 0), *(1, 1, 1, 0, 0, 0), *(1, 1, 1, 0, 1, 0)]
SEX = ["f"] * 4 + ["m"] * 6 + ["x"] * 6


class TestByHand:
    def test_odds(self) -> None:
        assert equalized_odds_difference(Y, GUESS, sensitive_features=SEX) == 0.5
        assert equalized_odds_difference(Y, GUESS, sensitive_features=SEX, agg="mean") == 0.375
        assert equalized_odds_ratio(Y, GUESS, sensitive_features=SEX) == 0.5

    def test_to_overall(self) -> None:
        # 6 of 8 positives and 3 of 8 negatives are selected
        found = equalized_odds_difference(Y, GUESS, sensitive_features=SEX, method="to_overall")
        assert found == pytest.approx(0.25)

    def test_parity(self) -> None:
        # selected: f 2 of 4, m 3 of 6, x 4 of 6
        assert demographic_parity_difference(Y, GUESS, sensitive_features=SEX) == pytest.approx(
            1 / 6
        )
        assert demographic_parity_ratio(Y, GUESS, sensitive_features=SEX) == pytest.approx(3 / 4)

    def test_one_group_is_as_fair_as_can_be(self) -> None:
        one = ["all"] * len(Y)
        given: dict[str, Any] = {"sensitive_features": one, "stderr": True}
        assert equalized_odds_difference(Y, GUESS, **given) == (0.0, 0.0)
        assert equalized_odds_ratio(Y, GUESS, method="to_overall", **given) == (1.0, 0.0)

    def test_parity_does_not_look_at_labels(self) -> None:
        odd = ["?"] * len(Y)
        assert demographic_parity_ratio(odd, GUESS, sensitive_features=SEX) == 0.75

    def test_weights_are_as_good_as_repeated_rows(self) -> None:
        times = [1 + place % 3 for place in range(len(Y))]
        many = {name: np.repeat(rows, times) for name, rows in (("y", Y), ("p", GUESS), ("s", SEX))}
        for name in fairness.__all__:
            metric = getattr(fairness, name)
            weighted = metric(Y, GUESS, sensitive_features=SEX, sample_weight=times)
            assert weighted == metric(many["y"], many["p"], sensitive_features=many["s"])


FEATURES: dict[str, Any] = {
    "a tuple": tuple(SEX),
    "strings": np.array(SEX),
    "long strings": np.array([{"f": "group f", "m": "group", "x": "\U0001f600"}[s] for s in SEX]),
    "strings of another byte order": np.array(SEX, dtype=">U3"),
    "every other string": np.repeat(SEX, 2)[::2],
    "bytes": np.array(SEX, dtype="S1"),
    "objects": np.array(SEX, dtype=object),
    "numbers": np.array([{"f": -7, "m": 0, "x": 90}[sex] for sex in SEX]),
    "small numbers": np.array([{"f": -128, "m": 0, "x": 127}[sex] for sex in SEX], dtype=np.int8),
    "unsigned": np.array([{"f": 0, "m": 9, "x": 255}[sex] for sex in SEX], dtype=np.uint8),
    "huge unsigned": np.array([{"f": 0, "m": 7, "x": 9}[s] for s in SEX], np.uint64) + 2**63,
    "numbers far apart": np.array([{"f": 1, "m": 10**12, "x": 2**62}[sex] for sex in SEX]),
    "floats": np.array([{"f": 0.5, "m": 1.5, "x": -1.0}[sex] for sex in SEX]),
    "dates": np.array([{"f": "2001", "m": "2002", "x": "2003"}[sex] for sex in SEX], "M8[D]"),
    "a column": np.array(SEX)[:, None],
    "a series": pd.Series(SEX, index=range(100, 100 + len(SEX))),
    "a series of objects": pd.Series(SEX, dtype=object),
    "a series of numbers": pd.Series([ord(sex) for sex in SEX]),
    "nullable": pd.Series([ord(sex) for sex in SEX], dtype="Int64"),
    "categories, one of them empty": pd.Categorical(SEX, categories=["x", "n", "m", "f"]),
    "a series of categories": pd.Series(SEX, dtype="category"),
    "a frame": pd.DataFrame({"sex": SEX}),
    "two features": pd.DataFrame({"sex": SEX, "same": [ord(sex) for sex in SEX]}),
    "a table of objects": np.array([SEX, SEX], dtype=object).T,
    "columns": {"sex": SEX, "constant": [True] * len(SEX)},
}


@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
def test_groups_of_any_kind(features: Any) -> None:
    assert equalized_odds_difference(Y, GUESS, sensitive_features=features) == 0.5
    assert demographic_parity_ratio(Y, GUESS, sensitive_features=features) == 0.75


def test_groups_that_are_true_or_false() -> None:
    young = np.array(SEX) == "f"
    found = equalized_odds_difference(Y, GUESS, sensitive_features=young)
    assert found == equalized_odds_difference(Y, GUESS, sensitive_features=young.tolist())
    assert found == pytest.approx(5 / 6 - 1 / 2)  # m and x together: 5 of 6


@pytest.mark.parametrize("kind", ["U", "S", object])
@pytest.mark.parametrize("words", [1, 2, 15, 16, 17, 60])
def test_many_groups_with_long_names(words: int, kind: Any) -> None:
    rng = np.random.default_rng(words)
    letters = rng.choice(list("abß" if words % 2 else "abc"), (words, 25))
    names = [f"{''.join(row)} {number}" for number, row in enumerate(letters)]
    chosen = np.concatenate([np.arange(words), rng.integers(0, words, 300)])
    groups = encode_groups(
        np.char.encode(names, "utf8")[chosen]
        if kind == "S"
        else np.array(names, dtype=kind)[chosen]
    )
    assert groups.number == words
    assert len(set(zip(chosen.tolist(), groups.codes.tolist(), strict=True))) == words
    assert set(groups.codes.tolist()) == set(range(words))


@pytest.mark.parametrize("kind", [bool, np.int8, float, object, "Int64", "category"])
def test_labels_of_any_kind(kind: Any) -> None:
    if isinstance(kind, str):
        y, guess = pd.Series(Y, dtype=kind), pd.Series(GUESS, dtype=kind)
        given = (y, guess)
    else:
        given = (np.array(Y, dtype=kind), np.array(GUESS, dtype=kind)[:, None])
    assert equalized_odds_difference(*given, sensitive_features=SEX) == 0.5


class TestThreshold:
    scores = np.where(np.array(GUESS) == 1, 0.6, 0.4)

    def test_a_score_that_reaches_it_is_positive(self) -> None:
        for threshold in (0.6, 0.5, np.float32(0.5)):
            found = equalized_odds_difference(
                Y, self.scores, sensitive_features=SEX, threshold=threshold
            )
            assert found == 0.5
        above = equalized_odds_difference(Y, self.scores, sensitive_features=SEX, threshold=0.61)
        assert above == 0.0

    def test_whole_numbers_can_be_scores(self) -> None:
        assert equalized_odds_difference(Y, GUESS, sensitive_features=SEX, threshold=1) == 0.5

    def test_the_prevalence_is_the_share_of_positive_labels(self) -> None:
        y = [1, 0, 0, 0]  # a quarter
        given: dict[str, Any] = {"sensitive_features": list("aabb"), "threshold": "prevalence"}
        assert demographic_parity_difference(y, [0.25, 0.24, 0.2, 0.2], **given) == 0.5
        assert demographic_parity_difference(y, [0.26, 0.25, 0.2, 0.2], **given) == 1.0
        # as heavy as the three others together: a half
        heavy = demographic_parity_difference(
            y, [0.5, 0.4, 0.2, 0.2], sample_weight=[3, 1, 1, 1], **given
        )
        assert heavy == 0.75

    @pytest.mark.parametrize("threshold", ["half", True, [0.5], math.nan])
    def test_no_threshold(self, threshold: Any) -> None:
        with pytest.raises(AcetuneError, match="threshold"):
            equalized_odds_difference(Y, self.scores, sensitive_features=SEX, threshold=threshold)


class TestUndefined:
    y, guess, sex = [1, 0, 0, 1], [1, 1, 0, 0], ["a", "a", "b", "c"]

    def test_an_empty_cell_is_an_error_that_names_group_and_rate(self) -> None:
        with pytest.raises(
            AcetuneError, match="false positive rate of group 'c' is undefined: it has no rows with"
        ):
            equalized_odds_difference(self.y, self.guess, sensitive_features=self.sex)
        with pytest.raises(AcetuneError, match=r"true positive rate of group 'b' .* label 1"):
            equal_opportunity_difference(self.y, self.guess, sensitive_features=self.sex)

    def test_a_group_of_several_features_is_named_by_all(self) -> None:
        features = {"sex": self.sex, "age": [30, 30, 40, 50]}
        with pytest.raises(AcetuneError, match=r"of group \('b', 40\)"):
            equal_opportunity_difference(self.y, self.guess, sensitive_features=features)

    def test_only_the_rates_of_the_metric_matter(self) -> None:
        y = [1, 1, 1, 0]  # group a has no negatives
        found = equal_opportunity_difference(y, self.guess, sensitive_features=list("aabb"))
        assert found == 1.0

    def test_no_weight_is_no_row(self) -> None:
        with pytest.raises(AcetuneError, match=r"selection rate of group 'b' .* no weight"):
            demographic_parity_ratio(
                self.y, self.guess, sensitive_features=list("aabb"), sample_weight=[1, 1, 0, 0]
            )

    def test_nan_by_choice(self) -> None:
        given: dict[str, Any] = {"sensitive_features": self.sex, "undefined": "nan"}
        assert math.isnan(equalized_odds_difference(self.y, self.guess, **given))
        found = equalized_odds_difference(self.y, self.guess, stderr=True, **given)
        assert isinstance(found, Estimate)
        assert all(map(math.isnan, found))

    def test_nan_by_choice_is_about_rates_without_rows_only(self) -> None:
        given: dict[str, Any] = {"sensitive_features": list("abab"), "undefined": "nan"}
        assert equalized_odds_ratio([1, 1, 0, 0], [0, 0, 0, 0], **given) == 1.0


class TestRatiosOfZeros:
    @pytest.mark.parametrize("method", ["between_groups", "to_overall"])
    def test_a_rate_that_is_zero_in_every_group_is_the_same_in_all(self, method: Any) -> None:
        given: dict[str, Any] = {"sensitive_features": SEX, "method": method}
        assert equalized_odds_ratio(Y, Y, **given) == 1.0  # as good and as fair as can be
        assert demographic_parity_ratio(Y, [0] * len(Y), **given) == 1.0
        assert demographic_parity_ratio(Y, [0] * len(Y), sample_weight=range(1, 17), **given) == 1.0

    def test_one_that_is_zero_in_some_is_not(self) -> None:
        guess = [*(1, 1, 1, 0), *(1, 1, 0, 0, 0, 0), *(1, 1, 1, 1, 0, 0)]  # one false one, in f
        assert equalized_odds_ratio(Y, guess, sensitive_features=SEX) == 0.0
        assert equalized_odds_ratio(Y, guess, sensitive_features=SEX, agg="mean") == 0.5


def with_(rows: list[Any], value: object) -> list[Any]:
    return [*rows[:3], value, *rows[4:]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_true": with_(Y, 2)}, "y_true must be 0 or 1, got 2 in row 3"),
        ({"y_true": with_(Y, -1)}, "y_true must be 0 or 1, got -1 in row 3"),
        ({"y_true": with_(Y, math.nan)}, "y_true must be 0 or 1, got nan in row 3"),
        ({"y_true": with_(Y, "yes")}, "y_true must be numbers, got 'yes' in row 3"),
        ({"y_true": with_(Y, pd.NA)}, "y_true must be numbers, got <NA> in row 3"),
        ({"y_true": pd.Series(with_(Y, pd.NA), dtype="Int64")}, "0 or 1, got nan in row 3"),
        ({"y_pred": np.array(with_(GUESS, "no"))[:, None]}, "y_pred must be numbers, got 'no'"),
        ({"y_pred": with_(GUESS, [0, 1])}, "y_pred .* one value a row, got a list with rows of"),
        ({"y_pred": with_(GUESS, 0.3)}, "y_pred must be 0 or 1, got 0.3 in row 3; for scores"),
        ({"y_pred": with_(GUESS, math.nan), "threshold": 0.5}, "y_pred is NaN in row 3"),
        ({"y_pred": np.zeros((len(Y), 2))}, r"shape \(16, 2\); of two columns"),
        ({"y_pred": 1}, r"one value a row, got a int of shape \(\)"),
        ({"y_pred": GUESS[:-1]}, "y_pred has 15 rows, sensitive_features has 16"),
        ({"y_true": Y[:-1]}, "y_true has 15 rows, sensitive_features has 16"),
        ({"sensitive_features": SEX[:-1]}, "y_true has 16 rows, sensitive_features has 15"),
        ({"sample_weight": [1.0]}, "sample_weight has 1 rows"),
        ({"sample_weight": with_([1] * 16, -0.5)}, "finite and >= 0, got -0.5 in row 3"),
        ({"sample_weight": with_([1] * 16, math.nan)}, "finite and >= 0, got nan in row 3"),
        ({"sample_weight": [0] * 16}, "sample_weight is 0 in every row"),
        ({"sample_weight": with_([2.5] * 16, 1e-300)}, r"1e-300 in row 3, .* largest, 2\.5"),
        ({"sensitive_features": with_(SEX, None)}, r"missing value in row 3 \(None\)"),
        ({"sensitive_features": with_(SEX, math.nan)}, r"missing value in row 3 \(nan\)"),
        ({"sensitive_features": with_(SEX, pd.NA)}, r"missing value in row 3 \(<NA>\)"),
        ({"sensitive_features": pd.Series(with_(SEX, None))}, "missing value in row 3"),
        ({"sensitive_features": pd.Series(with_(SEX, None), dtype="category")}, "in row 3"),
        ({"sensitive_features": np.array(with_([1.0] * 16, math.nan))}, "in row 3"),
        ({"sensitive_features": with_(SEX, ["f"])}, "unhashable"),
        ({"sensitive_features": np.zeros((16, 1, 1))}, r"shape \(16, 1, 1\)"),
        ({"sensitive_features": {}}, "no columns"),
        ({"sensitive_features": {"a": SEX, "b": SEX[1:]}}, "columns of 16 and of 15 rows"),
        ({"sensitive_features": []}, "empty"),
        ({"method": "both"}, "method must be 'between_groups' or 'to_overall', got 'both'"),
        ({"agg": "max"}, "agg must be 'worst_case' or 'mean', got 'max'"),
        ({"undefined": "skip"}, "undefined must be 'error' or 'nan', got 'skip'"),
    ],
)
def test_what_is_wrong_is_said(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"y_true": Y, "y_pred": GUESS, "sensitive_features": SEX, **change}
    with pytest.raises(AcetuneError, match=message):
        equalized_odds_difference(**given)


@pytest.mark.parametrize("weights", [None, [1.0] * 16])
@pytest.mark.parametrize("threshold", [None, 0.5, "prevalence"])
def test_parity_wants_as_many_labels_all_the_same(threshold: Any, weights: Any) -> None:
    given: dict[str, Any] = {"sample_weight": weights, "threshold": threshold}
    with pytest.raises(AcetuneError, match="y_true has 15 rows, sensitive_features has 16"):
        demographic_parity_ratio(Y[1:], GUESS, sensitive_features=SEX, **given)
    with pytest.raises(AcetuneError, match="y_true must have one value a row, got a int"):
        demographic_parity_ratio(1, GUESS, sensitive_features=SEX, **given)


class TestPandasIndices:
    """Rows are matched by their places, so labels that disagree are refused."""

    y = pd.Series(Y, index=range(100, 116))
    sex = pd.Series(SEX, index=range(100, 116))

    @pytest.mark.parametrize("metric", [equalized_odds_difference, demographic_parity_ratio])
    def test_another_order_or_other_labels_are_refused(self, metric: Any) -> None:
        way_out = r".*row {} is .*groups\.loc\[{}\.index\].*reset_index\(drop=True\) or to_numpy"
        for other in (self.sex[::-1], self.sex.reset_index(drop=True), self.sex.to_frame()[::-1]):
            words = "y_true and sensitive_features have different" + way_out.format(0, "y_true")
            with pytest.raises(GoalError, match=words):
                metric(self.y, GUESS, sensitive_features=other)
        swapped = self.sex.iloc[[*range(14), 15, 14]]
        weight = pd.Series(1.0, index=self.y.index)
        words = "sample_weight and sensitive_features" + way_out.format(14, "sample_weight")
        with pytest.raises(GoalError, match=words):
            metric(Y, GUESS, sensitive_features={"sex": swapped}, sample_weight=weight)

    def test_what_fits_or_has_no_labels_is_taken(self) -> None:
        plain = equalized_odds_difference(Y, GUESS, sensitive_features=SEX)
        for sex in (
            self.sex,
            self.sex.to_frame(),
            self.sex.to_numpy(),
            self.sex.astype("category"),
        ):
            assert equalized_odds_difference(self.y, GUESS, sensitive_features=sex) == plain

    def test_other_lengths_are_told_of_as_such(self) -> None:
        with pytest.raises(GoalError, match="y_true has 16 rows, sensitive_features has 15"):
            equalized_odds_difference(self.y, GUESS, sensitive_features=self.sex[1:])
