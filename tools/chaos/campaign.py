"""Rounds, what they find, and the file that remembers it."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / ".chaos"
TESTS = str(HERE.parents[1] / "tests")
NAMES = (
    "local_kills",
    "ray_kills",
    "ray_tuner",
    "optuna_kills",
    "power_cuts",
    "training_code",
    "damaged_files",
    "hostile_files",
    "stopper_calls",
    "load",
)
"""The modules of this package that are parts, in the order of the page."""

FAULTS = {
    "lost": "an acknowledged report that is not in the study file",
    "doubled": "a report that is there twice",
    "altered": "a report that has another value than was given",
    "wrong": "an answer, a state or a reason that is not true",
    "raw error": "an exception that is none of acetune's documented ones",
    "orphan": "a process that outlives its driver",
    "hang": "what does not end",
}


@dataclass
class Tally:
    """What one round has done and found."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[tuple[str, str]] = field(default_factory=list)
    skipped: str = ""  # why nothing was tried

    def count(self, what: str, many: int = 1) -> None:
        """Something was done, or came out: ``kills``, ``reports acknowledged``."""
        self.counts[what] += many

    def fault(self, kind: str, text: str) -> None:
        """One of ``FAULTS`` was found."""
        assert kind in FAULTS
        self.faults.append((kind, text))

    def require(self, kind: str, holds: object, text: str) -> None:
        """A fault unless something holds."""
        if not holds:
            self.fault(kind, text)


@dataclass(frozen=True)
class Part:
    """One kind of fault.

    Parameters
    ----------
    promise, how:
        What is to hold, and how it is tried: for the page.
    round:
        One round: a chance of its own, an empty folder, and where to note what was found. An
        assertion that fails in it counts as ``wrong``, any other exception as ``raw error``.
    rounds:
        How many make the whole.
    small:
        A smaller round, which is tried with ``make test``; none where that takes too long.
    limit_s:
        A round that takes longer hangs; None where a round looks after that itself.
    """

    promise: str
    how: str
    round: Callable[[random.Random, Path, Tally], None]
    rounds: int
    small: Callable[[random.Random, Path, Tally], None] | None = None
    limit_s: float | None = 300.0


def part(name: str) -> Part:
    """The part of that name; what it needs is imported only now."""
    if TESTS not in sys.path:  # for the helpers of the tests
        sys.path.append(TESTS)
    found: Part = import_module(f"tools.chaos.{name}").PART
    return found


class SkippedError(Exception):
    """Nothing can be tried here; the text says why."""


class Hangs(BaseException):
    """A round takes too long."""


def told(error: BaseException) -> str:
    """An error and where it came from: the last places, those of this project only."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "site-packages" not in f[0]]
    places = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames[-6:]]
    try:
        text = str(error)
    except Exception:
        text = "(no text)"
    return f"{type(error).__name__}: {text[:500]}\n    at {' > '.join(places)}"


@contextlib.contextmanager
def at_most(seconds: float | None) -> Iterator[None]:
    """Raise :class:`Hangs` in here after so long. In the main thread only, and not nested."""
    if seconds is None:
        yield
        return

    def out(_signal: int, _frame: object) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, out)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def in_child(seconds: float, work: Callable[[Tally], None], tally: Tally, what: str) -> None:
    """Do something in a copy of this process, which may crash, or hang in code that is not Python.

    What it finds is found here.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        its = Tally()
        try:
            os.close(reading)
            work(its)
        except BaseException as error:
            its.fault("raw error", f"{what}: {told(error)}")
        with os.fdopen(writing, "w") as pipe:
            json.dump([its.counts, its.faults], pipe)
        os._exit(0)
    os.close(writing)
    until = time.monotonic() + seconds
    with os.fdopen(reading) as pipe:
        ready = select.select([pipe], [], [], max(0.0, until - time.monotonic()))[0]
        if not ready:
            os.kill(child, signal.SIGKILL)
        said = pipe.read() if ready else ""
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if not ready:
        tally.fault("hang", f"{what}: no end after {seconds:g} s")
    elif status:
        tally.fault("raw error", f"{what}: it ended the process with {status}")
    else:
        counts, faults = json.loads(said)
        tally.counts.update(counts)
        tally.faults += map(tuple, faults)


def try_round(name: str, number: int, seed: int = 0, *, small: bool = False) -> Tally:
    """One round; the same number and seed try the same."""
    what, tally = part(name), Tally()
    with tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True) as folder:
        try:
            with at_most(what.limit_s):
                chance = random.Random(f"{seed} {name} {number}")
                (what.small if small and what.small else what.round)(chance, Path(folder), tally)
        except SkippedError as reason:
            tally.skipped = str(reason)
        except Hangs as error:
            tally.fault("hang", f"after {what.limit_s} s: {told(error)}")
        except AssertionError as error:
            tally.fault("wrong", told(error))
        except Exception as error:
            tally.fault("raw error", told(error))
    return tally


class Book:
    """What all rounds of a part have found so far: a file with a line of JSON per round.

    Parameters
    ----------
    name, seed:
        The part; rounds of another seed are others.
    folder:
        Where the file lies.
    anew:
        Forget what it holds.
    """

    def __init__(
        self, name: str, folder: Path = RESULTS, seed: int = 0, *, anew: bool = False
    ) -> None:
        self.name, self.seed, self._path = name, seed, folder / f"{name}.jsonl"
        if anew:
            self._path.unlink(missing_ok=True)
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        self.lines: list[dict[str, Any]] = [json.loads(line) for line in lines]

    @property
    def rounds(self) -> int:
        """How many rounds of this seed were tried; the next one has that number."""
        return sum(line["seed"] == self.seed for line in self.lines)

    def try_next(self) -> dict[str, Any]:
        """Try one round more, and note what it found."""
        began, number = time.monotonic(), self.rounds
        tally = try_round(self.name, number, self.seed)
        line = {
            "part": self.name,
            "seed": self.seed,
            "round": number,
            "seconds": round(time.monotonic() - began, 2),
            "counts": dict(sorted(tally.counts.items())),
            "faults": tally.faults,
            "skipped": tally.skipped,
            "commit": commit(),
        }
        self.lines.append(line)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return line


@functools.cache
def commit() -> str:
    """Of the code that is tried, with a plus where it was changed since."""
    words = ["git", "-C", str(HERE), "describe", "--always", "--dirty=+", "--exclude=*"]
    done = subprocess.run(words, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"
