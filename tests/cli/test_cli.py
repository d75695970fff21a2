"""The command, run as people run it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from run.helpers import rows

STUDY_FILE = """
import acetune
import neighbour

def train(trial):
    x = trial.params["x"]
    for step in trial.steps(8):
        trial.report(neighbour.score(x, step), model=x)

STUDY = dict(
    space={"x": acetune.uniform(0, 1)},
    objective="score",
    mode="max",
    constraints=[acetune.Constraint("size", upper=LIMIT, check=lambda x: x)],
    points=[{"x": 0.4}],
    max_trials=10,
    workers=2,
    seed=0,
)
"""


def acetune(*arguments: str, cwd: Path, ok: bool = True, code: int | None = None) -> str:
    """What it printed; where it is not ``ok``, what it complained about.

    A ``code`` is that of a study without an answer, which is no complaint.
    """
    command = [sys.executable, "-m", "acetune", *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)
    if code is not None:
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout
    assert (done.returncode == 0) is ok, done.stdout + done.stderr
    return done.stdout if ok else done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "neighbour.py").write_text(
        "def score(x, step):\n    return -abs(x - 0.7) - 1 / step\n"
    )
    (tmp_path / "my-study.py").write_text(STUDY_FILE.replace("LIMIT", "0.5"))
    return tmp_path


def test_a_study_that_learns_from_another(folder: Path) -> None:
    text = (folder / "my-study.py").read_text()
    forest = text.replace("max_trials=10", "searcher='forest', max_trials=14")
    (folder / "my-study.py").write_text(forest)
    acetune("run", "my-study.py", cwd=folder)
    (folder / "next.py").write_text(forest.replace("seed=0", "seed=0, learn_from=['my-study.db']"))
    assert "best feasible" in acetune("run", "next.py", "--max-trials", "3", cwd=folder)
    (folder / "my-study.db").unlink()  # what was learned is in the file of the next
    acetune("resume", "next.db", "--add-trials", "2", cwd=folder)
    tpe = forest.replace("searcher='forest'", "searcher='tpe', learn_from=['next.db']")
    (folder / "wrong.py").write_text(tpe)
    told = acetune("run", "wrong.py", cwd=folder, ok=False)
    assert "use searcher='forest'" in told and "Traceback" not in told


def test_run_show_explain_and_resume(folder: Path) -> None:
    printed = acetune("run", "my-study.py", cwd=folder)
    assert "best feasible" in printed
    assert "acetune show my-study.db" in printed
    assert "see it: acetune report my-study.db --open" in printed

    shown = json.loads(acetune("show", "my-study.db", "--json", cwd=folder))
    assert shown["outcome"] == "feasible"
    assert shown["best"]["constraints"]["size"]["value"] <= 0.5
    assert shown["best"]["status"] == "unconfirmed"
    assert sum(shown["trials"].values()) == 10
    assert "best feasible" in acetune("show", "my-study.db", cwd=folder)

    best = str(shown["best"]["trial"])
    explained = acetune("explain", "my-study.db", best, "--all", cwd=folder)
    assert f"trial {best}" in explained
    assert "parameters: x=" in explained

    acetune("resume", "my-study.db", "--add-trials", "4", "--durability", "power", cwd=folder)
    shown = json.loads(acetune("show", "my-study.db", "--json", cwd=folder))
    assert sum(shown["trials"].values()) == 14
    assert durability(folder / "my-study.db") == "power"
    acetune("resume", "my-study.db", "--add-trials", "1", cwd=folder)
    assert durability(folder / "my-study.db") == "power"  # as it was run last


def durability(study: Path) -> str:
    (row,) = rows(study, "SELECT settings FROM study")
    return str(json.loads(row["settings"])["durability"])


def test_a_stopped_trial_is_explained_with_its_numbers(folder: Path) -> None:
    acetune("run", "my-study.py", "--max-trials", "30", cwd=folder)
    import acetune as library

    trials = library.load(folder / "my-study.db").trials
    stopped = trials[trials["state"] == "stopped"]
    assert len(stopped)
    number = int(stopped.index[0])
    explained = acetune("explain", "my-study.db", str(number), cwd=folder)
    assert stopped.loc[number, "reason"] in explained
    assert re.search(r"in the worst \d+%; pairs of trials kept their order", explained)
    assert "stop" in explained


def test_nothing_feasible_is_said_with_the_nearest_miss(folder: Path) -> None:
    (folder / "my-study.py").write_text(STUDY_FILE.replace("LIMIT", "-1.0"))
    printed = acetune("run", "my-study.py", cwd=folder, code=3)
    assert "none feasible" in printed and "best feasible" not in printed
    assert "nearest miss" in printed
    shown = json.loads(acetune("show", "my-study.db", "--json", cwd=folder, code=3))
    assert shown["best"] is None
    assert shown["nearest_miss"]["violation"] > 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "missing.db"], ["no study file", "missing.db"]),
        (["run", "missing.py"], ["no file", "missing.py"]),
        (["run", "neighbour.py"], ["neighbour.py", "'train'"]),
        (["explain", "my-study.db", "99"], ["no trial 99", "1 to 10"]),
        (["resume", "my-study.db", "--add-time-s", "5"], ["time_budget_s", "max_trials=10"]),
        (["run", "my-study.py", "--study", "/nowhere/at/all.db"], ["/nowhere/at/all.db"]),
    ],
)
def test_mistakes_get_a_line_and_no_traceback(
    folder: Path, arguments: list[str], words: list[str]
) -> None:
    if "my-study.db" in arguments:
        acetune("run", "my-study.py", cwd=folder)
    if "/nowhere/at/all.db" in arguments:
        (folder / "file").write_text("")
        arguments = [*arguments[:-1], str(folder / "file" / "all.db")]
        words = [str(folder / "file" / "all.db")]
    printed = acetune(*arguments, cwd=folder, ok=False)
    assert printed.startswith("acetune: ")
    assert "Traceback" not in printed
    for word in words:
        assert word in printed


@pytest.mark.parametrize("verb", ["show", "report", "resume"])
def test_a_pipe_is_no_study_and_is_not_waited_for(tmp_path: Path, verb: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "pipe is not a study file" in acetune(verb, "pipe", cwd=tmp_path, ok=False)


def test_in_a_folder_that_was_deleted(tmp_path: Path) -> None:
    lines = "import os; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')"
    code = f"{lines}; import sys; sys.argv[1:] = ['show', 'x.db']; from acetune import cli; "
    command = [sys.executable, "-c", code + "cli.main()"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    said = "acetune: the folder that you are in has been deleted: go to another one\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_a_study_from_python_names_the_way_to_resume_it(folder: Path) -> None:
    import acetune as library

    def train(trial: library.Trial) -> None:
        for _ in trial.steps(1):
            trial.report(trial.params["x"])

    library.tune(
        train,
        {"x": library.uniform(0, 1)},
        objective="x",
        mode="max",
        max_trials=1,
        study=folder / "py.db",
        progress=False,
    )
    printed = acetune("resume", "py.db", cwd=folder, ok=False)
    assert "--file" in printed


def test_demo_ends_with_an_answer_and_what_to_try_next(tmp_path: Path) -> None:
    # checked in every round, so that a slow machine has made a check too
    options = ("--seconds", "6", "--study", "d.db", "--policy", "ace-beta1")
    printed = acetune("demo", *options, cwd=tmp_path)
    assert "best feasible" in printed
    assert "acetune show d.db --json" in printed
    assert "acetune report d.db --open" in printed and "acetune dashboard d.db" in printed
    assert "best AUC whose equalised odds" in printed.splitlines()[1]
    assert "groups of clients is at most 0.25. One feature" in printed.splitlines()[2]
    shown = json.loads(acetune("show", "d.db", "--json", cwd=tmp_path))
    assert shown["trials"]
    assert shown["ledger"]["checks"] > 0


def test_demo_takes_the_real_file(tmp_path: Path) -> None:
    columns = ["ID", "LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE"]
    columns += ["PAY_0", "PAY_2", "PAY_3", "PAY_4", "PAY_5", "PAY_6", "BILL_AMT1"]
    columns += ["default.payment.next.month"]
    rows = [",".join(columns)]
    for i in range(2000):
        fields = [i, 1000 + i, 1 + i % 2, i % 4, i % 3, 20 + i % 50, *[i % 5 - 2] * 6, i * 7 % 900]
        rows.append(",".join(map(str, [*fields, int(i % 9 < 2)])))
    (tmp_path / "credit.csv").write_text("\n".join(rows))
    options = ["--data", "credit.csv", "--seconds", "4", "--limit", "0.9", "--margin-se", "0"]
    printed = acetune("demo", *options, cwd=tmp_path)
    assert "1199 clients to train" in printed
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    printed = acetune("demo", "--data", "bad.csv", cwd=tmp_path, ok=False)
    assert "SEX" in printed
