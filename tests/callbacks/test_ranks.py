"""Callbacks of two ranks that share a trial: what rank 0 reports counts, both stop together."""

from __future__ import annotations

import queue
import threading
from pathlib import Path
from typing import Any

import pytest

from acetune.callbacks._reporter import Reporter, alone_only
from acetune.core.errors import ReportError
from acetune.distributed import SharedTrial
from acetune.testing._callbacks import make_trial


class Model:
    def keep(self) -> Model:
        return self


@pytest.mark.slow
@pytest.mark.parametrize(("stop_at", "validated"), [(3, 3), (None, 6)])
def test_two_ranks_stop_together(stop_at: int | None, validated: int, tmp_path: Path) -> None:
    trial, link = make_trial(tmp_path, lambda _: 0.0, stop_at=stop_at)
    pipe: queue.Queue[Any] = queue.Queue()
    ended: dict[int, int] = {}

    def send(word: Any) -> Any:
        pipe.put(word)
        return word

    def fit(rank: int) -> None:
        if rank == 0:
            shared = SharedTrial(trial, send)
        else:
            shared = SharedTrial(None, lambda _: pipe.get(timeout=20))
        reporter = Reporter(shared, "loss", None)
        reporter.begin(6)
        for step in range(1, 7):
            ended[rank] = step
            if reporter.report(step, float(10 * rank + step), Model()):
                break

    ranks = [threading.Thread(target=fit, args=(rank,)) for rank in (0, 1)]
    for thread in ranks:
        thread.start()
    for thread in ranks:
        thread.join(timeout=30)
    assert ended == {0: validated, 1: validated}
    assert link.values == {step: float(step) for step in range(1, validated + 1)}
    assert link.declared == [6]


def test_checkpoints_need_one_process() -> None:
    alone_only(checkpoints=True, ranks=1)
    alone_only(checkpoints=False, ranks=2)
    with pytest.raises(ReportError, match="this one has 2"):
        alone_only(checkpoints=True, ranks=2)
