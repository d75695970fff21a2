"""The guide for PyTorch keeps what it says it keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch

import acetune
from acetune.testing._callbacks import make_trial
from documents import DOCS, blocks


def test_the_example_checks_and_keeps_the_best_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the study itself: test_documentation_frameworks.py
    monkeypatch.setattr(acetune, "tune", MagicMock())
    example: dict[str, Any] = {}
    exec(blocks(DOCS / "howto" / "pytorch.md")[1].code, example)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    trial, link = make_trial(
        tmp_path, example["gap"], objective="accuracy", mode="max", interval="end"
    )
    trial.params = {"lr": 0.1, "weight_decay": 0.01}
    example["train"](trial)
    trial.close()
    best = max(link.values, key=link.values.__getitem__)
    assert list(link.values) == list(range(1, 11))
    assert list(link.models) == [best]
    kept = link.load(best)
    assert float(example["accuracy"](kept)) == pytest.approx(link.values[best])
    assert link.measured() == pytest.approx({best: float(example["gap"](kept))})
