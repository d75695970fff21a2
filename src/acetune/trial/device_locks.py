"""Kernel locks on files, two per device of this machine: turnstile and room (see exclusive.py)."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import stat
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from acetune.core.errors import StudyError

logger = logging.getLogger("acetune")

_PATIENCE_S = 60.0  # after which a wait is worth a word
_POLL_S = 0.02  # by those who may give up; others wait in the kernel, and disturb nobody
_descriptors: set[int] = set()  # of all locks that are open in this process


class GivenUpError(Exception):
    """A wait for a lock was given up: who waited has something else to do."""


class DeviceLocks:
    """A device of this machine: its turnstile and its room, as one trial or measurement holds them.

    Locks on opened files belong to the opening, not to the process: two threads exclude each other
    like two processes. A forked child would share them, and keep them when its parent is killed; so
    it closes them as its first act.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._turnstile = _Lock(f"{name}.turnstile")
        self._room = _Lock(f"{name}.room")

    def enter(self, give_up: Callable[[], bool] | None = None) -> None:
        """Into the room, with others; :class:`GivenUpError` as soon as ``give_up`` says so."""
        self._turnstile.take(fcntl.LOCK_SH, give_up)
        self._turnstile.give_back()
        self._room.take(fcntl.LOCK_SH, give_up)

    def empty(self, give_up: Callable[[], bool] | None = None) -> None:
        """Into the room, when everybody has left; nobody comes in.

        Whoever gives up has to ``leave``, for what is held by then.
        """
        self._turnstile.take(fcntl.LOCK_EX, give_up)
        self._room.take(fcntl.LOCK_EX, give_up)

    def leave(self) -> None:
        """Out of the room."""
        self._room.give_back()
        self._turnstile.give_back()


class _Lock:
    """A lock on a file, opened when it is first taken and closed with this object."""

    def __init__(self, name: str) -> None:
        self._path = lock_folder() / "".join(c if c.isalnum() or c in ".-" else "_" for c in name)
        self._descriptor, self._owner = -1, 0

    def take(self, how: int, give_up: Callable[[], bool] | None = None) -> None:
        if self._owner != os.getpid():
            self._open()
        if self._take_if_free(how):
            return
        word = threading.Timer(_PATIENCE_S, self._say_waiting)
        word.daemon = True
        word.start()
        try:
            if give_up is None:
                fcntl.flock(self._descriptor, how)
                return
            while not self._take_if_free(how):
                if give_up():
                    raise GivenUpError
                time.sleep(_POLL_S)
        finally:
            word.cancel()

    def _take_if_free(self, how: int) -> bool:
        try:
            fcntl.flock(self._descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def give_back(self) -> None:
        if self._owner == os.getpid():
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _open(self) -> None:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _require_own(self._path.parent)
            # not inherited by programs that are started
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.utime(self._descriptor)  # in use: not for those who tidy up there
        except OSError as error:
            raise StudyError(
                f"cannot lock {self._path}: {error.strerror}; set TMPDIR to a folder that you may "
                "write to, the same for all that train on this machine"
            ) from None
        self._owner = os.getpid()
        _descriptors.add(self._descriptor)

    def _say_waiting(self) -> None:
        logger.warning(
            "has waited %g s for trials or measurements on this machine (%s); a trial that was "
            "never ended, with finish() or close(), keeps others waiting until its process ends",
            _PATIENCE_S,
            self._path,
        )

    def __del__(self) -> None:
        if self._owner == os.getpid():
            _descriptors.discard(self._descriptor)
            with contextlib.suppress(OSError):
                os.close(self._descriptor)


def lock_folder() -> Path:
    """Where the locks of this machine are, for all processes of this user."""
    return Path(tempfile.gettempdir()) / f"acetune-locks-{os.getuid()}"


def _require_own(folder: Path) -> None:
    """Others could foresee the folder's name: what they have put there is not written to."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        what = "is a link" if stat.S_ISLNK(found.st_mode) else "belongs to another user"
        raise StudyError(
            f"cannot lock anything in {folder}: it {what}; remove it, or set TMPDIR to a folder of "
            "your own, the same for all that train on this machine"
        )


def _close_in_child() -> None:
    for descriptor in _descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _descriptors.clear()


os.register_at_fork(after_in_child=_close_in_child)
