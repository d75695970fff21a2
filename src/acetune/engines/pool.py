"""A fixed number of places for worker processes: start them, listen to them, end them."""

from __future__ import annotations

import contextlib
import selectors
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import cloudpickle

from acetune.core.errors import StudyError, TrainingCodeError
from acetune.engines.messages import AskGate, Ready, Setup, Work, receive
from acetune.engines.process import WorkerProcess
from acetune.study_trial import StudyTrial

_MAX_FAILED_STARTS = 3


class Died(NamedTuple):
    """Stands in the stream of a worker's messages for its death."""

    how: str


@dataclass(slots=True)
class Slot:
    """A place for a worker process, and what it is doing."""

    index: int
    process: WorkerProcess | None = None
    ready: bool = False
    trial: StudyTrial | None = None
    evaluating: int | None = None  # which of the models that are being evaluated
    check: AskGate | None = None  # the check under way, and of which constraint
    checking: str = ""
    check_deadline: float | None = None
    told_to_stop: float | None = None
    last_heard: float = 0.0

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
        if self.process is not None:
            self.process.send(message)


class Pool:
    """Worker processes in their places.

    Parameters
    ----------
    code:
        The user's code, pickled.
    files:
        Folder for what the workers write.
    workers, threads, devices:
        How many places, how many threads for each, and the devices that are shared out.
    """

    def __init__(
        self, code: bytes, files: Path, workers: int, threads: int, devices: Sequence[str]
    ) -> None:
        self._files = files
        files.mkdir(parents=True, exist_ok=True)
        # through a file: a large one would fill the pipe, and the driver wait for slow starters
        self._code = files / "code.pkl"
        self._code.write_bytes(code)
        self._threads, self._devices = threads, devices
        self.slots = [Slot(index) for index in range(workers)]
        self._selector = selectors.DefaultSelector()
        self._failed_starts = 0

    @property
    def expecting(self) -> int:
        """How many workers are idle, or will be once they have started."""
        return sum(slot.process is not None and not slot.busy for slot in self.slots)

    def start(self, slot: Slot) -> None:
        """Start a worker in an empty place. It says Ready when it can work."""
        device = self._devices[slot.index % len(self._devices)] if self._devices else None
        path = [entry or str(Path.cwd()) for entry in sys.path]
        setup = Setup(str(self._code), path, str(self._files), device, self._threads)
        slot.process = WorkerProcess(setup, self._log(slot))
        self._selector.register(slot.process.pipe, selectors.EVENT_READ, slot)
        if slot.process.exit_handle is not None:
            self._selector.register(slot.process.exit_handle, selectors.EVENT_READ, slot)

    def wait(self, timeout_s: float) -> list[tuple[Slot, object]]:
        """What workers said, oldest first; a worker's death comes after its last words."""
        heard: list[tuple[Slot, object]] = []
        for key, _ in self._selector.select(timeout_s):
            slot: Slot = key.data
            process = slot.process
            if process is None:
                continue  # buried a moment ago
            if key.fd != process.exit_handle:
                heard += self._receive(slot, process)
            else:
                heard += self._bury(slot, process)
        for slot in self.slots:  # where there are no pidfds, look at each process
            process = slot.process
            if process is not None and process.exit_handle is None and process.exit_word():
                heard += self._bury(slot, process)
        return heard

    def kill(self, slot: Slot) -> None:
        """End a worker at once, and whatever it has started."""
        process = slot.process
        if process is not None:
            self._forget(slot, process)
            process.kill()

    def close(self) -> None:
        """Say good-bye to all workers; those that linger are killed."""
        living = [(slot, slot.process) for slot in self.slots if slot.process is not None]
        for slot, process in living:
            self._forget(slot, process)
            process.close()
        for _, process in living:
            process.join(timeout_s=2.0)
        self._selector.close()

    def _receive(self, slot: Slot, process: WorkerProcess) -> list[tuple[Slot, object]]:
        try:
            message = receive(process.pipe)
        except (EOFError, OSError):
            # the process is ending, or its code has closed the pipe: it is of no use any more
            return self._bury(slot, process)
        if isinstance(message, Ready):
            slot.ready = message.error is None
            self._failed_starts = 0
        return [(slot, message)]

    def _bury(self, slot: Slot, process: WorkerProcess) -> list[tuple[Slot, object]]:
        heard: list[tuple[Slot, object]] = []
        with contextlib.suppress(EOFError, OSError):
            while process.pipe.poll(0):
                heard.append((slot, receive(process.pipe)))
        was_ready = slot.ready
        self._forget(slot, process)
        process.kill()
        how = process.exit_word() or "ended"
        if not was_ready:
            self._failed_starts += 1
            if self._failed_starts >= _MAX_FAILED_STARTS:
                raise StudyError(
                    f"worker processes end while starting ({how}); see {self._log(slot)}"
                )
        return [*heard, (slot, Died(how))]

    def _forget(self, slot: Slot, process: WorkerProcess) -> None:
        for handle in (process.pipe, process.exit_handle):
            if handle is not None:
                with contextlib.suppress(KeyError, ValueError):
                    self._selector.unregister(handle)
        slot.process, slot.ready = None, False

    def _log(self, slot: Slot) -> Path:
        return self._files / f"worker-{slot.index}.log"


def pickle_work(work: Work) -> bytes:
    """The user's code as bytes, or an error that says what stands in the way."""
    try:
        blob: bytes = cloudpickle.dumps(work)
    except Exception as error:
        raise TrainingCodeError(
            f"the training function or a check cannot be sent to a worker process: {error}; create "
            "locks, open files, connections and the like inside the function instead of using ones "
            "from outside"
        ) from error
    return blob
