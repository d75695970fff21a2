"""Processes of a round: found by a mark in their environment, frozen, killed, and missed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from run.helpers import alive
from tools.chaos.campaign import HERE, TESTS, Tally

_MARK = "CHAOS_ROUND"
GONE_S = 20.0  # for what a driver leaves to end, on a busy machine
_TOLD = 4000  # characters of an error


class Drivers:
    """Runs one script after another, all of whose processes carry a mark.

    Parameters
    ----------
    folder:
        An empty folder of the round.
    tally:
        Where what was done is counted.
    """

    def __init__(self, folder: Path, tally: Tally) -> None:
        self.folder, self.tally = folder, tally
        self._mark = f"{_MARK}={folder}"
        self._number = 0
        self.error = folder / "error"

    def start(self, source: str, *arguments: object) -> subprocess.Popen[bytes]:
        """A script in a process of its own; what it complains of goes to ``error``."""
        path = self.folder / "driver.py"
        path.write_text(source)
        self._number += 1
        self.error = self.folder / f"error-{self._number}"
        with self.error.open("wb") as error, (self.folder / "output").open("wb") as output:
            return subprocess.Popen(
                [sys.executable, str(path), *map(str, arguments)],
                cwd=self.folder,
                env={
                    **os.environ,
                    _MARK: str(self.folder),
                    "PYTHONPATH": module_path(),
                    "OMP_NUM_THREADS": "1",
                },
                stdout=output,
                stderr=error,
                start_new_session=True,
                preexec_fn=_hear_signals,
            )

    @property
    def said(self) -> str:
        """What the last script complained of, in the end."""
        return self.all_said.rstrip()[-_TOLD:]

    @property
    def all_said(self) -> str:
        """All that the last script complained of."""
        return self.error.read_text(errors="replace")

    def others(self, driver: subprocess.Popen[bytes]) -> list[int]:
        """The processes of the round beside its driver."""
        return [pid for pid in self.processes() if pid != driver.pid]

    def processes(self) -> list[int]:
        """All living processes of the round."""
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                with contextlib.suppress(OSError):
                    if self._mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                        found.append(int(folder.name))
        return [pid for pid in found if alive(pid)]

    def require_gone(self, more: Iterable[int] = ()) -> None:
        """Nothing of a driver that has ended may be left after a while."""
        until, known = time.monotonic() + GONE_S, set(more)
        while left := {*self.processes(), *filter(alive, known)}:
            if time.monotonic() > until:
                for pid in left:
                    self.tally.fault("orphan", f"{GONE_S:g} s after its driver:\n{words_of(pid)}")
                    send(pid, signal.SIGKILL)
                return
            time.sleep(0.02)

    def end(self) -> None:
        """Whatever happened: leave nothing."""
        for pid in self.processes():
            send(pid, signal.SIGKILL)


def _hear_signals() -> None:
    """Whatever this process ignores, as one that was started by nohup does."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def module_path() -> str:
    """Where other processes find this package, the helpers of the tests and all else."""
    return os.pathsep.join(dict.fromkeys([str(HERE.parents[1]), TESTS, *sys.path]))


def alive_in(lines: Sequence[Sequence[str]]) -> list[int]:
    """The living processes that lines of a log end with, who wrote last comes last."""
    found = dict.fromkeys(int(line[-1]) for line in reversed(lines) if line[-1].isdigit())
    return [pid for pid in reversed(found) if alive(pid)]


@contextlib.contextmanager
def drivers(folder: Path, tally: Tally) -> Iterator[Drivers]:
    """For the scripts of a round."""
    made = Drivers(folder, tally)
    try:
        yield made
    finally:
        made.end()


def send(pid: int, number: int) -> bool:
    """Send a signal; whether there was anybody."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def freeze(pids: Iterable[int], seconds: float) -> None:
    """Stop processes, as Ctrl-Z or a laptop that is closed does, and let them go on."""
    frozen = [pid for pid in pids if send(pid, signal.SIGSTOP)]
    time.sleep(seconds)
    for pid in frozen:
        send(pid, signal.SIGCONT)


def words_of(pid: int) -> str:
    """What a process is, for people."""
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        kept = [line for line in status if line.startswith(("State", "PPid", "Threads"))]
        return f"{pid} {command[:300]} {' '.join(kept)}"
    return f"{pid}, gone meanwhile"


def wait(chance: random.Random, least: float, most: float) -> None:
    """Some time."""
    time.sleep(chance.uniform(least, most))
