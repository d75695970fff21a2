"""Trials as data: the table of all of them."""

from __future__ import annotations

import math
from itertools import chain
from typing import Any

import numpy as np

from acetune.core.formatting import flattened
from acetune.report._json_values import exact, finite, plain
from acetune.study.per_trial import NOT_REPORTED, Trials
from acetune.study.report_arrays import STRATA, Array
from acetune.study.store import TrialRow
from acetune.study.view import StudyView

_LONGEST = 80  # characters of a word in the table
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
    reports was in. Numbers have five digits, and long words are cut.
    """
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
        "columns": [*columns, "reason", *map(short, params)],
        "rows": rows,
        "shown": [{"name": name, "rare": on != "always"} for name, on in _SHOWN.items()],
    }


def _words(trial: TrialRow, params: list[str]) -> list[Any]:
    """Why it ended, in the fewest words, and its parameters."""
    its = flattened(trial.params)
    return [
        short(trial.reason.short),
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
    return short(value if isinstance(value, str) else str(plain(value)))


def short(text: str) -> str:
    """A word that fits into a table."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
