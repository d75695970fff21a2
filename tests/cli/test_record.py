"""``acetune record``: files, studies and ready-made tasks become tables."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import acetune as library
from acetune.replay.partial import Partial
from acetune.replay.recorder import draw
from acetune.replay.simulator import simulate
from acetune.replay.table import CurveTable, read_table
from acetune.space import Space
from acetune.tasks import load_task
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


def check_task(table: CurveTable, name: str, limit: float) -> None:
    assert table.name == name and len(table.configs) == 2
    assert table.constraints[0].upper == limit and table.constraints[0].cost_s > 0
    assert table.has_confirmation and (table.cost_s > 0).all()
    assert all(table.complete(config) for config in range(2))
    assert simulate(table, "ace").trials == 2


@pytest.mark.parametrize(
    ("task", "seed", "limit", "steps"),
    [("credit-lightgbm", 295, 0.25, [7, 4]), ("law-mlp", 156, 0.1, [6, 4])],
)
def test_a_ready_made_task(
    acetune: Command, tmp_path: Path, task: str, seed: int, limit: float, steps: list[int]
) -> None:
    output = tmp_path / "t.parquet"
    acetune("record", task, "-o", output, "--configs", 2, "--seed", seed, "--workers", 1)
    table = read_table(output)
    check_task(table, f"{task}-made", limit)
    assert [table.steps(config) for config in range(2)] == steps  # seeds of short curves
    for metric in ("auc", "auc@confirm"):
        assert ((table.metrics[metric] >= 0.4) & (table.metrics[metric] < 1)).all()
        np.testing.assert_array_equal(table.metrics[metric], table.metrics[metric].round(5))
    assert "data" not in table.made


def write_credit(path: Path, shift: int = 0) -> None:
    """A file of the UCI file's form."""
    columns = ["ID", "LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE"]
    columns += ["PAY_0", "PAY_2", "PAY_3", "PAY_4", "PAY_5", "PAY_6", "BILL_AMT1"]
    rows = [",".join([*columns, "default.payment.next.month"])]
    for i in range(shift, 2000 + shift):
        fields = [i, 1000 + i, 1 + i % 2, i % 4, i % 3, 20 + i % 50, *[i % 5 - 2] * 6, i * 7 % 900]
        rows.append(",".join(map(str, [*fields, int(i % 9 < 2)])))
    path.write_text("\n".join(rows))


def test_a_task_on_a_file_of_data(acetune: Command, tmp_path: Path) -> None:
    data, output = tmp_path / "credit.csv", tmp_path / "t.parquet"
    write_credit(data)
    task = load_task("credit-lightgbm", data, confirm_rows=300)
    space = Space(task.space)
    assert space.describe()["num_leaves"] == {"integer": [4, 1100], "log": True}
    rounds = {
        seed: sum(draw(space, seed, config)["n_estimators"] for config in range(2))
        for seed in range(100)
    }
    seed = min(rounds, key=rounds.__getitem__)
    options = ["--configs", 2, "--seed", seed, "--workers", 1, "--confirm-rows", 300]
    acetune("record", "credit-lightgbm", f"--data={data}", "-o", output, *options)
    table = read_table(output)
    check_task(table, "credit-lightgbm-confirm", 0.25)
    digest = hashlib.sha256(data.read_bytes()).hexdigest()
    assert digest.startswith(table.made["data_sha256"]) and len(table.made["data_sha256"]) == 16
    assert (table.made["data"], table.made["confirm_rows"]) == ("credit.csv", 300)
    assert "--data=credit.csv -o t.parquet" in table.made["command"]

    # a recording goes on with the same data only
    again = tmp_path / "u.parquet"
    known = {"data": "credit.csv", "data_sha256": table.made["data_sha256"], "confirm_rows": 300}
    Partial(again.with_name("u.parquet.partial"), {"seed": seed, **known}).close()
    write_credit(data, shift=1)
    command = ["record", "credit-lightgbm", "--data", data, "-o", again]
    assert "something else: its data_sha256 is" in acetune.refuses(*command, *options)


def test_mistakes_get_a_line_and_no_traceback(acetune: Command, tmp_path: Path) -> None:
    output, taken = tmp_path / "t.parquet", tmp_path / "taken.parquet"
    taken.write_text("precious")
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "bare.py").write_text("def train(trial): pass\nSTUDY = {'space': {'x': 1}}")
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    missing = tmp_path / "missing"
    table: list[tuple[list[object], list[str]]] = [
        ([], ["credit-lightgbm", "Python file", "--from STUDY"]),
        (["law-mlp", "--from", tmp_path / "s.db"], ["not both"]),
        (["--from", tmp_path / "s.db", "--data", "x.csv"], ["--data", "s.db has its own data"]),
        (["lawn-mlp"], ["unknown task 'lawn-mlp'", "credit-lightgbm, law-mlp"]),
        ([f"{missing}.py"], ["there is no file", "missing.py"]),
        ([tmp_path / "empty.py"], ["empty.py defines no 'train'"]),
        ([tmp_path / "bare.py"], ["no 'objective'; for example 'objective': 'auc'"]),
        ([tmp_path / "bare.py", "--data", "x.csv"], ["--data", "its own data"]),
        (["--from", missing], ["there is no study file", str(missing)]),
        (["law-mlp", "--data", missing], ["cannot read", str(missing)]),
        (["credit-lightgbm", "--data", tmp_path / "bad.csv"], ["no column 'SEX'"]),
        (["law-mlp", "--confirm-rows", 9], ["confirmation rows already", "confirm_rows=9"]),
        (["credit-lightgbm", "--confirm-rows", 9], ["confirmation rows already"]),
        (["law-mlp", "--configs", 0], ["configs must be a whole number >= 1, got 0"]),
        (["law-mlp", "--seed", -1], ["seed must be a whole number >= 0, got -1"]),
        (["law-mlp", "--workers", 0], ["workers must be a whole number >= 1, got 0"]),
        (["law-mlp", "-o", taken], ["taken.parquet exists"]),
        (["law-mlp", "-o", missing / "t.parquet"], ["there is no folder", str(missing)]),
    ]
    for arguments, words in table:
        where = [] if "-o" in arguments else ["-o", output]
        complaint = acetune.refuses("record", *arguments, *where)
        for word in words:
            assert word in complaint
        assert len(complaint.splitlines()) == 1
    assert taken.read_text() == "precious" and not output.exists()
