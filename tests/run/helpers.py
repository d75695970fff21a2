"""What the tests of the engine and of studies share: real workers, a searcher without chance."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cloudpickle

import acetune
from acetune import Stopper, StudyCallback, StudyResult, Trial
from acetune.core.goals import Estimate, FailedCheck, goals_from_json
from acetune.core.outcome import Outcome
from acetune.policies.stopper import StopperTrial

SPACE = {"x": acetune.uniform(-1000.0, 1000.0)}
DEADLINE_S = 60.0  # for waiting; nothing is asserted about times


class InOrder(acetune.Searcher):
    """Suggests given values of ``x`` by the trial's number, and notes what it is told."""

    def __init__(self, xs: Sequence[float] = (0.0,)) -> None:
        self.xs = xs
        self.told: dict[int, Outcome] = {}
        self.added: dict[int, Outcome | None] = {}

    def ask(self, trial: int) -> dict[str, Any]:
        return {"x": float(self.xs[(trial - 1) % len(self.xs)])}

    def tell(self, trial: int, outcome: Outcome, params: Mapping[str, Any] | None = None) -> None:
        self.told[trial] = outcome

    def add(self, trial: int, params: Mapping[str, Any], outcome: Outcome | None) -> None:
        self.added[trial] = outcome


class Events(StudyCallback):
    """Notes what a study says."""

    def __init__(self) -> None:
        self.notices: list[str] = []
        self.log: list[tuple[Any, ...]] = []

    def on_start(self, status: Any) -> None:
        self.log.append(("start",))

    def on_trial_start(self, trial: int, attempt: int, params: Mapping[str, Any]) -> None:
        self.log.append(("trial start", trial, attempt))

    def on_report(self, trial: int, report: Any, decision: Any) -> None:
        self.log.append(("report", trial, report.step, decision))

    def on_trial_end(self, trial: int, state: str, reason: str) -> None:
        self.log.append(("trial end", trial, state))

    def on_notice(self, text: str) -> None:
        self.notices.append(text)

    def on_end(self) -> None:
        self.log.append(("end",))


def tune(train: Callable[[Trial], object], study: Path, **options: Any) -> StudyResult:
    """``acetune.tune`` with one worker, one trial and ``x`` from ``xs``, unless told otherwise."""
    xs = options.pop("xs", (0.0,))
    defaults: dict[str, Any] = {
        "space": SPACE,
        "objective": "loss",
        "mode": "min",
        "workers": 1,
        "max_trials": len(xs),
        "max_failures": 1000,
        "progress": False,
        "searcher": InOrder(xs),
    }
    # by value, so that workers need not import the tests with all they import
    for module in {getattr(train, "__module__", None), __name__}:
        if module in sys.modules and module != "__main__":
            cloudpickle.register_pickle_by_value(sys.modules[module])
    return acetune.tune(train, study=study, **(defaults | options))


def rows(study: Path, sql: str, *values: Any) -> list[dict[str, Any]]:
    """The rows of a query, as anyone may ask it."""
    uri = f"{study.resolve().as_uri()}?mode=ro"
    with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=10)) as db:
        db.row_factory = sqlite3.Row
        return [dict(row) for row in db.execute(sql, values)]


def trial_rows(study: Path) -> list[dict[str, Any]]:
    """One row an attempt, with its reason in words, as a code and as numbers."""
    words = {row["code"]: row["sentence"] for row in rows(study, "SELECT * FROM wordings")}
    found = rows(study, "SELECT * FROM trials ORDER BY trial, attempt")
    for row in found:
        numbers = row["numbers"] = json.loads(row["reason_numbers"])
        row["code"] = row["reason"]
        row["reason"] = words[row["reason"]].format(**numbers) if row["reason"] else ""
    return found


def report_rows(study: Path) -> list[dict[str, Any]]:
    """Reports in the order they were acknowledged."""
    return rows(study, "SELECT * FROM reports ORDER BY seq")


def states(study: Path) -> list[str]:
    """The states of the attempts, in order."""
    return [row["state"] for row in trial_rows(study)]


def log_of(study: Path, trial: int, attempt: int = 1) -> str:
    """What a trial has printed."""
    folder = study.with_name(study.name + ".files")
    return (folder / f"trial-{trial:05d}" / f"attempt-{attempt}" / "log.txt").read_text()


def append_line(path: Path, *fields: object) -> None:
    """Append a line in one write."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(descriptor, (" ".join(map(str, fields)) + "\n").encode())
    os.close(descriptor)


def read_lines(path: Path) -> list[list[str]]:
    """The lines that were appended, split into fields."""
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Wait until something is true."""
    give_up = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < give_up, f"waited {DEADLINE_S:g} s for {what}"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


@contextlib.contextmanager
def script(path: Path, source: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A Python script in a process of its own, ended at the latest when the block ends."""
    path.write_text(source)
    process = subprocess.Popen(
        [sys.executable, str(path), *map(str, arguments)],
        cwd=path.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a group of its own, as a terminal gives it
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def output_of(process: subprocess.Popen[str]) -> str:
    """What a script printed, once it has ended well."""
    out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, err
    return out


def require_acknowledged(study: Path, acks: Path) -> int:
    """Every report that returned in a worker is in the file, once and with its value."""
    recorded = {
        (row["trial"], row["attempt"], row["step"]): row["objective"]
        for row in report_rows(study)
        if row["kind"] == "step"
    }
    lines = read_lines(acks)
    for trial, attempt, step, value, *_ in lines:
        assert recorded[int(trial), int(attempt), int(step)] == float(value)
    twice = rows(
        study, "SELECT 1 FROM reports GROUP BY trial, attempt, step, kind HAVING count(*) > 1"
    )
    assert not twice
    return len(lines)


# -- decisions -----------------------------------------------------------------------------------


@dataclass
class World:
    """A Stopper that was fed the recorded reports, and which attempt of each trial has begun."""

    stopper: Stopper
    handles: dict[int, StopperTrial] = field(default_factory=dict)
    begun: dict[int, int] = field(default_factory=dict)

    def begin(self, row: Mapping[str, Any]) -> None:
        self.handles[row["trial"]] = self.stopper.restart(
            row["trial"],
            row["total_steps"],
            row["interval"],
            row["cost_ratio"],
            row["resumed_from"],
        )
        self.begun[row["trial"]] = row["attempt"]


def require_same_decisions(study: Path, policy: acetune.Policy) -> int:
    """Feed the recorded reports to a fresh Stopper: it must decide and rank as was recorded.

    From the moment an attempt begins, the reports of the one before it count no more. That moment
    is not in the file; it lies between the attempt's start and its end, its first report or the
    next session. Every such moment that the recorded ranks allow is followed up; one must remain.
    Returns how many reports were compared.
    """
    info = rows(study, "SELECT * FROM study")[0]
    goals = goals_from_json(info["objective"], info["constraints"])
    name, mode = goals.objective.name, goals.objective.mode
    attempts: dict[int, list[dict[str, Any]]] = {}
    for row in trial_rows(study):
        attempts.setdefault(row["trial"], []).append(row)
    sessions = [row["started"] for row in rows(study, "SELECT started FROM sessions")]
    checks = _checks(study)
    stopper = Stopper(objective=name, mode=mode, constraints=goals.constraints, policy=policy)
    worlds = [World(stopper)]
    reports = report_rows(study)
    for report in reports:
        session = max((s for s in sessions if s <= report["time"]), default=0.0)
        reached = {}
        for world in worlds:
            possible = list(_may_have_begun(attempts, world.begun, report, session))
            for begun in possible:
                there = deepcopy(world) if len(possible) > 1 else world
                for trial, attempt in begun.items():
                    for row in attempts[trial][there.begun.get(trial, 0) : attempt]:
                        there.begin(row)
                if _decides_the_same(there, report, checks.get(report["seq"])):
                    reached[tuple(sorted(there.begun.items()))] = there
        assert reached, f"decided otherwise than recorded: {report}"
        worlds = list(reached.values())
    return len(reports)


def _may_have_begun(
    attempts: Mapping[int, list[dict[str, Any]]],
    begun: Mapping[int, int],
    report: Mapping[str, Any],
    session: float,
) -> Iterator[dict[int, int]]:
    """The attempts that may be the latest to have begun when a report came, by trial."""
    trials, choices = [], []
    for trial, its in attempts.items():
        if trial == report["trial"]:
            possible = [report["attempt"]]
        else:
            started = sum(row["started"] <= report["time"] for row in its)
            surely = sum(
                row["started"] < session or (row["ended"] or math.inf) < report["time"]
                for row in its[:started]
            )
            first = max(surely, begun.get(trial, 0))
            possible = list(range(first, max(first, started) + 1))
        # a first attempt takes nobody's place, so it may wait for its first report
        if possible[-1] > 1 or trial == report["trial"]:
            trials.append(trial)
            choices.append(possible)
    for chosen in itertools.product(*choices):
        yield dict(zip(trials, chosen, strict=True))


def _decides_the_same(
    world: World, report: Mapping[str, Any], measured: dict[str, Any] | None
) -> bool:
    handle = world.handles[report["trial"]]
    if report["kind"] != "step":
        handle.add_check(measured or {}, None, report["checked_step"])
        return True
    value = math.nan if report["objective"] is None else report["objective"]
    checked_step = report["checked_step"] if measured else None
    decision = handle.observe(report["step"], value, measured, checked_step=checked_step)
    decided = decision.action.value, decision.stratum, decision.rank, decision.of
    return decided == tuple(report[name] for name in ("decision", "stratum", "rank", "of"))


def _checks(study: Path) -> dict[int, dict[str, Estimate | FailedCheck]]:
    """What the checks of each report gave."""
    found: dict[int, dict[str, Estimate | FailedCheck]] = {}
    for row in rows(study, "SELECT * FROM checks"):
        failed = row["value"] is None
        outcome = FailedCheck(row["error"]) if failed else Estimate(row["value"], row["stderr"])
        found.setdefault(row["seq"], {})[row["constraint"]] = outcome
    return found


# -- studies made by hand ------------------------------------------------------------------------


def by_hand(table: Sequence[Sequence[tuple[float, float]]]) -> Callable[[Trial], None]:
    """Trains trial n by reporting row n of a table: (loss, g) at each step, with fixed costs."""

    def train(trial: Trial) -> None:
        its = table[trial.number - 1]
        for step in trial.steps(len(its)):
            loss, g = its[step - 1]
            trial.report(
                loss,
                model=(trial.number, step, g),
                snapshot=tuple,
                primary_cost_s=2.0,
                constraint_cost_s=0.5,
            )

    return train


def g_of(model: tuple[int, int, float]) -> float:
    """The check that belongs to :func:`by_hand`."""
    return model[2]


# -- workers that are killed ---------------------------------------------------------------------


def acknowledging(acks: Path, last: int, pause_s: float) -> Callable[[Trial], None]:
    """Trains some steps, and notes which reports were acknowledged and by which process."""

    def train(trial: Trial) -> None:
        for step in trial.steps(last):
            time.sleep(pause_s)
            value = trial.params["x"] + 1 / step
            trial.report(value, model=step, snapshot=int)
            append_line(acks, trial.number, trial.attempt, step, value, os.getpid())

    return train


@contextlib.contextmanager
def killing(
    acks: Path, pause_s: Callable[[], float], most: float = math.inf
) -> Iterator[list[int]]:
    """Meanwhile kill the worker that reported last, now and then; gives those that were."""
    done = threading.Event()
    killed: list[int] = []

    def kill() -> None:
        while len(killed) < most and not done.wait(pause_s()):
            lines = read_lines(acks)
            pid = int(lines[-1][-1]) if lines else 0
            if pid and pid not in killed and alive(pid):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield killed
    finally:
        done.set()
        killer.join()


def require_failed_as_killed(study: Path, killed: Sequence[int], reason: str) -> None:
    """Trials failed for that reason only, at most one for each worker that was killed."""
    failed = [row["reason"] for row in trial_rows(study) if row["state"] == "failed"]
    assert 0 < len(failed) <= len(killed)
    assert all(reason in found for found in failed)


# -- studies that are killed ---------------------------------------------------------------------

# arguments: study file, file of acknowledged reports, save or not, pause at each step, options
DRIVER = """
import json, os, random, sys, time
import acetune
from acetune import Constraint

class InOrder(acetune.Searcher):
    def ask(self, trial): return {"x": random.Random(trial).random()}
    def tell(self, trial, outcome, params=None): pass
    def add(self, trial, params, outcome): pass

def train(trial):
    x, state = trial.params["x"], 0
    if trial.checkpoint is not None:
        state = int((trial.checkpoint / "state").read_text())
    for step in trial.steps(4 + trial.number % 5):
        assert step == state + 1, (step, state)
        time.sleep(PAUSE_S)
        state = step
        value = x + 1 / step
        saving = {"checkpoint": lambda folder: (folder / "state").write_text(str(state))}
        trial.report(value, model=(x, step), snapshot=tuple, **(saving if SAVE else {}))
        log = os.open(ACKS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        line = f"{trial.number} {trial.attempt} {step} {value!r} {os.getpid()}\\n"
        os.write(log, line.encode())
        os.close(log)

STUDY, ACKS, SAVE, PAUSE_S = sys.argv[1], sys.argv[2], sys.argv[3] == "save", float(sys.argv[4])
result = acetune.tune(
    train, {"x": acetune.uniform(0, 1)}, objective="loss", mode="min",
    constraints=[Constraint("g", upper=0.9, check=lambda model: model[0] + model[1] / 20)],
    searcher=InOrder(), study=STUDY, progress=False, **json.loads(sys.argv[5]),
)
print(result.best.trial)
"""


def require_whole(study: Path, acks: Path, trials: int, best: int) -> None:
    """All trials of DRIVER ended once, with the reports that were acknowledged and no others."""
    assert require_acknowledged(study, acks) >= trials
    found = trial_rows(study)
    assert sorted({row["trial"] for row in found}) == list(range(1, trials + 1))
    for trial in range(1, trials + 1):
        its = [row for row in found if row["trial"] == trial]
        assert [row["attempt"] for row in its] == list(range(1, len(its) + 1))
        assert its[-1]["state"] in ("finished", "stopped"), its[-1]["reason"]
        assert {row["state"] for row in its[:-1]} <= {"interrupted"}
    assert require_same_decisions(study, acetune.Adaptive()) >= trials
    result = acetune.load(study)
    assert result.best is not None and result.best.trial == best
    x, step = result.best.load()
    assert (x, step) == (result.best.params["x"], result.best.step)
    assert x + step / 20 <= 0.9  # the limit of DRIVER
    feasible = [row for row in report_rows(study) if row["stratum"] == "valid"]
    assert result.best.value == min(row["checked_objective"] for row in feasible)
