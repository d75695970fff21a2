"""Which trials to show, where all would be too many."""

from __future__ import annotations

import numpy as np

from acetune.core.errors import StudyError
from acetune.report.figures.digest import STRATA_ORDER, Digest
from acetune.study.columns import INVALID, STOP

MOST = 8


def chosen_trials(digest: Digest, most: int = MOST) -> dict[int, str]:
    """Trials that tell something, by number, each with the word that says why it was chosen.

    The answer, or the best that fresh data rejected, the nearest miss, the trial with the best
    objective of all if that is not valid, stopped trials of each stratum, and running ones.
    """
    chosen: dict[int, str] = {}
    reports = digest.view.reports

    def take(trial: int, why: str) -> None:
        if len(chosen) < most:
            chosen.setdefault(trial, why)

    if digest.answer is not None:
        take(digest.answer.trial, "holds the answer")
    if digest.rejected is not None:
        take(digest.rejected.trial, "rejected on fresh data")
    for miss in [found for found in digest.nearest_misses if found.trial not in chosen][:1]:
        take(miss.trial, "nearest miss" if digest.answer is None else "just over a limit")
    if digest.constrained:
        rows = np.flatnonzero(reports.stratum == INVALID)
        loss = digest.checked_loss(rows)
        if np.isfinite(loss).any():
            take(int(reports.trial[rows[loss.argmin()]]), "best but invalid")
    running = [row.trial for row in digest.view.trials if row.state == "running"]
    for trial in _with_reports(digest, running)[-2:]:
        take(trial, "running")
    stops = np.flatnonzero((reports.decision == STOP) & digest.current)
    for stratum, word in STRATA_ORDER:
        rows = stops[reports.stratum[stops] == stratum]
        if len(rows):
            # of middling length: the shortest say little, the longest are the lucky ones
            middle = rows[np.argsort(reports.step[rows], kind="stable")[len(rows) // 2]]
            take(int(reports.trial[middle]), f"stopped, {word}")
    finished = [row.trial for row in digest.view.trials if row.state == "finished"]
    for trial in _with_reports(digest, finished)[-2:]:
        take(trial, "finished")
    for trial in _with_reports(digest, digest.numbers.tolist()):
        if len(chosen) >= 3:
            break
        take(trial, digest.rows[trial].state)
    return chosen


def asked_for(digest: Digest, trials: list[int]) -> dict[int, str]:
    """The trials that were named; they must be there."""
    for trial in trials:
        if trial not in digest.rows:
            last = int(digest.numbers.max(initial=0))
            raise StudyError(f"the study has no trial {trial!r}; it has trials 1 to {last}")
    return {trial: digest.rows[trial].state for trial in dict.fromkeys(trials)}


def _with_reports(digest: Digest, trials: list[int]) -> list[int]:
    seen = np.bincount(digest.trial, minlength=digest.size) > 0
    return [trial for trial in trials if seen[trial]]
