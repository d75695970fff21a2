"""Workers as processes of this machine: start, talk, notice their death, kill."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Sequence
from pathlib import Path

from acetune.core.errors import StudyError
from acetune.core.formatting import size
from acetune.interprocess.child import Child
from acetune.interprocess.code_file import code_size, write_code
from acetune.run._messages import DriverChannel, Setup
from acetune.trial.artifacts import open_log
from acetune.trial.hardware import gpu_variables, physical_gpu, thread_variables

IN_WORKER = "ACETUNE_WORKER"  # set in the environment of every worker
_LEAVING_S = 1.0  # for a worker that has closed its end to be gone


class WorkerProcess:
    """One process with its pipe.

    Parameters
    ----------
    setup:
        Where it runs.
    code:
        The descriptor of the file with the user's code.
    log:
        For what is written outside of trials.
    """

    def __init__(self, setup: Setup, code: int, log: Path) -> None:
        self.log = str(log)
        variables = worker_variables(setup.threads)
        if setup.device is not None:
            variables |= gpu_variables(physical_gpu(setup.device))
        with os.fdopen(open_log(log), "ab") as output:
            self._child = Child(
                "acetune.run._worker_main",
                "main",
                [str(code)],
                variables=variables,
                output=output,
                descriptors=[code],
            )
        self.pipe = DriverChannel(self._child.socket)
        self._hung_up = 0.0  # when
        self.send(setup)

    @property
    def exit_handle(self) -> int | None:
        """See WorkerHandle."""
        return self._child.exit_handle

    def send(self, message: object) -> None:
        """See WorkerHandle."""
        self.pipe.send(message)

    def hung_up(self) -> bool:
        """See WorkerHandle. One that ends does so in a moment, and then it is known how."""
        self._hung_up = self._hung_up or time.monotonic()
        return self.exit_word() is not None

    def exit_word(self) -> str | None:
        """See WorkerHandle."""
        ended = self._child.exit_word()
        if ended is None and self._hung_up and time.monotonic() > self._hung_up + _LEAVING_S:
            return "closed its connection to the driver"
        return ended

    def kill(self) -> None:
        """See WorkerHandle."""
        self._child.kill()
        self.close()

    def close(self) -> None:
        """See WorkerHandle."""
        self.pipe.close()

    def join(self, timeout_s: float) -> None:
        """See WorkerHandle."""
        self._child.kill(after_s=timeout_s)


def worker_variables(threads: int) -> dict[str, str]:
    """What is set in the environment of every worker, before it imports anything."""
    return {IN_WORKER: "1", **thread_variables(threads)}


class LocalSite:
    """Starts worker processes on this machine.

    Parameters
    ----------
    code, arrays:
        The user's code, pickled, and large arrays that belong to it.
    files:
        Folder for what the workers write.
    threads, devices:
        How many threads for each, and the devices that are shared out.
    """

    bell = None

    def __init__(
        self,
        code: bytes,
        arrays: Sequence[pickle.PickleBuffer],
        files: Path,
        threads: int,
        devices: Sequence[str],
    ) -> None:
        self._files = files.resolve()
        try:
            self._files.mkdir(mode=0o700, parents=True, exist_ok=True)
            # through a file: a large one would fill the pipe, and the driver wait for slow
            # starters. Earlier versions left one of this name: that is deleted
            self._code = write_code(self._files / "code.pkl", code, arrays)
        except OSError as error:
            raise StudyError(
                "train and the checks, with the data that they close over "
                f"({size(code_size(code, arrays))}), "
                f"cannot be written to {self._files} for the workers: {error.strerror or error}; "
                "make room, give study= on a larger disk, or load the data inside train"
            ) from None
        self._threads, self._devices = threads, devices

    def start(self, index: int) -> WorkerProcess:
        """See Site."""
        device = self._devices[index % len(self._devices)] if self._devices else None
        setup = Setup(str(self._files), device, self._threads)
        return WorkerProcess(setup, self._code.fileno(), self._files / f"worker-{index}.log")

    def look(self) -> tuple[()]:
        """See Site."""
        return ()

    def close(self) -> None:
        """See Site. The file with the code is gone with it."""
        self._code.close()
