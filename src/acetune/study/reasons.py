"""Why trials ended, without the numbers of each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_BEHIND = "behind the best feasible checkpoint"  # as ACE2 begins to say it


def count_reasons(rows: Iterable[dict[str, Any]]) -> dict[str, int]:
    """Reasons without their numbers, so that they can be counted."""
    counts: dict[str, int] = {}
    for row in rows:
        reason = short_reason(row["state"], row["reason"])
        counts[reason] = counts.get(reason, 0) + row["n"]
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def short_reason(state: str, reason: str) -> str:
    """Why a trial ended, without the numbers of its last report.

    >>> short_reason("stopped", "step 3, rank 4 of 5 valid reports: in the worst 25%")
    'in the worst 25% of the valid reports at its step'
    >>> short_reason("stopped", "rank 2 of 3 at step 4 among the invalid, as last checked: cut")
    'cut of those at its step that were last found invalid'
    """
    if state != "stopped":
        return reason
    if reason.startswith(_BEHIND):
        return f"{_BEHIND}, and long without improving"
    where, _, what = reason.partition(": ")
    for stratum in ("unchecked", "invalid", "valid"):
        if f" {stratum} reports" in where:
            what += f" of the {stratum} reports at its step"
            break
        if f" among the {stratum}, as last checked" in where:
            what += f" of those at its step that were last found {stratum}"
            break
    return what or where
