"""Reading in a second process: the columns hold what the file holds, whatever happens to it."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from acetune.core.errors import StudyFileError
from acetune.study import read_ahead as ahead_module
from acetune.study._formats import FORMAT
from acetune.study.read_ahead import ReadAhead
from acetune.study.reader import StudyView
from acetune.study.store import Store
from report.test_view import require_same_as_file
from synthetic_study import append_reports, make_study


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A study that counts as large, with several attempts, late checks and failed ones."""
    monkeypatch.setattr(ahead_module, "_MANY", 100)
    return make_study(tmp_path / "study.db", trials=40, reports=900, constraints=2, running=2)


def test_the_view_takes_what_was_read_ahead(study: Path) -> None:
    with ReadAhead(study) as ahead:
        assert 0 < ahead.last < 900
        view = StudyView(study, ahead)
        assert ahead.take() is None  # the view has it
    require_same_as_file(view)
    while view.refresh():  # until it has settled
        pass
    append_reports(study, 30)
    assert view.refresh() is True
    require_same_as_file(view)


def test_it_reads_no_more_than_it_says(study: Path) -> None:
    with ReadAhead(study) as ahead:
        columns = ahead.take()
    assert columns is not None
    assert columns["seq"].tolist() == list(range(1, ahead.last + 1))


def test_reports_that_came_meanwhile_are_there_too(study: Path) -> None:
    with ReadAhead(study) as ahead:
        append_reports(study, 50)
        view = StudyView(study, ahead)
    assert len(view.reports) == 950
    require_same_as_file(view)


def test_a_process_that_died_is_done_without(study: Path) -> None:
    with ReadAhead(study) as ahead:
        assert ahead._process is not None
        ahead._process.kill()
        view = StudyView(study, ahead)
    require_same_as_file(view)


def test_a_process_that_cannot_be_started_is_done_without(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/no/such/python")
    with ReadAhead(study) as ahead:
        view = StudyView(study, ahead)
    require_same_as_file(view)


def test_reports_of_a_file_that_was_replaced_are_left(study: Path, tmp_path: Path) -> None:
    other = make_study(tmp_path / "other.db", trials=30, reports=950, seed=7)
    with ReadAhead(study) as ahead:
        other.replace(study)
        view = StudyView(study, ahead)
        assert ahead.take() is not None
    require_same_as_file(view)


def test_reports_of_a_study_that_was_begun_anew_are_left(study: Path) -> None:
    with ReadAhead(study) as ahead:
        store = Store.open(study)
        row = store.study()
        with store.transaction():
            store.begin_anew({**row, "created": row["created"] + 1})
        store.close()
        view = StudyView(study, ahead)
    assert len(view.reports) == 0
    require_same_as_file(view)


def test_numbers_with_gaps_are_found(study: Path) -> None:
    db = sqlite3.connect(study)
    db.execute("DELETE FROM reports WHERE seq IN (5, 6, 700)")
    db.execute("DELETE FROM checks WHERE seq IN (5, 6, 700)")
    db.commit()
    db.close()
    with ReadAhead(study) as ahead:
        view = StudyView(study, ahead)
        assert ahead.take() is None
    require_same_as_file(view)


def test_a_study_of_an_older_format_is_left_to_the_view(study: Path) -> None:
    """Only a step to the format of now knows what its rows mean."""
    db = sqlite3.connect(study)
    db.execute(f"PRAGMA user_version = {FORMAT - 1}")
    db.close()
    with ReadAhead(study) as ahead:
        assert ahead.last == 0 and ahead.take() is None


@pytest.mark.parametrize("column", ["kind", "stratum", "decision"])
@pytest.mark.parametrize("word", ["perhaps", "ünchecked", "valid and more than that"])
def test_a_word_that_is_none_of_ours_is_a_damaged_file(study: Path, column: str, word: str) -> None:
    db = sqlite3.connect(study)
    db.execute(f"UPDATE reports SET {column} = ? WHERE seq = 700", (word,))
    db.commit()
    db.close()
    with ReadAhead(study) as ahead, pytest.raises(StudyFileError, match="damaged"):
        StudyView(study, ahead)


def test_a_small_study_has_no_second_process(tmp_path: Path) -> None:
    small = make_study(tmp_path / "study.db", trials=10, reports=200)
    with ReadAhead(small) as ahead:
        assert ahead.last == 0 and ahead.take() is None
        require_same_as_file(StudyView(small, ahead))


@pytest.mark.parametrize("what", ["nothing", "a folder", "no database", "another database"])
def test_what_is_no_study_is_left_to_the_view(tmp_path: Path, what: str) -> None:
    path = tmp_path / "study.db"
    if what == "a folder":
        path.mkdir()
    elif what == "no database":
        path.write_bytes(b"not a database" * 20)
    elif what == "another database":
        db = sqlite3.connect(path)
        db.execute("CREATE TABLE reports (seq TEXT)")
        db.execute("INSERT INTO reports VALUES ('many')")
        db.commit()
        db.close()
    with ReadAhead(path) as ahead:
        assert ahead.last == 0 and ahead.take() is None


def test_the_process_ends_with_its_context(study: Path) -> None:
    with ReadAhead(study) as ahead:
        process = ahead._process
        assert process is not None
    assert process.returncode is not None


def test_beginning_to_read_needs_no_numpy() -> None:
    """It takes a tenth of a second to import, in which the other process can read."""
    code = "import sys, acetune.cli.dashboard; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
