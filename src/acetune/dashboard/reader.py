"""The study file as the dashboard reads it, in one thread: opened, followed, lost, found again."""

from __future__ import annotations

import gzip
import json
import logging
import math
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from acetune.core.errors import AcetuneError, StudyError
from acetune.report.content import content, trial_detail
from acetune.report.figures import FIGURES, page_figures
from acetune.report.html import render
from acetune.report.sections import sections
from acetune.study.ahead import ReadAhead
from acetune.study.view import StudyView

logger = logging.getLogger("acetune")

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


class Reader:
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


def to_json(found: Mapping[str, Any]) -> bytes:
    """JSON as browsers read it: no NaN, and as short as it can be."""
    return json.dumps(found, separators=(",", ":"), allow_nan=False).encode()
