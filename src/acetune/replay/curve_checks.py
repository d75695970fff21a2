"""What a curve table must satisfy; every complaint names the place and the way out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from acetune.core.errors import GoalError, TableError
from acetune.core.goals import Goals

if TYPE_CHECKING:
    from acetune.replay.curves import CurveTable, Floats

CONFIRM = "@confirm"  # <metric>@confirm is the metric on rows that the search does not see
RESERVED = ("config", "step", "cost_s")  # columns that are no metrics


def require_whole(table: CurveTable) -> None:
    """An error unless names, shapes and values of the table fit together."""
    _require_names(table)
    _require_shapes(table)
    _require_values(table)


def require_cost(value: object, what: str) -> None:
    """An error that names ``what`` unless ``value`` is a finite number, 0 or more."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TableError(f"{what} must be a number of seconds, got {value!r}")
    if not math.isfinite(value) or value < 0:
        raise TableError(f"{what} must be finite and >= 0, got {value}")


def _require_names(table: CurveTable) -> None:
    """Objective and constraints must be columns, and columns must have names that fit."""
    if not isinstance(table.name, str) or not table.name:
        raise TableError(f"a table needs a name, got {table.name!r}")
    try:
        Goals(table.objective, tuple(constraint.goal for constraint in table.constraints))
    except GoalError as error:
        raise TableError(str(error)) from None
    known = sorted(table.metrics)
    needed = {"objective": [table.objective.name]}
    needed["constraint"] = [constraint.metric for constraint in table.constraints]
    for role, metrics in needed.items():
        for metric in metrics:
            if metric not in table.metrics:
                raise TableError(
                    f"the {role} {metric!r} has no column; the metrics are {known}: "
                    f"rename it, or record {metric!r}"
                )
    for metric in known:
        if metric in RESERVED:
            raise TableError(f"a metric cannot be called {metric!r}; give it another name")
        if metric.endswith(CONFIRM) and metric.removesuffix(CONFIRM) not in table.metrics:
            raise TableError(
                f"column {metric!r} confirms {metric.removesuffix(CONFIRM)!r}, which has no "
                f"column; the metrics are {known}: rename it or leave it out"
            )


def _require_shapes(table: CurveTable) -> None:
    """Every configuration has rows, every column has all rows, and T fits."""
    count, rows = len(table.configs), len(table.cost_s)
    if not count or not rows:
        raise TableError("the table is empty: it needs at least one configuration with one step")
    lengths = np.diff(table.starts)
    if len(lengths) != count or table.starts[0] != 0 or table.starts[-1] != rows:
        raise TableError(
            f"starts must have {count + 1} offsets from 0 to {rows}, got {len(table.starts)} from "
            f"{table.starts[:1]} to {table.starts[-1:]}"
        )
    if (lengths < 1).any():
        raise TableError(
            f"configuration {int(np.argmax(lengths < 1))} has no rows; "
            "record it or take it out of the configurations"
        )
    for metric, column in table.metrics.items():
        if len(column) != rows:
            raise TableError(f"column {metric!r} has {len(column)} rows, cost_s has {rows}")
    if len(table.total_steps) != count:
        raise TableError(f"total_steps has {len(table.total_steps)} entries for {count} configs")
    wrong = (table.total_steps != 0) & (table.total_steps < lengths)
    if wrong.any():
        config = int(np.argmax(wrong))
        raise TableError(
            f"configuration {config} has {lengths[config]} steps of a total of "
            f"{table.total_steps[config]}; the total must be at least that, or 0 if it is not known"
        )


def _require_values(table: CurveTable) -> None:
    """Numbers where numbers are needed; NaN only where it means 'not checked'."""
    sparse = {constraint.metric for constraint in table.constraints if constraint.sparse}
    whole = {table.objective.name, *(c.metric for c in table.constraints)} - sparse
    for metric, column in table.metrics.items():
        if metric in whole or (metric.endswith(CONFIRM) and not sparse):
            _require_rows(table, metric, column, ~np.isfinite(column))
        elif metric in sparse or metric.endswith(CONFIRM):
            _require_rows(table, metric, column, np.isinf(column))
    _require_rows(table, "cost_s", table.cost_s, ~(np.isfinite(table.cost_s) & (table.cost_s >= 0)))


def _require_rows(table: CurveTable, name: str, column: Floats, wrong: NDArray[np.bool_]) -> None:
    if not wrong.any():
        return
    row = int(np.argmax(wrong))
    config = int(np.searchsorted(table.starts, row, side="right")) - 1
    step = row - int(table.starts[config]) + 1
    advice = "it must be finite"
    if name == "cost_s":
        advice = "a cost is a finite number of seconds, 0 or more"
    elif name in {constraint.metric for constraint in table.constraints}:
        advice += "; where checkpoints were never checked use NaN and mark the constraint sparse"
    raise TableError(
        f"configuration {config}, step {step}: {name!r} is {column[row]}; {advice} "
        f"({int(wrong.sum())} such rows)"
    )
