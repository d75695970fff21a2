"""How fast the machine of a live run is, in terms of the machine that recorded a table.

The mean step of a live run says little about that: which steps were trained depends on the policy
and the luck of the draw, and a step of one configuration costs a hundred times one of another. So
each live trial is compared with what the table says its own configuration would have taken for as
many steps: a polynomial of the hyperparameters and the number of steps, fitted to the logarithm of
the recorded costs. What is left over, averaged over trials, is the machine.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acetune.core.errors import TableError
from acetune.replay.curves import CurveTable
from acetune.reproduce.live_runs import LiveRun, Trained, mean_costs
from acetune.space import Choice, Space

Array = NDArray[np.float64]

_DEGREE = 3
_RIDGE = 1e-3  # for tables with few configurations
_ROUNDS = "n_estimators"  # how long a trial may become, which is no cost of a step


@dataclass(frozen=True, slots=True)
class Calibration:
    """The costs of a live experiment, and what they are in the units of a table."""

    slower: float  # seconds here for a second of the table, for the same work
    trials: int  # that say so
    step_s: float  # mean over the steps that were trained here
    check_s: float  # mean over the checks that were made here
    table_step_s: float  # mean over all recorded steps

    @property
    def live_ratio(self) -> float:
        """What a check cost here, relative to the mean step that was trained here."""
        return self.check_s / self.step_s

    @property
    def cost_ratio(self) -> float:
        """What a check cost here, relative to the table's mean step: the ratio of the replay."""
        return self.check_s / self.slower / self.table_step_s

    def in_table_s(self, seconds: float) -> float:
        """Seconds of this machine as seconds of the table's."""
        return seconds / self.slower

    def to_json(self) -> dict[str, float]:
        """As plain data."""
        return {
            "live_seconds_a_table_second": self.slower,
            "from_trials": self.trials,
            "step_s": self.step_s,
            "check_s": self.check_s,
            "cost_ratio_live": self.live_ratio,
            "table_step_s": self.table_step_s,
            "cost_ratio_in_replay": self.cost_ratio,
        }


def calibrate(table: CurveTable, runs: Sequence[LiveRun]) -> Calibration:
    """Compare all runs of one machine with the table."""
    if any(run.space != table.space for run in runs):
        raise TableError(
            f"the table {table.name!r} was recorded in another search space than the live studies "
            "(their data or the task's bounds differ); give its own table, or --no-replay"
        )
    means = mean_costs(runs)
    if means is None:
        raise TableError(
            "the live studies trained or checked nothing, so there is nothing to scale a replay "
            "by; give a larger budget, or --no-replay"
        )
    trained = [trial for run in runs for trial in run.trained]
    return Calibration(slowdown(table, trained), len(trained), *means, table.mean_cost_s)


def slowdown(table: CurveTable, trained: Sequence[Trained]) -> float:
    """Live seconds for a second of the table's machine, for the same work.

    A geometric mean over trials, each weighted by the square root of the time that the table
    expects for it: by that time itself, a few long trials would decide; all alike, the thousands
    that were stopped at once.
    """
    if table.space is None:
        raise TableError(
            f"the table {table.name!r} does not say what space was searched: a live run cannot be "
            "compared with it; give another table, or --no-replay"
        )
    space = Space.from_description(table.space)
    fitted = _fit(table, space)
    steps = np.array([trial.steps for trial in trained], float)
    features = _features(space, [(trial.params, trial.steps) for trial in trained])
    expected = features @ fitted  # log seconds a step
    took = np.log([trial.seconds for trial in trained]) - np.log(steps)
    weights = np.sqrt(steps * np.exp(expected))
    return float(np.exp(np.average(took - expected, weights=weights)))


def _fit(table: CurveTable, space: Space) -> Array:
    """Coefficients for the mean cost of the first n steps, for n = 1, 2, 4, ... and all."""
    begun: list[tuple[Mapping[str, Any], int]] = []
    means: list[float] = []
    for config, params in enumerate(table.configs):
        total = table.steps(config)
        start = int(table.starts[config])
        spent = np.cumsum(table.cost_s[start : start + total])
        for n in sorted({*(2**k for k in range(total.bit_length())), total}):
            if spent[n - 1] > 0:
                begun.append((params, n))
                means.append(math.log(spent[n - 1] / n))
    features, target = _features(space, begun), np.array(means)
    penalty = _RIDGE * np.eye(features.shape[1])
    penalty[0, 0] = 0.0  # the mean is free
    found: Array = np.linalg.solve(features.T @ features + penalty, features.T @ target)
    return found


def _features(space: Space, begun: Sequence[tuple[Mapping[str, Any], int]]) -> Array:
    """All products of up to three coordinates: hyperparameters from 0 to 1, and log steps."""
    at = np.array([[*_place(space, params), math.log(n) / 8] for params, n in begun])
    columns = [np.ones(len(at))]
    for degree in range(1, _DEGREE + 1):
        for chosen in itertools.combinations_with_replacement(range(at.shape[1]), degree):
            columns.append(at[:, chosen].prod(axis=1))
    return np.stack(columns, axis=1)


def _place(space: Space, params: Mapping[str, Any]) -> list[float]:
    place = []
    for name, dimension in space.dimensions.items():
        if name == _ROUNDS or isinstance(dimension, Choice):
            continue
        low, high, value = float(dimension.low), float(dimension.high), float(params[name])
        if dimension.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        place.append((value - low) / (high - low) if high > low else 0.0)
    return place
