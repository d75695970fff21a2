"""What is answered: the numbers of the study file, once for all who ask."""

from __future__ import annotations

import contextlib
import gzip
import json
import sqlite3
import threading
from pathlib import Path

import httpx
import pytest

import acetune
from acetune.report.dashboard._study_follower import StudyFollower, Watcher
from acetune.report.figures import FIGURES
from dashboard.serving import asking, until
from synthetic_study import HOSTILE, make_study


def test_the_numbers_are_those_of_the_study_file(client: httpx.Client, finished: Path) -> None:
    content = client.get("/api/content").json()
    result = acetune.load(finished)
    assert result.best is not None
    best = content["answer"]["best"]
    assert (best["trial"], best["step"], best["value"]) == (
        result.best.trial,
        result.best.step,
        result.best.value,
    )
    assert best["params"] == dict(result.best.params)
    assert content["study"]["running"] is False
    assert content["study"]["seq"] == 800
    assert len(content["trials"]["rows"]) == 40


def test_the_page_holds_the_answer_before_any_script_runs(
    client: httpx.Client, finished: Path
) -> None:
    result = acetune.load(finished)
    assert result.best is not None
    page = client.get("/").text
    assert f"{result.best.value:.5g}" in page
    assert 'src="static/page.js"' in page
    assert "https://" not in page.partition("</head>")[0]  # nothing from elsewhere


@pytest.mark.parametrize(
    "path", ["/", "/api/content", "/static/page.js", "/static/page.css", "/static/plotly.js"]
)
def test_what_the_reader_has_is_not_sent_again(client: httpx.Client, path: str) -> None:
    def compressed() -> httpx.Response | None:
        answer = client.get(path, headers={"Accept-Encoding": "gzip"})
        return answer if answer.headers.get("content-encoding") == "gzip" else None

    answer = until(compressed)  # plotly.js is compressed once the rest is done
    plain = client.get(path, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.content == answer.content  # unpacked by the client
    for known in (answer.headers["etag"], "W/" + answer.headers["etag"] + ', "x"'):
        again = client.get(path, headers={"If-None-Match": known})
        assert again.status_code == 304
        assert again.content == b""
        assert again.headers["etag"] == answer.headers["etag"]
    assert client.get(path, headers={"If-None-Match": '"other"'}).status_code == 200


def test_compressed_content_is_the_content(client: httpx.Client) -> None:
    with client.stream("GET", "/api/content", headers={"Accept-Encoding": "gzip"}) as answer:
        packed = b"".join(answer.iter_raw())
    assert json.loads(gzip.decompress(packed)) == client.get("/api/content").json()


def test_a_trial_tells_why_it_was_stopped(client: httpx.Client, finished: Path) -> None:
    trials = acetune.load(finished).trials
    stopped = trials[trials["state"] == "stopped"]
    number = int(stopped.index[0])
    detail = client.get(f"/api/trials/{number}").json()
    assert detail["state"] == "stopped"
    assert stopped.loc[number, "reason"] in json.dumps(detail)
    assert client.get("/api/trials/0").status_code == 404
    assert client.get("/api/trials/41").status_code == 404


def test_a_page_that_is_asked_for_early_comes_with_its_first_figure(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large study takes a while to read; the browser gets the beginning of the page at once."""
    make_study(study, trials=500, reports=40_000)
    asked = threading.Event()
    look, ready = StudyFollower._look, Watcher.ready

    def look_late(follower: StudyFollower) -> bool:
        assert asked.wait(20)  # nothing is read before somebody has asked
        return look(follower)

    async def ready_or_not(watcher: Watcher, seconds: float) -> bool:
        found = await ready(watcher, seconds)
        asked.set()
        return found

    monkeypatch.setattr(StudyFollower, "_look", look_late)
    monkeypatch.setattr(Watcher, "ready", ready_or_not)
    with asking(study) as client:
        early, later = client.get("/"), client.get("/")
    assert early.status_code == later.status_code == 200
    assert "etag" not in early.headers and "etag" in later.headers  # it was early indeed
    for part in ('<section id="answer"', "figure-progress", 'class="still"', "<footer>"):
        assert part in early.text and part in later.text
    assert early.text.count("<figure") == 1
    assert later.text.count("<figure") == len(FIGURES)


def test_who_asks_for_the_content_first_gets_all_of_it(study: Path) -> None:
    make_study(study, trials=500, reports=40_000)
    with asking(study) as client:
        content = client.get("/api/content").json()
        assert [figure["id"] for figure in content["figures"]] == list(FIGURES)
        assert {f"figure-{name}" for name in FIGURES} <= set(content["parts"])


def test_hostile_strings_never_become_markup(study: Path) -> None:
    make_study(study, trials=30, reports=500, constraints=3, hostile=True)
    with asking(study) as client:
        page = client.get("/").text
        assert "window.injected" in page  # it is shown
        for markup in ("<script>window", "<img src=x", "</script><script>w"):
            assert markup not in page
        content = client.get("/api/content")
        assert content.headers["content-type"].startswith("application/json")
        assert any(HOSTILE in c["name"] for c in content.json()["study"]["constraints"])
        trials = content.json()["trials"]
        at = {name: place for place, name in enumerate(trials["columns"])}
        for row in trials["rows"]:
            detail = client.get(f"/api/trials/{row[at['trial']]}")
            assert detail.status_code == 200
            assert detail.headers["content-type"].startswith("application/json")


def test_a_rejected_model_is_not_handed_over(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study.db", trials=30, reports=600, constraints=1)
    fresh = json.dumps({"gap": [0.4321, 0.01]})
    with contextlib.closing(sqlite3.connect(study)) as db, db:
        db.execute("UPDATE confirmations SET status = 'broken', metrics = ?", (fresh,))
    with asking(study) as client:
        answer = client.get("/api/content").json()["answer"]
        page = client.get("/").text
    assert answer["outcome"] == "rejected" and not answer["recommended"]
    assert answer["best"] is answer["load"] is None
    assert answer["rejected"]["fresh"]["constraints"][0]["value"] == 0.4321
    assert "broken: a limit is broken on fresh data" in page and "badge-good" not in page
    assert "feasible, unconfirmed" not in page and ".best.load()" not in page
