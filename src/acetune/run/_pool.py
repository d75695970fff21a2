"""A fixed number of places for workers: start them, listen to them, end them.

What varies is where workers live: a :class:`Site` starts them, as processes of this machine or as
actors of a Ray cluster, and gives a :class:`WorkerHandle` to hold each of them by.
"""

from __future__ import annotations

import contextlib
import selectors
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from acetune.core.errors import StudyError
from acetune.run._messages import AskGate, DriverChannel, Notice, Ready
from acetune.study.session import StudyTrial

_MAX_FAILED_STARTS = 3


class Died(NamedTuple):
    """Stands in the stream of a worker's messages for its death."""

    how: str


class WorkerHandle(Protocol):
    """A worker as the driver sees it."""

    @property
    def pipe(self) -> DriverChannel | None:
        """To the worker; None until it has connected."""

    @property
    def exit_handle(self) -> int | None:
        """Becomes readable when the worker has ended, where there is such a thing."""

    @property
    def log(self) -> str:
        """Where to read what it wrote outside of trials."""

    def send(self, message: object) -> None:
        """Send a message, without waiting; a worker that has died is noticed elsewhere."""

    def hung_up(self) -> bool:
        """Its end of the pipe is closed. Whether it is known already how it ended."""

    def exit_word(self) -> str | None:
        """How it ended, in words, or None while it runs."""

    def kill(self) -> None:
        """End it and everything it has started, at once."""

    def close(self) -> None:
        """Say good-bye: the worker leaves when its pipe closes."""

    def join(self, timeout_s: float) -> None:
        """Wait for a worker that was told good-bye; one that lingers is killed."""


class Site(Protocol):
    """Where workers live."""

    @property
    def bell(self) -> int | None:
        """Becomes readable when a worker has connected, where they do so after their start."""

    def start(self, index: int) -> WorkerHandle:
        """Start a worker for the place of that number. It says Ready when it can work."""

    def look(self) -> Iterable[tuple[WorkerHandle, Notice | None]]:
        """Workers that have connected (None), or of which there is something to say."""

    def close(self) -> None:
        """No more workers are started."""


@dataclass(slots=True)
class Slot:
    """A place for a worker, and what it is doing."""

    index: int
    worker: WorkerHandle | None = None
    ready: bool = False
    trial: StudyTrial | None = None
    evaluating: int | None = None  # which of the models that are being evaluated
    check: AskGate | None = None  # the check under way, and of which constraint
    checking: str = ""
    check_deadline: float | None = None
    told_to_stop: float | None = None
    last_heard: float = 0.0
    unsent: bool = False  # whether the pool waits for the worker to read

    @property
    def busy(self) -> bool:
        """Whether a trial or an evaluation is under way."""
        return self.trial is not None or self.evaluating is not None

    @property
    def idle(self) -> bool:
        """Whether the worker waits for something to do."""
        return self.ready and not self.busy

    def send(self, message: object) -> None:
        """Send to the worker, if it still lives; its death is noticed elsewhere."""
        if self.worker is not None:
            self.worker.send(message)


class Pool:
    """Workers of a site in their places.

    Parameters
    ----------
    site:
        Where they live; closed with the pool.
    workers:
        How many places.
    """

    def __init__(self, site: Site, workers: int) -> None:
        self._site = site
        self.slots = [Slot(index) for index in range(workers)]
        self._selector = selectors.DefaultSelector()
        if site.bell is not None:
            self._selector.register(site.bell, selectors.EVENT_READ)
        self._failed_starts = 0

    @property
    def expecting(self) -> int:
        """How many workers are idle, or will be once they have started."""
        return sum(slot.worker is not None and not slot.busy for slot in self.slots)

    def start(self, slot: Slot) -> None:
        """Start a worker in an empty place."""
        slot.worker = self._site.start(slot.index)
        for handle in (slot.worker.pipe, slot.worker.exit_handle):
            if handle is not None:
                self._selector.register(handle, selectors.EVENT_READ, slot)

    def wait(self, timeout_s: float) -> list[tuple[Slot, object]]:
        """What workers said, oldest first; a worker's death comes after its last words."""
        heard: list[tuple[Slot, object]] = []
        self._watch_unsent()
        for key, events in self._selector.select(timeout_s):
            slot: Slot | None = key.data
            worker = None if slot is None else slot.worker
            if slot is None or worker is None:
                continue  # the bell, or a worker that was buried a moment ago
            if key.fd == worker.exit_handle:
                heard += self._bury(slot, worker)
                continue
            if events & selectors.EVENT_WRITE and worker.pipe is not None:
                worker.pipe.flush()
            if events & selectors.EVENT_READ:
                heard += self._receive(slot, worker)
        for worker, notice in self._site.look():
            heard += self._look_at(worker, notice)
        for slot in self.slots:  # where nothing tells the end of a worker, look at each
            worker = slot.worker
            if worker is None:
                continue
            hung_up = worker.pipe is not None and worker.pipe.ended
            if (hung_up or worker.exit_handle is None) and (how := worker.exit_word()):
                heard += self._bury(slot, worker, how)
        return heard

    def _watch_unsent(self) -> None:
        """Where something waits to be sent, be told when the worker reads again."""
        for slot in self.slots:
            pipe = None if slot.worker is None else slot.worker.pipe
            if pipe is not None and pipe.sending != slot.unsent:
                slot.unsent = pipe.sending
                events = selectors.EVENT_READ | (selectors.EVENT_WRITE if pipe.sending else 0)
                with contextlib.suppress(KeyError, ValueError):  # not connected, or hung up
                    self._selector.modify(pipe, events, slot)

    def kill(self, slot: Slot) -> None:
        """End a worker at once, and whatever it has started."""
        worker = slot.worker
        if worker is not None:
            self._forget(slot, worker)
            worker.kill()

    def close(self) -> None:
        """Say good-bye to all workers; those that linger are killed."""
        living = [(slot, slot.worker) for slot in self.slots if slot.worker is not None]
        for slot, worker in living:
            self._forget(slot, worker)
            worker.close()
        for _, worker in living:
            worker.join(timeout_s=2.0)
        self._selector.close()
        self._site.close()

    def _look_at(self, worker: WorkerHandle, notice: Notice | None) -> list[tuple[Slot, object]]:
        for slot in self.slots:
            if slot.worker is worker:
                if notice is not None:
                    return [(slot, notice)]
                assert worker.pipe is not None
                self._selector.register(worker.pipe, selectors.EVENT_READ, slot)
        return []

    def _receive(self, slot: Slot, worker: WorkerHandle) -> list[tuple[Slot, object]]:
        pipe = worker.pipe
        assert pipe is not None
        heard: list[tuple[Slot, object]] = []
        for message in pipe.receive():
            if isinstance(message, Ready):
                slot.ready = message.error is None
                self._failed_starts = 0
            heard.append((slot, message))
        if pipe.broken is not None:
            heard += self._bury(slot, worker, f"sent what is not a message: {pipe.broken}")
        elif pipe.ended:
            # the worker is ending, or its code has closed the pipe: it is of no use any more
            self._unregister(pipe)
            if worker.hung_up():
                heard += self._bury(slot, worker)
        return heard

    def _bury(
        self, slot: Slot, worker: WorkerHandle, how: str | None = None
    ) -> list[tuple[Slot, object]]:
        """The last words of a worker that has ended, or has to; ``how`` if that is known."""
        heard: list[tuple[Slot, object]] = []
        if worker.pipe is not None and not worker.pipe.broken:
            heard += ((slot, message) for message in worker.pipe.receive())
        was_ready = slot.ready
        self._forget(slot, worker)
        worker.kill()
        how = how or worker.exit_word() or "ended"
        if not was_ready:
            self._failed_starts += 1
            if self._failed_starts >= _MAX_FAILED_STARTS:
                raise StudyError(f"worker processes end while starting ({how}); see {worker.log}")
        return [*heard, (slot, Died(how))]

    def _forget(self, slot: Slot, worker: WorkerHandle) -> None:
        for handle in (worker.pipe, worker.exit_handle):
            if handle is not None:
                self._unregister(handle)
        slot.worker, slot.ready, slot.unsent = None, False, False

    def _unregister(self, handle: DriverChannel | int) -> None:
        with contextlib.suppress(KeyError, ValueError, OSError):
            self._selector.unregister(handle)
