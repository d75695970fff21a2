"""Processes that share a study of Optuna are killed and frozen."""

from __future__ import annotations

import functools
import random
import signal
import subprocess
import time
from pathlib import Path

from run.helpers import read_lines
from tools.chaos.campaign import Part, Tally
from tools.chaos.processes import Drivers, drivers, freeze, wait

EVENTS = 12
_PROCESSES = 3
_ENDS_S = 150.0
_EACH = 6  # trials of a process that nobody kills
_SCRIPT = """
import os, sys, time
import optuna
import acetune.optuna
from optuna_pruner.worker import LAST, opened, pruner, truth

KIND, PATH, SEED, EACH, ACKS = sys.argv[1:]

def objective(trial):
    params = {name: trial.suggest_float(name, 0, 1) for name in "xy"}
    ace = acetune.optuna.trial(trial, total_steps=LAST)
    for step in ace.steps():
        time.sleep(0.01)
        value, g = truth(params, step)
        ace.report(value, constraints={"g": lambda g=g: g})
        log = os.open(ACKS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(log, f"{trial.number} {step} {value!r} {g!r} {os.getpid()}\\n".encode())
        os.close(log)
    return ace.finish()

optuna.logging.set_verbosity(optuna.logging.ERROR)
study = optuna.load_study(
    study_name="s", storage=opened(KIND, PATH), pruner=pruner(),
    sampler=optuna.samplers.RandomSampler(seed=int(SEED)),
)
study.optimize(objective, n_trials=int(EACH))
"""


def kills(chance: random.Random, folder: Path, tally: Tally, events: int = EVENTS) -> None:
    """A round: one study, with new processes for those that were killed."""
    import optuna

    from optuna_pruner.worker import opened, pruner

    # the journal of Optuna waits half a minute for the lock of a process that was killed
    kind = "sqlite" if chance.random() < 0.9 else "journal"
    path, acks = str(folder / "shared"), folder / "acks"
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    optuna.create_study(study_name="s", storage=opened(kind, path), pruner=pruner())
    with drivers(folder, tally) as made:
        seeds = iter(range(10_000))

        def start() -> subprocess.Popen[bytes]:
            return made.start(_SCRIPT, kind, path, next(seeds), _EACH, acks)

        running = [start() for _ in range(_PROCESSES)]
        for _ in range(events):
            wait(chance, 0.05, 0.6)
            place = chance.randrange(_PROCESSES)
            if running[place].poll() is not None:
                running[place] = start()
            elif chance.random() < 0.5:
                running[place].send_signal(signal.SIGKILL)
                running[place].wait()
                tally.count("kills of a process")
                running[place] = start()
            else:
                freeze([running[place].pid], chance.uniform(0.02, 0.5))
                tally.count("freezes of a process")
        _require_ended(made, running, tally)
        made.require_gone()
    _look(kind, path, acks, tally)


def _require_ended(made: Drivers, running: list[subprocess.Popen[bytes]], tally: Tally) -> None:
    until = time.monotonic() + _ENDS_S
    for process in running:
        try:
            status = process.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            tally.fault("hang", f"a process runs on after {_ENDS_S:g} s")
            continue
        said = "".join(
            path.read_text(errors="replace")[-2000:] for path in made.folder.glob("error-*")
        )
        tally.require("raw error", status == 0, f"a process ended with {status}: {said[-3000:]}")


def _look(kind: str, path: str, acks: Path, tally: Tally) -> None:
    import optuna

    import acetune.optuna
    from optuna_pruner.worker import LIMIT, opened, pruner, truth

    study = optuna.load_study(study_name="s", storage=opened(kind, path), pruner=pruner())
    trials = {trial.number: trial for trial in study.get_trials()}
    lines = read_lines(acks)
    tally.count("reports acknowledged", len(lines))
    tally.count("studies")
    feasible = []
    noted = set()
    for number, step, value, g, _ in lines:
        key = int(number), int(step)
        tally.require("doubled", key not in noted, f"acknowledged twice: {key}")
        noted.add(key)
        there = trials[key[0]].intermediate_values.get(key[1]) if key[0] in trials else None
        tally.require("lost", there is not None, f"report {key}")
        tally.require("altered", there in (None, float(value)), f"{key}: {there} for {value}")
        if float(g) <= LIMIT:
            feasible.append(float(value))
    best = acetune.optuna.best(study)
    if best is None:
        tally.require("wrong", not feasible, f"no answer, though {feasible} were feasible")
        return
    true = truth(best.params, best.step)
    found = best.value, best.constraints["g"].value
    tally.require("wrong", found == true and true[1] <= LIMIT, f"the answer {best} is not true")
    least = min(feasible, default=best.value)
    tally.require("wrong", best.value <= least, f"the answer {best.value} is worse than {least}")


PART = Part(
    promise="Processes that share a study of Optuna may be killed: each report that was "
    "acknowledged is in the storage, and the answer is the best checkpoint found feasible.",
    how="Three processes with `AcePruner` on one storage (SQLite, or a journal file) are killed "
    "and frozen at random moments, and others take their place.",
    round=kills,
    rounds=40,
    small=functools.partial(kills, events=3),
    limit_s=400,
)
