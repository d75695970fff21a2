"""Why a trial ended, in words with the numbers behind it: the same in a terminal and on a page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from acetune.core.formatting import estimate, number, parameters
from acetune.core.goals import Goals, limits_from_json
from acetune.policies.policy import checked_along
from acetune.study.findings import FoundCheckpoint
from acetune.study.summary import step_of
from acetune.study.table_rows import TrialRow

Row = Mapping[str, Any]  # of a table of the study file
_FEW = 30  # reports that are shown as they are
_NOT_MEASURED = "not measured"
_FRAME = re.compile(r'  File "(.*)", line \d+')
_OURS = f"{Path(__file__).parent.parent}/"


def how_it_ended(row: TrialRow, traceback: str | None, *, with_params: bool = True) -> list[str]:
    """How a trial ended, with what parameters and when it was checked, a line each."""
    reason = f": {row.reason}" if row.reason else ""
    lines = [f"trial {row.trial} {row.state}{reason}"]
    if with_params:
        lines.append(f"parameters: {parameters(row.params)}")
    if row.schedule:
        lines.append(f"constraint: {row.schedule}")
    if row.attempt > 1:
        again = f"this is its attempt {row.attempt}; of earlier ones only what they found counts"
        lines.insert(1, again)
    if traceback:
        lines.append(own_frames(traceback.rstrip()))
    return lines


def holds_answer(
    best: FoundCheckpoint | None, candidates: Sequence[FoundCheckpoint], trial: int, attempt: int
) -> list[str]:
    """Which checkpoints of this trial are the answer, or were rejected, a line each."""
    lines = []
    for found in candidates:
        if found.trial != trial:
            continue
        earlier = f" of its attempt {found.attempt}" if found.attempt != attempt else ""
        if found == best:
            lines.append(f"it holds the answer: {step_of(found)}{earlier}")
        elif found.status == "broken":
            where = f"{step_of(found)}{earlier}"
            lines.append(f"it holds a rejected candidate: {where} broke a limit on fresh data")
    return lines


def answer_step(best: FoundCheckpoint | None, trial: int, attempt: int) -> int | None:
    """The step at which this attempt holds the answer, if it does."""
    if best is None or (best.trial, best.attempt) != (trial, attempt):
        return None
    return best.step


def answer_attempt(
    best: FoundCheckpoint | None, latest: TrialRow, attempts: Iterable[TrialRow]
) -> TrialRow | None:
    """The attempt of this trial that holds the answer, where it is an earlier one."""
    if best is None or best.trial != latest.trial or best.attempt == latest.attempt:
        return None
    return next((row for row in attempts if row.attempt == best.attempt), None)


def earlier_words(row: TrialRow) -> str:
    """What is said of an earlier attempt that holds the answer.

    >>> from acetune.core.reason import INTERRUPTED, NO_REASON
    >>> earlier_words(TrialRow(7, 1, {}, None, None, None, 0, "interrupted", None, 1e9, None,
    ...               INTERRUPTED, NO_REASON))
    'its attempt 1, which holds the answer, was interrupted: interrupted by the user'
    """
    reason = f": {row.reason}" if row.reason else ""
    verb = "" if row.state == "finished" else "was "
    return f"its attempt {row.attempt}, which holds the answer, {verb}{row.state}{reason}"


def own_frames(traceback: str) -> str:
    """A traceback without the frames of this package, which its reader need not fix.

    >>> print(own_frames(f'''Traceback (most recent call last):
    ...   File "{_OURS}run/_worker_main.py", line 80, in _train
    ...     self._train_from(checkpoint)
    ...   File "/home/me/study.py", line 3, in train
    ...     1 / 0
    ... ZeroDivisionError: division by zero'''))
    Traceback (most recent call last):
      File "/home/me/study.py", line 3, in train
        1 / 0
    ZeroDivisionError: division by zero
    """
    kept, dropping = [], False
    for line in traceback.splitlines():
        frame = _FRAME.match(line)
        if frame is not None:
            path = frame[1]
            dropping = path.startswith(_OURS) or "/site-packages/acetune/" in path
        elif not line.startswith("    "):
            dropping = False
        if not dropping:
            kept.append(line)
    return "\n".join(kept)


def why_unchecked(row: TrialRow, unchecked: bool) -> str | None:
    """A word on unchecked reports of a trial that was to be checked along the way."""
    if not unchecked or not checked_along(row.schedule):
        return None
    return (
        "unchecked: no check was due there, or the checkpoint could not beat the best feasible one "
        "known then"
    )


def why_not_measured(checks: Iterable[Row], goals: Goals) -> str | None:
    """A word on constraints that checks have left out, if any has."""
    measured = Counter(check["seq"] for check in checks)
    if all(times == len(goals.constraints) for times in measured.values()):
        return None
    return (
        f"{_NOT_MEASURED}: another limit was broken already; counts as a further violation of 1 "
        "where reports are ranked"
    )


def limits_then(checks: Iterable[Row], goals: Goals) -> list[str]:
    """The limits with the margins by which these checks were judged, in order, a line each."""
    used: dict[str, dict[float, None]] = {}
    for check in checks:
        used.setdefault(check["constraint"], {})[check["margin_se"]] = None
    lines = []
    for limit in goals.constraints:
        margins = list(used.get(limit.name, {limit.margin: None}))
        then = f"; since a resume {limit.margin:.3g} s.e." if margins[-1] != limit.margin else ""
        if len(margins) > 1:
            then = f"; after a resume {', '.join(f'{m:.3g}' for m in margins[1:])} s.e."
        lines.append(f"limit: {limit.with_margin(margins[0]).describe()}{then}")
    return lines


def decided_under(
    reports: Sequence[Row], changes: Sequence[Mapping[str, Any]], goals: Goals
) -> list[str]:
    """Under which earlier limits these reports were decided on, in order, a line each."""
    lines, after = [], 0
    for change in changes:
        its = [report["step"] for report in reports if after < report["seq"] <= change["seq"]]
        after = change["seq"]
        if its:
            then = Goals(goals.objective, limits_from_json(change["earlier"]))
            limits = ", ".join(limit.describe() for limit in then.constraints)
            steps = f"step {its[0]}" if its[0] == its[-1] else f"steps {its[0]} to {its[-1]}"
            lines.append(
                f"decided under earlier limits at {steps}: {limits}. Since session "
                f"{change['session']} those above are in force, and values are judged by them"
            )
    return lines


def report_columns(goals: Goals) -> list[str]:
    """The names of the cells that :func:`report_cells` gives."""
    return ["step", goals.objective.name, "stratum", "checked", "violation", "rank", "decision"]


def checked_words(checks: Iterable[Row], goals: Goals) -> dict[int, str]:
    """What the checks of reports gave, by the ``seq`` of the report."""
    by_report: dict[int, dict[str, str]] = {}
    for check in checks:
        shown = check["error"]
        if not shown:
            shown = f"{check['constraint']} {estimate(check['value'], check['stderr'])}"
        by_report.setdefault(check["seq"], {})[check["constraint"]] = shown
    names = [constraint.name for constraint in goals.constraints]
    return {
        seq: ", ".join(found.get(name, f"{name} {_NOT_MEASURED}") for name in names)
        for seq, found in by_report.items()
    }


def report_cells(
    report: Row,
    checked: Mapping[int, str],
    answer: int | None = None,
    then: Mapping[int, str] | None = None,
) -> list[str]:
    """A report as a row of a table; the one at the step of the ``answer`` has a star.

    ``then`` are the strata in which reports were decided on, where they were judged anew since.
    """
    objective = report["objective"]
    words = checked.get(report["seq"], "")
    if words and report["checked_step"] != report["step"]:
        words += f" (step {report['checked_step']})"
    violation, rank = report["violation"], report["rank"]
    star = "* " if is_answer(report, answer) else ""
    stratum = report["stratum"]
    if (was := (then or {}).get(report["seq"], stratum)) != stratum:
        stratum += f" (then {was})"
    return [
        f"{star}{report['step']}",
        "nan" if objective is None else number(objective),
        stratum,
        words,
        "" if violation is None else number(violation, 3),
        "" if rank is None else f"{rank} of {report['of']}",
        report["decision"] if report["kind"] == "step" else f"check ({report['kind']})",
    ]


def is_answer(report: Row, answer: int | None) -> bool:
    """Whether a row is the report of the answer's checkpoint, not a later check of it."""
    return answer is not None and report["kind"] == "step" and report["step"] == answer


def telling(reports: Sequence[Row], answer: int | None = None) -> list[int]:
    """The places of the reports that tell how a trial went; of few reports all.

    They are its first and its last ones, the first and the last of each stratum, where it was
    decided to stop, and the answer. A gap of one report is filled: dots would take its line.

    >>> rows = [{"seq": n, "kind": "step", "step": n, "checked_step": None, "decision": "continue",
    ...          "stratum": "valid" if n == 15 else "unchecked"} for n in range(1, 85)]
    >>> telling(rows), len(telling(rows[:30]))
    ([0, 1, 14, 81, 82, 83], 30)
    """
    last = len(reports) - 1
    if last < _FEW:
        return list(range(last + 1))
    kept = {0, 1, last - 2, last - 1, last}
    ends: dict[str, tuple[int, int]] = {}
    for place, report in enumerate(reports):
        first, _ = ends.get(report["stratum"], (place, place))
        ends[report["stratum"]] = first, place
        checked = answer is not None and report["checked_step"] == answer
        if report["decision"] != "continue" or is_answer(report, answer) or checked:
            kept.add(place)
    for pair in ends.values():
        kept.update(pair)
    kept |= {place + 1 for place in kept if place + 2 in kept}
    return sorted(kept)


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
