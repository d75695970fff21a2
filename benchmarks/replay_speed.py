"""How many reports a second a replay takes in, beside Syne Tune's simulator on the same curves.

Syne Tune runs in an environment of its own, which is made on first use, and in a process of its
own that lives through all rounds. It replays the very same curves with the same number of workers
and the same simulated budget. Timed is the CPU time: of acetune all of ``simulate()``, of Syne Tune
its loop without its start and end.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import math
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from acetune import ACE, ASHA, Adaptive, Constraint, NoStopping, Policy
from acetune.core.goals import Objective
from acetune.replay.curve_table import CurveTable, Floats, TableConstraint, offsets
from acetune.replay.simulator import simulate
from benchmarks.common import peak_rss_bytes, results_folder, rss_bytes, say
from benchmarks.speed import SpeedPage

WORKERS = 4
LIMIT = 0.25
COST_RATIO = 2.0  # a check costs as much as two steps
LONGEST = 3_000
STEP_S = 60.0  # of the tables that both replay: an epoch

PEER = Path(__file__).resolve().with_name("replay_syne_tune.py")
PEER_VENV = Path(__file__).resolve().with_name(".venv")
# what its simulator imports: statsmodels and xgboost, which it also asks for, are not among it
PEER_PACKAGES = ("huggingface_hub", "dill", "psutil", "scikit-learn", "sortedcontainers", "tqdm")
PEER_VERSION = "0.16.0"


# -- curves ---------------------------------------------------------------------------------------


def make_curves(configs: int, steps: int | None, step_s: float, seed: int = 1) -> CurveTable:
    """Losses that fall to a floor of their own and an EOD that rises while they do, with noise.

    Without ``steps`` the curves are of different lengths, log-uniform from 4 to LONGEST.
    """
    rng = np.random.default_rng(seed)
    if steps is None:
        lengths = np.exp(rng.uniform(math.log(4), math.log(LONGEST + 1), configs)).astype(np.int64)
    else:
        lengths = np.full(configs, steps)
    starts = offsets(lengths)
    step = (np.arange(starts[-1]) - np.repeat(starts[:-1], lengths) + 1).astype(np.float64)

    def each(low: float, high: float) -> Floats:
        """A number for each configuration, on all its rows."""
        return np.repeat(rng.uniform(low, high, configs), lengths)

    fallen = 1 - np.exp(-step * np.repeat(10 ** rng.uniform(-2.5, -0.5, configs), lengths))
    loss = 0.5 - each(0.05, 0.3) * fallen + rng.normal(0, 0.003, len(step))
    eod = np.abs(each(0.0, 0.5) * fallen + rng.normal(0, 0.02, len(step)))
    cost_s = np.repeat(step_s * rng.lognormal(0, 0.5, configs), lengths)
    return CurveTable(
        "curves",
        Objective("loss", "min"),
        (TableConstraint("eod", upper=LIMIT, cost_s=2 * step_s),),
        tuple({"x": i / configs} for i in range(configs)),
        starts,
        {"loss": loss, "eod": eod},
        cost_s,
        lengths,
    )


# -- contenders -----------------------------------------------------------------------------------


class Speed(NamedTuple):
    """What replays took and what they got."""

    reports: int
    trials: int
    cpu_s: float
    replays: int

    def plus(self, other: Speed) -> Speed:
        """Both together."""
        return Speed(
            self.reports + other.reports,
            self.trials + other.trials,
            self.cpu_s + other.cpu_s,
            self.replays + other.replays,
        )

    @property
    def rate(self) -> float:
        """Reports a second."""
        return self.reports / self.cpu_s


class Setting(NamedTuple):
    """What is replayed."""

    table: CurveTable
    budget_s: float  # simulated
    enough_s: float  # CPU seconds that a measurement takes at least: one replay or several
    file: Path | None = None  # the same curves, for the peer


Contender: TypeAlias = Callable[[Setting, int], Speed]


def ours(policy: Callable[[], Policy], constrained: bool = False) -> Contender:
    """acetune with a policy."""
    limits = [Constraint("eod", upper=LIMIT)] if constrained else []

    def run(setting: Setting, seed: int) -> Speed:
        total = Speed(0, 0, 0.0, 0)
        gc.collect()
        while total.cpu_s < setting.enough_s or not total.replays:
            began = time.process_time()
            found = simulate(
                setting.table,
                policy(),
                constraints=limits,
                searcher="random",
                seed=1_000 * seed + total.replays,
                workers=WORKERS,
                budget_s=setting.budget_s,
                cost_ratio=COST_RATIO if constrained else None,
            )
            cpu_s = time.process_time() - began
            total = total.plus(Speed(found.reports, found.trials, cpu_s, 1))
        return total

    return run


class SyneTune:
    """The process in which Syne Tune runs."""

    def __init__(self, python: Path, folder: Path) -> None:
        self._process = subprocess.Popen(
            [python, PEER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "SYNETUNE_FOLDER": str(folder)},
        )
        self.versions = self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("Syne Tune ended without an answer; what it said is above")
        return line.strip()

    def contender(self, stopping: bool, poll_steps: float) -> Contender:
        """ASHA or no stopping; ``poll_steps``: how often its loop looks for reports."""

        def run(setting: Setting, seed: int) -> Speed:
            total = Speed(0, 0, 0.0, 0)
            while total.cpu_s < setting.enough_s or not total.replays:
                job = {
                    "curves": str(setting.file),
                    "stopping": stopping,
                    "poll_s": poll_steps * STEP_S,
                    "workers": WORKERS,
                    "budget_s": setting.budget_s,
                    "seed": 1_000 * seed + total.replays,
                }
                total = total.plus(self._do(job))
            return total

        return run

    def _do(self, job: dict[str, object]) -> Speed:
        assert self._process.stdin is not None
        print(json.dumps(job), file=self._process.stdin, flush=True)
        answer = json.loads(self._answer())
        return Speed(answer["reports"], answer["trials"], answer["cpu_s"], 1)

    def end(self) -> None:
        """Let it end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@contextmanager
def syne_tune(python: Path | None) -> Iterator[SyneTune]:
    """Syne Tune under this interpreter, or in an environment that is made if it is not there."""
    if python is None:
        python = PEER_VENV / "bin" / "python"
        if not (PEER_VENV / "ready").exists():
            make_environment(python)
    with tempfile.TemporaryDirectory() as folder:
        peer = SyneTune(python, Path(folder))
        try:
            yield peer
        finally:
            peer.end()


def make_environment(python: Path) -> None:
    """An environment with Syne Tune and the same NumPy and pandas as here."""
    import pandas

    say(f"making {PEER_VENV}")
    venv.create(PEER_VENV, clear=True, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    same = [f"numpy=={np.__version__}", f"pandas=={pandas.__version__}"]
    subprocess.run([*pip, *same, *PEER_PACKAGES], check=True)
    subprocess.run([*pip, "--no-deps", f"syne-tune=={PEER_VERSION}"], check=True)
    (PEER_VENV / "ready").touch()


# -- measuring ------------------------------------------------------------------------------------

OUR_ACE = "acetune ACE, one constraint"
OUR_DEFAULT = "acetune's default policy, one constraint"
OUR_ASHA = "acetune ASHA"
OUR_FULL = "acetune, no stopping"
SYNE_ASHA = "Syne Tune ASHA"
SYNE_ASHA_LATE = "Syne Tune ASHA, polls every 10 steps"
SYNE_FULL = "Syne Tune, no stopping"
SYNE_FULL_LATE = "Syne Tune, no stopping, polls every 100 steps"


def contenders(peer: SyneTune) -> dict[str, Contender]:
    """Both sides."""
    return {
        OUR_ACE: ours(ACE, constrained=True),
        OUR_ASHA: ours(ASHA),
        OUR_FULL: ours(NoStopping),
        SYNE_ASHA: peer.contender(True, 1),
        SYNE_ASHA_LATE: peer.contender(True, 10),
        SYNE_FULL: peer.contender(False, 1),
        SYNE_FULL_LATE: peer.contender(False, 100),
    }


def take_turns(
    sides: dict[str, Contender], setting: Setting, rounds: int
) -> dict[str, list[Speed]]:
    """All contenders in turn, round by round, after a replay of each that only warms up."""
    found: dict[str, list[Speed]] = {name: [] for name in sides}
    for run in sides.values():
        run(setting._replace(enough_s=0.0), 0)
    for turn in range(1, rounds + 1):
        say(f"{setting.table}: round {turn} of {rounds}")
        for name, run in sides.items():
            found[name].append(run(setting, turn))
    return found


class Memory(NamedTuple):
    """Bytes of a process that replays."""

    rows: int
    reports: int
    start: int  # before the table was made
    table: int  # once it was
    peak: int  # while it was replayed

    @property
    def added(self) -> float:
        """MB for a million rows, those of the table included."""
        return (self.peak - self.start) / self.rows


def memory(configs: int) -> Memory:
    """Of a replay with ACE that may train a tenth of the table's rows."""
    run = ours(ACE, constrained=True)
    run(Setting(make_curves(10, None, 0.02), 1.0, 0.0), 0)  # imports what it needs
    begin_peak()
    start = rss_bytes()
    table = make_curves(configs, None, 0.02)
    begin_peak()
    held = rss_bytes()
    rows = len(table.cost_s)
    speed = run(Setting(table, rows * table.mean_cost_s / WORKERS / 10, 0.0), 0)
    return Memory(rows, speed.reports, start, held, peak_rss_bytes())


def begin_peak() -> None:
    """Give back what is free, and let the peak of this process begin anew (Linux, glibc)."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


# -- the page -------------------------------------------------------------------------------------


def ratios(a: list[Speed], b: list[Speed]) -> list[float]:
    """Of each round how many times the reports a second of ``b`` those of ``a`` are."""
    return [x.rate / y.rate for x, y in zip(a, b, strict=True)]


def median_rate(speeds: list[Speed]) -> float:
    """Median over the rounds."""
    return statistics.median(speed.rate for speed in speeds)


def spread(speeds: list[Speed]) -> str:
    """Lowest and highest of the rounds."""
    rates = [speed.rate for speed in speeds]
    return f"{min(rates):,.0f} to {max(rates):,.0f}"


def faster(found: dict[str, list[Speed]], a: str, b: str) -> str:
    """Which of two contenders is faster."""
    return max(a, b, key=lambda name: median_rate(found[name]))


def add_ours(page: SpeedPage, speeds: list[Speed], setting: Setting, rounds: int) -> None:
    """ACE on curves like those of the credit task."""
    lengths, one = np.diff(setting.table.starts), speeds[-1]
    page.add(
        f"Reports a second of CPU time: medians, and the range, of {rounds} rounds in which the "
        "contenders take turns.",
        f"{WORKERS} simulated workers, random search, one process. Curves are made by code from a "
        "seed.",
        "",
        f"ACE with eod <= {LIMIT:g}, a check as expensive as {COST_RATIO:g} steps, on "
        f"{len(lengths):,} configurations of {lengths.min()} to {lengths.max():,} steps",
        f"({lengths.sum():,} rows): **{median_rate(speeds):,.0f} reports a second** "
        f"({spread(speeds)}), {one.reports / one.replays:,.0f} reports of",
        f"{one.trials / one.replays:,.0f} trials a replay.",
        "",
    )


def add_comparison(page: SpeedPage, found: dict[str, list[Speed]], setting: Setting) -> None:
    """A table of all contenders on one table of curves."""
    configs = len(setting.table.configs)
    page.add(
        f"{configs:,} configurations of {setting.table.steps(0)} steps, "
        f"{setting.budget_s:,.0f} simulated seconds:",
        "",
    )
    asha, full = faster(found, SYNE_ASHA, SYNE_ASHA_LATE), faster(found, SYNE_FULL, SYNE_FULL_LATE)
    peers = (SYNE_ASHA, asha, full)
    rows = []
    for name, speeds in found.items():
        one = speeds[-1]
        row = [name, f"{median_rate(speeds):,.0f}", spread(speeds)]
        row += [f"{statistics.median(ratios(speeds, found[peer])):.2f}" for peer in peers]
        row += [f"{one.reports / one.replays:,.0f}", f"{one.trials / one.replays:,.0f}"]
        rows.append(row)
    head = ["", "reports/s", "of the rounds", "to ASHA", "to faster ASHA", "to no stopping"]
    page.table([*head, "reports", "trials"], rows)


def add_targets(
    page: SpeedPage,
    alone: dict[str, list[Speed]],
    found: dict[str, list[Speed]],
    setting: Setting,
    held: list[Memory],
) -> None:
    """What was aimed at."""
    for name, speeds in alone.items():
        page.figure(
            f"replay-{'ace' if name == OUR_ACE else 'default'}",
            f"replayed reports per second, {name}",
            [speed.rate for speed in speeds],
            "reports/s",
            least=200_000 if name == OUR_ACE else None,
        )
    peer = faster(found, SYNE_ASHA, SYNE_ASHA_LATE)
    where = f"{len(setting.table.configs):,} x {setting.table.steps(0)}"
    for key, name in (("asha", OUR_ASHA), ("ace", OUR_ACE)):
        page.figure(
            f"replay-{key}-beside",
            f"replayed reports per second, {name}, {where}",
            [speed.rate for speed in found[name]],
            "reports/s",
            peer=peer,
            peers=[speed.rate for speed in found[peer]],
            least=20,
        )
    page.figure(
        "replay-memory",
        f"memory of a replay, a table of {held[-1].rows:,} rows",
        [held[-1].added],
        "MB per million rows",
        peer=f"of {held[0].rows:,}",
        peers=[held[0].added],
        most=1.1,
    )


def add_memory(page: SpeedPage, held: list[Memory]) -> None:
    """Memory of tables of different sizes."""
    page.add(
        "Memory (RSS) of a replay with ACE, in a process of its own; `MB a million` is what the "
        "peak adds to the",
        "process without a table, for a million rows:",
        "",
    )
    rows = []
    for one in held:
        numbers = (one.start, one.table, one.peak)
        row = [f"{one.rows:,}", f"{one.reports:,}", *(f"{n / 1e6:,.0f}" for n in numbers)]
        rows.append([*row, f"{one.added:,.0f}"])
    head = ["rows", "reports", "process MB", "with the table MB", "peak MB", "MB a million"]
    page.table(head, rows)


def main() -> None:
    """Run, print and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small tables, one round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peer", type=Path, help="an interpreter that has Syne Tune")
    parser.add_argument("--results", type=Path, help="folder for the page")
    options = parser.parse_args()
    rounds, enough_s, memory_configs = options.rounds, 0.5, [200, 2_000, 20_000]
    shared = [(200, 100, 16_000.0), (1_000, 200, 80_000.0)]
    credit = Setting(make_curves(2_000, None, 0.02), 600.0, enough_s)
    if options.quick:
        rounds, enough_s, memory_configs = 1, 0.05, [20, 200]
        shared = [(50, 50, 2_000.0)]
        credit = Setting(make_curves(100, None, 0.02), 20.0, enough_s)

    page = SpeedPage(
        "How fast a replay is", "replay_speed", sys.argv[1:], ["core/*", "policies/*", "replay/*"]
    )
    settings: list[Setting] = []
    found: list[dict[str, list[Speed]]] = []
    with syne_tune(options.peer) as peer, tempfile.TemporaryDirectory() as folder:
        page.add(f"Syne Tune in an environment of its own: {peer.versions}.", "")
        for configs, steps, budget_s in shared:
            table, file = make_curves(configs, steps, STEP_S), Path(folder) / f"{configs}.npz"
            loss, cost_s = table.metrics["loss"], table.cost_s
            np.savez(file, loss=loss.reshape(-1, steps), cost_s=cost_s.reshape(-1, steps))
            settings.append(Setting(table, budget_s, enough_s, file))
            found.append(take_turns(contenders(peer), settings[-1], rounds))
    both = {OUR_ACE: ours(ACE, constrained=True), OUR_DEFAULT: ours(Adaptive, constrained=True)}
    alone = take_turns(both, credit, rounds)
    held = []
    for configs in memory_configs:
        say(f"memory with {configs:,} configurations")
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            held.append(pool.apply(memory, (configs,)))

    add_ours(page, alone[OUR_ACE], credit, rounds)
    page.add(
        "The same curves for both, the configurations in the same order, and the same simulated "
        "budget. A step takes",
        f"{STEP_S:g} simulated seconds in the median, and Syne Tune's loop looks for reports once "
        "in that time (its",
        "`tuner_sleep_time`); where it polls less often it is faster, but acts on reports late and "
        "loses those that",
        "come after its decision. It queues all reports of a trial when the trial starts and takes "
        "the rest out when it",
        "is stopped, so it does best where nothing is stopped. Its garbage collector is off, as it "
        "is in `simulate()`.",
        f"`to`: medians of the ratios within a round to `{SYNE_ASHA}`, to the faster of its two "
        "settings of",
        "ASHA, and to the faster of those without stopping. `reports` and `trials`: of one replay.",
        "",
    )
    for one, setting in zip(found, settings, strict=True):
        add_comparison(page, one, setting)
    add_memory(page, held)
    if not options.quick:
        add_targets(page, alone, found[-1], settings[-1], held)
    page.write(results_folder(options.results, options.quick))


if __name__ == "__main__":
    main()
