"""A small round of each part of the campaign that takes no minutes and needs no root.

The long one is in docs/testing.md.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from documents import DOCS, ROOT
from tools.chaos import page
from tools.chaos.campaign import NAMES, part

SMALL = [name for name in NAMES if part(name).small is not None]


@pytest.mark.parametrize("name", SMALL)
def test_a_small_round_finds_no_fault(name: str) -> None:
    """In a process of its own: it forks, and sets alarms."""
    words = [sys.executable, "-m", "tools.chaos", name, "--round", "0", "--small"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=170)
    assert done.returncode == 0 and "FAULT" not in done.stdout, done.stdout + done.stderr


def test_the_page_shows_what_was_found() -> None:
    found = json.loads(page.RESULTS.read_text())
    text = (DOCS / "testing.md").read_text()
    assert text == page.with_table(text, found), "run: python -m tools.chaos --page"
    assert set(found["parts"]) <= set(NAMES)
