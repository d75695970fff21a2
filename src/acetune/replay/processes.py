"""The same function over many jobs in worker processes, whatever happens to one of them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle

from acetune.core.numbers import require_whole
from acetune.core.errors import TrainingCodeError
from acetune.hardware import THREAD_VARIABLES

_CODE = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from acetune.replay.processes import serve; serve(int(sys.argv[1]))"
)
_PACKAGE_ROOT = str(Path(__file__).resolve().parents[2])
_PARENT_POLL_S = 0.5
_LOOK_S = 1.0  # so often processes are looked at, should their pipes say nothing


class Lost(NamedTuple):
    """A job that gave no result: it raised, or its process died."""

    error: str


class _Worker:
    """A process of a bare interpreter, so that scripts need no ``__main__`` guard."""

    def __init__(self, function: bytes, threads: int) -> None:
        ours, theirs = socket.socketpair()
        environment = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads))}
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _CODE, str(theirs.fileno()), json.dumps(_module_path())],
                pass_fds=[theirs.fileno()],
                env=environment,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C reaches the parent alone
            )
        self.pipe = Connection(ours.detach())
        self.job = -1
        self._send(function)

    def give(self, job: int, argument: object) -> None:
        self.job = job
        self._send(cloudpickle.dumps(argument))

    def _send(self, message: bytes) -> None:
        with contextlib.suppress(OSError):  # its death is noticed when it is listened to
            self.pipe.send_bytes(message)

    def take(self) -> object:
        """The result of its job; :class:`Lost` if it has died."""
        try:
            if not self.pipe.poll():  # it has died, but a child of its own holds the pipe open
                raise EOFError
            message = self.pipe.recv_bytes()
        except (EOFError, OSError):
            code = self.process.wait()
            how = f"exit status {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
            return Lost(f"its process died ({how})")
        try:
            return cloudpickle.loads(message)
        except Exception as error:
            return _lost(error)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.pipe.close()


def run_jobs(
    function: Callable[[Any], object], jobs: Sequence[object], workers: int, threads: int = 1
) -> Generator[tuple[int, Any], None, None]:
    """Index and result of each job, in the order in which they end; :class:`Lost` for a failed one.

    The function is sent once a worker; ``threads`` is what numerical libraries may use in each.
    """
    if len(jobs):
        require_whole("workers", workers, least=1)
    pickled = _pickled(function)
    waiting = deque(range(len(jobs)))
    busy: dict[Connection, _Worker] = {}
    try:
        while waiting and len(busy) < workers:
            worker = _Worker(pickled, threads)
            busy[worker.pipe] = worker
            worker.give(waiting[0], jobs[waiting.popleft()])
        while busy:
            for pipe in _ready(busy):
                worker = busy[pipe]
                job, result = worker.job, worker.take()
                if worker.process.poll() is not None:
                    worker.kill()
                    del busy[pipe]
                    if waiting:
                        worker = _Worker(pickled, threads)
                        busy[worker.pipe] = worker
                if waiting:
                    worker.give(waiting[0], jobs[waiting.popleft()])
                elif worker.pipe in busy:
                    worker.kill()
                    del busy[worker.pipe]
                yield job, result
    finally:
        for worker in busy.values():
            worker.kill()


def _ready(busy: dict[Connection, _Worker]) -> list[Connection]:
    """Those that have something to say, or else those that have died without closing their pipe."""
    ready = wait(list(busy), timeout=_LOOK_S)
    dead = [pipe for pipe, worker in busy.items() if worker.process.poll() is not None]
    return [pipe for pipe in busy if pipe in ready] or dead


def serve(descriptor: int) -> None:
    """What a worker does: jobs one after another until its parent goes away."""
    threading.Thread(target=_die_with_parent, args=(os.getppid(),), daemon=True).start()
    pipe = Connection(descriptor)
    with contextlib.suppress(EOFError, OSError):  # the parent has gone
        function = _loaded(pipe.recv_bytes())
        while True:
            argument = pipe.recv_bytes()
            try:
                result = cloudpickle.dumps(function(cloudpickle.loads(argument)))
            except Exception as error:
                result = cloudpickle.dumps(_lost(error))
            pipe.send_bytes(result)


def _die_with_parent(parent: int) -> None:
    """A parent that was killed leaves no job behind that goes on for nobody."""
    while os.getppid() == parent:
        time.sleep(_PARENT_POLL_S)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _module_path() -> list[str]:
    """Where this process finds modules, the current folder by its name: workers find the same."""
    return [_PACKAGE_ROOT, *(str(entry or Path.cwd()) for entry in sys.path)]


def _pickled(function: Callable[[Any], object]) -> bytes:
    try:
        pickled: bytes = cloudpickle.dumps(function)
    except Exception as error:
        raise TrainingCodeError(
            f"the function or a check cannot be sent to a worker process: {error}; create locks, "
            "open files, connections and the like inside the function instead of using ones from "
            "outside"
        ) from error
    return pickled


def _loaded(pickled: bytes) -> Callable[[Any], object]:
    """The function that was sent, or one that says why it cannot be had here."""
    try:
        function: Callable[[Any], object] = cloudpickle.loads(pickled)
    except Exception as error:
        lost = _lost(error)
        return lambda argument: lost
    return function


def _lost(error: Exception) -> Lost:
    where = "".join(traceback.format_exception(error, limit=-3))
    return Lost(f"{type(error).__name__}: {error}\n{where}")
