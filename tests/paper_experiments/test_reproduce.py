"""The paper's tables again, on a small table: that the machinery measures what it says."""

from __future__ import annotations

import dataclasses
import re
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from acetune.core.errors import AcetuneError, TableError
from acetune.core.goals import Constraint, Objective
from acetune.replay.compare import resampled
from acetune.replay.curve_table import CurveTable, TableConstraint, make_table
from acetune.replay.judged_table import judge
from acetune.replay.runs import Cell, Incumbent, Run
from acetune.replay.statistics import Interval
from acetune.replay.table_file import write_table
from paper import ablations, fairness
from paper.__main__ import app
from paper.case_study import find_pair
from paper.measuring import Case, Measured, Plan, difference, jobs_of, measure
from paper.page import difference_text, interval_text, percent, verdict
from paper.published import START, TABLE_1

PLAN = Plan(budget_s=0.6, seeds=3, samples=2)


def credit_like(configs: int = 60, seed: int = 0, longest: int = 60) -> CurveTable:
    """Curves of the paper's space, made up; fair ones learn more slowly."""
    rng = np.random.default_rng(seed)
    curves = []
    for _ in range(configs):
        steps = int(rng.integers(4, longest))
        params = dict(START)
        params |= {"n_estimators": steps, "num_leaves": int(rng.integers(4, 100))}
        params |= {"learning_rate": float(rng.uniform(0.001, 1.0))}
        step = np.arange(1, steps + 1)
        unfair = rng.uniform(0.2, 0.4)
        auc = 0.85 - rng.uniform(0, 0.02) - (0.5 - unfair) / step
        eod = np.clip(unfair + rng.normal(0, 0.01, steps), 0, 1)
        curves.append((params, {"auc": auc, "eod": eod}, np.full(steps, 0.01), None))
    space = {
        "n_estimators": {"integer": [4, 3000], "log": True},
        "num_leaves": {"integer": [4, 21000], "log": True},
        "min_child_samples": {"integer": [2, 129], "log": True},
        "learning_rate": {"float": [1 / 1024, 1.0], "log": True},
        "log_max_bin": {"integer": [3, 11], "log": True},
        "colsample_bytree": {"float": [0.01, 1.0], "log": False},
        "reg_alpha": {"float": [1 / 1024, 1024.0], "log": True},
        "reg_lambda": {"float": [1 / 1024, 1024.0], "log": True},
    }
    limit = TableConstraint("eod", upper=0.25, cost_s=0.001)
    return make_table("like credit", Objective("auc", "max"), [limit], curves, space=space)


def run_with(best: float | None, seed: int, policy: str) -> Run:
    cell = Cell("t", "eod <= 0.25", 1.0, 1.0, 4, "random")
    found = () if best is None else (Incumbent(0.5, best, 0, 1),)
    return Run(policy, cell, seed, "max", found, 5, 50, 10, 0, 1.0, 0.1, 1.0)


def measured(
    *bests: float | None, sampled: list[list[float | None]], policy: str = "a"
) -> Measured:
    return Measured(
        Case(policy, 0.25, 1.0),
        tuple(run_with(best, seed, policy) for seed, best in enumerate(bests)),
        tuple(
            tuple(run_with(best, seed, policy) for seed, best in enumerate(row)) for row in sampled
        ),
    )


def test_differences_are_paired_and_leave_out_what_was_not_found() -> None:
    a = measured(0.8, None, 0.9, sampled=[[0.8, 0.9], [0.7, None], [0.6, 0.6]])
    b = measured(0.7, 0.5, 0.6, sampled=[[0.7, 0.7], [0.5, 0.1], [0.8, 0.8]], policy="b")
    found = difference(a, b)
    assert found is not None
    assert found.mean == pytest.approx(0.2)  # of 0.1 and 0.3
    low, high = np.quantile([0.15, 0.2, -0.2], [0.025, 0.975]) + 0.2 - 0.05  # centred on the mean
    assert (found.low, found.high) == pytest.approx((low, high))
    assert a.summary.failures == 1
    assert a.summary.mean == pytest.approx(0.85)


def test_without_other_tables_the_interval_is_over_seeds() -> None:
    a, b = measured(0.8, 0.9, sampled=[]), measured(0.7, 0.7, sampled=[], policy="b")
    found = difference(a, b)
    assert found is not None
    assert found.mean == pytest.approx(0.15)
    assert found.low == pytest.approx(0.1)
    assert found.high == pytest.approx(0.2)


def test_every_case_gets_its_own_runs() -> None:
    cases = [
        Case("ace", 0.25, 1.94),
        Case("none", 0.325, 1.94),
        Case("asha", 0.25, 24.0, "blendsearch"),
        Case("ace", 0.25, 1.94),
    ]
    found = measure(credit_like(), cases, PLAN)
    assert list(found) == cases[:3]
    for case, result in found.items():
        assert [run.seed for run in result.runs] == [0, 1, 2]
        for run in (*result.runs, *(run for row in result.sampled for run in row)):
            assert run.policy == case.policy
            assert run.cell.constraint == f"eod <= {case.limit:g}"
            assert run.cell.cost_ratio == case.cost_ratio
            assert run.cell.searcher == case.searcher
    assert [len(result.sampled) for result in found.values()] == [2, 2, 0]  # ASHA x model: seeds
    again = measure(credit_like(), cases[:1], dataclasses.replace(PLAN, processes=2))
    assert again[cases[0]] == found[cases[0]]
    assert len(jobs_of(cases[:3], PLAN)) == 3 * 3 + 2 * 2 * 2


def test_a_table_drawn_anew_has_configurations_of_the_old_one() -> None:
    table = credit_like()
    drawn = resampled(table, 3)
    assert len(drawn.configs) == len(table.configs)
    assert all(config in table.configs for config in drawn.configs)
    assert resampled(table, 3).configs == drawn.configs
    assert resampled(table, 4).configs != drawn.configs
    assert resampled(table, None) is table


@pytest.mark.parametrize(
    ("paper", "ours", "said"),
    [
        (0.5, Interval(0.01, 0.005, 0.02), "agrees"),
        (-0.5, Interval(0.01, 0.005, 0.02), "**disagrees**"),
        (0.5, Interval(0.01, -0.005, 0.02), "not told apart"),
        (None, Interval(0.01, 0.005, 0.02), "ours alone"),
        (0.0, Interval(-0.01, -0.02, -0.005), "differs (paper: equal)"),
        (0.5, None, "too few found something"),
    ],
)
def test_verdicts(paper: float | None, ours: Interval | None, said: str) -> None:
    assert verdict(paper, ours) == said


def test_numbers_are_shown_in_per_cent() -> None:
    assert percent(0.85381) == "85.38"
    assert interval_text(Interval(0.85, 0.84, 0.86)) == "84.00 to 86.00"
    assert difference_text(Interval(0.01, -0.005, 0.02)) == "+1.00 (-0.50 to +2.00)"
    assert percent(None) == interval_text(None) == difference_text(None) == "-"


def test_the_papers_table_has_eight_rows_a_limit() -> None:
    assert len(TABLE_1) == 16
    assert {row.limit for row in TABLE_1} == {0.25, 0.325}


def test_pages_have_a_row_a_case_with_the_numbers_measured(tmp_path: Path) -> None:
    table = credit_like()
    cases = [*fairness.cases(), *ablations.cases()]
    # nothing is trained: one run a policy and limit stands for all of them
    runs = {
        case: measured(0.84, 0.85, None, sampled=[[0.84, 0.85], [0.85, 0.86]], policy=case.policy)
        for case in cases
    }
    runs = {
        case: Measured(
            case,
            tuple(
                dataclasses.replace(
                    run,
                    policy=case.policy,
                    cell=dataclasses.replace(
                        run.cell, constraint=f"eod <= {case.limit:g}", searcher=case.searcher
                    ),
                )
                for run in found.runs
            ),
            found.sampled,
        )
        for case, found in runs.items()
    }
    for part in (fairness, ablations):
        page, drawn = part.report(table, runs, PLAN, tmp_path, ".html")
        assert drawn
        page.write(tmp_path / "page.md")
        text = (tmp_path / "page.md").read_text()
        assert "84.50" in text  # the mean of 0.84 and 0.85
        for line in re.findall(r"^\|.*$", text, re.MULTILINE):
            assert line.count("|") > 3
    assert text.count("ace") == 0  # policies have the paper's names on the page


def test_the_case_study_shows_what_it_says() -> None:
    judged = judge(credit_like(150, longest=300), [Constraint("eod", upper=0.25)], 1.94)
    pair = find_pair(judged, Plan(budget_s=20.0))
    ace, asha = pair.reached["ace"], pair.reached["asha"]
    table = judged.table
    fair = np.flatnonzero(table.curve(pair.wronged, "eod") <= 0.25) + 1
    assert asha[pair.wronged].stopped
    best = fair[np.argmax(table.curve(pair.wronged, "auc")[fair - 1])]
    assert asha[pair.wronged].step < best <= ace[pair.wronged].step
    assert (table.curve(pair.in_vain, "eod") > 0.25).all()
    assert ace[pair.in_vain].step < asha[pair.in_vain].step


def test_a_table_without_such_trials_is_an_error() -> None:
    judged = judge(credit_like(20), [Constraint("eod", upper=0.25)], 1.94)
    with pytest.raises(TableError, match="trains another in vain"):
        find_pair(judged, Plan(budget_s=1.0))


def test_the_command_draws_and_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["paper"])  # which says what the page was made by
    path, out = tmp_path / "t.parquet", tmp_path / "out"
    write_table(path, credit_like(150, longest=300))
    common = ["--table", str(path), "--budget-s", "20", "--pictures", "html", "-o", str(out)]
    asked = CliRunner().invoke(app, ["figures", *common])
    assert asked.exit_code == 0, asked.exception
    page = (out / "figures.md").read_text()
    assert "case-study.html" in page and "Made by `python -m paper` with " in page
    assert (out / "case-study.html").stat().st_size > 10_000


def test_a_page_is_written_even_if_no_picture_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_browser(figures: object) -> None:
        raise AcetuneError("no browser")

    monkeypatch.setattr(import_module("paper.reproduce"), "write_figures", no_browser)
    path, out = tmp_path / "t.parquet", tmp_path / "out"
    write_table(path, credit_like(150, longest=300))
    options = ["--table", str(path), "--budget-s", "20", "-o", str(out)]
    asked = CliRunner().invoke(app, ["figures", *options])
    assert str(asked.exception) == "no browser"
    assert "case-study.png" in (out / "figures.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["robust"], "'robust'"),
        (["fairness", "--pictures", "bmp"], "'bmp'"),
        (["fairness", "--samples", "1"], "--samples"),
        (["fairness", "--processes", "0"], "--processes"),
        (["fairness", "--table", "nowhere.parquet"], "nowhere.parquet"),
    ],
)
def test_bad_input_is_named(arguments: list[str], said: str) -> None:
    asked = CliRunner().invoke(app, arguments)
    assert asked.exit_code != 0
    assert said in str(asked.exception)
