"""What may be asked for, what may be reported, and what a value that is no number means."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from acetune.core.errors import GoalError, ReportError
from acetune.core.goals import (
    Constraint,
    Estimate,
    FailedCheck,
    Goals,
    Objective,
    as_measurement,
    as_number,
    note_of,
    with_note,
)
from acetune.policies import ACE
from acetune.policies.stopper import Stopper

NAN, INF = math.nan, math.inf
LOSS = Objective("loss")
EOD = Constraint("eod", upper=0.25)


def limited(**options: Any) -> Constraint:
    return Constraint(**{"name": "eod", "upper": 0.25, **options})


# -- refused goals -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"name": ""}, "''"),
        ({"name": None}, "None"),
        ({"name": 3}, "3"),
        ({"name": "o\udc82"}, r"'o\udc82', with half a character"),
        ({"name": "loss", "mode": "minimize"}, "'minimize'"),
        ({"name": "loss", "mode": "MAX"}, "'MAX'"),
        ({"name": "loss", "mode": ""}, "''"),
        ({"name": "loss", "mode": None}, "None"),
    ],
)
def test_objectives_that_make_no_sense(options: dict[str, Any], named: str) -> None:
    with pytest.raises(GoalError, match=re.escape(named)):
        Objective(**options)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"name": ""}, "''"),
        ({"name": 7}, "7"),
        ({"name": "g\ud800"}, r"'g\ud800', with half a character"),
        ({"upper": None}, "upper=None, lower=None"),
        ({"upper": 0.25, "lower": 0.1}, "upper=0.25, lower=0.1"),
        ({"upper": NAN}, "nan"),
        ({"upper": INF}, "inf"),
        ({"upper": None, "lower": -INF}, "-inf"),
        ({"upper": "0.25"}, "'0.25'"),
        ({"upper": True}, "True"),
        ({"margin_se": -1.0}, "-1.0"),
        ({"margin_se": NAN}, "nan"),
        ({"margin_se": None}, "None"),
        ({"scale": 0.0}, "0.0"),
        ({"scale": -2.0}, "-2.0"),
        ({"scale": INF}, "inf"),
        ({"scale": "wide"}, "'wide'"),
        ({"timeout_s": 0}, "0"),
        ({"timeout_s": -1}, "-1"),
        ({"timeout_s": NAN}, "nan"),
        ({"check": 0.3}, "0.3"),
        ({"on": "data"}, "'data'"),
    ],
)
def test_constraints_that_make_no_sense(options: dict[str, Any], named: str) -> None:
    with pytest.raises(GoalError, match=re.escape(named)) as caught:
        limited(**options)
    if "name" not in options:
        assert "'eod'" in str(caught.value)


def test_a_constraint_on_the_configuration_needs_a_check() -> None:
    with pytest.raises(GoalError, match=r"'eod'.*check="):
        limited(on="config")


@pytest.mark.parametrize(
    ("constraints", "named"),
    [
        ((EOD, EOD), "'eod'"),
        ((EOD, Constraint("eod", lower=0.0)), "'eod'"),
        ((Constraint("loss", upper=1.0),), "'loss'"),
        (("eod <= 0.25",), "'eod <= 0.25'"),
        ((limited(on="config", check=lambda params: 0.0),), "'eod'"),
    ],
)
def test_goals_that_make_no_sense(constraints: tuple[Any, ...], named: str) -> None:
    with pytest.raises(GoalError, match=re.escape(named)):
        Goals(LOSS, constraints)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"mode": "minimum"}, "'minimum'"),
        ({"confirm_top": 0}, "0"),
        ({"confirm_top": 1.5}, "1.5"),
        ({"policy": "ace"}, "'ace'"),
        ({"policy": ACE}, "ACE"),
    ],
)
def test_stoppers_that_make_no_sense(options: dict[str, Any], named: str) -> None:
    with pytest.raises(GoalError, match=re.escape(named)):
        Stopper(**{"objective": "loss", "mode": "min", **options})


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"truncation": -0.1}, "-0.1"),
        ({"truncation": 25}, "25"),
        ({"truncation": NAN}, "nan"),
        ({"truncation": "0.25"}, "'0.25'"),
        ({"interval": 2}, "2"),
        ({"interval": True}, "True"),
        ({"interval": "T"}, "'T'"),
        ({"stopping": "hard"}, "'hard'"),
        ({"min_steps": -1}, "-1"),
        ({"min_steps": 1.5}, "1.5"),
    ],
)
def test_options_of_ace_that_make_no_sense(options: dict[str, Any], named: str) -> None:
    with pytest.raises(GoalError, match=re.escape(named)):
        ACE(**options)


def test_a_goal_error_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="eod"):
        limited(upper=NAN)


# -- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (1, 1.0),
        (0, 0.0),
        (-0.5, -0.5),
        (Fraction(1, 4), 0.25),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3.0),
        (np.array(0.25), 0.25),
    ],
)
def test_what_is_a_number(value: object, number: float) -> None:
    found = as_number(value, "the objective")
    assert found == number
    assert type(found) is float


@pytest.mark.parametrize(
    "value", ["0.5", b"0.5", None, [0.5], (0.5,), {}, 1j, np.array([0.5, 0.25])]
)
def test_what_is_no_number(value: object) -> None:
    with pytest.raises(ReportError) as caught:
        as_number(value, "the objective")
    assert "the objective" in str(caught.value)
    assert repr(value) in str(caught.value)


def test_a_whole_number_too_large_for_a_float_is_refused_like_any_other() -> None:
    with pytest.raises(ReportError, match="the objective"):
        as_number(10**400, "the objective")


# -- signs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("value", [0.0, 0.8, -3.5])
def test_the_loss_turns_back_into_the_value(mode: Any, value: float) -> None:
    objective = Objective("loss", mode)
    assert objective.value(objective.loss(value)) == value


def test_smaller_losses_are_better_in_either_mode() -> None:
    assert Objective("loss", "min").loss(0.1) < Objective("loss", "min").loss(0.2)
    assert Objective("auc", "max").loss(0.2) < Objective("auc", "max").loss(0.1)


@pytest.mark.parametrize(
    ("limit", "value", "holds", "violation"),
    [
        ({"upper": 0.25}, 0.25, True, 0.0),  # the limit itself is allowed
        ({"upper": 0.25}, 0.5, False, 1.0),  # in units of the limit
        ({"upper": 0.25}, -9.0, True, 0.0),
        ({"lower": 0.5}, 0.5, True, 0.0),
        ({"lower": 0.5}, 0.25, False, 0.5),
        ({"lower": 0.5}, 9.0, True, 0.0),
        ({"upper": 0.0}, 0.0, True, 0.0),
        ({"upper": 0.0}, 0.125, False, 0.125),  # nothing to divide by
        ({"upper": -0.5}, 0.0, False, 1.0),  # by its size, whatever its sign
        ({"lower": -0.5}, -0.25, True, 0.0),
        ({"lower": -0.5}, -1.0, False, 1.0),
        ({"upper": 0.25, "scale": 2.0}, 0.5, False, 0.125),
        ({"lower": 0.5, "scale": 0.25}, 0.25, False, 1.0),
        ({"upper": 3}, 4, False, 1 / 3),  # whole numbers too
    ],
)
def test_limits(limit: dict[str, Any], value: float, holds: bool, violation: float) -> None:
    constraint = Constraint("eod", **limit)
    assert constraint.holds(Estimate(value)) is holds
    assert constraint.violation(Estimate(value)) == violation


@pytest.mark.parametrize(
    ("limit", "value", "holds", "violation"),
    [
        ({"upper": 0.5}, 0.25, True, 0.0),
        ({"upper": 0.5}, 0.375, False, 0.25),  # 0.375 + 2 * 0.125 is 0.625
        ({"lower": 0.5}, 0.75, True, 0.0),
        ({"lower": 0.5}, 0.625, False, 0.25),
    ],
)
def test_a_margin_moves_the_value_towards_the_limit(
    limit: dict[str, Any], value: float, holds: bool, violation: float
) -> None:
    constraint = Constraint("eod", margin_se=2.0, **limit)
    measured = Estimate(value, stderr=0.125)
    assert constraint.holds(measured) is holds
    assert constraint.violation(measured) == violation


def test_without_a_margin_the_standard_error_does_not_count() -> None:
    assert EOD.holds(Estimate(0.25, stderr=100.0))


# -- several constraints -------------------------------------------------------------------------

TWO = Goals(LOSS, (Constraint("eod", upper=0.25), Constraint("acc", lower=0.5)))


@pytest.mark.parametrize(
    ("eod", "acc", "judged"),
    [
        (Estimate(0.25), Estimate(0.5), (True, 0.0)),
        (Estimate(0.5), Estimate(0.5), (False, 1.0)),
        (Estimate(0.25), Estimate(0.25), (False, 0.5)),
        (Estimate(0.5), Estimate(0.25), (False, 1.5)),
        (FailedCheck("timeout"), Estimate(0.5), (False, INF)),
        (FailedCheck("timeout"), FailedCheck("timeout"), (False, INF)),
    ],
)
def test_violations_add_up_and_all_must_hold(
    eod: Any, acc: Any, judged: tuple[bool, float]
) -> None:
    assert TWO.judge({"eod": eod, "acc": acc}) == judged


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({}, "eod"),
        ({"eod": 0.1}, "acc"),
        ({"eod": 0.1, "acc": 0.5, "size": 3}, "'size'"),
        ({"eod": None, "acc": 0.5}, "None"),  # missing is not the same as NaN
        ({"eod": "0.1", "acc": 0.5}, "'0.1'"),
        ({"eod": (0.1, "small"), "acc": 0.5}, "'small'"),
        ({"eod": (0.1, 0.2, 0.3), "acc": 0.5}, "0.3"),
    ],
)
def test_a_check_covers_all_constraints_by_their_names(values: dict[str, Any], named: str) -> None:
    with pytest.raises(ReportError, match=re.escape(named)):
        TWO.measurements(values)


def test_measurements_come_in_the_order_declared() -> None:
    assert list(TWO.measurements({"acc": 0.5, "eod": 0.1})) == ["eod", "acc"]


# -- values that are not finite ------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_an_objective_that_is_not_finite_ranks_last(mode: Any, value: float) -> None:
    assert Objective("loss", mode).loss(value) == INF


@pytest.mark.parametrize(
    ("returned", "measured"),
    [
        (0.0, Estimate(0.0)),  # an ordinary number
        (-0.0, Estimate(0.0)),
        (0.3, Estimate(0.3)),
        (1, Estimate(1.0)),
        (np.float64(0.3), Estimate(0.3)),
        (Estimate(0.3, 0.02), Estimate(0.3, 0.02)),
        ((0.3, 0.02), Estimate(0.3, 0.02)),
        (Estimate(0.3, 0.0), Estimate(0.3)),
    ],
)
def test_a_measurement(returned: object, measured: Estimate) -> None:
    assert as_measurement(returned, "eod") == measured


@pytest.mark.parametrize(
    ("returned", "named"),
    [
        (NAN, "nan"),
        (INF, "inf"),
        (-INF, "-inf"),
        (np.float32("nan"), "nan"),
        (Estimate(NAN, 0.1), "nan"),
        (Estimate(0.1, NAN), "nan"),
        (Estimate(0.1, INF), "inf"),
        (Estimate(0.1, -0.1), "-0.1"),
        (FailedCheck("CUDA out of memory"), "CUDA out of memory"),
    ],
)
def test_a_failed_check_keeps_its_reason_and_is_never_feasible(
    returned: object, named: str
) -> None:
    failed = as_measurement(returned, "eod")
    assert isinstance(failed, FailedCheck)
    assert named in failed.error
    for constraint in (limited(), limited(upper=None, lower=-1e300)):
        assert not constraint.holds(failed)
        assert constraint.violation(failed) == INF


@pytest.mark.parametrize(
    ("constraint", "text"),
    [(EOD, "eod <= 0.25"), (Constraint("acc", lower=1e-6), "acc >= 1e-06")],
)
def test_a_limit_as_people_write_it(constraint: Constraint, text: str) -> None:
    assert constraint.describe() == text


def test_an_estimate_with_a_note_is_shown_as_one() -> None:
    noted = with_note(Estimate(0.25, 0.5), {"predicted": {"0": 1.0}})
    assert note_of(noted) is not None and repr(noted) == "Estimate(value=0.25, stderr=0.5)"
