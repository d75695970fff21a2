"""Driver and workers of ``acetune.tune`` are killed, frozen and interrupted at random moments."""

from __future__ import annotations

import contextlib
import functools
import json
import random
import re
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import acetune
import plain_study
from acetune.study.store import Store
from run.helpers import DRIVER, read_lines, report_rows, require_same_decisions, rows, trial_rows
from tools.chaos.campaign import Part, Tally
from tools.chaos.processes import Drivers, alive_in, drivers, freeze, send, wait

EVENTS = 50  # of a round
ENDS_S = 120.0  # for the last driver of a round, which nobody touches
_SCRIPT = DRIVER.replace("print(result.best.trial)", "print(result.best and result.best.trial)")
_KEYS = "trial", "attempt", "step"
#: how an error of a trial begins in Ray's own log, and one that it is raised from
_RAY_LOGS = re.compile(
    r"^(?:\S+ \S+\t(?:ERROR|WARNING|INFO) \S+\.py:\d+ -- .*\n"
    r"|(?:The above exception was the|During handling of the above) .*\n\n)"
    r"Traceback \(most recent call last\):$",
    re.MULTILINE,
)
#: what a worker is killed by, and what ends a driver
_WORKER = ("SIGKILL", "SIGTERM", "SIGSEGV")
_DRIVER = ("SIGKILL", "SIGKILL", "SIGKILL", "SIGINT", "SIGTERM", "SIGHUP")


class Faults:
    """Does one thing after another to a running study.

    Parameters
    ----------
    chance:
        Of the round.
    made:
        Its processes.
    workers:
        Who can be hurt beside the driver, the last to report last.
    """

    def __init__(
        self, chance: random.Random, made: Drivers, workers: Callable[[], Sequence[int]]
    ) -> None:
        self.chance, self.made, self.workers = chance, made, workers
        self.hurt = 0  # workers

    def one(self, driver: subprocess.Popen[bytes]) -> bool:
        """One fault; whether it ended the driver."""
        chance, kind, workers = self.chance, self.chance.random(), list(self.workers())
        if kind < 0.4 and workers:
            name = chance.choice(_WORKER)
            some = workers[-1:] if chance.random() < 0.7 else workers
            for pid in some:
                self.hurt += 1
                if send(pid, getattr(signal, name)):
                    self.made.tally.count("kills of a worker")
            return False
        if kind < 0.6 and workers:
            freeze([chance.choice(workers)], chance.uniform(0.02, 0.3))
            self.made.tally.count("freezes of a worker")
            return False
        if kind < 0.75:
            freeze([driver.pid], chance.uniform(0.02, 0.3))
            self.made.tally.count("freezes of a driver")
            return False
        if kind < 0.88:
            freeze([driver.pid, *workers], chance.uniform(0.02, 0.3))
            self.made.tally.count("freezes of all at once")
            return False
        return self._end(driver, workers)

    def _end(self, driver: subprocess.Popen[bytes], workers: list[int]) -> bool:
        name = self.chance.choice(_DRIVER)
        if name == "SIGKILL" and self.chance.random() < 0.2 and workers:
            for pid in workers:  # who is frozen cannot see that the driver has gone
                send(pid, signal.SIGSTOP)
            self.made.tally.count("drivers killed while workers were frozen")
        if not send(driver.pid, getattr(signal, name)):
            return False
        self.made.tally.count(f"{name} to a driver")
        with contextlib.suppress(subprocess.TimeoutExpired):
            driver.wait(ENDS_S)
            return True
        self.made.tally.fault("hang", f"{ENDS_S:g} s after {name} the driver still runs")
        driver.kill()
        driver.wait()
        return True


def torment(
    made: Drivers,
    faults: Faults,
    start: Callable[[], subprocess.Popen[bytes]],
    *,
    events: int,
    pause_s: tuple[float, float],
) -> bool:
    """Faults until there were so many or all is done; at the end the study is left in peace."""
    left, chance = events, faults.chance
    while True:
        driver, ended = start(), False
        seen = set(faults.workers())
        if left and chance.random() < 0.7:  # the others are hurt while they start
            _until_more(driver, faults, seen)
        while left and driver.poll() is None and not ended:
            wait(chance, *pause_s)
            seen.update(faults.workers())
            left -= 1
            ended = faults.one(driver)
        if ended:
            made.require_gone(seen)
            _require_no_raw_error(made)
            continue
        try:
            driver.wait(ENDS_S)
        except subprocess.TimeoutExpired:
            made.tally.fault("hang", f"the driver still runs after {ENDS_S:g} s: {made.said}")
            return False
        made.require_gone(seen)
        if driver.returncode and left < events and _ended_in_words(made):
            made.tally.count("sessions that ended with an error of acetune's")
            events = left  # only where something was done to it
            continue
        if driver.returncode:
            made.tally.fault("raw error", f"the driver ended with {driver.returncode}: {made.said}")
            return False
        _require_no_raw_error(made)
        return True


def _until_more(driver: subprocess.Popen[bytes], faults: Faults, known: set[int]) -> None:
    until = time.monotonic() + ENDS_S
    while driver.poll() is None and not set(faults.workers()) - known:
        if time.monotonic() > until:
            return
        time.sleep(0.01)


def _require_no_raw_error(made: Drivers) -> None:
    """An error in words, if any: what Ctrl-C raises is none of ours, and what Ray logs neither."""
    if "Traceback" in _RAY_LOGS.sub("", made.all_said) and not _ended_in_words(made):
        made.tally.fault("raw error", made.said)


def _ended_in_words(made: Drivers) -> bool:
    return (made.said.splitlines() or [""])[-1].startswith(("KeyboardInterrupt", "acetune."))


def look(
    study: Path,
    acks: Path,
    trials: int,
    may_fail: int,
    tally: Tally,
    *,
    may_lie_beside: bool = False,
) -> None:
    """Compare a study of DRIVER with what its training functions have noted.

    ``may_lie_beside``: what a reader leaves that was there when the driver ended.
    """
    left = [path.name for path in study.parent.glob(f"{study.name}-*")]
    tally.require("wrong", may_lie_beside or not left, f"left beside the study file: {left}")
    lines = read_lines(acks)
    tally.count("reports acknowledged", len(lines))
    tally.count("studies")
    _compare_reports(study, lines, tally)
    found = trial_rows(study)
    its: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in found:
        its[row["trial"]].append(row)
    tally.count("attempts", len(found))
    tally.require("lost", sorted(its) == list(range(1, trials + 1)), f"trials {sorted(its)}")
    failed = [row for row in found if row["state"] == "failed"]
    for row in failed:
        tally.require("wrong", row["code"] == "worker_lost", f"failed for {row['reason']!r}")
    tally.require("wrong", len(failed) <= may_fail, f"{len(failed)} failed, {may_fail} were hurt")
    for attempts in its.values():
        _look_at_attempts(study, attempts, tally)
    _look_at_answer(study, tally)


def _compare_reports(study: Path, lines: Sequence[Sequence[str]], tally: Tally) -> None:
    """Nothing that was acknowledged is lost, altered or there twice."""
    params = {row["trial"]: json.loads(row["params"]) for row in trial_rows(study)}
    recorded = {}
    for row in report_rows(study):
        if row["kind"] != "step":
            continue
        key = tuple(row[name] for name in _KEYS)
        tally.require("doubled", key not in recorded, f"report {key}")
        recorded[key] = row["objective"]
        true = params[row["trial"]]["x"] + 1 / row["step"]
        tally.require("altered", row["objective"] == true, f"{key}: {row['objective']} for {true}")
    noted = set()
    for trial, attempt, step, value, *_ in lines:
        key = int(trial), int(attempt), int(step)
        tally.require("doubled", key not in noted, f"acknowledged twice: {key}")
        noted.add(key)
        if key not in recorded:
            tally.fault("lost", f"report {key} of value {value}")
        elif recorded[key] != float(value):
            tally.fault("altered", f"{key}: {recorded[key]} for {value}")


def _look_at_attempts(study: Path, attempts: list[dict[str, Any]], tally: Tally) -> None:
    last = attempts[-1]
    name = f"trial {last['trial']}"
    numbers = [row["attempt"] for row in attempts]
    tally.require("wrong", numbers == list(range(1, len(numbers) + 1)), f"{name}: {numbers}")
    over = last["state"] in ("finished", "stopped")
    tally.require("wrong", over, f"{name} is {last['state']}: {last['reason']}")
    cut = {row["state"] for row in attempts[:-1]} <= {"interrupted", "failed"}
    tally.require("wrong", cut, f"{name}: earlier attempts {[row['state'] for row in attempts]}")
    query = "SELECT step FROM reports WHERE kind = 'step' AND trial = ? AND attempt = ? ORDER BY 1"
    steps = [row["step"] for row in rows(study, query, last["trial"], last["attempt"])]
    first = last["resumed_from"] + 1
    whole = 4 + last["trial"] % 5 if last["state"] == "finished" else first + len(steps) - 1
    tally.require("lost", steps == list(range(first, whole + 1)), f"{name}: steps {steps}")


def _look_at_answer(study: Path, tally: Tally) -> None:
    """The answer is that of the slow reader, true, and better than all else that is feasible."""
    result = acetune.load(study)
    with contextlib.closing(Store.read(study)) as store:
        plain = plain_study.read_result(store)
    for name in ("best", "candidates", "nearest_miss", "counts", "strata", "reasons"):
        ours, wanted = getattr(result, name), getattr(plain, name)
        tally.require("wrong", ours == wanted, f"{name}: {ours} for {wanted}")
    feasible = [row for row in report_rows(study) if row["stratum"] == "valid"]
    least = min((row["checked_objective"] for row in feasible), default=None)
    best = result.best
    if best is None:
        tally.require("wrong", least is None, f"no answer, though {least} was feasible")
        return
    tally.require("wrong", best.value == least, f"{best.value} is no {least}")
    x, step = best.load()
    tally.require("wrong", (x, step) == (best.params["x"], best.step), f"model {x}, {step}")
    tally.require("wrong", x + step / 20 <= 0.9 and best.value == x + 1 / step, f"{best} is untrue")
    faults = [found.model_fault() for found in result.candidates if found.checkpoint is not None]
    tally.require("lost", not any(faults), f"models: {faults}")
    compared = require_same_decisions(study, acetune.Adaptive())
    tally.count("decisions made again by the slow rules", compared)


def kills(
    chance: random.Random,
    folder: Path,
    tally: Tally,
    events: int = EVENTS,
    trials: tuple[int, int] = (60, 150),
    pause_s: tuple[float, float] = (0.01, 0.15),
    in_ray: Callable[[], str] | None = None,
) -> None:
    """A round: one study, ended by whatever comes, until it is whole.

    ``in_ray`` gives the address of a Ray that has the workers.
    """
    study, acks = folder / "study.db", folder / "acks"
    most = chance.randint(*trials)
    options: dict[str, Any] = {
        "max_trials": most,
        "workers": chance.randint(1, 3),
        "retries": 1000,
        "max_failures": 1_000_000,
        "keep_models": chance.randint(1, 3),
    }
    if in_ray is not None:
        options |= {"engine": "ray", "ray_address": in_ray()}
    arguments = (
        study,
        acks,
        chance.choice(["save", "nothing"]),
        chance.choice([0.0, 0.005, 0.03]),
        json.dumps(options),
    )
    with drivers(folder, tally) as made:
        running: list[subprocess.Popen[bytes]] = []

        def start() -> subprocess.Popen[bytes]:
            running[:] = [made.start(_SCRIPT, *arguments)]
            return running[0]

        def workers() -> list[int]:
            if in_ray is not None:  # no children of the driver
                return alive_in(read_lines(acks))
            return made.others(running[0]) if running else []

        faults = Faults(chance, made, workers)
        if torment(made, faults, start, events=events, pause_s=pause_s):
            look(study, acks, most, faults.hurt, tally)


PART = Part(
    promise="Whatever process of a study is killed or frozen: each report that was acknowledged is "
    "in the study file, once and as it was given; the same call goes on; the answer is the best "
    "feasible checkpoint; nothing is left running.",
    how="Studies of `acetune.tune` whose driver, workers or both get SIGKILL, SIGTERM, SIGSEGV, "
    "SIGINT, SIGHUP, or SIGSTOP and SIGCONT at random moments, until they are whole. Each training "
    "function notes in a file of its own what `report` has returned from.",
    round=kills,
    rounds=40,
    small=functools.partial(kills, events=4, trials=(10, 15)),
    limit_s=600,
)
