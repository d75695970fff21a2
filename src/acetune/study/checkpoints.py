"""Checkpoints of a study, found in its columns: the best of each trial, the best of all."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from acetune.core.goals import Constraint, Estimate, Goals, Objective
from acetune.study.columns import INVALID, STEP, STRATA, VALID, Array
from acetune.study.found import FoundCheckpoint
from acetune.study.view import StudyView

_MOST_FOUND = 100  # trials whose best checkpoint is looked up, as in the queries


def losses(objective: Objective, values: Array) -> Array:
    """Values with their sign such that smaller is better; infinity where they are not finite."""
    loss: Array = np.where(np.isfinite(values), -values if objective.mode == "max" else values, 0.0)
    loss[~np.isfinite(values)] = math.inf
    return loss


def usable(values: Array) -> Array:
    """Which objectives may belong to an answer: the same numbers as in the queries."""
    return np.abs(values) <= 1e308  # NaN is not


def best_rows(view: StudyView, stratum: int) -> Array:
    """Rows of each trial's best checkpoint of a stratum, best first: by violation, then objective.

    What was best stays best until a better one comes, so that only new reports are looked at.
    """
    reports = view.reports
    known: Array
    known, seen = view.memory.get(f"best rows {stratum}", (np.empty(0, "i8"), 0))
    if seen == len(reports):
        return known
    new = np.flatnonzero(reports.stratum[seen:] == stratum) + seen
    if stratum == INVALID:  # where a check failed nobody knows how near it was
        new = new[np.isfinite(reports.violation[new])]
    rows = np.concatenate([known, new[usable(reports.checked_objective[new])]])
    keys = [rows, losses(view.goals.objective, reports.checked_objective[rows])]
    if stratum == INVALID:
        keys.append(reports.violation[rows])
    rows = rows[np.lexsort(keys)]
    _, first = np.unique(reports.trial[rows], return_index=True)
    rows = rows[np.sort(first)]
    view.memory[f"best rows {stratum}"] = rows, len(reports)
    return rows


def valid_checkpoints(view: StudyView, most: int = _MOST_FOUND) -> list[FoundCheckpoint]:
    """The best valid checkpoint of each of the best trials, best first."""
    return [
        checkpoint(view, row) for row in best_rows(view, VALID)[: min(most, _MOST_FOUND)].tolist()
    ]


def valid_row(view: StudyView, trial: int, attempt: int, step: int) -> int | None:
    """The row of the check that found a checkpoint valid, the first one."""
    reports = view.reports
    same = (reports.trial == trial) & (reports.attempt == attempt)
    same &= (reports.checked_step == step) & (reports.stratum == VALID)
    rows = np.flatnonzero(same & usable(reports.checked_objective))
    return int(rows[0]) if len(rows) else None


def valid_at(view: StudyView, trial: int, attempt: int, step: int) -> FoundCheckpoint | None:
    """The checkpoint at a step, as the check saw it that found it valid."""
    row = valid_row(view, trial, attempt, step)
    return None if row is None else checkpoint(view, row)


def nearest_misses(view: StudyView, most: int = _MOST_FOUND) -> list[FoundCheckpoint]:
    """The least violating checkpoint of each trial, the least first; failed checks do not count."""
    return [checkpoint(view, row) for row in best_rows(view, INVALID)[:most].tolist()]


def better_misses(view: StudyView, value: float, most: int = _MOST_FOUND) -> list[int]:
    """Rows of checked checkpoints that break a limit and are better than ``value``.

    Of each trial the one that violates least, and those trials first.
    """
    reports = view.reports
    asked, known = view.memory.get("better misses", (None, []))
    if asked == (len(reports), value):  # the answer and the figures both ask
        return list(known[:most])
    rows = np.flatnonzero((reports.stratum == INVALID) & np.isfinite(reports.violation))
    rows = rows[usable(reports.checked_objective[rows])]
    loss = losses(view.goals.objective, reports.checked_objective[rows])
    better = loss < losses(view.goals.objective, np.array([value]))[0]
    rows = rows[better]
    # by one key, then as they came: sorting by two takes ten times as long
    rows = rows[np.argsort(reports.violation[rows], kind="stable")]
    _, first = np.unique(reports.trial[rows], return_index=True)
    found: list[int] = rows[np.sort(first)][:_MOST_FOUND].tolist()
    view.memory["better misses"] = (len(reports), value), found
    return found[:most]


def measured(view: StudyView, row: int) -> dict[str, Estimate]:
    """What the checks of a report gave; one that failed is left out."""
    checks, names = view.checks, [c.name for c in view.goals.constraints]
    first, last = np.searchsorted(checks.row, [row, row + 1])
    found = zip(
        checks.constraint[first:last].tolist(),
        checks.value[first:last].tolist(),
        checks.stderr[first:last].tolist(),
        strict=True,
    )
    return {names[c]: Estimate(v, s) for c, v, s in found if not math.isnan(v)}


def checkpoint(view: StudyView, row: int) -> FoundCheckpoint:
    """The checkpoint that a report has checked."""
    reports = view.reports
    trial, attempt = int(reports.trial[row]), int(reports.attempt[row])
    step = int(reports.checked_step[row])
    kept = view.models.get((trial, attempt, step))
    return FoundCheckpoint(
        trial=trial,
        attempt=attempt,
        step=step,
        params=view.params(trial),
        value=float(reports.checked_objective[row]),
        constraints=measured(view, row),
        violation=float(reports.violation[row]),
        checkpoint=None if kept is None else kept.folder,
        total_steps=_total_steps(view, trial),
        kept=kept,
    )


def _total_steps(view: StudyView, trial: int) -> int | None:
    row = view.trial(trial)
    return None if row is None else row.total_steps


def best_of_all(view: StudyView) -> tuple[FoundCheckpoint, str] | None:
    """The best objective that was reported, checked or not, with its stratum; the earliest of it.

    The violation of one that was never checked is NaN.
    """
    reports = view.reports
    loss = losses(view.goals.objective, reports.objective)
    loss[reports.kind != STEP] = math.inf
    if not len(loss) or math.isinf(loss.min()):
        return None
    row = int(loss.argmin())
    trial, attempt, step = (
        int(column[row]) for column in (reports.trial, reports.attempt, reports.step)
    )
    same = (reports.trial == trial) & (reports.attempt == attempt) & (reports.checked_step == step)
    checked = np.flatnonzero(same)
    if len(checked):
        at = int(checked[-1])
        return checkpoint(view, at), STRATA[int(reports.stratum[at])]
    kept = view.models.get((trial, attempt, step))
    found = FoundCheckpoint(
        trial=trial,
        attempt=attempt,
        step=step,
        params=view.params(trial),
        value=float(reports.objective[row]),
        constraints={},
        violation=math.nan,
        checkpoint=None if kept is None else kept.folder,
        total_steps=_total_steps(view, trial),
        kept=kept,
    )
    return found, "unchecked"


def unchecked_losses(view: StudyView) -> Array:
    """Losses of the reported checkpoints that were never checked, the smallest first.

    Those of attempts that another one has replaced do not count.
    """
    reports = view.reports
    rows = np.flatnonzero(
        (reports.kind == STEP)
        & np.isfinite(reports.objective)
        & (reports.checked_step != reports.step)
        & view.is_latest
    )
    # few checks are of another checkpoint than the one that was just reported
    late = np.flatnonzero(
        (reports.checked_step > 0)
        & ((reports.checked_step != reports.step) | (reports.kind != STEP))
    )
    if len(late):
        steps = np.unique(reports.checked_step[late])  # their places fit where they would not
        at = np.searchsorted(steps, reports.step[rows])
        some = np.flatnonzero(steps[np.minimum(at, len(steps) - 1)] == reports.step[rows])
        keys = _keys(view, rows[some], at[some], len(steps))
        places = np.searchsorted(steps, reports.checked_step[late])
        rows = np.delete(rows, some[np.isin(keys, _keys(view, late, places, len(steps)))])
    return np.sort(losses(view.goals.objective, reports.objective[rows]))


def _keys(view: StudyView, rows: Array, places: Array, count: int) -> Array:
    """A number for each checkpoint: of its trial, attempt and place among ``count`` steps."""
    reports = view.reports
    keys: Array = (reports.trial[rows].astype("i8") * 0x8000 + reports.attempt[rows]) * count
    return keys + places


def as_json(view: StudyView, found: FoundCheckpoint | None) -> dict[str, Any] | None:
    """A checkpoint as plain data, without NaN and infinity.

    ``constraints`` has for each its value in the search, whether it holds there (``ok``) and how
    far it lies beyond its limit, margin included (``excess``, 0 where it holds). ``fresh`` is what
    fresh data said: None, or the ``objective`` and the ``constraints`` as measured there, in the
    same order, None where they were not; there ``ok`` is about the limit as it is, without margin.
    ``model_fault`` says what is wrong with the files of the kept model, None where nothing is.
    """
    if found is None:
        return None
    return {
        "trial": found.trial,
        "attempt": found.attempt,
        "step": exact(found.step),
        "total_steps": exact(found.total_steps),
        "value": finite(found.value),
        "params": plain(dict(found.params)),
        "constraints": [
            _against(constraint, found.constraints.get(constraint.name))
            for constraint in view.goals.constraints
        ],
        "violation": finite(found.violation),
        "model": None if found.checkpoint is None else str(found.checkpoint),
        "model_fault": found.model_fault(full=False),
        "status": found.status,
        "fresh": _fresh(view.goals, found),
    }


def _against(constraint: Constraint, estimate: Estimate | None) -> dict[str, Any]:
    """A measured value against its limit."""
    return {
        "name": constraint.name,
        "value": None if estimate is None else finite(estimate.value),
        "stderr": None if estimate is None else finite(estimate.stderr),
        "limit": constraint.limit,
        "sense": constraint.sense,
        "ok": estimate is not None and constraint.holds(estimate),
        "excess": None if estimate is None else finite(max(0.0, constraint.excess(estimate))),
    }


def _fresh(goals: Goals, found: FoundCheckpoint) -> dict[str, Any] | None:
    confirmation = found.confirmation
    if confirmation is None or not confirmation.values:
        return None
    if confirmation.status == "unconfirmed":  # it went wrong: no verdict
        return None
    values = confirmation.values
    objective = values.get(goals.objective.name)
    constraints = [
        None if c.name not in values else _against(c.without_margin(), values[c.name])
        for c in goals.constraints
    ]
    return {
        "objective": None
        if objective is None
        else {"value": finite(objective.value), "stderr": finite(objective.stderr)},
        "constraints": constraints,
    }


def exact(number: int | None) -> int | str | None:
    """A whole number for a browser, which would round one beyond 2**53: such a one as text.

    >>> exact(2**53), exact(2**53 + 1), exact(None)
    (9007199254740992, '9007199254740993', None)
    """
    return number if number is None or abs(number) <= 2**53 else str(number)


def finite(number: float | None) -> float | None:
    """The number, or None where JSON has no word for it."""
    return number if number is not None and math.isfinite(number) else None


def plain(value: Any) -> Any:
    """Parameters as JSON knows them: what is not finite as text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    return value
