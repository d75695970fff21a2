"""``acetune export``: what the name of the output stands for, and what people are told."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import optuna
import pandas as pd
import pytest

from acetune.core.errors import GoalError
from acetune.export import format_of
from cli.inside import Command
from export.kit import writing

DOCUMENT = Path(__file__).parents[2] / "docs" / "export.md"


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return Command(capsys, monkeypatch)


@pytest.fixture
def small(study: Path) -> Path:
    with writing(study) as author:
        author.run(1, {"x": 0.5}, [(1.0, {"g": 1.0}), (2.0, None)])
        author.run(2, {"x": 0.25}, [(0.5, {"g": 3.0})])
    return study


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("t.csv", ["t.csv"]),
        ("out", ["out/checks.csv", "out/reports.csv", "out/study.json", "out/trials.csv"]),
        ("t.parquet", ["t.parquet"]),
        ("o.db", ["o.db"]),
        ("o.sqlite3", ["o.sqlite3"]),
        ("o.log", ["o.log"]),
        ("sqlite:///{}/o.db", ["o.db"]),
    ],
)
def test_the_name_says_the_format(
    name: str, files: list[str], small: Path, tmp_path: Path, command: Command
) -> None:
    folder = tmp_path / "new"  # made by the export
    place = name.format(folder) if "{}" in name else str(folder / name)
    printed, _ = command("export", small, "-o", place)

    new = [path for path in folder.rglob("*") if path.is_file()]
    assert sorted(str(path.relative_to(folder)) for path in new) == files
    assert all(Path(file).name in printed for file in files)
    assert command.refuses("export", small, "-o", place).rstrip().endswith("--force")
    command("export", small, "-o", place, "--force")


def test_the_format_can_be_given(small: Path, tmp_path: Path, command: Command) -> None:
    command("export", small, "-o", tmp_path / "out", "--format", "parquet")
    assert len(pd.read_parquet(tmp_path / "out" / "trials.parquet")) == 2
    printed, _ = command("export", small, "-o", tmp_path / "o.data", "--format", "optuna")
    assert printed == f"wrote study 'study' to {tmp_path / 'o.data'}\n"
    found = optuna.load_study(study_name="study", storage=f"sqlite:///{tmp_path / 'o.data'}")
    assert found.best_value == 1.0


def test_what_makes_no_sense_is_refused(small: Path, tmp_path: Path, command: Command) -> None:
    refused = command.refuses("export", small, "-o", tmp_path / "t.xlsx")
    assert "its ending '.xlsx'; use .csv, .parquet, .db or .log (Optuna)" in refused
    refused = command.refuses("export", small, "-o", "x", "--format", "excel")
    assert refused == "unknown format 'excel'; it may be csv, parquet, optuna\n"
    refused = command.refuses("export", tmp_path / "none.db", "-o", tmp_path / "t.csv")
    assert "there is no study file" in refused
    assert "is a study file" in command.refuses("export", small, "-o", small, "--force")
    (tmp_path / "file").write_text("")
    assert "cannot write" in command.refuses("export", small, "-o", tmp_path / "file" / "t.csv")
    assert "cannot write" in command.refuses("export", small, "-o", tmp_path / "file" / "o.db")
    url = "nonsense://localhost/x"
    assert "cannot open 'nonsense://" in command.refuses("export", small, "-o", url)


def test_a_folder_with_a_point_in_its_name_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "v1.2").mkdir()
    assert format_of(str(tmp_path / "v1.2")) == "csv"
    with pytest.raises(GoalError, match=r"ending '\.3'"):
        format_of(str(tmp_path / "v1.3"))


def test_the_document_runs(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commands and its blocks of Python, in order, in one folder."""
    monkeypatch.chdir(tmp_path)
    with writing(tmp_path / "fair.db", objective="auc", mode="max") as author:
        author.run(1, {"x": 0.5}, [(0.7, {"g": 1.0}), (0.8, None)])
        author.run(2, {"x": 0.25}, [(0.9, {"g": 3.0})])
    blocks = re.findall(r"```(bash|python)\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert {kind for kind, _ in blocks} == {"bash", "python"}
    for kind, block in blocks:
        if kind == "python":
            exec(block, {})
            continue
        for line in block.splitlines():
            program, *words = shlex.split(line, comments=True)
            if program == "acetune":
                command(*words)
            else:
                assert program in ("pip", "optuna-dashboard")
    assert (tmp_path / "fair-csv" / "checks.csv").exists() and (tmp_path / "optuna.db").exists()


def test_the_document_names_every_column() -> None:
    from acetune.study.export import _tables as tables

    text = DOCUMENT.read_text()
    for column in (*tables.REPORTS, *tables.CHECKS):
        assert f"`{column.name}`" in text, column.name


def test_the_document_names_every_column_of_trials(small: Path) -> None:
    from acetune.study.export._gathered import gathering
    from acetune.study.export._tables import trial_columns

    text = DOCUMENT.read_text()
    with gathering(small) as gathered:
        columns = trial_columns(gathered)
    for column in columns:
        name = re.sub(r"\.(g|x)$", ".NAME", column.name)
        assert f"`{name}`" in text, name
