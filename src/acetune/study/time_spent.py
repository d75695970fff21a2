"""Where the time of a study went, and which check failed first."""

from __future__ import annotations

from typing import Any

import numpy as np

from acetune.study.findings import ConstraintTime, FailureOfCheck, Ledger
from acetune.study.reader import StudyView
from acetune.study.report_arrays import INVALID, STEP, VALID


def ledger_of(view: StudyView) -> Ledger:
    """Where the time went."""
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
        disk_bytes=view.disk_bytes + view.code_bytes,
        code_bytes=view.code_bytes,
        by_constraint=_by_constraint(view),
        waiting_s=view.waited_s,
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


def failed_check(view: StudyView) -> FailureOfCheck | None:
    """The first check that gave no number; it stays the first."""
    if "failed check" not in view.memory:
        with view.open() as store:
            first = store.first_failed_check()
        view.memory["failed check"] = None if first is None else FailureOfCheck(*first)
    found: FailureOfCheck | None = view.memory["failed check"]
    return found
