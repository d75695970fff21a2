"""Latency limits in a Ray cluster, with our own workers and with those of Ray Tune."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ray import tune

import acetune.ray
from constraints.test_latency_study import (
    EVERY_STEP,
    STEPS,
    latency,
    limit,
    meetings,
    run,
    timed,
    training,
)
from one_ray import one_ray
from run.helpers import append_line, read_lines, rows, wait_for


def function_trainable(log: Path, start: Path) -> Any:
    train = training(log, start)

    def trainable(config: dict[str, Any]) -> None:
        with acetune.ray.trial(total_steps=STEPS, params=config) as trial:
            train(trial)

    return trainable


def class_trainable(log: Path, start: Path) -> Any:
    class Trainable(tune.Trainable):
        def setup(self, config: dict[str, Any]) -> None:
            self.trial = acetune.ray.trial(self, total_steps=STEPS)
            append_line(start, "begun")

        def step(self) -> dict[str, Any]:
            wait_for(lambda: len(read_lines(start)) >= 2, "another trial")
            timed(log, "step", 0.004)
            self.trial.report(self.config["x"], model=str(log))
            return self.trial.result()

    return Trainable


def test_workers_and_trainables_of_ray_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # workers of Ray Tune import what the trainable uses
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent), prepend=os.pathsep)
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    with one_ray(num_cpus=2):
        study = tmp_path / "study.db"
        measured, met = run(latency(), study, tmp_path, trials=2, engine="ray")
        assert measured >= 2 * STEPS * 11 and met == 0
        assert len(rows(study, "SELECT * FROM hardware")) == 2

        for kind, made in (("function", function_trainable), ("class", class_trainable)):
            log = tmp_path / f"{kind}-log"
            tune.Tuner(
                made(log, tmp_path / f"{kind}-start"),
                param_space={"x": tune.grid_search([2.0, 1.0])},
                tune_config=tune.TuneConfig(
                    metric="loss",
                    mode="min",
                    scheduler=acetune.ray.AceScheduler([limit(latency())], EVERY_STEP),
                ),
                run_config=tune.RunConfig(name=kind, storage_path=str(tmp_path), verbose=0),
            ).fit()
            measured, met = meetings(log)
            assert measured >= 2 * STEPS * 11 and met == 0
            assert len(rows(tmp_path / kind / "acetune.db", "SELECT * FROM hardware")) == 2
