"""What travels in a Ray result: keys for people and searchers, and the report itself.

``ace/report`` holds everything the scheduler needs and ``ace/best`` the trial's best checkpoint, as
JSON: Ray's loggers, result files and restores take strings as they are, while each further number
costs the driver a seventh of a millisecond in its TensorBoard files.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from acetune.core.goals import Estimate, FailedCheck
from acetune.link import Report

REPORT = "ace/report"
STRATUM = "ace/stratum"
BEST_VALUE = "ace/best_value"  # of the checkpoint that a searcher should know of
VIOLATION = "ace/violation"  # of that checkpoint, 0 where it is valid
BEST = "ace/best"  # and the rest of it


class Best(NamedTuple):
    """The checkpoint of a trial that searchers and people are told of."""

    step: int
    loss: float
    feasible: bool  # it was checked, and every limit holds
    model: str  # the folder of its model in the trial's storage, or nothing
    constraints: dict[str, float]  # NaN where nothing was measured


def encode_best(best: Best) -> str:
    """The value of ``ace/best``."""
    return json.dumps(best, separators=(",", ":"))


def decode_best(text: str) -> Best:
    """What :func:`encode_best` was given."""
    return Best(*json.loads(text))


class Attempt(NamedTuple):
    """One run of a trainable: what the driver must know to open it."""

    token: str  # another one each time the trainable starts
    total_steps: int | None
    interval: int | None
    cost_ratio: float | None
    startup_s: float
    resumed_from: int


class Message(NamedTuple):
    """Reports of an attempt: of a step, of its end, or both."""

    attempt: Attempt
    report: Report | None
    end: Report | None = None
    notice: str = ""


def encode(message: Message) -> str:
    """A message as JSON."""
    return json.dumps(
        {
            "attempt": list(message.attempt),
            "report": _report_out(message.report),
            "end": _report_out(message.end),
            "notice": message.notice,
        },
        separators=(",", ":"),
    )


def decode(text: str) -> Message:
    """The message that :func:`encode` was given."""
    found = json.loads(text)
    attempt = Attempt(*found["attempt"])
    report, end = _report_in(found["report"]), _report_in(found["end"])
    return Message(attempt, report, end, found["notice"])


def _report_out(report: Report | None) -> list[Any] | None:
    if report is None:
        return None
    fields: list[Any] = list(report)
    if report.measured is not None:
        fields[3] = {
            name: [found.error] if isinstance(found, FailedCheck) else [found.value, found.stderr]
            for name, found in report.measured.items()
        }
    return fields


def _report_in(fields: list[Any] | None) -> Report | None:
    if fields is None:
        return None
    measured: dict[str, Estimate | FailedCheck] | None = None
    if fields[3] is not None:
        measured = {
            name: FailedCheck(found[0]) if len(found) == 1 else Estimate(*found)
            for name, found in fields[3].items()
        }
    return Report(*fields)._replace(measured=measured)


def readable(measured: Mapping[str, Estimate | FailedCheck] | None, name: str) -> float:
    """A constraint's value for people: NaN where it was not measured."""
    found = (measured or {}).get(name)
    return found.value if isinstance(found, Estimate) else math.nan
