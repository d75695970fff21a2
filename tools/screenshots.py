"""Make the pictures in docs/screenshots: the live dashboard and the report.

    python tools/screenshots.py [--seconds 45] [--out docs/screenshots]

Runs ``acetune demo`` in a terminal of its own and looks at it while it runs and afterwards. Needs
the development extras, tmux, and Chrome or Chromium.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path

from playwright.sync_api import Browser

from acetune.report.dashboard import DashboardServer

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from browser import browsing, opened  # the one that the tests use

COLUMNS, LINES = 104, 30
TMUX = ("tmux", "-L", "acetune-screenshots", "-f", "/dev/null")


def main() -> None:
    """Run the demo and take the pictures."""
    arguments = argparse.ArgumentParser(description="Make the screenshots of the documentation.")
    arguments.add_argument("--seconds", type=float, default=45.0, help="how long the demo tunes")
    arguments.add_argument("--out", type=Path, default=Path("docs/screenshots"))
    given = arguments.parse_args()
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    # from inside the folder, so that the paths in the pictures are short
    with tempfile.TemporaryDirectory() as name, chdir(name), browsing() as browser:
        folder = Path()
        with terminal(f"{sys.executable} -m acetune demo --seconds {given.seconds}", folder):
            study = folder / "demo.db"
            wait(study.exists, 120)
            time.sleep(0.4 * given.seconds)
            draw_dashboard(browser, study, out)
            report = folder / "demo.html"
            wait(report.exists, given.seconds + 120)
        draw_report(browser, report.resolve(), out)
    for picture in sorted(out.glob("*.png")):
        print(picture)


@contextmanager
def terminal(command: str, folder: Path, lines: int = LINES) -> Iterator[None]:
    """A command in a terminal that nobody sees."""
    size = ("-x", str(COLUMNS), "-y", str(lines))
    new = ("new-session", "-d", *size, "-c", str(folder.resolve()), f"{command}; sleep 600")
    subprocess.run([*TMUX, *new], check=True)
    try:
        yield
    finally:
        subprocess.run([*TMUX, "kill-server"], check=False)


def wait(ready: Callable[[], bool], seconds: float) -> None:
    """Until something is so; an error if it takes too long."""
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError(f"nothing came in {seconds:.0f} s")
        time.sleep(0.2)


def draw_dashboard(browser: Browser, study: Path, out: Path) -> None:
    """The live page of a study that runs, and a trial that was stopped."""
    server = DashboardServer(study, port=0)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait(lambda: server.address.port != 0, 20)
        with opened(browser, f"http://127.0.0.1:{server.address.port}/") as watched:
            page = watched.page
            page.get_by_text("Live", exact=True).wait_for()
            page.set_viewport_size({"width": 1280, "height": 1250})
            # the first figure, the numbers, and the trials that run
            page.locator("#first-figure").evaluate("place => place.scrollIntoView()")
            page.locator("#plot-progress .main-svg").first.wait_for()
            page.locator("#running").wait_for()
            page.screenshot(path=out / "dashboard.png")
            page.set_viewport_size({"width": 1280, "height": 900})
            page.locator("#filter-state").select_option("stopped")
            page.locator("#trial-sort").select_option("steps")
            page.get_by_role("button", name="Reverse").click()  # those with the longest curves
            page.locator("#trial-table [data-trial]").first.click()
            page.locator("dialog .main-svg").first.wait_for()
            page.locator("dialog[open]").screenshot(path=out / "trial.png")
    finally:
        server.stop()
        thread.join(20)


def draw_report(browser: Browser, report: Path, out: Path) -> None:
    """The report: its top, its figures, dark, and on a phone."""
    looks = {"report": (1280, False), "report-dark": (1280, True), "report-phone": (390, False)}
    for name, (width, dark) in looks.items():
        with opened(browser, report, width=width, dark=dark) as watched:
            watched.see_everything()
            watched.page.screenshot(path=out / f"{name}.png")
            if name != "report":
                continue
            for part in ("what-if", "figure-tradeoff", "figure-curves"):
                watched.page.locator(f"#{part}").screenshot(path=out / f"{part}.png")


if __name__ == "__main__":
    main()
