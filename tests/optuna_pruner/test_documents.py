"""What the document shows runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "optuna.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", *command],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("block", BLOCKS)
def test_the_document_runs(block: str, tmp_path: Path) -> None:
    out = run(["-c", block], tmp_path)
    assert out.startswith("FoundCheckpoint(trial=")
    size = re.search(r"Estimate\(value=([\d.]+)", out)
    assert size is not None
    assert float(size[1]) <= 5.0


def test_every_attribute_written_is_in_the_document() -> None:
    from acetune.optuna import attributes

    for key in (attributes.START, attributes.CHECK, attributes.END, attributes.GOALS):
        assert f"`{key}" in DOCUMENT
