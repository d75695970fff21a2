"""A study file from elsewhere can do nothing but be read, whatever it holds."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import acetune
from acetune import Constraint, Estimate, Share, Trial
from acetune.cli import app
from acetune.core.errors import AcetuneError, ReportError, StudyError, StudyFileError
from acetune.study.connections import connect
from acetune.study.read_ahead import ReadAhead
from acetune.study.store import Store
from run.helpers import tune
from study.hostile_values import ACTING, make_hostile


def train(trial: Trial) -> None:
    for step in trial.steps(3):
        trial.report(trial.params["x"] + 1 / step, model={"g": trial.params["x"] / 40})


GAP = Constraint("g", upper=0.5, check=lambda model: Estimate(model["g"], 0.01))


def confirm(model: dict[str, float]) -> dict[str, Share]:
    return {"g": Share(int(1000 * model["g"]), 1000)}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study in which every table of the usual ones has rows. Copy it before you touch it."""
    path = tmp_path_factory.mktemp("finished") / "study.db"
    tune(
        train,
        path,
        xs=range(1, 9),
        constraints=[GAP],
        confirm=confirm,
        confirm_data="rows",
        keep_models=3,
    )
    return path


VERBS: dict[str, tuple[Any, ...]] = {
    "show": ("show", "{study}"),
    "json": ("show", "{study}", "--json"),
    "explain": ("explain", "{study}", "1", "--all"),
    "report": ("report", "{study}", "-o", "{out}/report.html"),
    "csv": ("export", "{study}", "-o", "{out}/tables", "--format", "csv", "--force"),
    "optuna": ("export", "{study}", "-o", "{out}/optuna.db", "--force"),
    "from": ("record", "--from", "{study}", "-o", "{out}/table.parquet"),
    "resume": ("resume", "{study}", "--file", "{out}/elsewhere.py"),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.filterwarnings("ignore")
def test_every_verb_ends_well_or_in_one_of_our_errors(
    finished: Path, tmp_path: Path, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    study = tmp_path / "study.db"
    (tmp_path / "elsewhere.py").write_text("STUDY = 1")  # resume gets no further
    arguments = [part.format(study=study, out=tmp_path) for part in VERBS[verb]]
    refused = 0
    for number in range(12):
        study.write_bytes(finished.read_bytes())
        done = make_hostile(study, random.Random(f"{verb} {number}"))
        shutil.rmtree(tmp_path / "tables", ignore_errors=True)
        (tmp_path / "table.parquet").unlink(missing_ok=True)
        try:
            app(arguments, standalone_mode=False)
        except AcetuneError as error:
            refused += 1
            assert str(study) in str(error) or verb == "resume", done
        except Exception as error:
            raise AssertionError(done) from error
        assert not any(mark in "".join(capsys.readouterr()) for mark in ACTING), done
    assert refused


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("study", "created", 1e12),
        ("study", "created", float("inf")),
        ("study", "versions", "-1.5"),
        ("study", "space", '"x"'),
        ("study", "confidence", "continue"),
        ("sessions", "seconds", 1e308),
        ("trials", "started", -1e300),
        ("trials", "params", "[" * 100_000),
        ("trials", "trial", 2**31 - 1),
        ("trials", "reason_numbers", '{"by": [1]}'),
        ("reports", "rank", ACTING[0]),
        ("reports", "step", 2**63 - 1),
        ("reports", "primary_cost_s", 1e308),
        ("checks", "cost_s", "9" * 5000),
        ("confirmations", "status", "surely"),
        ("confirmations", "bounds", "{}"),
        ("confirmations", "metrics", '{"g": [0.02, "x"]}'),
        ("looks", "candidates", "[[1, 2]]"),
    ],
)
def test_what_acetune_never_writes_is_refused(
    finished: Path, tmp_path: Path, table: str, column: str, value: object
) -> None:
    study = tmp_path / "study.db"
    study.write_bytes(finished.read_bytes())
    row = "seq" if table == "checks" else "rowid"  # it has no other
    with closing(connect(study)) as db:
        last = f"(SELECT max({row}) FROM {table})"
        db.execute(f"UPDATE {table} SET {column} = ? WHERE {row} = {last}", (value,))
        db.commit()
    with pytest.raises(StudyFileError, match=r"study\.db is damaged"):
        acetune.load(study)


def test_names_and_errors_are_shown_harmlessly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(trial: Trial) -> None:
        trial.report(1.0, model=trial.number)
        raise RuntimeError("".join(ACTING))

    def wrong(model: object) -> float:
        raise ValueError("".join(ACTING))

    study = tmp_path / f"a{ACTING[1]}.db"
    name = f"limit {ACTING[0]}"
    tune(
        fails,
        study,
        xs=[1],
        constraints=[Constraint(name, upper=1, check=wrong)],
        objective=f"loss{ACTING[1]}",
        max_failures=9,
    )
    page = tmp_path / "report.html"
    for arguments in (["show", study], ["explain", study, "1"], ["report", study, "-o", page]):
        app(list(map(str, arguments)), standalone_mode=False)
    result = acetune.load(study)
    said = "".join(capsys.readouterr()) + str(result) + str(result.what_if(**{name: 2.0}))
    assert "\\x1b[31m" in said and "\\u202e" in said
    assert not any(mark in said for mark in ACTING)
    text = page.read_text()
    assert "\u202e" not in text and "\\u202e" in text


def test_nobody_else_may_read_a_study(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        study = tmp_path / "folder" / "study.db"
        study.parent.mkdir()
        shared = tmp_path / "shared"
        shared.mkdir(mode=0o777)
        (shared / "weights").write_text("of somebody's")

        def prints(trial: Trial) -> None:
            print("in the log")
            trial.report(1.0, model=shared)

        tune(prints, study)
        with closing(Store.open(study)) as store, store.transaction():
            store.add_session(0.0, "here")
            open_ones = {path.name: path.stat().st_mode for path in study.parent.iterdir()}
        assert set(open_ones) >= {"study.db", "study.db-wal", "study.db-lock"}
    finally:
        os.umask(before)
    modes = {path: path.stat().st_mode for path in study.parent.rglob("*")} | open_ones
    assert {"log.txt", "weights"} <= {path.name for path in modes if isinstance(path, Path)}
    assert [path for path, mode in modes.items() if mode & 0o077] == []
    assert (shared / "weights").stat().st_mode & 0o777 == 0o666  # what was copied is as it was


RUNS = """
import acetune, pathlib
pathlib.Path(__file__).with_suffix(".ran").touch()
def train(trial):
    trial.report(1.0)
STUDY = dict(space={"x": acetune.uniform(0, 1)}, objective="loss", mode="min", max_trials=1,
             workers=1, progress=False)
"""


def test_resume_runs_no_file_that_only_the_study_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, theirs, study = (tmp_path / name for name in ("mine.py", "theirs.py", "study.db"))
    mine.write_text(RUNS)
    theirs.write_text(RUNS)
    app(["run", str(mine), "--study", str(study)], standalone_mode=False)

    def resume(*more: str) -> None:
        app(["resume", str(study), "--add-trials", "1", *more], standalone_mode=False)

    capsys.readouterr()
    resume()  # its own, begun here
    assert f"running {mine}" in capsys.readouterr().err

    with closing(connect(study)) as db:  # as a crafted file would have it
        db.execute("UPDATE study SET settings = replace(settings, 'mine.py', 'theirs.py')")
        db.commit()
    with pytest.raises(StudyError, match=r"not made here.*theirs\.py.*--yes.*--file"):
        resume()
    assert not theirs.with_suffix(".ran").exists()
    resume("--file", str(mine))  # the user's own choice
    assert not theirs.with_suffix(".ran").exists()

    with closing(connect(study)) as db:
        db.execute("UPDATE study SET settings = replace(settings, 'mine.py', 'theirs.py')")
        db.commit()
    resume("--yes")
    assert theirs.with_suffix(".ran").exists()
    assert f"running {theirs}" in capsys.readouterr().err
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null/nowhere")  # no place for a key: nobody knows
    with pytest.raises(StudyError, match="not made here"):
        resume()


def test_a_model_that_is_not_trusted_runs_nothing(tmp_path: Path) -> None:
    class Runs:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "ran",)

    def kept(name: str, model: Callable[[], object]) -> Any:
        def trains(trial: Trial) -> None:
            trial.report(1.0, model=model())

        return tune(trains, tmp_path / f"{name}.db").best

    plain = {"weights": [1.0, 2.0], "name": "plain"}
    assert kept("plain", lambda: plain).load(trusted=False) == plain
    with pytest.raises(ReportError, match=r"runs code.*load\(trusted=True\).*safetensors"):
        kept("runs", Runs).load(trusted=False)
    assert not (tmp_path / "ran").exists()
    (tmp_path / "model.txt").write_text("tree")
    path = kept("file", lambda: tmp_path / "model.txt").load(trusted=False)
    assert path.read_text() == "tree"


@pytest.mark.parametrize(
    "made",
    [
        "ALTER TABLE reports RENAME TO other; CREATE VIEW reports AS WITH RECURSIVE n(i) AS "
        "(SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT other.* FROM other, n",
        "CREATE TRIGGER t AFTER INSERT ON reports BEGIN DELETE FROM trials; END",
        "ALTER TABLE trials ADD COLUMN g AS (zeroblob(100))",
        "CREATE TABLE other (a TEXT DEFAULT '--' CHECK (a LIKE '%a%'))",
        "CREATE TABLE other (a TEXT DEFAULT \"/*\" /* CHECK */ CHECK (a LIKE '%a%'))",
    ],
)
def test_a_file_that_computes_something_is_refused(
    finished: Path, tmp_path: Path, made: str
) -> None:
    study = tmp_path / "study.db"
    shutil.copy(finished, study)
    with closing(connect(study)) as db:
        db.executescript(made)
        db.commit()
    for opened in (acetune.load, Store.read, Store.open):
        with pytest.raises(StudyFileError, match="computes something when it is used"):
            opened(study)
    ReadAhead(study).close()  # ends


def test_a_bound_of_a_constraint_that_the_study_lacks_is_damage(
    finished: Path, tmp_path: Path
) -> None:
    study = tmp_path / "study.db"
    shutil.copy(finished, study)
    with closing(connect(study)) as db, db:
        db.execute("UPDATE study SET constraints = replace(constraints, '\"g\"', '\"other\"')")
        db.execute("UPDATE checks SET \"constraint\" = 'other'")
        status = db.execute("UPDATE confirmations SET status = 'holds'")
        assert status.rowcount
    with pytest.raises(StudyFileError, match=r"a bound of \['g'\], which the study does not limit"):
        acetune.load(study)


@pytest.mark.parametrize(
    "code", ["\0", "[1]", '{"checks": 3}', '{"checks": {"g": 3}}', '{"checks": {"g": {"code": 3}}}']
)
def test_a_study_whose_code_is_damaged_does_not_go_on(
    finished: Path, tmp_path: Path, code: str
) -> None:
    study = tmp_path / "study.db"
    shutil.copy(finished, study)
    with closing(connect(study)) as db, db:
        db.execute("UPDATE study SET code = ?", (code,))
    with pytest.raises(StudyFileError, match="is damaged"):
        tune(train, study, constraints=[GAP], confirm=confirm, confirm_data="rows", keep_models=3)


@pytest.mark.parametrize("column", ["error", "note"])
def test_a_column_that_is_not_there_is_damage(finished: Path, tmp_path: Path, column: str) -> None:
    study = tmp_path / "study.db"
    shutil.copy(finished, study)
    with closing(connect(study)) as db, db:
        db.execute(f"ALTER TABLE checks DROP COLUMN {column}")
    for opened in (acetune.load, Store.read, Store.open):
        with pytest.raises(StudyFileError, match="no such column"):
            opened(study)
