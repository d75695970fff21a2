"""One trial as data: how it went and why it ended."""

from __future__ import annotations

from typing import Any

import numpy as np

from acetune.core.errors import StudyError
from acetune.report._json_values import exact, finite, plain
from acetune.report.explanation import (
    answer_step,
    checked_words,
    holds_answer,
    how_it_ended,
    limits_then,
    report_cells,
    report_columns,
    thinned,
    why_not_measured,
    why_unchecked,
)
from acetune.report.figures import FigureData, trial_figure
from acetune.study.answer import candidates_of, choose_answer
from acetune.study.report_arrays import CONTINUE, STEP
from acetune.study.store import Store
from acetune.study.view import StudyView

_MOST_REPORTS = 100  # of a trial, about


def trial_detail(view: StudyView, trial: int, digest: FigureData | None = None) -> dict[str, Any]:
    """One trial as plain data: its latest attempt, and how the earlier ones ended.

    Where it has many reports some are left out, and ``reports.note`` says so. For several trials
    give each the same ``digest``, so that what they share is worked out once.
    """
    if view.trial(trial) is None:
        last = view.trials[-1].trial if view.trials else 0
        known = f"it has trials 1 to {last}" if last else "it has no trial yet"
        raise StudyError(f"{view.path} has no trial {trial}; {known}")
    candidates = candidates_of(view)
    best = choose_answer(candidates)
    attempts = view.attempts(trial)
    latest = attempts[-1]
    attempt = latest.attempt
    with view.open() as store:
        traceback = store.traceback(trial, attempt)
        hardware = store.hardware().get((trial, attempt))
        names = [name for name, number in store.names().items() if number == trial]
        star = answer_step(best, trial, attempt)
        reports, unchecked, limits, left_out = _reports(view, store, trial, attempt, star)
    why = holds_answer(best, candidates, trial, attempt)
    why += how_it_ended(latest, traceback, with_params=False)  # which have a table of their own
    why += [f"measured on: {hardware}"] if hardware is not None else []
    why += limits
    notes = (why_unchecked(latest, unchecked), left_out)
    picture = trial_figure(digest or FigureData(view), trial)
    return {
        "trial": trial,
        "name": names[0] if names else None,
        "attempt": attempt,
        "state": latest.state,
        "reason": str(latest.reason),
        "why": why + [note for note in notes if note is not None],
        "params": plain(view.params(trial)),
        "total_steps": exact(latest.total_steps),
        "interval": exact(latest.interval),
        "cost_ratio": finite(latest.cost_ratio),
        "started": latest.started,
        "ended": latest.ended,
        "hardware": hardware,
        "attempts": [
            {
                "attempt": row.attempt,
                "state": row.state,
                "reason": str(row.reason),
                "resumed_from": exact(row.resumed_from),
            }
            for row in attempts
        ],
        "reports": reports,
        "figure": picture["figure"],
        "alt": picture["alt"],
    }


def _reports(
    view: StudyView, store: Store, trial: int, attempt: int, star: int | None
) -> tuple[dict[str, Any], bool, list[str], str | None]:
    """The reports of an attempt as a table, whether any was not checked, its limits, what is not.

    The one at the step ``star`` is the answer, and is never left out.
    """
    columns = view.reports
    rows = np.flatnonzero((columns.trial == trial) & (columns.attempt == attempt))
    turning = (columns.decision[rows] != CONTINUE) | (columns.kind[rows] != STEP)
    turning[1:] |= np.diff(columns.stratum[rows]) != 0
    keep = np.flatnonzero(turning)[-_MOST_REPORTS // 2 :].tolist()
    keep += [] if star is None else np.flatnonzero(columns.step[rows] == star).tolist()
    kept = thinned(len(rows), keep, _MOST_REPORTS)
    seqs = columns.seq[rows[kept]].tolist()
    found, checks = store.reports_at(seqs), store.checks_at(seqs)
    words = checked_words(checks, view.goals)
    note = ""
    if len(kept) < len(rows):
        note = (
            f"{len(kept)} of its {len(rows)} reports, spread evenly, with those where its stratum "
            "changed and those at its end"
        )
    unchecked = bool((columns.stratum[rows] == 0).any())
    table = {
        "columns": report_columns(view.goals),
        "rows": [report_cells(report, words, star) for report in found],
        "note": note,
    }
    limits = limits_then(checks, view.goals)
    return table, unchecked, limits, why_not_measured(checks, view.goals)
