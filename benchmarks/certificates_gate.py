"""Whether a search that checks and keeps more worse and safer models would get more certificates.

    .venv/bin/python benchmarks/certificates_gate.py      # minutes; writes results/

A check is made only of what may beat the k-th best qualifying trial so far (the gate), and only
models up to there are written. A model that is worse and safer than all of those comes into the
sequence of candidates only if it came early. Here whole searches are simulated, one checkpoint a
trial: with the gate as it is, twice as wide, and without one. The truth is known.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from acetune.certification.account import Account
from acetune.certification.candidates import Position, choose
from acetune.certification.margin import auto_margin
from benchmarks.common import versions

RESULT = Path(__file__).parent / "results" / "certificates-gate.json"
Array = NDArray[Any]
Search = Callable[[np.random.Generator, int], tuple[Array, Array]]  # distances in truth, losses
LEVEL, KEEP, TOP, ALIKE = Account(0.95).level(1), 5, 5, 0.7
PASSES = float(stats.norm.ppf(1 - LEVEL))
WIDTHS = {"as it is": 1, "twice as wide": 2, "none": None}


def at_random(conflict: float) -> Search:
    """Configurations as they come; ``conflict``: how much a better objective costs distance."""

    def search(rng: np.random.Generator, trials: int) -> tuple[Array, Array]:
        truth = rng.normal(0.0, 3.0, trials)
        own = rng.normal(size=trials)
        return truth, conflict * truth / 3 + math.sqrt(1 - conflict**2) * own

    return search


def best_first(rng: np.random.Generator, trials: int) -> tuple[Array, Array]:
    """The same, the better ones earlier, by and large: the gate closes soon."""
    truth, loss = at_random(0.7)(rng, trials)
    order = np.argsort(loss + 0.5 * rng.normal(size=trials))
    return truth[order], loss[order]


def converging(rng: np.random.Generator, trials: int) -> tuple[Array, Array]:
    """A tenth at random, the others good ones near the margin that the search aims for."""
    truth, loss = at_random(0.7)(rng, trials)
    first = max(5, trials // 10)
    truth[first:] = rng.normal(3.2, 1.0, trials - first)
    loss[first:] = 0.7 * truth[first:] / 3 - 1.0 + 0.3 * rng.normal(size=trials - first)
    return truth, loss


def twins(rng: np.random.Generator, trials: int) -> tuple[Array, Array]:
    """Near-twins of the best from the start, as with ``points=``; then one in ten at random."""
    truth, loss = at_random(0.7)(rng, trials)
    near = rng.random(trials) < 0.9
    near[:6] = True
    truth[near] = rng.normal(3.2, 0.3, near.sum())
    loss[near] = -1.0 + 0.05 * rng.normal(size=near.sum())
    return truth, loss


def too_near(rng: np.random.Generator, trials: int) -> tuple[Array, Array]:
    """Nothing keeps as far from the limit as the search would like."""
    truth = rng.normal(2.2, 0.5, trials)
    return truth, -1.0 + 0.3 * (truth - 3.0) + 0.05 * rng.normal(size=trials)


SEARCHES: dict[str, Search] = {
    "at random, little conflict": at_random(0.3),
    "at random, much conflict": at_random(0.9),
    "better ones first": best_first,
    "converging on the margin": converging,
    "near-twins of the best from the start": twins,
    "nothing far from the limit": too_near,
}


def measured(rng: np.random.Generator, truth: Array) -> Array:
    """Distances as rows show them, with errors of one standard error that are alike to 70 %."""
    own = math.sqrt(1 - ALIKE) * rng.normal(size=len(truth))
    found: Array = truth + math.sqrt(ALIKE) * rng.normal() + own
    return found


def candidates(loss: Array, seen: Array, width: int | None) -> tuple[list[int], int]:
    """Which trials are tested on fresh rows, in order, and how many were checked."""
    margin = auto_margin(LEVEL, 1.0, len(loss))

    def at(trial: int) -> Position:
        return Position(float(loss[trial]), float(seen[trial]))

    def spread(trials: list[int], enough: float = math.inf) -> list[int]:
        return [trials[i] for i in choose([at(trial) for trial in trials], KEEP, enough)]

    valid: list[int] = []  # kept so far
    bold: list[int] = []
    losses: list[float] = []  # of all that were found valid
    checks = 0
    for trial in range(len(loss)):
        gate = math.inf
        if width is not None and len(losses) >= width * KEEP:
            gate = sorted(losses)[width * KEEP - 1]
        if loss[trial] > gate:
            continue
        checks += 1
        if seen[trial] >= margin:
            losses.append(float(loss[trial]))
            valid = sorted([*valid, trial], key=lambda one: loss[one])
            valid = sorted({*valid[:KEEP], *spread(valid, margin + 1.0)}, key=lambda one: loss[one])
        elif seen[trial] >= 0:
            bold.append(trial)
        best = loss[valid[0]] if valid else math.inf
        bold = spread([one for one in bold if loss[one] < best])
    pool = [*valid, *bold]
    return [pool[i] for i in choose([at(one) for one in pool], TOP, PASSES + 2.5)], checks


def study(rng: np.random.Generator, search: Search, trials: int, width: int | None) -> list[float]:
    """Certified, a false one, loss against the best that is likely to pass, checks, and the spread.

    That is how many standard errors the safest is farther from its limit than the boldest.
    """
    truth, loss = search(rng, trials)
    seen, fresh = measured(rng, truth), measured(rng, truth)
    order, checks = candidates(loss, seen, width)
    answer, wrong = None, False
    for trial in order:
        if answer is not None and loss[trial] >= loss[answer]:
            continue
        if fresh[trial] < PASSES:
            break
        answer, wrong = trial, wrong or truth[trial] < 0
    likely = loss[truth >= PASSES + stats.norm.ppf(0.9)]
    lost = math.nan if answer is None or not len(likely) else float(loss[answer] - likely.min())
    apart = float(np.ptp(seen[order])) if order else 0.0
    return [float(answer is not None), float(wrong), lost, float(checks), apart]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=1000)
    asked = parser.parse_args()
    rows = []
    for name, search in SEARCHES.items():
        for trials in (40, 200):
            for gate, width in WIDTHS.items():
                rng = np.random.default_rng(1)  # the same searches for each gate
                found = np.array([study(rng, search, trials, width) for _ in range(asked.studies)])
                certified, wrong, _, checks, apart = found.mean(axis=0).tolist()
                lost = found[:, 2][np.isfinite(found[:, 2])]
                row = {"search": name, "trials": trials, "gate": gate, "studies": asked.studies,
                       "certified": certified, "false": wrong, "checks": checks, "spread": apart,
                       "lost": float(lost.mean()) if len(lost) else None}  # fmt: skip
                rows.append(row)
                print(json.dumps(row), flush=True)
    RESULT.write_text(json.dumps({"results": rows, "versions": versions()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
