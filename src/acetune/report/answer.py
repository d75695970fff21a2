"""The answer of a study as the page shows it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from acetune.report.answer_words import in_print, words_of_answer
from acetune.report.plain_data import as_json
from acetune.study.checkpoints import (
    best_of_all,
    better_misses,
    checkpoint,
    nearest_misses,
    unchecked_better,
)
from acetune.study.columns import UNCHECKED, VALID
from acetune.study.found import FoundCheckpoint
from acetune.study.result import StudyResult
from acetune.study.trust import after_failed_confirmation, trust_in_best
from acetune.study.view import StudyView

_SHOWN = 5


def answer(view: StudyView, result: StudyResult) -> dict[str, Any]:
    """The answer as plain data: what was found, how far to trust it, what came near.

    ``recommended`` is false where nothing qualified and where fresh data rejected all that was
    judged: then ``rejected`` is the best of those, and ``next`` says what may help. ``later``
    counts the later checkpoints of the answer's attempt that were checked, and those of them that
    qualify. ``nearest_misses`` are, beside an answer, those that are better and break a limit;
    without one the nearest of all.
    ``load`` is how Python gets the kept model, or that of the next candidate if it is lost;
    ``instead`` then says which that is.
    """
    best, of_all = result.best, best_of_all(view)
    missing = unchecked_better(view, None if best is None else best.value)
    if best is None:
        misses = nearest_misses(view, _SHOWN)
    else:
        misses = [checkpoint(view, row) for row in better_misses(view, best.value, _SHOWN)]
    shown = as_json(view, best)
    lost = best is not None and shown is not None and shown["model_fault"] is not None
    load = None
    if best is not None and best.checkpoint is not None:
        load = ".load()"
        if lost:
            load = None if best.next_best is None else ".next_best.load()"
    name = json.dumps(view.path.name, ensure_ascii=False)
    return {
        "outcome": result.outcome,
        "recommended": best is not None,
        "best": shown,
        "rejected": as_json(view, result.rejected),
        "later": later_checks(view, best),
        "load": None if load is None else f"acetune.load({name}).best{load}",
        "instead": best.instead() if best is not None and lost else None,
        "trust": in_print(trust_in_best(result)),
        "next": None if result.rejected is None else f"{after_failed_confirmation(result)}.",
        "best_of_all": None
        if of_all is None
        else {**(as_json(view, of_all[0]) or {}), "stratum": of_all[1]},
        "candidates": [as_json(view, found) for found in result.candidates[:_SHOWN]],
        "nearest_misses": [as_json(view, found) for found in misses],
        "unchecked_better": missing,
        "words": in_print(words_of_answer(result, of_all, missing, running=view.running)),
    }


def later_checks(view: StudyView, best: FoundCheckpoint | None) -> dict[str, int] | None:
    """How many later checkpoints of the same attempt were checked, and how many qualify."""
    if best is None:
        return None
    reports = view.reports
    later = (reports.trial == best.trial) & (reports.attempt == best.attempt)
    later &= (reports.checked_step > best.step) & (reports.stratum != UNCHECKED)
    valid = int(np.count_nonzero(reports.stratum[later] == VALID))
    return {"checked": int(np.count_nonzero(later)), "valid": valid}
