"""Storages of every kind, and a quiet Optuna."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import optuna
import pytest
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend

KINDS = ("memory", "sqlite", "journal")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)


@pytest.fixture(params=KINDS)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseStorage]:
    if request.param == "memory":
        yield InMemoryStorage()
    elif request.param == "journal":
        yield JournalStorage(JournalFileBackend(str(tmp_path / "study.log")))
    else:
        rdb = RDBStorage(f"sqlite:///{tmp_path / 'study.db'}")
        yield rdb
        rdb.remove_session()
        rdb.engine.dispose()
