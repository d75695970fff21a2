"""What the document on neural networks shows runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "callbacks_neural.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=["lightning"])
def test_the_document_runs(block: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, timeout=150
    )
    assert done.returncode == 0, done.stderr
    assert "best feasible  accuracy" in done.stdout
    assert re.search(r"^tensor\(\[.*\]\)$", done.stdout, re.MULTILINE)  # and it predicts
    assert [path.name for path in tmp_path.iterdir()] == []  # nothing is left lying about
