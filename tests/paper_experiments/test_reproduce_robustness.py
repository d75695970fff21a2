"""The robustness experiment, replayed on a made table: the page says what the runs say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from acetune.core.errors import GoalError, TableError
from acetune.core.goals import Objective
from acetune.replay.curve_table import CurveTable, TableConstraint, make_table
from acetune.replay.runs import summarise
from acetune.replay.table_file import write_table
from paper import figures, robustness
from paper.__main__ import app
from paper.measuring import Case, Plan, measure
from paper.page import mean_text
from paper.published import EXPENSIVE, ROBUSTNESS_LIMITS


def sentiment_like(configs: int = 40) -> CurveTable:
    """Accuracy rises and the failure rate with it: only careless or early models are robust."""
    rng = np.random.default_rng(1)
    curves = []
    for _ in range(configs):
        steps = int(np.exp(rng.uniform(0, np.log(40))))
        step = np.arange(1, steps + 1)
        top = rng.uniform(0.6, 0.92)
        accuracy = top - (top - 0.5) * np.exp(-step / rng.uniform(1, 8))
        afr = 0.15 + 0.25 * (accuracy - 0.5) + rng.normal(0, 0.01, steps) + rng.uniform(-0.02, 0.04)
        cost = np.full(steps, rng.choice([0.5, 1.0, 2.0]))
        curves.append(
            ({"rate": float(rng.random())}, {"accuracy": accuracy, "afr": afr}, cost, None)
        )
    limit = TableConstraint("afr", upper=0.2, cost_s=0.25)
    space = {"rate": {"float": [0.0, 1.0], "log": False}}
    return make_table("like sst2", Objective("accuracy", "max"), [limit], curves, space=space)


def test_budget_and_ratio_come_from_the_table() -> None:
    table = sentiment_like()
    assert robustness.recorded_ratio(table) == pytest.approx(0.25 / table.cost_s.mean(), rel=5e-3)
    third = table.cost_s.sum() / 3 / 4
    assert robustness.default_budget_s(table) == pytest.approx(third, rel=5e-3)


def test_the_page_says_what_the_runs_say(tmp_path: Path) -> None:
    table = sentiment_like()
    plan = Plan(30.0, seeds=3, samples=2, constrained="afr")
    measured = measure(table, robustness.cases(table), plan)
    page, drawn = robustness.report(table, measured, plan, tmp_path, ".html")
    page.write(tmp_path / "robustness.md")
    text = (tmp_path / "robustness.md").read_text(encoding="utf-8")
    ratio = robustness.recorded_ratio(table)
    for limit in ROBUSTNESS_LIMITS:
        for cost in (ratio, EXPENSIVE):
            ace = measured[Case("ace", limit, cost)]
            section = text.split(f"## A check costs {cost:g} steps")[1].split("##")[0]
            (row,) = re.findall(rf"AFR ≤ {limit:.2f}, ACE \| ([^|]*)\|[^|]*\| ([^|]*) \|", section)
            found = sum(run.best is not None for run in ace.runs)
            assert row == (f"{mean_text(ace.summary)} ", f"{found} of 3")
            # what is feasible is feasible: every answer comes from a row within the limit
            for run in ace.runs:
                if run.incumbents:
                    best = run.incumbents[-1]
                    place = int(table.starts[best.config]) + best.step - 1
                    assert table.metrics["afr"][place] <= limit
                    assert table.metrics["accuracy"][place] == best.value
    assert "85.93 ± 1.15" in text
    assert len(drawn) == 3


def test_bars_are_the_shares_of_seeds_that_found_something() -> None:
    table = sentiment_like()
    plan = Plan(6.0, seeds=4, samples=2, constrained="afr")
    cases = [Case(policy, limit, 1.0) for policy in ("none", "ace") for limit in (0.14, 0.25)]
    measured = measure(table, cases, plan)
    runs = [run for found in measured.values() for run in found.runs]
    figure = figures.success_rates(summarise(runs), policies=["ace", "none"])
    assert [trace.name for trace in figure.data] == ["ace", "none"]
    for trace in figure.data:
        for limit, share in zip((0.14, 0.25), trace.y, strict=True):
            found = measured[Case(trace.name, limit, 1.0)].runs
            assert share == 100 * sum(run.best is not None for run in found) / 4
    assert min(figure.data[0].y) < max(figure.data[0].y)
    with pytest.raises(GoalError, match="no runs"):
        figures.success_rates([])


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "t.parquet", sentiment_like(20))
    arguments = ["robustness", "--table", "t.parquet", "-o", "out"]
    arguments += ["--seeds", "2", "--samples", "2", "--processes", "1", "--pictures", "html"]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    made = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"robustness.md", "robustness-runs.json", "robustness-success.html"} <= made
    kept = json.loads((tmp_path / "out" / "robustness-runs.json").read_text())
    assert {(row["policy"], row["limit"]) for row in kept} >= {("ace", 0.19), ("ace-betaT", 0.2)}


def test_tables_are_not_mixed_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GoalError, match="reproduce it by itself"):
        CliRunner().invoke(
            app,
            ["fairness", "robustness", "--table", "t.parquet"],
            catch_exceptions=False,
        )
    with pytest.raises(TableError, match="python -m paper record robustness"):
        CliRunner().invoke(app, ["robustness"], catch_exceptions=False)
