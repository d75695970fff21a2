"""What one decision costs while the history grows, beside Ray's and Optuna's early stopping.

Every contender is fed the same reports, one trial's curve after another's, and nothing is left
out: a trial that is told to stop goes on reporting, so that stopping does not thin the records.
Timed is the CPU time of the calls that decide; starting and ending trials is not.
"""

from __future__ import annotations

import argparse
import gc
import math
import multiprocessing
import random
import statistics
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol, TypeAlias

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from acetune import ACE, ASHA, Adaptive, Constraint, NoStopping, Policy, Stopper
from benchmarks.common import peak_rss_bytes, results_folder, rss_bytes, say
from benchmarks.speed import SpeedPage

STEPS = 20
AT_ONCE = 10  # trials that run side by side
BLOCK = STEPS * AT_ONCE  # reports that are timed together
HEADLINE = 5_000 * STEPS

Report: TypeAlias = Callable[[int, float, float], object]  # step, objective, constraint


class Contender(Protocol):
    """Something that decides on reports."""

    def start(self, trial: int) -> Report:
        """Start a trial; returns what takes its reports."""

    def end(self, trial: int, value: float) -> None:
        """The trial has reported all its steps."""


# -- contenders -----------------------------------------------------------------------------------


class Ours:
    """acetune's Stopper: ``check_due`` and ``observe``, with costs, as a training loop would."""

    def __init__(self, policy: Policy, measure: bool = True) -> None:
        limit = Constraint("violation", upper=0.5)
        self.stopper = Stopper(objective="loss", mode="min", constraints=[limit], policy=policy)
        self._measure = measure

    def start(self, trial: int) -> Report:
        """See Contender."""
        handle = self.stopper.start(trial, STEPS)
        measure, record = self._measure, handle.record

        def report(step: int, loss: float, violation: float) -> None:
            if handle.check_due(step, loss) is not None and measure:
                decision = handle.observe(step, loss, {"violation": violation}, 0.02, 0.01)
            else:
                decision = handle.observe(step, loss, None, 0.02)
            if decision.stop:
                record.state = "running"  # goes on all the same

        return report

    def end(self, trial: int, value: float) -> None:
        """See Contender."""


class RayASHA:
    """Ray's scheduler, called as its controller does, without a cluster."""

    def __init__(self) -> None:
        from ray.tune.schedulers import ASHAScheduler

        self._scheduler = ASHAScheduler(metric="loss", mode="min", max_t=STEPS)

    def start(self, trial: int) -> Report:
        """See Contender."""
        scheduler, fake = self._scheduler, SimpleNamespace(trial_id=f"{trial:05d}")
        scheduler.on_trial_add(None, fake)

        def report(step: int, loss: float, violation: float) -> None:
            scheduler.on_trial_result(None, fake, {"training_iteration": step, "loss": loss})

        return report

    def end(self, trial: int, value: float) -> None:
        """See Contender."""


class OptunaPruner:
    """A pruner of Optuna on its storage in memory: ``trial.report`` and ``should_prune``."""

    def __init__(self, pruner: str) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._study = optuna.create_study(
            sampler=optuna.samplers.RandomSampler(seed=0), pruner=getattr(optuna.pruners, pruner)()
        )
        self._trials: dict[int, Any] = {}

    def start(self, trial: int) -> Report:
        """See Contender."""
        asked = self._trials[trial] = self._study.ask()

        def report(step: int, loss: float, violation: float) -> None:
            asked.report(loss, step)
            asked.should_prune()

        return report

    def end(self, trial: int, value: float) -> None:
        """See Contender."""
        self._study.tell(self._trials.pop(trial), value)


ACE_GATED = "ACE, the gate decides on checks"
ACE_UNCHECKED = "ACE, nothing checked"
ACE_CHECKED = "ACE, everything checked"
DEFAULT = "the default policy"
RAY = "Ray ASHAScheduler"
NAMES = {
    "ace": ACE_GATED,
    "ace-unchecked": ACE_UNCHECKED,
    "ace-checked": ACE_CHECKED,
    "default": DEFAULT,
}
MOST, MOST_GROWTH = 0.8, 1.5

CONTENDERS: dict[str, Callable[[], Contender]] = {
    ACE_GATED: lambda: Ours(ACE(interval=1)),
    ACE_UNCHECKED: lambda: Ours(ACE(interval=1), measure=False),
    ACE_CHECKED: lambda: Ours(ACE(interval=1, gate=False)),
    DEFAULT: lambda: Ours(Adaptive()),
    "acetune ASHA": lambda: Ours(ASHA()),
    "acetune NoStopping": lambda: Ours(NoStopping()),
    RAY: RayASHA,
    "Optuna SuccessiveHalvingPruner": lambda: OptunaPruner("SuccessiveHalvingPruner"),
}


# -- feeding --------------------------------------------------------------------------------------


class Point(NamedTuple):
    """What a trial reports at a step."""

    loss: float
    violation: float


def curves(seed: int = 1) -> Iterator[list[Point]]:
    """Learning curves that fall to a floor of their own, with noise. The constraint is random."""
    rng = random.Random(seed)
    while True:
        floor, rate, broken = rng.random(), rng.uniform(0.05, 0.5), rng.random()
        yield [
            Point(
                floor + (1 - floor) * math.exp(-rate * step) + rng.gauss(0, 0.01),
                broken + rng.gauss(0, 0.05),
            )
            for step in range(1, STEPS + 1)
        ]


class Feeder:
    """Feeds a contender block by block and keeps the seconds of each."""

    def __init__(self, contender: Contender) -> None:
        self._contender = contender
        self._source = curves()
        self._trials = 0
        self.blocks = array("d")

    @property
    def reports(self) -> int:
        """How many reports were taken."""
        return len(self.blocks) * BLOCK

    def feed_block(self) -> float:
        """One block; returns its seconds."""
        numbers = range(self._trials, self._trials + AT_ONCE)
        self._trials += AT_ONCE
        batch = [(self._contender.start(number), next(self._source)) for number in numbers]
        began = time.process_time()
        for step in range(STEPS):
            for report, curve in batch:
                loss, violation = curve[step]
                report(step + 1, loss, violation)
        seconds = time.process_time() - began
        for number, (_, curve) in zip(numbers, batch, strict=True):
            self._contender.end(number, curve[-1].loss)
        self.blocks.append(seconds)
        return seconds

    def feed(self, reports: int, limit_s: float = math.inf) -> Feeder:
        """Feed until so many reports are held, or the limit is spent."""
        gc.collect()
        spent = sum(self.blocks)
        while self.reports < reports and spent < limit_s:
            spent += self.feed_block()
        return self


class Costs(NamedTuple):
    """Seconds of the blocks of one pass."""

    blocks: array[float]

    @property
    def reports(self) -> int:
        """How many reports were taken."""
        return len(self.blocks) * BLOCK

    def mean_us(self, reports: int) -> float:
        """Microseconds a report, over the first so many; NaN if there are fewer."""
        if self.reports < reports:
            return math.nan
        return sum(self.blocks[: reports // BLOCK]) / reports * 1e6

    def marginal_us(self, reports: int) -> float:
        """Microseconds a report while about so many are held: over the last tenth of them."""
        if self.reports < reports:
            return math.nan
        end = reports // BLOCK
        tenth = self.blocks[end - max(1, end // 10) : end]
        return sum(tenth) / len(tenth) / BLOCK * 1e6


# -- measuring ------------------------------------------------------------------------------------


class Sizes(NamedTuple):
    """How many reports are held."""

    small: int
    headline: int
    large: int


class Grown(NamedTuple):
    """A contender that holds many reports."""

    large_us: float
    small_us: float
    ratios: list[float]  # to the same contender with few reports, block by block in turn

    @property
    def ratio(self) -> float:
        """The median."""
        return statistics.median(self.ratios)


def take_turns(sizes: Sizes, rounds: int, limit_s: float) -> dict[str, list[Costs]]:
    """All contenders up to the headline, round by round. The slow ones are measured once."""
    found: dict[str, list[Costs]] = {name: [] for name in CONTENDERS}
    for turn in range(rounds):
        for name, make in CONTENDERS.items():
            if turn and sum(found[name][0].blocks) > limit_s / 8:
                continue
            say(f"round {turn + 1} of {rounds}, {sizes.headline:,} reports: {name}")
            found[name].append(Costs(Feeder(make()).feed(sizes.headline, limit_s).blocks))
    return found


def grow(name: str, costs: Costs, sizes: Sizes, limit_s: float) -> Grown | None:
    """Feed a contender up to the largest size; None where that would take too long."""
    small_us, headline_us = costs.marginal_us(sizes.small), costs.marginal_us(sizes.headline)
    expected_us = headline_us * max(1.0, headline_us / small_us)
    if not expected_us * 1e-6 * sizes.large < limit_s:
        return None
    say(f"{sizes.large:,} reports: {name}")
    make = CONTENDERS[name]
    large = Feeder(make()).feed(sizes.large)
    small = Feeder(make()).feed(sizes.small)
    large_us, small_us = (Costs(x.blocks).marginal_us(x.reports) for x in (large, small))
    # in turn, because the machine's speed changes from one minute to the next
    ratios = [large.feed_block() / small.feed_block() for _ in range(50)]
    return Grown(large_us, small_us, ratios)


def memory(reports: int) -> tuple[float, float, int]:
    """Bytes a report that ACE's history holds, at the end and at the peak, and checks made."""
    contender = Ours(ACE(interval=1))
    gc.collect()
    before = rss_bytes()
    Feeder(contender).feed(reports)
    history = contender.stopper.history
    return (rss_bytes() - before) / reports, (peak_rss_bytes() - before) / reports, history.checks


# -- the page -------------------------------------------------------------------------------------


def ratio(a: list[Costs], b: list[Costs], reports: int) -> float:
    """Median over the rounds of a's mean cost over b's of the same round."""
    pairs = zip(a, b, strict=False)  # one of them may have been measured once
    return statistics.median(x.mean_us(reports) / y.mean_us(reports) for x, y in pairs)


def cell(number: float | None, form: str = ".1f") -> str:
    """A number in a table."""
    return "-" if number is None or math.isnan(number) else format(number, form)


def main() -> None:
    """Run, print and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a hundredth of it, one round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=60.0, help="CPU seconds for a contender")
    parser.add_argument("--results", type=Path, help="folder for the page")
    options = parser.parse_args()
    sizes, rounds, limit_s = Sizes(10_000, HEADLINE, 1_000_000), options.rounds, options.limit
    if options.quick:
        sizes, rounds, limit_s = Sizes(200, 1_000, 10_000), 1, 1.0

    page = SpeedPage(
        "What one decision costs", "decision_cost", sys.argv[1:], ["core/*", "policies/*"]
    )
    found = take_turns(sizes, rounds, limit_s)
    grown = {name: grow(name, costs[0], sizes, limit_s) for name, costs in found.items()}
    say(f"memory of {sizes.large:,} reports")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        end, peak, checks = pool.apply(memory, (sizes.large,))

    trials = f"{sizes.headline // STEPS:,} trials x {STEPS} steps"
    page.add(
        f"Microseconds of CPU time a report. All contenders get the same seeded reports, {AT_ONCE} "
        "trials side by",
        "side, and take every one: a trial that is told to stop goes on. Policies have their "
        "default options, but",
        "ACE has a check due at every step (`interval=1`).",
        "",
        f"`whole run`: mean over {trials}; medians of {rounds} rounds in which the contenders take "
        "turns",
        f"(those that need over {limit_s / 8:g} s: one round). `at`: while about so many reports "
        "are held (the last tenth).",
        f"`growth`: at {sizes.large:,} over at {sizes.small:,}, block by block in turn. `-`: it "
        f"would take over {limit_s:g} s.",
        "",
    )
    rows = []
    for name, costs in found.items():
        big = grown[name]
        row = [name, cell(statistics.median(c.mean_us(sizes.headline) for c in costs))]
        row.append(cell(ratio(costs, found[RAY], sizes.headline), ".2f"))
        for size in (sizes.small, sizes.headline):
            row.append(cell(statistics.median(c.marginal_us(size) for c in costs)))
        row += [cell(big and big.large_us), cell(big and big.ratio, ".2f")]
        rows.append(row)
    page.table(["", "whole run", "to Ray's", *(f"at {n:,}" for n in sizes), "growth"], rows)
    page.add(
        f"Memory of ACE's history at {sizes.large:,} reports ({checks:,} of them checked), in a "
        "process of its own:",
        f"{end:.0f} bytes a report, {peak:.0f} at the peak (RSS, less what was there before).",
        "",
    )
    for key, name in NAMES.items():
        costs, wanted = found[name], name in (ACE_GATED, ACE_UNCHECKED, ACE_CHECKED)
        page.figure(
            f"decision-{key}",
            f"a decision, {name}, {trials}",
            [c.mean_us(sizes.headline) for c in costs],
            "µs",
            peer=RAY,
            peers=[c.mean_us(sizes.headline) for c in found[RAY][: len(costs)]],
            most=MOST if wanted else None,
        )
    for key, name in NAMES.items():
        big = grown[name]
        if big is None:
            continue
        page.figure(
            f"decision-{key}-growth",
            f"a decision, {name}, with {sizes.large:,} reports held",
            [big.large_us],
            "µs",
            peer=f"with {sizes.small:,}",
            peers=[big.small_us],
            ratios=big.ratios,
            most=MOST_GROWTH if name in (ACE_GATED, ACE_UNCHECKED, ACE_CHECKED) else None,
        )
    page.figure(
        "history-bytes", f"memory of the history, {sizes.large:,} reports", [end], "bytes/report"
    )
    page.write(results_folder(options.results, options.quick))


if __name__ == "__main__":
    main()
