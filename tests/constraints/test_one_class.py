"""Models that predict one class for nearly all rows: noticed, said with the answer, or refused."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import acetune
from acetune import ACE, Constraint, Trial
from acetune.cli.show import to_json
from acetune.constraints import FairnessCheck
from acetune.constraints.robustness import BehaviouralTest, RobustnessCheck, Suite
from acetune.core.errors import DegenerateModelError, GoalError
from acetune.core.goals import FailedCheck, note_of
from acetune.core.report_values import from_json
from acetune.core.report_values import to_json as measurement_to_json
from acetune.report.html import write_report
from acetune.trial.checks import RaisedCheck, call_check
from run.helpers import Events, rows, tune

ROWS = 1000
Y = np.arange(ROWS) % 4 == 0
GROUP = np.array(["f", "m"])[np.arange(ROWS) // 4 % 2]
EVERY_STEP = ACE(truncation=0, interval=1, gate=False)


def check(metric: Any = "demographic_parity_difference", **options: Any) -> FairnessCheck:
    return FairnessCheck(metric, Y, GROUP, **options)


def scores(positive: int) -> Any:
    """So many rows, spread evenly, are predicted positive."""
    found = np.zeros(ROWS)
    found[np.linspace(0, ROWS - 1, positive).astype(int)] = 1.0
    return found


@pytest.mark.parametrize(
    ("positive", "degenerate"),
    [(0, True), (9, True), (10, False), (500, False), (990, False), (991, True), (ROWS, True)],
)
@pytest.mark.parametrize(
    "metric",
    ["demographic_parity_difference", "equalized_odds_difference", "equal_opportunity_ratio"],
)
def test_one_class_for_nearly_all_rows_is_noticed(
    metric: str, positive: int, degenerate: bool
) -> None:
    found = check(metric)(scores(positive))
    note = note_of(found)
    assert note is not None and note["degenerate"] is degenerate
    assert note["predicted"]["1"] == pytest.approx(positive / ROWS)
    assert sum(note["predicted"].values()) == pytest.approx(1)
    # by hand, for each group
    by_hand = {f"'{name}'": float((scores(positive) >= 0.5)[name == GROUP].mean()) for name in "fm"}
    assert note["groups"] == pytest.approx(by_hand)
    if degenerate:
        with pytest.raises(DegenerateModelError, match="degenerate='fail'"):
            check(metric, degenerate="fail")(scores(positive))
    else:
        assert check(metric, degenerate="fail")(scores(positive)) == found


def test_a_rare_label_may_be_predicted_rarely() -> None:
    """One row in a hundred is positive: a model that finds half of them is no degenerate one."""
    rare = np.arange(ROWS) % 100 == 0
    made = FairnessCheck("demographic_parity_difference", rare, GROUP)
    assert made.least_share == pytest.approx(0.001)
    note = note_of(made(scores(5)))
    assert note is not None and not note["degenerate"]
    note = note_of(made(scores(0)))
    assert note is not None and note["degenerate"]


def test_labels_that_demographic_parity_does_not_read_may_be_of_any_kind() -> None:
    assert FairnessCheck("demographic_parity_ratio", ["x"] * ROWS, GROUP).least_share == 0.01


def test_many_groups_are_not_listed() -> None:
    many = np.arange(ROWS) % 40
    note = note_of(FairnessCheck("demographic_parity_difference", Y, many)(scores(500)))
    assert note is not None and note["groups"] == {}


SUITE = Suite([BehaviouralTest("words", [f"w{i}" for i in range(200)], labels=2)])


@pytest.mark.parametrize(("others", "degenerate"), [(0, True), (1, True), (2, False), (100, False)])
def test_one_label_for_nearly_all_texts_is_noticed(others: int, degenerate: bool) -> None:
    def predict(model: Any, texts: Any) -> Any:
        return np.array([0.1] * others + [0.9] * (len(texts) - others))

    note = note_of(RobustnessCheck(SUITE, predict)(None))
    assert note is not None and note["degenerate"] is degenerate
    assert note["predicted"]["positive"] == pytest.approx(1 - others / 200)
    strict = RobustnessCheck(SUITE, predict, degenerate="fail")
    if degenerate:
        with pytest.raises(DegenerateModelError, match=r"predicts positive for (100|99.5) %"):
            strict(None)
    else:
        strict(None)


@pytest.mark.parametrize(
    "options", [{"degenerate": "no"}, {"least_share": 1.5}, {"least_share": True}]
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(GoalError, match=next(iter(options))):
        check(**options)
    with pytest.raises(GoalError, match=next(iter(options))):
        RobustnessCheck(SUITE, lambda model, texts: [], **options)


def test_a_refused_model_is_a_failed_check_and_not_a_broken_one() -> None:
    """Broken checks end a study; an early model that is degenerate must not."""
    found = call_check(check(degenerate="fail"), "gap", scores(0))
    assert isinstance(found, FailedCheck) and not isinstance(found, RaisedCheck)


def test_a_note_travels_with_its_value() -> None:
    found = check()(scores(0))
    for again in (pickle.loads(pickle.dumps(found)), from_json(measurement_to_json(found))):
        assert again == found and note_of(again) == note_of(found)


# -- in a study ----------------------------------------------------------------------------------


def train(trial: Trial) -> None:
    """The objective likes the model that says no to everybody."""
    for _ in trial.steps(2):
        trial.report(trial.params["x"], model=scores(int(trial.params["x"])))


def run(study: Path, xs: Any, **options: Any) -> acetune.StudyResult:
    limits = [Constraint("gap", upper=0.5, check=check(**options))]
    events = Events()
    result = tune(
        train,
        study,
        xs=xs,
        max_trials=len(xs),
        constraints=limits,
        policy=EVERY_STEP,
        callbacks=[events],
    )
    said = [text for text in events.notices if "'gap' holds" in text and "predicts 0" in text]
    assert len(said) == (0.0 in xs and not options)
    return result


def test_the_answer_says_that_the_model_predicts_one_class(study: Path) -> None:
    result = run(study, [0.0, 500.0])
    assert result.best is not None and result.best.params == {"x": 0.0}
    for again in (result, acetune.load(study)):
        assert "the model predicts 0 for 100 % of the rows of gap" in str(again)
    shown = to_json(result)["best"]
    assert shown["notes"]["gap"]["degenerate"] and shown["notes"]["gap"]["predicted"]["0"] == 1
    page = study.with_name("page.html")
    write_report(study, page)
    assert "predicts 0 for 100 % of the rows" in page.read_text()


def test_an_answer_that_tells_rows_apart_is_not_warned_of(study: Path) -> None:
    result = run(study, [500.0, 600.0])
    assert "the model predicts" not in str(result)
    assert result.best is not None and not result.best.notes["gap"]["degenerate"]


def test_refused_models_never_qualify(study: Path) -> None:
    result = run(study, [0.0, 500.0], degenerate="fail")
    assert result.best is not None and result.best.params == {"x": 500.0}
    failed = rows(study, "SELECT error FROM checks WHERE value IS NULL")
    assert failed and all("degenerate='fail'" in row["error"] for row in failed)
