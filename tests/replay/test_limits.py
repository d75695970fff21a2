"""Limits as people write them."""

from __future__ import annotations

import pytest

from acetune.core.errors import GoalError
from acetune.replay.judged_table import parse_limit


@pytest.mark.parametrize(
    ("text", "name", "upper", "lower"),
    [
        ("eod<=0.25", "eod", 0.25, None),
        ("recall>=0.9", "recall", None, 0.9),
        ("  eod <= 0.25\n", "eod", 0.25, None),
        ("adversarial accuracy >= .5", "adversarial accuracy", None, 0.5),
        ("gap<=-1e-3", "gap", -0.001, None),
        ("g<=0", "g", 0.0, None),
        ("f1@confirm>=+1", "f1@confirm", None, 1.0),
    ],
)
def test_a_limit_is_read(text: str, name: str, upper: float | None, lower: float | None) -> None:
    limit = parse_limit(text)
    assert (limit.name, limit.upper, limit.lower) == (name, upper, lower)


@pytest.mark.parametrize(
    "text", ["", "eod", "eod<0.25", "eod=0.25", "eod==0.25", "<=0.25", " <=1", "eod<=", "0<=eod<=1"]
)
def test_another_form_is_refused_with_the_right_one(text: str) -> None:
    with pytest.raises(GoalError, match="reads METRIC<=NUMBER or METRIC>=NUMBER") as refused:
        parse_limit(text)
    assert f"got {text!r}" in str(refused.value)


def test_a_limit_that_is_no_number() -> None:
    with pytest.raises(GoalError, match=r"got 'eod<=25%', where '25%' is no number"):
        parse_limit("eod<=25%")
    with pytest.raises(GoalError, match="'eod': limit must be finite, got nan"):
        parse_limit("eod<=nan")
    with pytest.raises(GoalError, match="got 3"):
        parse_limit(3)  # type: ignore[arg-type]


def test_what_a_constraint_says_of_itself_is_read_back() -> None:
    for text in ("eod <= 0.25", "recall >= 0.9"):
        assert parse_limit(text).describe() == text
