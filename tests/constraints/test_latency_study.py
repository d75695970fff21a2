"""Studies with a latency limit: real workers, on every engine, and nobody trains meanwhile."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import math
import os
import select
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import optuna
import pytest
from click.testing import CliRunner

import acetune
import acetune.optuna
from acetune import Constraint, Trial
from acetune.cli import app
from acetune.constraints.latency import LatencyCheck, measure_latency
from acetune.replay.training import Task, train_curve
from acetune.run._messages import Saved, WorkerChannel
from acetune.run._pipe_link import PipeLink
from acetune.trial.exclusive import DeviceUse, alone, waiting_until
from acetune.trial.hardware import describe_hardware
from run.helpers import (
    append_line,
    output_of,
    read_lines,
    report_rows,
    rows,
    script,
    states,
    trial_rows,
    tune,
    wait_for,
)

STEPS = 12
EVERY_STEP = acetune.ACE(interval=1, gate=False, truncation=0.0)  # is checked; nobody is stopped


@pytest.fixture(autouse=True)
def _locks_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def timed(log: Path, what: str, seconds: float) -> None:
    """Do something that takes a while, and note when it was done and by whom."""
    began = time.monotonic()  # the same clock for all processes
    time.sleep(seconds)
    append_line(log, what, os.getpid(), threading.get_ident(), began, time.monotonic())


def training(log: Path, start: Path) -> Callable[[Trial], None]:
    """Trials that begin together, two by two, and note each of their steps."""

    def train(trial: Trial) -> None:
        append_line(start, trial.number)
        wait_for(lambda: len(read_lines(start)) >= 2, "another trial")
        for _ in trial.steps(STEPS):
            timed(log, "step", 0.004)
            trial.report(trial.params["x"], model=str(log))

    return train


def measuring(log: str) -> None:
    timed(Path(log), "measure", 0.001)


def latency(**options: Any) -> LatencyCheck:
    return LatencyCheck(measuring, percentile=50, warmup=1, repeats=10, **options)


def meetings(log: Path) -> tuple[int, int]:
    """How often somebody measured, and how often somebody else trained or measured meanwhile."""
    lines = [
        (line[0], (line[1], line[2]), float(line[3]), float(line[4])) for line in read_lines(log)
    ]
    measured = met = 0
    for what, who, began, ended in lines:
        if what == "measure":
            measured += 1
            met += any(
                other != who and other_began < ended and began < other_ended
                for _, other, other_began, other_ended in lines
            )
    return measured, met


def limit(check: Any, **options: Any) -> Constraint:
    return Constraint("ms", upper=1000, check=check, **options)


def run(
    check: Any, study: Path, tmp_path: Path, trials: int = 4, **options: Any
) -> tuple[int, int]:
    log = tmp_path / "log"
    result = tune(
        training(log, tmp_path / "start"),
        study,
        xs=range(trials, 0, -1),
        workers=2,
        constraints=[limit(check)],
        policy=EVERY_STEP,
        **options,
    )
    assert states(study) == ["finished"] * trials
    assert result.best is not None and result.best.value == 1.0
    assert result.best.constraints["ms"].stderr > 0
    return meetings(log)


# -- who waits -----------------------------------------------------------------------------------


def test_nobody_trains_while_a_check_is_measured_alone(study: Path, tmp_path: Path) -> None:
    measured, met = run(latency(), study, tmp_path)
    assert measured >= 4 * STEPS * 11  # at every step, with its warm-up
    assert met == 0


def test_without_that_they_do(study: Path, tmp_path: Path) -> None:
    def check(log: str) -> Any:
        return measure_latency(lambda: measuring(log), warmup=1, repeats=10).p50

    measured, met = run(check, study, tmp_path)
    assert met > measured / 10


def test_on_a_core_set_aside_they_do_too(study: Path, tmp_path: Path) -> None:
    aside = {max(os.sched_getaffinity(0))}
    _, met = run(latency(aside=aside), study, tmp_path)
    assert met > 5
    lines = read_lines(tmp_path / "log")
    trained, measured_by = (
        {line[1] for line in lines if line[0] == w} for w in ("step", "measure")
    )
    assert not trained & measured_by
    noted = {row["description"] for row in rows(study, "SELECT * FROM hardware")}
    assert {found.partition("; ")[2] for found in noted} == {f"set aside: core {min(aside)}"}
    # one measurement at a time there, of two workers
    assert meetings_of("measure", lines) == 0


def meetings_of(what: str, lines: list[list[str]]) -> int:
    its = sorted((float(line[3]), float(line[4])) for line in lines if line[0] == what)
    return sum(later[0] < earlier[1] for earlier, later in itertools.pairwise(its))


def test_two_studies_wait_for_each_other(tmp_path: Path) -> None:
    log, start = tmp_path / "log", tmp_path / "start"

    def one(name: str) -> None:
        tune(
            training(log, start),
            tmp_path / name,
            workers=1,
            constraints=[limit(latency())],
            policy=EVERY_STEP,
        )

    other = threading.Thread(target=one, args=("other.db",))
    other.start()
    one("one.db")
    other.join()
    measured, met = meetings(log)
    assert measured >= 2 * STEPS * 11 and met == 0


def test_a_trial_makes_way_at_each_report_also_if_it_is_not_checked_itself(
    study: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"

    def train(trial: Trial) -> None:
        append_line(tmp_path / "start", trial.number)
        wait_for(lambda: len(read_lines(tmp_path / "start")) >= 2, "another trial")
        for _ in trial.steps(1 if trial.number == 2 else 1_000_000):
            trial.report(1.0, model=str(log))
            time.sleep(0.001)
            if read_lines(log):  # the other one has measured
                return

    tune(
        train,
        study,
        xs=(0.0, 0.0),
        workers=2,
        constraints=[limit(latency())],
        policy=acetune.ACE(interval="end", truncation=0.0),
    )
    assert states(study) == ["finished"] * 2
    assert trial_rows(study)[0]["interval"] == 1_000_000


def test_trials_of_optuna_in_threads_wait(tmp_path: Path) -> None:
    log, start = tmp_path / "log", tmp_path / "start"
    pruner = acetune.optuna.AcePruner([limit(latency())], EVERY_STEP, for_dashboard=False)
    study = optuna.create_study(pruner=pruner, sampler=optuna.samplers.RandomSampler(seed=1))

    def objective(trial: optuna.Trial) -> float:
        trial.suggest_float("x", 0, 1)
        ace = acetune.optuna.trial(trial, STEPS, folder=tmp_path)
        if trial.number == 0:
            raise ValueError("this trial is never ended")
        ace.params = dict(trial.params)
        training(log, start)(ace)
        return ace.finish()

    study.optimize(objective, n_trials=5, n_jobs=2, catch=ValueError)
    measured, met = meetings(log)
    assert measured >= 4 * STEPS * 11 and met == 0
    noted = [trial.system_attrs.get("ace:hardware") for trial in study.get_trials(deepcopy=False)]
    assert noted[0] is None and all("cores" in found["description"] for found in noted[1:])


# -- nobody waits for ever -----------------------------------------------------------------------


def test_trials_that_fail_or_are_killed_keep_nobody_waiting(study: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"

    def train(trial: Trial) -> None:
        for step in trial.steps(4):
            if step == 2 and trial.number == 1:
                raise ValueError("bad luck")
            if step == 2 and trial.number == 2:
                os.kill(os.getpid(), 9)
            if step == 2 and trial.number == 3:
                trial.report(float("nan"), step=step, model=None, constraints={"no such": 1})
            trial.report(1.0 / step, model=str(log))

    tune(
        train,
        study,
        xs=range(6),
        workers=2,
        constraints=[limit(latency())],
        policy=EVERY_STEP,
    )
    assert states(study) == ["failed"] * 3 + ["finished"] * 3


def test_a_limit_on_the_configuration_is_measured_alone_by_the_driver(
    study: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"

    def train(trial: Trial) -> None:
        for _ in trial.steps(STEPS):
            timed(log, "step", 0.004)
            trial.report(1.0, model=str(log))

    def build(params: dict[str, Any]) -> None:
        measuring(str(log))

    by_configuration = LatencyCheck(build, percentile=50, warmup=1, repeats=10)
    tune(
        train,
        study,
        xs=range(8),
        workers=2,
        constraints=[
            limit(latency()),
            Constraint("build_ms", upper=1000, check=by_configuration, on="config"),
        ],
        policy=EVERY_STEP,
    )
    assert states(study) == ["finished"] * 8
    measured, met = meetings(log)
    assert measured >= 8 * 11 + 8 * STEPS * 11 and met == 0


def on_configuration(log: Path) -> Constraint:
    check = LatencyCheck(lambda params: measuring(str(log)), percentile=50, warmup=1, repeats=10)
    return Constraint("build_ms", upper=1000, check=check, on="config")


def test_a_limit_on_the_configuration_alone_is_measured_alone_too(
    study: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"

    def train(trial: Trial) -> None:
        for _ in trial.steps(STEPS):
            timed(log, "step", 0.01)
            trial.report(1.0)

    tune(train, study, xs=range(8), workers=2, constraints=[on_configuration(log)])
    assert states(study) == ["finished"] * 8
    measured, met = meetings(log)
    assert measured == 8 * 11 and met == 0
    found = rows(study, "SELECT * FROM hardware")
    assert [(row["trial"], row["attempt"]) for row in found] == [(n, 1) for n in range(1, 9)]
    assert {row["description"] for row in found} == {describe_hardware()}  # of this process


def test_a_check_of_ones_own_on_the_configuration_is_made_alone(
    study: Path, tmp_path: Path
) -> None:
    seen = []

    def check(params: dict[str, Any]) -> float:
        seen.append(_waited_for(tmp_path))
        return params["x"]

    check.measured_alone = True  # type: ignore[attr-defined]
    tune(
        lambda trial: trial.report(1.0),
        study,
        xs=(2.0, 0.0),
        constraints=[Constraint("own", upper=1, check=check, on="config")],
        max_trials=1,
    )
    assert seen == [True, True]
    assert states(study) == ["rejected", "finished"]
    assert len(rows(study, "SELECT * FROM hardware")) == 2


def _waited_for(tmp_path: Path) -> bool:
    """Whether a trial would have to wait now."""
    turnstile = tmp_path / f"acetune-locks-{os.getuid()}" / "cpu.turnstile"
    if not turnstile.exists():
        return False
    with turnstile.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_trials_that_end_early_and_a_driver_that_measures_do_not_wait_for_each_other(
    study: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"

    def train(trial: Trial) -> None:
        for step in trial.steps(20):
            timed(log, "step", 0.01 if trial.number % 2 else 0.025)
            trial.report(1.0 / step, model=str(log))
            if step == 3:
                timed(log, "step", 0.1)  # a little more, while the driver may begin to measure
                break

    tune(
        train,
        study,
        xs=range(12),
        workers=2,
        constraints=[limit(latency()), on_configuration(log)],
    )
    assert states(study) == ["finished"] * 12
    assert meetings(log)[1] == 0


HANGS = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
from constraints.test_latency_study import hanging
from run.helpers import tune

train, limits = hanging(pathlib.Path(sys.argv[2]))
tune(
    train, sys.argv[3], xs=range(3), workers=2, constraints=limits, stop_grace_s=0.5
)
"""


def hanging(folder: Path) -> tuple[Callable[[Trial], None], list[Constraint]]:
    """The first of three trials trains for ever, so that the driver waits to measure alone."""
    trains = folder / "trains"

    def train(trial: Trial) -> None:
        for _ in trial.steps(1_000_000):
            # one that is no number is not worth a check: the other trials never measure
            trial.report(1.0 if trial.number == 1 else math.nan, model=trial.number)
            if trial.number == 1:
                trains.touch()
                time.sleep(600)
            if trains.exists():
                return

    check = LatencyCheck(lambda _: None, percentile=50, warmup=0, repeats=5)
    # what is built first is not timed, so the limit is a function that measures
    return train, [
        limit(check),
        Constraint("build_ms", upper=1000, check=lambda params: check(params), on="config"),
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_driver_that_waits_to_measure_alone_can_be_interrupted(
    study: Path, tmp_path: Path, number: signal.Signals
) -> None:
    def driver_waits() -> bool:
        for _ in range(30):  # and not one of the trials, for a moment
            time.sleep(0.01)
            if not _waited_for(tmp_path):
                return False
        return True

    arguments = Path(__file__).parents[1], tmp_path, study
    with script(tmp_path / "driver.py", HANGS, *arguments) as driver:
        wait_for(lambda: (tmp_path / "trains").exists(), "training")
        wait_for(driver_waits, "the driver")
        os.killpg(driver.pid, number)
        output_of(driver)
    assert states(study)[0] == "interrupted" and len(states(study)) < 3


@pytest.mark.parametrize(
    ("options", "ended"),
    [
        ({"report_timeout_s": 2.0}, ["failed", "finished", "finished"]),
        ({"time_budget_s": 5.0, "stop_grace_s": 0.2}, ["interrupted"]),
    ],
    ids=["deadline", "budget"],
)
def test_a_driver_that_waits_to_measure_alone_looks_at_the_clock(
    options: dict[str, Any],
    ended: list[str],
    study: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("acetune.run._driver._PATIENCE_S", 600.0)
    train, limits = hanging(tmp_path)
    tune(train, study, xs=range(3), workers=2, constraints=limits, **options)
    assert states(study)[: len(ended)] == ended


def test_a_driver_that_waits_to_measure_alone_hears_of_checks_that_may_hang(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acetune.run._driver._PATIENCE_S", 0.2)
    train, limits = hanging(tmp_path)

    def until_it_waits(model: int) -> float:
        if model == 1:
            (tmp_path / "trains").touch()
            wait_for(lambda: _waited_for(tmp_path), "the driver")
        return 0.0

    def hang(model: int) -> float:
        time.sleep(600)
        return 0.0

    before = Constraint("before", upper=1, check=until_it_waits)
    slow = Constraint("slow", upper=1, check=hang, timeout_s=1.0)
    tune(
        train,
        study,
        xs=range(3),
        workers=2,
        constraints=[before, slow, *limits],
        policy=acetune.ACE(interval=1, truncation=0.0),
    )
    assert states(study) == ["failed", "finished", "finished"]


def test_models_on_their_way_to_the_driver_keep_nobody_waiting(tmp_path: Path) -> None:
    ours, theirs = map(WorkerChannel, socket.socketpair())
    check = latency()
    model = os.urandom(5_000_000)  # more than the pipe holds

    def keep() -> None:
        use = DeviceUse()
        use.expect([check])
        PipeLink(theirs, tmp_path, tmp_path, sees_files=False).keep_model(1, model)
        use.leave()

    with contextlib.closing(ours), contextlib.closing(theirs):
        worker = threading.Thread(target=keep)
        worker.start()
        assert select.select([ours], [], [], 60)[0]
        end = time.monotonic() + 60
        with waiting_until(lambda: time.monotonic() > end), alone(check):
            pass  # nothing was received so far
        while not isinstance(ours.receive(), Saved):
            pass
        worker.join(60)


def test_a_curve_that_fails_keeps_nobody_waiting(tmp_path: Path) -> None:
    def train(trial: Trial) -> None:
        for step in trial.steps(3):
            if step == 2:
                raise ValueError("bad luck")
            trial.report(1.0, model=str(tmp_path / "log"))

    task = Task("t", train, {}, "loss", "min", (limit(latency()),))
    with pytest.raises(ValueError, match="bad luck") as raised:
        train_curve(task, {})
    with ThreadPoolExecutor() as pool:
        pool.submit(alone_at_once, latency()).result()
    assert raised.tb is not None  # it holds the trial


def alone_at_once(check: Any) -> None:
    with waiting_until(lambda: True), alone(check):
        pass


def test_a_check_that_hangs_alone_is_ended_and_others_go_on(study: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"

    def hang(model: Any) -> None:
        if model == 1:
            time.sleep(600)

    def train(trial: Trial) -> None:
        for _ in trial.steps(3):
            trial.report(1.0, model=trial.number)

    check = LatencyCheck(hang, percentile=50, warmup=0, repeats=5)
    tune(
        train,
        study,
        xs=range(3),
        workers=2,
        constraints=[limit(check, timeout_s=1.0)],
        policy=EVERY_STEP,
    )
    assert not log.exists()
    assert states(study) == ["failed", "finished", "finished"]
    assert "outran its timeout" in trial_rows(study)[0]["reason"]


# -- measured again ------------------------------------------------------------------------------


class Counted:
    """Gives made numbers by how often it was called for a model, and notes the calls."""

    measures_again = True

    def __init__(self, log: Path, second: dict[int, float]) -> None:
        self.log, self.second = log, second

    def __call__(self, model: int) -> float:
        append_line(self.log, model)
        calls = sum(line == [str(model)] for line in read_lines(self.log))
        return self.second.get(model, 1.0) if calls > 1 else 1.0


@pytest.mark.parametrize("policy", [EVERY_STEP, acetune.ACE(interval=1, truncation=0.0)])
def test_only_what_would_be_the_best_is_measured_again(
    policy: acetune.Policy, study: Path, tmp_path: Path
) -> None:
    losses = [5.0, 4.0, 4.5, 3.0, 3.5]  # at 3.0 the second measurement breaks the limit

    def train(trial: Trial) -> None:
        for step in trial.steps(5):
            trial.report(losses[step - 1], model=step)

    log = tmp_path / "calls"
    check = Counted(log, second={4: 9.0})
    constraint = Constraint("ms", upper=2, check=check)
    result = tune(train, study, constraints=[constraint], policy=policy)
    calls = [int(line[0]) for line in read_lines(log)]
    gated = [] if not policy.gate else [3]  # worse than the best: not even measured once
    assert calls == [1, 1, 2, 2, *([] if gated else [3]), 4, 4, 5, 5]
    assert result.best is not None and (result.best.value, result.best.step) == (3.5, 5)
    values = {row["step"]: row["value"] for row in rows(study, _VALUES)}
    assert values[4] == 9.0
    assert report_rows(study)[3]["stratum"] == "invalid"


_VALUES = "SELECT r.step, c.value FROM checks c JOIN reports r USING (seq)"


def test_what_is_checked_after_the_run_is_measured_again(study: Path, tmp_path: Path) -> None:
    def train(trial: Trial) -> None:
        for _ in trial.steps(1):
            trial.report(trial.params["x"], model=trial.number)

    constraint = Constraint("ms", upper=2, check=Counted(tmp_path / "calls", second={2: 9.0}))
    result = tune(train, study, xs=(2.0, 1.0), constraints=[constraint], policy="none+after")
    assert sorted(line[0] for line in read_lines(tmp_path / "calls")) == ["1", "1", "2", "2"]
    assert result.best is not None and result.best.trial == 1


def test_a_confirmation_may_measure_too(study: Path, tmp_path: Path) -> None:
    def train(trial: Trial) -> None:
        for _ in trial.steps(2):
            trial.report(1.0, model=str(tmp_path / "log"))

    check = latency()
    result = tune(
        train,
        study,
        constraints=[limit(check)],
        policy=EVERY_STEP,
        confirm=lambda model: {"ms": check(model)},
    )
    # ten calls may all lie between two slow spells
    assert result.best is not None and result.best.status == "holds"
    assert "calls" in result.best.confirmation.bounds["ms"].how  # type: ignore[union-attr]


# -- hardware ------------------------------------------------------------------------------------


def test_what_was_measured_on_is_in_the_study_file_also_of_one_that_did_not_know_it(
    study: Path, tmp_path: Path
) -> None:
    def train(trial: Trial) -> None:
        for _ in trial.steps(2):
            trial.report(1.0, model=str(tmp_path / "log"))

    # a file as it was written before there was such a table, and is where no check asks for it
    tune(train, study, constraints=[limit(lambda model: 1.0)], policy=EVERY_STEP)
    assert not rows(study, "SELECT 1 FROM sqlite_master WHERE name = 'hardware'")
    assert not list(tmp_path.glob("acetune-locks-*"))
    tune(
        train,
        study,
        constraints=[limit(latency())],
        policy=EVERY_STEP,
        max_trials=2,
        threads=1,
        on_changed_check="accept",
    )
    found = rows(study, "SELECT * FROM hardware")
    assert [(row["trial"], row["attempt"]) for row in found] == [(2, 1)]
    assert f"of {os.cpu_count()} cores, 1 thread" in found[0]["description"]
    told = [CliRunner().invoke(app, ["explain", str(study), trial]).output for trial in "12"]
    assert "measured on" not in told[0]
    assert f"measured on: {found[0]['description']}" in told[1]
