"""Syne Tune's simulator on curves from a file: the peer of ``replay_speed.py``, at its fastest.

It runs under an interpreter that has Syne Tune and need not have acetune. It reads jobs from
standard input, one JSON object a line, and answers each with a line. What is timed is its loop
without its start and its end. Set so that it is fast, by its own options: a black box that hands
out plain Python numbers (its table looks each configuration up in a data frame), random search
without a model, no delays, no sleep, no files, and nothing printed. The garbage collector is off.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import platform
import sys
import time
from importlib import metadata
from typing import Any

import numpy as np
from syne_tune import StoppingCriterion, Tuner
from syne_tune.backend.simulator_backend.simulator_backend import SimulatorConfig
from syne_tune.backend.simulator_backend.simulator_callback import SimulatorCallback
from syne_tune.blackbox_repository import UserBlackboxBackend
from syne_tune.blackbox_repository.blackbox import Blackbox
from syne_tune.config_space import randint
from syne_tune.optimizer.baselines import RandomSearch
from syne_tune.optimizer.schedulers.asha import AsynchronousSuccessiveHalving
from syne_tune.optimizer.schedulers.searchers.last_value_multi_fidelity_searcher import (
    LastValueMultiFidelitySearcher,
)
from syne_tune.tuner_logger import TunerLogger


class Curves(Blackbox):  # type: ignore[misc]
    """Loss and elapsed seconds of every configuration at every step."""

    def __init__(self, loss: Any, cost_s: Any) -> None:
        configs, steps = loss.shape
        super().__init__(
            {"config": randint(0, configs - 1)}, {"step": randint(1, steps)}, ["loss", "elapsed_s"]
        )
        self._values = np.stack([loss, cost_s.cumsum(axis=1)], axis=-1)
        self._steps = list(range(1, steps + 1))

    @property
    def fidelity_values(self) -> list[int]:
        """See Blackbox."""
        return self._steps

    def _objective_function(
        self, configuration: dict[str, Any], fidelity: object = None, seed: object = None
    ) -> object:
        return self._values[configuration["config"]].tolist()


class Silent(TunerLogger):  # type: ignore[misc]
    """Prints nothing."""

    def __getattribute__(self, name: str) -> Any:
        return _nothing if name.startswith("print_") else super().__getattribute__(name)


def _nothing(*_: object, **__: object) -> None:
    pass


class Clock(SimulatorCallback):  # type: ignore[misc]
    """Counts the reports and times the loop; writes no file."""

    def __init__(self) -> None:
        super().__init__()
        self.reports = 0
        self.time_s = self.began = self.ended = 0.0

    def on_tuning_start(self, tuner: object) -> None:
        """See TunerCallback."""
        super().on_tuning_start(tuner)
        self.began = time.process_time()

    def on_trial_result(
        self, trial: object, status: str, result: dict[str, Any], decision: str
    ) -> None:
        """See TunerCallback."""
        super().on_trial_result(trial, status, result, decision)
        self.reports += 1
        self.time_s = result["st_tuner_time"]

    def on_loop_end(self) -> None:
        """See TunerCallback."""
        self.ended = time.process_time()

    def store_results(self) -> None:
        """Not on disk."""


def run(job: dict[str, Any]) -> dict[str, float]:
    """One replay: what it took and what it got."""
    with np.load(job["curves"]) as arrays:
        box = Curves(arrays["loss"], arrays["cost_s"])
    space, seed = box.configuration_space, job["seed"]
    order = np.random.default_rng(seed).permutation(space["config"].upper + 1)
    points = [{"config": config} for config in order.tolist()]
    np.random.seed(seed)
    if job["stopping"]:
        searcher = LastValueMultiFidelitySearcher(
            space,
            random_seed=seed,
            points_to_evaluate=points,
            num_init_random_draws=10**12,  # before it fits a model: never
            searcher="random_search",
        )
        scheduler = AsynchronousSuccessiveHalving(
            space,
            metric="loss",
            searcher=searcher,
            time_attr="step",
            max_t=len(box.fidelity_values),
            reduction_factor=4,
            random_seed=seed,
        )
    else:
        scheduler = RandomSearch(
            space, metrics=["loss"], random_seed=seed, points_to_evaluate=points
        )
    clock = Clock()
    backend = UserBlackboxBackend(
        box,
        elapsed_time_attr="elapsed_s",
        seed=0,
        simulator_config=SimulatorConfig(0, 0, 0, 0, 0),
        tuner_sleep_time=job["poll_s"],
    )
    tuner = Tuner(
        backend,
        scheduler,
        StoppingCriterion(max_wallclock_time=job["budget_s"]),
        n_workers=job["workers"],
        sleep_time=0,
        results_update_interval=1e9,
        print_update_interval=1e9,
        callbacks=[clock],
        save_tuner=False,
        output_logger=Silent(),
        tuner_name="replay",
    )
    gc.collect()
    gc.disable()
    tuner.run()
    gc.enable()
    return {
        "reports": clock.reports,
        "trials": len(backend.trial_ids),
        "cpu_s": clock.ended - clock.began,
        "time_s": clock.time_s,
    }


def main() -> None:
    """Answer jobs until the input ends."""
    logging.disable(logging.WARNING)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - the summary at the end of a run
    packages = [f"{name} {metadata.version(name)}" for name in ("syne-tune", "numpy", "pandas")]
    print(", ".join([f"Python {platform.python_version()}", *packages]), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
