"""Only workers that were given the key get in."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator

import pytest

from acetune.run import _ray_connections as module
from acetune.run._messages import DriverChannel, Notice
from acetune.run._ray_connections import ConnectionListener, Pass, enter
from run.helpers import wait_for


@pytest.fixture
def listener() -> Iterator[ConnectionListener]:
    with contextlib.closing(ConnectionListener("127.0.0.1")) as opened:
        yield opened


def come_in(listener: ConnectionListener) -> list[tuple[bytes, DriverChannel]]:
    """Who comes in, once the bell has rung."""
    assert select.select([listener.bell], [], [], 10.0)[0]
    return listener.collect()


def entering(card: Pass) -> threading.Thread:
    """A worker that comes, says hello and listens."""

    def worker() -> None:
        with contextlib.closing(enter(card)) as pipe:
            pipe.send(Notice("hello"))
            assert pipe.receive() == "good-bye"

    thread = threading.Thread(target=worker)
    thread.start()
    return thread


def test_a_worker_comes_in_and_is_known_by_its_token(listener: ConnectionListener) -> None:
    cards = [listener.new_pass(), listener.new_pass()]
    workers = [entering(card) for card in cards]
    come: list[tuple[bytes, DriverChannel]] = []
    wait_for(lambda: come.extend(listener.collect()) or len(come) == 2, "both")
    assert {token for token, _ in come} == {card.token for card in cards}
    for _, pipe in come:
        wait_for(lambda pipe=pipe: pipe.receive() == [Notice("hello")], "hello")
        pipe.send("good-bye")
        pipe.close()
    for worker in workers:
        worker.join()


def test_strangers_do_not_get_in_and_keep_nobody_waiting(
    listener: ConnectionListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_HANDSHAKE_S", 1)
    card = listener.new_pass()
    with (
        socket.create_connection(card.address) as silent,
        socket.create_connection(card.address) as noisy,
    ):
        noisy.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 10)
        with pytest.raises(Exception, match="digest"):
            enter(card._replace(key=b"guessed"))
        worker = entering(card)
        ((token, pipe),) = come_in(listener)
        assert token == card.token
        pipe.send("good-bye")
        worker.join()
        pipe.close()
        for stranger in (silent, noisy):  # sent away once their time is up
            stranger.settimeout(10)
            with contextlib.suppress(ConnectionResetError):
                while stranger.recv(4096):
                    pass
    assert listener.collect() == []


def test_the_key_is_not_shown(listener: ConnectionListener) -> None:
    card = listener.new_pass()
    with contextlib.closing(ConnectionListener("127.0.0.1")) as other:
        assert len(card.key) == 32 and card.key != other.new_pass().key
    assert repr(card.key) not in repr(card) and repr(card.token) not in repr(card)


def test_nobody_is_taken_after_closing() -> None:
    listener = ConnectionListener("127.0.0.1")
    card = listener.new_pass()
    listener.close()
    with pytest.raises(OSError):
        enter(card)
