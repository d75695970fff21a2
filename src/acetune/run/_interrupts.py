"""Whether the user wants a study to end."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator


class Interrupts:
    """Counts how often the user has asked the study to end."""

    def __init__(self) -> None:
        self.count = 0

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        """Ctrl-C once ends the study cleanly, twice at once. Only possible in the main thread."""

        def interrupt(_signal: int, _frame: object) -> None:
            self.count += 1
            if self.count > 2:  # the driver does not come round to looking: get it out
                raise KeyboardInterrupt

        before = {}
        # in another thread the application has its own way to be interrupted
        with contextlib.suppress(ValueError):
            for number in (signal.SIGINT, signal.SIGTERM):
                before[number] = signal.signal(number, interrupt)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
