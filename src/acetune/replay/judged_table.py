"""A table under given limits and check costs: everything a simulation looks up, worked out once."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from acetune.core.errors import GoalError, TableError
from acetune.core.goals import Constraint, Estimate, FailedCheck, Goals, constraint_list
from acetune.core.numbers import is_number
from acetune.core.observation import CheckResult, check_result
from acetune.replay.curve_table import CONFIRM, CurveTable

_UNMEASURED = FailedCheck("not recorded")
_LIMIT = re.compile(r"\s*([^<>=\s](?:[^<>=]*[^<>=\s])?)\s*([<>]=)\s*([^<>=\s]+)\s*")


@dataclass(frozen=True, eq=False)
class JudgedTable:
    """Recorded curves, judged.

    Parameters
    ----------
    table:
        The recorded curves.
    constraints:
        The limits; those of the table by default. Their metrics must be in the table.
    cost_ratio:
        What one check costs, all constraints together, relative to the table's mean iteration;
        None: what was recorded.
    """

    table: CurveTable
    constraints: tuple[Constraint, ...]
    cost_ratio: float | None = None

    def __post_init__(self) -> None:
        names = self.table.metrics.keys() - {self.table.objective.name}
        known = sorted(name for name in names if not name.endswith(CONFIRM))
        for constraint in self.constraints:
            if getattr(constraint, "name", None) == self.table.objective.name:
                raise TableError(
                    f"{constraint.name!r} is the objective; limit one of {', '.join(known)}"
                )
        for constraint in self.goals.constraints:
            if constraint.name not in self.table.metrics:
                raise TableError(
                    f"the table {self.table.name!r} has no metric {constraint.name!r} to limit; it "
                    f"has {', '.join(known)}"
                )
            if constraint.margin:
                raise TableError(
                    f"{constraint.describe()}: a table holds no standard errors; give a tighter "
                    "limit instead"
                )
        ratio = self.cost_ratio
        if ratio is not None and not (is_number(ratio) and ratio >= 0):
            raise TableError(f"cost_ratio must be a finite number >= 0, got {ratio!r}")

    @cached_property
    def goals(self) -> Goals:
        """Objective and constraints."""
        return Goals(self.table.objective, self.constraints)

    @cached_property
    def check_cost_s(self) -> dict[str, float]:
        """What checking each constraint once costs."""
        if self.cost_ratio is not None:
            each = self.cost_ratio * self.table.mean_cost_s / max(1, len(self.constraints))
            return {constraint.name: each for constraint in self.constraints}
        recorded = {c.metric: c.cost_s for c in self.table.constraints}
        missing = [c.name for c in self.constraints if c.name not in recorded]
        if missing:
            raise TableError(
                f"the table {self.table.name!r} does not say what checking {missing[0]!r} costs; "
                "give a cost ratio"
            )
        return {constraint.name: recorded[constraint.name] for constraint in self.constraints}

    @cached_property
    def losses(self) -> NDArray[np.float64]:
        """The objective of each row of the table, as a loss."""
        values = self.table.metrics[self.table.objective.name]
        return -values if self.table.objective.mode == "max" else values

    def check(
        self, config: int, step: int, loss: float, order: Sequence[str] | None = None
    ) -> CheckResult:
        """What a check of this checkpoint gives; a value that was never measured is a failure.

        With an ``order`` of the constraints, those after the first broken one are left out.
        """
        row = int(self.table.starts[config]) + step - 1
        measured: dict[str, Estimate | FailedCheck] = {}
        constraints = self.constraints
        if order is not None:
            constraints = tuple(sorted(constraints, key=lambda c: order.index(c.name)))
        for constraint in constraints:
            value = float(self.table.metrics[constraint.name][row])
            # a number that is not finite is a failure like any other check that gives one
            found = Estimate(value) if math.isfinite(value) else _UNMEASURED
            measured[constraint.name] = found
            if order is not None and not constraint.holds(found):
                break
        return check_result(self.goals, step, loss, measured)

    @cached_property
    def feasible(self) -> NDArray[np.bool_]:
        """Whether each row of the table keeps all limits."""
        found = np.ones(len(self.table.cost_s), dtype=bool)
        for constraint in self.constraints:
            column = self.table.metrics[constraint.name]
            found &= np.isfinite(column)
            if constraint.lower is None:
                found &= column <= constraint.limit
            else:
                found &= column >= constraint.limit
        return found

    @cached_property
    def best(self) -> float | None:
        """The best feasible objective in the table, None where nothing is feasible."""
        values = self.table.metrics[self.table.objective.name][self.feasible]
        if not len(values):
            return None
        return float(values.max() if self.table.objective.mode == "max" else values.min())

    @cached_property
    def best_losses(self) -> NDArray[np.float64]:
        """The best feasible loss of each configuration, infinite where nothing is feasible."""
        qualified = np.where(self.feasible & np.isfinite(self.losses), self.losses, np.inf)
        best: NDArray[np.float64] = np.minimum.reduceat(qualified, self.table.starts[:-1])
        return best

    def confirmed(self, config: int, step: int) -> tuple[float, bool] | None:
        """Objective on the confirmation rows, and whether a limit is broken there."""
        metrics = self.table.metrics
        names = [self.table.objective.name, *(c.name for c in self.constraints)]
        if any(name + CONFIRM not in metrics for name in names):
            return None
        row = int(self.table.starts[config]) + step - 1
        values = [float(metrics[name + CONFIRM][row]) for name in names]
        if not all(math.isfinite(value) for value in values):
            return None
        holds = [
            constraint.holds(Estimate(value))
            for constraint, value in zip(self.constraints, values[1:], strict=True)
        ]
        return values[0], not all(holds)


def judge(
    table: CurveTable,
    constraints: Sequence[Constraint] | None = None,
    cost_ratio: float | None = None,
) -> JudgedTable:
    """The table under these limits, or under its own."""
    if constraints is None:
        constraints = [constraint.goal for constraint in table.constraints]
    return JudgedTable(table, constraint_list(constraints), cost_ratio)


def parse_limit(text: str) -> Constraint:
    """A constraint from ``METRIC<=NUMBER`` or ``METRIC>=NUMBER``; spaces do not matter.

    >>> parse_limit("eod<=0.25").upper
    0.25
    >>> parse_limit(" recall >= 9e-1 ").describe()
    'recall >= 0.9'
    """
    form = f"a limit reads METRIC<=NUMBER or METRIC>=NUMBER, such as eod<=0.25; got {text!r}"
    match = _LIMIT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise GoalError(form)
    metric, sign, number = match.groups()
    try:
        limit = float(number)
    except ValueError:
        raise GoalError(f"{form}, where {number!r} is no number") from None
    return Constraint(metric, upper=limit) if sign == "<=" else Constraint(metric, lower=limit)
