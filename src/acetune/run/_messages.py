"""What driver and worker say to each other over their pipe."""

from __future__ import annotations

import pickle
import socket
import threading
from functools import cache, lru_cache
from types import UnionType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from acetune.core.decision import Action, Decision
from acetune.core.goals import Estimate, FailedCheck
from acetune.core.learning import Trend
from acetune.core.reason import Wording
from acetune.core.trial_record import Progress
from acetune.interprocess.frames import BlockingChannel, NonBlockingChannel, Seal
from acetune.interprocess.frames import MessageError as MessageError  # for the driver too
from acetune.trial.exclusive import DeviceNeeds
from acetune.trial.link import Reply, Report

# -- from the driver ------------------------------------------------------------------------------


class Setup(NamedTuple):
    """Once a worker: where it runs."""

    files: str
    device: str | None
    threads: int
    sees_files: bool = True  # whether ``files`` is the driver's own folder; if not, files are sent


class Work(NamedTuple):
    """The user's code, sent once a worker."""

    train: Any
    goals: Any
    policy: Any
    confirm: Any
    needs: DeviceNeeds = DeviceNeeds()  # of the checks that the driver makes, of configurations


class Start(NamedTuple):
    """Train a trial."""

    number: int
    attempt: int
    params: dict[str, Any]
    checkpoint: str | None
    progress: Progress


class Evaluate(NamedTuple):
    """Load a kept model and check its constraints, or confirm it."""

    path: str
    confirm: bool


# -- from a worker; those marked * wait for an answer ---------------------------------------------


class Ready(NamedTuple):
    """The worker has unpickled the user's code; or it could not."""

    error: str | None = None


class Begin(NamedTuple):
    """* Training begins."""

    total_steps: int | None
    startup_s: float


class Hardware(NamedTuple):
    """What the trial runs on, where a check depends on it."""

    description: str


class Declare(NamedTuple):
    """* The last step became known late."""

    total_steps: int


class AskGate(NamedTuple):
    """* A check is due and may be worth it: what is the gate now?"""

    report: Report  # as far as it is known before the check


class Checking(NamedTuple):
    """A check with a timeout starts; None: it has ended."""

    constraint: str | None


class Saved(NamedTuple):
    """A model, or what a trial can go on from, lies on disk."""

    kind: str
    step: int
    path: str
    size: int
    sent: bool = False  # it came in pieces just before this, and is still to be put on disk
    digest: str | None = None  # checksum of what was written


class Fetch(NamedTuple):
    """* Send a folder of the driver's as pieces of a tar: the first one, or (None) the next."""

    path: str | None


class Piece(NamedTuple):
    """A piece of a folder as a tar, to the driver or from it; an empty one is the end."""

    data: bytes


class Reported(NamedTuple):
    """* A report."""

    report: Report


class Finished(NamedTuple):
    """* The trial ended by itself, perhaps with a last check."""

    report: Report | None


class Done(NamedTuple):
    """The training function has returned."""


class Failed(NamedTuple):
    """The training function raised."""

    error: str
    traceback: str
    certain: bool = False  # whether every trial would fail so


class Evaluated(NamedTuple):
    """Outcome of an Evaluate. ``certain``: every other model would fare the same."""

    measured: dict[str, Any]
    costs: dict[str, float]
    error: str | None = None
    certain: bool = False


class Notice(NamedTuple):
    """Something the user should know."""

    text: str


class Refused(NamedTuple):
    """Answer of the driver to a message that makes no sense: raised where the user can see it."""

    error: str


_LARGEST = 2**63 - 1  # that a study file can hold
ASKING = (Begin, Declare, AskGate, Fetch, Reported, Finished)  # these wait for an answer
_IN_TURN = (*ASKING, Done)

# -- as bytes -------------------------------------------------------------------------------------
# The two messages of every step travel as plain tuples: pickling their classes by name would cost
# as much as committing the report.


def encode(message: object) -> bytes:
    """A message as bytes."""
    plain = message
    if type(message) is Reported:
        plain = ("report", *message.report)
    elif type(message) is Reply:
        d, gate, keep_below, stop, ended, trend = message
        stops = d.action is Action.STOP
        why = d.why if isinstance(d.why, str) else tuple(d.why)
        decided = (stops, why, d.stratum, d.rank, d.of, d.step, dict(d.numbers))
        told = None if trend is None else tuple(trend)
        plain = ("reply", decided, gate, keep_below, stop, ended, told)
    return pickle.dumps(plain, pickle.HIGHEST_PROTOCOL)


def decode(data: bytes) -> Any:
    """The message that the bytes are, else :class:`MessageError`."""
    try:
        message = pickle.loads(data)
        if type(message) is not tuple:
            return message
        if message[0] == "report":
            return Reported(Report(*message[1:]))
        _, decided, gate, keep_below, stop, ended, trend = message
        stops, why, stratum, rank, of, step, numbers = decided
        action = Action.STOP if stops else Action.CONTINUE
        why = why if isinstance(why, str) else Wording(*why)
        decision = Decision(action, why, stratum, rank, of, step, numbers)
        trend = None if trend is None else Trend(*trend)
        return Reply(decision, gate, keep_below, stop, ended, trend)
    except Exception as error:  # unpickling may raise anything
        raise MessageError(f"it cannot be unpickled ({type(error).__name__}: {error})") from None


def decode_from_worker(data: bytes) -> Any:
    """A worker's message, whose fields are of their kinds, else :class:`MessageError`."""
    message = decode(data)
    kind = type(message)
    try:
        if kind is Reported and type(message.report) is Report:  # nearly always
            _require_report(message.report)
            return message
        if kind not in _FROM_WORKER:
            raise MessageError(f"it was a {kind.__name__}")
        _require_kinds(message, kind)
        if isinstance(message, (Reported, AskGate, Finished)) and message.report is not None:
            _require_report(message.report)
    except MessageError:
        raise
    except Exception as error:  # objects of any class may be in it
        why = f"{type(error).__name__}: {error}"
        raise MessageError(f"a {kind.__name__} cannot be looked at ({why})") from None
    return message


def _require_report(report: Report) -> None:
    _require_kinds(report, Report)
    for numbers in (report.metrics, report.check_cost_s):
        if numbers is None:
            continue
        for name, found in numbers.items():
            if not isinstance(name, str) or not isinstance(found, float):
                raise MessageError(f"a report held a {type(found).__name__} for a number")
    if report.measured is None:
        return
    for name, measured in report.measured.items():
        if isinstance(measured, Estimate):
            fine = isinstance(measured.value, float) and isinstance(measured.stderr, float)
        else:
            fine = isinstance(measured, FailedCheck) and isinstance(measured.error, str)
        if not fine or not isinstance(name, str):
            raise MessageError(f"a report held a {type(measured).__name__} for a measurement")


def require_turn(message: object, *, begun: bool) -> None:
    """That a trial begins before it does anything else, and once, else :class:`MessageError`."""
    if begun == isinstance(message, Begin) and isinstance(message, _IN_TURN):
        when = "again" if begun else "before training began"
        raise MessageError(f"it came {when}")


@cache  # asked by the driver alone, so that workers need not look at all messages as they start
def _kinds(message: type) -> tuple[tuple[type, ...], ...]:
    """The classes that each field of a message may have."""
    return tuple(_classes(hint) for hint in get_type_hints(message).values())


def _classes(hint: Any) -> tuple[type, ...]:
    if hint is Any:
        return (object,)
    if isinstance(hint, UnionType):
        return tuple(kind for part in get_args(hint) for kind in _classes(part))
    return (get_origin(hint) or hint,)


def _require_kinds(message: tuple[Any, ...], kind: type) -> None:
    """That the fields of a message, or of a report, are of their kinds."""
    wrong, whole_numbers = _looked_at(kind, tuple(map(type, message)))
    if wrong is not None:
        raise MessageError(f"a {kind.__name__} held a {wrong.__name__}")
    for place in whole_numbers:
        if not -_LARGEST <= message[place] <= _LARGEST:
            raise MessageError(f"a {kind.__name__} held a number beyond 2**63")


@lru_cache(maxsize=256)  # a study's reports are nearly all alike
def _looked_at(message: type, found: tuple[type, ...]) -> tuple[type | None, tuple[int, ...]]:
    """The first class in a message that its field may not have, and where whole numbers are."""
    wrong = (
        kind
        for kind, allowed in zip(found, _kinds(message), strict=True)
        if not issubclass(kind, allowed)
    )
    return next(wrong, None), tuple(place for place, kind in enumerate(found) if kind is int)


_FROM_WORKER = frozenset(
    (*ASKING, Ready, Hardware, Checking, Saved, Piece, Done, Failed, Evaluated, Notice)
)

_MAX_BYTES = 1 << 28  # large folders travel in pieces; nothing else comes near it


class WorkerChannel(BlockingChannel):
    """The worker's end.

    Attributes
    ----------
    turn:
        Held by who has asked, until the answer is there; links of earlier trials may still be used
        by threads that these have left behind.
    """

    def __init__(self, connected: socket.socket, seal: Seal | None = None) -> None:
        super().__init__(connected, encode, decode, _MAX_BYTES, seal)
        self.turn = threading.Lock()


class DriverChannel(NonBlockingChannel):
    """The driver's end."""

    def __init__(self, connected: socket.socket, seal: Seal | None = None) -> None:
        super().__init__(connected, encode, decode_from_worker, _MAX_BYTES, seal)
