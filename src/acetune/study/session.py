"""What a driver holds of a study that it runs: its trials, and how long it has run and searched."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acetune.core.reason import Reason
from acetune.policies.stopper import StopperTrial
from acetune.study.store import Store

_LOOK_EVERY_S = 0.5  # at where the study file is


@dataclass(slots=True)
class StudyTrial:
    """A trial of a study, its latest attempt."""

    number: int
    attempt: int
    params: dict[str, Any]
    resumed_from: int = 0
    checkpoint: Path | None = None
    failures: int = 0
    handle: StopperTrial | None = None  # None until training begins

    @property
    def running(self) -> bool:
        """Whether the attempt may still report."""
        return self.handle is not None and self.handle.state == "running"

    @property
    def finished(self) -> bool:
        """Whether training came to its end, and nobody stopped it."""
        return self.handle is not None and self.handle.state == "finished"

    @property
    def begun(self) -> StopperTrial:
        """The attempt as the stopper knows it, once training has begun."""
        assert self.handle is not None, "a trial begins before it reports"
        return self.handle


class Session:
    """Keeps the account of time in the study file, so that the budget holds over resumes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._earlier_s = store.searched()
        self._began = time.monotonic()
        self._search_ended: float | None = None
        self._number = 0
        self._last_beat = self._last_look = 0.0

    def begin(self) -> None:
        """Enter the session in the study file."""
        with self._store.transaction():
            self._number = self._store.add_session(time.time(), socket.gethostname())

    def elapsed(self) -> float:
        """Seconds this study has searched, earlier sessions included."""
        return self._earlier_s + self._search_s()

    def _search_s(self) -> float:
        end = time.monotonic() if self._search_ended is None else self._search_ended
        return end - self._began

    def end_search(self) -> None:
        """What follows does not count against the budget."""
        self._search_ended = self._search_ended or time.monotonic()

    def end(self, why: Reason) -> None:
        """The search has ended in good order."""
        self.end_search()
        with self._store.transaction():
            self._store.end_session(self._number, why)

    def beat(self, at_once: bool = False) -> None:
        """Note how long the session has run, once a second; an error if its file is gone."""
        moment = time.monotonic()
        if at_once or moment - self._last_look > _LOOK_EVERY_S:
            self._last_look = moment
            self._store.require_in_place()
        if self._number and (at_once or moment - self._last_beat > 1.0):
            self._last_beat = moment
            with self._store.transaction():
                self._store.beat(self._number, moment - self._began, self._search_s())
