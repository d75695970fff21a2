"""The exit status tells scripts whether there is a model to use."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from acetune import ACE, Constraint
from acetune.cli.exits import ExitCode, code_of
from acetune.core.goals import Estimate, Goals, Objective
from acetune.core.reason import INTERRUPTED, stated
from acetune.study.result import load
from cli.inside import Command
from report.written import Attempt, Written, write
from run.helpers import by_hand, g_of, tune

TABLE = [[(3.0, 1.0)], [(1.0, 1.0)], [(2.0, 1.0)]]
FILE = """
import acetune

def train(trial):
    for step in trial.steps(2):
        trial.report(trial.params["x"], model=trial.params["x"])

STUDY = dict(
    space={"x": acetune.uniform(0, 1)},
    objective="loss",
    mode="min",
    constraints=[acetune.Constraint("g", upper=2, check=lambda x: CHECKED)],
    confirm=lambda x: {"g": FRESH},
    max_trials=2,
    workers=1,
    seed=0,
)
"""


def written(study: Path, ended: str | None, value: float) -> None:
    """A study of one trial, whose session goes on where it has not ended."""
    goals = Goals(Objective("loss"), (Constraint("g", upper=2),))
    state = "running" if ended is None else "finished"
    trials = [[Attempt([(1.0, {"g": Estimate(value)})], None, state, 0)]]
    store = write(Written(goals, trials), study)
    if ended is not None:
        with store.transaction():
            store.end_session(
                1, INTERRUPTED if ended == str(INTERRUPTED) else stated("all_done", ended)
            )
    store.close()


@pytest.mark.parametrize(
    ("checked", "fresh", "code"),
    [(1, 1.0, 0), (1, 2.5, 4), (3, 1.0, 3)],
    ids=["an answer", "rejected", "nothing feasible"],
)
def test_run_resume_and_show(
    acetune: Command, tmp_path: Path, checked: float, fresh: float, code: int
) -> None:
    file, study = tmp_path / "file.py", tmp_path / "file.db"
    file.write_text(FILE.replace("CHECKED", str(checked)).replace("FRESH", str(fresh)))
    wanted = {0: "feasible", 4: "rejected", 3: "none feasible"}[code]
    for arguments in (
        ("run", file),
        ("resume", study, "--add-trials", 1),
        ("show", study),
        ("show", study, "--json"),
    ):
        printed, _ = acetune(*arguments, ok=code == 0)
        assert acetune.status == code
        assert ("no model can be" in printed) == (code == 4 and "--json" not in arguments)
    shown = json.loads(printed)
    assert shown["outcome"] == wanted
    assert (shown["best"] is None) is (code != 0)


def test_a_pipeline_is_given_no_model_that_is_lost(acetune: Command, tmp_path: Path) -> None:
    file, study = tmp_path / "file.py", tmp_path / "file.db"
    file.write_text(FILE.replace("CHECKED", "1").replace("FRESH", "1.0"))
    acetune("run", file)
    acetune("show", study, "--require", "holds")
    for folder in (tmp_path / "file.db.files").glob("trial-*"):
        shutil.rmtree(folder)
    _, said = acetune("show", study, "--require", "holds", ok=False)
    assert acetune.status == ExitCode.NOT_ENOUGH
    assert "holds, but its model is missing" in said


def test_what_was_rejected_and_by_how_much_is_in_the_json(acetune: Command, study: Path) -> None:
    tune(
        by_hand(TABLE),
        study,
        xs=range(3),
        policy=ACE(truncation=0, interval=1),
        constraints=[Constraint("g", upper=2, check=g_of)],
        confirm=lambda model: {"g": Estimate(2.5, 0.25)},
        confirm_top=2,
    )
    shown = json.loads(acetune("show", study, "--json", ok=False)[0])

    assert acetune.status == ExitCode.REJECTED and shown["best"] is None
    assert [(found["trial"], found["status"]) for found in shown["candidates"]] == [
        (2, "broken"), (3, "broken"), (1, "unconfirmed")
    ]  # fmt: skip
    assert shown["candidates"][0]["confirmed"] == {"g": {"value": 2.5, "stderr": 0.25}}
    explained, _ = acetune("explain", study, 2)
    assert "it holds a rejected candidate: step 1 of 1 broke a limit on fresh data" in explained
    assert "* the answer" not in explained


@pytest.mark.parametrize("ended", [None, "interrupted by the user", "the budget is spent"])
@pytest.mark.parametrize(("value", "code"), [(1.0, 0), (3.0, 3)])
def test_show_of_a_study_that_can_go_on(
    acetune: Command, study: Path, ended: str | None, value: float, code: int
) -> None:
    """What counts is whether there is an answer by now, not how the study stands."""
    written(study, ended, value)
    acetune("show", study, ok=code == 0)
    assert acetune.status == code == code_of(load(study))


def test_errors_and_wrong_usage_have_statuses_of_their_own(
    acetune: Command, tmp_path: Path
) -> None:
    acetune("show", tmp_path / "none.db", ok=False)
    assert acetune.status == ExitCode.ERROR
    acetune("show", "--no-such-option", ok=False)
    assert acetune.status == ExitCode.USAGE


def test_the_help_lists_them(acetune: Command) -> None:
    printed = " ".join(acetune("--help")[0].split())
    for code in ExitCode:
        assert f"{code.value} {code.meaning}" in printed
