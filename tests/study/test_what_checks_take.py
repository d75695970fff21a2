"""Who is called with the model: whatever can take it, and never empty where one was reported."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acetune import ACE, ASHA, Constraint, Trial
from acetune.core.errors import ReportCallError, StudyError
from acetune.core.goals import Estimate
from acetune.trial.checks import MISSING, call_check, takes_model
from run.helpers import report_rows, states, tune

MODEL = 5.0
EMPTY = -1.0  # what the checks below return where they are called without


def value(model: object) -> float:
    return EMPTY if model is None else float(model)  # type: ignore[arg-type]


def none_default(model: object = None) -> float:
    return value(model)


def none_default_then_more(model: object = None, threshold: float = 0.5) -> float:
    return value(model)


def model_comes_second(threshold: float = 0.5, model: object = None) -> float:
    assert threshold == 0.5
    return value(model)


def keyword(*, model: object) -> float:
    return value(model)


def keyword_none(*, model: object = None) -> float:
    return value(model)


def keyword_bound(*, model: object = 3) -> float:
    return value(model)


def any_keywords(**given: object) -> float:
    assert given.keys() <= {"model"}
    return value(given.get("model"))


def two(weight: float, model: object = None) -> float:
    assert weight == 7
    return value(model)


def scaled(model: object, threshold: float = 0.5) -> float:
    return value(model)


class Check:
    def __call__(self, model: object = None) -> float:
        return value(model)

    def method(self, model: object = None) -> float:
        return value(model)

    @staticmethod
    def bound(model: object = 3) -> float:
        return value(model)


class BoundCheck:
    def __call__(self, model: object = 3) -> float:
        return value(model)


def nothing() -> float:
    return EMPTY


def other_keyword(*, threshold: float = 0.5) -> float:
    return EMPTY


class Scored(float):
    """A class of one's own, whose default binds nothing either."""

    def __new__(cls, given: object = EMPTY) -> Scored:
        return super().__new__(cls, given)  # type: ignore[arg-type]


REFUSED = "refused"
# the check, what it gives where a model of 5 was reported, and where none was
TABLE: list[tuple[str, Callable[..., Any], float | str, float | str]] = [
    ("one parameter", lambda model: value(model), MODEL, REFUSED),
    ("one and an option", scaled, MODEL, REFUSED),
    ("any number", lambda *given: value(*given), MODEL, REFUSED),
    ("no signature", int, MODEL, REFUSED),
    ("built-in", abs, MODEL, REFUSED),
    ("float", float, MODEL, 0.0),
    ("NumPy's float", np.float64, MODEL, 0.0),
    ("own class", Scored, MODEL, EMPTY),
    ("default None", none_default, MODEL, EMPTY),
    ("default None and an option", none_default_then_more, MODEL, EMPTY),
    ("an option, then the model", model_comes_second, MODEL, EMPTY),
    ("object", Check(), MODEL, EMPTY),
    ("method", Check().method, MODEL, EMPTY),
    ("cached", functools.lru_cache(none_default), MODEL, EMPTY),
    ("bound in a lambda", lambda model=3: value(model), REFUSED, 3.0),
    ("bound under another name", lambda m=3: value(m), REFUSED, 3.0),
    ("bound in an object", BoundCheck(), REFUSED, 3.0),
    ("bound in a static method", Check.bound, REFUSED, 3.0),
    ("bound and cached", functools.lru_cache(lambda m=3: value(m)), REFUSED, 3.0),
    ("keyword", keyword, MODEL, REFUSED),
    ("keyword None", keyword_none, MODEL, EMPTY),
    ("keyword with a default", keyword_bound, REFUSED, 3.0),
    ("any keywords", any_keywords, MODEL, EMPTY),
    ("another keyword", other_keyword, EMPTY, EMPTY),
    ("no parameter", nothing, EMPTY, EMPTY),
    ("partial, one is left", functools.partial(two, 7), MODEL, EMPTY),
    ("partial, by name", functools.partial(scaled, threshold=0.1), MODEL, REFUSED),
    ("partial, none is left", functools.partial(none_default, 3), 3.0, 3.0),
    ("partial of float", functools.partial(float, 3), 3.0, 3.0),
    ("partial, an option is left", functools.partial(scaled, 3), REFUSED, 3.0),
    ("partial has the keyword", functools.partial(keyword, model=3), 3.0, 3.0),
    ("partial has the parameter", functools.partial(scaled, model=3), 3.0, 3.0),
    ("partial has one of any", functools.partial(any_keywords, model=3), 3.0, 3.0),
    ("partial has model=None", functools.partial(keyword_none, model=None), EMPTY, EMPTY),
]


@pytest.mark.parametrize(
    ("check", "model", "expected"),
    [
        pytest.param(check, model, expected, id=f"{name}, {model!r}")
        for name, check, given, empty in TABLE
        for model, expected in ((MODEL, given), (MISSING, empty))
    ],
)
def test_what_a_check_is_called_with(
    check: Callable[..., Any], model: object, expected: float | str
) -> None:
    if expected == REFUSED:
        with pytest.raises(ReportCallError, match="the check of 'g' "):
            call_check(check, "g", model)
    else:
        assert call_check(check, "g", model) == Estimate(expected)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("check", "given"), [pytest.param(row[1], row[2], id=row[0]) for row in TABLE]
)
def test_a_copy_of_the_best_is_of_use_to_those_that_are_called_with_it(
    check: Callable[..., Any], given: float | str
) -> None:
    assert takes_model(check) == (given == MODEL)


def test_the_refusal_names_the_parameter_and_the_way_out() -> None:
    with pytest.raises(ReportCallError, match=r"its parameter 'w'.*functools\.partial\(check, val"):
        call_check(lambda w=3: w, "gap", MODEL)


CHECKS = {"float": float, "numpy": np.float64, "function": none_default, "object": Check()}


@pytest.mark.parametrize("policy", [ACE(), ASHA(constraints="after")], ids=["in", "after"])
@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_a_study_never_calls_them_empty(
    study: Path, policy: Any, check: Callable[..., Any]
) -> None:
    def train(trial: Trial) -> None:
        for step in trial.steps(2):
            trial.report(1 / step, model=5)

    limit = Constraint("size", upper=3, check=check)
    result = tune(train, study, constraints=[limit], policy=policy)
    assert result.best is None
    assert result.nearest_miss is not None
    assert result.nearest_miss.constraints["size"] == Estimate(5.0)


def test_a_check_given_with_the_report_gets_the_model_too(study: Path) -> None:
    def train(trial: Trial) -> None:
        for step in trial.steps(2):
            trial.report(1 / step, model=5, constraints={"size": float})

    assert tune(train, study, constraints=[Constraint("size", upper=3)]).best is None
    assert {row["stratum"] for row in report_rows(study)} <= {"invalid", "unchecked"}


def test_a_bound_default_beside_a_model_ends_the_study(study: Path) -> None:
    def train(trial: Trial) -> None:
        for step in trial.steps(2):
            trial.report(1 / step, model=5, constraints={"size": lambda m=step: m})

    with pytest.raises(StudyError, match=r"the check of 'size' has a default for its parameter"):
        tune(train, study, constraints=[Constraint("size", upper=3)])
    assert states(study) == ["failed"]
