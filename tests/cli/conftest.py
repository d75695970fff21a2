"""What the tests of the command share."""

from __future__ import annotations

import pytest

from cli.inside import Command


@pytest.fixture
def acetune(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command."""
    return Command(capsys, monkeypatch)
