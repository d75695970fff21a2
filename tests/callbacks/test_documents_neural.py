"""What the document on neural networks shows runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "callbacks_neural.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=["lightning"])
def test_the_document_runs(
    block: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(block, {"__name__": "document"})
    shown = capsys.readouterr().out
    assert "best feasible  accuracy" in shown
    assert re.search(r"^tensor\(\[.*\]\)$", shown, re.MULTILINE)  # and it predicts
    assert [path.name for path in tmp_path.iterdir()] == []  # nothing is left lying about
