"""Experiments on a real Ray Tune."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ray import tune

from acetune import Constraint
from acetune.ray import AceScheduler

EOD = Constraint("eod", upper=0.5)


def fit(
    trainable: Any,
    folder: Path,
    configs: Sequence[dict[str, Any]] | None = None,
    *,
    scheduler: AceScheduler | None = None,
    search: Any = None,
    samples: int = 1,
    concurrent: int = 1,
    failures: int = 0,
    reuse_actors: bool = True,
    metric: str | None = "auc",
    mode: str | None = "max",
    checkpoint_frequency: int = 0,
    callbacks: Sequence[Any] = (),
    stop: Any = None,
    **param_space: Any,
) -> tune.ResultGrid:
    """Run configurations one after the other, or what the search says."""
    if configs is not None:
        param_space = {"case": tune.grid_search(list(configs))}
    return tune.Tuner(
        trainable,
        param_space=param_space,
        tune_config=tune.TuneConfig(
            metric=metric,
            mode=mode,
            scheduler=scheduler or AceScheduler([EOD], "ace"),
            search_alg=search,
            num_samples=samples,
            max_concurrent_trials=concurrent,
            reuse_actors=reuse_actors,
        ),
        run_config=tune.RunConfig(
            name="experiment",
            storage_path=str(folder),
            failure_config=tune.FailureConfig(max_failures=failures),
            checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=checkpoint_frequency),
            callbacks=list(callbacks),
            stop=stop,
            verbose=0,
        ),
    ).fit()


def rows(folder: Path, query: str) -> list[dict[str, Any]]:
    """A query to the study file of an experiment; reasons of trials are put into words too."""
    db = sqlite3.connect(folder / "experiment" / "acetune.db")
    db.row_factory = sqlite3.Row
    try:
        found = [dict(row) for row in db.execute(query)]
        words = dict(db.execute("SELECT code, sentence FROM wordings").fetchall())
    finally:
        db.close()
    for row in found:
        if row.get("reason") and "reason_numbers" in row:
            numbers = row["numbers"] = json.loads(row["reason_numbers"])
            row["code"] = row["reason"]
            row["reason"] = words[row["reason"]].format(**numbers)
    return found


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until something has happened."""
    import time

    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
