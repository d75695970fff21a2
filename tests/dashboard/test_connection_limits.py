"""Connections that say nothing, or half of something, keep nobody else out."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from acetune.report.dashboard import DashboardServer, _connection_limits
from dashboard.serving import serving

TOKEN = "open-sesame_42"
HEAD = b"GET /static/page.css HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_connection_limits, "ASKING_S", 0.5)


def connected(server: DashboardServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.address.port), timeout=20)


def ended(raw: socket.socket) -> bool:
    """Whether the other end hangs up, having sent anything or nothing."""
    try:
        while raw.recv(65536):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HT",
        HEAD,
        HEAD + b"\r\n" + HEAD,  # a whole one, and half of the next
        HEAD + b"Content-Length: 1000000\r\n\r\nand no more",
    ],
    ids=["nothing", "a line", "a head", "one and a half", "a body"],
)
def test_a_request_that_does_not_come_whole_is_ended(study: Path, sent: bytes) -> None:
    with serving(study) as server, connected(server) as raw:
        raw.sendall(sent)
        assert ended(raw)


@pytest.mark.usefixtures("impatient")
def test_one_that_comes_byte_by_byte_is_ended(study: Path) -> None:
    with serving(study) as server, connected(server) as raw:
        with contextlib.suppress(ConnectionError):
            for _ in range(200):
                raw.sendall(b"G")
                time.sleep(0.02)
        assert ended(raw)


@pytest.mark.usefixtures("impatient")
def test_an_answer_may_take_its_time(study: Path) -> None:
    with serving(study) as server:
        url = f"http://127.0.0.1:{server.address.port}/api/events"
        with httpx.stream("GET", url, timeout=20) as answer:
            parts = answer.iter_raw()
            assert b"retry" in next(parts)
            time.sleep(1.5)
            assert (
                httpx.get(url.replace("api/events", "static/page.css"), timeout=20).status_code
                == 200
            )
            assert not answer.is_closed
            server.stop()
            assert list(parts) is not None  # it ended in good order, and was not cut off


@contextlib.contextmanager
def strangers(server: DashboardServer, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(connected(server)) for _ in range(count)]


def test_strangers_are_few_and_readers_find_room(study: Path) -> None:
    most = _connection_limits.MOST_STRANGERS
    with serving(study, token=TOKEN) as server:
        base = f"http://127.0.0.1:{server.address.port}"
        with httpx.Client(base_url=base, timeout=20) as reader:
            assert (
                reader.get(f"/static/page.js?token={TOKEN}", follow_redirects=True).status_code
                == 200
            )
            with strangers(server, 3 * most) as raws:
                for raw in raws[: 2 * most]:  # those who came first have to go
                    assert ended(raw)
                assert reader.get("/static/page.css").status_code == 200
                newcomer = httpx.get(
                    base + "/static/page.css",
                    headers={"Authorization": f"Bearer {TOKEN}"},
                    timeout=20,
                )
                assert newcomer.status_code == 200


def test_who_is_refused_has_to_leave(study: Path) -> None:
    with serving(study, token=TOKEN) as server, connected(server) as raw:
        raw.sendall(HEAD + b"\r\n")
        received = b""
        while piece := raw.recv(65536):
            received += piece
        assert received.startswith(b"HTTP/1.1 401")
        assert b"connection: close" in received.lower()
