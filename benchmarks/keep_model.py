"""What it costs to keep a model so that it outlasts a power cut, and to check it again.

A model is a file of random bytes, written into a folder that then gets its name. The contenders
write the same bytes in turns: plainly, with a checksum, and as studies do, with a checksum and
everything synced to disk. Then whole studies that keep a model at each step, each a new best: as
they are, and with the workers' sync left out. And studies that keep none, whose reports outlast a
killed process, or a power cut too. The disk is that of the temporary folder (TMPDIR).
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import acetune
from acetune.study.store import Durability
from acetune.trial.artifacts import Kept, kept_name, read_through, write_folder
from benchmarks.common import results_folder, run_main, say
from benchmarks.speed import SpeedPage

SIZES = {"10 kB": 10_000, "1 MB": 1_000_000, "100 MB": 100_000_000}
PLAIN, CHECKSUM, DURABLE = "written", "with checksum", "with checksum and sync"
WITHOUT, AS_IT_IS = "workers do not sync", "as it is"

Contenders: TypeAlias = dict[str, Callable[[], object]]


def writers(files: Path, data: bytes) -> Contenders:
    """Ways to write a model of these bytes, each to a place of its own."""

    def fill(folder: Path) -> None:
        (folder / "model.pkl").write_bytes(data)

    def target(trial: int) -> Path:
        return files / kept_name(trial, 1, 1, "model")

    def plainly() -> None:
        folder = target(1)
        partial = folder.with_name("partial")
        partial.mkdir(parents=True)
        fill(partial)
        if folder.exists():
            (folder / "model.pkl").unlink()
            folder.rmdir()
        partial.rename(folder)

    return {
        PLAIN: plainly,
        CHECKSUM: lambda: write_folder(target(2), fill, files, durable=False),
        DURABLE: lambda: write_folder(target(3), fill, files),
    }


def in_turns(contenders: Contenders, rounds: int) -> dict[str, list[float]]:
    """Seconds of each, round by round; the first round only warms up."""
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for name, run in contenders.items():
            os.sync()  # none waits for what another has left
            began = time.perf_counter()
            run()
            if turn:
                found[name].append(time.perf_counter() - began)
    return found


def study_seconds(
    size: int, steps: int, sync: bool = True, durability: Durability = "process"
) -> float:
    """Seconds a report in a study that keeps a model of this size at each step; 0: none."""
    with tempfile.TemporaryDirectory() as name:
        taken = Path(name) / "seconds"

        def train(trial: acetune.Trial) -> None:
            model = os.urandom(size)
            if not sync:
                os.fsync = lambda fd: None  # in this worker alone
            began = 0.0
            for step in trial.steps(steps):
                trial.report(1 / step, model=model or None)
                began = began or time.perf_counter()  # without the first
            taken.write_text(str((time.perf_counter() - began) / (steps - 1)))

        result = acetune.tune(
            train,
            {"x": acetune.uniform(0.0, 1.0)},
            objective="loss",
            mode="min",
            searcher="random",
            max_trials=1,
            workers=1,
            study=Path(name) / "study.db",
            durability=durability,
            progress=False,
        )
        if result.ledger.reports != steps or (size and result.best is None):
            raise RuntimeError(f"{result.ledger.reports} reports where {steps} were made")
        return float(taken.read_text())


def reports_outlasting(rounds: int, steps: int) -> dict[str, list[float]]:
    """Seconds a report of each durability, round by round."""
    found: dict[str, list[float]] = {"process": [], "power": []}
    for _ in range(rounds):
        found["process"].append(study_seconds(0, steps))
        found["power"].append(study_seconds(0, steps, durability="power"))
    return found


def ratio(a: Sequence[float], b: Sequence[float]) -> float:
    """Median over the rounds of ``a`` over ``b``."""
    return statistics.median(x / y for x, y in zip(a, b, strict=True))


def ms(seconds: Sequence[float]) -> str:
    """The median in milliseconds."""
    return f"{statistics.median(seconds) * 1e3:,.2f}"


def main(arguments: Sequence[str]) -> None:
    """Run, print and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small models, few rounds")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--results", type=Path, help="folder for the page")
    options = parser.parse_args(arguments)
    rounds = 2 if options.quick else options.rounds
    sizes = dict(list(SIZES.items())[:2]) if options.quick else SIZES

    page = SpeedPage("What keeping a model costs", "keep_model", arguments, ["trial/*", "run/*"])
    page.add(
        f"Milliseconds to write a model into a folder, the median of {rounds} rounds in which the",
        "ways take turns, and the time to check it again in full. In brackets: how many times as",
        "long as only writing it, the median of the ratios within a round.",
        "",
    )
    rows = []
    for name, size in sizes.items():
        data = os.urandom(size)
        with tempfile.TemporaryDirectory() as folder:
            files = Path(folder) / "study.db.files"
            ways = writers(files, data)
            ways[DURABLE]()
            target = files / kept_name(3, 1, 1, "model")
            kept = Kept(target, *read_through(target))
            found = in_turns(ways | {"checked again": kept.fault}, rounds)
        say(f"{name}: done")
        cells = [f"{ms(taken)} ({ratio(taken, found[PLAIN]):.1f})" for taken in found.values()]
        rows.append([name, *cells])
        page.figure(
            f"keep-{name.replace(' ', '').lower()}",
            f"keeping a model of {name}, with checksum and sync to disk",
            [second * 1e3 for second in found[DURABLE]],
            "ms",
            peer="only writing it",
            peers=[second * 1e3 for second in found[PLAIN]],
        )
    page.table(["model", *found], rows)
    page.add(
        "Milliseconds a report in a study (one worker) that keeps a model at each of its steps, as",
        "each is a new best, and deletes the older ones:",
        "",
    )
    steps, rows = 10 if options.quick else 50, []
    for name, size in list(sizes.items())[:2]:
        taken: dict[str, list[float]] = {WITHOUT: [], AS_IT_IS: []}
        for _ in range(max(1, rounds // 3)):
            for way in taken:
                taken[way].append(study_seconds(size, steps, sync=way == AS_IT_IS))
        say(f"studies with models of {name}: done")
        times = ratio(taken[AS_IT_IS], taken[WITHOUT])
        rows.append([name, ms(taken[WITHOUT]), f"{ms(taken[AS_IT_IS])} ({times:.1f})"])
        page.figure(
            f"report-keeping-{name.replace(' ', '').lower()}",
            f"a report that keeps a model of {name}",
            [second * 1e3 for second in taken[AS_IT_IS]],
            "ms",
            peer="without sync to disk",
            peers=[second * 1e3 for second in taken[WITHOUT]],
        )
    page.table(["model", WITHOUT, AS_IT_IS], rows)
    lasting = reports_outlasting(max(1, rounds // 3), 100 if options.quick else 1000)
    say("studies without models: done")
    page.add(
        "Milliseconds a report in a study (one worker) that keeps no model, by what acknowledged",
        "reports outlast (`durability=`):",
        "",
    )
    times = ratio(lasting["power"], lasting["process"])
    cells = [ms(lasting["process"]), f"{ms(lasting['power'])} ({times:.1f})"]
    page.table(["a killed process", "a power cut"], [cells])
    page.figure(
        "report-outlasting-power",
        "a report that outlasts a power cut",
        [second * 1e3 for second in lasting["power"]],
        "ms",
        peer="one that outlasts a killed process",
        peers=[second * 1e3 for second in lasting["process"]],
    )
    page.write(results_folder(options.results, options.quick))


if __name__ == "__main__":
    run_main(main)
