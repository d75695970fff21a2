"""Recorded learning curves in memory: columns of numbers, checked once when they are put together.

The row of configuration ``i`` at step ``s`` is ``starts[i] + s - 1``: steps count from 1 and have
no gaps. How a table lies on disk is in :mod:`acetune.replay.table_file`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from acetune.core.errors import GoalError, TableError
from acetune.core.goals import Constraint, Goals, Objective
from acetune.core.numbers import is_bool

CONFIRM = "@confirm"  # <metric>@confirm is the metric on rows that the search does not see
RESERVED = ("config", "step", "cost_s")  # columns that are no metrics
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Curve: TypeAlias = tuple[Mapping[str, Any], Mapping[str, ArrayLike], ArrayLike, int | None]


@dataclass(frozen=True, slots=True)
class TableConstraint:
    """The limit under which a table was recorded, and what one check of it cost.

    With ``sparse`` the table may hold NaN: checkpoints that nobody checked.

    >>> TableConstraint("eod", upper=0.25, cost_s=0.0153).goal.describe()
    'eod <= 0.25'
    """

    metric: str
    upper: float | None = None
    lower: float | None = None
    cost_s: float = 0.0
    sparse: bool = False

    def __post_init__(self) -> None:
        try:
            _ = self.goal
        except GoalError as error:
            raise TableError(str(error)) from None
        _require_cost(self.cost_s, f"cost_s of the constraint {self.metric!r}")
        if not isinstance(self.sparse, bool):
            raise TableError(
                f"sparse of the constraint {self.metric!r} must be true or false, "
                f"got {self.sparse!r}"
            )

    @property
    def goal(self) -> Constraint:
        """The limit as the rest of the package has it."""
        return Constraint(self.metric, upper=self.upper, lower=self.lower)


@dataclass(frozen=True, eq=False)
class CurveTable:
    """Full learning curves of many configurations, to replay policies on.

    Parameters
    ----------
    name:
        What people call it.
    objective:
        The metric to optimise; its values are finite everywhere.
    constraints:
        The limits it was recorded under; replays may take others on the same metrics.
    configs:
        The hyperparameters of each configuration.
    starts:
        Row offsets: rows ``starts[i]`` to ``starts[i + 1] - 1`` are steps 1, 2, ... of ``i``.
    metrics:
        A column of values a metric. ``<metric>@confirm`` is the metric on rows that the search
        does not see; it may hold NaN only where a constraint is sparse.
    cost_s:
        What each step cost without checks, in seconds.
    total_steps:
        The number of steps T of each configuration: that of its rows if its curve is complete,
        more if it was cut off, 0 if it was cut off and T is not known.
    space:
        The searched space as ``Space.describe()`` has it, None if it is not known.
    made:
        How the table was made: command, seed, versions.

    The arrays are read-only. See :func:`make_table` for an example.
    """

    name: str
    objective: Objective
    constraints: tuple[TableConstraint, ...]
    configs: tuple[dict[str, Any], ...]
    starts: Ints
    metrics: dict[str, Floats]
    cost_s: Floats
    total_steps: Ints
    space: dict[str, Any] | None = None
    made: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # the way to normalise a field of a frozen dataclass
        set_field(self, "starts", _read_only(self.starts, np.int64, "starts"))
        set_field(self, "total_steps", _read_only(self.total_steps, np.int64, "total_steps"))
        set_field(self, "cost_s", _read_only(self.cost_s, np.float64, "cost_s"))
        columns = {m: _read_only(v, np.float64, repr(m)) for m, v in self.metrics.items()}
        set_field(self, "metrics", columns)
        _require_names(self)
        _require_shapes(self)
        _require_values(self)

    def __repr__(self) -> str:
        limits = ", ".join(c.goal.describe() for c in self.constraints) or "no constraint"
        return (
            f"<CurveTable {self.name!r}: {len(self.configs)} configurations, {len(self.cost_s)} "
            f"steps, {self.objective.mode} {self.objective.name}, {limits}>"
        )

    def steps(self, config: int) -> int:
        """How many steps of the configuration were recorded."""
        return int(self.starts[config + 1] - self.starts[config])

    def complete(self, config: int) -> bool:
        """Whether the curve of the configuration goes up to its last step."""
        return int(self.total_steps[config]) == self.steps(config)

    def curve(self, config: int, metric: str) -> Floats:
        """The values of a metric at steps 1, 2, ... of a configuration."""
        return self.metrics[metric][self.starts[config] : self.starts[config + 1]]

    @cached_property
    def mean_cost_s(self) -> float:
        """Mean cost of one step without checks, over all rows."""
        return float(self.cost_s.mean())

    @property
    def mean_check_cost_s(self) -> float:
        """Mean cost of checking one checkpoint, all constraints together."""
        return math.fsum(constraint.cost_s for constraint in self.constraints)

    @property
    def has_confirmation(self) -> bool:
        """Whether objective and constraints are also known on rows the search does not see."""
        judged = [self.objective.name, *(c.metric for c in self.constraints)]
        return all(metric + CONFIRM in self.metrics for metric in judged)

    def subset(self, indices: Sequence[int] | Ints) -> CurveTable:
        """The table of some configurations, in that order; repeats are welcome (bootstrap)."""
        chosen = np.asarray(indices)
        if not chosen.size:
            raise TableError("a subset needs at least one configuration, got none")
        if chosen.ndim != 1 or not np.issubdtype(chosen.dtype, np.integer):
            raise TableError(f"a subset takes a list of indices, got {indices!r}")
        wrong = chosen[(chosen < 0) | (chosen >= len(self.configs))]
        if wrong.size:
            raise TableError(
                f"there is no configuration {wrong[0]}; the table has 0 to {len(self.configs) - 1}"
            )
        lengths = np.diff(self.starts)[chosen]
        starts = offsets(lengths)
        rows = np.arange(starts[-1]) + np.repeat(self.starts[chosen] - starts[:-1], lengths)
        return replace(
            self,
            configs=tuple(self.configs[i] for i in chosen),
            starts=starts,
            metrics={metric: column[rows] for metric, column in self.metrics.items()},
            cost_s=self.cost_s[rows],
            total_steps=self.total_steps[chosen],
        )


def make_table(
    name: str,
    objective: Objective,
    constraints: Iterable[TableConstraint],
    curves: Iterable[Curve],
    *,
    space: Mapping[str, Any] | None = None,
    made: Mapping[str, Any] | None = None,
) -> CurveTable:
    """A table from curves: (hyperparameters, values by metric, costs in seconds, T).

    T is None for a complete curve, the planned number of steps for one that was cut off, and 0 for
    one that was cut off when nobody knows that number.

    >>> curves = [
    ...     ({"lr": 0.1}, {"auc": [0.7, 0.8], "eod": [0.1, 0.3]}, [0.02, 0.02], None),
    ...     ({"lr": 0.3}, {"auc": [0.75], "eod": [0.2]}, [0.05], 10),
    ... ]
    >>> limit = TableConstraint("eod", upper=0.25, cost_s=0.01)
    >>> table = make_table("two", Objective("auc", "max"), [limit], curves)
    >>> table
    <CurveTable 'two': 2 configurations, 3 steps, max auc, eod <= 0.25>
    >>> table.curve(0, "eod").tolist(), table.complete(1)
    ([0.1, 0.3], False)
    """
    configs: list[dict[str, Any]] = []
    parts: dict[str, list[Floats]] = {}
    costs: list[Floats] = []
    totals: list[int] = []
    for config, (params, metrics, cost_s, total) in enumerate(curves):
        where = f"configuration {config}"
        if config and set(metrics) != set(parts):
            raise TableError(
                f"{where} has the metrics {sorted(metrics)}, those before it {sorted(parts)}; "
                "every configuration needs the same"
            )
        cost = _floats(cost_s, f"{where}: 'cost_s'")
        for metric, values in metrics.items():
            column = _floats(values, f"{where}: {metric!r}")
            if column.shape != cost.shape:
                raise TableError(
                    f"{where} has {column.size} values of {metric!r} but {cost.size} costs; "
                    "each step needs both"
                )
            parts.setdefault(metric, []).append(column)
        costs.append(cost)
        configs.append({k: v.item() if isinstance(v, np.generic) else v for k, v in params.items()})
        totals.append(cost.size if total is None else total)
    if not configs:
        raise TableError("the table is empty: it needs at least one configuration")
    return CurveTable(
        name,
        objective,
        tuple(constraints),
        tuple(configs),
        offsets([cost.size for cost in costs]),
        {metric: np.concatenate(columns) for metric, columns in parts.items()},
        np.concatenate(costs),
        np.array(totals),
        None if space is None else dict(space),
        dict(made or {}),
    )


def offsets(lengths: Sequence[int] | Ints) -> Ints:
    """Where curves of these lengths begin when they lie one behind the other, and the end."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _floats(values: ArrayLike, what: str) -> Floats:
    _refuse_bools(values, what)
    try:
        column = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TableError(f"{what} must be a list of numbers: {error}") from None
    if column.ndim != 1:
        raise TableError(f"{what} must be a list of numbers, got {column.ndim} dimensions")
    return column


def _refuse_bools(values: ArrayLike, what: str) -> None:
    """True and False would be read as 1 and 0."""
    if is_bool(values) or (isinstance(values, Sequence) and any(map(is_bool, values))):
        raise TableError(
            f"{what} holds true or false; give the measured numbers themselves, which limits are "
            "compared with"
        )


def _read_only(values: NDArray[Any], dtype: type[np.generic], what: str) -> NDArray[Any]:
    _refuse_bools(values, what)
    column = np.ascontiguousarray(values, dtype=dtype)
    if column.ndim != 1:
        raise TableError(f"{what} must have one dimension, got {column.ndim}")
    column = column.view()  # so that the caller's own array stays writable
    column.flags.writeable = False
    return column


def _require_cost(value: object, what: str) -> None:
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
