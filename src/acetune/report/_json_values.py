"""Checkpoints and numbers as JSON and a browser know them."""

from __future__ import annotations

import math
from typing import Any

from acetune.core.formatting import flattened
from acetune.core.goals import Constraint, Estimate, Goals
from acetune.study.findings import FoundCheckpoint
from acetune.study.reader import StudyView


def as_json(view: StudyView, found: FoundCheckpoint | None) -> dict[str, Any] | None:
    """A checkpoint as plain data, without NaN and infinity.

    ``constraints`` has for each its value in the search, whether it holds there (``ok``) and how
    far it lies beyond its limit, margin included (``excess``, 0 where it holds), by the margin in
    force then (``margin_se``); one that acetune chose is an ``aim``, and not included. ``fresh`` is
    what fresh data said: None, or the ``objective`` and the ``constraints`` as measured there, in
    the same order, None where they were not; there ``ok`` is about the limit as it is, without
    margin.
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
        "params": plain(dict(flattened(found.params))),
        "constraints": [
            _against(constraint, found.constraints.get(constraint.name))
            for constraint in view.goals.with_margins(found.margins).constraints
        ],
        "violation": finite(found.violation),
        "model": None if found.checkpoint is None else str(found.checkpoint),
        "model_fault": found.model_fault(full=False),
        "status": found.status,
        "fresh": _fresh(view.goals, found),
    }


def _against(constraint: Constraint, estimate: Estimate | None) -> dict[str, Any]:
    """A measured value against its limit; a margin that acetune chose is an aim, and no limit."""
    limit = constraint.condition
    return {
        "name": constraint.name,
        "value": None if estimate is None else finite(estimate.value),
        "stderr": None if estimate is None else finite(estimate.stderr),
        "limit": constraint.limit,
        "sense": constraint.sense,
        "margin_se": constraint.margin,
        "aim": constraint.margin_is_auto,
        "ok": estimate is not None and limit.holds(estimate),
        "excess": None if estimate is None else finite(max(0.0, limit.excess(estimate))),
    }


def _fresh(goals: Goals, found: FoundCheckpoint) -> dict[str, Any] | None:
    said = found.confirmation
    if said is None or not said.values or said.status == "unconfirmed":  # the last: it went wrong
        return None
    value = said.values.get(goals.objective.name)
    return {
        "objective": value and {"value": finite(value.value), "stderr": finite(value.stderr)},
        "constraints": [
            _against(c.without_margin(), said.values[c.name]) if c.name in said.values else None
            for c in goals.constraints
        ],
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
