"""Measurements as plain data: they come back as they were, also from what was written before."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acetune.core import decision
from acetune.core.goals import Estimate, FailedCheck
from acetune.core.report_values import from_columns, from_json, to_columns, to_json
from acetune.study import report_arrays as columns

numbers = st.floats(allow_nan=False, allow_infinity=False)
measurements = st.builds(Estimate, numbers, st.floats(0, 10)) | st.builds(FailedCheck, st.text())


@given(measurements)
def test_a_measurement_comes_back(found: Estimate | FailedCheck) -> None:
    assert from_columns(*to_columns(found)) == found
    assert from_json(json.loads(json.dumps(to_json(found)))) == found
    assert from_json(json.loads(json.dumps(list(found)))) == found  # as results of Ray hold it


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ([0.25, 0.5], Estimate(0.25, 0.5)),
        (["timed out"], FailedCheck("timed out")),
        ({"error": "timed out"}, FailedCheck("timed out")),
    ],
)
def test_what_was_written_before_is_read(written: object, meant: Estimate | FailedCheck) -> None:
    assert from_json(written) == meant  # type: ignore[arg-type]


def test_a_row_without_a_reason_or_standard_error_is_read() -> None:
    assert from_columns(None, None, None) == FailedCheck("unknown")
    assert from_columns(0.5, None, None) == Estimate(0.5, 0.0)


def test_strata_have_the_same_numbers_everywhere() -> None:
    assert columns.STRATA is decision.STRATA
    for name in ("UNCHECKED", "INVALID", "VALID"):
        assert getattr(columns, name) is getattr(decision, name)
        assert decision.STRATA[getattr(decision, name)] == name.lower()
