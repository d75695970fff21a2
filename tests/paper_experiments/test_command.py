"""``python -m paper``: the verb that may be left out, and what is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cli.inside import Command

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "arguments",
    [
        ["fairness", "--pictures", "jpeg"],
        ["--pictures", "jpeg", "fairness"],
        ["--pictures=jpeg"],
        ["reproduce", "fairness", "--pictures", "jpeg"],
    ],
    ids=" ".join,
)
def test_reproduce_may_be_left_out(command: Command, arguments: list[str]) -> None:
    assert command.refuses(*arguments) == "--pictures must be png, svg or html, got 'jpeg'\n"


def test_an_unknown_part_is_named(command: Command) -> None:
    assert "no part 'fairnes' to reproduce" in command.refuses("fairnes")


def test_help_lists_the_verbs(command: Command) -> None:
    printed, _ = command("--help")
    assert "reproduce" in printed and "record" in printed


def test_it_runs_in_the_source_folder_and_is_not_installed(tmp_path: Path) -> None:
    asked = [sys.executable, "-m", "paper", "record", "--help"]
    there = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True)
    assert there.returncode == 0 and "credit-lightgbm" in there.stdout
    elsewhere = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True)
    assert "No module named paper" in elsewhere.stderr
