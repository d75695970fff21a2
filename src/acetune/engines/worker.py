"""A worker process: trains trials one after another and talks to the driver over a pipe.

Started by the driver with a bare interpreter, so that user scripts need no ``__main__`` guard and
notebooks work. It lives in a session of its own: Ctrl-C reaches the driver only, and killing the
worker's group ends whatever the training code has forked.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from acetune.artifacts import copy_into, load_model, write_folder, write_model
from acetune.checking import evaluate
from acetune.core.errors import ReportError, TrialStopped
from acetune.engines.messages import (
    AskGate,
    Begin,
    Checking,
    Declare,
    Done,
    Evaluate,
    Evaluated,
    Failed,
    Finished,
    Notice,
    Ready,
    Refused,
    Reported,
    Saved,
    Setup,
    Start,
    Work,
    receive,
    send,
)
from acetune.link import Plan, Reply, Report
from acetune.trial import Trial, TrialContext, synchronised_clock

_PARENT_POLL_S = 0.5


class DriverGone(BaseException):
    """The other end of the pipe has closed: there is nobody to train for."""


class PipeLink:
    """The link of a trial whose engine is at the other end of a pipe."""

    def __init__(self, pipe: Connection, files: Path, folder: Path) -> None:
        self._pipe = pipe
        self._files = files
        self._folder = folder
        self._warned = False

    def _send(self, message: object) -> None:
        try:
            send(self._pipe, message)
        except OSError:
            raise DriverGone from None

    def _ask(self, message: object) -> Any:
        self._send(message)
        try:
            answer = receive(self._pipe)
        except (EOFError, OSError):
            raise DriverGone from None
        if isinstance(answer, Refused):
            raise ReportError(answer.error)
        return answer

    def begin(self, total_steps: int | None, startup_s: float) -> Plan:
        """See Link."""
        plan: Plan = self._ask(Begin(total_steps, startup_s))
        return plan

    def declare(self, total_steps: int) -> None:
        """See Link."""
        self._ask(Declare(total_steps))

    def fresh_gate(self, report: Report) -> float:
        """See Link."""
        gate: float = self._ask(AskGate(report))
        return gate

    def checking(self, constraint: str | None) -> None:
        """See Link."""
        self._send(Checking(constraint))

    def report(self, report: Report) -> Reply:
        """See Link."""
        reply: Reply = self._ask(Reported(report))
        return reply

    def finish(self, report: Report | None) -> None:
        """See Link."""
        self._ask(Finished(report))

    def keep_model(self, step: int, model: object) -> None:
        """See Link. A model that cannot be kept costs the model, not the trial."""
        target = self._folder / f"model-{step:07d}"
        try:
            write_folder(target, lambda folder: write_model(folder, model))
        except Exception as error:
            if not self._warned:
                self._warned = True
                self._send(
                    Notice(
                        f"the model cannot be kept ({type(error).__name__}: {error}); give "
                        "report(..., snapshot=function) that returns a path, or something that can "
                        "be pickled"
                    )
                )
            return
        self._saved("model", step, target)

    def keep_checkpoint(self, step: int, source: Callable[[Path], object] | Path) -> None:
        """See Link."""
        target = self._folder / f"resume-{step:07d}"
        if isinstance(source, os.PathLike):
            path = Path(source)
            if not path.exists():
                raise ReportError(f"checkpoint {str(path)!r} does not exist")
            write_folder(target, lambda folder: copy_into(path, folder))
        elif callable(source):
            write_folder(target, source)
        else:
            raise ReportError(f"checkpoint must be a path or a function, got {source!r}")
        self._saved("resume", step, target)

    def _saved(self, kind: str, step: int, target: Path) -> None:
        size = sum(file.stat().st_size for file in target.rglob("*") if file.is_file())
        self._send(Saved(kind, step, str(target.relative_to(self._files)), size))


class Worker:
    """Runs what the driver sends until it says good-bye."""

    def __init__(self, pipe: Connection, setup: Setup, work: Work) -> None:
        self._pipe, self._setup, self._work = pipe, setup, work
        self._files = Path(setup.files)
        self._pid = os.getpid()

    def run(self) -> None:
        """Serve until the driver closes the pipe."""
        while True:
            try:
                message = receive(self._pipe)
            except EOFError:
                return
            if isinstance(message, Start):
                self._train(message)
            elif isinstance(message, Evaluate):
                send(self._pipe, self._evaluate(message))

    def _train(self, start: Start) -> None:
        folder = self._files / f"trial-{start.number:05d}" / f"attempt-{start.attempt}"
        folder.mkdir(parents=True, exist_ok=True)
        context = TrialContext(
            number=start.number,
            attempt=start.attempt,
            params=start.params,
            goals=self._work.goals,
            policy=self._work.policy,
            folder=folder,
            checkpoint=None if start.checkpoint is None else Path(start.checkpoint),
            progress=start.progress,
            device=self._setup.device,
            threads=self._setup.threads,
        )
        with _output_to(folder / "log.txt"):
            trial = Trial(context, PipeLink(self._pipe, self._files, folder))
            try:
                # a stopped trial that went on, and saw TrialStopped, ends as any stopped trial
                with contextlib.suppress(TrialStopped):
                    self._work.train(trial)
                self._end_if_forked(0)
                trial.close()
            except DriverGone:
                raise
            except BaseException as error:
                traceback.print_exc()
                self._end_if_forked(error.code if isinstance(error, SystemExit) else 1)
                text = f"{type(error).__name__}: {error}"
                send(self._pipe, Failed(text, traceback.format_exc()))
            else:
                send(self._pipe, Done())

    def _end_if_forked(self, status: object) -> None:
        """A child that the training code has forked comes back here too: it is not the worker."""
        if os.getpid() != self._pid:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status if isinstance(status, int) else int(status is not None))

    def _evaluate(self, task: Evaluate) -> Evaluated:
        try:
            model = load_model(Path(task.path))
            if task.confirm:
                return Evaluated(dict(self._work.confirm(model)), {})
            goals = self._work.goals
            checks = {c.name: c.check for c in goals.constraints}
            pipe = self._pipe
            measured, costs = evaluate(
                goals, checks, model, synchronised_clock, lambda name: send(pipe, Checking(name))
            )
            return Evaluated(measured, costs)
        except Exception as error:
            return Evaluated({}, {}, f"{type(error).__name__}: {error}")


@contextlib.contextmanager
def _output_to(path: Path) -> Any:
    """Send all output, also that of C code and of child processes, to a file."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    saved = os.dup(1), os.dup(2)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        for number, old in zip((1, 2), saved, strict=True):
            os.dup2(old, number)
            os.close(old)


def _die_with_parent(parent: int) -> None:
    """A driver that was killed cannot say good-bye: watch it, and end the whole group."""
    while os.getppid() == parent:
        time.sleep(_PARENT_POLL_S)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def main(descriptor: int, parent: int) -> None:
    """Entry point of the process."""
    threading.Thread(target=_die_with_parent, args=(parent,), daemon=True).start()
    pipe = Connection(descriptor)
    try:
        setup: Setup = receive(pipe)
        sys.path[:] = setup.sys_path
        try:
            work: Work = pickle.loads(Path(setup.code).read_bytes())
        except Exception as error:
            send(pipe, Ready(f"{type(error).__name__}: {error}"))
            return
        send(pipe, Ready())
        Worker(pipe, setup, work).run()
    except (EOFError, BrokenPipeError, ConnectionResetError, DriverGone):
        return  # nobody is left to work for
