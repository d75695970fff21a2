"""What the page of a live experiment says of seeds without a result, used-up tables and drift."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from acetune.replay.runs import Cell, Incumbent, Run
from acetune.replay.statistics import Interval
from paper.live_page import live_report
from paper.live_plan import LivePlan
from paper.live_replay import Beside
from paper.live_runs import LiveRun, Trained
from paper.live_speed import Calibration, Slowdown
from paper.live_studies import Conditions
from paper.reproduce_live import shown_command

PLAN = LivePlan(limits=(0.25,), searchers=("random",), policies=("asha", "ace"), workers=4)
CONDITIONS = Conditions("0" * 16, 120.0, 4, "local", "a processor", 4, {})
FOUND = {"asha": (0.80, None, 0.82), "ace": (0.81, 0.83, 0.85)}
CONFIGS = 100


def made_run(policy: str, seed: int, best: float | None, trials: int, budget_s: float) -> Run:
    found = () if best is None else (Incumbent(9.0, best, 0, 1),)
    cell = Cell("t", "eod <= 0.25", None, budget_s, 4, "random")
    return Run(policy, cell, seed, "max", found, trials, 60, 8, 0, 240.0, 24.0, 120.0)


def made_live(policy: str, seed: int, best: float | None) -> LiveRun:
    steps = (1, 1, 1, 57) if policy == "asha" else (30, 30)
    trained = tuple(Trained({"x": n}, n, 4.0 * n) for n in steps)
    run = made_run(policy, seed, best, len(steps), 120.0)
    eod = None if best is None else 0.2
    return LiveRun(run, 0.25, eod, {}, 120.0, 120.0, 48.0, 0.0, 0.003, {}, trained)


def beside(trials: Mapping[str, int], by_seed: tuple[float, float, float]) -> Beside:
    by: dict[tuple[str | None, int | None], float] = {(None, None): 2.0}
    for policy in (None, "asha", "ace"):
        for seed, value in zip(PLAN.seeds, by_seed, strict=True):
            by[policy, seed] = value * (1.2 if policy == "ace" else 1.0)
    slow = Slowdown(Interval(2.0, 1.8, 2.2), by, 18, 5, 1.08)
    runs = {
        (0.25, "random", policy): [
            made_run(policy, seed, 0.8 + (policy == "ace") / 100, number, 45.0 + number)
            for seed in range(20, 40)
        ]
        for policy, number in trials.items()
    }
    return Beside("t", CONFIGS, Calibration(slow, 4.0, 0.003, 2.0), runs)


def page_of(found: Beside | None, folder: Path) -> str:
    live = [
        made_live(policy, seed, best)
        for policy, values in FOUND.items()
        for seed, best in zip(PLAN.seeds, values, strict=True)
    ]
    page, _ = live_report(live, PLAN, CONDITIONS, found, folder, ".html")
    page.write(folder / "page.md")
    return (folder / "page.md").read_text()


def against_asha(text: str) -> list[str]:
    after = text.split("ACE ahead of")[1]
    return next(line for line in after.splitlines() if line.startswith("| asha |")).split(" | ")


def test_a_seed_in_which_one_found_nothing_keeps_its_place(tmp_path: Path) -> None:
    line = against_asha(page_of(None, tmp_path))
    assert line[1:3] == ["+1.00, -, +3.00", "+2.00"]


def test_a_replay_that_used_up_the_table_has_no_interval(tmp_path: Path) -> None:
    text = page_of(beside({"asha": CONFIGS, "ace": 40}, (2.0, 2.0, 2.0)), tmp_path)
    assert against_asha(text)[3] == "+1.00 (table exhausted: not at equal budget)"
    assert "| all 100 |" in text
    text = page_of(beside({"asha": 99, "ace": 40}, (2.0, 2.0, 2.0)), tmp_path)
    assert against_asha(text)[3] == "+1.00 (+1.00 to +1.00)"
    assert "table exhausted" not in text and "| all 100 |" not in text


def test_some_seeds_that_used_it_up_are_enough(tmp_path: Path) -> None:
    found = beside({"asha": 90, "ace": 40}, (2.0, 2.0, 2.0))
    row = (0.25, "random", "asha")
    found.runs[row][3] = made_run("asha", 23, 0.8, CONFIGS, 135.0)
    text = page_of(found, tmp_path)
    assert "table exhausted" in against_asha(text)[3]
    assert "(all in 1 of 20)" in text


def test_budgets_of_the_replay_are_told_by_row(tmp_path: Path) -> None:
    text = page_of(beside({"asha": 99, "ace": 40}, (2.0, 2.0, 2.0)), tmp_path)
    lines = text.split("## EOD")[1].split("ACE against")[0].splitlines()
    budgets = [line.split(" | ")[10] for line in lines if line.startswith(("| asha", "| ace"))]
    assert budgets == ["144.0", "85.0"]


def test_a_row_whose_workers_did_nothing_has_no_replay(tmp_path: Path) -> None:
    found = beside({"asha": 99, "ace": 40}, (2.0, 2.0, 2.0))
    found.runs[0.25, "random", "asha"].clear()
    text = page_of(found, tmp_path)
    assert against_asha(text)[3] == "-"
    assert "| - | - | - | - | - | - |" in text.split("## EOD")[1]


def test_a_machine_that_drifts_is_named(tmp_path: Path) -> None:
    text = page_of(beside({"asha": 9, "ace": 9}, (3.0, 2.0, 1.5)), tmp_path)
    assert "| ace | 3.60 | 2.40 | 1.80 | - |" in text
    assert "| all | 3.00 | 2.00 | 1.50 | 2.00 |" in text
    assert "**The machine drifted**: it took 3.00 s with seed 20 and 1.50 s with seed 22" in text
    assert "between 1.50 and 3.60" in text and "up to 1.2 times apart" in text
    steady = page_of(beside({"asha": 9, "ace": 9}, (2.0, 2.1, 2.0)), tmp_path)
    assert "drifted" not in steady and "about equally fast (2.00 to 2.10)" in steady


def test_policies_with_trials_of_a_single_step_are_named(tmp_path: Path) -> None:
    text = page_of(beside({"asha": 9, "ace": 9}, (2.0, 2.0, 2.0)), tmp_path)
    assert "Most trials of `asha` are a single step: 75 % of them, with 5 % of its" in text
    assert "trials of `ace`" not in text


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("../x/credit.csv", "credit.csv"),
        ("--data=../../me/credit.csv", "--data=credit.csv"),
        ("--data=/me/a=b/credit.csv", "--data=credit.csv"),
        ("tables/../../me/credit.csv", "credit.csv"),
        ("-o../../me/out", "-oout"),
        ("-o/me/out", "-oout"),
        ("tables/credit.parquet", "tables/credit.parquet"),
        ("ace:truncation=0.5", "ace:truncation=0.5"),
        ("0.25,0.325", "0.25,0.325"),
    ],
)
def test_the_command_is_shown_without_folders_of_the_machine(given: str, shown: str) -> None:
    assert shown_command(["fairness", given]) == f"python -m paper fairness {shown}"
