"""The report and the dashboard of a large study: sizes, times and memory.

A study file of 5,000 trials and 500,000 reports is made (it is not run), reported on, and shown to
a headless Chromium through the real command; then it goes on changing, as a running study does.

    python benchmarks/report_and_dashboard.py [--quick] [--rounds N] [--results FOLDER]
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from playwright.sync_api import Browser, sync_playwright
from playwright.sync_api import Page as Tab

import acetune
from acetune.study.store import Store
from benchmarks.common import results_folder, say
from benchmarks.speed import SpeedPage

_HERE = Path(__file__).resolve().parent
_OPENS_S, _UPDATES_S, _REPORT_MB = 2.0, 1.0, 6.0
_PATIENCE_MS = 60_000
# When the answer in words, the first figure and its interactive form were on the page, looked for
# at every frame from the first on: a question asked from outside waits while plotly.js runs. What
# is found at one frame counts at the next: then it was painted.
# The first figure comes as a picture, which plotly.js replaces by one that can be moved; figures
# are drawn when they come into view, so it is brought there as soon as its place exists.
_DRAWN = """value => {
    const [times, found] = [window.times = {}, {}];
    const look = () => {
        for (const name of Object.keys(found)) times[name] ??= Date.now() / 1000;
        if (!times.interactive) requestAnimationFrame(look);
        const place = document.querySelector('main .plot');
        if (!place || !document.querySelector('#answer').textContent.includes(value)) return;
        place.scrollIntoView();
        found.answer = true;
        const lines = [...place.querySelectorAll('svg path')];
        if (lines.some((line) => line.getBoundingClientRect().width)) found.figure = true;
        if (place.querySelector('.main-svg path')) found.interactive = true;
    };
    requestAnimationFrame(look);
}"""
_ALL_SHOWN = "() => window.times?.interactive && window.times"
_SHOWN = """value => document.querySelector('#answer')?.textContent.includes(value)
    && {time: Date.now() / 1000}"""


class Shown(NamedTuple):
    """Seconds from entering the address until something was on the page."""

    answer: float  # in words
    figure: float  # the first one, as a picture or drawn by plotly.js
    interactive: float  # the same figure, drawn by plotly.js


class Opened(NamedTuple):
    """A page that was asked for as soon as the command listened."""

    listening: float  # seconds from the start of the command
    shown: Shown

    @property
    def from_command(self) -> float:
        """Seconds from the start of the command to the first figure."""
        return self.listening + self.shown.figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small study; writes nothing")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--results", type=Path)
    given = parser.parse_args()
    trials, reports = (200, 10_000) if given.quick else (5_000, 500_000)
    chromium = find_chromium()
    page = SpeedPage(
        "Report and dashboard",
        Path(__file__).stem,
        sys.argv[1:],
        ["report/*", "report/*/*", "study/*", "cli/*"],
    )
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        study = Path(folder) / "study.db"
        say(f"making a study of {trials} trials and {reports} reports")
        synthetic = load_synthetic()
        synthetic.make_study(study, trials=trials, reports=reports, running=8)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tools = f"plotly {metadata.version('plotly')}, Chromium {browser.version}, headless"
        size = study.stat().st_size / 1e6
        page.add(
            f"{tools}. The study: {trials:,} trials, {reports:,} reports, {size:.0f} MB on disk.",
            f"Medians of {given.rounds} rounds; the slowest in brackets. Load when it began: "
            f"{os.getloadavg()[0]:.1f}.",
            "",
        )
        report_mb = measure_report(page, study, Path(folder) / "report.html", given.rounds)
        with contextlib.closing(Store.open(study)):  # as a driver would: it is running
            opened, again, updates, memory = measure_dashboard(
                browser, study, synthetic, given.rounds
            )
        browser.close()
    show(page, opened, again, updates, memory)
    slowest = [max(shown.answer, shown.figure) for shown in [*again, *(o.shown for o in opened)]]
    page.figure("report-mb", "size of the report", [report_mb], "MB", most=_REPORT_MB)
    page.figure(
        "dashboard-opens",
        "from the address to answer and first figure, also right after the start: the slowest",
        [max(slowest)],
        "s",
        most=_OPENS_S,
    )
    page.figure(
        "dashboard-warm",
        "from the address to answer and first figure, server warm",
        [max(shown.answer, shown.figure) for shown in again],
        "s",
    )
    page.figure(
        "dashboard-interactive",
        "from the address to a figure to move in, server warm",
        [shown.interactive for shown in again],
        "s",
    )
    page.figure(
        "dashboard-updates",
        "from a commit to the page: the slowest",
        [max(updates)],
        "s",
        most=_UPDATES_S,
    )
    page.figure("dashboard-memory", "memory of the dashboard's server", [memory["at most"]], "MB")
    page.write(results_folder(given.results, given.quick))


def measure_report(page: SpeedPage, study: Path, out: Path, rounds: int) -> float:
    """Time and size of the report; the size in MB."""
    took = []
    for number in range(rounds):
        say(f"report, round {number + 1}")
        began = time.monotonic()
        command = [sys.executable, "-m", "acetune", "report", str(study), "-o", str(out)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        took.append(time.monotonic() - began)
    size = out.stat().st_size / 1e6
    page.table(
        ["report", "seconds", "MB"],
        [["`acetune report`, whole process", _seconds(took), f"{size:.2f}"]],
    )
    return size


def measure_dashboard(
    browser: Browser, study: Path, synthetic: Any, rounds: int
) -> tuple[list[Opened], list[Shown], list[float], dict[str, float]]:
    """Opening with a server just started, opening with one that runs, updates, and memory."""
    opened = []
    value = answer_of(study)
    for number in range(rounds):
        say(f"opening, round {number + 1}")
        with fresh_tab(browser) as tab, dashboard(study) as (_, url, began, listening):
            opened.append(Opened(listening - began, drawn(tab, url, value)))
    with dashboard(study) as (process, url, _, _), fresh_tab(browser) as tab:
        drawn(tab, url, value)
        again = []
        for number in range(rounds):
            say(f"opening again, round {number + 1}")
            with fresh_tab(browser) as other:
                again.append(drawn(other, url, value))
        updates = [measure_update(tab, study, synthetic, number) for number in range(2 * rounds)]
        memory = {
            "now": status_mb(process.pid, "VmRSS"),
            "at most": status_mb(process.pid, "VmHWM"),
        }
    return opened, again, updates, memory


def measure_update(tab: Tab, study: Path, synthetic: Any, number: int) -> float:
    """Seconds from the commit of a better checkpoint to its value on the page."""
    say(f"update {number + 1}")
    time.sleep(1.0 + 0.07 * number)  # at another moment between two looks at the file
    best = round(0.95 + 0.001 * number, 4)
    synthetic.append_reports(study, 100, seed=number, best=best)
    committed = time.time()
    found = tab.wait_for_function(_SHOWN, arg=str(best), polling="raf", timeout=_PATIENCE_MS)
    return float(found.json_value()["time"]) - committed


def show(
    page: SpeedPage,
    opened: Sequence[Opened],
    again: Sequence[Shown],
    updates: Sequence[float],
    memory: dict[str, float],
) -> None:
    cold = [each.shown for each in opened]
    rows = [
        ["start of the command to listening", _seconds([each.listening for each in opened])],
        [
            "entering the address right then to the answer on the page",
            _seconds([shown.answer for shown in cold]),
        ],
        ["the same, to its first figure (a picture)", _seconds([shown.figure for shown in cold])],
        ["the same, to the interactive figure", _seconds([shown.interactive for shown in cold])],
        [
            "start of the command to the first figure",
            _seconds([each.from_command for each in opened]),
        ],
        [
            "entering the address to the answer, server warm, browser without cache",
            _seconds([shown.answer for shown in again]),
        ],
        ["the same, to its first figure (a picture)", _seconds([shown.figure for shown in again])],
        ["the same, to the interactive figure", _seconds([shown.interactive for shown in again])],
        ["commit of 100 reports to the new answer on the open page", _seconds(updates)],
    ]
    page.table(["dashboard", "seconds"], rows)
    page.table(
        ["memory of the server", "MB"], [[name, f"{value:.0f}"] for name, value in memory.items()]
    )


# -- a server and a browser -----------------------------------------------------------------------


@contextlib.contextmanager
def dashboard(study: Path) -> Iterator[tuple[subprocess.Popen[str], str, float, float]]:
    """The command: its process, its address, when it was started and when it listened."""
    began = time.monotonic()
    command = [sys.executable, "-m", "acetune", "dashboard", str(study), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+", process.stdout.readline())
            listening = time.monotonic()
            if found is None:
                raise RuntimeError("acetune dashboard did not print its address")
            yield process, found[0], began, listening
        finally:
            process.terminate()


@contextlib.contextmanager
def fresh_tab(browser: Browser) -> Iterator[Tab]:
    """A tab of a browser that has seen nothing before."""
    with contextlib.closing(browser.new_context()) as context:
        yield context.new_page()


def drawn(tab: Tab, url: str, value: str) -> Shown:
    """Open the page; when its answer and its first figure were there."""
    tab.add_init_script(f"({_DRAWN})({value!r})")
    asked = time.time()  # the clock that the browser has too
    tab.goto(url, wait_until="commit", timeout=_PATIENCE_MS)
    found = tab.wait_for_function(_ALL_SHOWN, timeout=_PATIENCE_MS)
    return Shown(**{name: at - asked for name, at in found.json_value().items()})


def answer_of(study: Path) -> str:
    """The best objective, as the page writes it."""
    best = acetune.load(study).best
    assert best is not None
    return f"{best.value:.5g}"


def find_chromium() -> str:
    """The browser on this machine."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if (found := shutil.which(name)) is not None:
            return found
    raise SystemExit("no Chromium was found; on Debian: apt-get install chromium")


def load_synthetic() -> Any:
    """The maker of study files, which the tests use too."""
    sys.path.insert(0, str(_HERE.parent / "tests"))
    return importlib.import_module("synthetic_study")


def status_mb(pid: int, field: str) -> float:
    """Memory of a process in MB, as the kernel counts it."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024 / 1e6
    raise OSError(f"/proc/{pid}/status has no {field}")


def _seconds(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({max(values):.2f})"


if __name__ == "__main__":
    main()
