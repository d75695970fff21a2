"""What one adds to a script is short, and marked on its page."""

from __future__ import annotations

from pathlib import Path

import pytest

from documents import PAGES, blocks, name_of

ROOT = Path(__file__).parents[2]
PAGES = [page for page in PAGES if any(block.marked for block in blocks(page))]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_is_new_is_marked(page: Path) -> None:
    """The script before, then the script after, in which the site marks what is new."""
    before, after = (block.code.splitlines() for block in blocks(page))
    known = {line.strip() for line in before}
    new = [n for n, line in enumerate(after, start=1) if line.strip() not in known]
    assert list(blocks(page)[1].marked) == new, f'hl_lines="{" ".join(map(str, new))}"'


def test_every_framework_has_such_a_page() -> None:
    names = {page.stem for page in PAGES}
    assert {"lightgbm", "xgboost", "scikit_learn", "pytorch", "keras"} <= names


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "howto").glob("*.md")), ids=name_of)
def test_a_guide_is_short(page: Path) -> None:
    assert len(page.read_text().splitlines()) <= 85
    assert all(len(block.code.splitlines()) <= 50 for block in blocks(page))
