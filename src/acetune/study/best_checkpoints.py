"""Checkpoints of a study, found in its columns: the best of each trial, the best of all."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from acetune.core.goals import Estimate, Objective
from acetune.study.findings import FoundCheckpoint
from acetune.study.limits_kept import keeps_limits
from acetune.study.reader import StudyView
from acetune.study.report_arrays import INVALID, STEP, STRATA, VALID, Array

_MOST_FOUND = 100  # trials whose best checkpoint is looked up


def losses(objective: Objective, values: Array) -> Array:
    """Values with their sign such that smaller is better; infinity where they are not finite."""
    loss: Array = np.where(np.isfinite(values), -values if objective.mode == "max" else values, 0.0)
    loss[~np.isfinite(values)] = math.inf
    return loss


def usable(values: Array) -> Array:
    """Which objectives may belong to an answer: finite ones, a little less than the largest."""
    return np.abs(values) <= 1e308  # NaN is not


def best_rows(view: StudyView, stratum: int) -> Array:
    """Rows of each trial's best checkpoint of a stratum, best first: by violation, then objective.

    Where a check failed nobody knows how near it was: such checkpoints are left out.
    """
    rows = checked_rows(view, stratum)
    return rows[np.isfinite(view.reports.violation[rows])] if stratum == INVALID else rows


def checked_rows(view: StudyView, stratum: int) -> Array:
    """As :func:`best_rows`, with failed checks, which come last and for want of better ones.

    Of the invalid ones those that break a limit, by what was measured.
    What was best stays best until a better one comes, so that only new reports are looked at.
    """
    reports = view.reports
    known: Array
    known, seen = view.memory.get(f"best rows {stratum}", (np.empty(0, "i8"), 0))
    if seen == len(reports):
        return known
    wanted = reports.stratum == stratum
    if stratum == INVALID:
        wanted = wanted & ~keeps_limits(view)
    new = np.flatnonzero(wanted[seen:]) + seen
    rows = np.concatenate([known, new[usable(reports.checked_objective[new])]])
    keys = [rows, losses(view.goals.objective, reports.checked_objective[rows])]
    if stratum == INVALID:
        keys.append(reports.violation[rows])
    rows = rows[np.lexsort(keys)]
    _, first = np.unique(reports.trial[rows], return_index=True)
    rows = rows[np.sort(first)]
    view.memory[f"best rows {stratum}"] = rows, len(reports)
    return rows


def incumbents(view: StudyView) -> Array:
    """Rows of the feasible checkpoints that were better than all before them, in order."""
    reports = view.reports
    rows = np.flatnonzero(keeps_limits(view))
    rows = rows[usable(reports.checked_objective[rows])]
    found: Array = rows[improvements(losses(view.goals.objective, reports.checked_objective[rows]))]
    return found


def improvements(loss: Array) -> Array:
    """Where a loss is lower than ever before.

    >>> improvements(np.array([math.inf, 3.0, 3.0, 4.0, 1.0])).tolist()
    [1, 4]
    """
    if not len(loss):
        return np.zeros(0, np.int64)
    best = np.minimum.accumulate(loss)
    return np.flatnonzero((loss == best) & np.r_[np.isfinite(loss[0]), best[1:] < best[:-1]])


def valid_checkpoints(view: StudyView, most: int = _MOST_FOUND) -> list[FoundCheckpoint]:
    """The best valid checkpoint of each of the best trials, best first."""
    return [
        checkpoint(view, row) for row in best_rows(view, VALID)[: min(most, _MOST_FOUND)].tolist()
    ]


def bold_rows(view: StudyView) -> Array:
    """Rows of each trial's best checkpoint that holds but for a margin acetune chose, best first.

    They break no limit, and may be certified; the search keeps away from them.
    """
    reports = view.reports
    rows = np.flatnonzero(keeps_limits(view) & (reports.stratum == INVALID))
    rows = rows[usable(reports.checked_objective[rows])]
    rows = rows[
        np.argsort(losses(view.goals.objective, reports.checked_objective[rows]), kind="stable")
    ]
    _, first = np.unique(reports.trial[rows], return_index=True)
    found: Array = rows[np.sort(first)]
    return found


def bold_checkpoints(view: StudyView, most: int = _MOST_FOUND) -> list[FoundCheckpoint]:
    """The checkpoints of :func:`bold_rows`; their violation is that of the margin alone."""
    found = bold_rows(view)[: min(most, _MOST_FOUND)].tolist()
    return [replace(checkpoint(view, row), violation=0.0) for row in found]


def valid_row(view: StudyView, trial: int, attempt: int, step: int) -> int | None:
    """The row of the check that found a checkpoint valid, or bold, the first one."""
    reports = view.reports
    its = np.flatnonzero(reports.trial == trial)  # few: the rest is asked of these alone
    same = (reports.attempt[its] == attempt) & (reports.checked_step[its] == step)
    same &= usable(reports.checked_objective[its])
    same &= keeps_limits(view)[its]
    valid = its[same & (reports.stratum[its] == VALID)]
    rows = valid if len(valid) else its[same]
    return int(rows[0]) if len(rows) else None


def valid_at(view: StudyView, trial: int, attempt: int, step: int) -> FoundCheckpoint | None:
    """The checkpoint at a step, as the check saw it that found it valid."""
    row = valid_row(view, trial, attempt, step)
    return None if row is None else replace(checkpoint(view, row), violation=0.0)


def nearest_misses(view: StudyView, most: int = _MOST_FOUND) -> list[FoundCheckpoint]:
    """What breaks a limit by least, of each trial one, the least first; failed checks do not count.

    It goes by what was measured: of several constraints some may have been left out.
    """
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


def margins(view: StudyView, row: int) -> dict[str, float]:
    """By which margins the checks of a report were judged."""
    checks, names = view.checks, [c.name for c in view.goals.constraints]
    first, last = np.searchsorted(checks.row, [row, row + 1])
    found = zip(
        checks.constraint[first:last].tolist(), checks.margin_se[first:last].tolist(), strict=True
    )
    return {names[c]: margin for c, margin in found}


def checkpoint(view: StudyView, row: int) -> FoundCheckpoint:
    """The checkpoint that a report has checked."""
    reports = view.reports
    step, value = int(reports.checked_step[row]), float(reports.checked_objective[row])
    found = _found(view, row, step, value, measured(view, row), float(reports.violation[row]))
    return replace(found, margins=margins(view, row))


def with_notes(view: StudyView, found: Sequence[FoundCheckpoint]) -> list[FoundCheckpoint]:
    """The checkpoints with what else their checks said, asked of the file."""
    if not found:
        return []
    wanted = {(one.trial, one.attempt, one.step): one for one in found}
    sql = (
        'SELECT trial, attempt, checked_step, "constraint", note FROM checks '
        "JOIN reports USING (seq) WHERE note IS NOT NULL AND trial IN "
        f"({', '.join('?' * len(wanted))}) ORDER BY seq"
    )
    notes: dict[tuple[int, int, int], dict[str, Any]] = {}
    with view.open() as store:
        for row in store.rows(sql, tuple(one.trial for one in wanted.values())):
            key = row["trial"], row["attempt"], row["checked_step"]
            if key in wanted:
                notes.setdefault(key, {})[row["constraint"]] = json.loads(row["note"])
    return [replace(one, notes=notes.get((one.trial, one.attempt, one.step), {})) for one in found]


def _found(
    view: StudyView,
    row: int,
    step: int,
    value: float,
    constraints: Mapping[str, Estimate],
    violation: float,
) -> FoundCheckpoint:
    """A checkpoint of the attempt that has made a report."""
    trial, attempt = int(view.reports.trial[row]), int(view.reports.attempt[row])
    kept = view.models.get((trial, attempt, step))
    return FoundCheckpoint(
        trial=trial,
        attempt=attempt,
        step=step,
        params=view.params(trial),
        value=value,
        constraints=constraints,
        violation=violation,
        checkpoint=None if kept is None else kept.folder,
        total_steps=view.attempt(trial, attempt).total_steps,
        kept=kept,
    )


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
    same = (reports.trial == reports.trial[row]) & (reports.attempt == reports.attempt[row])
    checked = np.flatnonzero(same & (reports.checked_step == reports.step[row]))
    if len(checked):
        at = int(checked[-1])
        return checkpoint(view, at), STRATA[int(reports.stratum[at])]
    step, value = int(reports.step[row]), float(reports.objective[row])
    return _found(view, row, step, value, {}, math.nan), "unchecked"


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


def unchecked_better(view: StudyView, value: float | None) -> int:
    """Reported checkpoints that are better than ``value``, all if None, and were never checked."""
    unchecked = unchecked_losses(view)
    if value is None:
        return len(unchecked)
    return int(np.searchsorted(unchecked, view.goals.objective.loss(value)))


def _keys(view: StudyView, rows: Array, places: Array, count: int) -> Array:
    """A number for each checkpoint: of its trial, attempt and place among ``count`` steps."""
    reports = view.reports
    keys: Array = (reports.trial[rows].astype("i8") * 0x8000 + reports.attempt[rows]) * count
    return keys + places
