"""The best checkpoint by the limit: what other limits would have given, from what was recorded.

As one limit is loosened, the answer changes only where a checkpoint begins to qualify that is
better than all before it. Those limits are the breakpoints; between them nothing changes, so a
few rows answer for every limit, and give what ``StudyResult.what_if`` gives there.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from acetune.core.goals import Constraint, Goals
from acetune.report._json_values import exact
from acetune.study.best_checkpoints import losses, unchecked_losses
from acetune.study.best_under_limits import on_fresh, was_checked
from acetune.study.findings import broken_on_fresh
from acetune.study.limits_kept import needed_limit, sign_of, strictness
from acetune.study.reader import StudyView
from acetune.study.report_arrays import Array

NOTE = (
    "From what was recorded, without training. A limit that is chosen after looking needs fresh "
    "data to confirm it."
)
_JUDGED = " What was judged on fresh data counts from the limit on that it keeps there too."
_POSITIONS = 200  # of a slider, about
_FAR = 10.0  # times the usual distance from the limit: a breakpoint beyond that is out of range


def breakpoints(view: StudyView) -> list[dict[str, Any]]:
    """For each constraint the best checkpoint at every limit, the other limits as they are.

    Breakpoints go from strict to loose; each answer holds from its limit up to the next one's. The
    first has no limit: it holds below all others, where nothing that was recorded qualifies.
    ``low`` and ``high`` are the limits that a slider and the figure show, and ``step`` a round
    number by which a slider moves, None where there is none. ``unchecked_better`` counts what
    nobody has checked, and what was measured under some limits only and keeps those;
    ``unchecked_looser`` also what would keep them at a limit before the next breakpoint.
    """
    unchecked = unchecked_losses(view) if view.goals.constraints else np.empty(0)
    return [
        _of_constraint(view, index, constraint, unchecked)
        for index, constraint in enumerate(view.goals.constraints)
    ]


def _of_constraint(
    view: StudyView, index: int, constraint: Constraint, unchecked: Array
) -> dict[str, Any]:
    steps, needs = _front(view, index)
    reports = view.reports
    loss = losses(view.goals.objective, reports.checked_objective[steps])
    better = np.searchsorted(unchecked, loss)  # how many are smaller
    half = _half_checked(view, index)
    sign = sign_of(constraint)
    here = np.nextafter(sign * needs, math.inf)
    until = np.append(sign * needs[1:], math.inf)[: len(needs)]
    below = sign * needs[0] if len(needs) else math.inf
    at = _check_rows(view, index, steps)
    columns: dict[str, Array] = {
        "limit": needs,
        "value": reports.checked_objective[steps],
        "stderr": view.checks.stderr[at],
        "constraint_value": view.checks.value[at],
        "trial": reports.trial[steps],
        "step": reports.checked_step[steps],
        "unchecked_better": better + half.count(loss, here),
        "unchecked_looser": better + half.count(loss, until),
    }
    nothing = dict.fromkeys(columns, None) | {
        "unchecked_better": len(unchecked),
        "unchecked_looser": len(unchecked)
        + int(half.count(np.array([math.inf]), np.array([below]))[0]),
    }
    lists = {name: column.tolist() for name, column in columns.items()}
    lists["step"] = [exact(step) for step in lists["step"]]
    rows = zip(*lists.values(), strict=True)
    its = view.checks.value[view.checks.constraint == index]
    low, high, step = slider_range(constraint.limit, needs, float(np.fmin.reduce(its, initial=0.0)))
    return {
        "constraint": constraint.name,
        "sense": constraint.sense,
        "limit": constraint.limit,
        "low": low,
        "high": high,
        "step": step,
        "breakpoints": [nothing, *[dict(zip(columns, row, strict=True)) for row in rows]],
        "note": NOTE + (_JUDGED if view.confirmations else ""),
    }


def _front(view: StudyView, index: int) -> tuple[Array, Array]:
    """Rows of the reports that are the answer at some limit, and the strictest limit of each.

    Whatever is beaten stays beaten, so that only new reports have to be compared with them; but
    fresh data may speak against what had beaten others.
    """
    reports, constraint = view.reports, view.goals.constraints[index]
    uses = len(view.confirmations)
    known, seen, used = view.memory.get(f"front {index}", (np.empty(0, "i8"), 0, uses))
    if used != uses:
        known, seen = np.empty(0, "i8"), 0
    fine, missing, own = _beside(view, index, seen)
    new = np.flatnonzero(fine & ~missing & np.isfinite(own)) + seen
    rows = np.concatenate([known, new])
    at = _check_rows(view, index, rows)
    needs = needed_limit(constraint, view.checks.value[at], view.checks.stderr[at])
    kept, needs = on_fresh_data(view, index, rows, needs)
    rows, needs = rows[kept], needs[kept]
    loss = losses(view.goals.objective, reports.checked_objective[rows])
    # from strict to loose; of those that qualify together the best is first, and the earliest
    order = np.lexsort([rows, loss, sign_of(constraint) * needs])
    place = np.empty(len(rows), "i8")  # in the order of answers: by loss, then by time
    place[np.lexsort([rows, loss])] = np.arange(len(rows))
    place = place[order]
    best_before = np.concatenate([[len(rows)], np.minimum.accumulate(place)[:-1]])[: len(rows)]
    keep = order[place < best_before]
    view.memory[f"front {index}"] = rows[keep], len(reports), uses
    return rows[keep], needs[keep]


def on_fresh_data(view: StudyView, index: int, rows: Array, needs: Array) -> tuple[Array, Array]:
    """Which of some rows fresh data leaves, and the limits that they need with its values.

    What breaks another limit there is never an answer.
    """
    constraint = view.goals.constraints[index]
    others = Goals(
        view.goals.objective, tuple(c for c in view.goals.constraints if c.name != constraint.name)
    )
    kept, needs = np.ones(len(rows), bool), needs.copy()
    for same, values in on_fresh(view, rows):
        if broken_on_fresh(others, values):
            kept &= ~same
        elif constraint.name in values:
            stricter = np.maximum if constraint.lower is None else np.minimum
            needs[same] = stricter(needs[same], values[constraint.name].value)
    return kept, needs


@dataclass(frozen=True, slots=True)
class _HalfChecked:
    """Checkpoints whose check left a constraint out, and that keep the limits measured then."""

    loss: Array
    strictness: Array  # the strictest limit of the constraint in question that they satisfy

    def count(self, losses: Array, limits: Array) -> Array:
        """How many have a smaller loss, and qualify below a limit: for each of these pairs."""
        if not len(self.loss):  # nearly always
            return np.zeros(len(losses), np.int64)
        pairs = zip(losses, limits, strict=True)
        found = [np.sum((self.strictness < limit) & (self.loss < loss)) for loss, limit in pairs]
        return np.array(found, dtype=np.int64)


def _half_checked(view: StudyView, index: int) -> _HalfChecked:
    """Those that keep all limits measured, that of one constraint aside."""
    if len(view.goals.constraints) == 1:
        return _HalfChecked(np.empty(0), np.empty(0))
    fine, missing, own = _beside(view, index)
    rows = np.flatnonzero(fine & missing)
    loss = losses(view.goals.objective, view.reports.checked_objective[rows])
    return _HalfChecked(loss, np.where(np.isnan(own), -math.inf, own)[rows])


def _beside(view: StudyView, index: int, seen: int = 0) -> tuple[Array, Array, Array]:
    """Reports after the first ``seen``, one constraint aside.

    Which were checked and break none of the other limits, of which some constraint was not
    measured, and the strictest limit of the one aside that each satisfies.
    """
    fine, own = was_checked(view, seen), np.empty(0)
    missing = np.zeros(len(fine), bool)
    for other, constraint in enumerate(view.goals.constraints):
        needs = strictness(view, other, seen)
        missing |= np.isnan(needs)
        if other == index:
            own = needs
        else:
            fine &= ~(needs > sign_of(constraint) * constraint.limit)
    return fine, missing, own


def _check_rows(view: StudyView, index: int, rows: Array) -> Array:
    """Where the checks of one constraint are, by the reports they belong to."""
    its = np.flatnonzero(view.checks.constraint == index)
    return its[np.searchsorted(view.checks.row[its], rows)] if len(rows) else its[:0]


def slider_range(limit: float, needs: Array, least: float) -> tuple[float, float, float | None]:
    """Where a slider has something to show, and the round number by which it moves.

    The range holds the limit and the breakpoints ``needs``, but for a few that are far off, and a
    little more; it does not go below 0 where no value, ``least`` among them, does.

    >>> slider_range(0.25, np.array([0.0113, 0.31]), least=0.0)
    (0.0, 0.326, 0.002)
    """
    distances = np.sort(np.abs(needs - limit))
    usual = float(distances[len(distances) // 2]) if len(needs) else 0.0
    near = needs[np.abs(needs - limit) <= _FAR * (usual or abs(limit) or 1.0)].tolist()
    low, high = min([limit, *near]), max([limit, *near])
    more = 0.05 * (high - low) or 0.1 * abs(limit) or 1.0
    floor = 0.0 if min(low, least) >= 0 else -sys.float_info.max
    low, high = max(low - more, floor), min(high + more, sys.float_info.max)
    span = high - low
    if not sys.float_info.min / 1e-9 < span < sys.float_info.max or span < 1e-9 * abs(limit):
        return low, high, None
    power = math.floor(math.log10(span / _POSITIONS))
    lead = next(lead for lead in (1, 2, 5, 10) if lead * 10.0**power >= span / _POSITIONS)
    # from text, as 2 * 10.0**-3 and the like are not always what people would write
    step = float(f"{lead}e{power}")
    digits = max(0, -power)
    low, high = (
        round(math.floor(low / step) * step, digits),
        round(math.ceil(high / step) * step, digits),
    )
    return low, high, step
