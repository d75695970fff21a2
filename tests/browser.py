"""A real browser for tests: Chrome or Chromium without a window, driven by Playwright."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",  # tests run as root in containers
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
PATIENCE_MS = 100_000  # for machines that have other things to do
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find_browser() -> str | None:
    """The browser that the environment names, or one that is installed."""
    named = os.environ.get("BROWSER_PATH")
    if named and (found := shutil.which(named)):
        return found
    return next(filter(None, map(shutil.which, _NAMES)), None)


def browser_or_skip() -> str:
    """A browser. Without one the test is skipped, and in CI it fails."""
    found = find_browser()
    if found is not None:
        return found
    text = (
        "no Chrome or Chromium was found, so the pages were not looked at (apt install "
        "chromium, or set BROWSER_PATH to one)"
    )
    if os.environ.get("CI") == "true":
        pytest.fail(text)
    pytest.skip(text)


@contextlib.contextmanager
def browsing() -> Iterator[Browser]:
    """A browser, closed at the end; see :func:`browser_or_skip`."""
    found = browser_or_skip()
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page, and everything about it that should not happen: see :meth:`quiet`."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda m: self._console(m.type, m.text))
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (self.complaints.append("a dialog"), dialog.dismiss()))
        page.on("request", lambda request: self.requests.append(request.url))
        # violations of the content-security policy, of which some are not on the console
        page.add_init_script(
            "document.addEventListener('securitypolicyviolation', (event) => "
            "console.error('policy: ' + event.violatedDirective + ' ' + event.blockedURI))"
        )

    def _console(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(f"{kind}: {text}")

    def see_everything(self) -> None:
        """Go from figure to figure as a reader does, so that all are drawn."""
        for plot in self.page.locator("main .plot:visible").all():
            # not scroll_into_view_if_needed, which waits until nothing moves any more
            plot.evaluate("place => place.scrollIntoView({block: 'center', behavior: 'instant'})")
            plot.locator(".main-svg").first.wait_for(state="attached")
        self.page.evaluate("scrollTo({top: 0, behavior: 'instant'})")

    def serious_findings(self, where: str = "html", *, contrast: bool = True) -> list[Any]:
        """What axe-core finds; the insides of a figure are one image to a reader.

        Half of the time goes into the contrast of colours, which can be left out.
        """
        context = {"include": [[where]], "exclude": [[".main-svg"]]}
        rules = {} if contrast else {"color-contrast": {"enabled": False}}
        options = {"resultTypes": ["violations"], "rules": rules}
        found = Axe().run(self.page, context, options).response["violations"]
        return [
            (one["id"], [node["html"][:200] for node in one["nodes"][:3]])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]


@contextlib.contextmanager
def opened(
    browser: Browser,
    address: Path | str,
    *,
    width: int = 1280,
    dark: bool = False,
    scripts: bool = True,
) -> Iterator[Watched]:
    """A page in a window of its own."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if dark else "light",
        java_script_enabled=scripts,
        reduced_motion="reduce",
    )
    context.set_default_timeout(PATIENCE_MS)
    try:
        watched = Watched(context.new_page())
        watched.page.goto(address.as_uri() if isinstance(address, Path) else address)
        yield watched
    finally:
        context.close()
