"""What the document shows runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "callbacks.md").read_text()
EXAMPLES = ["lightgbm_callback", "lightgbm_sklearn_api", "xgboost_callback", "sklearn_callback"]
BLOCKS = {
    re.findall(r"^## (.*)$", DOCUMENT[: found.start()], re.MULTILINE)[-1]: found[1]
    for found in re.finditer(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
}


@pytest.mark.parametrize("name", BLOCKS)
def test_the_document_runs(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error::DeprecationWarning", "-c", BLOCKS[name]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr
    assert "best feasible" in done.stdout
    assert "none feasible" not in done.stdout


def test_every_block_has_a_heading_of_its_own() -> None:
    assert len(BLOCKS) == DOCUMENT.count("```python")


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_short(name: str) -> None:
    assert len((ROOT / "examples" / f"{name}.py").read_text().splitlines()) < 40
