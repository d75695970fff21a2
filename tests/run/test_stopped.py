"""Deadlines while processes are stopped, as by Ctrl-Z, and while the driver has no time to read."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import acetune
from acetune import Constraint, Trial
from acetune.run._timeouts import AwakeClock
from run.helpers import output_of, read_lines, script, states, trial_rows, tune, wait_for

STOPPED_S = 5.0

DRIVER = """
import os, pathlib, sys, time
sys.path.insert(0, sys.argv[3])
from acetune import Constraint
from run.helpers import append_line, tune

NOTES = pathlib.Path(sys.argv[2])

def slow(model):
    append_line(NOTES, os.getpid())
    time.sleep(1.5)
    return 0.0

def train(trial):
    for step in trial.steps(2):
        if trial.number == 1:
            append_line(NOTES, os.getpid())
            time.sleep(1.5)
        trial.report(step, model=step)

timeouts = dict(timeout_s=3.0) if sys.argv[4] == "check" else {}
check = Constraint("g", upper=1, check=slow if timeouts else lambda model: 0.0, **timeouts)
options = {} if timeouts else dict(report_timeout_s=3.0)
tune(train, pathlib.Path(sys.argv[1]), xs=[0.0], constraints=[check], **options)
"""


@pytest.mark.parametrize("all_of_it", [True, False], ids=["everything", "the driver"])
@pytest.mark.parametrize("what", ["check", "report"])
def test_a_study_that_was_stopped_fails_no_healthy_trial(
    study: Path, tmp_path: Path, what: str, all_of_it: bool
) -> None:
    notes = tmp_path / "notes"
    arguments = tmp_path / "driver.py", DRIVER, study, notes, Path(__file__).parents[1], what
    with script(*arguments) as driver:
        wait_for(lambda: read_lines(notes), "training to begin")
        worker = int(read_lines(notes)[0][0])
        stopped = [driver.pid, worker] if all_of_it else [driver.pid]
        for process in stopped:
            os.kill(process, signal.SIGSTOP)
        time.sleep(STOPPED_S)
        for process in stopped:
            os.kill(process, signal.SIGCONT)
        output_of(driver)
    assert states(study) == ["finished"], trial_rows(study)[0]["reason"]


class Dawdles(acetune.StudyCallback):
    """Has the driver wait, and not read, for longer than trials may be silent."""

    def __init__(self) -> None:
        self.waited = 0

    def on_report(self, *_: Any, **__: Any) -> None:
        if self.waited < 2:
            self.waited += 1
            time.sleep(2.5)


def test_what_was_said_and_not_read_yet_counts(study: Path) -> None:
    def train(trial: Trial) -> None:
        for step in trial.steps(4):
            trial.report(step, model=step)
            time.sleep(0.3)

    callback = Dawdles()
    check = Constraint("g", upper=1, check=lambda model: 0.0)
    options: dict[str, Any] = {"workers": 2, "report_timeout_s": 2.0, "callbacks": [callback]}
    tune(train, study, xs=[1.0, 2.0], constraints=[check], **options)

    assert callback.waited == 2
    assert states(study) == ["finished", "finished"], trial_rows(study)[0]["reason"]


def test_the_clock_counts_long_waits_and_not_those_in_which_nobody_looked() -> None:
    now = 0.0
    clock = AwakeClock(lambda: now, watched=False)
    for _ in range(40):
        now += 0.25
        clock()
    assert clock() == 10.0
    now += 3600.0
    assert clock() == 11.0
    watched = AwakeClock()
    before = watched()
    time.sleep(3.0)
    assert watched() - before > 1.5
    watched.close()
