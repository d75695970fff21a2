"""Folders of attempts: each has its own, and no empty one is left."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

import acetune
from acetune import Trial, tune
from acetune.trial.artifacts import AttemptFolders, OutsideError


def begin(folders: AttemptFolders, trial: int, attempt: int = 1, printed: str = "") -> Path:
    folder = folders.make(trial, attempt)
    with (folder / "log.txt").open("a") as log:
        log.write(printed)
    return folder


def left(files: Path) -> set[str]:
    return {str(path.relative_to(files)) for path in files.rglob("*") if not path.is_dir()}


def test_a_folder_that_nothing_was_written_into_is_the_next_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acetune.trial.artifacts._has_children", lambda: False)  # others' tests do
    folders = AttemptFolders(tmp_path)
    first = begin(folders, 1)
    inode = first.stat().st_ino
    folders.done(first)
    second = begin(folders, 2)
    assert second == tmp_path / "trial-00002" / "attempt-1"
    assert second.stat().st_ino == inode and not first.parent.exists()
    folders.done(second)
    folders.close()
    assert not list(tmp_path.iterdir())


def test_what_was_written_stays_where_it_was(tmp_path: Path) -> None:
    folders = AttemptFolders(tmp_path)
    folders.done(begin(folders, 1, printed="a line"))
    own = begin(folders, 2)
    (own / "weights").touch()
    folders.done(own)
    folders.done(begin(folders, 3))
    folders.done(begin(folders, 1, attempt=2))  # beside its first attempt
    folders.done(begin(folders, 3, printed="again"))
    folders.close()
    assert left(tmp_path) == {
        "trial-00001/attempt-1/log.txt",
        "trial-00001/attempt-2/log.txt",
        "trial-00002/attempt-1/log.txt",
        "trial-00002/attempt-1/weights",
        "trial-00003/attempt-1/log.txt",
    }


def test_a_folder_that_training_code_knows_is_not_moved(tmp_path: Path) -> None:
    folders = AttemptFolders(tmp_path)
    first = begin(folders, 1)
    assert folders.given() == first
    folders.done(first)
    folders.done(begin(folders, 2))
    assert first.is_dir()


def test_the_folder_of_a_failed_trial_stays_for_its_next_attempt(tmp_path: Path) -> None:
    """Another worker may be at that already. Mostly the log has the error; here nobody sees it."""

    def train(trial: Trial) -> None:
        if trial.number == 1:
            sys.stderr = io.StringIO()
            raise RuntimeError("not in the log")
        sys.stderr = sys.__stderr__
        (tmp_path / "seen").write_text(" ".join(left(tmp_path / "study.db.files")))
        for step in trial.steps(1):
            trial.report(loss=1.0 / step)

    tune(
        train,
        {"x": acetune.uniform(0.0, 1.0)},
        objective="loss",
        mode="min",
        max_trials=2,
        workers=1,
        study=tmp_path / "study.db",
        progress=False,
    )
    assert "trial-00001/attempt-1/log.txt" in (tmp_path / "seen").read_text()


def test_what_a_process_that_was_left_prints_is_in_the_log_of_its_trial(tmp_path: Path) -> None:
    def train(trial: Trial) -> None:
        if trial.number == 1:
            wait = f"until [ -e '{tmp_path / 'second'}' ]; do sleep 0.05; done; echo late"
            sys.left = subprocess.Popen(["sh", "-c", wait])  # type: ignore[attr-defined]
        for step in trial.steps(1):
            trial.report(loss=1.0 / step)
        if trial.number == 2:
            (tmp_path / "second").touch()
            sys.left.wait()  # type: ignore[attr-defined]

    tune(
        train,
        {"x": acetune.uniform(0.0, 1.0)},
        objective="loss",
        mode="min",
        max_trials=2,
        workers=1,
        study=tmp_path / "study.db",
        progress=False,
    )
    files = tmp_path / "study.db.files"
    assert (files / "trial-00001/attempt-1/log.txt").read_text() == "late\n"
    assert not (files / "trial-00002").exists()


def test_a_folder_in_the_way_is_not_replaced(tmp_path: Path) -> None:
    files, outside = tmp_path / "files", tmp_path / "outside"
    (outside / "attempt-1").mkdir(parents=True)
    files.mkdir()
    folders = AttemptFolders(files)
    folders.done(begin(folders, 1))
    (files / "trial-00002").symlink_to(outside)
    with pytest.raises(OutsideError):
        folders.make(2, 1)
    third = begin(folders, 3)
    (files / "trial-00003").rename(tmp_path / "elsewhere")
    (files / "trial-00003").symlink_to(tmp_path / "elsewhere")
    folders.done(third)
    assert begin(folders, 4).resolve() == files.resolve() / "trial-00004" / "attempt-1"


def test_a_finished_study_leaves_no_empty_folder(tmp_path: Path) -> None:
    def train(trial: Trial) -> None:
        if trial.number == 2:
            print("said by trial 2")
        if trial.number == 4:
            (trial.folder / "own").write_text("4")
        for step in trial.steps(2):
            trial.report(loss=1.0 / (step + trial.number), model=trial.number)

    tune(
        train,
        {"x": acetune.uniform(0.0, 1.0)},
        objective="loss",
        mode="min",
        max_trials=6,
        workers=1,
        keep_models=1,
        study=tmp_path / "study.db",
        progress=False,
    )
    files = tmp_path / "study.db.files"
    kept = {path for path in files.rglob("*") if path.is_dir() and not list(path.iterdir())}
    assert not kept
    assert sorted(path.name for path in files.glob("trial-*")) == [
        "trial-00002",
        "trial-00004",
        "trial-00006",
    ]
    assert (files / "trial-00002/attempt-1/log.txt").read_text() == "said by trial 2\n"
    assert (files / "trial-00004/attempt-1/own").read_text() == "4"
