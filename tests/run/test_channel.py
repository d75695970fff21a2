"""Messages arrive whole, in order and without waiting, however the bytes come."""

from __future__ import annotations

import contextlib
import math
import pickle
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acetune.core.decision import Action, Decision
from acetune.core.goals import Estimate
from acetune.core.learning import Trend
from acetune.run import _messages as m
from acetune.run._messages import DriverChannel, WorkerChannel
from acetune.trial.link import Plan, Reply, Report

MESSAGES = [
    m.Ready(),
    m.Begin(None, 0.5),
    m.Reported(Report(1, 0.5, 1, {"gap": Estimate(0.1, 0.0)}, 0.1, {"gap": 0.2}, 0.0, {"f1": 1.0})),
    m.AskGate(Report(2, float("nan"))),
    m.Notice("é" * 100_000),
    m.Piece(bytes(1 << 18)),
    m.Finished(None),
    m.Done(),
]


class Unreadable(dict[str, float]):
    """Metrics of a class that does not do what it should."""

    def __reduce__(self) -> Any:
        return Unreadable, ()

    def items(self) -> Any:
        raise OSError("no")


class Ends:
    """The raw bytes of a worker, and the driver's end."""

    def __init__(self) -> None:
        self.raw, ours = socket.socketpair()
        self.driver = DriverChannel(ours)


def bytes_of(message: object) -> bytes:
    """A message as it travels."""
    left, right = socket.socketpair()
    with left, right:
        sender = threading.Thread(target=WorkerChannel(left).send, args=(message,))
        sender.start()
        head = right.recv(12, socket.MSG_WAITALL)
        body = right.recv(struct.unpack("!4xQ", head)[0], socket.MSG_WAITALL)
        sender.join()
    return head + body


@pytest.fixture(scope="module")
def stream() -> bytes:
    return b"".join(map(bytes_of, MESSAGES))


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    with made.raw, contextlib.closing(made.driver):
        yield made


def same(found: Any, sent: Any) -> bool:
    return pickle.dumps(found) == pickle.dumps(sent)  # NaN equals itself there


@given(data=st.data())
def test_messages_come_whole_however_the_bytes_are_cut(stream: bytes, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=6).map(sorted))
    found: list[Any] = []
    ends = Ends()
    with ends.raw, contextlib.closing(ends.driver):
        for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            part = memoryview(stream)[begin:end]
            while part:  # in bites that a socket holds
                part = part[ends.raw.send(part[: 1 << 15]) :]
                found += ends.driver.receive()
        assert same(found, MESSAGES)
        assert not ends.driver.broken and not ends.driver.ended


def test_half_a_message_is_waited_for_by_nobody(ends: Ends) -> None:
    whole = bytes_of(m.Notice("later"))
    assert ends.driver.receive() == []
    ends.raw.sendall(bytes_of(m.Done()) + whole[:-3])
    assert ends.driver.receive() == [m.Done()]
    assert ends.driver.receive() == []
    ends.raw.sendall(whole[-3:])
    assert ends.driver.receive() == [m.Notice("later")]


@pytest.mark.parametrize(
    "stray",
    [
        b"x",
        b"Epoch 1: loss 0.3\n",
        b"\0" * 100,
        b"ace\x02" + struct.pack("!Q", 2**31) + b"...",
        b"ace\x02" + struct.pack("!Q", 3) + b"no!",
    ],
)
@pytest.mark.parametrize("before", [0, 1])
def test_stray_bytes_break_the_channel_after_what_came_before(
    ends: Ends, stray: bytes, before: int
) -> None:
    ends.raw.sendall(bytes_of(m.Done()) * before + stray)
    assert ends.driver.receive() == [m.Done()] * before
    assert ends.driver.broken
    ends.raw.sendall(bytes_of(m.Done()))
    assert ends.driver.receive() == []  # nothing is made of what follows


@pytest.mark.parametrize(
    "message",
    [
        None,
        {"step": 1},
        "text",
        m.Setup("", None, 1),  # only drivers send this
        m.Begin("ten", 0.1),  # type: ignore[arg-type]
        m.Saved("model", "1", "path", 1),  # type: ignore[arg-type]
        Report(1, 0.5),  # only in another one
        m.Reported(Report(1, 0.5, metrics=Unreadable())),
        m.Reported(Report("1", 0.5)),  # type: ignore[arg-type]
        m.Reported(Report(1, None)),  # type: ignore[arg-type]
        m.Reported(Report(1, 0.5, metrics={"f1": object})),  # type: ignore[dict-item]
        m.Finished(Report(1, 0.5, check_cost_s={"gap": "1"})),  # type: ignore[dict-item]
        ("report", 1),
        ("something", 1, 2),
        (),
    ],
)
def test_what_is_no_message_of_a_worker_breaks_the_channel(ends: Ends, message: object) -> None:
    if isinstance(message, tuple) and type(message) is tuple:
        data = pickle.dumps(message)
        ends.raw.sendall(b"ace\x02" + struct.pack("!Q", len(data)) + data)
    else:
        ends.raw.sendall(bytes_of(message))
    assert ends.driver.receive() == []
    assert ends.driver.broken


def test_a_worker_that_does_not_read_keeps_nobody_waiting(ends: Ends) -> None:
    pieces = [m.Piece(bytes([i]) * (1 << 20)) for i in range(8)]
    for piece in pieces:
        ends.driver.send(piece)  # far more than the socket holds
    assert ends.driver.sending
    worker, found = WorkerChannel(ends.raw), []
    reader = threading.Thread(target=lambda: found.extend(worker.receive() for _ in pieces))
    reader.start()
    while ends.driver.sending:
        ends.driver.flush()
    reader.join()
    assert found == pieces


def test_a_worker_that_has_gone_is_said_to_have_ended(ends: Ends) -> None:
    ends.raw.sendall(bytes_of(m.Done()) + b"ace")
    ends.raw.close()
    assert ends.driver.receive() == [m.Done()]
    assert ends.driver.receive() == [] and ends.driver.ended and not ends.driver.broken
    ends.driver.send(m.Evaluate("x", confirm=True))
    ends.driver.send(m.Evaluate("x", confirm=True))
    assert not ends.driver.sending


def test_threads_of_a_worker_do_not_mix_their_messages(ends: Ends) -> None:
    worker = WorkerChannel(ends.raw)
    notices = [m.Notice(str(i) * 50_000) for i in range(8)]
    threads = [threading.Thread(target=worker.send, args=(notice,)) for notice in notices]
    for thread in threads:
        thread.start()
    found: list[Any] = []
    while len(found) < len(notices):
        found += ends.driver.receive()
        assert not ends.driver.broken
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(notices)


@pytest.mark.parametrize(
    "trend", [None, Trend(), Trend(3, -0.5, 0.25, math.inf, 1e-300, 12.5, 0.125)]
)
def test_an_answer_arrives_with_what_the_study_has_learned(trend: Trend | None) -> None:
    decision = Decision(Action.STOP, "because", "valid", 3, 7, 12, {"share": 0.25})
    reply = Reply(decision, 0.5, math.inf, stop=True, ended=False, trend=trend)
    plan = Plan(1, math.inf, 0.5, ("g", "h"), trend)
    for message in (reply, plan):
        arrived = m.decode(m.encode(message))
        assert arrived == message
        assert type(arrived.trend) is type(trend)
