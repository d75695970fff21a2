"""A study that was run already, as a curve table."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from acetune.core.errors import TableError
from acetune.replay.table import CurveTable, TableConstraint, make_table
from acetune.study.queries import goals_from_json
from acetune.study.result import reading
from acetune.study.store import Store

# parameters, values by metric, costs, T (None: complete; 0: cut off, and not known)
_Recorded: TypeAlias = tuple[dict[str, Any], dict[str, list[float]], list[float], int | None]


def table_from_study(path: str | os.PathLike[str]) -> CurveTable:
    """What was reported in a study, trial by trial (the latest attempt of each).

    Trials that were stopped, failed or cut off give incomplete curves, which replays never go past.
    Checkpoints that were not checked have no value of the constraint: NaN, and the constraint is
    marked sparse.
    """
    path = Path(path)
    with reading(path) as store:
        info = store.study()
        goals = goals_from_json(info["objective"], info["constraints"])
        names = [constraint.name for constraint in goals.constraints]
        curves = list(_curves(store, goals.objective.name, names))
        costs = {
            row["constraint"]: row["mean"]
            for row in store.rows(
                'SELECT "constraint", avg(cost_s) AS mean FROM checks GROUP BY "constraint"'
            )
        }
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
            costs.get(constraint.name) or 0.0,
            any(math.isnan(value) for curve in curves for value in curve[1][constraint.name]),
        )
        for constraint in goals.constraints
    ]
    return make_table(
        path.stem,
        goals.objective,
        limits,
        curves,
        space=json.loads(info["space"]),
        made={"study": path.name, "policy": json.loads(info["policy"])},
    )


def _curves(store: Store, objective: str, constraints: list[str]) -> Iterator[_Recorded]:
    attempts: dict[int, list[dict[str, Any]]] = {}
    for row in store.rows("SELECT * FROM trials WHERE state != 'rejected' ORDER BY trial, attempt"):
        attempts.setdefault(row["trial"], []).append(row)
    for tries in attempts.values():
        reports, checks = _own_past(store, tries)
        curve = _curve(tries[-1], reports, checks, objective, constraints)
        if curve is not None:
            yield curve


def _own_past(
    store: Store, tries: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], dict[int, dict[str, float]]]:
    """Reports and checks of the latest attempt, and of those whose checkpoint it went on from."""
    reports: list[dict[str, Any]] = []
    checks: dict[int, dict[str, float]] = {}
    upto = math.inf
    for attempt in reversed(tries):
        key = (attempt["trial"], attempt["attempt"])
        own = store.rows(
            "SELECT * FROM reports WHERE trial = ? AND attempt = ? AND kind = 'step' ORDER BY step",
            key,
        )
        reports = [row for row in own if row["step"] <= upto] + reports
        for row in store.rows(
            'SELECT r.checked_step, c."constraint" AS name, c.value FROM reports r '
            "JOIN checks c USING (seq) WHERE r.trial = ? AND r.attempt = ?",
            key,
        ):
            if row["value"] is not None and row["checked_step"] <= upto:
                checks.setdefault(row["checked_step"], {}).setdefault(row["name"], row["value"])
        upto = min(upto, attempt["resumed_from"])
    return reports, checks


def _curve(
    attempt: dict[str, Any],
    reports: list[dict[str, Any]],
    checks: dict[int, dict[str, float]],
    objective: str,
    constraints: list[str],
) -> _Recorded | None:
    """The reports up to the first gap, or the first objective that is no finite number."""
    values: list[float] = []
    costs: list[float] = []
    for row in reports:
        value = row["objective"]
        if row["step"] != len(values) + 1 or value is None or not math.isfinite(value):
            break
        values.append(value)
        costs.append(row["primary_cost_s"] or 0.0)
    if not values:
        return None
    metrics: dict[str, list[float]] = {objective: values}
    for name in constraints:
        metrics[name] = [
            checks.get(step, {}).get(name, math.nan) for step in range(1, len(values) + 1)
        ]
    whole = attempt["state"] == "finished" and len(values) == reports[-1]["step"]
    total = None if whole else attempt["total_steps"] or 0
    return json.loads(attempt["params"]), metrics, costs, total
