"""A process on a device that is set aside: it measures there, and nothing else runs in it."""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import socket
from collections.abc import Callable
from typing import Any

import cloudpickle

from acetune.core.errors import AcetuneError
from acetune.interprocess.child import Child
from acetune.interprocess.frames import BlockingChannel
from acetune.trial.exclusive import described
from acetune.trial.hardware import gpu_variables, missing_cores, thread_variables

_helpers: dict[tuple[int, frozenset[int] | str], Helper] = {}  # by process and device


class MeasurementError(AcetuneError):
    """A measurement on a device that is set aside gave nothing."""


def helper_on(device: frozenset[int] | str) -> Helper:
    """This process's helper on a device, started if there is none yet."""
    key = os.getpid(), device  # a forked child has its own
    if key not in _helpers:
        _helpers[key] = Helper(device)
    return _helpers[key]


class Helper:
    """A process on some cores, or on a GPU, for as long as the one that has started it lives."""

    def __init__(self, device: frozenset[int] | str) -> None:
        self._child: Child | None = None
        self._device = device

    def run(self, function: Callable[[Any], Any], argument: object) -> Any:
        """What the function returns there. One that has died is started again the next time."""
        task = cloudpickle.dumps((function, argument))  # before anything is started
        if self._child is None:
            self._start()
        try:
            self._pipe.send(task)
            done, answer = pickle.loads(self._pipe.receive())
        except (EOFError, OSError):
            raise MeasurementError(f"{self.name}, {self._bury()}") from None
        except BaseException:  # its answer would be taken for that of the next task
            self._bury()
            raise
        if not done:
            raise MeasurementError(f"{answer} (on {self.name})")
        return answer

    @property
    def name(self) -> str:
        """What it is, for people."""
        return f"the process on {described(self._device)}, which is set aside"

    def close(self) -> None:
        """End it."""
        if self._child is not None:
            self._bury()

    def _start(self) -> None:
        cores: frozenset[int] = frozenset()
        if isinstance(self._device, str):
            variables = gpu_variables(self._device)
        else:
            cores, variables = self._device, thread_variables(len(self._device))
            missing = missing_cores(self._device)
            if missing:
                raise MeasurementError(
                    f"cores {missing} cannot be set aside: this machine has no such cores, or this "
                    f"process may not use them; it has {sorted(os.sched_getaffinity(0))} now"
                )
        # not in a session of its own: what ends the process that asks ends this one too
        self._child = Child(__name__, "serve", variables=variables, cores=cores, own_session=False)
        self._pipe = BlockingChannel(self._child.socket)

    def _bury(self) -> str:
        """How it ended, in words."""
        assert self._child is not None
        child, self._child = self._child, None
        self._pipe.close()  # it leaves when that happens, unless it is at work
        child.kill(after_s=1.0)
        return f"{child.exit_word()}; it is started again at the next check"


def serve(connected: socket.socket) -> None:
    """What the process does: one task after the other, until nobody is left to ask."""
    pipe = BlockingChannel(connected)
    with contextlib.suppress(EOFError, OSError):
        while True:
            task = pipe.receive()
            try:
                function, argument = pickle.loads(task)
                answer = True, function(argument)
            except Exception as error:
                answer = False, f"{type(error).__name__}: {error}"
            pipe.send(pickle.dumps(answer))


@atexit.register
def _close_all() -> None:
    for (process, _), helper in _helpers.items():
        if process == os.getpid():
            helper.close()
