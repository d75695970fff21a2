"""What acknowledged reports outlast; that they do is tried by tools/chaos/power_cuts.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from acetune import StudyCallback, Trial
from acetune.core.errors import GoalError
from acetune.run import tuning
from acetune.study.store import Store
from run.helpers import rows, tune

NORMAL, FULL = 1, 2  # of SQLite


def train(trial: Trial) -> None:
    trial.report(1.0)


class Looking(StudyCallback):
    """Notes how the driver commits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: set[int] = set()
        self._stores: list[Store] = []
        opened = tuning.open_study

        def noting(*given: Any, **options: Any) -> Store:
            self._stores.append(opened(*given, **options))
            return self._stores[-1]

        monkeypatch.setattr(tuning, "open_study", noting)

    def on_report(self, *_: Any) -> None:
        row = self._stores[-1].rows("PRAGMA synchronous")[0]
        self.found.add(row["synchronous"])


def test_commits_wait_for_the_disk_where_a_power_cut_is_to_lose_nothing(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, (durability, synchronous) in enumerate(
        [("process", NORMAL), ("power", FULL), ("process", NORMAL)], start=1
    ):
        looking = Looking(monkeypatch)
        options = {} if number == 1 else {"durability": durability}  # each session as it likes
        tune(train, study, max_trials=number, callbacks=[looking], **options)
        assert looking.found == {synchronous}
        (settings,) = rows(study, "SELECT settings FROM study")
        assert json.loads(settings["settings"])["durability"] == durability


def test_another_word_is_refused(study: Path) -> None:
    with pytest.raises(GoalError, match="durability must be 'process' or 'power', got 'full'"):
        tune(train, study, durability="full")
    assert not study.exists()
