"""Which checked checkpoints keep limits: what other limits would have given is judged here.

``StudyResult.what_if`` asks for one set of limits; the report for the limits at which the answer
changes. Both ask the functions of this file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from acetune.core.goals import Estimate, Goals
from acetune.study.answer import read_ranges, with_confirmation
from acetune.study.best_checkpoints import checkpoint, losses, unchecked_better, usable
from acetune.study.findings import (
    FoundCheckpoint,
    broken_on_fresh,
    checkpoint_key,
    judged_now,
    latest_uses,
)
from acetune.study.limits_kept import sign_of, strictness
from acetune.study.reader import StudyView
from acetune.study.report_arrays import UNCHECKED, Array


class BestUnder(NamedTuple):
    """The best checkpoint under some limits, and how many better ones do not count."""

    best: FoundCheckpoint | None
    unchecked_better: int  # never checked, or not under every limit
    rejected_better: int  # by fresh data, under these limits


def best_under(view: StudyView, goals: Goals) -> BestUnder:
    """What was recorded, judged by ``goals``: those of the study with other limits."""
    rows = np.flatnonzero(was_checked(view))
    missing, broken = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
    for index, constraint in enumerate(goals.constraints):
        needs = strictness(view, index)[rows]
        missing |= np.isnan(needs)
        broken |= needs > sign_of(constraint) * constraint.limit
    valid, half = rows[~missing & ~broken], rows[missing & ~broken]
    rejected = np.zeros(len(valid), bool)
    for same, values in on_fresh(view, valid):
        if broken_on_fresh(goals, values):
            rejected |= same
    best = _best(view, goals, valid[~rejected])
    value = None if best is None else best.value
    return BestUnder(
        best,
        # under the study's own limits none is half checked: a constraint is left out where another
        # one is violated
        unchecked_better(view, value) + _better(view, goals, half, value),
        _better(view, goals, valid[rejected], value),
    )


def was_checked(view: StudyView, since: int = 0) -> Array:
    """Which reports, from a row on, have a checkpoint that checks have measured."""
    reports = view.reports
    fine = (reports.stratum[since:] != UNCHECKED) & (reports.violation[since:] < math.inf)
    checked: Array = fine & usable(reports.checked_objective[since:])
    return checked


def on_fresh(view: StudyView, rows: Array) -> Iterator[tuple[Array, Mapping[str, Estimate]]]:
    """What fresh data said: which of the rows it is about, and the values there."""
    reports = view.reports
    for (trial, attempt, step), use in latest_uses(view.confirmations).items():
        same = (reports.trial[rows] == trial) & (reports.attempt[rows] == attempt)
        same &= reports.checked_step[rows] == step
        yield same, use["metrics"]


def _best(view: StudyView, goals: Goals, rows: Array) -> FoundCheckpoint | None:
    """The best of the rows, the earliest of equals, with its verdict under ``goals``."""
    if not len(rows):
        return None
    loss = losses(goals.objective, view.reports.checked_objective[rows])
    found = replace(checkpoint(view, int(rows[loss.argmin()])), violation=0.0)
    use = latest_uses(view.confirmations).get(checkpoint_key(found))
    if use is None:
        return found
    # the verdict and the bounds in the file are about the limits of the study
    said = judged_now(use, goals, view.info["constraints"])
    return with_confirmation(found, [said], read_ranges(view.info["settings"]))


def _better(view: StudyView, goals: Goals, rows: Array, value: float | None) -> int:
    """How many checkpoints of the rows are better than ``value``."""
    reports, worst = view.reports, math.inf if value is None else goals.objective.loss(value)
    rows = rows[losses(goals.objective, reports.checked_objective[rows]) < worst]
    columns = (reports.trial, reports.attempt, reports.checked_step)
    return len(set(zip(*[column[rows].tolist() for column in columns], strict=True)))
