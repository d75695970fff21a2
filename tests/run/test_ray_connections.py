"""Only workers that were given the key get in."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from acetune.run import _ray_connections as module
from acetune.run._messages import DriverChannel, Notice
from acetune.run._ray_connections import ConnectionListener, Pass, enter
from run.helpers import output_of, script, wait_for


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


class Between:
    """Stands between driver and worker, and changes what a worker sends."""

    def __init__(self, listener: ConnectionListener, change: Callable[[bytes], bytes]) -> None:
        self.card = listener.new_pass()
        self._server = socket.create_server(("127.0.0.1", 0))
        self._to, self._change = self.card.address, change
        self.card = self.card._replace(address=self._server.getsockname())
        self.changing = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with self._server:
            worker, _ = self._server.accept()
        with worker, socket.create_connection(self._to) as driver:
            back = threading.Thread(target=self._pass_on, args=(driver, worker, bytes))
            back.start()
            self._pass_on(worker, driver, self._change)
            back.join()

    def _pass_on(
        self, one: socket.socket, other: socket.socket, change: Callable[[bytes], bytes]
    ) -> None:
        with contextlib.suppress(OSError):
            while piece := one.recv(65536):
                other.sendall(change(piece) if self.changing.is_set() else piece)
            other.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize(
    "change",
    [
        lambda piece: piece.replace(b"second", b"other!"),
        lambda piece: piece + piece,
        lambda piece: piece[: len(piece) // 2] + bytes([piece[-1] ^ 1]) + piece[len(piece) // 2 :],
    ],
    ids=["changed", "repeated", "inserted"],
)
def test_what_the_worker_has_not_sent_is_not_read(
    listener: ConnectionListener, change: Callable[[bytes], bytes]
) -> None:
    between = Between(listener, change)
    with contextlib.closing(enter(between.card)) as worker:
        ((_, pipe),) = come_in(listener)
        heard: list[object] = []
        worker.send(Notice("first"))
        wait_for(lambda: heard.extend(pipe.receive()) or heard, "the first")
        between.changing.set()
        worker.send(Notice("second"))
        worker.send(Notice("third"))
        wait_for(lambda: heard.extend(pipe.receive()) or pipe.broken, "the breach")
        assert "seal" in (pipe.broken or "") or "began with" in (pipe.broken or "")
        sent = [Notice(text) for text in ("first", "second", "third")]
        assert heard == sent[: len(heard)]  # each at most once, in order, as it was
        pipe.close()


def test_a_token_lets_in_once(listener: ConnectionListener) -> None:
    card = listener.new_pass()
    worker = entering(card)
    ((_, pipe),) = come_in(listener)
    with contextlib.closing(enter(card)) as second, pytest.raises((EOFError, ConnectionError)):
        second.receive()
    assert listener.collect() == []
    pipe.send("good-bye")
    worker.join()
    pipe.close()


OUT_OF_DESCRIPTORS = """
import os, resource, select, threading, time
from acetune.run._ray_connections import ConnectionListener, enter

listener = ConnectionListener("127.0.0.1")
cards = [listener.new_pass() for _ in range(3)]
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
read, write = os.pipe()
if os.fork() == 0:  # the workers, with descriptors of their own
    os.read(read, 1)
    pipes = [enter(card) for card in cards]
    time.sleep(2)  # and says nothing: the driver's line would be mixed with its own
    os._exit(0)
resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
taken = []
try:
    while True:
        taken.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    os.write(write, b"!")
time.sleep(1.5)
for descriptor in taken:
    os.close(descriptor)
come = []
end = time.monotonic() + 60
while len(come) < 3 and time.monotonic() < end:
    select.select([listener.bell], [], [], 1.0)
    come += listener.collect()
print("come", len(come), flush=True)
"""


def test_a_driver_without_descriptors_takes_workers_later(tmp_path: Path) -> None:
    with script(tmp_path / "driver.py", OUT_OF_DESCRIPTORS) as driver:
        assert "come 3" in output_of(driver)


def test_strangers_are_few(listener: ConnectionListener) -> None:
    card = listener.new_pass()
    with contextlib.ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection(card.address, timeout=20))
            for _ in range(module._MOST_STRANGERS + 20)
        ]
        worker = entering(card)
        ((_, pipe),) = come_in(listener)
        with contextlib.suppress(ConnectionResetError):
            while silent[0].recv(4096):  # who came first was sent away
                pass
        pipe.send("good-bye")
        worker.join()
        pipe.close()


def test_nobody_is_taken_after_closing() -> None:
    listener = ConnectionListener("127.0.0.1")
    card = listener.new_pass()
    listener.close()
    with pytest.raises(OSError):
        enter(card)
