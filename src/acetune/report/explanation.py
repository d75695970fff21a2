"""Why a trial ended, in words with the numbers behind it: the same in a terminal and on a page."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from acetune.core.cost import interval_threshold
from acetune.core.goals import Goals
from acetune.core.words import estimate, number, parameters
from acetune.study.found import FoundCheckpoint
from acetune.study.summary import step_of

Row = Mapping[str, Any]  # of a table of the study file
_FEW = 30  # reports that are shown as they are
_NOT_MEASURED = "not measured"
_FRAME = re.compile(r'  File "(.*)", line \d+')
_OURS = f"{Path(__file__).parent.parent}/"


def headline(row: Row, attempts: int, policy: Mapping[str, Any]) -> list[str]:
    """How a trial ended and with what parameters, a line each; ``policy`` as in the study file."""
    params = row["params"]
    params = json.loads(params) if isinstance(params, str) else params
    lines = [
        f"trial {row['trial']} {row['state']}" + (f": {row['reason']}" if row["reason"] else ""),
        f"parameters: {parameters(params)}",
    ]
    if policy and row["state"] != "rejected":
        lines.append(_interval(row, policy))
    if attempts > 1:
        lines.insert(1, f"this is its attempt {attempts}; the earlier ones do not count any more")
    if row["traceback"]:
        lines.append(own_frames(row["traceback"].rstrip()))
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
        elif found.status == "failed":
            where = f"{step_of(found)}{earlier}"
            lines.append(f"it holds a rejected candidate: {where} broke a limit on fresh data")
    return lines


def answer_step(best: FoundCheckpoint | None, trial: int, attempt: int) -> int | None:
    """The step at which this attempt holds the answer, if it does."""
    if best is None or (best.trial, best.attempt) != (trial, attempt):
        return None
    return best.step


def own_frames(traceback: str) -> str:
    """A traceback without the frames of this package, which its reader need not mend.

    >>> print(own_frames(f'''Traceback (most recent call last):
    ...   File "{_OURS}engines/worker.py", line 80, in _train
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


def _interval(row: Row, policy: Mapping[str, Any]) -> str:
    """How often its constraint was due, and by what numbers, where the theorem chose."""
    total, interval, ratio = row["total_steps"], row["interval"], row["cost_ratio"]
    if policy.get("constraints") == "after":
        return "constraint: checked after the run only"
    last = "an unknown number of steps" if total is None else f"{total} steps"
    along = checked_along(interval, total)
    when = f"at {checked_when(policy)}" if along else "once, at the end"
    text = f"constraint: due {when} of {last}"
    if along and has_rungs(policy):
        text = "constraint: due at every rung and at the last step"
    if along and is_spaced(policy):
        text = f"constraint: due at step {interval}, at its last, and in between {_between(policy)}"
    elif along and interval != 1:
        text = f"constraint: due from step {interval} on, at every step of {last}"
    if not along and policy.get("defer"):
        return f"{text}, because many checks had come out valid when it started"
    if ratio is None or total is None or policy.get("interval") != "adaptive":
        return text
    threshold = interval_threshold(policy["truncation"], total)
    if interval == 1 and ratio >= threshold:
        return f"{text}; its last step was not known yet when that was chosen"
    return (
        f"{text}, because a check cost {ratio:.3g} times an iteration when the trial started and "
        f"every step is cheaper below {threshold:.3g} (Theorem 1)"
    )


def checked_along(interval: int | None, total_steps: int | None) -> bool:
    """Whether a trial with this interval is checked along the way, and not once at its end.

    >>> [checked_along(interval, 8) for interval in (1, 3, 8, None)], checked_along(1, 1)
    ([True, True, False, False], True)
    """
    if interval is None or interval == 1 or total_steps is None:
        return interval is not None
    return interval < total_steps


def has_rungs(policy: Mapping[str, Any]) -> bool:
    """Whether a policy looks at trials at some steps only, its rungs, a factor apart.

    >>> has_rungs({"name": "ASHA", "reduction_factor": 4}), has_rungs({"name": "ACE"})
    (True, False)
    """
    return "reduction_factor" in policy


def is_spaced(policy: Mapping[str, Any]) -> bool:
    """Whether a policy lets some steps pass between two checks of a trial.

    >>> is_spaced({"name": "ACE2", "spacing": 1.0}), is_spaced({"name": "ACE2", "spacing": 0.0})
    (True, False)
    """
    return bool(policy.get("spacing", 0) > 0 or policy.get("growth", 1) > 1)


def _between(policy: Mapping[str, Any]) -> str:
    if "growth" in policy:
        return f"after a gap that grows {policy['growth']:g}-fold with each violation in a row"
    times = "" if policy["spacing"] == 1 else f"{policy['spacing']:g} times "
    return f"when it has trained for {times}as long as its last check took"


def checked_when(policy: Mapping[str, Any]) -> str:
    """When a trial is due that is checked along the way, in two words."""
    if is_spaced(policy):
        return "spaced steps"
    return "every rung" if has_rungs(policy) else "every step"


def why_unchecked(row: Row, policy: Mapping[str, Any], unchecked: bool) -> str | None:
    """A word on unchecked reports of a trial that was to be checked along the way."""
    spaced = is_spaced(policy)
    along = checked_along(row["interval"], row["total_steps"])
    late = row["interval"] != 1  # the first check is not due at the first step
    if not along or not (spaced or late or policy.get("gate")) or not unchecked:
        return None
    lies = "it lies between two rungs, or " if has_rungs(policy) else ""
    if spaced:
        lies = "it lies between two checks, or "
    if late:
        lies = f"it lies before the first check, or {lies}"
    return f"unchecked: {lies}the checkpoint could not beat the best feasible one known then"


def why_not_measured(checks: Iterable[Row], goals: Goals) -> str | None:
    """A word on constraints that checks have left out, if any has."""
    measured = Counter(check["seq"] for check in checks)
    if all(times == len(goals.constraints) for times in measured.values()):
        return None
    return (
        f"{_NOT_MEASURED}: another limit was broken already; counts as a further violation of 1 "
        "where reports are ranked"
    )


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


def report_cells(report: Row, checked: Mapping[int, str], answer: int | None = None) -> list[str]:
    """A report as a row of a table; the one at the step of the ``answer`` has a star."""
    objective = report["objective"]
    words = checked.get(report["seq"], "")
    if words and report["checked_step"] != report["step"]:
        words += f" (step {report['checked_step']})"
    violation, rank = report["violation"], report["rank"]
    star = "* " if is_answer(report, answer) else ""
    return [
        f"{star}{report['step']}",
        "nan" if objective is None else number(objective),
        report["stratum"],
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
        checked = report["checked_step"] == answer and report["stratum"] == "valid"
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


def thinned(length: int, keep: Sequence[int], most: int) -> list[int]:
    """Places of at most about ``most`` rows of ``length``, spread evenly, with those to keep.

    >>> thinned(3, [], most=5), thinned(100, [42], most=5)
    ([0, 1, 2], [0, 25, 42, 50, 74, 99])
    """
    if length <= most:
        return list(range(length))
    spread = {round(place * (length - 1) / (most - 1)) for place in range(most)}
    return sorted(spread | set(keep))
