"""Kept models and checkpoints: where they may lie, and what is left of them after a power cut."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import acetune
from acetune import ACE, Constraint, NoStopping, Stopper, Trial, export
from acetune.core.errors import BrokenModelError, ReportError, StudyChangedError, StudyFileError
from acetune.policies.policy import checked_along
from acetune.report._trials import trial_detail
from acetune.report.html import write_report
from acetune.run import _pipe_link as pipe_link
from acetune.run._messages import DriverChannel, Saved, WorkerChannel
from acetune.study import _formats as formats
from acetune.study._formats import FORMAT
from acetune.study.coordinator import StudyCoordinator
from acetune.study.opening import CodeChangedWarning
from acetune.study.reader import StudyView
from acetune.study.store import Store
from acetune.trial import artifacts
from acetune.trial.artifacts import Kept, kept_name, write_folder
from run.helpers import Events, by_hand, g_of, rows, trial_rows, tune

from . import kept_study

EVERY_STEP = ACE(truncation=0, interval=1, gate=False)
LIMIT = Constraint("g", upper=2, check=g_of)
TABLE = [[(1.0, 1.0)], [(2.0, 1.0)], [(3.0, 1.0)], [(4.0, 1.0)]]
OPTIONS: dict[str, Any] = {"policy": EVERY_STEP, "constraints": [LIMIT], "keep_models": 3}


@pytest.fixture
def finished(study: Path) -> Path:
    """A study that keeps the models of trials 1, 2 and 3, in this order."""
    tune(by_hand(TABLE), study, xs=range(4), **OPTIONS)
    return study


def again(study: Path, **options: Any) -> acetune.StudyResult:
    return tune(by_hand(TABLE), study, xs=range(4), **(OPTIONS | options))


def model_of(study: Path, trial: int, step: int = 1) -> Path:
    return study.with_name("study.db.files") / kept_name(trial, 1, step, "model")


def write_row(study: Path, sql: str, *values: object) -> None:
    with closing(sqlite3.connect(study)) as db:
        db.execute(sql, values)
        db.commit()


# -- paths that lead elsewhere -------------------------------------------------------------------


def show(study: Path) -> None:
    """``acetune show``, its error raised again."""
    words = [sys.executable, "-m", "acetune", "show", str(study)]
    found = subprocess.run(words, capture_output=True, text=True)
    assert found.returncode != 0 and "Traceback" not in found.stderr
    raise StudyFileError(" ".join(found.stderr.split()))


USES: dict[str, Callable[[Path], object]] = {
    "tune": again,
    "load": acetune.load,
    "report": lambda study: write_report(study, study.with_name("page.html")),
    "dashboard": StudyView,
    "export": lambda study: export.to_csv(study, study.with_name("table")),
    "show": show,
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", ["model", "resume"])
def test_a_study_file_that_names_another_folder_is_refused(
    finished: Path, use: str, kind: str, tmp_path: Path
) -> None:
    victim = tmp_path / "photos"
    victim.mkdir()
    (victim / "one").write_text("precious")
    sql = "INSERT INTO checkpoints VALUES (4, 1, 1, ?, ?, 8, NULL)"
    write_row(finished, sql, kind, str(victim))
    before = sorted(path for path in tmp_path.rglob("*") if "study.db-" not in path.name)

    with pytest.raises(StudyFileError, match=r"damaged or was tampered with.*photos") as caught:
        USES[use](finished)
    assert "nothing outside the study's own folder was touched" in str(caught.value)
    after = sorted(path for path in tmp_path.rglob("*") if "study.db-" not in path.name)
    assert after == before and (victim / "one").read_text() == "precious"


PATHS = [
    "../photos",
    "trial-00004/attempt-1/../../../photos",
    "trial-00001/attempt-1/model-0000001",  # of another trial
    "trial-00004/attempt-1/model-0000002",  # of another step
    "trial-00004/attempt-1/resume-0000001",  # of another kind
    "trial-00004/attempt-1",
    "",
    ".",
    "trial-00004/attempt-1/model-0000001/",
    "trial-00004/attempt-1/model-0000001\0",
    "experiment/acetune-model-00-0000002",  # of another step, in a Ray experiment
    "../acetune-model-00-0000001",
    b"trial-00004/attempt-1/model-0000001",
    7,
]


@pytest.mark.parametrize("path", PATHS, ids=repr)
def test_a_path_that_is_not_its_rows_own_is_refused(
    finished: Path, path: object, tmp_path: Path
) -> None:
    (tmp_path / "photos").mkdir()
    models = [model_of(finished, trial) for trial in (1, 2, 3)]
    sql = "INSERT INTO checkpoints VALUES (4, 1, 1, 'model', ?, 8, NULL)"
    write_row(finished, sql, path)
    for use in (again, acetune.load, StudyView):
        with pytest.raises(StudyFileError, match="damaged or was tampered with"):
            use(finished)
    assert (tmp_path / "photos").is_dir() and all(model.is_dir() for model in models)


def test_a_driver_without_an_experiment_deletes_nothing_of_one(finished: Path) -> None:
    other = finished.with_name("experiment") / "acetune-model-00-0000001"
    other.mkdir(parents=True)
    path = "experiment/acetune-model-00-0000001"
    write_row(finished, "INSERT INTO checkpoints VALUES (4, 1, 1, 'model', ?, 0, NULL)", path)
    with pytest.raises(StudyFileError, match="damaged or was tampered with"):
        again(finished)
    assert other.is_dir()


def test_a_link_in_the_folder_leads_nobody_out(finished: Path, tmp_path: Path) -> None:
    """A trial's folder that is a link, and one that no row names."""
    outside = tmp_path / "outside"
    (outside / "attempt-1" / "model-0000001").mkdir(parents=True)
    files = finished.with_name("study.db.files")
    (files / "trial-00009").symlink_to(outside)
    (model_of(finished, 1).parent / "model-0000009").symlink_to(outside)
    again(finished)  # deletes what no row names
    assert (outside / "attempt-1" / "model-0000001").is_dir()

    write_row(
        finished,
        "INSERT INTO checkpoints VALUES (9, 1, 1, 'model', ?, 0, NULL)",
        kept_name(9, 1, 1, "model"),
    )
    with pytest.raises(StudyFileError, match="is not inside"):
        again(finished)
    assert (outside / "attempt-1" / "model-0000001").is_dir()


def test_the_whole_folder_may_be_a_link(study: Path, tmp_path: Path) -> None:
    """To a larger disk, say."""
    (tmp_path / "disk").mkdir()
    study.with_name("study.db.files").symlink_to(tmp_path / "disk")
    again(study)
    result = again(study)
    assert result.best is not None and result.best.load() == (1, 1, 1.0)
    assert len(list((tmp_path / "disk").glob("*/*/model-*"))) == 3


def test_a_study_that_is_opened_by_a_link_finds_its_models(finished: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    link = tmp_path / "other" / "link.db"
    link.symlink_to(finished)
    best = acetune.load(link).best
    assert best is not None and best.load() == (1, 1, 1.0)


@pytest.mark.parametrize("path", ["/photos", "../photos", kept_name(2, 1, 1, "model")])
def test_a_worker_can_name_only_its_own_folder(study: Path, path: str) -> None:
    describe = dict.fromkeys(("constraints", "space", "settings", "versions"), "[]")
    opened = Store.create(
        study, {**describe, "objective": "", "policy": "", "code_hash": "", "created": 0}
    )
    coordinator = StudyCoordinator(opened, Stopper(objective="loss", mode="min"))
    with opened.transaction():
        trial = coordinator.add_trial({"x": 1.0})
        coordinator.begin(trial, 9, 0.0)
        with pytest.raises(ReportError, match="a place that is not its own"):
            coordinator.kept_models.add_model(trial, 1, path, 1)
        with pytest.raises(ReportError, match="a place that is not its own"):
            coordinator.kept_models.add_checkpoint(trial, 1, path, 1)
    assert opened.kept() == []
    opened.close()


def test_only_what_lies_inside_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "root" / "in").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "root" / "link").symlink_to(tmp_path / "out")
    for name in ("../out", ".", "link", "in/../..", "/"):
        with pytest.raises(artifacts.OutsideError):
            artifacts.delete_inside(tmp_path / "root", tmp_path / "root" / name)
    artifacts.delete_inside(tmp_path / "root", tmp_path / "root" / "in")
    assert [path.name for path in sorted(tmp_path.rglob("*"))] == ["out", "root", "link"]


# -- a power cut ---------------------------------------------------------------------------------


class Disk:
    """Notes what is put on disk, and what is renamed, deleted or said in between."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[tuple[str, Path]] = []
        fsync, rename, rmtree = os.fsync, os.rename, shutil.rmtree

        def noting_fsync(descriptor: int) -> None:
            self.log.append(("sync", Path(f"/proc/self/fd/{descriptor}").readlink()))
            fsync(descriptor)

        def noting_rename(source: Path, target: Path) -> None:
            self.log.append(("rename", Path(target)))
            rename(source, target)

        def noting_rmtree(path: Path, **options: Any) -> None:
            if Path(path).exists():
                self.log.append(("delete", Path(path)))
            rmtree(path, **options)

        monkeypatch.setattr(os, "fsync", noting_fsync)
        monkeypatch.setattr(os, "rename", noting_rename)
        monkeypatch.setattr(shutil, "rmtree", noting_rmtree)

    def at(self, what: str, path: Path) -> int:
        return self.log.index((what, path))


def test_a_model_is_on_disk_before_it_has_its_name_and_named_before_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tmp_path / "study.db.files"
    folder = files / "trial-00001" / "attempt-1"
    folder.mkdir(parents=True)
    disk, (ours, theirs) = Disk(monkeypatch), socket.socketpair()
    worker, driver = WorkerChannel(ours), DriverChannel(theirs)
    send = worker.send

    def noting_send(message: object) -> None:
        disk.log.append(("told", folder))
        send(message)

    monkeypatch.setattr(worker, "send", noting_send)
    own = tmp_path / "own"
    (own / "deep").mkdir(parents=True)
    (own / "weights").write_text("w" * 100)
    (own / "deep" / "more").write_text("m")
    pipe_link.PipeLink(worker, files, folder, sees_files=True).keep_model(5, own)

    target, partial = folder / "model-0000005", folder / "model-0000005-partial"
    named, told = disk.at("rename", target), disk.at("told", folder)
    inside = [partial, *(partial / path.relative_to(target) for path in target.rglob("*"))]
    assert len(inside) == 5  # the folder, "folder" in it, "deep", and two files
    assert all(disk.at("sync", path) < named for path in inside)
    for parent in (folder, folder.parent, files, tmp_path):
        assert named < disk.at("sync", parent) < told
    with closing(worker), closing(driver):
        (saved,) = driver.receive()
    assert isinstance(saved, Saved) and saved.size == 101
    assert saved.digest == artifacts.read_through(target).digest


def test_a_model_is_deleted_once_it_is_on_disk_that_it_is_forgotten(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    again(study, keep_models=1)
    log = study.with_name("study.db-wal")
    deleted = [at for at, (what, _) in enumerate(disk.log) if what == "delete"]
    # best first: nothing to delete, and no sync but that of the new log
    assert not deleted and disk.log.count(("sync", log)) == 1

    worse_first = by_hand(TABLE[::-1])
    tune(worse_first, study.with_name("2.db"), xs=range(4), **(OPTIONS | {"keep_models": 1}))
    log = study.with_name("2.db-wal")
    deleted = [at for at, (what, _) in enumerate(disk.log) if what == "delete"]
    assert len(deleted) == 3
    since = disk.at("sync", log) + 1
    for at in deleted:
        assert ("sync", log) in disk.log[since:at]
        since = at


def test_the_checksum_is_of_names_sizes_and_contents_with_links_followed(tmp_path: Path) -> None:
    def digest(**files: str) -> str:
        target = tmp_path / "files" / "one"
        written = write_folder(
            target,
            lambda folder: [(folder / name).write_text(text) for name, text in files.items()],
            tmp_path / "files",
        )
        assert written == artifacts.read_through(target)
        return written.digest

    different = [digest(a="1", b="2"), digest(a="12", b=""), digest(a="1", c="2"), digest(a="1")]
    assert len({*different, digest(ab="12"), digest()}) == 6
    assert digest(b="2", a="1") == different[0]

    plain, linked = tmp_path / "plain", tmp_path / "linked"
    (plain / "sub").mkdir(parents=True)
    (plain / "sub" / "x").write_text("x")
    linked.mkdir()
    (linked / "sub").symlink_to(plain / "sub")
    (plain / "sub" / "up").symlink_to(plain)  # a loop ends
    (plain / "nowhere").symlink_to(tmp_path / "nothing")
    assert artifacts.read_through(linked).size == artifacts.read_through(plain).size == 1


def empty_it(model: Path) -> None:
    for file in model.rglob("*"):
        if file.is_file():
            file.write_bytes(b"")  # as after a power cut: the name is there, its content is not


def change_it(model: Path) -> None:
    file = next(file for file in model.rglob("*") if file.is_file())
    data = bytearray(file.read_bytes())
    data[-2] ^= 1
    file.write_bytes(data)


def lengthen_it(model: Path) -> None:
    (model / "more").write_text("x")


FAULTS: dict[str, tuple[Callable[[Path], object], str, bool]] = {
    "missing": (shutil.rmtree, "is missing", True),
    "empty": (empty_it, "is empty", True),
    "larger": (lengthen_it, r"is not what was written: it has .* bytes instead of", True),
    "changed": (change_it, "is not what was written: its checksum is another one", False),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_broken_model_is_named_with_the_next_candidate(finished: Path, name: str) -> None:
    damage, words, cheap = FAULTS[name]
    damage(model_of(finished, 1))
    damage(model_of(finished, 2))
    result = acetune.load(finished)

    best = result.best
    assert best is not None and best.trial == 1 and best.next_best is not None
    assert best.next_best.trial == (3 if cheap else 2)  # sizes alone do not show a change
    with pytest.raises(BrokenModelError, match=rf"trial 1 step 1 .*model-0000001 {words}") as error:
        best.load()
    if cheap:
        assert "next best is trial 3 step 1 with 3: result.best.next_best.load()" in str(
            error.value
        )
        assert best.next_best.load() == (3, 1, 1.0)
        assert best.next_best.next_best is None
    (line,) = (line for line in str(result).splitlines() if line.startswith("model "))
    assert "study.db.files/trial-00001" in line and "next best is trial" in line
    assert best.model_fault() is not None and best.model_fault() in line
    assert "use the model that was kept" not in str(result)
    shown = subprocess.run(
        [sys.executable, "-m", "acetune", "show", "--json", str(finished)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(shown.stdout)["best"]["model_fault"] == best.model_fault()
    page = write_report(finished, finished.with_name("page.html")).read_text()
    assert (best.model_fault() in page) == cheap
    assert (".best.next_best.load()" in page) == cheap


def test_a_whole_model_is_said_to_be_nothing_else(finished: Path) -> None:
    best = acetune.load(finished).best
    assert best is not None and best.model_fault() is None
    assert best.next_best is not None and best.next_best.trial == 2
    assert "next_best" not in repr(best)
    (line,) = (line for line in str(acetune.load(finished)).splitlines() if line[:6] == "model ")
    assert line.endswith("model-0000001")


def test_without_another_model_the_parameters_are_left(finished: Path) -> None:
    for trial in (1, 2, 3):
        empty_it(model_of(finished, trial))
    best = acetune.load(finished).best
    assert best is not None and best.next_best is None
    with pytest.raises(BrokenModelError, match="no other candidate has a model: train its param"):
        best.load()


# -- after it, in the study ----------------------------------------------------------------------


def resumable(trial: Trial) -> None:
    """Fails once, after a checkpoint at step 2; notes where it began."""
    began = 0 if trial.checkpoint is None else int((trial.checkpoint / "state").read_text())
    assert began == trial.last_step
    for step in trial.steps(4):
        if step == 3 and trial.attempt == 1:
            raise MemoryError("out of memory, say")
        save = None
        if step == 2:
            save = lambda folder: (folder / "state").write_text("2")  # noqa: E731
        trial.report(1 / step, checkpoint=save)


@pytest.mark.parametrize("name", ["whole", *FAULTS])
def test_a_trial_goes_on_from_its_checkpoint_only_if_that_is_whole(study: Path, name: str) -> None:
    tune(resumable, study)
    if name != "whole":
        checkpoint = study.with_name("study.db.files") / kept_name(1, 1, 2, "resume")
        (empty_it if name == "changed" else FAULTS[name][0])(checkpoint)
    events = Events()
    result = tune(resumable, study, retries=1, callbacks=[events])

    assert result.counts == {"finished": 1}
    (_, second) = trial_rows(study)
    assert second["resumed_from"] == (2 if name == "whole" else 0)
    steps = rows(study, "SELECT step FROM reports WHERE attempt = 2 ORDER BY seq")
    assert [row["step"] for row in steps] == ([3, 4] if name == "whole" else [1, 2, 3, 4])
    said = [text for text in events.notices if "trial 1 begins from its start: its check" in text]
    assert len(said) == (name != "whole")


@pytest.mark.parametrize("name", FAULTS)
def test_a_broken_model_is_not_confirmed_and_the_next_one_is(finished: Path, name: str) -> None:
    FAULTS[name][0](model_of(finished, 1))
    events = Events()
    result = again(finished, confirm=lambda model: {"g": model[2]}, callbacks=[events])

    assert result.best is not None and result.best.trial == 2
    assert result.best.status == "holds" and result.confirmation_uses == 1
    assert result.candidates[0].confirmation is None  # nobody has looked
    assert any("trial 1 cannot be confirmed: its model" in text for text in events.notices)


def test_a_model_that_is_broken_before_its_check_after_the_run_fails_it(study: Path) -> None:
    def breaks_the_first(trial: Trial) -> None:
        by_hand(TABLE)(trial)
        if trial.number == 4:  # all others have ended: their models lie there
            files = trial.folder.parents[1]
            for file in (files / kept_name(1, 1, 1, "model")).iterdir():
                file.write_bytes(b"")

    result = tune(
        breaks_the_first, study, xs=range(4), policy=NoStopping("after"), constraints=[LIMIT]
    )
    assert result.best is not None and result.best.trial == 2
    assert result.failed_check is not None and result.failed_check.trial == 1
    assert "is empty" in result.failed_check.error


# -- formats -------------------------------------------------------------------------------------


def kept_of(number: int, folder: Path) -> Path:
    name = f"format-{number}.db"
    shutil.copytree(kept_study.DATA / f"{name}.files", folder / f"{name}.files")
    return Path(shutil.copy(kept_study.DATA / name, folder))


@pytest.fixture(params=range(1, FORMAT + 1))
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A study that a version of each format wrote: trial 3 has failed and can go on from step 2."""
    return kept_of(request.param, tmp_path)


@pytest.fixture(params=range(1, FORMAT))
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """As ``kept``, of the older formats alone."""
    return kept_of(request.param, tmp_path)


def version(study: Path) -> int:
    return int(rows(study, "PRAGMA user_version")[0]["user_version"])


def test_a_kept_study_has_the_format_that_its_name_says(kept: Path) -> None:
    assert kept.name == f"format-{version(kept)}.db"


def test_a_study_of_each_format_can_be_read(kept: Path) -> None:
    before, was = kept.read_bytes(), version(kept)
    result = acetune.load(kept)
    assert result.reasons == {"MemoryError: out of memory, say": 1}
    assert result.trials["reason"][1] == "reached its last step"
    assert result.best is not None and (result.best.trial, result.best.step) == (2, 3)
    assert result.best.load() == {"x": 1.0, "step": 3, "g": 1}
    assert result.best.next_best is not None and result.best.next_best.trial in (1, 3)
    words = [sys.executable, "-m", "acetune", "show", str(kept)]
    wide = os.environ | {"COLUMNS": "500"}
    shown = subprocess.run(words, capture_output=True, text=True, check=True, env=wide)
    assert "model-0000003" in shown.stdout
    write_report(kept, kept.with_name("page.html"))
    assert version(kept) == was and kept.read_bytes() == before

    empty_it(kept.with_name(f"{kept.name}.files") / kept_name(2, 1, 3, "model"))
    with pytest.raises(BrokenModelError, match="is empty"):
        result.best.load()


def copies(old: Path) -> list[str]:
    return sorted(path.name for path in old.parent.glob(f"{old.name}.format-*"))


@pytest.mark.filterwarnings(f"ignore::{CodeChangedWarning.__module__}.CodeChangedWarning")
def test_a_study_of_each_format_goes_on_in_the_new_one(kept: Path) -> None:
    result = kept_study.run(kept, max_trials=4, retries=1)
    assert result.counts == {"finished": 4} and version(kept) == FORMAT
    (*_, second, _) = trial_rows(kept)
    assert (second["trial"], second["attempt"], second["resumed_from"]) == (3, 2, 2)
    digests = {row["trial"]: row["digest"] for row in rows(kept, "SELECT * FROM checkpoints")}
    assert (digests[2] is None) == (kept.name == "format-1.db") and digests[4] is not None
    assert len(copies(kept)) == (kept.name != f"format-{FORMAT}.db")


@pytest.mark.filterwarnings(f"ignore::{CodeChangedWarning.__module__}.CodeChangedWarning")
def test_a_copy_of_an_older_format_is_kept(old: Path) -> None:
    was, before, events = version(old), rows(old, "SELECT * FROM trials"), Events()
    kept_study.run(old, max_trials=3, callbacks=[events])
    assert version(old) == FORMAT
    (copy,) = copies(old)
    assert copy == f"{old.name}.format-{was}"
    (notice,) = (text for text in events.notices if copy in text)
    assert f"brought up from format {was} to {FORMAT}" in notice
    assert version(old.with_name(copy)) == was
    assert rows(old.with_name(copy), "SELECT * FROM trials") == before


def test_reasons_of_an_older_format_stay_sentences(old: Path) -> None:
    """They are shown as they were written, and not taken apart."""
    if version(old) >= 3:
        pytest.skip("reasons have codes from format 3 on")
    sentence = "rank 4 of 4 valid reports at step 1: in the worst {25%}"
    with closing(sqlite3.connect(old)) as db, db:
        db.execute("UPDATE trials SET state = 'stopped', reason = ? WHERE trial = 1", (sentence,))
        db.execute("UPDATE trials SET interval = total_steps WHERE trial = 2")  # at its end
        db.execute("UPDATE sessions SET ended = 'interrupted by the user'")
    for _ in range(2):  # read in a copy, and then brought up
        result = acetune.load(old)
        assert result.trials["reason"][1] == sentence and result.interrupted
        assert result.reasons == {"stopped by the policy": 1, "MemoryError: out of memory, say": 1}
        why = trial_detail(StudyView(old), 1)["why"]
        assert f"trial 1 stopped: {sentence}" in why
        assert "constraint: first due at step 1 of 3" in why
        plans = [row.schedule for row in StudyView(old).trials]
        assert [plan.short for plan in plans[:3]] == [
            "along the way",
            "at the end",
            "along the way",
        ]
        assert [checked_along(plan) for plan in plans[:3]] == [True, False, True]
        Store.open(old).close()
    assert version(old) == FORMAT


def test_the_copy_has_what_is_in_the_log_only(old: Path) -> None:
    """A driver that was killed leaves what it wrote last in the log beside the file."""
    code = (
        "import os, sqlite3, sys; db = sqlite3.connect(sys.argv[1]); "
        "db.execute(\"UPDATE sessions SET host = 'log'\"); db.commit(); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(old)], check=True)
    assert old.with_name(f"{old.name}-wal").stat().st_size > 0
    Store.open(old).close()
    (copy,) = copies(old)
    assert {row["host"] for row in rows(old.with_name(copy), "SELECT host FROM sessions")} == {
        "log"
    }


def test_a_copy_is_never_overwritten_and_not_made_twice(old: Path) -> None:
    whole, name = old.read_bytes(), f"{old.name}.format-{version(old)}"
    old.with_name(name).write_text("something of the user's")
    old.with_name(f"{name}-new").write_text("left by a process that was killed")
    Store.open(old).close()
    assert copies(old) == [name, f"{name}-2"]
    assert old.with_name(name).read_text() == "something of the user's"
    old.write_bytes(whole)  # put back, or interrupted before it was brought up
    Store.open(old).close()
    assert copies(old) == [name, f"{name}-2"] and version(old) == FORMAT


def test_without_room_for_a_copy_the_file_stays_as_it_is(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before, was = old.read_bytes(), version(old)
    with monkeypatch.context() as patch:
        patch.setattr("acetune.study._formats.sync_folder", full)
        with pytest.raises(StudyFileError, match=r"copy .* No space left .* left as it was"):
            Store.open(old)
    assert (version(old), old.read_bytes()) == (was, before)
    Store.open(old).close()  # not locked
    assert len(copies(old)) == 1


def test_a_call_that_is_refused_brings_nothing_up(old: Path) -> None:
    before, was = old.read_bytes(), version(old)
    with pytest.raises(StudyChangedError):
        acetune.tune(
            kept_study.train,
            {"x": acetune.uniform(0, 8)},
            objective="loss",
            mode="min",
            max_trials=4,
            study=old,
        )
    assert (version(old), old.read_bytes(), copies(old)) == (was, before, [])


def test_each_older_format_has_a_step() -> None:
    assert set(formats._STEPS) == set(range(1, FORMAT))


def test_a_step_that_fails_changes_nothing(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(db: sqlite3.Connection) -> None:
        db.execute("ALTER TABLE trials ADD COLUMN half TEXT")
        db.execute("ALTER TABLE nothing ADD COLUMN x")

    was = version(old)
    monkeypatch.setitem(formats._STEPS, FORMAT - 1, half)
    with pytest.raises(StudyFileError, match="cannot open"):
        Store.open(old)
    assert version(old) == was and "half" not in rows(old, "SELECT * FROM trials")[0]
    monkeypatch.undo()
    Store.open(old).close()  # not locked, and whole
    assert version(old) == FORMAT


def test_sizes_alone_are_compared_where_no_checksum_was_taken(tmp_path: Path) -> None:
    (tmp_path / "model.pkl").write_text("abc")
    assert Kept(tmp_path, 3, None).fault() is None
    assert Kept(tmp_path, 4, None).fault() is not None


@pytest.mark.parametrize(
    "values",
    [
        (1, "1/../../trial-00002/attempt-1", 1, "model"),  # another one's, by a text for a number
        (999, 1, 1, "model"),  # of a trial that there is not
        (-1, 1, 1, "model"),
        (2**62, 1, 1, "resume"),
    ],
)
def test_rows_of_attempts_that_there_are_not(finished: Path, values: tuple[Any, ...]) -> None:
    trial, attempt, step, kind = values
    path = f"trial-{trial:05d}/attempt-{attempt}/{kind}-{step:07d}"
    with closing(sqlite3.connect(finished)) as db, db:
        db.execute(
            "INSERT INTO checkpoints (trial, attempt, step, kind, path, bytes) "
            "VALUES (?, ?, ?, ?, ?, 3)",
            (trial, attempt, step, kind, path),
        )
    before = sorted(finished.with_name(finished.name + ".files").rglob("*"))
    for use in (again, acetune.load, StudyView):
        with pytest.raises(StudyFileError, match="damaged or was tampered with"):
            use(finished)
    assert sorted(finished.with_name(finished.name + ".files").rglob("*")) == before


def test_links_beside_a_study_file_are_not_written_through(finished: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("precious")
    code = finished.with_name(finished.name + ".files") / "code.pkl"
    code.unlink(missing_ok=True)
    code.symlink_to(mine)
    again(finished)
    assert mine.read_text() == "precious"
    lock = finished.with_name(finished.name + "-lock")
    lock.symlink_to(mine)
    with pytest.raises(StudyFileError, match="cannot open"):
        again(finished)
    assert mine.read_text() == "precious"


def test_the_checksum_sees_folders(finished: Path) -> None:
    result = acetune.load(finished)
    assert result.best is not None and result.best.checkpoint is not None
    (result.best.checkpoint / "folder").mkdir()
    with pytest.raises(BrokenModelError, match="is not what was written"):
        result.best.load()


def test_a_result_outlives_a_change_of_the_folder(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(finished.parent)
    result = acetune.load(finished.name)
    monkeypatch.chdir("/")
    assert result.best is not None and result.best.load() is not None
    assert len(result.trials) == 4
