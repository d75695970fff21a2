"""A process on a device that is set aside: it measures there, and nothing else runs in it."""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import cloudpickle

from acetune.core.errors import AcetuneError
from acetune.hardware import THREAD_VARIABLES, missing_cores
from acetune.quiet import described

# the cores are taken before anything is imported that counts them
_CODE = (
    "import os, sys; cores = set(map(int, filter(None, sys.argv[2].split(',')))); "
    "cores and os.sched_setaffinity(0, cores); sys.path.insert(0, sys.argv[3]); "
    "from acetune.constraints._aside import serve; serve(int(sys.argv[1]))"
)
_PACKAGE_ROOT = str(Path(__file__).resolve().parents[2])
_helpers: dict[tuple[int, frozenset[int] | str], Helper] = {}  # by process and device


class MeasurementError(AcetuneError):
    """A measurement on a device that is set aside gave nothing."""


def helper_on(aside: frozenset[int] | str) -> Helper:
    """This process's helper on a device, started if there is none yet."""
    key = os.getpid(), aside  # a forked child has its own
    if key not in _helpers:
        _helpers[key] = Helper(aside)
    return _helpers[key]


class Helper:
    """A process on some cores, or on a GPU, for as long as the one that has started it lives."""

    def __init__(self, aside: frozenset[int] | str) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._aside = aside

    def run(self, function: Callable[[Any], Any], argument: object) -> Any:
        """What the function returns there. One that has died is started anew the next time."""
        task = cloudpickle.dumps((function, argument))  # before anything is started
        if self._process is None:
            self._start()
        try:
            self._pipe.send_bytes(task)
            done, answer = pickle.loads(self._pipe.recv_bytes())
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
        return f"the process on {described(self._aside)}, which is set aside"

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._bury()

    def _start(self) -> None:
        env, cores = dict(os.environ), ""
        if isinstance(self._aside, str):
            env["CUDA_VISIBLE_DEVICES"] = self._aside
        else:
            env |= dict.fromkeys(THREAD_VARIABLES, str(len(self._aside)))
            cores = ",".join(map(str, sorted(self._aside)))
            missing = missing_cores(self._aside)
            if missing:
                raise MeasurementError(
                    f"cores {missing} cannot be set aside: this machine has no such cores, or this "
                    f"process may not use them; it has {sorted(os.sched_getaffinity(0))} now"
                )
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _CODE, str(theirs.fileno()), cores, _PACKAGE_ROOT],
                pass_fds=[theirs.fileno()],
                env=env,
                stdin=subprocess.DEVNULL,
            )
        self._pipe = Connection(ours.detach())
        path = [entry or str(Path.cwd()) for entry in sys.path]
        with contextlib.suppress(OSError):  # one that is dead already is noticed by the task
            self._pipe.send_bytes(pickle.dumps(path))

    def _bury(self) -> str:
        """How it ended, in words."""
        assert self._process is not None
        self._pipe.close()  # it leaves when that happens, unless it is at work
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        self._process.kill()
        code = self._process.wait()
        self._process = None
        return f"ended with status {code}; it is started anew at the next check"


def serve(descriptor: int) -> None:
    """What the process does: one task after the other, until nobody is left to ask."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for the one that asks
    pipe = Connection(descriptor)
    with contextlib.suppress(EOFError, OSError):
        sys.path[:] = pickle.loads(pipe.recv_bytes())
        while True:
            task = pipe.recv_bytes()
            try:
                function, argument = pickle.loads(task)
                answer = True, function(argument)
            except Exception as error:
                answer = False, f"{type(error).__name__}: {error}"
            pipe.send_bytes(pickle.dumps(answer))


@atexit.register
def _close_all() -> None:
    for (process, _), helper in _helpers.items():
        if process == os.getpid():
            helper.close()
