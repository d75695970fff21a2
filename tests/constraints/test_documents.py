"""The pages on constraints leave nothing out."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from acetune.constraints import fairness, size

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("module", [fairness, size], ids=lambda module: module.__name__)
def test_every_metric_is_in_the_document(module: ModuleType) -> None:
    name = module.__name__.rpartition(".")[2]
    page = (ROOT / "docs" / f"{name}.md").read_text()
    for metric in module.__all__:
        assert f"`{metric}" in page or f"{name}.{metric}" in page
