"""Small curve tables made by code, whose best feasible checkpoint is known: to test and to try."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from acetune.core.errors import GoalError
from acetune.core.goals import Objective
from acetune.core.numbers import require_whole
from acetune.replay.curve_table import CurveTable, Floats, TableConstraint, offsets
from acetune.searchers.space import Space, lograndint, uniform

_DECIMALS = 4  # few, so that every machine makes the same table


class BestFeasible(NamedTuple):
    """The best checkpoint of a table that keeps the limit; the earliest of equals."""

    config: int
    step: int
    value: float  # of the objective


class SyntheticTable(NamedTuple):
    """A made table and its answer, which is None where nothing is feasible."""

    table: CurveTable
    best: BestFeasible | None


def synthetic_table(
    configs: int = 100,
    seed: int = 0,
    *,
    max_steps: int = 60,
    difficulty: float = 0.5,
    drift: float = 0.0,
    noise: float = 0.0,
    cost_ratio: float = 2.0,
    confirmation: bool = False,
) -> SyntheticTable:
    """Curves of random configurations ``x``, ``y`` in [0, 1] and ``steps``, log-uniform.

    With ``S = max_steps``, configuration ``(x, y, steps)`` at step ``s`` of ``steps`` has::

        score  = 0.9 - 0.4 (x - 0.7)^2 - 0.3 exp(-(2 + 6 y) s / S)    to be maximised
        gap    = 0.1 + 0.3 x + 0.1 y + drift (s / S - 0.5)            must be <= limit
        cost_s = 0.02 + 0.08 y                                        of every step

    The best score wants ``x = 0.7``, a small gap wants ``x = 0``; a large ``y`` learns in fewer
    steps, which cost more each, and widens the gap a little.

    Parameters
    ----------
    configs, seed:
        How many configurations, and of which draw.
    max_steps:
        ``S``: configurations train for ``S / 4`` to ``S`` steps.
    difficulty:
        Share of all checkpoints that violate the limit, which is chosen so: at 0 all are feasible,
        at 1 none is.
    drift:
        How much the gap grows over ``S`` steps: above 0 feasible checkpoints come early in
        training, below 0 late.
    noise:
        Standard deviation of what is added to every score and gap.
    cost_ratio:
        Cost of one check in mean steps.
    confirmation:
        Add ``score@confirm`` and ``gap@confirm``: the same with noise of their own.

    >>> table, best = synthetic_table(configs=20, difficulty=0.7)
    >>> table
    <CurveTable 'synthetic': 20 configurations, 593 steps, max score, gap <= 0.2939>
    >>> best
    BestFeasible(config=18, step=20, value=0.8121)
    """
    require_whole("configs", configs, least=1)
    require_whole("max_steps", max_steps, least=1)
    if not 0 <= difficulty <= 1:
        raise GoalError(f"difficulty must lie between 0 and 1, got {difficulty!r}")
    for what, number in {"noise": noise, "cost_ratio": cost_ratio}.items():
        if not (math.isfinite(number) and number >= 0):
            raise GoalError(f"{what} must be finite and >= 0, got {number!r}")
    if not math.isfinite(drift):
        raise GoalError(f"drift must be finite, got {drift!r}")

    rng = np.random.default_rng(seed)
    fewest = max(1, max_steps // 4)
    x, y, length = rng.random((3, configs)).round(_DECIMALS)
    lengths = np.floor(fewest * ((max_steps + 1) / fewest) ** length).astype(np.int64)
    lengths = lengths.clip(fewest, max_steps)
    starts = offsets(lengths)
    progress = (np.arange(starts[-1]) - np.repeat(starts[:-1], lengths) + 1) / max_steps
    at_x, at_y = np.repeat(x, lengths), np.repeat(y, lengths)
    score = 0.9 - 0.4 * (at_x - 0.7) ** 2 - 0.3 * np.exp(-(2 + 6 * at_y) * progress)
    gap = 0.1 + 0.3 * at_x + 0.1 * at_y + drift * (progress - 0.5)

    def measured(values: Floats) -> Floats:
        return np.round(values + rng.normal(0.0, noise, len(values)), _DECIMALS)

    metrics = {"score": measured(score), "gap": measured(gap)}
    if confirmation:
        metrics |= {"score@confirm": measured(score), "gap@confirm": measured(gap)}
    cost_s = np.round(0.02 + 0.08 * at_y, _DECIMALS)
    limit = _limit(metrics["gap"], difficulty)
    check_s = round(cost_ratio * float(cost_s.mean()), _DECIMALS + 2)
    space = Space({"x": uniform(0, 1), "y": uniform(0, 1), "steps": lograndint(fewest, max_steps)})
    options = {
        "configs": configs,
        "seed": seed,
        "max_steps": max_steps,
        "difficulty": difficulty,
        "drift": drift,
        "noise": noise,
        "cost_ratio": cost_ratio,
        "confirmation": confirmation,
    }
    table = CurveTable(
        "synthetic",
        Objective("score", "max"),
        (TableConstraint("gap", upper=limit, cost_s=check_s),),
        tuple(
            {"x": a, "y": b, "steps": n}
            for a, b, n in zip(x.tolist(), y.tolist(), lengths.tolist(), strict=True)
        ),
        starts,
        metrics,
        cost_s,
        lengths,
        space.describe(),
        {"by": "acetune.replay.synthetic", **options},
    )
    return SyntheticTable(table, _best(table, limit))


def _limit(gap: Floats, difficulty: float) -> float:
    """The limit that the wanted share of checkpoints violates, up to ties."""
    feasible = round((1 - difficulty) * len(gap))
    in_order = np.sort(gap)
    if not feasible:
        return round(float(in_order[0]) - 0.01, _DECIMALS)
    return float(in_order[feasible - 1])


def _best(table: CurveTable, limit: float) -> BestFeasible | None:
    score = np.where(table.metrics["gap"] <= limit, table.metrics["score"], -np.inf)
    row = int(np.argmax(score))
    if score[row] == -np.inf:
        return None
    config = int(np.searchsorted(table.starts, row, side="right")) - 1
    return BestFeasible(config, row - int(table.starts[config]) + 1, float(score[row]))
