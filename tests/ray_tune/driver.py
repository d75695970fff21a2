"""A driver of its own, for tests that kill it or take a node away from it.

Usage: python -m ray_tune.driver fit|restore|cluster|token FOLDER [ADDRESS [LIMIT]]
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import ray
from ray import tune

import acetune
from acetune import Constraint
from acetune.ray import AceScheduler, best_result

from . import trainables
from .helpers import fit, rows, wait_for

XS = [0.4, 0.9, 0.3, 0.6, 0.45]


def main(what: str, folder: Path, address: str | None = None, limit: str = "0.5") -> None:
    options: dict[str, Any] = {
        # stops none of so few: what Ray forgot when its driver was killed is trained again
        "scheduler": AceScheduler([Constraint("eod", upper=float(limit))], "ace2"),
        "concurrent": 2,
        "failures": 3,
        "x": tune.grid_search(XS),
    }
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    if what == "cluster":
        in_cluster(folder, options, quiet)
        return
    if what == "token":
        with_token(folder, options, quiet)
        return
    if address is None:
        ray.init(address="local", num_cpus=2, **quiet)
    else:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    if what == "restore":
        tuner = tune.Tuner.restore(
            str(folder / "experiment"), trainable=trainables.slow, resume_unfinished=True
        )
        tell(tuner.fit())
    else:
        tell(fit(trainables.slow, folder, **options))


def in_cluster(folder: Path, options: dict[str, Any], quiet: dict[str, Any]) -> None:
    """Three nodes; one of the two that train is taken away in the middle."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    nodes = [cluster.add_node(num_cpus=2, resources={"training": 1}) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")

    def take_away() -> None:
        study = folder / "experiment" / "acetune.db"
        wait_for(study.exists)
        wait_for(lambda: len(rows(folder, "SELECT * FROM reports WHERE step > 3")) > 0)
        cluster.remove_node(nodes[0], allow_graceful=False)
        print("node removed", flush=True)

    taking = threading.Thread(target=take_away, daemon=True)
    taking.start()
    trainable = tune.with_resources(trainables.slow, {"cpu": 1, "training": 1})
    tell(fit(trainable, folder, **options, pause=0.3))
    taking.join()
    print("nodes", sum(node["Alive"] for node in ray.nodes()))
    ray.shutdown()
    cluster.shutdown()


def with_token(folder: Path, options: dict[str, Any], quiet: dict[str, Any]) -> None:
    """A Tuner and a study with ``engine="ray"`` in a cluster that asks for a token."""
    ray.init(address="local", num_cpus=2, **quiet)
    address = ray.get_runtime_context().gcs_address
    code = f"import ray; ray.init({address!r}, log_to_driver=False, logging_level='ERROR')"
    without = {**os.environ, "RAY_AUTH_MODE": "disabled"}
    outside = subprocess.Popen(
        [sys.executable, "-c", code], env=without, stderr=subprocess.DEVNULL
    )  # which takes Ray its time to give up
    tell(fit(trainables.train, folder, **options))

    def train(trial: acetune.Trial) -> None:
        for step in trial.steps(3):
            trial.report(trial.params["x"] + 1 / step, model={"x": trial.params["x"]})

    result = acetune.tune(
        train,
        {"x": acetune.uniform(0, 1)},
        objective="loss",
        mode="min",
        constraints=[Constraint("g", upper=2, check=lambda model: model["x"])],
        confirm=lambda model: {"g": acetune.Estimate(model["x"], 0.01)},
        max_trials=3,
        workers=2,
        engine="ray",
        study=folder / "study.db",
        progress=False,
    )
    assert result.best is not None and result.best.load() == dict(result.best.params)
    print("study", result.status, result.counts)
    print("without a token:", "let in" if outside.wait(120) == 0 else "refused")
    ray.shutdown()


def tell(grid: tune.ResultGrid) -> None:
    best = best_result(grid)
    assert best is not None
    print("errors", grid.num_errors, "trials", len(grid), "best", best.config["x"], best.step)
    assert best.load() == {"x": best.config["x"], "step": best.step}


if __name__ == "__main__":
    what, folder, *others = sys.argv[1:]
    main(what, Path(folder), *others)
