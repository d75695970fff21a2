"""What the document shows runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from acetune.constraints import fairness, size

DOCUMENT = (Path(__file__).parents[2] / "docs" / "constraints.md").read_text()
BLOCKS = [
    pytest.param(block, id=re.sub(r"\W+", "-", heading))
    for heading, text in re.findall(r"^##+ (.*?)\n(.*?)(?=^## |^### |\Z)", DOCUMENT, re.M | re.S)
    for block in re.findall(r"```python\n(.*?)```", text, re.S)
]


def test_no_block_is_left_out() -> None:
    assert len(BLOCKS) == DOCUMENT.count("```python")


@pytest.mark.parametrize("block", BLOCKS)
def test_the_document_runs(block: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr
    if "tune(" in block:
        assert "best feasible" in done.stdout
        assert "none feasible" not in done.stdout
    if 'on="config"' in block:
        turned_down = re.search(r"(\d+) turned down", done.stdout)
        assert turned_down is not None
        assert int(turned_down[1]) > 0


def test_every_metric_is_in_the_document() -> None:
    for name in (*fairness.__all__, *size.__all__):
        assert f"`{name}" in DOCUMENT or f"size.{name}" in DOCUMENT
