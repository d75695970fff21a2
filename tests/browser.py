"""A real browser for tests: Chrome or Chromium without a window, driven by Playwright."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
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
PATIENCE_MS = 60_000  # for machines that have other things to do
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find_browser() -> str | None:
    """The browser that the environment names, or one that is installed."""
    for variable in ("CHROME", "BROWSER_PATH"):
        named = os.environ.get(variable)
        if named and (found := shutil.which(named)):
            return found
    return next(filter(None, map(shutil.which, _NAMES)), None)


@contextlib.contextmanager
def browsing() -> Iterator[Browser]:
    """A browser, closed at the end. Without one the test is skipped, and in CI it fails."""
    found = find_browser()
    if found is None:
        text = (
            "no Chrome or Chromium was found, so the pages were not looked at (apt install "
            "chromium, or set CHROME to one)"
        )
        if os.environ.get("CI") == "true":
            pytest.fail(text)
        pytest.skip(text)
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
            plot.scroll_into_view_if_needed()
            plot.locator(".main-svg").first.wait_for(state="attached")
        self.page.evaluate("scrollTo({top: 0, behavior: 'instant'})")


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
