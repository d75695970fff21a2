"""How cost grows with reports, constraints and workers, and what limits a driver of 1,000 workers.

Four parts, the first three measured:

1. A study of 10,000 to 1,000,000 reports: what the driver takes per report (deciding and writing,
   without workers), the memory of driver, searcher and dashboard, going on with the study, and
   ``acetune show``.
2. A checked report with 1 to 20 constraints.
3. ``tune()`` with 1 to 64 workers whose training sleeps, on this machine and as actors of Ray.
4. A simulation of the driver's queue with up to 1,000 workers, from the times measured in 3.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import heapq
import importlib
import json
import logging
import math
import multiprocessing
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import acetune
from acetune import ACE, Constraint, Estimate, Stopper
from acetune.study.coordinator import StudyCoordinator
from acetune.study.store import Store
from acetune.trial.link import Report
from benchmarks.common import peak_rss_bytes, results_folder, rss_bytes, say
from benchmarks.speed import SpeedPage

STEPS, CHECK_EVERY = 200, 10
SLEEP_S = 0.25
POLICY = ACE()
RESUME_S, SHOW_S, IMPORT_S, START_S = 15.0, 1.0, 0.3, 0.5


# -- a study of many reports -----------------------------------------------------------------------


def study(
    path: Path, trials: int, callbacks: Sequence[acetune.StudyCallback] = ()
) -> acetune.StudyResult:
    """Begin the study, or go on with it. It is filled without training."""

    def train(trial: acetune.Trial) -> None:  # what belongs to this module cannot be sent
        trial.report(1.0)

    return acetune.tune(
        train,
        {"x": acetune.uniform(0.0, 1.0)},
        objective="loss",
        mode="min",
        constraints=[Constraint("g", upper=0.5, check=lambda: 0.6)],
        policy=POLICY,
        searcher="forest",
        max_trials=trials,
        workers=1,
        seed=0,
        study=path,
        progress=False,
        callbacks=callbacks,
    )


class Filled(NamedTuple):
    """What filling a study took of the driver."""

    us: float  # CPU time of a report, deciding and writing: over the last tenth
    rss: int  # bytes that the driver has grown by


def fill(path: Path, reports: int, together: int = 1) -> Filled:
    """Report to the coordinator of a study as its driver does, ``together`` per transaction."""
    study(path, 1)
    stopper = Stopper(
        objective="loss", mode="min", constraints=[Constraint("g", upper=0.5)], policy=POLICY
    )
    rng, taken, spent = random.Random(0), 0, [0.0]
    with contextlib.closing(Store.open(path)) as store:
        coordinator = StudyCoordinator(store, stopper)
        with store.understanding():
            coordinator.load()
        gc.collect()
        before = rss_bytes()
        while taken < reports:
            with store.transaction():
                trial = coordinator.add_trial({"x": rng.random()})
                coordinator.begin(trial, STEPS, 0.0)
            floor = rng.random()
            began, step, going = time.process_time(), 0, True
            while going and step < STEPS:
                with store.transaction():
                    for _ in range(together):
                        step += 1
                        report = Report(step, floor + math.exp(-step / 30), primary_cost_s=0.01)
                        if step % CHECK_EVERY == 0:
                            found = {"g": Estimate(1 - floor + rng.gauss(0, 0.05))}
                            report = report._replace(measured=found, check_cost_s={"g": 0.02})
                        going = not coordinator.report(trial, report).ended
                        taken += 1
                        if not going or step == STEPS:
                            break
            spent.append(spent[-1] + time.process_time() - began)
        grown = rss_bytes() - before
    late = spent[-max(2, len(spent) // 10) :]
    return Filled((late[-1] - late[0]) / (len(late) - 1) / (taken / (len(spent) - 1)) * 1e6, grown)


class Resumed(NamedTuple):
    """Seconds until a study goes on, of wall and of CPU time, and until it is over again."""

    wall_s: float
    cpu_s: float
    over_s: float


class _Started(acetune.StudyCallback):
    """Wall and CPU time when a study goes on: all is known, and the next trial could begin."""

    wall = cpu = math.nan

    def on_start(self, *_: Any) -> None:
        """See StudyCallback."""
        self.wall, self.cpu = time.perf_counter(), time.process_time()


def resume(path: Path) -> Resumed:
    """From the call of ``tune()`` on; the study has all its trials already."""
    cpu, wall, started = time.process_time(), time.perf_counter(), _Started()
    study(path, 1, [started])
    ended = time.perf_counter() - wall
    return Resumed(started.wall - wall, started.cpu - cpu, ended)


def searcher_bytes(reports: int) -> int:
    """What the forest takes beside the history, its trees grown."""
    from benchmarks.suggestion_cost import Study

    known = Study(reports)
    gc.collect()
    before = rss_bytes()
    searcher = known.searcher("forest")
    searcher.ask(len(known.params) + 1)
    return max(peak_rss_bytes(), rss_bytes()) - before


def apart(work: Callable[..., Any], *arguments: Any) -> Any:
    """Done in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def command_s(*words: str) -> float:
    """Wall seconds of a command."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=False)
    return time.perf_counter() - began


def dashboard_mb(path: Path) -> float:
    """Peak memory of the dashboard's server, once it has shown the study."""
    command = [sys.executable, "-m", "acetune", "dashboard", str(path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+", process.stdout.readline())
            assert found is not None
            urllib.request.urlopen(found[0], timeout=120).read()
            time.sleep(2)  # it goes on reading
            status = Path(f"/proc/{process.pid}/status").read_text()
        finally:
            process.terminate()
    return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) * 1024 / 1e6


def with_reports(page: SpeedPage, sizes: Sequence[int], folder: Path) -> None:
    """Part 1."""
    rows = []
    for size in sizes:
        path = folder / f"{size}.db"
        say(f"{size:,} reports")
        filled = apart(fill, path, size)
        went_on = apart(resume, path)
        show = command_s("-m", "acetune", "show", str(path))
        searcher, dashboard = apart(searcher_bytes, size), dashboard_mb(path)
        sizes_mb = [filled.rss / 1e6, searcher / 1e6, dashboard, path.stat().st_size / 1e6]
        went = f"{went_on.wall_s:.2f} ({went_on.cpu_s:.2f})"
        times = [f"{filled.us:.0f}", went, f"{went_on.over_s:.2f}", f"{show:.2f}"]
        rows.append([f"{size:,}", *times, *(f"{mb:.0f}" for mb in sizes_mb)])
        page.figure(f"driver-{size}", f"a report in the driver, {size:,} held", [filled.us], "µs")
        page.figure(
            f"resume-{size}",
            f"going on with a study of {size:,} reports",
            [went_on.wall_s],
            "s",
            most=RESUME_S if size == 1_000_000 else None,
        )
        for name, what, mb in zip(
            ("driver", "searcher", "dashboard"),
            ("the driver's history", "the forest", "the dashboard's server"),
            sizes_mb,
            strict=False,
        ):
            page.figure(f"memory-{name}-{size}", f"memory, {what}, {size:,} reports", [mb], "MB")
    page.add(
        f"A study of so many reports under `ace`, a check at every {CHECK_EVERY}th step, made "
        "without workers: `report µs`, CPU time of a report in the driver, deciding and writing "
        "to the study file with a transaction each; `resume s`, from the call of `tune()` until "
        "the study goes on (`on_start`: all was read, and the next configuration could be asked "
        "for; CPU time in brackets); `over s`, until its result was read too, as it has all its "
        "trials; `show s`, the whole command. Memory in MB: the driver's history, the "
        "forest with its trees grown, the dashboard's server at most; and the study file.",
        "",
    )
    head = [
        "reports",
        "report µs",
        "resume s",
        "over s",
        "show s",
        "driver",
        "forest",
        "dashboard",
        "file",
    ]
    page.table(head, rows)


def show_half_a_million(page: SpeedPage, folder: Path, quick: bool, rounds: int) -> None:
    """``acetune show``, on the study that the report and the dashboard are measured on, too."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    synthetic: Any = importlib.import_module("synthetic_study")

    size = 10_000 if quick else 500_000
    path = synthetic.make_study(folder / "show.db", trials=size // 100, reports=size)
    taken = [command_s("-m", "acetune", "show", str(path)) for _ in range(rounds)]
    name = f"`acetune show`, a study of {size:,} reports"
    page.figure("show", name, taken, "s", most=SHOW_S)


def starting(page: SpeedPage, rounds: int) -> None:
    """Importing, and a worker's start."""
    empty = [command_s("-c", "pass") for _ in range(rounds)]
    full = [command_s("-c", "import acetune") for _ in range(rounds)]
    page.figure(
        "import",
        "`import acetune`",
        [b - a for a, b in zip(empty, full, strict=True)],
        "s",
        most=IMPORT_S,
    )
    found = [workers_run(1, 1, 0.0).first_s for _ in range(rounds)]
    what = "from the call of `tune()` to the first line of `train` in a worker"
    page.figure("worker-start", what, found, "s", most=START_S)


# -- constraints -----------------------------------------------------------------------------------


def with_constraints(page: SpeedPage, numbers: Sequence[int], reports: int) -> None:
    """Part 2."""
    rows = []
    for number in numbers:
        limits = [Constraint(f"g{i}", upper=0.5) for i in range(number)]
        stopper = Stopper(
            objective="loss", mode="min", constraints=limits, policy=ACE(interval=1, gate=False)
        )
        rng, spent = random.Random(0), 0.0
        for trial in range(reports // 20):
            handle = stopper.start(trial, 20)
            for step in range(1, 21):
                values = {limit.name: rng.random() for limit in limits}
                began = time.process_time()
                handle.observe(step, rng.random(), values, 0.02, 0.01)
                spent += time.process_time() - began
                handle.record.state = "running"
        us = spent / reports * 1e6
        rows.append([str(number), f"{us:.0f}"])
        page.figure(f"constraints-{number}", f"a checked report, {number} constraints", [us], "µs")
    page.add(f"CPU time of a checked report, by constraints ({reports:,} reports held):", "")
    page.table(["constraints", "µs"], rows)


# -- workers ---------------------------------------------------------------------------------------


class Run(NamedTuple):
    """What a study with many workers took."""

    first_s: float  # from the call to the first line of the first trial
    all_s: float  # until all workers were at work
    waits: list[float]  # of the reports
    driver_us: float  # CPU time of the driver per report
    worker_mb: float


class _Clock(acetune.StudyCallback):
    """The driver's CPU time at each report."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def on_report(self, *_: Any) -> None:
        """See StudyCallback."""
        self.seconds.append(time.process_time())

    @property
    def late_us(self) -> float:
        """Microseconds per report over the second half of them: all workers are there by then."""
        late = self.seconds[len(self.seconds) // 2 :]
        return (late[-1] - late[0]) / max(1, len(late) - 1) * 1e6


def workers_run(workers: int, steps: int, sleep_s: float, engine: Any = "local") -> Run:
    """A trial for each worker, whose training sleeps."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def sleeping(trial: acetune.Trial) -> None:
            began, waits = time.time(), []
            for step in trial.steps(steps):
                time.sleep(sleep_s)
                asked = time.perf_counter()
                trial.report(1 / step)
                waits.append(time.perf_counter() - asked)
            status = Path("/proc/self/status").read_text()
            mb = int(status.split("VmRSS:")[1].split()[0]) * 1024 / 1e6
            (folder / f"{trial.number}.json").write_text(json.dumps([began, waits, mb]))

        called, clock = time.time(), _Clock()
        acetune.tune(
            sleeping,
            {"x": acetune.uniform(0.0, 1.0)},
            objective="loss",
            mode="min",
            policy="none",
            searcher="forest",
            max_trials=workers,
            workers=workers,
            engine=engine,
            seed=0,
            study=folder / "study.db",
            progress=False,
            callbacks=[clock],
        )
        found = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    starts = sorted(began - called for began, _, _ in found)
    waits = sorted(wait for _, each, _ in found for wait in each)
    mb = statistics.median(mb for *_, mb in found)
    return Run(starts[0], starts[-1], waits, clock.late_us, mb)


@contextlib.contextmanager
def ray_started(cpus: int) -> Iterator[None]:
    """A local Ray that says it has so many CPUs."""
    os.environ["RAY_AUTH_MODE"] = "disabled"  # else it says so
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    import ray

    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        ray.init(
            address="local",
            num_cpus=cpus,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _temp_dir=folder,
        )
        try:
            yield
        finally:
            ray.shutdown()


def with_workers(
    page: SpeedPage, local: Sequence[int], actors: Sequence[int], steps: int
) -> list[float]:
    """Part 3. CPU seconds of the driver per report, with many workers."""
    runs: list[tuple[str, str, int, Run]] = []
    for number in local:
        say(f"{number} workers")
        runs.append(("workers", "on this machine", number, workers_run(number, steps, SLEEP_S)))
    if actors:
        with ray_started(max(actors)):
            for number in actors:
                say(f"{number} actors")
                run = workers_run(number, steps, SLEEP_S, "ray")
                runs.append(("actors", "actors of Ray", number, run))
    rows = []
    for kind, where, number, run in runs:
        median, late = (1e3 * part for part in (statistics.median(run.waits), p95(run.waits)))
        cells = [f"{run.first_s:.2f}", f"{run.all_s:.2f}", f"{median:.2f}", f"{late:.2f}"]
        rows.append([f"{number}, {where}", *cells, f"{run.driver_us:.0f}", f"{run.worker_mb:.0f}"])
        page.figure(
            f"{kind}-{number}",
            f"waiting for a report, {number} workers, {where}",
            [1e3 * wait for wait in (run.waits[0], statistics.median(run.waits), p95(run.waits))],
            "ms",
        )
    page.add(
        f"Trials that sleep for {SLEEP_S:g} s and report, {steps} times; a trial for each worker. "
        "`first` and `all`: seconds from the call of `tune()` until the first trial and the last "
        "one were at work. `wait` and `p95`: how long a report keeps a trial waiting. `driver "
        "µs`: CPU time of the driver per report, in the second half of the run. `MB`: of a worker. "
        "All of it on the processors of this machine.",
        "",
    )
    page.table(["workers", "first s", "all s", "wait ms", "p95 ms", "driver µs", "MB"], rows)
    return [run.driver_us / 1e6 for kind, _, number, run in runs if kind == "workers"]


def p95(values: Sequence[float]) -> float:
    """The 95th percentile of values in order."""
    return values[min(len(values) - 1, int(0.95 * len(values)))]


# -- the model -------------------------------------------------------------------------------------


def simulate_queue(
    workers: int, think_s: float, service_s: float, drivers: int = 1, reports: int = 40_000
) -> tuple[float, float]:
    """Mean seconds that a report waits, and how busy a driver is, where one answers in turn.

    Workers train for an exponential time, report, and wait for the answer. Each driver has its
    share of the workers.
    """
    mine = max(1, workers // drivers)
    rng = random.Random(0)
    arrivals = [(rng.expovariate(1 / think_s), worker) for worker in range(mine)]
    heapq.heapify(arrivals)
    free, waited, busy, now = 0.0, 0.0, 0.0, 0.0
    for _ in range(reports):
        now, worker = heapq.heappop(arrivals)
        begun = max(now, free)
        free = begun + service_s
        waited += free - now
        busy += service_s
        heapq.heappush(arrivals, (free + rng.expovariate(1 / think_s), worker))
    return waited / reports, min(1.0, busy / free)


def model(page: SpeedPage, service_s: float, batched_s: float, numbers: Sequence[int]) -> None:
    """Part 4."""
    page.add(
        f"Simulated, not measured: one driver that answers a report in {service_s * 1e6:.0f} µs "
        "(its CPU time per report, from the table above), workers that train for an exponential "
        "time between reports. Milliseconds that a report waits, and how busy the driver is:",
        "",
    )
    thinks = (0.1, 1.0, 10.0)
    rows = []
    for number in numbers:
        cells = []
        for think in thinks:
            waits, busy = simulate_queue(number, think, service_s)
            cells.append(f"{waits * 1e3:,.1f} ({busy:.0%})")
        rows.append([f"{number:,}", *cells])
    page.table(["workers", *(f"a report every {think:g} s" for think in thinks)], rows)
    rows = []
    ways = {
        "one driver": (service_s, 1),
        "ten reports per transaction": (batched_s, 1),
        "four drivers, a study each": (service_s, 4),
    }
    for way, (seconds, drivers) in ways.items():
        waits, busy = simulate_queue(1_000, 0.1, seconds, drivers)
        most = drivers / seconds
        rows.append([way, f"{most:,.0f}", f"{waits * 1e3:,.1f}", f"{busy:.0%}"])
    page.add("What goes further, with 1,000 workers that report every 0.1 s:", "")
    page.table(["", "reports/s at most", "wait ms", "busy"], rows)
    waits, _ = simulate_queue(1_000, 1.0, service_s)
    page.figure(
        "model-1000",
        "waiting for a report, 1,000 workers, one a second (model)",
        [waits * 1e3],
        "ms",
    )
    page.figure(
        "model-most", "reports that one driver can take (model)", [1 / service_s], "reports/s"
    )


def main() -> None:
    """Run, print and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes; writes nothing")
    parser.add_argument("--results", type=Path, help="folder for the page")
    options = parser.parse_args()
    sizes: Sequence[int] = (10_000, 100_000, 1_000_000)
    local: Sequence[int] = (1, 4, 16, 64)
    actors: Sequence[int] = (1, 4, 8)
    numbers: Sequence[int] = (1, 2, 5, 10, 20)
    steps, rounds = 20, 5
    if options.quick:
        sizes, local, actors, numbers, steps, rounds = (2_000,), (1, 4), (), (1, 5), 5, 1
    measures = ["core/*", "policies/*", "study/*", "run/*", "trial/*", "interprocess/*", "cli/show"]
    page = SpeedPage("How cost grows", "scale", sys.argv[1:], measures)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        starting(page, rounds)
        show_half_a_million(page, folder, options.quick, rounds)
        with_reports(page, sizes, folder)
        single = apart(fill, folder / "single.db", sizes[0])
        batched = apart(fill, folder / "batched.db", sizes[0], 10)
    with_constraints(page, numbers, 20_000 if not options.quick else 400)
    service = with_workers(page, local, actors, steps)[-1]
    saved_s = max(0.0, single.us - batched.us) / 1e6
    model(page, service, max(service - saved_s, service / 10), (1, 10, 100, 300, 1_000))
    page.write(results_folder(options.results, options.quick))


if __name__ == "__main__":
    main()
