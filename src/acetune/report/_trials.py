"""Trials as data: the table of all of them, and one by one how it went and why it ended."""

from __future__ import annotations

import math
from itertools import chain
from typing import Any

import numpy as np

from acetune.core.errors import StudyError
from acetune.core.formatting import cut, flattened
from acetune.report._json_values import exact, finite, plain
from acetune.report.explanation import (
    answer_attempt,
    answer_step,
    checked_words,
    decided_under,
    earlier_words,
    holds_answer,
    how_it_ended,
    limits_then,
    report_cells,
    report_columns,
    why_not_measured,
    why_unchecked,
)
from acetune.report.figures import FigureData, trial_figure
from acetune.report.figures._figure_data import thinned
from acetune.study.answer import answer_of, choose_answer
from acetune.study.findings import FoundCheckpoint
from acetune.study.per_trial import NOT_REPORTED, Trials
from acetune.study.reader import StudyView
from acetune.study.report_arrays import CONTINUE, STEP, STRATA, Array
from acetune.study.store import Store
from acetune.study.table_rows import TrialRow

_LONGEST = 80  # characters of a word in the table
_MOST_REPORTS = 100  # of a trial, about
#: the columns that the table on the page has, in this order, and whether narrow screens leave them
#: out. By the others it can be sorted and searched, and a trial's dialog shows them.
_SHOWN = {
    "trial": "always",
    "state": "always",
    "stratum": "wide screens",
    "steps": "wide screens",
    "best_objective": "always",
    "best_valid_objective": "always",
    "least_violation": "wide screens",
    "checks": "wide screens",
    "training_s": "wide screens",
}


def trial_table(view: StudyView) -> dict[str, Any]:
    """The table of trials: columns and rows, and which columns the page shows.

    As in ``StudyResult.trials``, steps, checks and the best objective are of the latest attempt,
    what was found valid and what training cost of all. ``stratum`` is the best that any of its
    reports was in. Numbers have five digits, and long words are cut. ``answer`` is the trial that
    holds the answer: it may be valid nowhere, where the search aimed for a margin of its own.
    """
    best = answer_of(view)
    named = chain.from_iterable(flattened(trial.params) for trial in view.trials)
    params = list(dict.fromkeys(named))
    known: dict[int, tuple[TrialRow, list[Any]]] = view.memory.setdefault("trial words", {})
    columns, rows = _columns(view), []
    for trial, values in zip(view.trials, zip(*columns.values(), strict=True), strict=True):
        row, words = known.get(trial.trial, (None, []))
        if row is not trial or len(words) != len(params) + 1:
            words = _words(trial, params)
            known[trial.trial] = trial, words
        rows.append([*values, *words])
    return {
        "columns": [*columns, "reason", *(cut(name, _LONGEST) for name in params)],
        "rows": rows,
        "answer": None if best is None else best.trial,
        "shown": [{"name": name, "rare": on != "always"} for name, on in _SHOWN.items()],
    }


def _words(trial: TrialRow, params: list[str]) -> list[Any]:
    """Why it ended, in the fewest words, and its parameters."""
    its = flattened(trial.params)
    return [
        cut(trial.reason.short, _LONGEST),
        *[_cell(its[name]) if name in its else None for name in params],
    ]


def _columns(view: StudyView) -> dict[str, list[Any]]:
    """The columns by name, a value for each trial; without the words, which are kept."""
    trials = Trials(view)
    sign = -1.0 if view.goals.objective.mode == "max" else 1.0
    return {
        "trial": [row.trial for row in view.trials],
        "state": [row.state for row in view.trials],
        "stratum": [None if s == NOT_REPORTED else STRATA[s] for s in trials.stratum.tolist()],
        "steps": [exact(step) for step in trials.last_step.tolist()],
        "total_steps": [exact(row.total_steps) for row in view.trials],
        "best_objective": _rounded(sign * trials.best_loss),
        "best_valid_objective": _rounded(sign * trials.best_valid_loss),
        "least_violation": _rounded(trials.least_violation),
        "checks": trials.checks.tolist(),
        "training_s": _rounded(trials.training_s),
    }


def _rounded(values: Array) -> list[float | None]:
    """Numbers with five digits, None for infinity: all at once, formatting each takes long."""
    size = np.abs(values)
    usual = (size > 1e-15) & (size < 1e15)
    digits = 4 - np.floor(np.log10(size, where=usual, out=np.zeros(len(values)))).astype("i8")
    # multiplied and divided by whole powers of ten, which floats hold exactly
    up, down = 10.0 ** np.maximum(digits, 0), 10.0 ** np.maximum(-digits, 0)
    with np.errstate(over="ignore", invalid="ignore"):
        short_ones = np.where(usual, np.round(values * up / down) * down / up, values)
    found: Array = short_ones.astype(object)
    found[np.isinf(values)] = None
    return list(found.tolist())


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return finite(float(f"{value:.5g}")) if math.isfinite(value) else str(value)
    if isinstance(value, (bool, int)):
        return exact(value)
    return cut(value if isinstance(value, str) else str(plain(value)), _LONGEST)


def trial_detail(view: StudyView, trial: int, digest: FigureData | None = None) -> dict[str, Any]:
    """One trial as plain data: its latest attempt, and how the earlier ones ended.

    Where it has many reports some are left out, and ``reports.note`` says so. ``earlier`` is None,
    or ``why`` and ``reports`` of an earlier attempt that holds the answer. For several trials give
    each the same ``digest``, so that what they share is worked out once.
    """
    if view.trial(trial) is None:
        last = view.trials[-1].trial if view.trials else 0
        known = f"it has trials 1 to {last}" if last else "it has no trial yet"
        raise StudyError(f"{view.path} has no trial {trial}; {known}")
    digest = digest or FigureData(view)
    attempts = view.attempts(trial)
    latest = attempts[-1]
    attempt = latest.attempt
    with view.open() as store:
        candidates = digest.judged
        best = choose_answer(candidates)
        traceback = store.traceback(trial, attempt)
        hardware = store.hardware().get((trial, attempt))
        names = [name for name, number in store.names().items() if number == trial]
        star = answer_step(best, trial, attempt)
        reports, unchecked, limits, left_out = _reports(view, store, trial, attempt, star)
        earlier = _earlier(view, store, answer_attempt(best, latest, attempts), best)
    why = holds_answer(best, candidates, trial, attempt)
    why += how_it_ended(latest, traceback, with_params=False)  # which have a table of their own
    why += [f"measured on: {hardware}"] if hardware is not None else []
    why += limits
    notes = (why_unchecked(latest, unchecked), left_out)
    picture = trial_figure(digest, trial)
    return {
        "trial": trial,
        "name": names[0] if names else None,
        "attempt": attempt,
        "state": latest.state,
        "reason": str(latest.reason),
        "why": why + [note for note in notes if note is not None],
        "params": plain(dict(flattened(view.params(trial)))),
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
        "earlier": earlier,
        "figure": picture["figure"],
        "alt": picture["alt"],
    }


def _earlier(
    view: StudyView, store: Store, row: TrialRow | None, best: FoundCheckpoint | None
) -> dict[str, Any] | None:
    """What there is to say of an earlier attempt that holds the answer."""
    if row is None:
        return None
    star = answer_step(best, row.trial, row.attempt)
    reports, unchecked, limits, left_out = _reports(view, store, row.trial, row.attempt, star)
    notes = (why_unchecked(row, unchecked), left_out)
    why = [earlier_words(row), *limits, *[note for note in notes if note is not None]]
    return {"attempt": row.attempt, "why": why, "reports": reports}


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
    kept = thinned(np.arange(len(rows)), _MOST_REPORTS, keep)
    seqs = columns.seq[rows[kept]].tolist()
    found, checks = store.reports_at(seqs), store.checks_at(seqs)
    words, then = checked_words(checks, view.goals), store.verdicts_then(seqs)
    note = ""
    if len(kept) < len(rows):
        note = (
            f"{len(kept)} of its {len(rows)} reports, spread evenly, with those where its stratum "
            "changed and those at its end"
        )
    unchecked = bool((columns.stratum[rows] == 0).any())
    table = {
        "columns": report_columns(view.goals),
        "rows": [report_cells(report, words, star, then) for report in found],
        "note": note,
    }
    limits = limits_then(checks, view.goals)
    limits += decided_under(found, view.limit_changes, view.goals)
    return table, unchecked, limits, why_not_measured(checks, view.goals)
