"""The same function over many jobs in worker processes, whatever happens to one of them."""

from __future__ import annotations

import contextlib
import selectors
import socket
import traceback
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import cloudpickle

from acetune.core.numbers import require_whole
from acetune.interprocess.child import Child
from acetune.interprocess.frames import BlockingChannel, NonBlockingChannel
from acetune.interprocess.pickling import pickle_code
from acetune.trial.hardware import thread_variables

_LOOK_S = 1.0  # so often processes are looked at, where the system does not tell their end


class Lost(NamedTuple):
    """A job that gave no result: it raised, or its process died."""

    error: str


class _JobProcess:
    """A process that does one job at a time."""

    def __init__(self, function: bytes, threads: int) -> None:
        self.child = Child(__name__, "serve", variables=thread_variables(threads))
        self.pipe = NonBlockingChannel(self.child.socket)
        self.job = -1
        self.pipe.send(function)

    def give(self, job: int, argument: object) -> None:
        self.job = job
        self.pipe.send(cloudpickle.dumps(argument))

    def take(self) -> list[object]:
        """The result of its job, once it is there; :class:`Lost` if the process has died."""
        how = self.child.exit_word()  # before reading: what it sent before it died counts
        messages = self.pipe.receive()
        if messages:
            return [_received(messages[0])]
        if self.pipe.broken:
            self.child.kill()
            how = f"sent what is not a message: {self.pipe.broken}"
        elif how is None and self.pipe.ended:
            self.child.kill(after_s=1.0)  # it is ending
            how = self.child.exit_word()
        return [] if how is None else [Lost(f"its process {how}")]

    def kill(self) -> None:
        self.child.kill()
        self.pipe.close()


def run_jobs(
    function: Callable[[Any], object], jobs: Sequence[object], workers: int, threads: int = 1
) -> Generator[tuple[int, Any], None, None]:
    """Index and result of each job, in the order in which they end; :class:`Lost` for a failed one.

    The function is sent once a worker; ``threads`` is what numerical libraries may use in each.
    """
    if len(jobs):
        require_whole("workers", workers, least=1)
    pickled = pickle_code(function, "the function or a check")
    waiting = deque(range(len(jobs)))
    busy: list[_JobProcess] = []
    try:
        while waiting and len(busy) < workers:
            busy.append(_JobProcess(pickled, threads))
            busy[-1].give(waiting[0], jobs[waiting.popleft()])
        while busy:
            for worker in _ready(busy):
                for result in worker.take():
                    job = worker.job
                    if worker.child.exit_word() or not waiting:
                        worker.kill()
                        busy.remove(worker)
                        if waiting:
                            worker = _JobProcess(pickled, threads)
                            busy.append(worker)
                    if waiting:
                        worker.give(waiting[0], jobs[waiting.popleft()])
                    yield job, result
    finally:
        for worker in busy:
            worker.kill()


def _ready(busy: Sequence[_JobProcess]) -> list[_JobProcess]:
    """Those that may have something to say, or have ended."""
    with selectors.DefaultSelector() as selector:
        for worker in busy:
            sending = selectors.EVENT_WRITE if worker.pipe.sending else 0
            selector.register(worker.pipe, selectors.EVENT_READ | sending, worker)
            if worker.child.exit_handle is not None:
                selector.register(worker.child.exit_handle, selectors.EVENT_READ, worker)
        ready = selector.select(_LOOK_S)
    for key, events in ready:
        if events & selectors.EVENT_WRITE:
            key.data.pipe.flush()
    told = {id(key.data) for key, events in ready if events & selectors.EVENT_READ}
    return [worker for worker in busy if id(worker) in told or worker.child.exit_word()]


def serve(connected: socket.socket) -> None:
    """What a worker does: jobs one after another until its parent goes away."""
    pipe = BlockingChannel(connected)
    with contextlib.suppress(EOFError, OSError):  # the parent has gone
        function = _loaded(pipe.receive())
        while True:
            argument = pipe.receive()
            try:
                result = cloudpickle.dumps(function(cloudpickle.loads(argument)))
            except Exception as error:
                result = cloudpickle.dumps(_lost(error))
            pipe.send(result)


def _received(message: bytes) -> object:
    try:
        return cloudpickle.loads(message)
    except Exception as error:
        return _lost(error)


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
