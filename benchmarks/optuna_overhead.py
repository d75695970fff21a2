"""What a report and the question whether to stop cost under Optuna, beside its own pruners.

The storages are filled with finished trials of 20 steps first, the same for everyone. Then the
contenders take turns, one trial of 20 steps each. Timed is the wall time of ``report`` with
``should_prune``; starting and ending trials is not. No policy ends a trial here: a trial that a
pruner would stop reports on, so that nobody gets away with fewer reports.
"""

from __future__ import annotations

import argparse
import math
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import optuna
from optuna.pruners import BasePruner, MedianPruner, NopPruner, SuccessiveHalvingPruner
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage
from optuna.storages._cached_storage import _CachedStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy import event

import acetune.optuna
from acetune import ACE, Constraint
from acetune.optuna import AcePruner
from benchmarks.common import results_folder, say
from benchmarks.speed import SpeedPage

STEPS = 20
RUNGS = {1: 0, 4: 1, 16: 2}  # step -> rung of SuccessiveHalvingPruner
WARM_UP = 2  # trials that are not counted: the first one reads all that is there
KINDS = ("memory", "journal", "SQLite")

Report: TypeAlias = Callable[[float, int], None]


def curve(rng: random.Random) -> list[float]:
    """A learning curve that falls to a floor of its own, with noise."""
    floor, rate = rng.random(), rng.uniform(0.05, 0.5)
    return [
        floor + (1 - floor) * math.exp(-rate * step) + rng.gauss(0, 0.01)
        for step in range(1, STEPS + 1)
    ]


def finished_trial(number: int, values: list[float]) -> FrozenTrial:
    """A trial as the storage would hold it, whoever had run it."""
    attributes: dict[str, Any] = {
        f"completed_rung_{rung}": values[step - 1] for step, rung in RUNGS.items()
    }
    attributes["ace:start"] = {"trial": number, "total_steps": 99, "interval": 1, "ratio": None}
    end = {"state": "finished", "reason": "done", "check": None, "spent": [1.0, STEPS, 0.0, 0]}
    attributes["ace:end"] = {"trial": number, **end}
    if number == 0:  # one valid checkpoint that nobody beats: others are not worth a check
        values = [-10.0, *values[1:]]
        measured = {"g": [0.0, 0.0]}
        check = {"step": 1, "measured": measured, "check_s": {"g": 1.0}, "spent": [0, 0, 0, 0]}
        attributes["ace:check:1"] = {"trial": number, **check}
    return create_trial(
        state=TrialState.COMPLETE,
        value=values[-1],
        intermediate_values=dict(enumerate(values, start=1)),
        system_attrs=attributes,
        constraints={"g": 0.0},
    )


# -- storages -------------------------------------------------------------------------------------


class Filled:
    """A storage that holds so many trials, to be copied for each contender."""

    def __init__(self, kind: str, trials: int, folder: Path) -> None:
        self._kind, self._folder, self._copies = kind, folder, 0
        self._path = folder / "filled"
        rng = random.Random(1)
        self._trials = [finished_trial(number, curve(rng)) for number in range(trials)]
        if kind != "memory":
            self._fill(self._open(self._path))

    def copy(self, pruner: BasePruner) -> optuna.Study:
        """A study of its own."""
        if self._kind == "memory":
            storage: BaseStorage = InMemoryStorage()
            self._fill(storage)
        else:
            self._copies += 1
            path = self._folder / f"copy-{self._copies}"
            shutil.copy(self._path, path)
            storage = self._open(path)
        sampler = optuna.samplers.RandomSampler(seed=0)
        return optuna.load_study(study_name="s", storage=storage, sampler=sampler, pruner=pruner)

    def _fill(self, storage: BaseStorage) -> None:
        if isinstance(storage, _CachedStorage):  # nothing is measured yet: no waiting for the disk
            engine = storage._backend.engine
            engine.dispose()
            event.listen(engine, "connect", lambda c, _: c.execute("PRAGMA synchronous = OFF"))
        study = optuna.create_study(study_name="s", storage=storage)
        study.add_trials(self._trials)

    def _open(self, path: Path) -> BaseStorage:
        if self._kind == "journal":
            return JournalStorage(JournalFileBackend(str(path)))
        return optuna.storages.get_storage(f"sqlite:///{path}")


# -- contenders -----------------------------------------------------------------------------------


class OptunaPruner:
    """A pruner as Optuna's own users call it."""

    def __init__(self, filled: Filled, pruner: BasePruner) -> None:
        self._study = filled.copy(pruner)

    def run(self, values: list[float]) -> float:
        """A trial; returns the seconds that its reports took."""
        trial = self._study.ask()
        began = time.perf_counter()
        for step, value in enumerate(values, start=1):
            trial.report(value, step)
            trial.should_prune()
        seconds = time.perf_counter() - began
        self._study.tell(trial, state=TrialState.PRUNED)
        return seconds


class Ours:
    """acetune's trial: reports that are gated, or all checked."""

    def __init__(self, filled: Filled, *, gate: bool) -> None:
        limit = Constraint("g", upper=0.5, check=lambda model: model)
        policy = ACE(truncation=0.0, interval=1, gate=gate)
        self._study = filled.copy(AcePruner([limit], policy))

    def run(self, values: list[float]) -> float:
        """A trial; returns the seconds that its reports took."""
        trial = self._study.ask()
        ace = acetune.optuna.trial(trial, total_steps=STEPS + 1)
        began = time.perf_counter()
        for value in values:
            ace.report(value, model=0.6)
            ace.should_prune()
        seconds = time.perf_counter() - began
        self._study.tell(trial, state=TrialState.PRUNED)
        return seconds


UNCHECKED, CHECKED = "ACE, nothing checked", "ACE, everything checked"
PLAIN = "ACE, Optuna's own report"
HALVING, NOP = "SuccessiveHalvingPruner", "NopPruner"

CONTENDERS: dict[str, Callable[[Filled], OptunaPruner | Ours]] = {
    UNCHECKED: lambda filled: Ours(filled, gate=True),
    CHECKED: lambda filled: Ours(filled, gate=False),
    PLAIN: lambda filled: OptunaPruner(filled, AcePruner([Constraint("g", upper=0.5)], ACE())),
    HALVING: lambda filled: OptunaPruner(filled, SuccessiveHalvingPruner()),
    "MedianPruner": lambda filled: OptunaPruner(filled, MedianPruner()),
    NOP: lambda filled: OptunaPruner(filled, NopPruner()),
}


# -- measuring ------------------------------------------------------------------------------------

Seconds: TypeAlias = dict[str, list[float]]  # by contender, trial by trial


def measure(kind: str, trials: int, rounds: int) -> Seconds:
    """All contenders on copies of one storage, a trial each in turn.

    The copies are made anew before they have grown by more than a tenth.
    """
    found: Seconds = {name: [] for name in CONTENDERS}
    with tempfile.TemporaryDirectory() as folder:
        say(f"{kind}, {trials:,} trials: filling")
        filled = Filled(kind, trials, Path(folder))
        rng = random.Random(2)
        for left in range(rounds, 0, -at_most(trials)):
            contenders = {name: make(filled) for name, make in CONTENDERS.items()}
            for turn in range(min(left, at_most(trials)) + WARM_UP):
                values = curve(rng)
                for name, contender in contenders.items():
                    seconds = contender.run(values)
                    if turn >= WARM_UP:
                        found[name].append(seconds)
        say(f"{kind}, {trials:,} trials: {rounds} rounds done")
    return found


def sizes_of(kind: str, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Of the studies: filling a large one on disk takes minutes."""
    return sizes if kind == "memory" else sizes[:-1]


def at_most(trials: int) -> int:
    """How many trials are measured on one copy."""
    return max(2, trials // 10 - WARM_UP)


def us(seconds: list[float]) -> float:
    """Microseconds a report: the median trial's."""
    return statistics.median(seconds) / STEPS * 1e6


def times(found: Seconds, name: str, other: str) -> float:
    """How many times dearer: the median of the ratios within a round."""
    return statistics.median(ratios(found, name, other))


def ratios(found: Seconds, name: str, other: str) -> list[float]:
    """Round by round."""
    return [a / b for a, b in zip(found[name], found[other], strict=True)]


def middle(values: list[float]) -> list[float]:
    """The quarters' borders of values: of many rounds, the range says little."""
    return statistics.quantiles(values, n=4)


def growth(sizes: tuple[int, ...], rounds: int) -> float:
    """What a report costs with the most trials held over the fewest, in memory, trial by trial."""
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        few, many = (Filled("memory", n, Path(folder)) for n in (sizes[0], sizes[-1]))
        large, rng = Ours(many, gate=True), random.Random(3)
        for left in range(rounds, 0, -at_most(sizes[0])):
            small = Ours(few, gate=True)
            for turn in range(min(left, at_most(sizes[0])) + WARM_UP):
                values = curve(rng)
                ratio = large.run(values) / small.run(values)
                if turn >= WARM_UP:
                    ratios.append(ratio)
    return statistics.median(ratios)


def main() -> None:
    """Run, print and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small storages, few rounds")
    parser.add_argument("--rounds", type=int, default=60, help="in memory; a fifth on disk")
    parser.add_argument("--results", type=Path, help="folder for the page")
    options = parser.parse_args()
    sizes, rounds = (100, 1_000, 5_000), options.rounds
    if options.quick:
        sizes, rounds = (20, 40, 60), 10
    optuna.logging.set_verbosity(optuna.logging.ERROR)

    page = SpeedPage(
        "What the pruner costs under Optuna",
        "optuna_overhead",
        sys.argv[1:],
        ["core/*", "policies/*", "optuna/*"],
    )
    page.add(
        "Microseconds of wall time that `report` with `should_prune` takes, while a study holds so "
        "many finished",
        f"trials of {STEPS} steps: the median of {rounds} trials ({rounds // 5} on disk), one "
        "process, one trial at a time.",
        "The study grows by a tenth at most while it is measured. In brackets: times "
        "SuccessiveHalvingPruner,",
        "the median of the ratios within a round.",
        "",
    )
    found = {
        (kind, n): measure(kind, n, rounds if kind == "memory" else rounds // 5)
        for kind in KINDS
        for n in sizes_of(kind, sizes)
    }
    for kind in KINDS:
        rows = [
            [
                name,
                *(
                    f"{us(found[kind, n][name]):,.0f} ({times(found[kind, n], name, HALVING):.2f})"
                    for n in sizes_of(kind, sizes)
                ),
            ]
            for name in CONTENDERS
        ]
        page.table([kind, *(f"{n:,} trials" for n in sizes_of(kind, sizes))], rows)
    page.add(
        f"`{UNCHECKED}`: a check is due at every step and the gate finds it not worth its cost. "
        f"`{CHECKED}`: the check",
        "itself costs nothing here; what it gave is one more write to the storage. "
        f"`{PLAIN}`: `trial.report` and",
        "`trial.should_prune` with AcePruner, without `acetune.optuna.trial`. `NopPruner` is what "
        "Optuna's report itself costs.",
        "",
    )
    for kind in KINDS:
        for n in sizes_of(kind, sizes):
            for name, most in ((UNCHECKED, 1.5), (CHECKED, None)):
                mine, theirs = (sorted(found[kind, n][who]) for who in (name, HALVING))
                page.figure(
                    f"optuna-{kind.lower()}-{n}{'-checked' * (name == CHECKED)}",
                    f"a report under Optuna, {kind}, {n:,} trials, {name}",
                    [s / STEPS * 1e6 for s in middle(mine)],
                    "µs",
                    peer=HALVING,
                    peers=[s / STEPS * 1e6 for s in middle(theirs)],
                    ratios=middle(ratios(found[kind, n], name, HALVING)),
                    most=most,
                )
    page.figure(
        "optuna-growth",
        f"a report under Optuna, in memory, {sizes[-1]:,} trials digested, over {sizes[0]:,}",
        [growth(sizes, rounds)],
        "times",
        most=1.25,
    )
    page.write(results_folder(options.results, options.quick))


if __name__ == "__main__":
    main()
