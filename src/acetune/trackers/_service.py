"""What a tracker is told of a study, and the protocol that each one speaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

Fact: TypeAlias = str | int | float | bool | None


class Attempt(NamedTuple):
    """A run for an attempt at a trial; most trials have one."""

    trial: int
    number: int = 1

    @property
    def name(self) -> str:
        """What its run is called.

        >>> Attempt(3).name, Attempt(3, 2).name
        ('trial-00003', 'trial-00003-attempt-2')
        """
        return f"trial-{self.trial:05d}" + (f"-attempt-{self.number}" if self.number > 1 else "")


@dataclass(frozen=True, slots=True)
class Begun:
    """A study as it begins, or goes on."""

    key: str  # the same in all its sessions
    name: str
    params: Mapping[str, Fact]  # the same in all its sessions too
    facts: Mapping[str, Fact]


@dataclass(frozen=True, slots=True)
class Ended:
    """A study as it ended."""

    state: str  # finished, interrupted or failed
    status: str  # of the answer: certified, holds, unconfirmed; broken or none without one
    answer: Attempt | None  # the run that holds the answer
    facts: Mapping[str, Fact]
    values: Mapping[str, float]  # of the answer
    summary: str
    report: Path | None = None  # the page, as long as the tracker is waited for


@dataclass(frozen=True, slots=True)
class Values:
    """Numbers of a step."""

    step: int
    values: Mapping[str, float]
    time: float = field(compare=False)  # seconds since the epoch


class Service(Protocol):
    """A tracker. Called in one thread, in the order of the study; any error ends it.

    ``run`` is an attempt at a trial, or None for the study as a whole.
    """

    name: str

    def begin(self, study: Begun) -> None:
        """A session begins."""

    def begin_trial(self, run: Attempt, params: Mapping[str, Any]) -> None:
        """An attempt begins."""

    def log(self, run: Attempt | None, values: Values) -> None:
        """What was measured at a step."""

    def end_trial(self, run: Attempt, state: str, facts: Mapping[str, Fact]) -> None:
        """An attempt ended: finished, stopped, failed or interrupted."""

    def end(self, ended: Ended) -> None:
        """The session ended."""

    def flush(self) -> None:
        """Nothing else waits to be told: send what was held back to be sent together."""
