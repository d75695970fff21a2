"""The examples for neural networks are short, and the plain one keeps what it says it keeps."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

import acetune
from acetune.testing._callbacks import make_trial

EXAMPLES = Path(__file__).parents[2] / "examples"
NEURAL = ["pytorch", "lightning_callback", "transformers_callback", "keras_callback"]


@pytest.mark.parametrize("name", NEURAL)
def test_an_example_is_short(name: str) -> None:
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) < 40


def test_the_example_checks_and_keeps_the_best_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acetune, "tune", lambda *_, **__: "")  # the study itself: test_docs.py
    example: dict[str, Any] = runpy.run_path(str(EXAMPLES / "pytorch.py"))
    torch.set_num_threads(1)
    torch.manual_seed(0)
    trial, link = make_trial(
        tmp_path, example["gap"], objective="accuracy", mode="max", interval="end"
    )
    trial.params = {"lr": 0.1, "weight_decay": 0.01}
    example["train"](trial)
    trial.close()
    best = max(link.values, key=link.values.__getitem__)
    assert list(link.values) == list(range(1, 21))
    assert list(link.models) == [best]
    kept = link.load(best)
    X, y, select = example["X"], example["y"], example["select"]
    accepted = kept(X[select])[:, 0] > 0
    assert float((accepted == y[select]).float().mean()) == pytest.approx(link.values[best])
    assert link.measured() == pytest.approx({best: float(example["gap"](kept))})
