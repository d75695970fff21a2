"""What one suggestion costs while the reports of a study grow in number.

All searchers know the same trials: ``forest`` looks at their curves, ``tpe`` is told how they
ended, ``random`` needs neither. Timed is the CPU time of ``ask``; telling and reporting is not.
"""

from __future__ import annotations

import argparse
import gc
import math
import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import acetune
from acetune import ACE, Constraint, Stopper
from acetune.core.outcome import StudyCurves, outcome
from acetune.replay.simulator import suggestion_s
from acetune.searchers import Searcher, make_searcher
from acetune.searchers.space import Params, Space
from benchmarks.common import results_folder, say
from benchmarks.speed import SpeedPage

STEPS, DIMENSIONS = 20, 8
SIZES = (10, 100, 1_000, 10_000, 100_000)
SEARCHERS = ("forest", "tpe", "random")
SPACE = Space({f"x{i}": acetune.uniform(0.0, 1.0) for i in range(DIMENSIONS)})


class Study:
    """Trials of 20 steps, the last one cut where the number of reports asks for it."""

    def __init__(self, reports: int) -> None:
        limit = Constraint("g", upper=0.5)
        policy = ACE(truncation=0.0, interval=1, gate=False)  # nobody is stopped
        self.stopper = Stopper(objective="loss", mode="min", constraints=[limit], policy=policy)
        self.params: dict[int, Params] = {}
        rng = np.random.default_rng(0)
        while self.stopper.history.reports < reports:
            self._train(rng.random(DIMENSIONS), reports)

    def _train(self, place: np.ndarray, reports: int) -> None:
        number = len(self.params) + 1
        self.params[number] = SPACE.at(place.tolist())
        handle = self.stopper.start(number, STEPS)
        floor, beyond = float(((place - 0.3) ** 2).mean()), float(place[:2].mean())
        for step in range(1, min(STEPS, reports - self.stopper.history.reports) + 1):
            loss = floor + math.exp(-step / 5)
            handle.observe(step, loss, {"g": beyond} if step % 5 == 0 else None)
        handle.finish()

    def searcher(self, name: str) -> Searcher:
        """A new searcher that knows all trials."""
        made = make_searcher(name, SPACE, seed=0)
        history = self.stopper.history
        made.watch(StudyCurves(history, lambda number: self.params[number]))
        for number, params in self.params.items():
            made.add(number, params, outcome(history.trials[number], history))
        return made


class Cost(NamedTuple):
    """Milliseconds."""

    first: float  # suggestion after many new reports: where something has to be learned anew
    others: float  # each, as long as nothing is


def asking(searcher: Searcher, trial: int) -> float:
    began = time.process_time()
    searcher.ask(trial)
    return (time.process_time() - began) * 1e3


def measure(study: Study, rounds: int, asks: int) -> dict[str, Cost]:
    """All searchers in turn, round by round: medians."""
    firsts: dict[str, list[float]] = {name: [] for name in SEARCHERS}
    others: dict[str, list[float]] = {name: [] for name in SEARCHERS}
    for _ in range(rounds):
        made = {name: study.searcher(name) for name in SEARCHERS}
        gc.collect()
        trial = len(study.params)
        for name, searcher in made.items():
            firsts[name].append(asking(searcher, trial + 1))
        for number in range(trial + 2, trial + 2 + asks):
            for name, searcher in made.items():
                others[name].append(asking(searcher, number))
    return {
        name: Cost(statistics.median(firsts[name]), statistics.median(others[name]))
        for name in SEARCHERS
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes; writes nothing")
    parser.add_argument("--rounds", type=int, default=3, help="rounds; medians are shown")
    parser.add_argument("--asks", type=int, default=10, help="suggestions in each round")
    parser.add_argument("--results", type=Path, help="folder for the page")
    options = parser.parse_args()
    sizes = SIZES[:3] if options.quick else SIZES
    page = SpeedPage(
        "What one suggestion costs", "suggestion_cost", sys.argv[1:], ["searchers/*", "core/*"]
    )
    # before anything is timed: modules are loaded on use
    measure(Study(400), 1, 2)
    found: dict[int, dict[str, Cost]] = {}
    for size in sizes:
        say(f"{size:,} reports")
        found[size] = measure(Study(size), options.rounds, options.asks)
    page.add(
        f"Milliseconds of CPU time of `ask`, while so many reports are held: trials of {STEPS} "
        f"steps, {DIMENSIONS}",
        f"dimensions, one constraint, checked at every fifth step. Medians of {options.rounds} "
        "rounds, in which the",
        f"searchers take turns, with {options.asks} suggestions each. `forest, learning`: a "
        "suggestion for which trees are grown,",
        "which happens whenever there are 15% more reports; `forest`: any other. No trial ends "
        "between two suggestions. In brackets: what replays charge for a suggestion.",
        "",
    )
    head = ["reports", "trials", "forest", "forest, learning", "tpe", "random", "forest / tpe"]
    rows = []
    for size, costs in found.items():
        forest, tpe, chance = (costs[name] for name in SEARCHERS)
        trials = math.ceil(size / STEPS)
        charged = {name: 1e3 * suggestion_s(name, trials, size) for name in SEARCHERS}
        rows.append(
            [
                f"{size:,}",
                f"{trials:,}",
                f"{forest.others:.2f} ({charged['forest']:.2f})",
                f"{forest.first:.2f}",
                f"{tpe.others:.2f} ({charged['tpe']:.2f})",
                f"{chance.others:.2f} ({charged['random']:.2f})",
                f"{forest.others / tpe.others:.2f}",
            ]
        )
    page.table(head, rows)
    for size, costs in found.items():
        forest = costs["forest"]
        page.figure(
            f"suggestion-{size}",
            f"a suggestion of `forest`, {size:,} reports held",
            [forest.others],
            "ms",
            peer="Optuna's TPE",
            peers=[costs["tpe"].others],
        )
        page.figure(
            f"suggestion-{size}-learning",
            f"the same, where trees are grown, {size:,} reports held",
            [forest.first],
            "ms",
            most=500,
        )
    page.write(results_folder(options.results, options.quick))


if __name__ == "__main__":
    main()
