"""Regret, worked out by hand."""

from __future__ import annotations

import doctest
import math

import pytest

from acetune.core.errors import GoalError
from acetune.core.goals import Constraint, Objective
from acetune.replay.judged_table import judge
from benchmarks import regret
from benchmarks.regret import RegretScale, regret_scale
from replay.watching import curve, table_of

# eod <= 0.25: the best feasible AUC are 0.90, 0.80, none, 0.60 and 0.50
TABLE = table_of(
    curve([0.70, 0.90, 0.99], [0.10, 0.25, 0.26]),
    curve([0.80, 0.75], [0.10, 0.10]),
    curve([0.95], [0.90]),
    curve([0.60, 0.70], [0.20, 0.30]),
    curve([0.50], [0.00]),
)


def test_by_hand() -> None:
    scale = regret_scale(judge(TABLE))
    # of four configurations, as one has nothing feasible: the median of 0.5, 0.6, 0.8 and 0.9
    assert scale == RegretScale(best=-0.90, median=pytest.approx(-0.70))
    assert scale.regret(-0.90) == 0
    assert scale.regret(-0.85) == pytest.approx(0.25)
    assert scale.regret(-0.70) == 1
    assert scale.regret(-0.50) == 1  # cut
    assert scale.regret(math.inf) == 1  # nothing found


def test_losses_count_as_they_are_where_less_is_better() -> None:
    table = table_of(
        curve([0.3, 0.1], [0.1, 0.3]), curve([0.7], [0.1]), objective=Objective("auc", "min")
    )
    scale = regret_scale(judge(table))
    assert scale == RegretScale(0.3, 0.5)
    assert scale.regret(0.4) == pytest.approx(0.5)


def test_a_single_answer_is_right_or_wrong() -> None:
    scale = regret_scale(judge(TABLE, [Constraint("eod", upper=0.05)]))
    assert scale == RegretScale(-0.5, -0.5)
    assert (scale.regret(-0.5), scale.regret(-0.4)) == (0, 1)


def test_no_regret_without_an_answer() -> None:
    with pytest.raises(GoalError, match=r"nothing in 'by hand' has eod <= -1"):
        regret_scale(judge(TABLE, [Constraint("eod", upper=-1.0)]))


def test_the_example_in_the_text_is_right() -> None:
    assert doctest.testmod(regret).attempted
    assert not doctest.testmod(regret).failed
