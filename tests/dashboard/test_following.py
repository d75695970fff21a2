"""The study file while it is watched: it grows, ends, is killed, goes away and comes back."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import acetune
from acetune.report.dashboard._study_follower import StudyFollower
from acetune.report.figures import FIGURES
from acetune.study.store import Store
from dashboard.serving import asking, events, told_of, until
from synthetic_study import append_reports, make_study

SLOW_STUDY = """
import sys, time
import acetune

def train(trial):
    for step in trial.steps(40):
        time.sleep(0.02)
        trial.report(auc=trial.params["x"] * step, model=step)

acetune.tune(
    train, {"x": acetune.uniform(0, 1)}, objective="auc", mode="max", workers=1, progress=False,
    constraints=[acetune.Constraint("size", upper=1000.0, check=lambda model: float(model))],
    max_trials=int(sys.argv[2]), seed=1, study=sys.argv[1],
)
"""


def tuning(study: Path, trials: int) -> subprocess.Popen[bytes]:
    """A real study in a process of its own."""
    return subprocess.Popen([sys.executable, "-c", SLOW_STUDY, str(study), str(trials)])


def test_a_change_is_told_to_all_who_listen(study: Path) -> None:
    make_study(study, trials=20, reports=300, running=2)
    with (
        asking(study) as client,
        client.stream("GET", "/api/events") as one,
        client.stream("GET", "/api/events") as other,
    ):
        assert one.headers["content-type"].startswith("text/event-stream")
        first, second = events(one), events(other)
        assert next(first)[1]["seq"] == next(second)[1]["seq"] == 300
        assert append_reports(study, 7) == 307
        data = told_of(first, "changed", lambda data: data["seq"] == 307)
        # the same edition: it was made once for both
        assert told_of(second, "changed", lambda other: other == data)
        assert client.get("/api/content").json()["study"]["seq"] == 307


def test_in_a_hurry_the_first_figure_comes_before_the_others(study: Path) -> None:
    make_study(study, trials=20, reports=300, running=2)
    now = [100.0]
    follower = StudyFollower(study, clock=lambda: now[0])
    early = follower.update(whole=False)
    assert [figure["id"] for figure in early.content["figures"]] == ["progress"]
    assert not early.whole and not follower.figures_due
    assert follower.update(whole=False) is early
    now[0] += 10
    assert follower.figures_due
    whole = follower.update()
    assert [figure["id"] for figure in whole.content["figures"]] == list(FIGURES)
    assert whole.whole and whole.number != early.number and not follower.figures_due
    follower.close()


def test_the_content_is_new_also_when_nobody_listens(study: Path) -> None:
    make_study(study, trials=20, reports=300, running=2)
    with asking(study) as client:
        before = client.get("/api/content")
        assert client.get("/api/content").headers["etag"] == before.headers["etag"]
        append_reports(study, 7, best=0.97)
        after = client.get("/api/content")
        assert after.headers["etag"] != before.headers["etag"]
        assert after.json()["answer"]["best"]["value"] == 0.97


def test_a_study_that_is_not_there_yet_is_waited_for(study: Path) -> None:
    with asking(study) as client:
        page = client.get("/")
        assert page.status_code == 503
        assert "there is no study file" in page.text
        assert 'http-equiv="refresh"' in page.text
        assert "no study file" in client.get("/api/content").json()["problem"]
        assert client.get("/api/trials/1").status_code == 404
        with client.stream("GET", "/api/events") as stream:
            told = events(stream)
            assert next(told)[0] == "problem"
            make_study(study, trials=10, reports=100)
            assert told_of(told, "changed")["seq"] == 100
        assert client.get("/").status_code == 200


def test_a_study_that_is_deleted_or_replaced_is_said_to_be(study: Path, tmp_path: Path) -> None:
    make_study(study, trials=10, reports=100)
    make_study(tmp_path / "other.db", trials=12, reports=150)
    with asking(study) as client, client.stream("GET", "/api/events") as stream:
        told = events(stream)
        assert next(told)[1]["seq"] == 100
        (tmp_path / "other.db").replace(study)
        assert told_of(told, "changed", lambda data: data["seq"] != 100)["seq"] == 150
        assert len(client.get("/api/content").json()["trials"]["rows"]) == 12
        study.unlink()
        assert "no study file" in told_of(told, "problem")["problem"]
        study.write_bytes(b"this is no study")
        assert told_of(told, "problem", lambda data: "not a study file" in data["problem"])
        assert client.get("/").status_code == 503


def test_a_file_full_of_nonsense_does_not_end_the_server(study: Path) -> None:
    make_study(study, trials=10, reports=100)
    with asking(study) as client, client.stream("GET", "/api/events") as stream:
        told = events(stream)
        assert next(told)[0] == "changed"
        with sqlite3.connect(study) as db:
            db.execute("UPDATE trials SET params = 'not JSON' WHERE trial = 3")
        assert str(study) in told_of(told, "problem")["problem"]
        with sqlite3.connect(study) as db:
            db.execute("UPDATE trials SET params = '{}' WHERE trial = 3")
        assert told_of(told, "changed")["seq"] == 100


def test_the_file_is_never_written_to(study: Path) -> None:
    make_study(study, trials=10, reports=100)
    before = study.read_bytes()
    files = {path.name for path in study.parent.iterdir()}
    with asking(study) as client:
        for path in ("/", "/api/content", "/api/trials/3"):
            assert client.get(path).status_code == 200
    assert study.read_bytes() == before
    assert {path.name for path in study.parent.iterdir()} - files <= {
        f"{study.name}-wal",
        f"{study.name}-shm",
    }


def test_whoever_holds_the_study_makes_it_running(study: Path) -> None:
    make_study(study, trials=10, reports=100, running=1)
    with asking(study) as client, client.stream("GET", "/api/events") as stream:
        told = events(stream)

        def running(_: object) -> bool:
            return bool(client.get("/api/content").json()["study"]["running"])

        assert not running(next(told))
        held = Store.open(study)
        assert told_of(told, "changed", running)
        held.close()
        assert told_of(told, "changed", lambda data: not running(data))


def test_a_real_study_is_followed_to_its_end(study: Path) -> None:
    with asking(study) as client, client.stream("GET", "/api/events") as stream:
        told = events(stream)
        driver = tuning(study, 3)
        try:
            seen = []
            for name, data in told:
                if name == "changed":
                    seen.append(data["seq"])
                    if not client.get("/api/content").json()["study"]["running"] and seen[-1] > 0:
                        break
            assert driver.wait(60) == 0
        finally:
            driver.kill()
            driver.wait()
        assert seen == sorted(seen)
        assert len(seen) > 3  # it was followed, not only seen at its end
        shown = until(lambda: (c := client.get("/api/content").json())["study"]["ended"] and c)
        result = acetune.load(study)
        assert result.best is not None
        assert shown["answer"]["best"]["value"] == result.best.value
        assert shown["study"]["ended"] == result.ended


def test_a_driver_that_was_killed_is_not_running(study: Path) -> None:
    with asking(study) as client:
        driver = tuning(study, 1000)
        try:
            until(
                lambda: (
                    (answer := client.get("/api/content")).status_code == 200
                    and answer.json()["study"]["running"]
                    and answer.json()["study"]["seq"] > 5
                )
            )
            with client.stream("GET", "/api/events") as stream:
                told = events(stream)
                next(told)
                os.kill(driver.pid, signal.SIGKILL)
                driver.wait()
                for _ in told:
                    shown = client.get("/api/content").json()["study"]
                    if not shown["running"]:
                        break
            assert shown["ended"] is None  # nobody was left to write why
            assert client.get("/").status_code == 200
        finally:
            driver.kill()
            driver.wait()
            shutil.rmtree(f"{study}.files", ignore_errors=True)
