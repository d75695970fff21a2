"""Many trials and reports, while others read the study file all the time."""

from __future__ import annotations

import functools
import json
import random
import time
from pathlib import Path

import acetune
from acetune.core.errors import StudyFileError
from run.helpers import DRIVER
from tools.chaos.campaign import Part, Tally
from tools.chaos.local_kills import look
from tools.chaos.processes import drivers

_TRIALS = 400
_ENDS_S = 280.0


def load(chance: random.Random, folder: Path, tally: Tally, trials: int = _TRIALS) -> None:
    """A round: one study on more workers than cores, and one reader."""
    study, acks = folder / "study.db", folder / "acks"
    options = {"max_trials": trials, "workers": chance.randint(2, 6), "max_failures": 1_000_000}
    until = time.monotonic() + _ENDS_S
    with drivers(folder, tally) as made:
        driver = made.start(DRIVER, study, acks, "save", 0.0, json.dumps(options))
        known = 0
        while driver.poll() is None:
            if time.monotonic() > until:
                tally.fault("hang", f"no end after {_ENDS_S:g} s: {made.said}")
                return
            try:
                found = acetune.load(study).ledger.reports
            except StudyFileError as error:  # it is not there yet
                tally.require("wrong", not known, str(error))
                time.sleep(0.05)
                continue
            tally.require("wrong", found >= known, f"{found} reports, after {known}")
            known = found
            tally.count("times read")
        tally.require("raw error", driver.returncode == 0, made.said)
        made.require_gone()
        look(study, acks, trials, 0, tally, may_lie_beside=True)


PART = Part(
    promise="The same under load, and whoever reads meanwhile sees what was there at one moment.",
    how="Studies of 400 trials on more workers than there are cores, while another process reads "
    "the study file again and again.",
    round=load,
    rounds=330,
    small=functools.partial(load, trials=30),
)
