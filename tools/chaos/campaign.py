"""Rounds, what they find, and the file that remembers it."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import random
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results"
NAMES = ("stopper_calls",)
"""The modules of this package that are parts, in the order of the page."""

FAULTS = {
    "lost": "an acknowledged report that is not in the study file",
    "doubled": "a report that is there twice",
    "wrong": "an answer, a state or a reason that is not true",
    "raw error": "an exception that is none of acetune's documented ones",
    "orphan": "a process that outlives its driver",
    "hang": "what does not end",
}
_KEPT_EXAMPLES = 5


@dataclass
class Tally:
    """What one round has done and found."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[tuple[str, str]] = field(default_factory=list)

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
    short:
        How many are tried with every ``make test``.
    limit_s:
        A round that takes longer hangs. Only one that runs in this process needs it.
    """

    promise: str
    how: str
    round: Callable[[random.Random, Path, Tally], None]
    rounds: int
    short: int = 1
    limit_s: float = 300.0


def part(name: str) -> Part:
    """The part of that name; what it needs is imported only now."""
    found: Part = import_module(f"tools.chaos.{name}").PART
    return found


class Hangs(BaseException):
    """A round takes too long."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise :class:`Hangs` in here after so long. In the main thread only."""

    def out(_signal: int, _frame: object) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, out)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def try_round(name: str, number: int) -> Tally:
    """One round; the same number tries the same."""
    what, tally = part(name), Tally()
    with tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True) as folder:
        try:
            with at_most(what.limit_s):
                what.round(random.Random(f"{name} {number}"), Path(folder), tally)
        except Hangs:
            tally.fault("hang", f"after {what.limit_s:g} s:\n{traceback.format_exc()}")
        except AssertionError:
            tally.fault("wrong", traceback.format_exc())
        except Exception:
            tally.fault("raw error", traceback.format_exc())
    return tally


class Book:
    """What all rounds of a part have found so far, in a file.

    ``rounds`` were tried; the next one has that number.
    """

    def __init__(self, name: str, folder: Path = RESULTS, *, anew: bool = False) -> None:
        self.name, self._path = name, folder / f"{name}.json"
        known = {} if anew or not self._path.exists() else json.loads(self._path.read_text())
        self.rounds: int = known.get("rounds", 0)
        self.seconds: float = known.get("seconds", 0.0)
        self.counts = Counter[str](known.get("counts", {}))
        self.faults = Counter[str](known.get("faults", {}))
        self.examples: list[list[Any]] = known.get("examples", [])

    def try_next(self) -> Tally:
        """Try one round more, and note what it found."""
        began = time.monotonic()
        tally = try_round(self.name, self.rounds)
        self.seconds += time.monotonic() - began
        self.counts.update(tally.counts)
        for kind, text in tally.faults:
            self.faults[kind] += 1
            self.examples.append([self.rounds, kind, text])
        del self.examples[_KEPT_EXAMPLES:]
        self.rounds += 1
        self._write()
        return tally

    def _write(self) -> None:
        found = {
            "part": self.name,
            "rounds": self.rounds,
            "seconds": round(self.seconds, 1),
            "counts": dict(sorted(self.counts.items())),
            "faults": dict(sorted(self.faults.items())),
            "examples": self.examples,
            "versions": {"acetune": version("acetune"), "python": platform.python_version()},
            "machine": f"{platform.system()} {platform.release()}, {os.cpu_count()} cores",
        }
        self._path.parent.mkdir(exist_ok=True)
        draft = self._path.with_suffix(".new")
        draft.write_text(json.dumps(found, indent=2) + "\n")
        draft.replace(self._path)
