"""Without a browser the tests in one are skipped, and under CI they fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from browser import browser_or_skip, find_browser


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine without a browser."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("BROWSER_PATH", raising=False)
    monkeypatch.delenv("CI", raising=False)
    return monkeypatch


@pytest.mark.usefixtures("bare")
def test_without_a_browser_a_test_is_skipped_and_says_so() -> None:
    assert find_browser() is None
    with pytest.raises(pytest.skip.Exception, match="apt install chromium"):
        browser_or_skip()


def test_in_ci_that_is_a_failure(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no Chrome or Chromium"):
        browser_or_skip()


def test_the_browser_that_is_named_or_installed_is_taken(
    bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("chromium", "my-own"):
        (tmp_path / name).touch(mode=0o755)
    assert browser_or_skip() == str(tmp_path / "chromium")
    bare.setenv("BROWSER_PATH", str(tmp_path / "my-own"))
    assert browser_or_skip() == str(tmp_path / "my-own")
