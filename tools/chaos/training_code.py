"""Training functions that misbehave: the table of the tests, in any order and on any workers."""

from __future__ import annotations

import functools
import random
from pathlib import Path

from run.misbehaviour import MISBEHAVIOUR, require_hurt_itself_only, run_misbehaving
from tools.chaos.campaign import Part, Tally

DEEDS = 12  # of a round


def deeds(chance: random.Random, folder: Path, tally: Tally, some: int = DEEDS) -> None:
    """A round: one study of some rows of the table."""
    names = chance.choices(list(MISBEHAVIOUR), k=some)
    study = folder / "study.db"
    # with one worker, whatever a deed leaves behind meets the trial after it
    run_misbehaving(study, names, workers=chance.choice([1, 1, 2]))
    for place, name in enumerate(names):
        tally.count("deeds")
        try:
            require_hurt_itself_only(study, place, MISBEHAVIOUR[name].reason)
        except AssertionError as error:
            tally.fault("wrong", f"{name}, after {names[:place]}: {error}")


PART = Part(
    promise="A training function that misbehaves hurts its own trial only, and the reason of its "
    "failure is the true one.",
    how="Rows of a table of misdeeds (`tests/run/misbehaviour.py`: exceptions whose text raises, "
    "huge ones, `os._exit`, segmentation faults, closed files, threads that report on after "
    "their trial) at random, each followed by a healthy trial in the same worker.",
    round=deeds,
    rounds=40,
    small=functools.partial(deeds, some=3),
    limit_s=300,
)
