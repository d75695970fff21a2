"""How a study ends before its time, and goes on later."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

import acetune
from acetune import Constraint, Trial
from run.helpers import (
    Events,
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

SCRIPT = """
import json, os, pathlib, sys, time
sys.path.insert(0, sys.argv[1])
from run.helpers import append_line, tune

folder = pathlib.Path(sys.argv[2])
steps, hang, options = int(sys.argv[3]), sys.argv[4] == "hang", json.loads(sys.argv[5])

def train(trial):
    for step in trial.steps(steps):
        trial.report(1 / step, model=step)
        append_line(folder / "reports", trial.number, step)
        time.sleep(600 if hang else 0.005)

def confirm(model):
    append_line(folder / "confirmed", model)
    return {"g": 0}

result = tune(
    train, folder / "study.db", max_trials=2, workers=2, confirm=confirm, confirm_top=2, **options
)
print(json.dumps(result.counts))
"""


@contextmanager
def running(
    folder: Path, steps: int, hang: str = "no", engine: str = "local"
) -> Iterator[Popen[str]]:
    options: dict[str, Any] = {"stop_grace_s": 600} if hang == "hang" else {}
    if engine == "ray":
        options |= {"engine": engine, "resources": {"cpu": 0.5}}
    arguments = Path(__file__).parents[1], folder, steps, hang, json.dumps(options)
    with script(folder / "driver.py", SCRIPT, *arguments) as driver:
        yield driver


def trials_reported(folder: Path) -> set[str]:
    return {line[0] for line in read_lines(folder / "reports")}


@pytest.mark.parametrize(
    ("number", "engine"),
    [(signal.SIGINT, "local"), (signal.SIGTERM, "local"), (signal.SIGINT, "ray")],
)
def test_one_signal_ends_cleanly_and_the_next_call_goes_on(
    study: Path, tmp_path: Path, number: signal.Signals, engine: str
) -> None:
    with running(tmp_path, 1_000_000, engine=engine) as driver:
        wait_for(lambda: len(trials_reported(tmp_path)) == 2, "reports of both trials")
        os.killpg(driver.pid, number)  # all that the terminal would reach
        assert json.loads(output_of(driver)) == {"interrupted": 2}
    assert {row["reason"] for row in trial_rows(study)} == {"interrupted by the user"}
    assert not (tmp_path / "confirmed").exists()
    before = report_rows(study)

    with running(tmp_path, 5) as driver:
        assert json.loads(output_of(driver)) == {"finished": 2}
    assert [(row["attempt"], row["state"]) for row in trial_rows(study)] == [
        (1, "interrupted"),
        (2, "finished"),
    ] * 2
    assert report_rows(study)[: len(before)] == before
    assert (tmp_path / "confirmed").exists()


def test_two_signals_stop_at_once(study: Path, tmp_path: Path) -> None:
    with running(tmp_path, 9, "hang") as driver:
        wait_for(lambda: len(trials_reported(tmp_path)) == 2, "reports of both trials")
        driver.send_signal(signal.SIGINT)
        time.sleep(0.5)  # the first one alone changes nothing: the trials hang
        assert driver.poll() is None
        driver.send_signal(signal.SIGINT)
        assert json.loads(output_of(driver)) == {"interrupted": 2}
    assert len(report_rows(study)) == 2


CONFIRMING = """
import pathlib, sys, time
sys.path.insert(0, sys.argv[1])
from acetune import Constraint, NoStopping
from run.helpers import append_line, tune

folder, hang, where = pathlib.Path(sys.argv[2]), sys.argv[3] == "hang", sys.argv[4]

def train(trial):
    trial.report(trial.params["x"], model=trial.params["x"])

def look(model):
    append_line(folder / "looks", model)
    time.sleep(600 * hang)
    return 0

after = where == "check"
tune(
    train, folder / "study.db", xs=[1, 2], workers=2,
    constraints=[Constraint("g", upper=1, check=look if after else lambda model: 0)],
    policy=NoStopping(constraints="after" if after else "callback"),
    confirm=(lambda model: {"g": 0}) if after else (lambda model: {"g": look(model)}),
)
"""


@pytest.mark.parametrize("where", ["check", "confirmation"])
def test_what_a_signal_cuts_off_after_the_run_is_not_held_against_the_model(
    study: Path, tmp_path: Path, where: str
) -> None:
    path, tests, looks = tmp_path / "driver.py", Path(__file__).parents[1], tmp_path / "looks"
    with script(path, CONFIRMING, tests, tmp_path, "hang", where) as driver:
        wait_for(lambda: read_lines(looks), "the model to be looked at")
        driver.send_signal(signal.SIGINT)
        time.sleep(0.5)
        driver.send_signal(signal.SIGINT)
        output_of(driver)
    assert not rows(study, "SELECT * FROM confirmations")
    assert not rows(study, "SELECT * FROM checks WHERE value IS NULL")
    assert acetune.load(study).interrupted

    with script(path, CONFIRMING, tests, tmp_path, "no", where) as driver:
        output_of(driver)
    result = acetune.load(study)
    best = result.best
    assert not result.interrupted and best is not None and (best.trial, best.status) == (1, "holds")


# -- budgets -------------------------------------------------------------------------------------


def endless(trial: Trial) -> None:
    for step in trial.steps():
        trial.report(1 / step)
        time.sleep(0.005)


def test_the_time_budget_ends_running_trials_and_is_a_total(study: Path) -> None:
    result = tune(endless, study, max_trials=None, time_budget_s=2.0, workers=2)
    assert result.counts == {"interrupted": 2}
    assert {row["reason"] for row in trial_rows(study)} == {"the time budget is spent"}
    assert result.ledger.wall_s >= 2.0

    reports = len(report_rows(study))
    again = tune(endless, study, max_trials=None, time_budget_s=2.0, workers=2)
    assert len(report_rows(study)) == reports and again.counts == {"interrupted": 2}

    more = result.ledger.wall_s + 2.0
    tune(endless, study, max_trials=None, time_budget_s=more, workers=2)
    assert [(row["trial"], row["attempt"], row["state"]) for row in trial_rows(study)] == [
        (trial, attempt, "interrupted") for trial in (1, 2) for attempt in (1, 2)
    ]


def test_a_trial_that_ignores_the_end_of_the_budget_is_cut_off(
    study: Path,
) -> None:
    def train(trial: Trial) -> None:
        trial.report(1.0)
        time.sleep(600)

    result = tune(train, study, max_trials=None, time_budget_s=1.5, stop_grace_s=0.2)

    assert result.counts == {"interrupted": 1}


def short(trial: Trial) -> None:
    for step in trial.steps(2):
        trial.report(trial.params["x"] + 1 / step)


def test_max_trials_is_a_total(study: Path) -> None:
    for total, expected in ((2, 2), (2, 2), (5, 5), (3, 5)):
        tune(short, study, max_trials=total)
        assert states(study) == ["finished"] * expected


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        ({"max_trials": 2, "time_budget_s": 600}, {"finished": 2}),
        ({"max_trials": 600, "time_budget_s": 1.5}, {"interrupted": 1}),
    ],
)
def test_the_first_of_two_budgets_ends_the_study(
    study: Path, budget: dict[str, Any], expected: dict[str, int]
) -> None:
    train = short if budget["max_trials"] == 2 else endless
    assert tune(train, study, **budget).counts == expected


def test_no_trial_is_left_behind_by_workers_that_end_together(study: Path) -> None:
    events = Events()
    result = tune(short, study, xs=range(20), workers=2, callbacks=[events])

    assert sum(result.counts.values()) == 20
    ended = [event[1] for event in events.log if event[0] == "trial end"]
    assert sorted(ended) == list(range(1, 21))


def test_training_that_hangs_before_its_first_report_is_cut_off(
    study: Path, tmp_path: Path
) -> None:
    began = tmp_path / "began"

    def train(trial: Trial) -> None:
        append_line(began, trial.attempt)
        if trial.attempt == 1:
            time.sleep(600)
        trial.report(1.0, model=1)

    check = Constraint("g", upper=1, check=lambda model: 0)
    options = {"time_budget_s": 1.5, "stop_grace_s": 0.2}
    first = tune(train, study, max_trials=1, constraints=[check], **options)
    assert first.counts == {"interrupted": 1} and first.best is None
    second = tune(train, study, max_trials=1, constraints=[check])
    assert [line[0] for line in read_lines(began)] == ["1", "2"]
    assert second.counts == {"finished": 1}
