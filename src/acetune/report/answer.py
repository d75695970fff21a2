"""The answer of a study from its columns: the same as ``acetune.load`` reads from the file."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np

from acetune import queries
from acetune.found import FailureOfCheck, FoundCheckpoint, Ledger
from acetune.report.checkpoints import (
    as_json,
    best_of_all,
    losses,
    nearest_misses,
    unchecked_losses,
    valid_checkpoints,
)
from acetune.report.columns import INVALID, STEP, STRATA, VALID
from acetune.report.view import StudyView
from acetune.result import StudyResult
from acetune.summary import describe_checkpoint, nothing_feasible, trust_in_best

_SHOWN = 5


def result_of(view: StudyView) -> StudyResult:
    """The result as ``acetune.load`` gives it, without asking the file again."""
    settings, ledger = view.info["settings"], ledger_of(view)
    ranges = queries.read_ranges(settings)
    uses = view.tables["confirmations"]
    most = max(settings["confirm_top"], settings["keep_models"])
    candidates = [
        queries.with_confirmation(found, uses, ranges) for found in valid_checkpoints(view, most)
    ]
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
        confirmation_uses=len(uses),
        ended=view.sessions[-1]["ended"] if view.sessions else None,
        info=view.tables["study"][0],
        failed_check=_failed_check(view) if ledger.failed_checks else None,
    )


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
    )


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
    """The answer as plain data: what was found, how far to trust it, what came near."""
    of_all = best_of_all(view)
    missing = unchecked_better(view, result.best)
    return {
        "outcome": result.outcome,
        "best": as_json(view, result.best),
        "trust": trust_in_best(result),
        "best_of_all": None
        if of_all is None
        else {**(as_json(view, of_all[0]) or {}), "stratum": of_all[1]},
        "candidates": [as_json(view, found) for found in result.candidates[:_SHOWN]],
        "nearest_misses": [as_json(view, found) for found in nearest_misses(view, _SHOWN)],
        "unchecked_better": missing,
        "words": _words(view, result, of_all, missing),
    }


def unchecked_better(view: StudyView, best: FoundCheckpoint | None) -> int:
    """Checkpoints that are better than the answer and were never checked."""
    unchecked = unchecked_losses(view)
    if best is None:
        return len(unchecked)
    loss = losses(view.goals.objective, np.array([best.value]))
    return int(np.searchsorted(unchecked, loss)[0])


def _words(
    view: StudyView,
    result: StudyResult,
    of_all: tuple[FoundCheckpoint, str] | None,
    missing: int,
) -> str:
    """The answer in a few plain sentences."""
    goals, best = view.goals, result.best
    if best is None:
        if not len(view.reports):
            return "Nothing has been reported yet." if view.running else "Nothing was reported."
        text = _sentence(nothing_feasible(result))
        if result.nearest_miss is not None:
            text += f" Nearest came {describe_checkpoint(goals, result.nearest_miss)}."
        return text
    what = "The best checkpoint that qualifies" if goals.constraints else "The best checkpoint"
    if best.status == "failed":
        what = "The best checkpoint of the search broke a limit on fresh data"
    text = f"{what}: {describe_checkpoint(goals, best)}."
    if not goals.constraints or of_all is None:
        return text
    other, stratum = of_all
    gap = abs(other.value - best.value)
    if (other.trial, other.attempt, other.step) == (best.trial, best.attempt, best.step):
        return f"{text} No other that was reported has a better {goals.objective.name}."
    if gap > 0 and math.isfinite(gap):
        of_what = {"invalid": "breaks a limit", "unchecked": "was never checked"}
        text += (
            f" The best of all has {goals.objective.name} {other.value:.5g} (trial {other.trial}, "
            f"step {other.step}) and {of_what.get(stratum, 'is valid too')}."
        )
    if missing:
        many = "checkpoint was" if missing == 1 else "checkpoints were"
        text += f" {missing:,} better {many} never checked."
    return text


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
