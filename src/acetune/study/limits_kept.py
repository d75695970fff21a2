"""Which checked checkpoints keep the limits, in columns: as ``Goals.keeps`` says it of one.

A margin that acetune has chosen is an aim of the search, and no condition.
"""

from __future__ import annotations

import math

import numpy as np

from acetune.core.goals import Constraint
from acetune.study.reader import StudyView
from acetune.study.report_arrays import INVALID, VALID, Array


def sign_of(constraint: Constraint) -> float:
    """What a limit is multiplied by so that the smaller one is the stricter one."""
    return 1.0 if constraint.lower is None else -1.0


def needed_limit(constraint: Constraint, value: Array, stderr: Array) -> Array:
    """The strictest limit that measurements satisfy, margin included: as in ``Constraint``."""
    margin = constraint.condition.margin * stderr
    return value + margin if constraint.lower is None else value - margin


def strictness(view: StudyView, index: int, since: int = 0) -> Array:
    """The strictest limit of a constraint that each report satisfies, from a row on.

    With its sign such that smaller is stricter; NaN where the constraint was not measured.
    """
    checks, constraint = view.checks, view.goals.constraints[index]
    first = int(np.searchsorted(checks.row, since))
    its = np.flatnonzero(checks.constraint[first:] == index) + first
    found = np.full(len(view.reports) - since, math.nan)
    needed = needed_limit(constraint, checks.value[its], checks.stderr[its])
    found[checks.row[its] - since] = sign_of(constraint) * needed
    return found


def keeps_limits(view: StudyView) -> Array:
    """Which reports have found a checkpoint feasible: valid, or valid but for an aimed margin."""
    known: Array
    known, seen = view.memory.get("keeps limits", (np.empty(0, bool), 0))
    if seen == len(view.reports):
        return known
    new: Array = view.reports.stratum[seen:] == VALID
    limits = view.goals.constraints
    if any(limit.margin_is_auto for limit in limits):
        bold: Array = view.reports.stratum[seen:] == INVALID
        for index, limit in enumerate(limits):
            # NaN is not
            bold &= strictness(view, index, seen) <= sign_of(limit) * limit.limit
        new |= bold
    known = np.concatenate([known, new])
    view.memory["keeps limits"] = known, len(view.reports)
    return known
