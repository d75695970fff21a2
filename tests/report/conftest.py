"""What the tests of the report share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from acetune.report.html import write_report
from synthetic_study import make_study

if TYPE_CHECKING:
    from playwright.sync_api import Browser


# for a module, not for the session: while it is open no other event loop can run in this thread
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser without a window."""
    from browser import browsing  # Playwright, which most tests here do without

    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study that has ended, with two constraints."""
    path = tmp_path_factory.mktemp("finished") / "study.db"
    return make_study(path, trials=120, reports=2400, constraints=2)


@pytest.fixture(scope="module")
def report(finished: Path) -> Path:
    """Its report."""
    return write_report(finished, finished.with_suffix(".html"))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a study whose every word is markup."""
    folder = tmp_path_factory.mktemp("hostile")
    study = make_study(folder / "study.db", trials=40, reports=600, constraints=2, hostile=True)
    return write_report(study, folder / "report.html")
