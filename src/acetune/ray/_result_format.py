"""What travels in a Ray result: numbers for people and searchers, and the report itself.

``ace/report`` holds everything else as JSON: Ray's loggers, result files and restores take a string
as it is, while each further number costs the driver a seventh of a millisecond in its TensorBoard
files.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from acetune.core.goals import Estimate, FailedCheck
from acetune.core.report_values import from_json, to_json
from acetune.trial.link import Report

REPORT = "ace/report"
BEST_VALUE = "ace/best_value"  # of the checkpoint that a searcher should know of
VIOLATION = "ace/violation"  # of that checkpoint: 0 where it is valid, NaN if it was not checked


class Model(NamedTuple):
    """A model that was kept."""

    folder: str = ""  # in the trial's storage, or nothing
    size: int = 0
    digest: str = ""  # checksum of what was written


class Best(NamedTuple):
    """The checkpoint of a trial that searchers and people are told of."""

    step: int
    loss: float
    feasible: bool  # it was checked, and every limit holds
    model: str  # the folder of its model in the trial's storage, or nothing
    constraints: dict[str, Estimate]  # those that were measured
    size: int = 0  # of the model
    digest: str = ""  # its checksum
    violation: float = 0.0  # that searchers are told: also of what was never checked


class Attempt(NamedTuple):
    """One run of a trainable: what the driver must know to open it."""

    token: str  # another one each time the trainable starts
    total_steps: int | None
    interval: int | None
    cost_ratio: float | None
    startup_s: float
    resumed_from: int
    hardware: str = ""  # where a check depends on it


class Message(NamedTuple):
    """Reports of an attempt: of a step, of its end, or both."""

    attempt: Attempt
    report: Report | None
    end: Report | None = None
    best: Best | None = None  # of this attempt, so far
    notice: str = ""
    closed: bool = False  # the trial has ended by itself, and nothing more is due
    overdue: str = ""  # the constraint whose check outran its timeout: then these are last words


def encode(message: Message) -> str:
    """A message as JSON."""
    return json.dumps(
        {
            "attempt": list(message.attempt),
            "report": _report_out(message.report),
            "end": _report_out(message.end),
            "best": _best_out(message.best),
            "notice": message.notice,
            "closed": message.closed,
            **({"overdue": message.overdue} if message.overdue else {}),
        },
        separators=(",", ":"),
    )


def decode(text: str) -> Message:
    """The message that :func:`encode` was given."""
    found = json.loads(text)
    attempt = Attempt(*found["attempt"])
    report, end = _report_in(found["report"]), _report_in(found["end"])
    best = _best_in(found["best"])
    overdue = found.get("overdue", "")
    return Message(attempt, report, end, best, found["notice"], found["closed"], overdue)


def best_in(result: Mapping[str, Any]) -> Best | None:
    """The best checkpoint that a result tells of, if it is one of ours."""
    return decode(result[REPORT]).best if REPORT in result else None


def _best_out(best: Best | None) -> list[Any] | None:
    if best is None:
        return None
    fields: list[Any] = list(best)
    fields[4] = {name: to_json(found) for name, found in best.constraints.items()}
    return fields


def _best_in(fields: list[Any] | None) -> Best | None:
    if fields is None:
        return None
    best = Best(*fields)
    read = {n: from_json(v) for n, v in best.constraints.items() if isinstance(v, list)}
    return best._replace(constraints={n: v for n, v in read.items() if isinstance(v, Estimate)})


def _report_out(report: Report | None) -> list[Any] | None:
    if report is None:
        return None
    fields: list[Any] = list(report)
    if report.measured is not None:
        fields[3] = {name: to_json(found) for name, found in report.measured.items()}
    return fields


def _report_in(fields: list[Any] | None) -> Report | None:
    if fields is None:
        return None
    measured: dict[str, Estimate | FailedCheck] | None = None
    if fields[3] is not None:
        measured = {name: from_json(found) for name, found in fields[3].items()}
    return Report(*fields)._replace(measured=measured)


def readable(measured: Mapping[str, Estimate | FailedCheck] | None, name: str) -> float:
    """A constraint's value for people: NaN where it was not measured."""
    found = (measured or {}).get(name)
    return found.value if isinstance(found, Estimate) else math.nan
