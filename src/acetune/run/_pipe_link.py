"""A trial's link to its driver, over a pipe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from acetune.core.errors import ReportError
from acetune.core.say_once import SayOnce
from acetune.run import _messages as m
from acetune.run._transfer import pack
from acetune.trial.artifacts import (
    Written,
    cannot_keep,
    checkpoint_writer,
    delete_inside,
    step_name,
    write_folder,
    write_model,
)
from acetune.trial.exclusive import paused
from acetune.trial.link import Link, Plan, Reply, Report


class DriverGone(BaseException):
    """The other end of the pipe has closed: there is nobody to train for."""


class PipeLink(Link):
    """The link of a trial whose engine is at the other end of a pipe.

    Parameters
    ----------
    pipe:
        To the driver.
    files, folder:
        The folder of the study, and in it that of the trial.
    sees_files:
        Whether that is the driver's folder too; if not, what is kept is sent there.
    """

    def __init__(self, pipe: m.WorkerChannel, files: Path, folder: Path, sees_files: bool) -> None:
        self._pipe = pipe
        self._files = files
        self._folder = folder
        self._sees_files = sees_files
        self._closed = False
        self._notice = SayOnce(lambda text: self._send(m.Notice(text)))

    def _send(self, message: object) -> None:
        with self._pipe.turn:
            self._send_in_turn(message)

    def _ask(self, message: object) -> Any:
        with self._pipe.turn:
            self._send_in_turn(message)
            try:
                answer = self._pipe.receive()
            except (EOFError, OSError):
                raise DriverGone from None
        if isinstance(answer, m.Refused):
            raise ReportError(answer.error)
        return answer

    def _send_in_turn(self, message: object) -> None:
        self._require_open()
        try:
            self._pipe.send(message)
        except OSError:
            raise DriverGone from None

    def _require_open(self) -> None:
        """What a thread says after its trial's end would count for the worker's next trial."""
        if self._closed:
            raise ReportError(
                "the trial has ended; a thread that reports must be joined before the training "
                "function returns"
            )

    def close(self) -> None:
        """See Link. Waits for the answer to what another thread has asked."""
        with self._pipe.turn:
            self._closed = True

    def fetch(self, path: str | None) -> bytes:
        """A piece of a folder that the driver has: the first one, or (None) the next."""
        piece: m.Piece = self._ask(m.Fetch(path))
        return piece.data

    def begin(self, total_steps: int | None, startup_s: float) -> Plan:
        """See Link."""
        plan: Plan = self._ask(m.Begin(total_steps, startup_s))
        return plan

    def declare(self, total_steps: int) -> None:
        """See Link."""
        self._ask(m.Declare(total_steps))

    def note_hardware(self, description: str) -> None:
        """See Link."""
        self._send(m.Hardware(description))

    def fresh_gate(self, report: Report) -> float:
        """See Link."""
        gate: float = self._ask(m.AskGate(report))
        return gate

    def checking(self, constraint: str | None) -> None:
        """See Link."""
        self._send(m.Checking(constraint))

    def report(self, report: Report) -> Reply:
        """See Link."""
        reply: Reply = self._ask(m.Reported(report))
        return reply

    def finish(self, report: Report | None) -> None:
        """See Link."""
        self._ask(m.Finished(report))

    def keep_model(self, step: int, model: object) -> None:
        """See Link. A model that cannot be kept costs the model, not the trial."""
        self._require_open()
        target = self._folder / step_name("model", step)
        try:
            written = self._write(target, lambda folder: write_model(folder, model))
        except Exception as error:
            self._notice(cannot_keep(error), about="model")
            return
        self._saved("model", step, target, written)

    def keep_checkpoint(self, step: int, source: Callable[[Path], object] | Path) -> None:
        """See Link."""
        self._require_open()
        target = self._folder / step_name("resume", step)
        written = self._write(target, checkpoint_writer(source))
        self._saved("resume", step, target, written)

    def _write(self, target: Path, write: Callable[[Path], object]) -> Written:
        # what is sent is put on disk at the other end
        return write_folder(target, write, self._files, durable=self._sees_files)

    def _saved(self, kind: str, step: int, target: Path, written: Written) -> None:
        if not self._sees_files:
            with paused():  # the driver may be long in taking it
                pack(target, lambda data: self._send(m.Piece(data)))
            delete_inside(self._files, target)  # which to keep is decided where they lie
        path = str(target.relative_to(self._files))
        sent = not self._sees_files
        self._send(m.Saved(kind, step, path, written.size, sent, written.digest))
