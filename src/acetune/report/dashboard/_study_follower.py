"""The study file as the dashboard reads it: in one thread, and for all who look.

:class:`StudyFollower` opens, follows, loses and finds it again; :class:`Watcher` shares what it has
read.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import logging
import math
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from acetune.core.errors import AcetuneError, StudyError
from acetune.report._content import content
from acetune.report._sections import sections
from acetune.report._trials import trial_detail
from acetune.report.figures import FIGURES, page_figures
from acetune.report.html import render
from acetune.study.integrity import understanding
from acetune.study.read_ahead import ReadAhead
from acetune.study.reader import StudyView

logger = logging.getLogger("acetune")
T = TypeVar("T")

POLL_S = 0.3  # between two looks at the study file
_HEARTBEAT_S = 15.0  # between two signs of life, for proxies that end silent connections
_CHEAP_S = 0.1  # figures that take less are made with every edition
_FIRST_S = 1.5  # by which the first is before the others: until then plotly.js needs the machine


@dataclass(frozen=True)
class Edition:
    """What there is to show at one moment, the same for all who look.

    What is made of it is made when it is asked for first, in the reader's thread.
    """

    number: str  # differs from that of every other edition, those of earlier servers too
    seq: int | None = None  # of the last report; None where there is nothing to show
    problem: str | None = None  # why not
    whole: bool = True  # whether all figures are there, not the first alone
    content: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def body(self) -> bytes:
        """The content as JSON."""
        return to_json({**self.content, "edition": self.number})

    @cached_property
    def packed(self) -> bytes:
        """The same, compressed: lightly, as most readers are on this machine."""
        return gzip.compress(self.body, compresslevel=1, mtime=0)

    @cached_property
    def page(self) -> bytes:
        """The whole page as HTML."""
        return render({**self.content, "edition": self.number}, live=True).encode()

    @cached_property
    def packed_page(self) -> bytes:
        """The same, compressed."""
        return gzip.compress(self.page, compresslevel=1, mtime=0)


class StudyFollower:
    """Follows one study file. All its methods are called in one thread, one after the other.

    Numbers are new in every edition. Figures that take long to make may be those of an edition
    before, until they are due again.
    """

    def __init__(
        self,
        path: Path,
        ahead: ReadAhead | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path, self._ahead, self._clock = path, ahead, clock
        self._view: StudyView | None = None
        self._run, self._count = secrets.token_hex(4), 0
        self._edition: Edition | None = None
        self._file: tuple[int, int] | None = None
        self._figures: list[dict[str, Any]] = []
        self._figures_cost_s, self._figures_due = math.inf, 0.0
        self._figures_stale = False

    def update(self, *, whole: bool = True) -> Edition:
        """Look at the file; the edition before, if nothing has changed since.

        ``whole`` also brings the figures up to date, which otherwise are if they are cheap. Where
        there are none yet, the first is made in any case.
        """
        try:
            changed = self._look()
            assert self._view is not None  # _look has opened it, or has raised
            known = self._edition is not None and self._edition.problem is None
            whole = whole or self._figures_cost_s < _CHEAP_S
            if changed or not known:
                self._figures_stale = True
            if self._figures_stale and whole:
                self._make_figures(self._view)
                known = False
            elif not self._figures:
                self._figures = page_figures(self._view, first=True)
                self._figures_due = self._clock() + _FIRST_S
            if changed or not known:
                self._edition = self._new(content=self._content(self._view))
        except AcetuneError as error:
            self._lose(str(error))
        except Exception as error:
            # whatever it is: the server lives on, and says what is wrong
            logger.exception("the dashboard cannot show %s", self._path)
            self._lose(f"{self._path} cannot be shown ({type(error).__name__}: {error})")
        assert self._edition is not None
        return self._edition

    @property
    def figures_due(self) -> bool:
        """Whether it is time to make the figures again."""
        return self._figures_stale and self._clock() >= self._figures_due

    def _make_figures(self, view: StudyView) -> None:
        began = self._clock()
        self._figures = page_figures(view)
        made = self._clock()
        self._figures_cost_s = made - began
        self._figures_due = made + 3 * self._figures_cost_s  # they may take a quarter of one core
        self._figures_stale = False

    def _content(self, view: StudyView) -> dict[str, Any]:
        found = content(view, figures=False)
        found["figures"] = self._figures
        found["parts"] = sections(found)
        return found

    def trial(self, number: int) -> bytes | None:
        """The details of a trial as JSON; None if there is no such trial."""
        if self._view is None:
            return None
        try:
            with understanding(self._path):
                return to_json(trial_detail(self._view, number))
        except StudyError:
            return None

    def close(self) -> None:
        """Let go of the study."""
        if self._view is not None:
            self._view.close()
            self._view = None

    def _look(self) -> bool:
        """Open the file, open it again if it is another one, or read what is new in it."""
        file = self._identity()
        if self._view is not None and file == self._file:
            return self._view.refresh()
        self.close()
        ahead, self._ahead = self._ahead, None  # good for the first view only
        self._view, self._file = StudyView(self._path, ahead), file
        return True

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None  # StudyView says what is wrong with it
        return found.st_dev, found.st_ino

    def _lose(self, problem: str) -> None:
        self.close()
        self._figures = []
        if self._edition is None or self._edition.problem != problem:
            logger.warning("%s; the page waits for it", problem)
            self._edition = self._new(problem=problem)

    def _new(self, content: Mapping[str, Any] | None = None, problem: str | None = None) -> Edition:
        self._count += 1
        number = f"{self._run}-{self._count}"
        if content is None:
            return Edition(number, problem=problem)
        whole = len(self._figures) == len(FIGURES)
        return Edition(number, content["study"]["seq"], None, whole, content)


class Watcher:
    """Shares the editions of a study among all clients; lives in one event loop.

    Reading and computing are done in one thread beside the loop, which goes on answering. The
    file is looked at while somebody listens to changes, and when somebody asks for the content.
    """

    def __init__(self, path: Path, ahead: ReadAhead | None = None) -> None:
        self._follower = StudyFollower(path, ahead)
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
        return await self.in_thread(lambda: self._follower.trial(number))

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
        self._thread.submit(self._follower.close)
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
                if self._listeners and self._follower.figures_due:
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
            edition = await self.in_thread(lambda: self._follower.update(whole=whole))
        finally:
            self._updating = None
        if edition is not self._edition:
            self._edition = edition
            self._tell()
        return edition

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


def to_json(found: Mapping[str, Any]) -> bytes:
    """JSON as browsers read it: no NaN, and as short as it can be."""
    return json.dumps(found, separators=(",", ":"), allow_nan=False).encode()
