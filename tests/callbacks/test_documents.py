"""The examples of the callbacks are as short as they should be."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ["lightgbm_callback", "lightgbm_sklearn_api", "xgboost_callback", "sklearn_callback"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_short(name: str) -> None:
    assert len((ROOT / "examples" / f"{name}.py").read_text().splitlines()) < 40
