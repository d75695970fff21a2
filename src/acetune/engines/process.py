"""A worker process as the driver sees it: start, talk, notice its death, kill."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from acetune.engines.channel import DriverChannel
from acetune.engines.messages import Setup
from acetune.hardware import THREAD_VARIABLES, physical_gpu

IN_WORKER = "ACETUNE_WORKER"  # set in the environment of every worker
_CODE = (
    "import sys; sys.path.insert(0, sys.argv[4]); "
    "from acetune.engines.worker import main; main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])"
)
_PACKAGE_ROOT = str(Path(__file__).resolve().parents[2])


class WorkerProcess:
    """One process with its pipe. ``exit_handle`` becomes readable when the process has ended.

    Parameters
    ----------
    setup:
        Where it runs.
    code:
        The file with the user's code, pickled.
    log:
        For what is written outside of trials.
    """

    def __init__(self, setup: Setup, code: Path, log: Path) -> None:
        self.log = str(log)
        ours, theirs = socket.socketpair()
        with theirs, log.open("ab") as output:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    _CODE,
                    str(theirs.fileno()),
                    str(os.getpid()),
                    str(code),
                    _PACKAGE_ROOT,
                ],
                pass_fds=[theirs.fileno()],
                env=_environment(os.environ, setup.device, setup.threads),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.pipe = DriverChannel(ours)
        # a pidfd tells the death of the process itself; end-of-file on the pipe would wait for
        # every child that the training code has forked
        open_pidfd = getattr(os, "pidfd_open", None)
        self.exit_handle: int | None = None
        if open_pidfd is not None:
            with contextlib.suppress(OSError):
                self.exit_handle = open_pidfd(self._process.pid)
        self.send(setup)

    def send(self, message: object) -> None:
        """See Worker."""
        self.pipe.send(message)

    def hung_up(self) -> bool:
        """See Worker."""
        return True  # whatever state it is in: a kill ends it, and tells

    def exit_word(self) -> str | None:
        """See Worker."""
        code = self._process.poll()
        if code is None:
            return None
        if code >= 0:
            return f"exited with status {code}"
        name = signal.Signals(-code).name
        hint = " (out of memory?)" if -code == signal.SIGKILL else ""
        return f"was killed by {name}{hint}"

    def kill(self) -> None:
        """See Worker."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.close()

    def close(self) -> None:
        """See Worker."""
        self.pipe.close()
        if self.exit_handle is not None:
            os.close(self.exit_handle)
            self.exit_handle = None

    def join(self, timeout_s: float) -> None:
        """See Worker."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        # also what it has forked and left behind
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def worker_variables(threads: int) -> dict[str, str]:
    """What is set in the environment of every worker, before it imports anything."""
    return {IN_WORKER: "1", **dict.fromkeys(THREAD_VARIABLES, str(threads))}


def _environment(base: Mapping[str, str], device: str | None, threads: int) -> dict[str, Any]:
    env = {**base, **worker_variables(threads)}
    if device is not None:
        env["CUDA_VISIBLE_DEVICES"] = physical_gpu(device, base)
    return env
