"""What a fairness metric costs, beside Fairlearn's functions and beside a boosting round.

The contenders take turns, on the same made-up rows; before anything is timed they must agree.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import fairlearn.metrics
import lightgbm as lgb
import numpy as np

from acetune.cli.demo_credit import made_credit
from acetune.constraints import FairnessCheck, fairness
from benchmarks.common import results_folder, say
from benchmarks.speed import SpeedPage

ROWS = 9_000
AT_LEAST = 100  # times faster than Fairlearn
CALLS = 20  # of ours are timed together: one is near the clock's own noise

Work: TypeAlias = Callable[[], object]


def seconds(work: Work, calls: int = 1) -> float:
    """CPU time of one call: the machine is shared, and nobody here waits for anything."""
    began = time.process_time()
    for _ in range(calls):
        work()
    return (time.process_time() - began) / calls


class Rows:
    """Labels, scores and groups of people."""

    def __init__(self, groups: int, rng: np.random.Generator) -> None:
        self.group = rng.integers(0, groups, ROWS)
        self.named = np.array([f"group {number}" for number in range(groups)])[self.group]
        self.y = rng.integers(0, 2, ROWS)
        self.scores = np.clip(0.3 * self.y + 0.7 * rng.random(ROWS), 0, 1)
        self.predicted = (self.scores >= 0.5).astype(int)


def contenders(name: Any, rows: Rows) -> dict[str, tuple[Work, int]]:
    """The ways to the same number, and how many calls to time at once."""
    y, predicted = rows.y, rows.predicted
    theirs, ours = getattr(fairlearn.metrics, name), getattr(fairness, name)
    check = FairnessCheck(name, y, rows.group, threshold=0.5)
    expected = theirs(y, predicted, sensitive_features=rows.group)
    assert np.isclose(ours(y, predicted, sensitive_features=rows.named), expected)
    assert np.isclose(check(rows.scores).value, expected)
    return {
        "Fairlearn": (lambda: theirs(y, predicted, sensitive_features=rows.group), 1),
        "Fairlearn, named groups": (
            lambda: theirs(y, predicted, sensitive_features=rows.named),
            1,
        ),
        "function": (lambda: ours(y, predicted, sensitive_features=rows.group), CALLS),
        "function, named groups": (
            lambda: ours(y, predicted, sensitive_features=rows.named),
            CALLS,
        ),
        "function, with s.e.": (
            lambda: ours(y, predicted, sensitive_features=rows.group, stderr=True),
            CALLS,
        ),
        "FairnessCheck, with s.e.": (lambda: check(rows.scores), CALLS),
    }


def in_turns(works: dict[str, tuple[Work, int]], rounds: int) -> dict[str, list[float]]:
    """Seconds a call, round by round, after one round that does not count."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(rounds + 1):
        for name, (work, calls) in works.items():
            taken = seconds(work, calls)
            if turn:
                found[name].append(taken)
    return found


def us(found: list[float]) -> str:
    """The median, in microseconds."""
    return f"{statistics.median(found) * 1e6:,.0f}"


def ratio(slow: list[float], fast: list[float]) -> float:
    """The median of the ratios within a round."""
    return statistics.median(a / b for a, b in zip(slow, fast, strict=True))


def beside_boosting(rounds: int) -> dict[str, list[float]]:
    """One LightGBM round of the credit task, and one check of its scores."""
    task = made_credit(30_000)
    train, select = task.train_rows, task.select_rows
    shared = {"num_threads": 1, "verbosity": -1}
    rows = lgb.Dataset(train.x, train.y, params=shared)
    options = {**shared, "objective": "binary", "num_leaves": 31}
    booster = lgb.Booster(options, rows)
    booster.add_valid(lgb.Dataset(select.x, select.y, reference=rows, params=shared), "select")
    booster.update()
    scores = booster.predict(select.x, num_threads=1)  # more would be kept, and spin, from here on
    risky = float(train.y.mean())
    check = FairnessCheck("equalized_odds_difference", select.y, select.group, threshold=risky)

    def theirs() -> object:
        return fairlearn.metrics.equalized_odds_difference(
            select.y, scores >= risky, sensitive_features=select.group
        )

    return in_turns(
        {
            "a boosting round": (booster.update, 1),
            "FairnessCheck, with s.e.": (lambda: check(scores), CALLS),
            "Fairlearn": (theirs, 1),
        },
        rounds,
    )


def main() -> None:
    """Run, print and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds; writes nothing")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--results", type=Path, help="folder for the page")
    options = parser.parse_args()
    rounds = 3 if options.quick else options.rounds

    page = SpeedPage(
        "What a fairness metric costs", "fairness_metrics", sys.argv[1:], ["constraints/*"]
    )
    others = ", ".join(f"{name} {metadata.version(name)}" for name in ("fairlearn", "lightgbm"))
    page.add(
        f"{others}, numpy {np.__version__}.",
        f"Microseconds of CPU time a call on {ROWS:,} rows: the median of {rounds} rounds in "
        "which all take turns.",
        "In brackets: how many times faster than Fairlearn's function of that name on the same "
        "groups, the median of the ratios within a round.",
        "Functions get labels, and count the groups anew in every call; `FairnessCheck` gets "
        "scores, and has counted before.",
        "",
    )
    slowest: dict[int, float] = {}
    for groups in (2, 8):
        rows = Rows(groups, np.random.default_rng(groups))
        table = []
        for name in fairness.__all__:
            found = in_turns(contenders(name, rows), rounds)
            say(f"{groups} groups, {name}: done")
            times = {
                way: ratio(
                    found["Fairlearn, named groups" if "named" in way else "Fairlearn"], taken
                )
                for way, taken in found.items()
                if "Fairlearn" not in way
            }
            cells = [
                f"{us(taken)} ({times[way]:,.0f})" if way in times else us(taken)
                for way, taken in found.items()
            ]
            table.append([f"`{name}`", *cells])
            slowest[groups] = min(slowest.get(groups, np.inf), *times.values())
        page.table([f"{groups} groups", *found], table)
    boosting = beside_boosting(rounds)
    page.add(
        "Beside training, on the credit task made by code (18,000 rows to train, 6,000 to check):"
    )
    page.add("")
    base = boosting["a boosting round"]
    page.table(
        ["", "microseconds", "of a round"],
        [[way, us(taken), f"{ratio(taken, base):.4f}"] for way, taken in boosting.items()],
    )
    page.add("The round has 31 leaves, on one thread.", "")
    page.figure(
        "fairness-check",
        f"`FairnessCheck`, {ROWS:,} rows",
        [second * 1e6 for second in boosting["FairnessCheck, with s.e."]],
        "µs",
        peer="a boosting round",
        peers=[second * 1e6 for second in base],
    )
    for groups, least in slowest.items():
        page.figure(
            f"fairness-{groups}",
            f"times faster than Fairlearn, the slowest metric, {groups} groups",
            [least],
            "times",
            least=AT_LEAST,
        )
    page.write(results_folder(options.results, options.quick))


if __name__ == "__main__":
    main()
