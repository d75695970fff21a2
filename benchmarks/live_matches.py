"""Matches of the live runs: the default of tune() and a peer at the same time, on a core each."""

from __future__ import annotations

import contextlib
import json
import math
import select
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, TypeAlias

from acetune.core.errors import AcetuneError
from acetune.interprocess.child import Child
from acetune.trial.hardware import thread_variables
from benchmarks.live_contenders import DEFAULT, Order, Ran, ran_from_json, ran_to_json
from benchmarks.population_runs import read_lines

_PREPARING_S, _OVERTIME_S = 120.0, 300.0  # longer than that nobody takes who has not hung
_TIE = 5e-5  # objectives that are the same with four decimals


class MatchKey(NamedTuple):
    """What was run."""

    task: str  # as the command names it
    data: str  # the task's own name: which data it was
    limits: str
    peer: str
    seed: int
    seconds: float


class Match(NamedTuple):
    """What came of it."""

    mode: Literal["min", "max"]
    ours: Ran
    theirs: Ran
    cores: tuple[int, int]  # of the default, of the peer
    code: str  # which code of acetune made it


Matches: TypeAlias = dict[MatchKey, Match]


# -- running ---------------------------------------------------------------------------------------


def play(
    task: str, data: Path | None, peer: str, seed: int, seconds: float, cores: Sequence[int]
) -> tuple[Ran, Ran]:
    """Both at the same time: the default on the first core, the peer on the second."""
    where = None if data is None else str(data.resolve())
    with contextlib.ExitStack() as running:
        both = [
            running.enter_context(Contender(Order(name, task, where, seed, seconds), core))
            for name, core in zip((DEFAULT, peer), cores, strict=True)
        ]
        for contender in both:
            contender.wait_ready()
        for contender in both:
            contender.start()
        ours, theirs = (contender.result(seconds + _OVERTIME_S) for contender in both)
        return ours, theirs


class Contender:
    """A process that runs one contender on one core, with one thread."""

    def __init__(self, order: Order, core: int) -> None:
        self._order = order
        self._child = Child(
            "benchmarks.live_contenders",
            "contend",
            [json.dumps(asdict(order))],
            variables=thread_variables(1),
            cores=[core],
        )
        self._lines = self._child.socket.makefile("rw", encoding="utf-8")

    def __enter__(self) -> Contender:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):  # it has ended already
            self._lines.close()
        self._child.socket.close()
        self._child.kill()

    def wait_ready(self) -> None:
        line = self._read(_PREPARING_S)
        if line != "ready":
            self._fail(line)

    def start(self) -> None:
        with contextlib.suppress(OSError):  # how it has ended is told where its result is read
            print("start", file=self._lines, flush=True)

    def result(self, timeout_s: float) -> Ran:
        line = self._read(timeout_s)
        answer = json.loads(line)
        if "ran" not in answer:
            self._fail(line)
        return ran_from_json(answer["ran"])

    def _read(self, timeout_s: float) -> str:
        deadline = time.monotonic() + timeout_s
        if not select.select([self._child.socket], [], [], timeout_s)[0]:
            raise AcetuneError(f"{self._name} has said nothing for {timeout_s:g} s")
        line = self._lines.readline()
        if line:
            return line.rstrip("\n")
        while (ended := self._child.exit_word()) is None and time.monotonic() < deadline:
            time.sleep(0.01)
        raise AcetuneError(f"{self._name} {ended}")

    def _fail(self, line: str) -> None:
        raise AcetuneError(f"{self._name} failed:\n{json.loads(line)['error']}")

    @property
    def _name(self) -> str:
        order = self._order
        return f"{order.contender!r} on {order.task!r}, seed {order.seed},"


# -- on disk ---------------------------------------------------------------------------------------


def append_match(file: IO[str], key: MatchKey, match: Match) -> None:
    """One line a match."""
    both = {"default": ran_to_json(match.ours), "peer_run": ran_to_json(match.theirs)}
    about = {"mode": match.mode, "cores": match.cores, "code": match.code}
    file.write(json.dumps({**key._asdict(), **about, **both}) + "\n")
    file.flush()


def read_matches(path: Path) -> Matches:
    """What the file holds; of two lines on the same match the later one counts."""
    return read_lines(path, "live match", _parse)


def _parse(line: dict[str, Any]) -> tuple[MatchKey, Match]:
    key = MatchKey(**{name: line[name] for name in MatchKey._fields})
    ours, theirs = ran_from_json(line["default"]), ran_from_json(line["peer_run"])
    first, second = line["cores"]
    return key, Match(line["mode"], ours, theirs, (first, second), line["code"])


# -- in numbers ------------------------------------------------------------------------------------


class Summary(NamedTuple):
    """How the default fared against a peer on a task, over seeds."""

    matches: int
    median: float | None  # of the best feasible objective; None: nothing was found
    peer_median: float | None
    wins: int
    ties: int
    losses: int
    share: float  # median share of the time until the peer's last answer was reached
    never: int  # how often it was not
    unlimited: float | None  # median of the best objective that either saw, whatever the limits


def summarise(matches: Iterable[tuple[MatchKey, Match]]) -> Summary:
    """Over seeds. Who found nothing feasible is worse than who found anything."""
    pairs = list(matches)
    sign = 1.0 if pairs[0][1].mode == "min" else -1.0
    losses = [(_loss(m.ours, sign), _loss(m.theirs, sign)) for _, m in pairs]
    came = [_compared(*pair) for pair in losses]
    shares = [reached_s(m) / key.seconds for key, m in pairs]
    seen = [
        min(math.inf if r.unlimited is None else sign * r.unlimited for r in (m.ours, m.theirs))
        for _, m in pairs
    ]
    return Summary(
        len(pairs),
        _value(_median([ours for ours, _ in losses]), sign),
        _value(_median([theirs for _, theirs in losses]), sign),
        came.count(1),
        came.count(0),
        came.count(-1),
        _median(shares),
        sum(map(math.isinf, shares)),
        _value(_median(seen), sign),
    )


def reached_s(match: Match) -> float:
    """When the default knew an answer as good as the peer's last one: infinite for never.

    Where the peer has none, anything is as good.
    """
    sign = 1.0 if match.mode == "min" else -1.0
    goal = _loss(match.theirs, sign)
    times = (known.time_s for known in match.ours.known if sign * known.value <= goal)
    return next(times, math.inf)


def _loss(ran: Ran, sign: float) -> float:
    return math.inf if ran.best is None else sign * ran.best


def _compared(ours: float, theirs: float) -> int:
    """1 for a win, 0 for a tie, -1 for a loss."""
    if ours == theirs or abs(ours - theirs) < _TIE:
        return 0
    return 1 if ours < theirs else -1


def _median(losses: Sequence[float]) -> float:
    """Infinite as soon as half of them are."""
    ordered = sorted(losses)
    middle = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return math.inf if math.isinf(middle[1]) else sum(middle) / 2


def _value(loss: float, sign: float) -> float | None:
    return None if math.isinf(loss) else sign * loss
