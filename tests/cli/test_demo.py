"""The demo, shortened: what it leaves behind and what it says at its end."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from acetune.cli import app
from acetune.cli.exits import code_of
from acetune.study.result import load


@pytest.mark.slow
def test_it_ends_with_a_report_and_says_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(
        app, ["demo", "--seconds", "3", "--workers", "1"], catch_exceptions=False
    )
    # in so short a time perhaps nothing qualifies, or fresh data rejects it
    assert result.exit_code == code_of(load("demo.db"))
    _, _, end = result.output.partition("report  demo.html")
    assert "opens offline in any browser" in end
    assert "acetune show demo.db --json" in end
    page = (tmp_path / "demo.html").read_text()
    assert "<title>demo.db - acetune</title>" in page
    assert "maximise auc" in page
