"""What all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Where a test may have its study file."""
    return tmp_path / "study.db"
