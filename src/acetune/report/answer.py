"""The answer of a study from its columns: the same as ``acetune.load`` reads from the file."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np

from acetune.report.answer_words import in_print, words_of_answer
from acetune.study import queries
from acetune.study.checkpoints import (
    as_json,
    best_of_all,
    better_misses,
    checkpoint,
    losses,
    nearest_misses,
    unchecked_losses,
    valid_at,
    valid_checkpoints,
)
from acetune.study.columns import INVALID, STEP, STRATA, UNCHECKED, VALID
from acetune.study.found import ConstraintTime, FailureOfCheck, FoundCheckpoint, Ledger
from acetune.study.result import StudyResult
from acetune.study.trust import after_failed_confirmation, trust_in_best
from acetune.study.view import StudyView

_SHOWN = 5


def result_of(view: StudyView) -> StudyResult:
    """The result as ``acetune.load`` gives it, without asking the file again."""
    ledger, candidates = ledger_of(view), candidates_of(view)
    reports = view.reports
    strata = np.bincount(reports.stratum[reports.kind == STEP], minlength=3).tolist()
    ended = Counter(
        (trial.state, trial.reason)
        for trial in view.trials
        if trial.state in ("stopped", "failed", "interrupted")
    )
    reasons = [
        {"state": state, "reason": reason, "n": n} for (state, reason), n in ended.most_common()
    ]
    misses = nearest_misses(view, 1)
    return StudyResult(
        study=view.path,
        goals=view.goals,
        best=queries.choose_answer(candidates),
        nearest_miss=misses[0] if misses else None,
        candidates=candidates,
        ledger=ledger,
        counts=dict(Counter(trial.state for trial in view.trials)),
        strata={name: n for name, n in zip(STRATA, strata, strict=True) if n},
        reasons=queries.count_reasons(reasons),
        confirmation_uses=len(view.confirmations),
        ended=view.sessions[-1]["ended"] if view.sessions else None,
        info=view.tables["study"][0],
        failed_check=_failed_check(view) if ledger.failed_checks else None,
    )


def candidates_of(view: StudyView) -> list[FoundCheckpoint]:
    """The candidates alone, as ``queries.read_candidates`` gives them."""
    settings = view.info["settings"]
    ranges, uses = queries.read_ranges(settings), view.tables["confirmations"]
    best = valid_checkpoints(view, max(settings["confirm_top"], settings["keep_models"]))
    judged = [valid_at(view, *place) for place in queries.judged_places(uses)]
    found = queries.with_judged(
        best, [one for one in judged if one is not None], view.goals.objective
    )
    return queries.with_next_best([queries.with_confirmation(one, uses, ranges) for one in found])


def ledger_of(view: StudyView) -> Ledger:
    """Where the time went, as ``queries.read_ledger`` says it."""
    reports, checks = view.reports, view.checks
    size = int(reports.trial.max(initial=0)) + 1
    valid, invalid = (
        np.bincount(reports.trial[reports.stratum == stratum], minlength=size)
        for stratum in (VALID, INVALID)
    )
    wasted = ((valid == 0) & (invalid > 0))[reports.trial]
    failed = np.isnan(checks.value)
    training, snapshots = reports.primary_cost_s, reports.snapshot_cost_s
    return Ledger(
        training_s=float(np.nansum(training)),
        startup_s=view.startup_s,
        checks_s=float(np.nansum(checks.cost_s) + snapshots.sum()),
        invalid_s=float(
            np.nansum(training[wasted])
            + snapshots[wasted].sum()
            + np.nansum(checks.cost_s[wasted[checks.row]])
        ),
        wall_s=float(sum(session["seconds"] for session in view.sessions)),
        reports=int(np.count_nonzero(reports.kind == STEP)),
        checks=_distinct(checks.row),
        failed_checks=_distinct(checks.row[failed]),
        disk_bytes=view.disk_bytes,
        by_constraint=_by_constraint(view),
    )


def _by_constraint(view: StudyView) -> dict[str, ConstraintTime]:
    checks, names = view.checks, [c.name for c in view.goals.constraints]
    made = ~np.isnan(checks.value) | ~np.isnan(checks.cost_s)
    which, size = checks.constraint[made].astype(np.int64), len(names)
    times = np.bincount(which, minlength=size).tolist()
    seconds = np.bincount(which, np.nan_to_num(checks.cost_s[made]), minlength=size).tolist()
    return {
        name: ConstraintTime(n, s) for name, n, s in zip(names, times, seconds, strict=True) if n
    }


def _distinct(ascending: Any) -> int:
    return int(np.count_nonzero(np.diff(ascending)) + 1) if len(ascending) else 0


def _failed_check(view: StudyView) -> FailureOfCheck | None:
    """The first check that gave no number; it stays the first."""
    if "failed check" not in view.memory:
        with view.open() as store:
            view.memory["failed check"] = queries.first_failed_check(store)
    found: FailureOfCheck | None = view.memory["failed check"]
    return found


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
    missing = unchecked_better(view, best)
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


def unchecked_better(view: StudyView, best: FoundCheckpoint | None) -> int:
    """Checkpoints that are better than the answer and were never checked."""
    unchecked = unchecked_losses(view)
    if best is None:
        return len(unchecked)
    loss = losses(view.goals.objective, np.array([best.value]))
    return int(np.searchsorted(unchecked, loss)[0])


def later_checks(view: StudyView, best: FoundCheckpoint | None) -> dict[str, int] | None:
    """How many later checkpoints of the same attempt were checked, and how many qualify."""
    if best is None:
        return None
    reports = view.reports
    later = (reports.trial == best.trial) & (reports.attempt == best.attempt)
    later &= (reports.checked_step > best.step) & (reports.stratum != UNCHECKED)
    valid = int(np.count_nonzero(reports.stratum[later] == VALID))
    return {"checked": int(np.count_nonzero(later)), "valid": valid}
