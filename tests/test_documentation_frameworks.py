"""Every Python block of the pages that load frameworks runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from documents import DOCS, FRAMEWORKS, require_page


@pytest.mark.timeout(420)  # Ray on a busy machine
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_code_of_a_page_runs(name: str, tmp_path: Path) -> None:
    require_page(DOCS / name, tmp_path)
