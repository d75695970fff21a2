"""A study that was run already, as a curve table."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from acetune.core.errors import TableError
from acetune.replay.curve_table import CurveTable, TableConstraint, make_table
from acetune.study.per_trial import Trials
from acetune.study.reader import StudyView, viewing
from acetune.study.report_arrays import Array
from acetune.study.table_rows import TrialRow

# parameters, values by metric, costs, T (None: complete; 0: cut off, and not known)
_Recorded: TypeAlias = tuple[dict[str, Any], dict[str, list[float]], list[float], int | None]


def table_from_study(path: str | os.PathLike[str]) -> CurveTable:
    """What was reported in a study, trial by trial (the latest attempt of each).

    Trials that were stopped, failed or cut off give incomplete curves, which replays never go past.
    Checkpoints that were not checked have no value of the constraint: NaN, and the constraint is
    marked sparse.
    """
    path = Path(path)
    with viewing(path) as view:
        goals, info = view.goals, view.info
        curves = list(_curves(view))
        costs = [_mean_cost(view, index) for index in range(len(goals.constraints))]
    if not curves:
        raise TableError(
            f"{path} has no trial whose reports could be a curve: every step from 1 on, with a "
            "finite objective"
        )
    limits = [
        TableConstraint(
            constraint.name,
            constraint.upper,
            constraint.lower,
            cost,
            any(math.isnan(value) for curve in curves for value in curve[1][constraint.name]),
        )
        for constraint, cost in zip(goals.constraints, costs, strict=True)
    ]
    return make_table(
        path.stem,
        goals.objective,
        limits,
        curves,
        space=info["space"],
        made={"study": path.name, "policy": info["policy"]},
    )


def _mean_cost(view: StudyView, index: int) -> float:
    costs = view.checks.cost_s[view.checks.constraint == index]
    costs = costs[~np.isnan(costs)]
    return math.fsum(costs.tolist()) / len(costs) if len(costs) else 0.0


def _curves(view: StudyView) -> Iterator[_Recorded]:
    trials = Trials(view)
    for trial in view.trials:
        if trial.state != "rejected" and (curve := _curve(view, trial, trials)) is not None:
            yield curve


def _curve(view: StudyView, trial: TrialRow, trials: Trials) -> _Recorded | None:
    """The reports up to the first gap, or the first objective that is no finite number."""
    reports, goals = view.reports, view.goals
    steps = trials.curve(trial.trial)
    steps = steps[np.lexsort([reports.step[steps], reports.attempt[steps]])]
    places, values = reports.step[steps], reports.objective[steps]
    fine = (places == np.arange(1, len(steps) + 1)) & np.isfinite(values)
    length = len(fine) if fine.all() else int(fine.argmin())
    if not length:
        return None
    metrics: dict[str, list[float]] = {goals.objective.name: values[:length].tolist()}
    checked = trials.checked(trial.trial)
    for index, constraint in enumerate(goals.constraints):
        metrics[constraint.name] = _measured(view, index, checked, length)
    whole = trial.state == "finished" and length == places[-1]
    total = None if whole else trial.total_steps or 0
    costs: list[float] = np.nan_to_num(reports.primary_cost_s[steps[:length]]).tolist()
    return trial.params, metrics, costs, total


def _measured(view: StudyView, index: int, rows: Array, length: int) -> list[float]:
    """The values of a constraint at each step, NaN where it was not measured.

    Those of a later attempt count, and of one attempt the first.
    """
    reports, checks = view.reports, view.checks
    first, last = (np.searchsorted(checks.row, rows, side=side) for side in ("left", "right"))
    ranges = [np.arange(a, b) for a, b in zip(first, last, strict=True) if a < b]
    its = np.concatenate(ranges) if ranges else np.empty(0, "i8")
    its = its[(checks.constraint[its] == index) & ~np.isnan(checks.value[its])]
    its = its[reports.checked_step[checks.row[its]] <= length]
    its = its[np.lexsort([-checks.row[its], reports.attempt[checks.row[its]]])]
    found = np.full(length + 1, math.nan)
    found[reports.checked_step[checks.row[its]]] = checks.value[its]  # of several the last stays
    values: list[float] = found[1:].tolist()
    return values
