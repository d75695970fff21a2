"""A thread that tells a tracker what happens, so that a slow server holds up no trial."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from acetune.core.errors import AcetuneError
from acetune.trackers._service import Service

_LOOK_EVERY_S = 0.1  # while the end is waited for: so that Ctrl-C is heard
_LONGEST = 300  # characters of an error of the tracker's


class TrackerError(AcetuneError):
    """A tracker cannot be reached, or does not take what it is told."""


class Sender:
    """Tells a service in the order of :meth:`send`, in a thread of its own.

    After an error nothing more is sent: :meth:`require_well` raises it, in the caller's thread.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._waiting: queue.SimpleQueue[Callable[[Service], None] | None] = queue.SimpleQueue()
        self._error: Exception | None = None
        self._last_sent = time.monotonic()
        self._thread = threading.Thread(
            target=self._run, name=f"acetune-{service.name}", daemon=True
        )
        self._thread.start()

    def send(self, what: Callable[[Service], None]) -> None:
        """Tell the service soon; returns at once."""
        if self._error is None:
            self._waiting.put(what)

    def require_well(self) -> None:
        """Raise what the service has answered, if it was an error."""
        if self._error is not None:
            text = " ".join(str(self._error).split())
            if len(text) > _LONGEST:
                text = f"{text[:_LONGEST]}..."
            raise TrackerError(
                f"{self._service.name} could not be told ({type(self._error).__name__}: {text}); "
                "the study goes on without it, and its file has everything"
            ) from self._error

    def close(self, wait_s: float) -> None:
        """Wait until all is sent; raises where it was not, or nothing went on for ``wait_s``."""
        self._waiting.put(None)
        self._last_sent = time.monotonic()
        while self._thread.is_alive():
            self._thread.join(_LOOK_EVERY_S)
            if time.monotonic() - self._last_sent > wait_s and self._thread.is_alive():
                raise TrackerError(
                    f"{self._service.name} has not answered for {wait_s:g} s, and was not told "
                    "everything; wait_s= waits longer, and the study's file has everything"
                )
        self.require_well()

    def _run(self) -> None:
        try:
            while (what := self._waiting.get()) is not None:
                what(self._service)
                self._last_sent = time.monotonic()
                if self._waiting.empty():  # until then what can be sent together is
                    self._service.flush()
            self._service.flush()
        except Exception as error:
            self._error = error
