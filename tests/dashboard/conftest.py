"""What the tests of the dashboard share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from dashboard.serving import asking
from synthetic_study import make_study


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study that has ended."""
    return make_study(tmp_path_factory.mktemp("finished") / "study.db", trials=40, reports=800)


@pytest.fixture(scope="module")
def client(finished: Path) -> Iterator[httpx.Client]:
    """A client of a server, on this machine, that shows it."""
    with asking(finished) as client:
        yield client
