"""What must never pass for a value that holds: odd kinds, missing ones, wrong units, stale models.

The list stands in docs/promises.md, each with its test.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections import namedtuple
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import acetune
from acetune import ACE, Constraint, Estimate, Mean, Share, Stopper, Trial
from acetune.certification.evidence import evidence_of
from acetune.constraints import FairnessCheck, LatencyCheck
from acetune.constraints.latency import measure_latency
from acetune.constraints.robustness import BehaviouralTest, RobustnessCheck, Suite
from acetune.constraints.size import parameters, serialized_bytes
from acetune.core.errors import GoalError, GoalWarning, ReportError, StudyChangedError
from acetune.core.goals import FailedCheck
from acetune.trial.checks import call_check
from run.helpers import rows, tune

EVERY_STEP = ACE(truncation=0, interval=1, gate=False)
Pair = namedtuple("Pair", "statistic pvalue")


def torch_number(grad: bool) -> Any:
    torch = pytest.importorskip("torch")
    return torch.tensor(0.5, requires_grad=grad)


def train(trial: Trial) -> None:
    for step in trial.steps(2):
        trial.report(trial.params["x"] + 1 / step, model={"x": trial.params["x"], "step": step})


def run(study: Path, check: Any, upper: float = 1.0, **options: Any) -> acetune.StudyResult:
    limits = [Constraint("g", upper=upper, check=check)]
    return tune(train, study, **({"constraints": limits, "policy": EVERY_STEP} | options))


# -- kinds of values -----------------------------------------------------------------------------

NO_NUMBERS: dict[str, Callable[[], Any]] = {
    "NaN": lambda: math.nan,
    "minus infinity": lambda: -math.inf,
    "None": lambda: None,
    "True": lambda: True,
    "np.bool_": lambda: np.bool_(False),
    "an array that holds False": lambda: np.array(False),
    "False as an object": lambda: np.array(False, dtype=object),
    "None as an object": lambda: np.array(None, dtype=object),
    "a text": lambda: "0.1",
    "bytes": lambda: b"0",
    "NumPy's text": lambda: np.array("0.1"),
    "a text as an object": lambda: np.array("0.1", dtype=object),
    "complex": lambda: 0.1 + 5j,
    "NumPy's complex": lambda: np.complex128(0.1 + 5j),
    "a duration": lambda: np.timedelta64(5, "ms"),
    "Decimal's NaN": lambda: Decimal("NaN"),
    "a masked value": lambda: np.ma.masked,
    "a masked array": lambda: np.ma.array(0.1, mask=True),
    "several values": lambda: np.array([0.1, 0.2]),
    "a list": lambda: [0.1, 0.02],
    "a value for another constraint": lambda: {"h": 0.1},
    "a value by its own name": lambda: {"g": 0.1},
    "a result of a test": lambda: Pair(0.1, 0.9),
    "an estimate of None": lambda: Estimate(None, 0.1),  # type: ignore[arg-type]
    "an estimate of True": lambda: Estimate(True, 0.1),
    "an estimate without a standard error": lambda: Estimate(0.1, None),  # type: ignore[arg-type]
    "a negative standard error": lambda: Estimate(0.1, -0.5),
    "an unknown standard error": lambda: Estimate(0.1, math.nan),
    "a number too large": lambda: 10**400,
    "a failed check": lambda: FailedCheck("no rows"),
    "a function": lambda: lambda: 0.1,
}


@pytest.mark.parametrize("kind", NO_NUMBERS)
def test_what_is_no_number_never_holds(kind: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = call_check(lambda: NO_NUMBERS[kind](), "g", None)
    assert isinstance(found, FailedCheck)
    for limit in (Constraint("g", upper=1e9), Constraint("g", lower=-1e9)):
        assert not limit.holds(found) and limit.violation(found) == math.inf


@pytest.mark.parametrize("kind", ["np.bool_", "NumPy's text", "a duration", "a result of a test"])
def test_what_is_no_number_never_holds_in_a_study(study: Path, kind: str) -> None:
    result = run(study, lambda model: NO_NUMBERS[kind](), upper=1e9, max_failures=99)
    assert result.best is None and result.ledger.failed_checks == result.ledger.checks > 0


@pytest.mark.parametrize("kind", NO_NUMBERS)
def test_what_is_no_number_never_holds_for_ask_and_tell(kind: str) -> None:
    limits = [Constraint("g", upper=1e9)]
    stopper = Stopper(objective="loss", mode="min", constraints=limits)
    trial = stopper.start("one", total_steps=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with contextlib.suppress(ReportError):  # refused, or a failed check
            trial.observe(step=1, value=0.0, constraints={"g": NO_NUMBERS[kind]()})
    assert stopper.best is None


NUMBERS: dict[str, Callable[[], Any]] = {
    "an array without dimensions": lambda: np.array(0.5),
    "float32": lambda: np.float32(0.5),
    "an object that is a number": lambda: np.array(0.5, dtype=object),
    "Decimal": lambda: Decimal("0.5"),
    "Fraction": lambda: Fraction(1, 2),
    "an unmasked array": lambda: np.ma.array(0.5, mask=False),
    "a tensor": lambda: torch_number(False),
    "a tensor with a gradient": lambda: torch_number(True),
    "a pair": lambda: (0.5, 0.0),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_what_is_a_number_counts_as_it_is(kind: str) -> None:
    assert call_check(lambda: NUMBERS[kind](), "g", None) == Estimate(0.5, 0.0)


# -- units and signs -----------------------------------------------------------------------------


def ranged(value: float) -> Any:
    def check(model: Any) -> float:
        return value

    check.value_range = (0.0, 1.0)  # type: ignore[attr-defined]
    return check


@pytest.mark.parametrize("value", [25.0, -0.3, 1.1])
def test_a_value_that_its_check_says_cannot_be_is_a_failed_check(study: Path, value: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GoalWarning)
        result = run(study, ranged(value), upper=30.0)
    assert result.best is None and "lies between 0 and 1" in str(result)


def test_a_value_at_the_ends_of_its_range_is_one() -> None:
    for value in (0.0, 1.0, 1.0 + 1e-12, -1e-12):
        assert call_check(ranged(value), "g", None) == Estimate(value)


def test_a_limit_in_other_units_than_the_check_is_told(study: Path) -> None:
    with pytest.warns(GoalWarning, match=r"g <= 25 always holds; for 25 % write 0.25"):
        run(study, ranged(0.1), upper=25.0)
    for limit in (
        Constraint("g", upper=-1, check=ranged(0)),
        Constraint("g", lower=80, check=ranged(0)),
    ):
        with pytest.raises(GoalError, match="no model can keep"):
            tune(train, study.with_name("other.db"), constraints=[limit])


def test_a_share_is_not_certified_against_a_limit_in_percent(study: Path) -> None:
    refused = evidence_of(Constraint("g", upper=25.0), Share(300, 400)).refused("<=")
    assert refused is not None and "not percent" in refused
    result = run(
        study, lambda model: 20.0, upper=25.0, confirm=lambda model: {"g": Share(300, 400)}
    )
    assert result.best is not None and result.best.status == "holds"
    assert "not percent" in str(result)
    assert evidence_of(Constraint("g", upper=1.0), Share(300, 400)).refused("<=") is None


@pytest.mark.parametrize("counts", [(12, 5), (-1, 5), (0.5, 5), (True, 5), (0, 0)])
def test_a_share_of_impossible_counts_is_refused(counts: Any) -> None:
    with pytest.raises(GoalError):
        Share(*counts)


@pytest.mark.parametrize(
    "losses",
    [
        np.ma.array(np.zeros(500), mask=np.arange(500) < 20),  # 20 losses nobody knows
        np.full(500, 0.01 + 5j),
        np.zeros(500, "m8[ms]"),
        ["0"] * 500,
        np.array(["0"] * 500, dtype=object),
        [b"0"] * 500,
        [None] * 500,
    ],
    ids=["masked", "complex", "durations", "texts", "texts as objects", "bytes", "None"],
)
def test_a_mean_of_what_is_no_number_is_refused(losses: Any) -> None:
    with pytest.raises((GoalError, ReportError), match=r"Mean\(values\)"):
        Mean(losses)


def test_a_mean_takes_numbers_as_they_come() -> None:
    exact = [Decimal("0.25"), Fraction(1, 4), np.float32(0.25), 0.25]
    for losses in (exact, np.ma.array([0.25, 0.25]), [True, False, False, False], (0.25,)):
        assert Mean(losses).value == 0.25


def test_a_clock_that_runs_backwards_measures_no_latency() -> None:
    moments = iter(range(10**6, 0, -1))
    with pytest.raises(ReportError, match="must run forwards"):
        measure_latency(lambda: None, repeats=20, clock=lambda: float(next(moments)))
    check = LatencyCheck(lambda model: None, repeats=20, clock=lambda: float(next(moments)))
    assert isinstance(call_check(check, "ms", 1), FailedCheck)


def test_the_side_of_a_limit_is_kept() -> None:
    at_least = Constraint("g", lower=0.8, margin_se=1)
    assert at_least.holds(Estimate(0.9, 0.05)) and not at_least.holds(Estimate(0.84, 0.05))
    assert not at_least.holds(Estimate(-0.9)) and not at_least.holds(Estimate(0.79))


# -- what ready-made checks are given ------------------------------------------------------------

Y, GROUP = [0, 1, 0, 1], ["f", "f", "m", "m"]
BAD_SCORES: dict[str, Callable[[], Any]] = {
    "NaN": lambda: [0.1, math.nan, 0.2, 0.9],
    "None": lambda: [0.1, None, 0.2, 0.9],
    "masked": lambda: np.ma.array([0.1, 0.9, 0.2, 0.9], mask=[0, 1, 0, 0]),
    "complex": lambda: np.array([0.1, 0.9j, 0.2, 0.9]),
    "durations": lambda: np.array([1, 2, 3, 4], dtype="m8[s]"),
    "too few": lambda: [0.1, 0.9, 0.2],
    "two columns": lambda: np.ones((4, 2)),
    "a tensor with a gradient": lambda: pytest.importorskip("torch").ones(4, requires_grad=True),
}


@pytest.mark.parametrize("kind", BAD_SCORES)
def test_scores_that_are_none_give_no_fairness(kind: str) -> None:
    check = FairnessCheck("demographic_parity_difference", Y, GROUP)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = call_check(check, "gap", BAD_SCORES[kind]())
    assert isinstance(found, FailedCheck)


def test_masked_rows_and_groups_are_refused() -> None:
    masked = np.ma.array([0, 1, 0, 1], mask=[1, 0, 0, 0])
    for given in ((masked, GROUP), (Y, masked)):
        with pytest.raises(GoalError, match="is masked in row 0"):
            FairnessCheck("equal_opportunity_difference", *given)


@pytest.mark.parametrize(
    "answers",
    [
        np.ma.array([0.9, 0.9], mask=[0, 1]),
        np.array([0.9, 0.9j]),
        np.array(["0.9", "0.9"]),
        [0.9, math.nan],
        [0.9, None],
        [0.9],
        [0.9, 3.0],
    ],
)
def test_answers_that_are_none_give_no_robustness(answers: Any) -> None:
    suite = Suite([BehaviouralTest("words", ["fun", "great"], labels=2)])
    check = RobustnessCheck(suite, lambda model, texts: answers)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(call_check(check, "afr", 1), FailedCheck)


def test_a_model_of_no_size_is_none(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "empty", tmp_path / "folder"):
        assert isinstance(call_check(serialized_bytes, "bytes", path), FailedCheck)
    torch = pytest.importorskip("torch")
    assert isinstance(call_check(parameters, "parameters", torch.nn.ReLU()), FailedCheck)


# -- what is missing, and what is stale ----------------------------------------------------------


def test_a_constraint_that_was_not_measured_does_not_hold() -> None:
    limits = [Constraint("g", upper=1), Constraint("h", upper=1)]
    stopper = Stopper(objective="loss", mode="min", constraints=limits)
    trial = stopper.start("one", total_steps=3)
    with pytest.raises(ReportError, match="'h' is missing"):
        trial.observe(step=1, value=0.0, constraints={"g": 0.5})
    with pytest.raises(ReportError, match="'g' is missing"):
        trial.observe(step=1, value=0.0, constraints={})
    with pytest.raises(ReportError, match="unknown constraint 'i'"):
        trial.observe(step=1, value=0.0, constraints={"g": 0.5, "i": 0.5})
    assert trial.observe(step=1, value=0.0, constraints={"g": 5.0}).stratum == "invalid"
    assert stopper.best is None


def test_fresh_data_that_leaves_a_constraint_out_confirms_nothing(study: Path) -> None:
    for n, answer in enumerate(({}, {"loss": 1.0}, {"g": math.nan}, {"g": None}, {"g": True})):
        path = study.with_name(f"{n}.db")
        result = run(path, lambda model: 0.5, confirm=lambda model, answer=answer: answer)
        assert result.status == "unconfirmed", answer


def test_a_snapshot_that_is_no_copy_is_refused(study: Path) -> None:
    """The check of the best step, made at the end, would be of the last step's model."""

    def drifting(trial: Trial) -> None:
        weights = {"g": 0.0}
        for step in trial.steps(4):
            weights["g"] = float(step)
            loss = 0.0 if step == 2 else 1.0
            trial.report(loss, model=weights, snapshot=lambda model: model)

    def check(model: Any) -> float:
        return 5.0 - float(model["g"])  # only the last one holds

    limits = [Constraint("g", upper=1.5, check=check)]
    result = tune(drifting, study, constraints=limits, policy=ACE(interval="end", truncation=0))
    assert result.best is None and result.counts == {"failed": 1}
    (reason,) = result.trials["reason"]
    assert "the snapshot of step 2 is the very object that was reported at step 4" in reason


def test_models_that_cannot_change_need_no_copy(study: Path) -> None:
    def train(trial: Trial) -> None:
        for step in trial.steps(4):
            trial.report(0.0 if step == 2 else 1.0, model="a model", snapshot=str)

    limits = [Constraint("g", upper=1.5, check=lambda model: 1.0)]
    result = tune(train, study, constraints=limits, policy=ACE(interval="end", truncation=0))
    assert result.best is not None


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"mode": "max"}, "mode was 'min', now 'max'"),
        ({"constraints": [Constraint("g", upper=2.0, check=int)]}, "limit was <= 1.0, now <= 2.0"),
        ({"constraints": [Constraint("g", lower=1.0, check=int)]}, "limit was <= 1.0, now >= 1.0"),
        ({"constraints": [Constraint("h", upper=1.0, check=int)]}, "g is gone"),
        ({"constraints": []}, "g is gone"),
        ({"objective": "loss2"}, "name was 'loss', now 'loss2'"),
    ],
)
def test_other_goals_are_refused_when_a_study_goes_on(
    study: Path, changed: dict[str, Any], words: str
) -> None:
    run(study, lambda model: 0.5)
    with pytest.raises(StudyChangedError, match=words):
        run(study, None, **changed)


def test_what_a_check_says_of_the_model_it_is_given_at_that_step(study: Path) -> None:
    """Every value in the file belongs to the model of its own step."""

    def train(trial: Trial) -> None:
        for step in trial.steps(5):
            weights = {"step": step}
            trial.report(abs(step - 3.0), model=weights, snapshot=dict)
            weights["step"] = 99

    limits = [Constraint("g", upper=50.0, check=lambda model: float(model["step"]))]
    tune(train, study, constraints=limits, policy=ACE(interval="end", truncation=0), max_trials=3)
    found = rows(study, "SELECT checked_step, value FROM checks JOIN reports USING (seq)")
    assert {row["checked_step"] for row in found} == {3}
    assert all(row["value"] == row["checked_step"] for row in found)
