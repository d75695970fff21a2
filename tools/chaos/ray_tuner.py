"""A Tuner of Ray's with ``AceScheduler``, whose driver and workers are killed and frozen."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

from ray_tune.driver import XS
from run.helpers import read_lines, rows
from tools.chaos import ray_cluster
from tools.chaos.campaign import Part, Tally
from tools.chaos.local_kills import Faults, torment
from tools.chaos.processes import alive_in, drivers

EVENTS = 4
_LAST = 8
_LIMIT = 0.5
_SCRIPT = f"""
import os, sys, time, json
from pathlib import Path
import ray
from ray import tune
import acetune.ray
from acetune import Constraint
from acetune.ray import AceScheduler, best_result
from ray_tune.driver import XS
from ray_tune.helpers import fit
from ray_tune.trainables import auc, eod

FOLDER, ACKS, ADDRESS = Path(sys.argv[1]), sys.argv[2], sys.argv[3]

def train(config):
    with acetune.ray.trial(total_steps={_LAST}) as trial:
        x, state = config["x"], 0
        if trial.checkpoint is not None:
            state = int((trial.checkpoint / "state").read_text())
        for step in trial.steps():
            assert step == state + 1, (step, state)
            time.sleep(0.05)
            state = step
            trial.report(
                auc=auc(x, step), model={{"x": x, "step": step}}, snapshot=dict,
                constraints={{"eod": lambda m: eod(m["x"], m["step"])}},
                checkpoint=lambda folder: (folder / "state").write_text(str(state)),
            )
            log = os.open(ACKS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.write(log, f"{{x!r}} {{step}} {{auc(x, step)!r}} {{os.getpid()}}\\n".encode())
            os.close(log)

ray.init(address=ADDRESS, log_to_driver=False, logging_level="ERROR")
if (FOLDER / "experiment" / "tuner.pkl").exists():
    tuner = tune.Tuner.restore(
        str(FOLDER / "experiment"), trainable=train, resume_unfinished=True, restart_errored=True
    )
    grid = tuner.fit()
else:
    scheduler = AceScheduler([Constraint("eod", upper={_LIMIT})], "ace2")
    grid = fit(train, FOLDER, scheduler=scheduler, concurrent=2, failures=50,
               x=tune.grid_search(XS))
best = best_result(grid)
found = [best.config["x"], best.step, best.value, best.load()] if best else None
(FOLDER / "best").write_text(json.dumps([grid.num_errors, len(grid), found]))
"""


def kills(chance: random.Random, folder: Path, tally: Tally) -> None:
    """A round: one experiment, restored until it is whole."""
    acks = folder / "acks"
    address = ray_cluster.address()
    with drivers(folder, tally) as made:

        def start() -> subprocess.Popen[bytes]:
            return made.start(_SCRIPT, folder, acks, address)

        # who was last to report is the last
        faults = Faults(chance, made, lambda: alive_in(read_lines(acks)))
        if torment(made, faults, start, events=EVENTS, pause_s=(0.2, 1.5)):
            _look(folder, acks, tally)


def _look(folder: Path, acks: Path, tally: Tally) -> None:
    from ray_tune.trainables import auc, eod

    study = folder / "experiment" / "acetune.db"
    lines = read_lines(acks)
    tally.count("reports acknowledged", len(lines))
    tally.count("experiments")
    params = {
        (row["trial"], row["attempt"]): json.loads(row["params"])
        for row in rows(study, "SELECT * FROM trials")
    }
    recorded, keys = {}, set()
    for row in rows(study, "SELECT * FROM reports ORDER BY seq"):
        x = params[row["trial"], row["attempt"]]["x"]
        key = row["trial"], row["attempt"], row["step"], row["kind"]
        tally.require("doubled", key not in keys, f"report {key}")
        keys.add(key)
        if row["kind"] == "step":
            recorded[x, row["step"]] = row["objective"]
            true = auc(x, row["step"])
            same = row["objective"] == true
            tally.require("altered", same, f"{key}: {row['objective']} for {true}")
    for x, step, *_ in lines:
        there = recorded.get((float(x), int(step)))
        tally.require("lost", there is not None, f"report of x={x} at step {step}")
    untrue = (
        "SELECT * FROM reports JOIN checks USING (seq) "
        f"WHERE (stratum = 'valid') != (value <= {_LIMIT})"
    )
    tally.require("wrong", not rows(study, untrue), "a stratum is not that of its value")
    last = {row["trial"]: row["state"] for row in rows(study, "SELECT * FROM trials ORDER BY 1, 2")}
    over = len(last) == len(XS) and set(last.values()) <= {"finished", "stopped"}
    tally.require("wrong", over, f"trials {last}")
    errors, trials, best = json.loads((folder / "best").read_text())
    tally.require("wrong", (errors, trials) == (0, len(XS)), f"{errors} errors, {trials} trials")
    feasible = [(auc(x, step), x, step) for x, step in recorded if eod(x, step) <= _LIMIT]
    wanted = None
    if feasible:
        value, x, step = max(feasible)
        wanted = [x, step, value, {"x": x, "step": step}]
    tally.require("wrong", best == wanted, f"the answer is {best}, and {wanted} is better")


PART = Part(
    promise="The same with a Tuner of Ray's and `AceScheduler`: after `Tuner.restore` each report "
    "that was acknowledged is in the study file, and the answer is the best feasible checkpoint.",
    how="Experiments of eight trials on a Ray of this machine, whose driver and workers are killed "
    "and frozen, restored until they are whole.",
    round=kills,
    rounds=40,
    limit_s=900,
)
