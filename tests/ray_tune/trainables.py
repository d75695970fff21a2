"""Things to train: small, and the same every time."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from ray import tune

import acetune.ray
from acetune import Trial


def auc(x: float, step: int) -> float:
    """Rises with the steps; the larger x, the better."""
    return x - 1 / (1 + step)


def eod(x: float, step: int) -> float:
    """Falls with the steps; the larger x, the worse."""
    return x + 0.4 / step


def report(trial: Trial, x: float, at: int, /, **options: Any) -> None:
    model = {"x": x, "step": at}
    trial.report(
        auc=auc(x, at),
        model=model,
        constraints={"eod": lambda m: eod(m["x"], m["step"])},
        snapshot=dict,
        primary_cost_s=1.0,
        constraint_cost_s=0.01,
        **options,
    )


def train(config: dict[str, Any]) -> None:
    """Trains ``x`` for five steps."""
    with acetune.ray.trial(total_steps=5) as trial:
        for step in trial.steps():
            report(trial, config["x"], step)


def two_limits(config: dict[str, Any]) -> None:
    """A dear limit, and a cheap one that large x break."""
    with acetune.ray.trial(total_steps=4) as trial:
        for step in trial.steps():
            trial.report(
                auc=auc(config["x"], step),
                model=config["x"],
                constraints={"dear": lambda x: 0.1, "cheap": lambda x: x},
                primary_cost_s=1.0,
                constraint_cost_s={"dear": 5.0, "cheap": 0.1},
            )


def slow(config: dict[str, Any]) -> None:
    """The same, in a second or so."""
    with acetune.ray.trial(total_steps=10) as trial:
        for step in trial.steps():
            time.sleep(config.get("pause", 0.1))
            report(trial, config["x"], step)


def resumable(config: dict[str, Any]) -> None:
    """Fails once at step 4, and goes on from the checkpoint of step 3 if it may."""
    with acetune.ray.trial(total_steps=6) as trial:
        state = {"trained": 0}
        if trial.checkpoint is not None:
            state = json.loads((trial.checkpoint / "state.json").read_text())
        for step in trial.steps():
            failed = Path(config["scratch"]) / f"failed-{config['x']}"
            if step == 4 and config["x"] == config["fails"] and not failed.exists():
                failed.touch()
                if config.get("kill"):
                    os.kill(os.getpid(), 9)
                raise RuntimeError("out of luck")
            state["trained"] += 1

            def save(folder: Path) -> None:
                (folder / "state.json").write_text(json.dumps(state))

            report(trial, config["x"], step, checkpoint=save if config["checkpoint"] else None)
        assert state["trained"] == (6 if config["checkpoint"] else step)


class Stepwise(tune.Trainable):
    """A class trainable with checkpoints of its own; fails once at step 4."""

    def setup(self, config: dict[str, Any]) -> None:
        self.x = config["x"]
        self.trained = 0
        self.ace = acetune.ray.trial(self, total_steps=6)
        if config.get("declare"):
            self.ace.declare(6)

    def step(self) -> dict[str, Any]:
        failed = Path(self.config["scratch"]) / f"failed-{self.x}"
        if self.trained == 3 and self.x == self.config["fails"] and not failed.exists():
            failed.touch()
            raise RuntimeError("out of luck")
        self.trained += 1
        self.ace.report(
            auc=auc(self.x, self.trained),
            model=None,
            constraints={"eod": lambda: eod(self.x, self.trained)},
        )
        return self.ace.result()

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        (Path(checkpoint_dir) / "trained").write_text(str(self.trained))

    def load_checkpoint(self, checkpoint: str) -> None:
        self.trained = int((Path(checkpoint) / "trained").read_text())


def counts_tokens(config: dict[str, Any]) -> None:
    """Reports at the steps that it is given, of any size."""
    case = config["case"]
    with acetune.ray.trial(total_steps=2**62) as trial:
        for step in case["steps"]:
            report(trial, case["x"], step, step=step)
