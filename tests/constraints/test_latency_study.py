"""Studies with a latency limit: real workers, on every engine, and nobody trains meanwhile."""

from __future__ import annotations

import itertools
import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
from typer.testing import CliRunner

import acetune
import acetune.optuna
from acetune import Constraint, Trial
from acetune.cli import app
from acetune.constraints.latency import LatencyCheck, measure_latency
from acetune.study_file import CodeChangedWarning
from engines.helpers import (
    append_line,
    read_lines,
    report_rows,
    rows,
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
    assert result.best is not None and result.best.status == "confirmed"


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
    with pytest.warns(CodeChangedWarning):  # the check
        tune(
            train,
            study,
            constraints=[limit(latency())],
            policy=EVERY_STEP,
            max_trials=2,
            threads=1,
        )
    found = rows(study, "SELECT * FROM hardware")
    assert [(row["trial"], row["attempt"]) for row in found] == [(2, 1)]
    assert f"of {os.cpu_count()} cores, 1 thread" in found[0]["description"]
    told = [CliRunner().invoke(app, ["explain", str(study), trial]).output for trial in "12"]
    assert "measured on" not in told[0]
    assert f"measured on: {found[0]['description']}" in told[1]
