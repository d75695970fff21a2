"""``acetune plan``."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from acetune.cli import app


def call(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})


def test_rows_for_each_kind_of_metric() -> None:
    done = call("plan", 0.25, 0.22)
    assert done.exit_code == 0 and "1,422" in done.output  # a share, exactly
    for kind in ("share", "mean of bounded losses", "fairness", "robustness", "latency"):
        assert kind in done.output
    found = json.loads(call("plan", 0.25, 0.22, "--json").output)
    rows = {need["kind"]: need["rows"] for need in found["needs"]}
    assert (
        rows["share"]
        < rows["mean of bounded losses"]
        < rows["fairness, a difference of two groups"]
    )
    assert found["level"] == pytest.approx(0.0375)


def test_more_confidence_and_less_distance_take_more_rows() -> None:
    def share(*words: object) -> int:
        needs = json.loads(call("plan", *words, "--json").output)["needs"]
        return int(needs[0]["rows"])

    assert share(0.25, 0.22) < share(0.25, 0.22, "--confidence", 0.99) < share(0.25, 0.24)
    assert share(0.8, 0.9) < share(0.8, 0.85)  # lower limits


def test_what_cannot_be_planned() -> None:
    assert "lies on its limit" in str(call("plan", 0.25, 0.25).exception)
    assert "LIMIT must be a number, got nan" in str(call("plan", "nan", 0.25).exception)
    assert "--power must be a share" in str(call("plan", 0.25, 0.2, "--power", 2).exception)
    done = call("plan", 0.25, 0.22, "--rate", 0.99)
    assert "never" in done.output and "cannot be" in done.output
