"""What AceScheduler adds to Ray Tune, beside FIFO and Ray's ASHA, with 1 to 16 trials at once.

All trials report the same curve, which improves at every step: no scheduler stops one, and every
report that is checked moves the trial's best, which is the most expensive case for the broadcast. A
run is one experiment. Its trials make a few reports, wait for each other, make those that are
timed, wait for each other again, and end: starting and ending trials is not in the times.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import results_folder, say
from benchmarks.speed import SpeedPage

os.environ["RAY_AUTH_MODE"] = "disabled"  # else it says so
os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"

import ray
from ray import tune
from ray.tune import schedulers
from ray.tune.callback import CallbackList

import acetune
import acetune.ray
from acetune.ray.broadcast import Broadcast, Publisher, View

AT_ONCE = (1, 4, 16)  # trials
WARM_UP = 4  # reports of a trial before those that are timed
WORKERS = 1_000  # of the cluster that is modelled


class Shape(NamedTuple):
    """How large a run is."""

    trials: int  # all at once
    timed: int  # reports of a trial

    @property
    def steps(self) -> int:
        """Of a trial; the last one ends it, and is not timed."""
        return WARM_UP + self.timed + 1


def shape_of(at_once: int, reports: int) -> Shape:
    """About so many timed reports in all."""
    return Shape(at_once, max(reports // at_once, 5))


# -- the trials -----------------------------------------------------------------------------------


class Watch:
    """Times the reports of a trial, together with the other trials of its run."""

    def __init__(self, folder: Path, shape: Shape) -> None:
        self._folder, self._shape = folder, shape
        self._began = 0.0
        self.reads = 0  # of the broadcast

    def before(self, step: int) -> None:
        """Step begins."""
        if step == WARM_UP + 1:
            self._meet("ready")
            self._began, self.reads = time.monotonic(), 0  # one clock for all processes
        elif step == self._shape.steps:
            found = [self._began, time.monotonic(), self.reads]
            (self._folder / f"{os.getpid()}.times").write_text(json.dumps(found))
            self._meet("done")

    def _meet(self, place: str) -> None:
        """Wait until all trials are here."""
        (self._folder / f"{os.getpid()}.{place}").touch()
        while len(list(self._folder.glob(f"*.{place}"))) < self._shape.trials:
            time.sleep(0.02)


def plain_trainable(folder: Path, shape: Shape) -> Callable[[dict[str, Any]], None]:
    """Reports to Ray Tune; the constraint's value is a metric among others."""

    def train(config: dict[str, Any]) -> None:
        watch = Watch(folder, shape)
        for step in range(1, shape.steps + 1):
            watch.before(step)
            tune.report({"loss": 1 / step, "violation": 0.1})

    return train


def ace_trainable(folder: Path, shape: Shape) -> Callable[[dict[str, Any]], None]:
    """Reports through :func:`acetune.ray.trial`, which makes the check where that is due."""

    def train(config: dict[str, Any]) -> None:
        watch = Watch(folder, shape)
        with acetune.ray.trial(total_steps=shape.steps) as trial:
            count_reads(trial, watch)
            for step in trial.steps():
                watch.before(step)
                trial.report(loss=1 / step, constraints={"violation": lambda: 0.1})

    return train


def count_reads(trial: Any, watch: Watch) -> None:
    """Have the watch know how often the trial reads the broadcast."""
    link = trial._link
    while not hasattr(link, "_reader"):  # links wrap each other
        link = link._link
    reader = link._reader
    found = reader._found  # called once for every read

    def counted() -> bool:
        watch.reads += 1
        return bool(found())

    reader._found = counted


# -- the driver -----------------------------------------------------------------------------------


class Call(NamedTuple):
    """A call that Tune's loop makes, or is part of one."""

    kind: str
    at: float
    seconds: float
    cpu_s: float  # of the driver up to then


RESULT, CHOOSE = "on_trial_result", "choose_trial_to_run"
FILES, PUBLISH = "result files", "publish"
_calls: list[Call] = []


def noted(kind: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, with its calls noted."""

    def call(*arguments: Any, **options: Any) -> Any:
        began = time.monotonic()
        answer = method(*arguments, **options)
        _calls.append(Call(kind, began, time.monotonic() - began, time.process_time()))
        return answer

    return call


def timed(scheduler: Any) -> Any:
    """The scheduler, with the calls noted that Tune's loop makes of it."""

    class Timed(scheduler):  # type: ignore[misc]  # ray is not typed
        def on_trial_result(self, *arguments: Any) -> Any:
            return noted(RESULT, super().on_trial_result)(*arguments)

        def choose_trial_to_run(self, *arguments: Any) -> Any:
            return noted(CHOOSE, super().choose_trial_to_run)(*arguments)

    return Timed


@contextlib.contextmanager
def driver_watched() -> Iterator[None]:
    """Note what goes to the broadcast, and the time that Tune's own callbacks take."""
    watched: list[tuple[type, str, str]] = [
        (Publisher, "publish", PUBLISH),
        (CallbackList, "on_trial_result", FILES),
    ]
    methods = [getattr(owner, name) for owner, name, _ in watched]
    for (owner, name, kind), method in zip(watched, methods, strict=True):
        setattr(owner, name, noted(kind, method))
    try:
        yield
    finally:
        for (owner, name, _), method in zip(watched, methods, strict=True):
            setattr(owner, name, method)


# -- the contenders -------------------------------------------------------------------------------

Trainable: TypeAlias = Callable[[Path, Shape], Callable[[dict[str, Any]], None]]


class Contender(NamedTuple):
    """A scheduler, and a trainable that reports as it wants."""

    scheduler: Callable[[Shape], Any]
    trainable: Trainable


def ace(policy: acetune.Policy) -> Contender:
    """AceScheduler with one constraint."""
    limit = acetune.Constraint("violation", upper=0.5)
    scheduler = timed(acetune.ray.AceScheduler)
    return Contender(lambda _: scheduler([limit], policy), ace_trainable)


FIFO, ASHA = "FIFO", "ASHA"
UNCHECKED, CHECKED = "Ace, no check due", "Ace, a check at each report"
DEFAULT = "Ace, the default policy"
FIGURES = {UNCHECKED: "ray-unchecked", CHECKED: "ray-checked", DEFAULT: "ray-default"}
TARGETS = {UNCHECKED: 1.15, CHECKED: 1.3}  # of ASHA's time
CONTENDERS = {
    FIFO: Contender(lambda _: timed(schedulers.FIFOScheduler)(), plain_trainable),
    ASHA: Contender(
        lambda shape: timed(schedulers.ASHAScheduler)(max_t=shape.steps), plain_trainable
    ),
    UNCHECKED: ace(acetune.ACE(interval="end")),
    CHECKED: ace(acetune.ACE(interval=1, gate=False)),
    DEFAULT: ace(acetune.Adaptive()),
}


class Cost(NamedTuple):
    """Of one timed report, in seconds."""

    wall: float  # of the experiment
    waiting: float  # of the trial that reports
    driver_cpu: float
    scheduler: float  # of the driver, inside the scheduler
    files: float  # of the driver, in its result files
    reads: float  # of the broadcast, a number
    published: float  # in the broadcast, a number


def run(contender: Contender, shape: Shape) -> Cost:
    """One experiment."""
    _calls.clear()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        results = tune.Tuner(
            contender.trainable(folder, shape),
            tune_config=tune.TuneConfig(
                metric="loss",
                mode="min",
                num_samples=shape.trials,
                scheduler=contender.scheduler(shape),
            ),
            run_config=tune.RunConfig(storage_path=name, name="experiment", verbose=0),
        ).fit()
        made = sum(result.metrics["training_iteration"] for result in results)
        if made != shape.trials * shape.steps:
            raise RuntimeError(f"{made} of {shape.trials * shape.steps} reports were made")
        found = [json.loads(file.read_text()) for file in folder.glob("*.times")]
    return solve(found, shape)


def solve(found: list[list[float]], shape: Shape) -> Cost:
    """What a report cost, from the notes of the trials and of the driver."""
    reports = shape.trials * shape.timed
    began, ended = min(trial[0] for trial in found), max(trial[1] for trial in found)
    calls = [call for call in _calls if began <= call.at <= ended]
    seconds = dict.fromkeys((RESULT, CHOOSE, FILES, PUBLISH), 0.0)
    for call in calls:
        seconds[call.kind] += call.seconds
    taken = [call.cpu_s for call in calls if call.kind == RESULT]
    return Cost(
        wall=(ended - began) / reports,
        waiting=statistics.median(trial[1] - trial[0] for trial in found) / shape.timed,
        driver_cpu=(taken[-1] - taken[0]) / (len(taken) - 1),
        scheduler=(seconds[RESULT] + seconds[CHOOSE]) / reports,
        files=seconds[FILES] / reports,
        reads=sum(trial[2] for trial in found) / reports,
        published=sum(call.kind == PUBLISH for call in calls) / reports,
    )


CostsByLevel: TypeAlias = dict[int, dict[str, list[Cost]]]


def measure(levels: Sequence[int], reports: int, rounds: int) -> CostsByLevel:
    """All contenders in turn, at each level, round by round; each round in another order."""
    found: CostsByLevel = {level: {name: [] for name in CONTENDERS} for level in levels}
    names = list(CONTENDERS)
    for turn in range(rounds):
        for level in levels:
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                cost = run(CONTENDERS[name], shape_of(level, reports))
                found[level][name].append(cost)
                where = f"round {turn + 1}, {level} at once, {name}"
                say(f"{where}: {cost.wall * 1e3:.2f} ms a report")
    return found


def broadcast_reads_a_second(reads: int) -> float:
    """How many reads a broadcast serves, all asked by one process."""
    best = tuple((float(k), f"trial_{k:05d}") for k in range(3))
    costs = acetune.Stopper(objective="loss", mode="min").history.costs
    broadcast = ray.remote(Broadcast).options(num_cpus=0).remote([None])
    ray.get(broadcast.publish.remote(View(costs, best, 0.0, 0.0)))
    ray.get([broadcast.read.remote() for _ in range(50)])
    began = time.perf_counter()
    ray.get([broadcast.read.remote() for _ in range(reads)])
    seconds = time.perf_counter() - began
    ray.kill(broadcast)
    return reads / seconds


# -- the page -------------------------------------------------------------------------------------


def median(costs: list[Cost], field: str) -> float:
    """Median over the rounds."""
    values: list[float] = [getattr(cost, field) for cost in costs]
    return statistics.median(values)


def ratios(a: list[Cost], b: list[Cost]) -> list[float]:
    """Round by round: what a report costs with ``a``, over that with ``b``."""
    return sorted(x.wall / y.wall for x, y in zip(a, b, strict=True))


def spread(values: list[float], form: str = ".2f") -> str:
    """Median, and the range."""
    values = sorted(values)
    return f"{statistics.median(values):{form}} ({values[0]:{form}} to {values[-1]:{form}})"


def add_times(page: SpeedPage, found: CostsByLevel) -> None:
    """Wall time of a report."""
    rows, ratio_rows = [], []
    others = [name for name in CONTENDERS if name != ASHA]
    for level, costs in found.items():
        walls = {name: [cost.wall * 1e3 for cost in costs[name]] for name in costs}
        rows.append([str(level), *(spread(walls[name], ".1f") for name in CONTENDERS)])
        compared = [spread(ratios(costs[name], costs[ASHA])) for name in others]
        ratio_rows.append([str(level), *compared])
    page.add("Wall time of a report in ms, median (and range) over the rounds:", "")
    page.table(["at once", *CONTENDERS], rows)
    page.add("The same, over that of ASHA in the same round:", "")
    page.table(["at once", *others], ratio_rows)


def add_driver(page: SpeedPage, found: CostsByLevel) -> None:
    """Where the driver's time goes."""
    rows = []
    for level, costs in found.items():
        for name in CONTENDERS:
            row = [f"{level} at once, {name}", f"{median(costs[name], 'driver_cpu') * 1e6:.0f}"]
            row += [f"{median(costs[name], field) * 1e6:.0f}" for field in ("scheduler", "files")]
            row += [f"{median(costs[name], field):.2f}" for field in ("reads", "published")]
            rows.append([*row, f"{median(costs[name], 'waiting') * 1e3:.1f}"])
    page.add(
        "What a report takes of the driver, and of others:",
        "",
        "- `driver CPU us`: CPU time of the whole driver process",
        "- `scheduler us`: time of Tune's loop in the scheduler (`on_trial_result` and "
        "`choose_trial_to_run`)",
        "- `files us`: time of Tune's loop in its callbacks, which write JSON, CSV and TensorBoard "
        "files; each number in a result takes its part, and acetune's results have more of them",
        "- `reads`, `published`: how often a worker reads the broadcast, and the driver writes it",
        "- `waiting ms`: how long the trial waits for its report",
        "",
    )
    head = ["", "driver CPU us", "scheduler us", "files us", "reads", "published", "waiting ms"]
    page.table(head, rows)


def add_model(page: SpeedPage, costs: dict[str, list[Cost]], level: int, broadcast: float) -> None:
    """What limits a large cluster."""
    page.add(f"### What limits a cluster of {WORKERS:,} workers", "")
    files = median(costs[ASHA], "files")
    rows = []
    shares = {}
    for name in CONTENDERS:
        cpu = median(costs[name], "driver_cpu")
        more = max(0.0, median(costs[name], "files") - files)  # for the numbers we add
        ours = (median(costs[name], "scheduler") + more) / cpu
        reads = median(costs[name], "reads") / cpu / broadcast
        row = [name, f"{1 / cpu:.0f}", f"{WORKERS * cpu:.1f}"]
        if name in (FIFO, ASHA):
            rows.append([*row, "", ""])
        else:
            shares[name] = ours, reads
            rows.append([*row, f"{100 * ours:.0f}", f"{100 * reads:.1f}"])
    page.add(
        "Modelled, not measured: one driver takes all reports, one after the other, and so at most "
        f"one in each `driver CPU us` (with {level} at once, as measured above). Workers that "
        "report more often wait for it. Left out: the network, and what Tune's loop takes more "
        "with more live trials than were measured (compare the rows above).",
        "",
        "- `reports/s`: what one driver can take",
        f"- `every s`: how often each of {WORKERS:,} workers can report then",
        "- `ours %`: time in the scheduler, and what the files take more than with ASHA, of the "
        "driver's time",
        f"- `broadcast %`: how busy the broadcast is then; it serves {broadcast:,.0f} reads a "
        "second (measured, one process asking)",
        "",
    )
    page.table(["", "reports/s", "every s", "ours %", "broadcast %"], rows)
    ours, reads = (max(share[k] for share in shares.values()) for k in (0, 1))
    if reads >= 1:
        limit = "The broadcast is the limit: it cannot serve what the driver takes"
    elif ours >= 0.5:
        limit = "acetune's part of the driver is the limit: it takes more than Tune's own"
    else:
        limit = "Tune's own loop is the limit: the greater part of the driver's time is its own"
    page.add(
        f"{limit} (ours: at most {100 * ours:.0f} %; broadcast: {100 * reads:.0f} % busy).", ""
    )


def main() -> None:
    """Run, print and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small runs, one round")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--results", type=Path, help="folder for the page")
    options = parser.parse_args()
    levels: Sequence[int] = AT_ONCE
    reports, rounds, reads = 320, options.rounds, 5_000
    if options.quick:
        levels, reports, rounds, reads = (1, 3), 30, 1, 200

    page = SpeedPage(
        "What AceScheduler adds to Ray Tune",
        "ray_overhead",
        sys.argv[1:],
        ["core/*", "policies/*", "study/*", "ray/*", "trial/*"],
    )
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        ray.init(
            address="local",
            num_cpus=max(levels),  # logical ones: each trial takes one
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _temp_dir=folder,
        )
        try:
            run(CONTENDERS[CHECKED], shape_of(1, 10))  # warms up
            with driver_watched():
                found = measure(levels, reports, rounds)
            broadcast = broadcast_reads_a_second(reads)
        finally:
            ray.shutdown()

    page.add(
        f"{rounds} rounds in which the contenders take turns. A run is an experiment in which all "
        f"trials are at work at once and make about {reports} timed reports together, from when "
        "all are ready to when the last is done; starting and ending trials is not in it. Each "
        "report waits for the scheduler's decision. Tune writes its result files as it does by "
        "default. All trials report the same curve, so that no scheduler stops one; a run with a "
        "report missing fails.",
        "",
        f"- `{UNCHECKED}`: `acetune.ray.trial` with a constraint that is checked at the last step",
        f"- `{CHECKED}`: the check (which costs nothing itself) at every report; each is valid and "
        "moves the trial's best, so each is published in the broadcast",
        f"- `{DEFAULT}`: checked where `acetune.Adaptive` asks for it",
        "- Each report is in the study file before its trial goes on; FIFO and ASHA keep no such "
        "file.",
        "",
    )
    add_times(page, found)
    add_driver(page, found)
    add_model(page, found[max(levels)], max(levels), broadcast)
    for level in levels:
        for name, anchor in FIGURES.items():
            page.figure(
                f"{anchor}-{level}",
                f"a report in a Tuner, {level} at once, {name}",
                [cost.wall * 1e3 for cost in found[level][name]],
                "ms",
                peer="Ray's ASHA",
                peers=[cost.wall * 1e3 for cost in found[level][ASHA]],
                most=TARGETS.get(name),
            )
    page.write(results_folder(options.results, options.quick))


if __name__ == "__main__":
    main()
