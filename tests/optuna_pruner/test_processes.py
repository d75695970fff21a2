"""Several processes share a study."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

import acetune.optuna
from optuna_pruner.worker import LAST, LIMIT, opened, pruner, truth, work


@pytest.mark.parametrize(("kind", "each"), [("sqlite", 2), ("journal", 6)])
def test_three_processes_agree(kind: str, each: int, tmp_path: Path) -> None:
    path = str(tmp_path / "shared")
    storage = opened(kind, path)
    mine = pruner()  # lives through all of it
    study = optuna.create_study(study_name="s", storage=storage, pruner=mine)
    first = acetune.optuna.trial(study.ask(), total_steps=LAST)
    first.report(9.0, constraints={"g": 9.0})
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        running = [pool.apply_async(work, (kind, path, seed, each)) for seed in range(3)]
        while not all(one.ready() for one in running):
            mine.prune(study, study.trials[0])
            running[0].wait(0.2)
        assert [wrong for one in running for wrong in one.get()] == []

    trials = study.get_trials()
    assert len(trials) == 1 + 3 * each
    for trial in trials:
        assert mine.prune(study, trial) == pruner().prune(study, trial)
    for trial in trials[1:]:
        assert trial.state in (TrialState.COMPLETE, TrialState.PRUNED)
        if trial.state is TrialState.COMPLETE and trial.constraints["g"] <= 0:
            steps = [s for s, value in trial.intermediate_values.items() if value == trial.value]
            assert any(truth(trial.params, step)[1] <= LIMIT for step in steps)
    found = acetune.optuna.best(study)
    assert found is not None
    assert (found.value, found.constraints["g"].value) == truth(found.params, found.step)
    assert found.constraints["g"].value <= LIMIT
    assert found.value == study.best_trial.value
    if kind == "sqlite":
        storage.remove_session()
        storage.engine.dispose()
