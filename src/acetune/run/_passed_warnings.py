"""Warnings about goals, passed on from a worker: its log alone would hide them."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import TextIO

from acetune.core.errors import GoalWarning


@contextlib.contextmanager
def passing_on(tell: Callable[[str], None]) -> Iterator[None]:
    """Within this, ``tell`` is called with every :class:`GoalWarning`, which is shown as well.

    Not with those of other threads or of forked processes: they may not use the worker's pipe.
    """
    show, here = warnings.showwarning, (os.getpid(), threading.get_ident())

    def show_and_tell(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        show(message, category, filename, lineno, file, line)
        if issubclass(category, GoalWarning) and here == (os.getpid(), threading.get_ident()):
            tell(str(message))

    warnings.showwarning = show_and_tell
    try:
        yield
    finally:
        warnings.showwarning = show
