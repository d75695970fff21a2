"""``acetune record``: files and studies become tables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import acetune as library
from acetune.replay.recorder import draw
from acetune.replay.table_file import read_table
from acetune.searchers.space import Space
from cli.inside import Command

FILE = """
import acetune
import neighbour

def train(trial):
    if trial.number == 2:
        raise ValueError("no such [luck]")
    for step in trial.steps(trial.params["steps"]):
        trial.report(neighbour.score(trial.params["x"], step), model=step)

STUDY = dict(
    space={"x": acetune.uniform(0, 1), "steps": acetune.randint(2, 6)},
    objective="score",
    mode="max",
    constraints=[
        acetune.Constraint("size", upper=3, check=lambda step: step),
        acetune.Constraint("x", upper=2, on="config", check=lambda params: params["x"]),
    ],
    confirm=lambda step: {"score": 0.5, "size": step + 1},
    max_trials=10,
)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "neighbour.py").write_text("def score(x, step):\n    return x - 1 / step\n")
    (inner / "my-study.py").write_text(FILE)
    return tmp_path


def test_a_file_with_train_and_study(folder: Path) -> None:
    """As people run it, and from another folder than that of the file."""
    arguments = ["record", "inner/my-study.py", "--configs", "4", "--seed", "1", "--workers", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "acetune", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    table = read_table(folder / "curves.parquet")
    space = Space({"x": library.uniform(0, 1), "steps": library.randint(2, 6)})
    assert table.configs == tuple(draw(space, 1, config) for config in (0, 2, 3))
    assert (table.name, table.objective.mode) == ("my-study", "max")
    assert [limit.metric for limit in table.constraints] == ["size"]
    for config, params in enumerate(table.configs):
        steps = np.arange(1, params["steps"] + 1)
        np.testing.assert_allclose(table.curve(config, "score"), params["x"] - 1 / steps)
        np.testing.assert_allclose(table.curve(config, "size@confirm"), steps + 1)
    command = "acetune record my-study.py --configs 4 --seed 1 --workers 2"  # no folders
    assert table.made["command"] == command
    assert table.made["seed"] == 1 and table.made["versions"].keys() >= {"python", "acetune"}
    assert table.made["failed"] == {"1": "ValueError: no such [luck]"}

    assert "configuration 1 failed: ValueError: no such [luck]" in done.stderr
    assert f"curves.parquet: 3 configurations, {len(table.cost_s)} steps" in done.stderr
    assert "configurations that failed and are left out: 1\n" in done.stderr
    assert done.stderr.endswith("compare policies on it: acetune replay curves.parquet\n")
    assert {path.name for path in folder.iterdir()} == {"curves.parquet", "inner"}


def train(trial: library.Trial) -> None:
    for step in trial.steps(6):
        value = trial.params["x"] + 1 / step
        trial.report(value, model=step, primary_cost_s=0.1, constraint_cost_s=0.2)


def test_a_study_that_was_run(acetune: Command, study: Path, tmp_path: Path) -> None:
    limit = library.Constraint("g", upper=3, check=abs)
    library.tune(
        train,
        {"x": library.uniform(0, 1)},
        objective="loss",
        mode="min",
        constraints=[limit],
        policy=library.ACE(truncation=0.5),
        searcher="random",
        seed=0,
        max_trials=8,
        workers=1,
        study=study,
        progress=False,
    )
    output = tmp_path / "t.parquet"
    _, told = acetune("record", "--from", study, "-o", output)
    table = read_table(output)
    assert len(table.configs) == 8 and table.constraints[0].sparse
    cut = sum(not table.complete(config) for config in range(8))
    assert cut
    assert f"incomplete curves: {cut}; a replay ends them where the record does" in told
    assert "g is not known at every step: a check there counts as failed" in told
    assert f"acetune replay {output}\n" in told
    options = ("--seeds", 2, "--processes", 1, "--policy", "ace-beta1", "--budget-s", 100)
    printed, _ = acetune("replay", output, *options)
    assert "checks asked for values that the table does not have" in " ".join(printed.split())
    assert "acetune record" in printed

    assert "exists" in acetune.refuses("record", "--from", study, "-o", output)


def test_mistakes_get_a_line_and_no_traceback(acetune: Command, tmp_path: Path) -> None:
    output, taken = tmp_path / "t.parquet", tmp_path / "taken.parquet"
    taken.write_text("precious")
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "bare.py").write_text("def train(trial): pass\nSTUDY = {'space': {'x': 1}}")
    missing = tmp_path / "missing"
    table: list[tuple[list[object], list[str]]] = [
        ([], ["Python file", "--from STUDY"]),
        ([tmp_path / "bare.py", "--from", tmp_path / "s.db"], ["not both"]),
        (["lawn-mlp"], ["there is no file 'lawn-mlp'"]),
        ([f"{missing}.py"], ["there is no file", "missing.py"]),
        ([tmp_path / "empty.py"], ["empty.py defines no 'train'"]),
        ([tmp_path / "bare.py"], ["no 'objective'; for example 'objective': 'auc'"]),
        (["--from", missing], ["there is no study file", str(missing)]),
        ([tmp_path / "bare.py", "-o", taken], ["taken.parquet exists"]),
    ]
    for arguments, words in table:
        where = [] if "-o" in arguments else ["-o", output]
        complaint = acetune.refuses("record", *arguments, *where)
        for word in words:
            assert word in complaint
        assert len(complaint.splitlines()) == 1
    assert taken.read_text() == "precious" and not output.exists()
