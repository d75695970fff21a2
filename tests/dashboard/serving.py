"""A real server beside the test, and what it sends."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

from acetune.report.dashboard import DashboardServer


@contextlib.contextmanager
def serving(study: Path, **options: Any) -> Iterator[DashboardServer]:
    """A dashboard that answers, in a thread, on any free port unless one is given."""
    server = DashboardServer(study, **{"port": 0, **options})
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(20)
        assert not thread.is_alive(), "the server does not end"


@contextlib.contextmanager
def asking(study: Path, **options: Any) -> Iterator[httpx.Client]:
    """A client of such a server, that gives up after a while instead of hanging."""
    with serving(study, **options) as server:
        base = f"http://127.0.0.1:{server.address.port}"
        with httpx.Client(base_url=base, timeout=20) as client:
            yield client


def events(answer: httpx.Response) -> Iterator[tuple[str, Any]]:
    """The server-sent events of a stream: name and data."""
    name = ""
    for line in answer.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith(":"):
            raise AssertionError("a sign of life, and no news before it")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def told_of(
    told: Iterator[tuple[str, Any]], name: str, test: Callable[[Any], Any] = lambda data: True
) -> Any:
    """The data of the first event of that name that passes the test."""
    return next(data for found, data in told if found == name and test(data))


def until(found: Callable[[], Any], seconds: float = 20.0) -> Any:
    """What ``found`` gives, as soon as it is something; a failed test if it never is."""
    end = time.monotonic() + seconds
    while not (result := found()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)
    return result
