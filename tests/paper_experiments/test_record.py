"""``python -m paper record``: ready-made tasks become tables."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from acetune.replay.curve_table import CurveTable
from acetune.replay.recorder import Partial, draw
from acetune.replay.simulator import simulate
from acetune.replay.table_file import read_table
from acetune.searchers.space import Space
from cli.inside import Command
from paper.tasks import load_task


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
    command: Command, tmp_path: Path, task: str, seed: int, limit: float, steps: list[int]
) -> None:
    output = tmp_path / "t.parquet"
    command("record", task, "-o", output, "--configs", 2, "--seed", seed, "--workers", 1)
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


def test_a_task_on_a_file_of_data(command: Command, tmp_path: Path) -> None:
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
    command("record", "credit-lightgbm", f"--data={data}", "-o", output, *options)
    table = read_table(output)
    check_task(table, "credit-lightgbm-confirm", 0.25)
    digest = hashlib.sha256(data.read_bytes()).hexdigest()
    assert digest.startswith(table.made["data_sha256"]) and len(table.made["data_sha256"]) == 16
    assert (table.made["data"], table.made["confirm_rows"]) == ("credit.csv", 300)
    made_by = table.made["command"]
    assert made_by.startswith("python -m paper record credit-lightgbm ")
    assert "--data=credit.csv -o t.parquet" in made_by

    # a recording goes on with the same data only
    again = tmp_path / "u.parquet"
    known = {"data": "credit.csv", "data_sha256": table.made["data_sha256"], "confirm_rows": 300}
    Partial(again.with_name("u.parquet.partial"), {"seed": seed, **known}).close()
    write_credit(data, shift=1)
    arguments = ["record", "credit-lightgbm", "--data", data, "-o", again]
    assert "something else: its data_sha256 is" in command.refuses(*arguments, *options)


def test_mistakes_get_a_line_and_no_traceback(command: Command, tmp_path: Path) -> None:
    output, taken = tmp_path / "t.parquet", tmp_path / "taken.parquet"
    taken.write_text("precious")
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    missing = tmp_path / "missing"
    table: list[tuple[list[object], list[str]]] = [
        (["lawn-mlp"], ["unknown task 'lawn-mlp'", "credit-lightgbm, law-mlp"]),
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
        complaint = command.refuses("record", *arguments, *where)
        for word in words:
            assert word in complaint
        assert len(complaint.splitlines()) == 1
    assert taken.read_text() == "precious" and not output.exists()
