"""One watcher for all who look: it reads the study file while somebody listens."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from acetune.dashboard.reader import Edition, Reader
from acetune.study.ahead import ReadAhead

T = TypeVar("T")

POLL_S = 0.3  # between two looks at the study file
_HEARTBEAT_S = 15.0  # between two signs of life, for proxies that end silent connections


class Watcher:
    """Shares the editions of a study among all clients; lives in one event loop.

    Reading and computing are done in one thread beside the loop, which goes on answering. The
    file is looked at while somebody listens to changes, and when somebody asks for the content.
    """

    def __init__(self, path: Path, ahead: ReadAhead | None = None) -> None:
        self._reader = Reader(path, ahead)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="acetune-dashboard")
        self._edition: Edition | None = None
        self._updating: asyncio.Task[Edition] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._listeners = 0
        self._news = asyncio.Event()
        self.closed = False

    async def edition(self, *, whole: bool = True) -> Edition:
        """What there is to show now; unless ``whole``, at first with one figure only."""
        known = self._edition
        if known is None or self._watching is None:
            known = await self._update(whole=whole)
        if whole and not known.whole:  # it was made for somebody in a hurry
            known = await self._update()
        return known

    async def ready(self, seconds: float) -> bool:
        """Whether there is an edition, or will be one in so many seconds."""
        if self._edition is None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._update(whole=False), seconds)
        return self._edition is not None

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Run something that takes a while, beside the loop."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def trial(self, number: int) -> bytes | None:
        """The details of a trial as JSON, or None."""
        await self.edition()
        return await self.in_thread(lambda: self._reader.trial(number))

    async def editions(self) -> AsyncIterator[Edition | None]:
        """Every edition from now on, this one first; None as a sign of life in between."""
        with self._listening():
            seen: Edition | None = None
            while not self.closed:
                news = self._news
                if self._edition is not None and self._edition is not seen:
                    seen = self._edition
                    yield seen
                    continue
                try:
                    await asyncio.wait_for(news.wait(), _HEARTBEAT_S)
                except TimeoutError:
                    yield None

    def close(self) -> None:
        """End all listening, so that the server can end."""
        self.closed = True
        self._tell()
        if self._watching is not None:
            self._watching.cancel()
        self._thread.submit(self._reader.close)
        self._thread.shutdown(wait=False)

    # -- looking at the file ---------------------------------------------------------------------

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        self._listeners += 1
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            self._listeners -= 1

    async def _watch(self) -> None:
        try:
            while self._listeners:
                began = time.monotonic()
                await self._update(whole=False)
                if self._listeners and self._reader.figures_due:
                    await self._update()
                # a large study that changes all the time takes half of one core, not all of it
                await asyncio.sleep(max(POLL_S, time.monotonic() - began))
        finally:
            self._watching = None

    async def _update(self, *, whole: bool = True) -> Edition:
        """Look at the file; those who ask while that is done share the answer."""
        if self._updating is None:
            self._updating = asyncio.create_task(self._read(whole))
        # shielded: the one who asked may leave, the others still wait
        return await asyncio.shield(self._updating)

    async def _read(self, whole: bool) -> Edition:
        try:
            edition = await self.in_thread(lambda: self._reader.update(whole=whole))
        finally:
            self._updating = None
        if edition is not self._edition:
            self._edition = edition
            self._tell()
        return edition

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
