"""What came out of one replay, and of many."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class Incumbent(NamedTuple):
    """From ``time_s`` on this was the best feasible checkpoint known."""

    time_s: float
    value: float  # of the objective, in its own units
    config: int
    step: int


@dataclass(frozen=True, slots=True)
class Cell:
    """Under what conditions policies are compared: runs of one cell and seed are paired."""

    table: str
    constraint: str  # as people write it, "eod <= 0.25"; several joined by ", "
    cost_ratio: float | None  # None: checks cost what was recorded
    budget_s: float
    workers: int
    searcher: str

    def describe(self) -> str:
        """The cell in a line."""
        cost = "costs as recorded" if self.cost_ratio is None else f"cost ratio {self.cost_ratio:g}"
        limit = self.constraint or "no constraint"
        return f"{self.table}, {limit}, {cost}, {self.budget_s:g} s, {self.searcher}"


@dataclass(frozen=True, slots=True)
class Run:
    """One replay: a policy in a cell with a seed."""

    policy: str
    cell: Cell
    seed: int
    mode: str  # "min" or "max": which objectives are better
    incumbents: tuple[Incumbent, ...]  # best feasible over time, each better than the one before
    trials: int  # begun
    reports: int
    constraint_evaluations: int
    unmeasured_checks: int  # asked for a value that the table does not have: counted as failed
    primary_cost_s: float
    constraint_cost_s: float
    time_s: float  # simulated, late checks included
    confirmed: float | None = None  # the objective of the answer on confirmation rows
    broken: bool | None = None  # whether the answer breaks a limit there
    checked_every_step: int = 0  # trials whose interval was 1
    false_stops: int = 0  # stopped trials that hold something better than the answer

    @property
    def best(self) -> float | None:
        """The best feasible objective, None when nothing feasible was found."""
        return self.incumbents[-1].value if self.incumbents else None

    @property
    def loss(self) -> float:
        """The best feasible objective as a loss: smaller is better, infinite for nothing found."""
        if self.best is None:
            return math.inf
        return -self.best if self.mode == "max" else self.best

    @property
    def time_to_first_s(self) -> float | None:
        """When the first feasible checkpoint was found."""
        return self.incumbents[0].time_s if self.incumbents else None

    @property
    def time_to_best_s(self) -> float | None:
        """When the best feasible checkpoint was found."""
        return self.incumbents[-1].time_s if self.incumbents else None

    @property
    def constraint_cost_share(self) -> float:
        """Share of checks in what the reports cost; start-up and what was cut off are left out."""
        total = self.primary_cost_s + self.constraint_cost_s
        return self.constraint_cost_s / total if total else 0.0


@dataclass(frozen=True, slots=True)
class Summary:
    """The runs of one policy in one cell, over seeds. Means leave out what was not found."""

    policy: str
    cell: Cell
    runs: int
    mean: float | None  # of the best feasible objective, over the runs that found one
    sd: float | None
    failures: int  # runs that found nothing feasible
    trials: float
    constraint_evaluations: float
    constraint_cost_share: float
    time_to_first_s: float | None
    time_to_best_s: float | None
    confirmed: float | None  # mean objective on confirmation rows
    broken: float | None  # share of the answers that break a limit there


def summarise(runs: Iterable[Run]) -> list[Summary]:
    """One summary a policy and cell, in the order of first appearance."""
    groups: dict[tuple[str, Cell], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.policy, run.cell), []).append(run)
    return [_summary(policy, cell, found) for (policy, cell), found in groups.items()]


def _summary(policy: str, cell: Cell, runs: list[Run]) -> Summary:
    best = [run.best for run in runs if run.best is not None]
    return Summary(
        policy,
        cell,
        runs=len(runs),
        mean=_mean(best),
        sd=statistics.stdev(best) if len(best) > 1 else None,
        failures=len(runs) - len(best),
        trials=statistics.fmean(run.trials for run in runs),
        constraint_evaluations=statistics.fmean(run.constraint_evaluations for run in runs),
        constraint_cost_share=statistics.fmean(run.constraint_cost_share for run in runs),
        time_to_first_s=_mean([r.time_to_first_s for r in runs if r.time_to_first_s is not None]),
        time_to_best_s=_mean([r.time_to_best_s for r in runs if r.time_to_best_s is not None]),
        confirmed=_mean([run.confirmed for run in runs if run.confirmed is not None]),
        broken=_mean([float(run.broken) for run in runs if run.broken is not None]),
    )


def _mean(values: list[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
