"""The study file: what is in it, who may write it, and what happens to files that are not one."""

from __future__ import annotations

import fcntl
import random
import re
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import acetune
from acetune import ACE, Adaptive, Constraint, Trial
from acetune.core.errors import (
    AcetuneError,
    GoalError,
    StudyChangedError,
    StudyError,
    StudyFileError,
    StudyLockedError,
)
from acetune.study._formats import FORMAT
from acetune.study.opening import CodeChangedWarning
from acetune.study.reader import StudyView
from acetune.study.store import Store
from acetune.study.temporary import same_call
from run.helpers import (
    Events,
    append_line,
    log_of,
    read_lines,
    report_rows,
    rows,
    script,
    states,
    tune,
    wait_for,
)

CHECK = Constraint("g", upper=2, check=lambda model: model)


def train(trial: Trial) -> None:
    for step in trial.steps(3):
        trial.report(trial.params["x"] + 1 / step, model=step)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with some reports. Copy it before you touch it."""
    path = tmp_path_factory.mktemp("finished") / "study.db"
    tune(train, path, xs=range(40), constraints=[CHECK])
    return path


@pytest.fixture
def copy(finished: Path, study: Path) -> Path:
    study.write_bytes(finished.read_bytes())
    return study


# -- what is in it -------------------------------------------------------------------------------

COLUMNS = {
    "study": "objective constraints policy space settings versions code_hash created",
    "trials": "trial attempt params total_steps interval cost_ratio state reason reason_numbers "
    "schedule schedule_numbers traceback",
    "wordings": "code sentence short",
    "reports": "seq trial attempt step objective checked_step checked_objective violation stratum "
    "rank of decision primary_cost_s time",
    "checks": "seq constraint value stderr cost_s error",
    "confirmations": "trial attempt step status metrics error time",
}


@pytest.mark.parametrize("table", COLUMNS)
def test_the_tables_that_people_query(finished: Path, table: str) -> None:
    found = {row["name"] for row in rows(finished, f"PRAGMA table_info({table})")}
    assert set(COLUMNS[table].split()) <= found


def test_the_file_is_whole_and_reading_it_puts_nothing_beside_it(finished: Path) -> None:
    beside = list(finished.parent.iterdir())
    acetune.load(finished).trials  # noqa: B018
    assert list(finished.parent.iterdir()) == beside
    with closing(Store.open(finished)):
        assert rows(finished, "PRAGMA journal_mode") == [{"journal_mode": "wal"}]
    assert rows(finished, "PRAGMA journal_mode") == [{"journal_mode": "delete"}]
    assert rows(finished, "PRAGMA integrity_check") == [{"integrity_check": "ok"}]


def test_after_a_clean_end_one_file_has_everything(study: Path) -> None:
    tune(train, study)
    assert sorted(path.name for path in study.parent.iterdir()) == [
        "study.db",
        "study.db.files",
    ]
    # the model that is kept, and nothing that is empty
    files = study.with_name("study.db.files")
    assert sorted(str(path.relative_to(files)) for path in files.rglob("*")) == [
        "trial-00001",
        "trial-00001/attempt-1",
        "trial-00001/attempt-1/model-0000003",
        "trial-00001/attempt-1/model-0000003/model.pkl",
    ]


def test_where_nothing_was_kept_or_printed_the_study_is_one_file(study: Path) -> None:
    def prints_once(trial: Trial) -> None:
        if trial.number == 2:
            print("what trial 2 says")
        trial.report(1.0)

    tune(prints_once, study, xs=range(3), workers=2)
    files = study.with_name("study.db.files")
    assert [path.name for path in files.iterdir()] == ["trial-00002"]
    assert log_of(study, 2) == "what trial 2 says\n"
    (study.parent / "quiet").mkdir()
    tune(lambda trial: trial.report(1.0), study.parent / "quiet" / "study.db")
    assert [path.name for path in (study.parent / "quiet").iterdir()] == ["study.db"]


def test_a_lock_that_is_deleted_as_it_is_let_go_of_is_not_taken_for_the_lock(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tune(train, study)
    first = Store.open(study)
    take = fcntl.flock
    second: list[Store] = []

    def take_late(lock: int, how: int) -> None:
        """The first one ends, and another one begins, between opening the lock and taking it."""
        monkeypatch.setattr(fcntl, "flock", take)
        first.close()
        second.append(Store.open(study))
        take(lock, how)

    monkeypatch.setattr(fcntl, "flock", take_late)
    with pytest.raises(StudyLockedError):
        Store.open(study)
    second[0].close()
    Store.open(study).close()


def test_without_a_name_the_study_is_a_temporary_file() -> None:
    result = acetune.tune(
        lambda trial: trial.report(1.0),
        {"x": acetune.uniform(0, 1)},
        objective="loss",
        mode="min",
        max_trials=1,
        workers=1,
        progress=False,
    )
    assert acetune.load(result.study).counts == {"finished": 1}
    # the same call would begin another one
    assert f"the same call with study={str(result.study)!r} (which goes" in same_call(result.study)


def test_folders_on_the_way_are_made(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b" / "study.db"
    tune(train, deep)
    assert states(deep) == ["finished"]


# -- files that are not a study of ours ----------------------------------------------------------


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def very_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:50])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def garbage(path: Path) -> None:
    path.write_bytes(random.Random(0).randbytes(50_000))


def garbage_inside(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + random.Random(0).randbytes(len(whole) - 4096))


def page_headers_flipped(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    for page in range(4096, len(whole), 4096):
        whole[page : page + 8] = bytes(255 - byte for byte in whole[page : page + 8])
    path.write_bytes(whole)


def text(path: Path) -> None:
    path.write_text("learning_rate: 0.1\n" * 20)


def newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def newer_in_the_log(path: Path) -> None:
    """A newer version was killed before SQLite had moved what it wrote into the file itself."""
    code = (
        "import os, sqlite3, sys; db = sqlite3.connect(sys.argv[1]); "
        "db.execute('PRAGMA journal_mode = WAL'); "
        "db.execute('PRAGMA user_version = 99'); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    assert path.with_name(path.name + "-wal").stat().st_size > 0


def without_format(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 0")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def foreign(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE study (objective TEXT)")
        db.commit()


def without_tables(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA application_id = {0x41434554}")
        db.execute("CREATE TABLE other (x)")
        db.commit()


def without_rows(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("DELETE FROM study")
        db.commit()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


DAMAGES: list[tuple[Callable[[Path], None], str]] = [
    (truncated, "damaged"),
    (very_short, "not a study file"),
    (empty, "not a study file"),
    (garbage, "not a study file"),
    (garbage_inside, "damaged"),
    (page_headers_flipped, "damaged"),
    (text, "not a study file"),
    (
        newer,
        rf"newer acetune \(format \d+, this one reads {FORMAT}\).*pip install --upgrade acetune",
    ),
    (newer_in_the_log, rf"newer acetune \(format \d+, this one reads {FORMAT}\)"),
    (without_format, rf"damaged: it has format 0, .* reads 1 to {FORMAT}\).*left untouched"),
    (foreign, "another program"),
    (without_tables, "study.db"),
    (without_rows, "damaged"),
]


@pytest.mark.parametrize(
    ("damage", "message"), DAMAGES, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_file_that_is_no_study_is_refused_and_left_as_it_was(
    copy: Path, damage: Callable[[Path], None], message: str
) -> None:
    damage(copy)
    before = copy.read_bytes()

    with pytest.raises(StudyFileError, match=message):
        tune(train, copy, xs=range(40), constraints=[CHECK])
    assert copy.read_bytes() == before
    with pytest.raises(StudyFileError, match=message):
        acetune.load(copy)
    assert copy.read_bytes() == before


@pytest.mark.parametrize("fault", [KeyError(0), KeyboardInterrupt(), sqlite3.Error("no")])
@pytest.mark.parametrize("where", ["open", "create"])
def test_a_file_that_cannot_be_opened_is_not_left_locked(
    copy: Path, where: str, fault: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock is that of a process: while it is held, nobody else can open the file."""

    def breaks(_: Path) -> None:
        raise fault

    with closing(Store.open(copy)) as store:
        description = store.study()
    if where == "create":
        copy.unlink()
    monkeypatch.setattr("acetune.study.store._connect", breaks)
    expected = StudyFileError if isinstance(fault, sqlite3.Error) else type(fault)
    with pytest.raises(expected):
        Store.open(copy) if where == "open" else Store.create(copy, description)
    monkeypatch.undo()
    Store.open(copy).close()


def test_any_flipped_bytes_are_survived_or_named(copy: Path) -> None:
    """Some damage cannot be seen, such as another digit in a number; none may be misunderstood."""
    whole, chance, refused = copy.read_bytes(), random.Random(0), 0
    for _ in range(200):
        broken = bytearray(whole)
        start = chance.randrange(100, len(broken))
        for at in range(start, min(start + chance.choice([1, 8, 64]), len(broken))):
            broken[at] = chance.randrange(256)
        copy.write_bytes(broken)
        try:
            result = acetune.load(copy)
            str(result), result.trials, result.what_if(g=1)
        except StudyFileError as error:
            refused += 1
            assert str(copy) in str(error)
        assert copy.read_bytes() == bytes(broken)
    assert refused > 10


def test_damage_that_only_a_resume_meets_is_named(copy: Path) -> None:
    with closing(sqlite3.connect(copy)) as db:
        db.execute("UPDATE trials SET params = '{\"x\": 1' WHERE trial = 3")
        db.execute("UPDATE reports SET decision = 'perhaps' WHERE trial = 2")
        db.commit()
    before = report_rows(copy)

    with pytest.raises(StudyFileError, match=r"study.db.* damaged"):
        tune(train, copy, xs=range(40), constraints=[CHECK], max_trials=41)
    assert report_rows(copy) == before


@pytest.mark.parametrize("name", ["file/study.db", "/proc/study.db", "/dev/null/study.db"])
def test_a_path_that_cannot_be_written(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StudyFileError, match=r"cannot write .*study.db.* study='...'"):
        tune(train, tmp_path / name)
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_path_that_is_a_folder(tmp_path: Path) -> None:
    with pytest.raises(GoalError, match=r"is a folder; give for example '.*/study.db'"):
        tune(train, tmp_path)
    with pytest.raises(StudyFileError, match="directory"):
        acetune.load(tmp_path)


def test_loading_what_is_no_name_of_a_file() -> None:
    with pytest.raises(GoalError, match=r"name of a file, such as 'study\.db', got 3"):
        acetune.load(3)  # type: ignore[arg-type]


def test_loading_a_study_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StudyFileError, match=r"there is no study file .*nothing.db"):
        acetune.load(tmp_path / "nothing.db")
    assert not list(tmp_path.iterdir())


# -- two drivers ---------------------------------------------------------------------------------

SLOW = """
import pathlib, sys, time
sys.path.insert(0, sys.argv[1])
from run.helpers import append_line, tune

folder = pathlib.Path(sys.argv[2])

def train(trial):
    for step in trial.steps():
        trial.report(1 / step, model=step)
        append_line(folder / "reports", step)
        time.sleep(0.005)

tune(train, folder / "study.db", max_trials=1)
"""


def test_one_driver_at_a_time_and_many_readers(study: Path, tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    with script(tmp_path / "driver.py", SLOW, Path(__file__).parents[1], tmp_path) as driver:
        wait_for(lambda: len(read_lines(reports)) > 3, "reports")
        with pytest.raises(StudyLockedError, match=rf"process {driver.pid}.*acetune show"):
            tune(train, study)

        seen = acetune.load(study)
        assert seen.counts == {"running": 1} and seen.best is not None
        assert seen.ledger.reports >= 3 and len(seen.trials) == 1 and "running" in str(seen)
        wait_for(lambda: acetune.load(study).ledger.reports > seen.ledger.reports, "more reports")
        assert driver.poll() is None
    # the lock ends with its process, however that ends
    with pytest.warns(CodeChangedWarning):
        assert tune(train, study, max_trials=2).counts == {"finished": 2}


def test_one_driver_at_a_time_also_within_a_process(study: Path, tmp_path: Path) -> None:
    began, go_on = tmp_path / "began", tmp_path / "go-on"

    def waits(trial: Trial) -> None:
        append_line(began, trial.number)
        while not go_on.exists():
            time.sleep(0.01)
        train(trial)

    first = threading.Thread(target=lambda: tune(waits, study))
    first.start()
    try:
        wait_for(lambda: read_lines(began), "the first study to begin")
        with pytest.raises(StudyLockedError):
            tune(train, study)
    finally:
        go_on.touch()
        first.join()
    assert states(study) == ["finished"]


# -- the same call, changed ----------------------------------------------------------------------

CHANGES: dict[str, dict[str, Any]] = {
    "objective": {"objective": "error"},
    "objective mode": {"mode": "max"},
    "constraints": {"constraints": [Constraint("g", upper=3, check=int)]},
    "constraints lower": {"constraints": [Constraint("g", lower=2, check=int)]},
    "constraints name": {"constraints": [Constraint("h", upper=2, check=int)]},
    "constraints margin": {"constraints": [Constraint("g", upper=2, margin_se=1, check=int)]},
    "constraints gone": {"constraints": []},
    "space": {"space": {"x": acetune.uniform(0, 1)}},
    "space more": {"space": {"x": acetune.uniform(-1000, 1000), "y": 3}},
    "constraints on the config": {
        "constraints": [CHECK, Constraint("c", upper=1, on="config", check=lambda params: 0)]
    },
    "policy": {"policy": ACE(truncation=0.5)},
    "policy name": {"policy": "asha"},
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_study_is_refused(copy: Path, change: str) -> None:
    before = copy.read_bytes()
    options: dict[str, Any] = {"constraints": [CHECK]} | CHANGES[change]
    with pytest.raises(StudyChangedError, match=rf"the {change.split()[0]} of this call") as caught:
        tune(train, copy, xs=range(40), **options)
    assert "To begin a new study give another file, study=..." in str(caught.value)
    assert ("what_if" in str(caught.value)) == (change == "constraints")  # other limits alone
    assert copy.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"constraints": [Constraint("g", upper=3, check=int)]},
            "  g: limit was <= 2.0, now <= 3.0",
        ),
        (
            {"constraints": [Constraint("g", lower=2, check=int)]},
            "  g: limit was <= 2.0, now >= 2.0",
        ),
        (
            {"constraints": [Constraint("g", upper=2, margin_se=1, check=int)]},
            "  g: margin_se was 0.0, now 1.0",
        ),
        ({"constraints": [Constraint("h", upper=2, check=int)]}, "  g is gone\n  h is new"),
        ({"mode": "max"}, "  mode was 'min', now 'max'"),
        ({"policy": Adaptive(spacing=2)}, "  spacing was 1.5, now 2.0"),
        (
            {"space": {"x": acetune.loguniform(1, 9)}},
            "  x was uniform(-1000.0, 1000.0), now loguniform(1.0, 9.0)",
        ),
    ],
)
def test_what_has_changed_is_named(copy: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(StudyChangedError) as caught:
        tune(train, copy, xs=range(40), **({"constraints": [CHECK]} | options))
    assert f":\n{words}\n" in str(caught.value) and "{" not in str(caught.value)


def test_a_mistake_before_the_first_report_does_not_lock_the_file(study: Path) -> None:
    with pytest.raises(StudyError, match=r"did you mean objective='loss'"):
        tune(lambda trial: trial.report(loss=1.0), study, objective="los")
    events = Events()
    result = tune(train, study, xs=range(2), max_trials=2, callbacks=[events])
    assert result.goals.objective.name == "loss" and states(study) == ["finished"] * 2
    assert [note for note in events.notices if "the study is started again" in note]


def test_trials_of_a_training_function_that_never_worked_do_not_count(study: Path) -> None:
    def crash(trial: Trial) -> None:
        raise ImportError("no such thing")

    with pytest.raises(StudyError, match="3 trials failed one after another"):
        tune(crash, study, xs=range(4), max_trials=3, max_failures=3)
    assert tune(train, study, xs=range(3), max_trials=3).counts == {"finished": 3}


def test_a_failed_trial_counts_where_others_have_reported(study: Path) -> None:
    def crash_once(trial: Trial) -> None:
        if trial.number == 2:
            raise ImportError("no such thing")
        train(trial)

    for _ in range(2):
        result = tune(crash_once, study, xs=range(3), max_trials=3)
        assert result.counts == {"finished": 2, "failed": 1}


@pytest.mark.parametrize("name", ["g", "p95 ms"])
def test_other_limits_are_refused_with_the_call_that_shows_them(study: Path, name: str) -> None:
    def goal(limit: float) -> list[Constraint]:
        return [
            Constraint(name, upper=limit, check=lambda model: 2.0000001),
            Constraint("h", lower=0, check=lambda model: 1.0),
        ]

    tune(train, study, constraints=goal(1))
    with pytest.raises(StudyChangedError) as caught:
        tune(train, study, constraints=goal(2.0000001))  # to the last digit

    call = re.search(r"acetune\.load\(.*", str(caught.value))
    assert call is not None
    best = eval(call.group()).best
    assert best is not None and best.constraints[name].value == 2.0000001


def test_changed_training_code_warns_once(copy: Path) -> None:
    def another(trial: Trial) -> None:
        trial.report(0.0, model=0)

    with pytest.warns(CodeChangedWarning, match=r"changed since .*study.db was begun") as caught:
        tune(another, copy, constraints=[CHECK], max_trials=41)
    (warned,) = caught
    assert warned.filename == tune.__code__.co_filename  # who called acetune.tune
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tune(another, copy, constraints=[CHECK], max_trials=42)
    assert len(states(copy)) == 42


def test_settings_may_change(copy: Path) -> None:
    result = tune(
        train, copy, constraints=[CHECK], max_trials=42, workers=2, confirm_top=2, keep_models=1
    )
    assert result.counts and len(states(copy)) == 42


def test_every_refusal_can_be_caught_as_one(copy: Path) -> None:
    garbage(copy)
    with pytest.raises(AcetuneError):
        acetune.load(copy)
    assert sys.exc_info() == (None, None, None)


_LOOK = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('SELECT * FROM study')"


@pytest.mark.parametrize("look", [acetune.load, lambda path: acetune.load(path).trials])
def test_looking_at_a_study_leaves_its_writer_in_peace(copy: Path, look: Any) -> None:
    """Whoever opens and closes the file by hand takes SQLite's locks away from its own process.

    Then another process that looks at the file takes itself for the last one to have it, and
    deletes the log: what is written after that is lost.
    """
    with closing(Store.open(copy)) as store:
        with store.transaction():
            store.add_session(1.0, "here")
        before = len(StudyView(copy).sessions)
        look(copy)
        subprocess.run([sys.executable, "-c", _LOOK + "; db.close()", str(copy)], check=True)
        with store.transaction():
            store.add_session(2.0, "here")
        code = f"{_LOOK}; print(db.execute('SELECT count(*) FROM sessions').fetchone()[0])"
        command = [sys.executable, "-c", code, str(copy)]
        found = subprocess.run(command, check=True, capture_output=True, text=True)
        assert int(found.stdout) == before + 1
