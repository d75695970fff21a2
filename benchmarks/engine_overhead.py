"""What an engine adds to each report and each trial, beside Ray Tune and Optuna.

The training function does nothing but report. Its curve is the same for every trial, so that no
policy stops one, and it falls for some steps and rises then, so that ACE's gate has something to
do. What a report costs is timed inside the training function, from the return of the first report
to the return of the last but one; its CPU time, of all processes together, is what a run with many
steps takes more than one with two. What a trial costs follows from runs with few and many trials.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import itertools
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import acetune
from benchmarks.common import results_folder, say, tree_cpu_s
from benchmarks.speed import SpeedPage


class Shape(NamedTuple):
    """How large a run is."""

    trials: int
    steps: int

    @property
    def reports(self) -> int:
        """In all."""
        return self.trials * self.steps


class Shapes(NamedTuple):
    """The runs of a contender: many steps, and few or many trials of two steps."""

    deep: Shape
    few: Shape  # as many trials as ``deep``
    many: Shape


class Cost(NamedTuple):
    """What a run is made of, in seconds."""

    start: float
    per_trial: float
    per_report: float
    cpu_per_report: float


# Takes a shape and an empty folder. The training function leaves there, in a file a trial, how many
# seconds it spent on all reports but the first and the last. Returns the seconds of the whole run.
Run: TypeAlias = Callable[[Shape, Path], float]


# -- acetune --------------------------------------------------------------------------------------


def acetune_run(
    workers: int, constrained: bool = True, durability: Literal["process", "power"] = "process"
) -> Run:
    """``tune()`` with ACE and a study file: every report is committed before it is answered."""

    def run(shape: Shape, folder: Path) -> float:
        steps = shape.steps  # what belongs to this module cannot be sent to a worker

        def train(trial: acetune.Trial) -> None:
            began = 0.0
            for step in trial.steps(steps):
                trial.report(loss=0.1 + abs(step - 20) / 10_000)
                if step == 1:
                    began = time.perf_counter()
                elif step == steps - 1:
                    seconds = time.perf_counter() - began
                    (folder / f"{trial.number}.seconds").write_text(str(seconds))

        limit = acetune.Constraint("violation", upper=0.5, check=lambda: 0.1)
        began = time.perf_counter()
        result = acetune.tune(
            train,
            {"x": acetune.uniform(0.0, 1.0)},
            objective="loss",
            mode="min",
            constraints=[limit] if constrained else [],
            searcher="random",
            max_trials=shape.trials,
            workers=workers,
            study=folder / "study.db",
            durability=durability,
            progress=False,
        )
        seconds = time.perf_counter() - began
        require(result.ledger.reports, shape)
        return seconds

    return run


# -- Ray Tune -------------------------------------------------------------------------------------


@contextlib.contextmanager
def ray_started() -> Iterator[None]:
    """A local Ray of two CPUs, silent and with all its files in a folder that goes away."""
    os.environ["RAY_AUTH_MODE"] = "disabled"  # else it says so
    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    import ray

    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        ray.init(
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _temp_dir=folder,
        )
        try:
            yield
        finally:
            ray.shutdown()


def ray_run(at_once: int, scheduler: str = "FIFOScheduler", files: bool = True) -> Run:
    """``Tuner.fit()``; by default it writes results as JSON, CSV and for TensorBoard."""

    def run(shape: Shape, folder: Path) -> float:
        from ray import tune
        from ray.tune import schedulers

        steps = shape.steps

        def train(config: dict[str, float]) -> None:
            began = 0.0
            for step in range(1, steps + 1):
                tune.report({"loss": 0.1 + abs(step - 20) / 10_000})
                if step == 1:
                    began = time.perf_counter()
                elif step == steps - 1:
                    seconds = time.perf_counter() - began
                    (folder / f"{config['x']}.seconds").write_text(str(seconds))

        options = {} if scheduler == "FIFOScheduler" else {"max_t": shape.steps}
        os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "0" if files else "1"
        began = time.perf_counter()
        tuner = tune.Tuner(
            train,
            param_space={"x": tune.uniform(0.0, 1.0)},
            tune_config=tune.TuneConfig(
                metric="loss",
                mode="min",
                num_samples=shape.trials,
                max_concurrent_trials=at_once,
                scheduler=getattr(schedulers, scheduler)(**options),
            ),
            run_config=tune.RunConfig(storage_path=str(folder), verbose=0),
        )
        results = tuner.fit()
        seconds = time.perf_counter() - began
        require(sum(result.metrics["training_iteration"] for result in results), shape)
        return seconds

    return run


# -- Optuna ---------------------------------------------------------------------------------------


def optuna_run(pruner: str, sqlite: bool) -> Run:
    """``study.optimize()`` in this process: ``trial.report`` and ``should_prune``."""

    def run(shape: Shape, folder: Path) -> float:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        count = itertools.count()

        def train(trial: optuna.Trial) -> float:
            trial.suggest_float("x", 0.0, 1.0)
            began = 0.0
            for step in range(1, shape.steps + 1):
                trial.report(0.1 + abs(step - 20) / 10_000, step)
                next(count)
                if trial.should_prune():
                    raise optuna.TrialPruned
                if step == 1:
                    began = time.perf_counter()
                elif step == shape.steps - 1:
                    seconds = time.perf_counter() - began
                    (folder / f"{trial.number}.seconds").write_text(str(seconds))
            return 0.1

        began = time.perf_counter()
        study = optuna.create_study(
            storage=f"sqlite:///{folder / 'optuna.db'}" if sqlite else None,
            sampler=optuna.samplers.RandomSampler(seed=0),
            pruner=getattr(optuna.pruners, pruner)(),
        )
        study.optimize(train, n_trials=shape.trials)
        seconds = time.perf_counter() - began
        require(next(count), shape)
        return seconds

    return run


def require(reports: int, shape: Shape) -> None:
    """Refuse a run that took fewer reports than the others."""
    if reports != shape.reports:
        raise RuntimeError(f"{reports} reports were taken where {shape.reports} were made")


# -- the contenders -------------------------------------------------------------------------------

OURS_1, OURS_2 = "acetune, 1 worker", "acetune, 2 workers"
POWER = "acetune, 1 worker, durability='power'"
RAY_1, RAY_2 = "Ray Tune FIFO, 1 at once", "Ray Tune FIFO, 2 at once"
RAY_BARE = "Ray Tune FIFO, 2 at once, no result files"
SQLITE = "Optuna on SQLite, NopPruner"

_ACETUNE = Shapes(Shape(10, 1_000), Shape(10, 2), Shape(210, 2))
_RAY = Shapes(Shape(2, 500), Shape(2, 2), Shape(4, 2))
_POWER = Shapes(Shape(10, 200), Shape(10, 2), Shape(60, 2))
_SQLITE = Shapes(Shape(10, 60), Shape(10, 2), Shape(60, 2))
_QUICK = Shapes(Shape(1, 20), Shape(1, 2), Shape(2, 2))

Contenders: TypeAlias = dict[str, tuple[Run, Shapes]]

CONTENDERS: Contenders = {
    OURS_1: (acetune_run(1), _ACETUNE),
    OURS_2: (acetune_run(2), _ACETUNE),
    "acetune, 2 workers, no constraint": (acetune_run(2, constrained=False), _ACETUNE),
    POWER: (acetune_run(1, durability="power"), _POWER),
    SQLITE: (optuna_run("NopPruner", True), _SQLITE),
    "Optuna on SQLite, MedianPruner": (optuna_run("MedianPruner", True), _SQLITE),
    "Optuna in memory, NopPruner": (optuna_run("NopPruner", False), _ACETUNE),
    "Optuna in memory, MedianPruner": (optuna_run("MedianPruner", False), _ACETUNE),
}
RAY_CONTENDERS: Contenders = {
    RAY_1: (ray_run(1), _RAY),
    RAY_2: (ray_run(2), _RAY),
    RAY_BARE: (ray_run(2, files=False), _RAY),
    "Ray Tune ASHA, 2 at once": (ray_run(2, "ASHAScheduler"), _RAY),
}


def measure(others: Contenders, on_ray: Contenders, rounds: int) -> dict[str, list[Cost]]:
    """All contenders in turn, round by round. Ray runs only while it is measured."""
    found: dict[str, list[Cost]] = {name: [] for name in [*others, *on_ray]}
    for turn in range(rounds):
        say(f"round {turn + 1} of {rounds}")
        measure_once(others, found)
        with ray_started():
            measure_once(on_ray, found)
    return found


def measure_once(contenders: Contenders, found: dict[str, list[Cost]]) -> None:
    """One round; the first begins with a run of each contender that only warms up."""
    for name, (run, shapes) in contenders.items():
        if not found[name]:
            timed(run, shapes.few)
        cost = solve(shapes, *(timed(run, shape) for shape in shapes))
        found[name].append(cost)
        say(f"{name}: {cost.per_report * 1e6:.0f} us a report")


class Timing(NamedTuple):
    """What was measured of a run, in seconds."""

    wall: float
    cpu: float
    per_report: float  # inside the training function, median over trials


def timed(run: Run, shape: Shape) -> Timing:
    """Run in a folder of its own."""
    gc.collect()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        cpu = tree_cpu_s()
        wall = run(shape, folder)
        cpu = tree_cpu_s() - cpu
        inside = [float(file.read_text()) for file in folder.glob("*.seconds")]
    return Timing(wall, cpu, statistics.median(inside) / (shape.steps - 2) if inside else 0.0)


def solve(shapes: Shapes, deep: Timing, few: Timing, many: Timing) -> Cost:
    """The costs that explain the three runs."""
    per_trial = (many.wall - few.wall) / (shapes.many.trials - shapes.few.trials)
    return Cost(
        start=few.wall - shapes.few.trials * per_trial,
        per_trial=per_trial,
        per_report=deep.per_report,
        cpu_per_report=(deep.cpu - few.cpu) / (shapes.deep.reports - shapes.few.reports),
    )


# -- the benchmark --------------------------------------------------------------------------------


def median(costs: list[Cost], field: str) -> float:
    """Median over the rounds."""
    values: list[float] = [getattr(cost, field) for cost in costs]
    return statistics.median(values)


def ratio(a: list[Cost], b: list[Cost], field: str = "per_report") -> float:
    """Median over the rounds of what a report costs with ``a``, over that with ``b``."""
    pairs = zip(a, b, strict=True)
    ratios: list[float] = [getattr(x, field) / getattr(y, field) for x, y in pairs]
    return statistics.median(ratios)


def add_targets(page: SpeedPage, found: dict[str, list[Cost]]) -> None:
    """What was aimed at, with the same number of trials at once on both sides."""
    times = ratio(found[RAY_BARE], found[OURS_2])
    page.add(
        f"With Ray's result files turned off no file holds its reports; a report of {OURS_2} is",
        f"{times:.1f} times cheaper than that.",
        "",
    )
    for key, mine, theirs in (("1", OURS_1, RAY_1), ("2", OURS_2, RAY_2)):
        compare(page, f"report-{key}", found, mine, theirs, most=0.1)
    compare(page, "report-power", found, POWER, SQLITE, most=1)
    for key, mine in (("1", OURS_1), ("2", OURS_2)):
        compare(page, f"report-{key}-sqlite", found, mine, SQLITE, most=1)
        page.figure(
            f"trial-{key}",
            f"one more trial, {mine}",
            [c.per_trial * 1e3 for c in found[mine]],
            "ms",
        )
        page.figure(
            f"start-{key}", f"starting a study, {mine}", [c.start for c in found[mine]], "s"
        )


def compare(
    page: SpeedPage, name: str, found: dict[str, list[Cost]], mine: str, theirs: str, most: float
) -> None:
    """How long a report keeps the training function waiting, beside a peer."""
    page.figure(
        name,
        f"waiting for a report, {mine}",
        [cost.per_report * 1e3 for cost in found[mine]],
        "ms",
        peer=theirs,
        peers=[cost.per_report * 1e3 for cost in found[theirs]],
        most=most,
    )


def main() -> None:
    """Run, print and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small runs, one round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--results", type=Path, help="folder for the page")
    options = parser.parse_args()
    others, on_ray, rounds = CONTENDERS, RAY_CONTENDERS, options.rounds
    if options.quick:
        others = {name: (CONTENDERS[name][0], _QUICK) for name in (OURS_2, SQLITE)}
        on_ray, rounds = {RAY_2: (RAY_CONTENDERS[RAY_2][0], _QUICK)}, 1

    page = SpeedPage(
        "What an engine adds to training",
        "engine_overhead",
        sys.argv[1:],
        ["core/*", "policies/*", "study/*", "run/*", "trial/*", "interprocess/*"],
    )
    found = measure(others, on_ray, rounds)
    page.add(
        f"Medians of {rounds} rounds in which the contenders take turns.",
        "",
        "- `report us`: how long a call of report keeps the training function waiting",
        "- `CPU us`: CPU time of a report, of all processes together",
        f"- `to Ray's`, `to SQLite's`: `report us` over that of `{RAY_2}`, of `{SQLITE}`",
        "- `trial ms`: what one more trial of two steps adds to a run",
        "- `start s`: the rest of a run",
        "",
        "acetune: `tune()` with ACE, random search, a study file on disk and one constraint (but "
        "where noted).",
        "Ray Tune: a local Ray with two CPUs; the seconds that starting it takes are not in the "
        "table.",
        "Optuna: one process, its trials not isolated from each other. On SQLite it waits for the "
        "disk at each report, as acetune does with `durability='power'`.",
        "",
    )
    rows = []
    for name, costs in found.items():
        row = [name, *(f"{median(costs, f) * 1e6:.0f}" for f in ("per_report", "cpu_per_report"))]
        row += [f"{ratio(costs, found[other]):.3f}" for other in (RAY_2, SQLITE)]
        row += [f"{median(costs, 'per_trial') * 1e3:.1f}", f"{median(costs, 'start'):.2f}"]
        rows.append(row)
    page.table(["", "report us", "CPU us", "to Ray's", "to SQLite's", "trial ms", "start s"], rows)
    if not options.quick:
        add_targets(page, found)
    page.write(results_folder(options.results, options.quick))


if __name__ == "__main__":
    main()
