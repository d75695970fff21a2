"""Time in which this process ran: deadlines are kept by it.

Ctrl-Z, a laptop that sleeps and a container that is paused stop processes and not the clock. A
worker that was stopped as long as its driver has not been silent for all that time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_LOOK_S = 0.25
_STOPPED_S = 1.0  # who has not looked at the clock for longer did not run


class AwakeClock:
    """A clock that stands still while this process does; call it for the seconds it has counted.

    A thread looks at it all the time, so that long waits and computations count.

    >>> times = iter([0.0, 0.5, 900.0, 900.25])
    >>> clock = AwakeClock(lambda: next(times), watched=False)
    >>> clock(), clock(), clock()
    (0.5, 1.5, 1.75)
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, watched: bool = True
    ) -> None:
        self._clock, self._counted, self._looked = clock, 0.0, clock()
        self._looking, self._closed = threading.Lock(), threading.Event()
        if watched:
            threading.Thread(target=self._watch, name="acetune-clock", daemon=True).start()

    def __call__(self) -> float:
        """Seconds since the clock was made in which this process ran."""
        with self._looking:
            now = self._clock()
            self._counted += min(now - self._looked, _STOPPED_S)
            self._looked = now
            return self._counted

    def close(self) -> None:
        """Nobody needs it any more."""
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(_LOOK_S):
            self()
