"""How fast the machine of a live run is, in terms of the machine that recorded a table.

The mean step of a live run says little about that: which steps were trained depends on the policy
and the luck of the draw, and a step of one configuration costs a hundred times one of another. So
each live trial is compared with what the table's machine would have taken for its configuration and
length. A budget is used up by sums of seconds, so it is sums that are compared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from acetune.core.errors import TableError
from acetune.replay.curve_table import CurveTable
from acetune.replay.statistics import Interval
from paper.live_costs import ExpectedCosts
from paper.live_runs import LiveRun, Trained, mean_costs

Which: TypeAlias = tuple[str | None, int | None]  # policy and seed; None: all of them

_SAMPLES = 1000


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Live seconds for a second of the table's machine, for the same work."""

    whole: Interval  # 95 %, over the configurations that were trained live
    by: Mapping[Which, float]  # without those that trained nothing
    trials: int
    configs: int
    understated: float  # by how much the sums of the fit had to be raised


@dataclass(frozen=True, slots=True)
class Calibration:
    """The costs of a live experiment, and what they are in the units of a table."""

    slowdown: Slowdown
    step_s: float  # mean over the steps that were trained here
    check_s: float  # mean over the checks that were made here
    table_step_s: float  # mean over all recorded steps

    @property
    def slower(self) -> float:
        """Seconds here for a second of the table, over everything that was trained."""
        return self.slowdown.whole.mean

    @property
    def live_ratio(self) -> float:
        """What a check cost here, relative to the mean step that was trained here."""
        return self.check_s / self.step_s

    @property
    def cost_ratio(self) -> float:
        """What a check cost here, relative to the table's mean step: the ratio of the replay."""
        return self.in_table_s(self.check_s) / self.table_step_s

    def in_table_s(self, seconds: float) -> float:
        """Seconds of this machine as seconds of the table's."""
        return seconds / self.slower

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "live_seconds_a_table_second": self.slower,
            "live_seconds_a_table_second_95": [self.slowdown.whole.low, self.slowdown.whole.high],
            "live_seconds_a_table_second_by": [
                {"policy": policy, "seed": seed, "value": value}
                for (policy, seed), value in self.slowdown.by.items()
            ],
            "from_trials": self.slowdown.trials,
            "from_configurations": self.slowdown.configs,
            "fit_raised_by": self.slowdown.understated,
            "step_s": self.step_s,
            "check_s": self.check_s,
            "cost_ratio_live": self.live_ratio,
            "table_step_s": self.table_step_s,
            "cost_ratio_in_replay": self.cost_ratio,
        }


def require_space(table: CurveTable, space: Mapping[str, Any]) -> None:
    """An error where the table was not recorded in the space of the live studies."""
    if table.space is None:
        raise TableError(
            f"the table {table.name!r} does not say what space was searched: a live run cannot be "
            "compared with it; give another table, or --no-replay"
        )
    if space != table.space:
        raise TableError(
            f"the table {table.name!r} was recorded in another search space than the live studies "
            "(their data or the task's bounds differ); give its own table, or --no-replay"
        )


def calibrate(table: CurveTable, runs: Sequence[LiveRun]) -> Calibration:
    """Compare all runs of one machine with the table."""
    for run in runs:
        require_space(table, run.space)
    means = mean_costs(runs)
    if means is None:
        raise TableError(
            "the live studies trained or checked nothing, so there is nothing to scale a replay "
            "by; give a larger budget, or --no-replay"
        )
    trained: dict[tuple[str, int], list[Trained]] = {}
    for run in runs:
        trained.setdefault((run.run.policy, run.run.seed), []).extend(run.trained)
    return Calibration(slowdown(table, trained), *means, table.mean_cost_s)


def slowdown(
    table: CurveTable, trained: Mapping[tuple[str, int], Sequence[Trained]], seed: int = 0
) -> Slowdown:
    """What all trials took live, over what they would have taken where the table was recorded.

    Parameters
    ----------
    table:
        With the space that was searched.
    trained:
        Live trials by policy and seed, at least one.
    seed:
        Of the bootstrap over configurations; policies of a seed train the same ones.
    """
    studies = [which for which, found in trained.items() for _ in found]
    trials = [trial for found in trained.values() for trial in found]
    begun = [(trial.params, trial.steps) for trial in trials]
    costs = ExpectedCosts(table)
    took, expected = np.array([trial.seconds for trial in trials]), costs.seconds(begun)
    by: dict[Which, float] = {}
    policies, seeds = (list(dict.fromkeys(names)) for names in zip(*trained, strict=True))
    for policy in (*policies, None):
        for number in (*seeds, None):
            chosen = np.array([policy in (None, p) and number in (None, s) for p, s in studies])
            if chosen.any():
                by[policy, number] = float(took[chosen].sum() / expected[chosen].sum())
    configs = [json.dumps(trial.params, sort_keys=True) for trial in trials]
    distinct, owners = np.unique(configs, return_inverse=True)
    sums = np.stack([np.bincount(owners, weights=values) for values in (took, expected)])
    rng = np.random.default_rng(seed)
    drawn = [
        sums[:, rng.integers(len(distinct), size=len(distinct))].sum(axis=1)
        for _ in range(_SAMPLES)
    ]
    low, high = np.quantile([live / table_s for live, table_s in drawn], [0.025, 0.975])
    return Slowdown(
        Interval(by[None, None], float(low), float(high)),
        by,
        len(trials),
        len(distinct),
        float(expected.sum() / costs.uncorrected(begun).sum()),
    )
