"""A worker: trains trials one after another and talks to the driver over a pipe.

On one machine it is a process, started by the driver with a bare interpreter, so that user scripts
need no ``__main__`` guard and notebooks work. It lives in a session of its own: Ctrl-C reaches the
driver only, and killing the worker's group ends whatever the training code has forked. In a Ray
cluster it is an actor (``_ray_actor.py``), and the pipe a TCP connection.
"""

from __future__ import annotations

import contextlib
import os
import reprlib
import socket
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from acetune.core.errors import GoalWarning, ReportCallError, TrialStopped
from acetune.core.reason import shortened
from acetune.interprocess.code_file import read_code
from acetune.run import _messages as m
from acetune.run._pipe_link import DriverGone, PipeLink
from acetune.run._transfer import fetched
from acetune.trial.artifacts import AttemptFolders, load_model, open_log
from acetune.trial.checks import evaluate, where_raised
from acetune.trial.exclusive import DeviceUse, alone
from acetune.trial.exclusive_link import ExclusiveLink
from acetune.trial.hardware import synchronised_clock
from acetune.trial.trial import Trial


class WorkerLoop:
    """Runs what the driver sends until it says good-bye."""

    def __init__(self, pipe: m.WorkerChannel, setup: m.Setup, work: m.Work) -> None:
        self._pipe, self._setup, self._work = pipe, setup, work
        self._folders = AttemptFolders(Path(setup.files))
        self._files = Path(setup.files)
        self._pid = os.getpid()

    def run(self) -> None:
        """Serve until the driver closes the pipe."""
        while True:
            try:
                message = self._pipe.receive()
            except EOFError:
                self._folders.close()
                return
            if isinstance(message, m.Start):
                self._train(message)
            elif isinstance(message, m.Evaluate):
                self._answer(self._evaluate(message))

    def _answer(self, found: m.Evaluated) -> None:
        try:
            self._pipe.send(found)
        except OSError:
            raise
        except Exception as error:  # what a check or confirm returned cannot be pickled
            self._pipe.send(m.Evaluated({}, {}, _text(error)))

    def _train(self, start: m.Start) -> None:
        folder = self._folders.make(start.number, start.attempt)
        link = PipeLink(self._pipe, self._files, folder, self._setup.sees_files)
        with (
            _output_to(folder / "log.txt"),
            _warnings_told_to(lambda text: self._pipe.send(m.Notice(text))),
        ):
            try:
                with self._at_hand(start.checkpoint, link) as checkpoint:
                    self._train_from(checkpoint, start, folder, link)
            except DriverGone:
                raise
            except BaseException as error:
                told = _traceback(error)
                with contextlib.suppress(BaseException):  # training code may have closed it
                    sys.stderr.write(told)
                self._end_if_forked(error.code if isinstance(error, SystemExit) else 1)
                certain = isinstance(error, ReportCallError)
                self._pipe.send(m.Failed(_text(error), shortened(told), certain))
                return  # the folder of its trial stays: another worker may try that again
            self._pipe.send(m.Done())
        self._folders.done(folder)  # now that all output is in the log

    def _train_from(
        self, checkpoint: Path | None, start: m.Start, folder: Path, pipe_link: PipeLink
    ) -> None:
        link = ExclusiveLink(pipe_link, self._setup.device, self._work.needs)
        trial = Trial(
            link,
            self._work.goals,
            self._work.policy,
            number=start.number,
            attempt=start.attempt,
            params=start.params,
            folder=self._folders.given,
            checkpoint=checkpoint,
            progress=start.progress,
            device=self._setup.device,
            threads=self._setup.threads,
        )
        try:
            # a stopped trial that went on, and saw TrialStopped, ends as any stopped trial
            with contextlib.suppress(TrialStopped):
                self._work.train(trial)
            self._end_if_forked(0)
            trial.close()
        finally:
            if os.getpid() == self._pid:  # what a forked child holds is its parent's
                link.close()

    def _at_hand(
        self, path: str | None, link: PipeLink
    ) -> contextlib.AbstractContextManager[Path | None]:
        """A folder of the driver's where training code can read it, for a while."""
        if path is None or self._setup.sees_files:
            return contextlib.nullcontext(None if path is None else Path(path))
        found: contextlib.AbstractContextManager[Path] = fetched(path, link.fetch)
        return found

    def _end_if_forked(self, status: object) -> None:
        """A child that the training code has forked comes back here too: it is not the worker."""
        if os.getpid() != self._pid:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status if isinstance(status, int) else int(status is not None))

    def _evaluate(self, task: m.Evaluate) -> m.Evaluated:
        link = PipeLink(self._pipe, self._files, self._files, self._setup.sees_files)
        use = DeviceUse(self._setup.device)
        try:
            with self._at_hand(task.path, link) as folder, use:
                assert folder is not None
                use.make_way(self._work.needs)
                use.expect(constraint.check for constraint in self._work.goals.constraints)
                return self._evaluate_model(load_model(folder), task.confirm)
        except Exception as error:
            return m.Evaluated({}, {}, f"{type(error).__name__}: {error}{where_raised(error)}")

    def _evaluate_model(self, model: object, confirm: bool) -> m.Evaluated:
        if confirm:
            answer = self._work.confirm(model)
            if not isinstance(answer, Mapping):
                return m.Evaluated({}, {}, self._no_dict(answer), certain=True)
            return m.Evaluated(dict(answer), {})
        goals = self._work.goals
        checks = {c.name: c.check for c in goals.constraints}
        pipe = self._pipe
        # from the best objective down: the first that holds is the best
        measured, costs, _ = evaluate(
            goals,
            checks,
            model,
            synchronised_clock,
            lambda name: pipe.send(m.Checking(name)),
            measuring=alone,
            best=True,
        )
        return m.Evaluated(measured, costs)

    def _no_dict(self, answer: object) -> str:
        """That ``confirm`` gave something else than a dict, and which one to give."""
        names = [limit.name for limit in self._work.goals.constraints]
        names = names or [self._work.goals.objective.name]
        shown = ", ".join(f"{name!r}: ..." for name in names)
        what = "nothing" if answer is None else f"{reprlib.repr(answer)}, no dict"
        return (
            f"confirm returned {what}; return every constraint by its name, and the objective if "
            f"you like: {{{shown}}}"
        )


def _text(error: BaseException) -> str:
    """What an error says; its own way of saying so may fail."""
    try:
        said = str(error)
    except BaseException as failure:
        said = f"(its text cannot be made: {type(failure).__name__})"
    return shortened(f"{type(error).__name__}: {said}")


def _traceback(error: BaseException) -> str:
    """Where an error was raised; training code may have changed how that is said, too."""
    try:
        return "".join(traceback.format_exception(error))
    except BaseException as failure:
        return f"{_text(error)}\n(its traceback cannot be made: {type(failure).__name__})\n"


@contextlib.contextmanager
def _output_to(path: Path) -> Any:
    """Send all output, also that of C code and of child processes, to a file."""
    log = open_log(path)
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


@contextlib.contextmanager
def _warnings_told_to(tell: Callable[[str], None]) -> Iterator[None]:
    """Within this, ``tell`` is called with every :class:`GoalWarning`, which is shown as well.

    The log of a worker alone would hide them. Those of other threads or of forked processes stay
    there: they may not use the worker's pipe.
    """
    show, here = warnings.showwarning, (os.getpid(), threading.get_ident())

    def show_and_tell(
        message: Warning | str, category: type[Warning], *where: Any, **line: Any
    ) -> None:
        show(message, category, *where, **line)
        if issubclass(category, GoalWarning) and here == (os.getpid(), threading.get_ident()):
            tell(str(message))

    warnings.showwarning = show_and_tell
    try:
        yield
    finally:
        warnings.showwarning = show


def serve(pipe: m.WorkerChannel, setup: m.Setup, load: Callable[[], m.Work]) -> None:
    """Load the user's code and work until the driver closes the pipe, or is gone."""
    try:
        try:
            work = load()
        except Exception as error:
            pipe.send(m.Ready(f"{type(error).__name__}: {error}"))
            return
        pipe.send(m.Ready())
        WorkerLoop(pipe, setup, work).run()
    except (EOFError, BrokenPipeError, ConnectionResetError, DriverGone):
        return  # nobody is left to work for


def main(connected: socket.socket, code: str) -> None:
    """Entry point of the process."""
    pipe = m.WorkerChannel(connected)
    try:
        setup: m.Setup = pipe.receive()
    except (EOFError, ConnectionResetError):
        return
    serve(pipe, setup, lambda: read_code(int(code)))
