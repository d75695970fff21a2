"""The study file while others move, copy, link or cut it, or where nothing can be written."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import acetune
from acetune import Trial
from acetune.core.errors import StudyFileError
from acetune.study import integrity
from acetune.study.connections import (
    Connection,
    Fault,
    connect,
    connect_to_read,
    network_file_system,
    write_copy,
)
from acetune.study.store import Store
from run.helpers import tune

FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "deleted": (lambda study: study.unlink(), "deleted or moved"),
    "moved": (lambda study: study.rename(study.with_name("moved.db")), "deleted or moved"),
    "replaced": (lambda study: study.with_name("other").replace(study), "replaced"),
    "cut off": (lambda study: os.truncate(study, 5000), "cut off"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_is_gone_is_noticed(study: Path, fault: str) -> None:
    harm, word = FAULTS[fault]
    study.with_name("other").write_bytes(b"another file")

    def trains(trial: Trial) -> None:
        for step in trial.steps(3000):
            trial.report(float(step))
            if step == 3:
                harm(study)
            time.sleep(0.05)

    with pytest.raises(StudyFileError, match=rf"study\.db was {word}.*the study has ended"):
        tune(trains, study)
    assert not study.with_name("study.db-lock").exists()
    if fault == "moved":
        assert acetune.load(study.with_name("moved.db")).ledger.reports >= 3
    if fault == "replaced":
        assert study.read_bytes() == b"another file"


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[Path]:
    """A study as a killed driver has left it: the latest is in the log alone."""
    tune(lambda trial: trial.report(1.0), tmp_path / "running" / "study.db")
    (tmp_path / "left").mkdir()
    with closing(Store.open(tmp_path / "running" / "study.db")) as store:
        with store.transaction():
            store.add_session(1.0, "the last of all")
        for ending in ("", "-wal"):
            shutil.copy(f"{store.path}{ending}", tmp_path / "left")
    yield tmp_path / "left" / "study.db"


def sessions(study: Path) -> int:
    with closing(Store.read(study)) as store:
        return len(store.rows("SELECT * FROM sessions"))


def test_a_copy_without_its_log_is_not_taken_for_the_study(killed: Path) -> None:
    assert sessions(killed) == 2
    alone = killed.with_name("alone.db")
    shutil.copy(killed, alone)
    for opened in (acetune.load, Store.read, Store.open):
        with pytest.raises(StudyFileError, match=r"alone\.db is not whole.*alone\.db-wal.*DROP"):
            opened(alone)
    assert sorted(path.name for path in killed.parent.glob("alone*")) == ["alone.db"]

    with closing(connect(alone)) as db:  # the way that the message names
        db.execute("DROP TABLE being_written")
    assert sessions(alone) == 1

    write_copy(killed, killed.with_name("copied.db"))  # by SQLite: with what is in the log
    assert sessions(killed.with_name("copied.db")) == 2
    Store.open(killed).close()  # it goes on, and ends well
    shutil.copy(killed, alone)
    assert sessions(alone) == 2


def test_a_study_whose_driver_died_while_its_log_was_moved_into_it_goes_on(tmp_path: Path) -> None:
    """SQLite writes the header first: it says how long the file is to become."""
    tune(lambda trial: trial.report(1.0), tmp_path / "running.db")
    with closing(Store.open(tmp_path / "running.db")) as store:
        with store.transaction():
            for _ in range(100):
                store.add_session(1.0, "what makes it longer" * 50)
        for name in ("moved.db", "left.db"):
            for ending in ("", "-wal"):
                shutil.copy(f"{store.path}{ending}", f"{tmp_path / name}{ending}")
    moved, left = tmp_path / "moved.db", tmp_path / "left.db"
    with closing(connect(moved)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before, page = left.read_bytes(), 4096
    assert moved.stat().st_size > len(before)
    left.write_bytes(moved.read_bytes()[:page] + before[page:])
    assert sessions(left) == 101
    Store.open(left).close()  # it goes on, and ends well
    assert sessions(left) == 101

    shutil.copy(tmp_path / "running.db", left)
    left.with_name("left.db-wal").touch()  # of a file that was cut off no log makes a study
    os.truncate(left, page)
    with pytest.raises(StudyFileError, match="damaged"):
        sessions(left)


def test_two_drivers_through_a_hard_link_are_refused(study: Path) -> None:
    tune(lambda trial: trial.report(1.0), study)
    with closing(Store.open(study)):
        os.link(study, study.with_name("other.db"))
        with pytest.raises(StudyFileError, match=r"another name \(a hard link\)"):
            Store.open(study.with_name("other.db"))
    assert acetune.load(study).ledger.reports == 1
    study.with_name("other.db").unlink()
    Store.open(study).close()


@contextmanager
def nothing_can_be_written(folder: Path) -> Iterator[None]:
    """Within this, as for a user who may only read what is in a folder."""
    for path in folder.iterdir():
        path.chmod(0o644)
    folder.chmod(0o555)
    root = os.geteuid() == 0
    try:
        if root:  # who may write anywhere
            os.seteuid(65534)
        yield
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)


@pytest.mark.parametrize("left", ["ended", "ended by an earlier version", "killed"])
def test_a_study_is_read_where_nothing_can_be_written(killed: Path, left: str) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        if left == "ended":
            Store.open(killed).close()
        if left == "ended by an earlier version":
            with closing(connect(killed)) as db:
                db.execute("DROP TABLE being_written")
        for path in killed.parent.iterdir():
            if path.suffix != ".db-shm":
                shutil.copy(path, folder)
        with nothing_can_be_written(folder):
            assert sessions(folder / "study.db") == 2
            assert acetune.load(folder / "study.db").ledger.reports == 1
        before = {path.name for path in folder.iterdir()}
        assert before == {"study.db", "study.db-wal"} if left == "killed" else {"study.db"}
    finally:
        shutil.rmtree(folder)


def test_a_network_file_system_is_known(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "30 22 0:40 / /home rw shared:1 - nfs4 server:/home rw\n"
        "31 30 8:2 / /home/scratch\\040disk rw - xfs /dev/sdb rw\n"
    )
    assert network_file_system(Path("/home/me/study.db"), mounts) == "nfs4"
    assert network_file_system(Path("/home/scratch disk/study.db"), mounts) is None
    assert network_file_system(Path("/homes/study.db"), mounts) is None
    assert network_file_system(tmp_path / "study.db", tmp_path / "nothing") is None


def test_a_look_at_a_file_that_is_being_written_is_taken_again(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tune(lambda trial: trial.report(1.0), study)
    looks = 0

    def torn(path: Path, options: str = "") -> Connection:
        nonlocal looks
        looks += bool(options)
        if options and looks % 3:
            raise Fault("database disk image is malformed")
        return connect_to_read(path, options)

    monkeypatch.setattr(integrity, "connect_to_read", torn)
    with pytest.raises(StudyFileError, match="is not a study file, or it is damaged"):
        acetune.load(study)  # nobody is writing it
    assert looks == 1
    with beside(study):
        looks = 0
        assert acetune.load(study).ledger.reports == 1
    assert looks == 3


def test_who_reads_at_the_end_keeps_the_log(study: Path) -> None:
    tune(lambda trial: trial.report(1.0), study)
    store = Store.open(study)
    with closing(connect_to_read(study)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM reports").fetchone()
        store.close()
    log = study.with_name("study.db-wal")
    assert log.exists() and acetune.load(study).ledger.reports == 1
    Store.open(study).close()
    assert [path.name for path in study.parent.glob("study.db*")] == ["study.db"]


@contextmanager
def beside(study: Path) -> Iterator[None]:
    """Within this somebody may be writing a study."""
    lock = study.with_name("study.db-lock")
    lock.touch()
    yield
    lock.unlink()


def test_a_driver_that_begins_meanwhile_is_not_taken_for_a_lost_log(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tune(lambda trial: trial.report(1.0), study)
    with closing(Store.open(study)):
        looks = iter([True, False])  # it has begun between both
        monkeypatch.setattr(integrity, "lacks_log", lambda path: next(looks))
        assert sessions(study) == 1
