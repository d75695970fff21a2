"""A process of a bare interpreter on this machine, with a socket to talk to it.

A bare interpreter imports nothing of the user's by itself, so that scripts need no ``__main__``
guard and notebooks work. Both sides are here: :class:`Child` starts one and ends it, and
:func:`main` is where the new process begins.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

# the cores are taken before anything is imported that counts them; what imports make stays, so that
# there is no garbage to look for meanwhile; the guardian is made while there is little to copy
_CODE = (
    "import gc, json, os, sys; gc.disable(); start = json.loads(sys.argv[1]); "
    "start['cores'] and os.sched_setaffinity(0, start['cores']); "
    "sys.path.insert(0, start['here']); from _guardian import split; "
    "split(start['parent'], start['own_session'], start['descriptors']); "
    "sys.path[:] = [start['root'], *start['module_path']]; "
    "from acetune.interprocess.child import main; main(start)"
)
_HERE = Path(__file__).resolve()
_ENDING_S = 10.0
_OUT_OF_MEMORY = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)

Process = subprocess.Popen[bytes]
CAPTURED = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
"""Options of :func:`start_interpreter`: what the process prints is read here, errors are not."""


class Child:
    """A process that this one has started. It ends when this one is killed, with what it started.

    Between the two stands its guardian (``_guardian.py``), which ends as the process does.

    Parameters
    ----------
    module, function:
        What the new process calls, with its socket and the ``arguments``.
    arguments:
        Texts.
    variables:
        Set in its environment, beside those of this process.
    cores:
        The only ones it may use; any where there are none.
    own_session:
        Whether Ctrl-C spares it. If not, it shares the fate of this process's group, and ignores
        Ctrl-C.
    output:
        The file for what it prints; where this process prints by default.
    descriptors:
        Of open files that it inherits, by the same numbers.

    Attributes
    ----------
    socket:
        To the new process.
    exit_handle:
        Becomes readable when the process has ended, where the system has such a thing. End-of-file
        on the socket would wait for every child that the new process has forked.
    """

    def __init__(
        self,
        module: str,
        function: str,
        arguments: Iterable[str] = (),
        *,
        variables: Mapping[str, str] | None = None,
        cores: Iterable[int] = (),
        own_session: bool = True,
        output: IO[bytes] | None = None,
        descriptors: Iterable[int] = (),
    ) -> None:
        self.socket, theirs = socket.socketpair()
        self._out_of_memory = out_of_memory_kills()
        inherited = list(descriptors)
        start = {
            "here": str(_HERE.parent),
            "root": str(_HERE.parents[2]),
            "module_path": module_path(),
            "cores": sorted(cores),
            "parent": os.getpid(),
            "descriptor": theirs.fileno(),
            "descriptors": [theirs.fileno(), *inherited],
            "own_session": own_session,
            "module": module,
            "function": function,
            "arguments": list(arguments),
        }
        with theirs:
            self._process = start_interpreter(
                ["-c", _CODE, json.dumps(start)],
                variables or {},
                pass_fds=[theirs.fileno(), *inherited],
                stdout=output,
                stderr=output,
                start_new_session=own_session,
            )
        self.exit_handle: int | None = None
        open_pidfd = getattr(os, "pidfd_open", None)
        if open_pidfd is not None:
            with contextlib.suppress(OSError):
                self.exit_handle = open_pidfd(self._process.pid)

    def exit_word(self) -> str | None:
        """How it ended, in words, or None while it runs."""
        code = self._process.poll()
        if code is None:
            return None
        if code >= 0:
            return f"exited with status {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:  # one of those without a name of their own
            name = f"signal {-code}"
        return f"was killed by {name}{self._why() if -code == signal.SIGKILL else ''}"

    def _why(self) -> str:
        """Who may have sent SIGKILL, as far as the system says."""
        before, now = self._out_of_memory, out_of_memory_kills()
        if before is None or now is None:
            return " (out of memory?)"
        if now > before:
            return " (meanwhile the kernel ended processes for want of memory)"
        return " (sent by a process: the kernel ended none for want of memory)"

    def kill(self, after_s: float = 0.0) -> None:
        """End it, and everything it has started, at once or once it has had time to leave."""
        if not after_s or not self._ends_within(after_s):
            self._process.terminate()  # that is for its guardian
            if not self._ends_within(_ENDING_S):
                self._process.kill()  # a guardian that was stopped: the kernel does what it can
        self._process.wait()
        if self.exit_handle is not None:
            os.close(self.exit_handle)
            self.exit_handle = None

    def _ends_within(self, seconds: float) -> bool:
        if self.exit_handle is not None:
            ended = select.poll()
            ended.register(self.exit_handle, select.POLLIN)
            return bool(ended.poll(seconds * 1000))
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.poll() is not None


def start_interpreter(
    arguments: Iterable[str], variables: Mapping[str, str], **options: Any
) -> Process:
    """A new process of this Python, with nothing to read, and variables set beside those of this.

    ``options`` are others of ``Popen``. Nothing else in the package starts a process.
    """
    return subprocess.Popen(
        [sys.executable, *arguments],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        **options,
    )


def out_of_memory_kills() -> int | None:
    """How many processes this system has ended for want of memory; None where it does not say."""
    try:
        found = _OUT_OF_MEMORY.search(Path("/proc/vmstat").read_text())
    except (OSError, ValueError):  # there is no such file here
        return None
    return None if found is None else int(found[1])


def module_path() -> list[str]:
    """Where this process finds modules; the current folder by its name."""
    return [str(entry or Path.cwd()) for entry in sys.path]


def main(start: dict[str, Any]) -> None:
    """Where the new process begins, once it has its guardian."""
    function = getattr(importlib.import_module(start["module"]), start["function"])
    gc.enable()
    sys.path[:] = start["module_path"]
    function(socket.socket(fileno=start["descriptor"]), *start["arguments"])


def end_at_once() -> None:
    """End this process, with everything in its group if that is its own."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
