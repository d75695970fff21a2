"""The live page in a real browser."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Route, expect

import acetune
from acetune.study.store import Store
from browser import Watched, browsing, opened
from dashboard.serving import serving, until
from dashboard.test_following import tuning
from synthetic_study import HOSTILE, append_reports, make_study


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as browser:
        yield browser


@contextlib.contextmanager
def live(browser: Browser, study: Path, **options: object) -> Iterator[Watched]:
    """The live page of a study."""
    with serving(study) as server, opened(browser, server.address.url, **options) as seen:  # type: ignore[arg-type]
        yield seen


def test_a_live_study_moves_without_reload(browser: Browser, study: Path) -> None:
    make_study(study, trials=30, reports=500, running=2)
    with contextlib.closing(Store.open(study)), live(browser, study) as seen:
        page = seen.page
        expect(page.locator("#connection")).to_have_text("Live")
        page.evaluate("window.mark = 1")
        seen.see_everything()
        page.locator("#plot-progress").evaluate("place => place.scrollIntoView()")
        drawn = page.locator("#plot-progress .main-svg").first.inner_html()
        append_reports(study, 20, best=0.987)
        expect(page.locator("#answer")).to_contain_text("0.987")
        expect(page.locator("#numbers")).to_contain_text("520")
        page.wait_for_function(
            "old => document.querySelector('#plot-progress .main-svg').innerHTML !== old", arg=drawn
        )
        append_reports(study, 20, seed=5, best=0.989)
        expect(page.locator("#answer")).to_contain_text("0.989")
        assert page.evaluate("window.mark") == 1
        assert seen.serious_findings() == []
        assert seen.complaints == []


def test_a_real_study_is_seen_to_run_and_to_be_killed(browser: Browser, study: Path) -> None:
    driver = tuning(study, 1000)
    try:
        until(study.exists)
        with live(browser, study) as seen:
            expect(seen.page.locator("#connection")).to_have_text("Live")
            before = seen.page.locator("#numbers").inner_text()
            expect(seen.page.locator("#numbers")).not_to_have_text(before)
            os.kill(driver.pid, signal.SIGKILL)
            driver.wait()
            said = "Up to date. The study is not running."
            expect(seen.page.locator("#connection")).to_have_text(said)
            assert seen.complaints == []
    finally:
        driver.kill()
        driver.wait()


def test_it_finds_a_server_that_was_started_again(browser: Browser, study: Path) -> None:
    make_study(study, trials=20, reports=300, running=2)
    with contextlib.closing(Store.open(study)):
        with serving(study) as server:
            port = server.address.port
            window = opened(browser, server.address.url)
            seen = window.__enter__()
            expect(seen.page.locator("#connection")).to_have_text("Live")
        try:
            expect(seen.page.locator("#connection")).to_contain_text("Connection lost")
            append_reports(study, 5, best=0.976)
            with serving(study, port=port):
                expect(seen.page.locator("#connection")).to_have_text("Live")
                expect(seen.page.locator("#answer")).to_contain_text("0.976")
        finally:
            window.__exit__(None, None, None)


def test_nothing_but_figures_waits_for_plotly(browser: Browser, finished: Path) -> None:
    """It is 5 MB: over a slow line it comes long after the answer."""
    best = acetune.load(finished).best
    assert best is not None
    with serving(finished) as server, opened(browser, "about:blank") as seen:
        page, held = seen.page, list[Route]()
        page.route("**/plotly.js", lambda route: held.append(route))
        page.goto(server.address.url, wait_until="commit")
        expect(page.locator("#answer")).to_contain_text(f"{best.value:.5g}")
        expect(page.locator("#trials-shown")).to_contain_text("1 to 25 of 40")
        expect(page.locator("#connection")).to_have_text("Up to date. The study has ended.")
        page.locator("#plot-progress").evaluate("place => place.scrollIntoView()")
        expect(page.locator("#plot-progress .still")).to_be_in_viewport()  # a picture meanwhile
        assert page.locator(".main-svg").count() == 0
        held[0].continue_()
        page.locator("#plot-progress .main-svg").first.wait_for(state="attached")
        assert page.locator(".still").count() == 0
        assert seen.complaints == []


def test_a_page_that_was_asked_for_early_gets_the_other_figures(
    browser: Browser, study: Path
) -> None:
    make_study(study, trials=500, reports=40_000)
    with live(browser, study) as seen:
        expect(seen.page.locator("main figure")).to_have_count(9)
        expect(seen.page.locator("#what-if figure")).to_have_count(1)
        seen.see_everything()
        assert seen.complaints == []


def test_plotly_is_run_when_the_page_has_been_painted(browser: Browser, finished: Path) -> None:
    """It keeps the browser busy for a second or two; until then nothing could be seen."""
    with serving(finished) as server, opened(browser, "about:blank") as seen:
        seen.page.add_init_script(
            "document.addEventListener('load', (event) => {"
            " if (event.target.src?.endsWith('plotly.js')) window.ran = performance.now(); }, true)"
        )
        seen.page.goto(server.address.url)
        seen.page.wait_for_function("() => window.ran")
        painted = (
            "performance.getEntriesByName('first-contentful-paint').map((e) => e.startTime)[0]"
        )
        assert seen.page.evaluate(f"{painted} < window.ran")
        assert [url for url in seen.requests if url.endswith("plotly.js")] == [
            f"{server.address.url}static/plotly.js"  # once: what was fetched early is what is run
        ]
        assert seen.complaints == []


def test_a_page_that_nobody_sees_does_not_listen(browser: Browser, study: Path) -> None:
    """A browser has six connections for a server: a seventh page would wait for ever."""
    hide = (
        "hidden => { Object.defineProperty(document, 'hidden', {get: () => hidden, "
        "configurable: true}); document.dispatchEvent(new Event('visibilitychange')); }"
    )
    make_study(study, trials=20, reports=300, running=2)
    with contextlib.closing(Store.open(study)), live(browser, study) as seen:
        page = seen.page
        expect(page.locator("#connection")).to_have_text("Live")
        streams = [url for url in seen.requests if url.endswith("api/events")]
        with page.expect_event("requestfailed", lambda asked: asked.url in streams):
            page.evaluate(hide, True)
        append_reports(study, 5, best=0.976)
        page.evaluate(hide, False)
        expect(page.locator("#answer")).to_contain_text("0.976")
        expect(page.locator("#connection")).to_have_text("Live")


def test_a_study_that_goes_away_is_said_to_be(browser: Browser, study: Path) -> None:
    with live(browser, study) as seen:
        expect(seen.page.locator("main")).to_contain_text("there is no study file")
        make_study(study, trials=20, reports=300)
        expect(seen.page.locator("#answer")).to_contain_text("trial")  # it looked again by itself
        study.unlink()
        expect(seen.page.locator("#connection")).to_contain_text("no study file")
        expect(seen.page.locator("#answer")).to_contain_text("trial")  # what was known stays


def test_a_trial_tells_what_explain_tells(browser: Browser, finished: Path) -> None:
    trials = acetune.load(finished).trials
    number = int(trials[trials["state"] == "stopped"].index[0])
    command = [sys.executable, "-m", "acetune", "explain", str(finished), str(number)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    with live(browser, finished) as seen:
        page = seen.page
        page.locator(f"#trial-table [data-trial='{number}']").click()
        dialog = page.locator("#trial-dialog")
        expect(dialog).to_contain_text(": in the worst 25%")  # the whole sentence has come
        shown = " ".join(dialog.inner_text().split())
        for line in told.partition("its reports")[0].splitlines():
            if not line.startswith("parameters: "):  # the page has a table of them
                assert " ".join(line.split()) in shown
        dialog.locator(".main-svg").first.wait_for()
        assert seen.complaints == []


def test_a_script_in_a_name_stays_text(browser: Browser, study: Path) -> None:
    make_study(study, trials=25, reports=400, constraints=2, hostile=True, running=1)
    with contextlib.closing(Store.open(study)), live(browser, study) as seen:
        page = seen.page
        seen.see_everything()
        expect(page.locator("#answer")).to_contain_text(HOSTILE[:40])
        for number in page.evaluate(
            "JSON.parse(document.getElementById('content').textContent)"
            ".trials.rows.slice(0, 6).map((row) => row[0])"
        ):
            page.locator(f"#trial-table [data-trial='{number}']").click()
            page.locator("#trial-dialog .main-svg").first.wait_for()
            page.keyboard.press("Escape")
        append_reports(study, 10, best=0.991)
        expect(page.locator("#answer")).to_contain_text("0.991")
        assert page.evaluate("window.injected") is None
        assert page.locator("img[src=x]").count() == 0
        assert seen.complaints == []


def test_with_a_token_the_address_loses_it(browser: Browser, finished: Path) -> None:
    with (
        serving(finished, token="open-sesame") as server,
        opened(browser, server.address.url) as seen,
    ):
        said = "Up to date. The study has ended."
        expect(seen.page.locator("#connection")).to_have_text(said)  # events need it too
        assert seen.page.url == f"http://127.0.0.1:{server.address.port}/"
        assert seen.page.evaluate("document.cookie") == ""
        assert httpx.get(seen.page.url).status_code == 401
        assert seen.complaints == []
