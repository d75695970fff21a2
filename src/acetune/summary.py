"""A result in words: what the summary at the end of a study says."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acetune.core.goals import Estimate, Goals
from acetune.store import FAILED

if TYPE_CHECKING:
    from acetune.found import FoundCheckpoint
    from acetune.result import StudyResult

STATES = ("running", "finished", "stopped", "failed", "interrupted", "rejected")


def summary_rows(result: StudyResult) -> list[tuple[str, str]]:
    """The lines of the summary: name and text."""
    goals, ledger = result.goals, result.ledger
    rows: list[tuple[str, str]] = []
    if result.best is None:
        rows.append(("best feasible", nothing_feasible(result)))
        if result.nearest_miss is not None:
            rows.append(("nearest miss", describe_checkpoint(goals, result.nearest_miss)))
    else:
        best = result.best
        name = "best, failed" if best.status == "failed" else "best feasible"
        rows.append((name, describe_checkpoint(goals, best)))
        rows.append(("parameters", _params(best.params)))
        rows.append(("trust", trust_in_best(result)))
        if best.checkpoint is not None:
            rows.append(("model", shown(best.checkpoint)))
    if result.ended is not None and result.interrupted:
        rows.append(("ended", "interrupted by the user; the same call again goes on"))
    elif result.ended is not None and result.ended.startswith(FAILED):
        rows.append(("ended", f"by {result.ended}"))
    counts = ", ".join(f"{result.counts[s]} {s}" for s in STATES if result.counts.get(s))
    rows.append(("trials", f"{sum(result.counts.values())} ({counts})"))
    for reason, n in list(result.reasons.items())[:4]:
        rows.append(("", f"{n} x {reason}"))
    strata = [f"{result.strata.get(s, 0)} {s}" for s in ("valid", "invalid", "unchecked")]
    rows.append(("reports", ", ".join(strata)))
    rows.append(
        (
            "time",
            f"{duration(ledger.wall_s)}; on workers: start-up {duration(ledger.startup_s)}, "
            f"training {duration(ledger.training_s)}, "
            f"checks {duration(ledger.checks_s)} ({ledger.check_share:.0%} of both, "
            f"{ledger.checks} checks in {ledger.reports} reports)",
        )
    )
    if ledger.failed_checks:
        text = f"{ledger.failed_checks} of {ledger.checks} gave no number"
        if (failed := result.failed_check) is not None:
            if ledger.failed_checks < ledger.checks:  # else the first line has said it
                text += f"; the first, of {failed.constraint!r}: {failed.error}"
            text += f"; look closer: acetune explain {shown(result.study)} {failed.trial}"
        rows.append(("failed checks", text))
    if goals.constraints and ledger.invalid_s:
        rows.append(
            (
                "never valid",
                f"{duration(ledger.invalid_s)} went into trials that were checked and never valid",
            )
        )
    rows.append(("on disk", f"{size(ledger.disk_bytes)} of models, beside {shown(result.study)}"))
    return rows


def summary_html(result: StudyResult) -> str:
    """The summary as a small HTML table, for notebooks."""
    cells = "".join(
        f'<tr><th style="text-align:left;vertical-align:top;white-space:nowrap">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(text)}</td></tr>'
        for name, text in summary_rows(result)
    )
    return f"<table>{cells}</table>"


def summary_text(result: StudyResult) -> str:
    """The summary as plain text."""
    return "\n".join(f"{name:14s} {text}" for name, text in summary_rows(result))


def nothing_feasible(result: StudyResult) -> str:
    """How many checkpoints were looked at in vain."""
    checked, reports = result.ledger.checks, result.ledger.reports
    failed = result.failed_check
    if checked and result.ledger.failed_checks == checked and failed is not None:
        # more checks would fail as well: the check has to be mended
        return (
            f"none feasible: every one of the {checked} checks that were made failed, so nothing "
            f"is known to qualify; the check of {failed.constraint!r} says: {failed.error}"
        )
    text = f"none feasible: none of the {checked} checkpoints that were checked qualified"
    if checked < reports:
        text += f" ({reports} were reported; policy='ace-beta1' checks more of them)"
    return text


def describe_checkpoint(goals: Goals, found: FoundCheckpoint) -> str:
    """Objective, constraints against their limits, and where it is."""
    parts = [f"{goals.objective.name} {found.value:.5g}"]
    for constraint in goals.constraints:
        measured = found.constraints.get(constraint.name)
        shown = "failed" if measured is None else _estimate(measured)
        limit = constraint.describe().removeprefix(f"{constraint.name} ")
        parts.append(f"{constraint.name} {shown} (limit {limit})")
    return f"{', '.join(parts)}; trial {found.trial}, step {found.step}"


def trust(goals: Goals, found: FoundCheckpoint) -> str:
    """What can be said about the answer on data that the search never saw."""
    confirmation = found.confirmation
    if confirmation is None:
        return "unconfirmed" + _distance(goals, found)
    if confirmation.error is not None:
        return f"unconfirmed, because confirm went wrong: {confirmation.error}"
    parts = []
    for name, measured in confirmation.values.items():
        interval = confirmation.interval(name)
        between = ""
        if interval is not None:
            cut = [end for end in interval if end in confirmation.ranges.get(name, ())]
            ends = f"; cut at {' and '.join(f'{end:g}' for end in cut)}" if cut else ""
            between = f" (95 %: {interval[0]:.4g} to {interval[1]:.4g}{ends})"
        parts.append(f"{name} {measured.value:.5g}{between}")
    word = "confirmed" if confirmation.status == "confirmed" else "failed: breaks a limit"
    near = [
        constraint.name
        for constraint in goals.constraints
        if (interval := confirmation.interval(constraint.name)) is not None
        and interval[0] <= constraint.limit <= interval[1]
    ]
    close = f"; the limit of {', '.join(near)} lies within its interval" if near else ""
    return f"{word} on fresh data: {', '.join(parts)}{close}"


def trust_in_best(result: StudyResult) -> str:
    """What can be said about the answer, and how often the fresh data was used for it."""
    uses = result.confirmation_uses
    used = f"; the fresh data was used {uses} times" if uses > 1 else ""
    return "" if result.best is None else trust(result.goals, result.best) + used


def _distance(goals: Goals, found: FoundCheckpoint) -> str:
    words = []
    for constraint in goals.constraints:
        measured = found.constraints.get(constraint.name)
        if measured is None:
            continue
        room = abs(constraint.limit - measured.value)
        if measured.stderr > 0:
            errors = room / measured.stderr
            words.append(f"{constraint.name} is {errors:.1f} standard errors from its limit")
        else:
            words.append(f"{constraint.name} is {room:.3g} from its limit, standard error unknown")
    return f": {'; '.join(words)}" if words else ""


def _estimate(measured: Estimate) -> str:
    return f"{measured.value:.4g}" + (f" ± {measured.stderr:.2g}" if measured.stderr else "")


def _params(params: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name}={value:.5g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in params.items()
    )


def shown(path: Path) -> str:
    """A path as people would type it: from the current folder, where it lies below it."""
    with contextlib.suppress(ValueError):
        return str(path.relative_to(Path.cwd()))
    return str(path)


def duration(seconds: float) -> str:
    """Seconds as people say them: 45 s, 3 min 20 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def size(count: int) -> str:
    """Bytes as people say them."""
    number = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000 or unit == "GB":
            return f"{number:.3g} {unit}"
        number /= 1000
    raise AssertionError("unreachable")
