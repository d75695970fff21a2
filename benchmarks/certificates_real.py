"""Certificates on real data: held-out rows are the population, studies draw from it many times.

    .venv/bin/python benchmarks/certificates_real.py --credit UCI_Credit_Card.csv --law law.csv \
        --sst2 FOLDER --suite sentiment_tests.jsonl.gz --model FOLDER

Checkpoints of random configurations are trained once; their predictions on rows that they were not
trained on, the population, are recorded. A study draws rows to select by and fresh rows from it,
with replacement. It selects among all checkpoints as ``tune`` does, and tests on the fresh rows.
The truth is known: the value on the whole population.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from acetune.certification.account import Account
from acetune.certification.candidates import Position, choose
from acetune.certification.group_rates import GroupRates, Rate
from acetune.certification.margin import auto_margin
from acetune.cli.demo_credit import Rows, auc, lightgbm, read_rows
from benchmarks.certificates_sst2 import Sentiment, record_sst2
from benchmarks.common import versions
from paper.tasks.law import read_law, row_weights

RESULT = Path(__file__).parent / "results" / "certificates-real.json"
Array = NDArray[Any]
CONFIGURATIONS, ROUNDS, KEEP, TOP = 40, (3, 6, 12, 25, 50, 100), 5, 5
LEVEL = Account(0.95).level(1)
MARGINS = {"auto": None, "0": 0.0, "1": 1.0, "1.645": 1.645}


class Sample(Protocol):
    """What drawn rows say of all checkpoints."""

    @property
    def value(self) -> Array:
        """The objective; more is better."""

    @property
    def measured(self) -> tuple[Array, Array]:
        """What has the limit, and its standard error."""

    def p_value(self, place: int, limit: float) -> float:
        """The package's own test of one checkpoint."""

    def passes_nearly(self, limit: float, level: float) -> Array:
        """Which checkpoints pass, for the oracle, which needs the power of all."""


class Population(Protocol):
    """All checkpoints on all rows: the truth."""

    config: Array  # of each checkpoint
    value: Array
    truth: Array  # what has the limit
    telling: Array  # which checkpoints give more than one answer: limits are taken from them
    shares: tuple[float, float]  # how many of them keep the limits

    def draw(self, rng: np.random.Generator, rows: int) -> Sample:
        """Rows of a study."""


class Table(NamedTuple):
    """Predictions of all checkpoints on the population."""

    config: Array  # of each checkpoint
    positive: Array  # checkpoints x rows
    order: Array  # checkpoints x rows: rows by rising score
    y: Array
    cells: Array  # 4 x rows: label 0 and 1, group 1 and 2
    auc: Array  # the truth, and
    eod: Array


def record(train: Rows, held: Rows, categorical: tuple[int, ...], reweigh: bool) -> Table:
    """Train random configurations and predict the population after some of their rounds."""
    lgb, rng = lightgbm(), np.random.default_rng(7)
    config, positive, order, areas = [], [], [], []
    for number in range(CONFIGURATIONS):
        weights = row_weights(train, rng.uniform(0, 1), 0.0) if reweigh else None
        options = {
            "objective": "binary", "verbosity": -1, "num_threads": 1, "seed": 1,
            "num_leaves": int(2 ** rng.uniform(2, 5)), "learning_rate": 10 ** rng.uniform(-2, -0.3),
            "min_child_samples": int(2 ** rng.uniform(1, 7)),
            "feature_fraction": rng.uniform(0.05, 1.0), "lambda_l2": 10 ** rng.uniform(-3, 3),
        }  # fmt: skip
        data = lgb.Dataset(train.x, train.y, weight=weights, categorical_feature=list(categorical))
        booster = lgb.train(options, data, max(ROUNDS))
        for rounds in ROUNDS:
            scores = booster.predict(held.x, num_iteration=rounds)
            cutoff = np.quantile(booster.predict(train.x, num_iteration=rounds), 1 - train.y.mean())
            config.append(number)
            positive.append(scores > cutoff)
            order.append(np.argsort(scores + 1e-9 * rng.random(len(scores))))
            areas.append(auc(held.y, scores).value)
    cells = np.array([(held.y == label) & (held.group == g) for label in (0, 1) for g in (1, 2)])
    table = Table(
        np.array(config), np.array(positive, np.float32), np.array(order, np.int32), held.y,
        cells.astype(np.float32), np.array(areas), np.empty(0),
    )  # fmt: skip
    selected, total = counted(table, np.ones(len(held.y), np.float32))
    return table._replace(eod=gaps(selected, total).max(axis=1))


def counted(table: Table, weights: Array) -> tuple[Array, Array]:
    """Positive predictions in the four cells of each checkpoint, and the rows of the cells."""
    weighted = table.cells * weights
    return table.positive @ weighted.T, weighted.sum(axis=1)


def gaps(selected: Array, total: Array) -> Array:
    """Differences in false and in true positive rates, a column each."""
    rates = selected / total
    found: Array = np.abs(rates[:, [0, 2]] - rates[:, [1, 3]])
    return found


def estimates(selected: Array, total: Array) -> tuple[Array, Array]:
    """Equalised odds differences with their standard errors, as FairnessCheck gives them."""
    p = (selected + 1) / (total + 2)
    variance = p * (1 - p) / total
    apart = gaps(selected, total)
    spread = np.sqrt(variance[:, [0, 2]] + variance[:, [1, 3]])
    value = apart.max(axis=1)
    return value, (apart + spread).max(axis=1) - value


def areas(table: Table, weights: Array) -> Array:
    """The AUC of each checkpoint on rows that count so often."""
    ordered = weights[table.order]
    positive = ordered * (table.y[table.order] > 0.5)
    negative = ordered - positive
    below = np.cumsum(negative, axis=1) - negative / 2
    found: Array = (positive * below).sum(axis=1) / positive.sum(axis=1) / negative.sum(axis=1)
    return found


def p_value(selected: Array, total: Array, limit: float) -> float:
    """The package's own test."""
    x, n = np.rint(selected).astype(int).tolist(), np.rint(total).astype(int).tolist()
    rates = (Rate("fpr", (x[0], x[1]), (n[0], n[1])), Rate("tpr", (x[2], x[3]), (n[2], n[3])))
    return GroupRates(rates, "difference").p_value(limit, "<=")


class Fairness:
    """The population: AUC is the objective, the equalised odds difference has the limit."""

    def __init__(self, table: Table) -> None:
        self.config, self.value, self.truth, self.table = table.config, table.auc, table.eod, table
        self.telling = table.eod > 0.02  # others flag nobody, or everybody
        self.shares = (0.2, 0.4)

    def draw(self, rng: np.random.Generator, rows: int) -> FairnessSample:
        """So many rows, with replacement."""
        size = len(self.table.y)
        weights = rng.multinomial(rows, np.full(size, 1 / size)).astype(np.float32)
        return FairnessSample(areas(self.table, weights), *counted(self.table, weights))


class FairnessSample(NamedTuple):
    """What rows of a study say of all checkpoints."""

    value: Array
    selected: Array
    total: Array

    @property
    def measured(self) -> tuple[Array, Array]:
        """As FairnessCheck gives it."""
        return estimates(self.selected, self.total)

    def p_value(self, place: int, limit: float) -> float:
        """The package's own test."""
        return p_value(self.selected[place], self.total, limit)

    def passes_nearly(self, limit: float, level: float) -> Array:
        """The normal test of both rates."""
        rates = self.selected / self.total
        variance = rates * (1 - rates) / self.total
        spread = np.sqrt(variance[:, [0, 2]] + variance[:, [1, 3]])
        far = (gaps(self.selected, self.total) - limit) / np.maximum(spread, 1e-9)
        found: Array = (far <= stats.norm.ppf(level)).all(axis=1)
        return found


def best_of_each(table: Population, value: Array, which: Array) -> Array:
    """The best checkpoint of each configuration among some, the best first."""
    rows = np.flatnonzero(which)
    rows = rows[np.argsort(-value[rows], kind="stable")]
    _, first = np.unique(table.config[rows], return_index=True)
    found: Array = rows[np.sort(first)]
    return found


def candidates(table: Population, value: Array, gap: Array, error: Array, limit: float,
               margin: float | None) -> list[int]:  # fmt: skip
    """What is kept and tested, safest first, as ``tune`` does it."""
    aims = margin is None
    size = auto_margin(LEVEL, 1.0, CONFIGURATIONS) if margin is None else margin
    every = best_of_each(table, value, gap + size * error <= limit)
    valid = every[:KEEP]
    pool = list(valid)
    if aims:
        places = [Position(-value[i], (limit - gap[i]) / error[i]) for i in every]
        pool += [every[i] for i in choose(places, KEEP, size + 1.0) if every[i] not in valid]
        bold = best_of_each(table, value, (gap <= limit) & (gap + size * error > limit))
        better = value[valid[0]] if len(valid) else -np.inf
        bold = bold[value[bold] > better]
        kept = choose([Position(-value[i], (limit - gap[i]) / error[i]) for i in bold], KEEP)
        pool += [bold[i] for i in kept]
    positions = [Position(-value[i], (limit - gap[i]) / error[i]) for i in pool]
    enough = stats.norm.ppf(1 - LEVEL) + 2.5
    return [int(pool[i]) for i in choose(positions, TOP, enough)]


def studies(table: Population, limit: float, rows: int, number: int, seed: int) -> dict[str, Any]:
    """Many studies on one table under one limit."""
    rng = np.random.default_rng(seed)
    said: dict[str, list[tuple[bool, bool, float]]] = {}
    passes = np.zeros(len(table.config))
    for _ in range(number):
        search, fresh = table.draw(rng, rows), table.draw(rng, rows)
        value = search.value
        gap, error = search.measured
        passes += fresh.passes_nearly(limit, LEVEL)
        fresh_gap = fresh.measured[0]
        known: dict[int, float] = {}
        for name, margin in MARGINS.items():
            answer, wrong = None, False
            for place in candidates(table, value, gap, error, limit, margin):
                if answer is not None and value[place] <= value[answer]:
                    continue
                if place not in known:
                    known[place] = fresh.p_value(place, limit)
                if known[place] > LEVEL:
                    break
                answer, wrong = place, wrong or table.truth[place] > limit
            area = np.nan if answer is None else table.value[answer]
            said.setdefault(f"certified, margin {name}", []).append(
                (answer is not None, bool(wrong), float(area))
            )
            if margin is None:
                continue
            valid = best_of_each(table, value, gap + margin * error <= limit)[:TOP]
            held = next((int(i) for i in valid if fresh_gap[i] <= limit), None)
            area = np.nan if held is None else table.value[held]
            broken = held is not None and table.truth[held] > limit
            said.setdefault(f"first value that holds, margin {name}", []).append(
                (held is not None, bool(broken), float(area))
            )
    likely = np.flatnonzero(passes / number >= 0.9)
    best = float(table.value[likely].max()) if len(likely) else None
    return {
        "limit": limit,
        "rows": rows,
        "studies": number,
        "oracle": best,
        "methods": {name: _scored(found, best) for name, found in said.items()},
    }


def _scored(found: list[tuple[bool, bool, float]], best: float | None) -> dict[str, float | None]:
    issued, wrong, area = (np.array(column) for column in zip(*found, strict=True))
    lost = None
    if best is not None and issued.any():
        lost = float(100 * (best - np.nanmean(area)))
    return {
        "issued": float(issued.mean()),
        "false": float(wrong.mean()),
        "points_below_oracle": lost,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--credit", type=Path, help="the file of UCI's credit card clients")
    parser.add_argument("--law", type=Path, help="the file of law school admissions")
    parser.add_argument("--sst2", type=Path, help="the folder of GLUE's SST-2")
    parser.add_argument("--suite", type=Path, help="CheckList's suite, for --sst2")
    parser.add_argument("--model", type=Path, help="the folder of a sentence model, for --sst2")
    parser.add_argument("--embeddings", type=Path, help="where its embeddings are kept, or will be")
    parser.add_argument("--studies", type=int, default=400)
    asked = parser.parse_args()
    tables: dict[str, Population] = {}
    if asked.credit:
        rows, categorical = read_rows(asked.credit)
        half = np.random.default_rng(0).permutation(len(rows.y))
        train, held = (rows.take(np.sort(part)) for part in np.array_split(half, 2))
        tables["credit"] = Fairness(record(train, held, categorical, reweigh=False))
    if asked.law:
        task = read_law(asked.law)
        parts = (task.select_rows, task.confirm_rows)
        held = Rows(*(np.concatenate([getattr(p, n) for p in parts]) for n in ("x", "y", "group")))
        tables["law"] = Fairness(record(task.train_rows, held, (), reweigh=True))
    if asked.sst2:
        if asked.suite is None or asked.model is None:
            parser.error("--sst2 takes --suite and --model too")
        made = record_sst2(asked.sst2, asked.suite, asked.model, asked.embeddings)
        tables["SST-2"] = Sentiment(made)
    began = time.time()
    results: list[dict[str, Any]] = []
    for name, table in tables.items():
        for share in table.shares:
            limit = round(float(np.quantile(table.truth[table.telling], share)), 3)
            for rows_ in (2_000, 6_000):
                found = studies(table, limit, rows_, asked.studies, len(results))
                results.append({"data": name, "checkpoints": len(table.config), **found})
                print(f"{time.time() - began:.0f} s", json.dumps(results[-1]), flush=True)
    kept = json.loads(RESULT.read_text())["results"] if RESULT.exists() else []
    results = [row for row in kept if row["data"] not in tables] + results
    results.sort(key=lambda row: ["credit", "law", "SST-2"].index(row["data"]))
    made_with = {"level": LEVEL, "results": results, "versions": versions()}
    RESULT.write_text(json.dumps(made_with, indent=1) + "\n")


if __name__ == "__main__":
    main()
