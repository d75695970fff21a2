"""Power cuts: the disk as it is at one moment, with all that was not on it yet lost."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import acetune
from run.helpers import DRIVER, read_lines, report_rows, trial_rows
from tools.chaos.campaign import Part, SkippedError, Tally
from tools.chaos.processes import Drivers, alive_in, drivers, send, wait

CUTS = 5  # of a round
_DISK_MB = 48
_TRIALS = 600  # more than there is time for: the study runs until it is ended
_SCRIPT = DRIVER.replace("print(result.best.trial)", "print(result.best and result.best.trial)")


@contextlib.contextmanager
def _mounted(image: Path, place: Path) -> Iterator[Path]:
    """A file as a disk."""
    place.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-o", "loop", image, place], capture_output=True, text=True)
    if done.returncode:
        raise SkippedError(f"no disk can be mounted here: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=False, capture_output=True)


def _snapshot(image: Path, to: Path) -> bool:
    """What is on the disk, while nothing is being written to it; False if that never is."""
    for _ in range(20):
        shutil.copyfile(image, to)
        time.sleep(0.02)
        if to.read_bytes() == image.read_bytes():
            return True
    return False


def _require_root() -> None:
    if os.geteuid() != 0:
        raise SkippedError("mounting a disk needs root")
    if shutil.which("mkfs.ext4") is None or not Path("/dev/loop-control").exists():
        raise SkippedError("there is no mkfs.ext4, or no loop device")


def cuts(chance: random.Random, folder: Path, tally: Tally, some: int = CUTS) -> None:
    """A round: one study, whose disk is looked at now and then as if the power had gone."""
    _require_root()
    image = folder / "disk"
    with image.open("wb") as file:
        file.truncate(_DISK_MB << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    acks, snapshot = folder / "acks", folder / "snapshot"
    with _mounted(image, folder / "mounted") as disk, drivers(folder, tally) as made:
        study = disk / "study.db"
        durability = chance.choice(["process", "power"])
        arguments = study, acks, chance.choice(["save", "nothing"]), 0.01
        driver = made.start(_SCRIPT, *arguments, _options(_TRIALS, durability))
        for _ in range(some):
            wait(chance, 0.3, 2.0)
            if driver.poll() is not None:
                break
            all_of_it = [driver.pid, *made.others(driver)]
            for pid in all_of_it:
                send(pid, signal.SIGSTOP)
            known = len(read_lines(acks))
            good = _snapshot(image, snapshot)
            for pid in all_of_it:
                send(pid, signal.SIGCONT)
            if good:
                tally.count("power cuts")
                with _mounted(snapshot, folder / "after") as after:
                    lines = read_lines(acks)[:known]
                    there = _look(after / "study.db", lines, tally, made, chance)
                tally.count(f"reports acknowledged with durability={durability!r}", known)
                tally.count(f"of these on the disk with {durability!r}", there)
                if durability == "power":
                    tally.require("lost", there == known, f"{known - there} of {known} reports")
        driver.kill()
        driver.wait()
        made.require_gone(alive_in(read_lines(acks)))


def _options(trials: int, durability: str = "process") -> str:
    options = {"max_trials": trials, "workers": 2, "keep_models": 3, "durability": durability}
    return json.dumps(options)


def _look(
    study: Path, lines: list[list[str]], tally: Tally, made: Drivers, chance: random.Random
) -> int:
    """What is there is a whole study as it once was, and it goes on.

    How many reports of those that were acknowledged are there.
    """
    if not study.exists():
        tally.count("cuts before the study was on disk")
        return 0
    try:
        result = acetune.load(study)
    except acetune.errors.StudyFileError:
        # only one in which nothing was committed to the disk yet
        tally.require("lost", study.stat().st_size < 8192, "the study file cannot be read")
        tally.count("cuts before the study was on disk")
        return 0
    params = {row["trial"]: json.loads(row["params"]) for row in trial_rows(study)}
    recorded = {}
    for row in report_rows(study):
        if row["kind"] == "step":
            key = row["trial"], row["attempt"], row["step"]
            tally.require("doubled", key not in recorded, f"report {key}")
            recorded[key] = row["objective"]
            true = params[row["trial"]]["x"] + 1 / row["step"]
            same = row["objective"] == true
            tally.require("altered", same, f"{key}: {row['objective']} for {true}")
    there = sum((int(t), int(a), int(s)) in recorded for t, a, s, *_ in lines)
    faults = [found.model_fault() for found in result.candidates if found.checkpoint is not None]
    tally.count("models looked at", len(faults))
    tally.require("lost", not any(faults), f"models: {faults}")
    if chance.random() < 0.3:  # it goes on
        driver = made.start(_SCRIPT, study, study.parent / "acks", "save", 0.0, _options(8))
        try:
            status = driver.wait(120)
            tally.require("raw error", status == 0, f"going on ended with {status}: {made.said}")
            tally.count("gone on after a cut")
        except subprocess.TimeoutExpired:
            tally.fault("hang", "going on after a power cut does not end")
            driver.kill()
            driver.wait()
    return there


PART = Part(
    promise="After a power cut the study file is whole, as it was a moment before: the last "
    "reports may be missing, and with `durability='power'` none is; none is altered or doubled. "
    "Models that it names are whole.",
    how="A study on a disk in a file (ext4 on a loop device); all its processes are stopped, and "
    "what has reached the disk by then is mounted as another one. Needs root.",
    round=cuts,
    rounds=40,
    limit_s=600,
)
