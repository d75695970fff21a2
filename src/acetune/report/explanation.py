"""Why a trial ended, in words with the numbers behind it: the same in a terminal and on a page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from acetune.core.cost import interval_threshold
from acetune.core.goals import Goals

Row = Mapping[str, Any]  # of a table of the study file


def headline(row: Row, attempts: int, policy: Mapping[str, Any]) -> list[str]:
    """How a trial ended and with what parameters, a line each; ``policy`` as in the study file."""
    params = row["params"]
    params = json.loads(params) if isinstance(params, str) else params
    lines = [
        f"trial {row['trial']} {row['state']}: {row['reason']}",
        "parameters: " + ", ".join(f"{name}={value}" for name, value in params.items()),
    ]
    if policy and row["state"] != "rejected":
        lines.append(_interval(row, policy))
    if attempts > 1:
        lines.insert(1, f"this is its attempt {attempts}; the earlier ones do not count any more")
    if row["traceback"]:
        lines.append(row["traceback"].rstrip())
    return lines


def _interval(row: Row, policy: Mapping[str, Any]) -> str:
    """How often its constraint was due, and by what numbers, where the theorem chose."""
    total, interval, ratio = row["total_steps"], row["interval"], row["cost_ratio"]
    if policy.get("constraints") == "after":
        return "constraint: checked after the run only"
    if policy["name"] == "ASHA":
        return "constraint: due at every rung and at the last step"
    last = "an unknown number of steps" if total is None else f"{total} steps"
    when = "at every step" if interval == 1 else "once, at the end"
    text = f"constraint: due {when} of {last}"
    if ratio is None or total is None or policy.get("interval") != "adaptive":
        return text
    threshold = interval_threshold(policy["truncation"], total)
    return (
        f"{text}, because a check cost {ratio:.3g} times an iteration when the trial started and "
        f"every step is cheaper below {threshold:.3g} (Theorem 1)"
    )


def why_unchecked(row: Row, policy: Mapping[str, Any], unchecked: bool) -> str | None:
    """A word on unchecked reports of a trial that was to be checked at every step."""
    if row["interval"] == 1 and policy.get("gate") and unchecked:
        return "unchecked: the checkpoint could not beat the best feasible one known then"
    return None


def report_columns(goals: Goals) -> list[str]:
    """The names of the cells that :func:`report_cells` gives."""
    return ["step", goals.objective.name, "stratum", "checked", "violation", "rank", "decision"]


def checked_words(checks: Iterable[Row]) -> dict[int, str]:
    """What the checks of reports gave, by the ``seq`` of the report."""
    values: dict[int, str] = {}
    for check in checks:
        shown = check["error"] or f"{check['constraint']} {check['value']:.4g}"
        if check["stderr"]:
            shown += f" ± {check['stderr']:.2g}"
        values[check["seq"]] = ", ".join(filter(None, [values.get(check["seq"], ""), shown]))
    return values


def report_cells(report: Row, checked: Mapping[int, str]) -> list[str]:
    """A report as a row of a table."""
    objective = report["objective"]
    words = checked.get(report["seq"], "")
    if words and report["checked_step"] != report["step"]:
        words += f" (step {report['checked_step']})"
    violation, rank = report["violation"], report["rank"]
    return [
        str(report["step"]),
        "nan" if objective is None else f"{objective:.5g}",
        report["stratum"],
        words,
        "" if violation is None else f"{violation:.3g}",
        "" if rank is None else f"{rank} of {report['of']}",
        report["decision"] if report["kind"] == "step" else f"check ({report['kind']})",
    ]


def find_trial(which: str, names: Mapping[str, int]) -> int | None:
    """A trial by its number, by Ray's id of it, or by its name, which begins with the trainable's.

    >>> find_trial("12", {}), find_trial("train_1a2b", {"1a2b": 3}), find_trial("other", {})
    (12, 3, None)
    """
    if which.isdigit():
        return int(which)
    return next(
        (n for name, n in names.items() if which == name or which.endswith(f"_{name}")), None
    )


def thinned(length: int, keep: Sequence[int], most: int) -> list[int]:
    """Places of at most about ``most`` rows of ``length``, spread evenly, with those to keep.

    >>> thinned(3, [], most=5), thinned(100, [42], most=5)
    ([0, 1, 2], [0, 25, 42, 50, 74, 99])
    """
    if length <= most:
        return list(range(length))
    spread = {round(place * (length - 1) / (most - 1)) for place in range(most)}
    return sorted(spread | set(keep))
