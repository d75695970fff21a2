"""What the tests of the paper's experiments share."""

from __future__ import annotations

import pytest

from cli.inside import Command
from paper.__main__ import main


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """``python -m paper``."""
    return Command(capsys, monkeypatch, "paper", main)
