"""A process that ends another one, with all that it has started, when nobody is left to do so.

A new process splits in two before it imports anything else. One half goes on with that. The other
half, its guardian, only waits, for one of three things: that the process ends, that the process
that made both ends, or that this one asks for the end (SIGTERM). Then it ends whatever is left of
the process's descendants, and ends in the way in which the process did.

So code that keeps Python's lock, and hears of nothing, does not outlive its driver. On Linux the
guardian is their subreaper: it finds descendants also in a session of their own, and when they were
left by those that had started them. And the kernel ends the process should its guardian be killed,
and wakes a guardian that is stopped (SIGSTOP) when what made it has ended. Such signals follow the
thread that made a process: a guardian has only one, and being woken early does no harm. Elsewhere
all that is ended is the process's own session, and a guardian that is stopped stays so.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import NoReturn

_PARENT_POLL_S = 0.5  # where the system does not tell the end of another process
_ENDING_S = 5.0  # for what was killed to be gone
_WHEN_PARENT_DIES, _DUMPABLE, _SUBREAPER = 1, 4, 36  # options of prctl, in Linux's own numbers


def split(parent: int, own_session: bool, descriptors: Sequence[int]) -> None:
    """Split this process, which has one thread yet; returns in the half that goes on.

    Parameters
    ----------
    parent:
        The process that has made this one.
    own_session:
        Whether the half that goes on is to have a session of its own.
    descriptors:
        Open files of that half, which the guardian closes.
    """
    if not own_session:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the process that asks
    _prctl(_SUBREAPER, 1)
    _prctl(_WHEN_PARENT_DIES, signal.SIGCONT)  # who is stopped cannot see that it has gone
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    guardian = os.getpid()
    child = os.fork()
    if child:
        try:
            _Guardian(parent, child, own_session).serve(descriptors)
        finally:  # never into the code of the other half
            os._exit(1)
    if own_session:
        os.setsid()
    _prctl(_WHEN_PARENT_DIES, signal.SIGKILL)
    if os.getppid() != guardian:  # it ended before that
        os.kill(os.getpid(), signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])


class _Guardian:
    """The half that waits."""

    def __init__(self, parent: int, child: int, own_session: bool) -> None:
        self._parent, self._child, self._own_session = parent, child, own_session
        self._status: int | None = None  # of the child, once it has ended
        self._asked = False
        self._woken, wake = os.pipe()
        for descriptor in (self._woken, wake):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        self._events = self._only_woken()

    def serve(self, descriptors: Sequence[int]) -> NoReturn:
        """Wait for the end, make it complete, and end."""
        for descriptor in descriptors:  # else nobody would notice that the child has closed it
            os.close(descriptor)
        limit_s = None if self._hears_of_parent() else _PARENT_POLL_S
        while self._reap() and self._status is None:
            if self._asked or os.getppid() != self._parent:
                break
            self._wait(limit_s)
        self._end_descendants()
        _end_as(self._status)

    def _hears_of_parent(self) -> bool:
        open_pidfd = getattr(os, "pidfd_open", None)
        if open_pidfd is not None:
            with contextlib.suppress(OSError):
                self._events.register(open_pidfd(self._parent), select.POLLIN)
                return True
        return False

    def _only_woken(self) -> select.poll:
        events = select.poll()
        events.register(self._woken, select.POLLIN)
        return events

    def _wait(self, limit_s: float | None) -> None:
        self._events.poll(None if limit_s is None else limit_s * 1000)
        with contextlib.suppress(BlockingIOError):
            self._asked |= signal.SIGTERM in os.read(self._woken, 4096)

    def _reap(self) -> bool:
        """Take leave of those that have ended; whether any are left."""
        with contextlib.suppress(ChildProcessError):
            while True:
                process, status = os.waitpid(-1, os.WNOHANG)
                if process == self._child:
                    self._status = status
                if not process:
                    return True
        return False

    def _end_descendants(self) -> None:
        if self._own_session:
            _kill(os.killpg, self._child)
        self._events = self._only_woken()
        give_up_at = time.monotonic() + _ENDING_S
        while self._reap() and time.monotonic() < give_up_at:
            # those whose parents end become children of this process, and are found the next time
            if not sum(_kill(os.kill, process) for process in self._children()):
                return  # they belong to other users
            self._wait(_ENDING_S / 10)

    def _children(self) -> list[int]:
        try:
            with open(f"/proc/self/task/{os.getpid()}/children") as file:  # noqa: PTH123
                found = file.read()
        except OSError:  # not on this system
            return [self._child] if self._status is None else []
        return [int(number) for number in found.split()]


def _kill(how: Callable[[int, int], None], process: int) -> bool:
    """Whether it could be done."""
    try:
        how(process, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _end_as(status: int | None) -> NoReturn:
    """End as another process did."""
    code = 1 if status is None else os.waitstatus_to_exitcode(status)
    if code < 0:
        _prctl(_DUMPABLE, 0)  # a core is left once
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(abs(code))


def _prctl(option: int, value: int) -> None:
    """Ask Linux for something; other systems have no such thing."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
