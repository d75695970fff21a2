"""FairnessCheck: one metric on given rows, for whatever a trial reports."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import cloudpickle
import numpy as np
import pytest

import acetune
from acetune.constraints import FairnessCheck, fairness
from acetune.constraints.fairness_check import MetricName
from acetune.core.errors import AcetuneError, GoalError, GoalWarning
from acetune.core.goals import Constraint, Estimate, FailedCheck
from acetune.testing import check_constraint
from acetune.trial.checks import call_check, takes_model

RNG = np.random.default_rng(3)
Y = RNG.integers(0, 2, 500)
SEX = RNG.choice(["f", "m", "x"], 500)
SCORES = np.clip(RNG.random(500) * 0.7 + 0.3 * Y * (SEX == "f"), 0, 1)
ODDS: MetricName = "equalized_odds_difference"


@pytest.mark.parametrize("name", fairness.__all__)
def test_it_gives_what_the_function_gives(name: Any) -> None:
    weight = RNG.random(500)
    for options in ({}, {"method": "to_overall"}, {"sample_weight": weight}):
        expected = getattr(fairness, name)(
            Y, SCORES, sensitive_features=SEX, threshold=0.4, stderr=True, **options
        )
        check = FairnessCheck(name, Y, SEX, threshold=0.4, **options)
        assert check(SCORES) == expected
        assert check(list(SCORES)) == expected


@pytest.mark.parametrize("name", fairness.__all__)
def test_it_keeps_to_the_protocol(name: Any) -> None:
    check_constraint(FairnessCheck(name, Y, SEX), SCORES)


def test_every_metric_has_a_name() -> None:
    assert sorted(get_args(MetricName)) == sorted(fairness.__all__)


def test_the_mean_of_both_odds() -> None:
    check = FairnessCheck(ODDS, Y, SEX, agg="mean")
    expected = fairness.equalized_odds_difference(
        Y, SCORES, sensitive_features=SEX, threshold=0.5, agg="mean"
    )
    assert check(SCORES).value == expected


class TestWhatIsReported:
    expected = FairnessCheck(ODDS, Y, SEX)(SCORES)

    def test_an_object_with_scores(self) -> None:
        assert FairnessCheck(ODDS, Y, SEX)(SimpleNamespace(scores=SCORES)) == self.expected

    def test_a_model_and_how_to_get_scores_from_it(self) -> None:
        check = FairnessCheck(ODDS, Y, SEX, scores=lambda model: model["p"][:, 1])
        assert check({"p": np.c_[1 - SCORES, SCORES]}) == self.expected

    def test_labels(self) -> None:
        check = FairnessCheck(ODDS, Y, SEX, threshold=None)
        assert check(SCORES >= 0.5) == self.expected
        assert check((SCORES >= 0.5).astype(int)) == self.expected
        with pytest.raises(AcetuneError, match=r"must be 0 or 1, got 0\.\d+ in row 0"):
            check(SCORES)

    def test_a_tensor(self) -> None:
        torch = pytest.importorskip("torch")
        assert FairnessCheck(ODDS, Y, SEX)(torch.tensor(SCORES)[:, None]) == self.expected

    @pytest.mark.parametrize(
        ("model", "message"),
        [
            (object(), "needs scores and was given object: report model=scores"),
            (SCORES[1:], "has 499 rows, sensitive_features has 500; give the score of each row"),
            (np.c_[SCORES, SCORES], "of two columns of probabilities take the second"),
            (np.where(Y, math.nan, SCORES), "is NaN in row"),
            (SimpleNamespace(scores=SCORES[1:]), r"SimpleNamespace\.scores has 499 rows"),
        ],
    )
    def test_no_scores_is_a_failed_check_that_says_so(self, model: Any, message: str) -> None:
        check = FairnessCheck(ODDS, Y, SEX)
        with pytest.raises(AcetuneError, match=message):
            check(model)
        assert isinstance(call_check(check, "eod", model), FailedCheck)


def test_prevalence_is_that_of_the_given_rows() -> None:
    check = FairnessCheck(ODDS, Y, SEX, threshold="prevalence")
    assert check.threshold == pytest.approx(Y.mean())
    assert repr(check) == "FairnessCheck(equalized_odds_difference, scores >= 0.498, 3 groups)"


def test_without_a_standard_error() -> None:
    plain = FairnessCheck(ODDS, Y, SEX, stderr=False)(SCORES)
    assert plain.stderr == 0.0
    assert plain.value == FairnessCheck(ODDS, Y, SEX)(SCORES).value


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("odds", Y, SEX), "unknown fairness metric 'odds'; there are .*equalized_odds_diff"),
        ((ODDS, Y[1:], SEX), "y_true has 499 rows, sensitive_features has 500"),
        ((ODDS, Y, ["f"] * 500), "one group only"),
        ((ODDS, Y, np.where(Y, SEX, "f")), "the false positive rate of group 'm' is undefined"),
        (("demographic_parity_ratio", [1], SEX), "y_true has 1 rows"),
    ],
)
def test_what_cannot_work_is_said_at_once(arguments: Any, message: str) -> None:
    with pytest.raises(AcetuneError, match=message):
        FairnessCheck(*arguments)
    with pytest.raises(AcetuneError, match="must be a function of the reported model"):
        FairnessCheck(ODDS, Y, SEX, scores=SCORES)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"FairnessCheck.*'predict'; did you mean scores=lambda"):
        FairnessCheck(ODDS, Y, SEX, predict=len)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"'treshold'; did you mean 'threshold'\?"):
        FairnessCheck(ODDS, Y, SEX, treshold=0.5)  # type: ignore[call-arg]


def test_a_perfect_classifier_satisfies_every_limit() -> None:
    for name in get_args(MetricName):
        if name.startswith("demographic"):
            continue  # the groups' labels themselves differ
        found = call_check(FairnessCheck(name, Y, SEX), name, Y)
        assert isinstance(found, Estimate)
        best = {"lower": 1.0} if name.endswith("ratio") else {"upper": 0.0}
        assert acetune.Constraint(name, check=abs, **best).holds(found)
        assert found.stderr > 0


@pytest.mark.parametrize("name", fairness.__all__)
@pytest.mark.parametrize("scores", [np.zeros(500), np.ones(500), Y, 1 - Y, Y * (SEX == "f")])
def test_it_is_a_number_whatever_is_predicted(name: Any, scores: Any) -> None:
    for options in ({}, {"method": "to_overall"}, {"sample_weight": RNG.random(500)}):
        found = FairnessCheck(name, Y, SEX, **options)(scores)
        assert 0 <= found.value <= 1
        assert 0 < found.stderr < 2


class TestTravelling:
    @pytest.mark.parametrize("by", [pickle, cloudpickle])
    def test_it_checks_alike_elsewhere(self, by: Any) -> None:
        weight = RNG.random(500)
        check = FairnessCheck(ODDS, Y, SEX, sample_weight=weight)
        again = pickle.loads(by.dumps(check))
        assert again(SCORES) == check(SCORES)
        assert check(SCORES) == FairnessCheck(ODDS, Y, SEX, sample_weight=weight)(SCORES)

    def test_a_row_takes_a_byte(self) -> None:
        sizes = [
            len(pickle.dumps(FairnessCheck(ODDS, np.tile(Y, n), np.tile(SEX, n)))) for n in (1, 21)
        ]
        assert sizes[1] - sizes[0] == pytest.approx(20 * 500, abs=50)

    def test_functions_travel_with_cloudpickle(self) -> None:
        check = FairnessCheck(ODDS, Y, SEX, scores=lambda model: model.p)
        again = pickle.loads(cloudpickle.dumps(check))
        model = SimpleNamespace(p=SCORES)
        assert again(model) == check(model)


def test_the_trial_knows_that_it_takes_a_model() -> None:
    assert takes_model(FairnessCheck(ODDS, Y, SEX))


def test_in_a_study(study: Path) -> None:
    def train(trial: acetune.Trial) -> None:
        for step in trial.steps(3):
            lean = trial.params["lean"] * (SEX == "f")
            trial.report(step / 10 + trial.params["lean"], model=SCORES + lean)

    check = FairnessCheck("demographic_parity_difference", Y, SEX, threshold=0.6)
    result = acetune.tune(
        train,
        {"lean": acetune.uniform(0, 0.4)},
        objective="gain",
        mode="max",
        constraints=[acetune.Constraint("dp", upper=0.45, margin_se=1, check=check)],
        policy="none",
        max_trials=12,
        workers=1,
        seed=0,
        study=study,
    )
    assert result.best is not None
    found = result.best.constraints["dp"]
    assert found.stderr > 0
    assert found.value + found.stderr <= 0.45


RATIO = "demographic_parity_ratio"


@pytest.mark.parametrize(
    ("metric", "limit", "words"),
    [
        (
            RATIO,
            {"upper": 0.8},
            r"'fair': demographic_parity_ratio is 1 .* did you mean lower=0\.8",
        ),
        (ODDS, {"lower": 0.1}, r"equalized_odds_difference is 0 .* did you mean upper=0\.1"),
        (RATIO, {"lower": 1.2}, r"between 0 and 1, so no model can keep lower=1\.2"),
        (ODDS, {"upper": -0.1}, r"between 0 and 1, so no model can keep upper=-0\.1"),
    ],
)
def test_a_limit_that_no_fair_model_meets_is_refused(
    metric: Any, limit: dict[str, float], words: str
) -> None:
    check = FairnessCheck(metric, Y, SEX)
    with pytest.raises(GoalError, match=words):
        Constraint("fair", check=check, **limit)
    Constraint("unfair", check=lambda model: check(model), **limit)  # who means it may


@pytest.mark.parametrize(
    ("metric", "limit", "words"),
    [
        (RATIO, {"upper": 1.25}, r"upper=1\.25 always holds"),
        (ODDS, {"lower": -0.1}, r"lower=-0\.1 always holds"),
        (ODDS, {"upper": 10}, r"upper=10 always holds; for 10 % write 0\.1"),
    ],
)
def test_a_limit_without_effect_is_warned_of(
    metric: Any, limit: dict[str, float], words: str
) -> None:
    with pytest.warns(GoalWarning, match=words) as caught:
        Constraint("fair", check=FairnessCheck(metric, Y, SEX), **limit)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("metric", "limit"),
    [(RATIO, {"lower": 0.8}), (RATIO, {"upper": 1}), (ODDS, {"upper": 1}), (ODDS, {"lower": 0})],
)
def test_limits_that_make_sense_or_close_a_band_are_taken(
    metric: Any, limit: dict[str, float]
) -> None:
    Constraint("fair", check=FairnessCheck(metric, Y, SEX), **limit)


class TestRawMargins:
    margins = np.linspace(-3, 3, len(Y))

    def test_are_warned_of_once(self) -> None:
        check = FairnessCheck(ODDS, Y, SEX)
        with pytest.warns(GoalWarning, match=r"outside 0 to 1 .* threshold=0\)") as caught:
            first, second = check(self.margins), check(self.margins)
        assert len(caught) == 1 and first == second
        assert caught[0].filename == __file__  # where the check was called

    def test_are_not_warned_of_again_by_a_copy(self) -> None:
        check = FairnessCheck(ODDS, Y, SEX)
        with pytest.warns(GoalWarning):
            check(self.margins)
        for by in (pickle, cloudpickle):
            pickle.loads(by.dumps(check))(self.margins)

    def test_are_taken_with_a_threshold_of_their_own(self) -> None:
        FairnessCheck(ODDS, Y, SEX, threshold=0)(self.margins)

    def test_rounding_is_no_margin(self) -> None:
        FairnessCheck(ODDS, Y, SEX)(np.clip(self.margins, -1e-9, 1 + 1e-9))


@pytest.mark.parametrize(("threshold", "words"), [(2, "none of them"), (-1, "all of them")])
def test_a_threshold_that_no_probability_crosses_is_warned_of_once(
    threshold: float, words: str
) -> None:
    check = FairnessCheck(ODDS, Y, SEX, threshold=threshold)
    said = f"within 0 to 1, and with threshold={threshold} takes {words} positive"
    with pytest.warns(GoalWarning, match=said) as caught:
        check(SCORES), check(SCORES)
    assert len(caught) == 1
    FairnessCheck(ODDS, Y, SEX, threshold=threshold)(4 * SCORES - 2)  # margins


def test_a_number_that_was_not_binned_is_warned_of() -> None:
    parity: MetricName = "demographic_parity_difference"
    age = RNG.normal(40, 10, 500)
    with pytest.warns(GoalWarning, match=r"500 groups in 500 rows.* bin .*pd\.qcut") as caught:
        FairnessCheck(parity, Y, age)
    assert caught[0].filename == __file__
    with pytest.warns(GoalWarning, match="groups in 500 rows"):
        FairnessCheck(parity, Y, RNG.integers(0, 60, 500))
    FairnessCheck(parity, Y, age // 10)
    FairnessCheck(parity, np.tile(Y, 20), RNG.integers(0, 60, 10_000))
