"""Measurements as plain data, for files and messages, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from acetune.core.goals import Estimate, FailedCheck, note_of, with_note

Columns = tuple[float | None, float | None, str | None]


def to_columns(found: Estimate | FailedCheck) -> Columns:
    """Value, standard error and error of a measurement, as the study file holds them.

    >>> to_columns(Estimate(0.24, 0.02)), to_columns(FailedCheck("no data"))
    ((0.24, 0.02, None), (None, None, 'no data'))
    """
    if isinstance(found, FailedCheck):
        return None, None, found.error
    return found.value, found.stderr, None


def from_columns(
    value: float | None, stderr: float | None, error: str | None
) -> Estimate | FailedCheck:
    """The measurement of which :func:`to_columns` gave these."""
    if value is None:
        return FailedCheck("unknown" if error is None else error)
    return Estimate(value, stderr or 0.0)


def to_json(found: Estimate | FailedCheck) -> list[Any] | dict[str, str]:
    """A measurement as JSON can hold it, its note last if it has one.

    >>> to_json(Estimate(0.24, 0.02)), to_json(FailedCheck("no data"))
    ([0.24, 0.02], {'error': 'no data'})
    """
    if isinstance(found, FailedCheck):
        return found._asdict()
    note = note_of(found)
    return list(found) if note is None else [*found, dict(note)]


def to_named(found: Estimate) -> dict[str, float]:
    """A measurement in the JSON that people read.

    >>> to_named(Estimate(0.24, 0.02))
    {'value': 0.24, 'stderr': 0.02}
    """
    return {"value": found.value, "stderr": found.stderr}


def from_json(found: Sequence[Any] | Mapping[str, Any]) -> Estimate | FailedCheck:
    """The measurement of which :func:`to_json` gave this; a failed check may be a list of one."""
    if isinstance(found, Mapping):
        return FailedCheck(found["error"])
    if len(found) == 1:
        return FailedCheck(*found)
    return with_note(Estimate(*found[:2]), found[2] if len(found) > 2 else None)
