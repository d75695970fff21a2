"""The benchmark with two constraints from end to end, on two cases."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benchmark with few cases."""
    monkeypatch.syspath_prepend(str(ROOT))
    module = importlib.import_module("benchmarks.two_constraints")
    monkeypatch.setattr(module, "KINDS", (("easy", "hard"),))
    monkeypatch.setattr(module, "SHARES", (0.05, 0.95))
    monkeypatch.setattr(module, "RATIOS", (24.0,))
    monkeypatch.setattr(sys.modules["benchmarks.grid_plan"], "BUDGETS", (5, 10))
    return module


def test_from_end_to_end(benchmark: Any, tmp_path: Path) -> None:
    command = ["--seeds", "2", "--processes", "1", "--table", "synthetic-flat"]
    benchmark.main([*command, "--out", str(tmp_path)])
    result, page = tmp_path / "two_constraints.json", tmp_path / "two-constraints.md"
    about = json.loads(result.read_text())
    assert (about["seeds"], about["budgets"], len(about["cases"])) == (2, [5, 10], 2)
    assert str(tmp_path) not in result.read_text()
    for case in about["cases"]:
        assert list(case["came"]) == list(benchmark.POLICIES)
        for by_budget in case["came"].values():
            assert all(0 <= regret <= 1 and 0 < checks < 1 for regret, checks in by_budget)
    # who measures both does not care which of them is the dear one
    cheap, dear = (case["came"] for case in about["cases"])
    assert cheap["none"] == dear["none"] and cheap[benchmark.ALL] == dear[benchmark.ALL]
    text = page.read_text()
    assert "2 cases with budgets of 5 and 10" in text and "## By r" in text
    benchmark.main(["--page", "--out", str(tmp_path)])
    assert page.read_text() == text


@pytest.mark.parametrize("name", ["law-mlp", "synthetic-flat"])
def test_limits_on_the_size_are_as_hard_as_said(benchmark: Any, name: str) -> None:
    table = benchmark.plan.sources([name])[name]()
    for kind, share in benchmark.SIZES.items():
        case = benchmark.Case(name, "hard", kind, 0.25, 24.0)
        limited = benchmark.limited(table, case)
        metric, size = limited.constraints
        assert np.mean(limited.metrics["size"] <= size.upper) == pytest.approx(share, abs=0.05)
        assert size.cost_s + metric.cost_s == pytest.approx(24 * table.mean_cost_s)
        assert 3 * size.cost_s == pytest.approx(metric.cost_s)


def test_the_committed_page_is_of_the_committed_numbers(tmp_path: Path) -> None:
    sys.path.insert(0, str(ROOT))
    try:
        module = importlib.import_module("benchmarks.two_constraints")
    finally:
        sys.path.remove(str(ROOT))
    module.write_page(tmp_path / "page.md", *module.read(module.RESULT))
    assert (tmp_path / "page.md").read_text() == module.PAGE.read_text()
