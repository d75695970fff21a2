"""Whatever a worker sends, leaves half sent or does not read: its own trial fails, no other."""

from __future__ import annotations

import os
import pickle
import signal
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import acetune
from acetune import Constraint, Trial
from acetune.core.goals import Estimate, FailedCheck
from acetune.core.reason import INTERRUPTED
from acetune.run import _messages as m
from acetune.trial.link import Report
from run.helpers import (
    DEADLINE_S,
    report_rows,
    require_same_decisions,
    rows,
    script,
    states,
    trial_rows,
    tune,
    wait_for,
)

LIMIT = Constraint("g", upper=10.0, check=lambda model: model)


def pipe_of(trial: Trial) -> Any:
    """The worker's end of the pipe, as hostile training code may find it."""
    return trial._link._link._pipe  # type: ignore[attr-defined]


def write(trial: Trial, data: bytes) -> None:
    os.write(pipe_of(trial).fileno(), data)


def half_a_message(trial: Trial) -> None:
    data = pickle.dumps(m.Notice("never heard"))
    write(trial, b"ace\x02" + struct.pack("!Q", len(data)) + data[:5])


def freeze(trial: Trial) -> None:
    half_a_message(trial)
    os.kill(os.getpid(), signal.SIGSTOP)


def training(bad: Callable[[Trial], object], step: int = 2) -> Callable[[Trial], None]:
    """Does something bad in trial 2, after its first report, and trains the others."""

    def train(trial: Trial) -> None:
        for now in trial.steps(4):
            if trial.number == 2 and now == step:
                bad(trial)
                time.sleep(DEADLINE_S)  # its worker is ended before
            trial.report(trial.params["x"] + 1 / now, model=now)

    return train


def require_others_went_well(study: Path, reason: str) -> None:
    """Trial 2 failed for that reason; all others ended as they should, and nothing was lost."""
    found = trial_rows(study)
    assert [row["state"] == "failed" for row in found] == [False, True, False, False]
    assert {row["state"] for row in found} <= {"finished", "failed", "stopped"}
    assert reason in found[1]["reason"]
    assert len(report_rows(study)) >= 8
    require_same_decisions(study, acetune.Adaptive())


def test_a_worker_that_freezes_in_the_middle_of_a_message(study: Path) -> None:
    # with one other worker at work meanwhile, and the deadline of the frozen one still kept
    tune(
        training(freeze), study, xs=[1, 2, 3, 4], workers=2, report_timeout_s=2, constraints=[LIMIT]
    )
    require_others_went_well(study, "no report for 2 s")


def test_the_time_budget_ends_a_study_with_a_frozen_worker(study: Path) -> None:
    result = tune(training(freeze), study, xs=[1, 2], time_budget_s=2, stop_grace_s=0.5)
    assert states(study) == ["finished", "interrupted"]
    assert result.ended == "the time budget is spent"


FROZEN = """
import os, pickle, signal, struct, sys
import acetune

def train(trial):
    for step in trial.steps(3):
        trial.report(step)
        data = pickle.dumps("half")
        half = b"ace\\x02" + struct.pack("!Q", len(data)) + data[:3]
        os.write(trial._link._link._pipe.fileno(), half)
        print("frozen")
        open(sys.argv[2], "w").write(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)

acetune.tune(train, {"x": acetune.uniform(0, 1)}, objective="loss", mode="min", max_trials=1,
             workers=1, study=sys.argv[1], progress=False, stop_grace_s=0.5)
"""


def test_ctrl_c_ends_a_study_with_a_frozen_worker(study: Path, tmp_path: Path) -> None:
    frozen = tmp_path / "frozen"
    source = FROZEN.replace("sys.argv[2]", repr(str(frozen)))
    with script(tmp_path / "study.py", source, study) as process:
        wait_for(lambda: frozen.exists() and frozen.read_text(), "the worker to freeze")
        process.send_signal(signal.SIGINT)
        process.wait(timeout=DEADLINE_S)
    assert states(study) == ["interrupted"]
    assert rows(study, "SELECT ended FROM sessions")[0]["ended"] == INTERRUPTED.code


def unpickled_with_an_error(trial: Trial) -> None:
    data = b"cno_such_module\nthing\n."
    write(trial, b"ace\x02" + struct.pack("!Q", len(data)) + data)


@pytest.mark.parametrize(
    "bad",
    [
        lambda trial: write(trial, b"Epoch 2: 0.3\n"),
        lambda trial: write(trial, os.urandom(1000)),
        unpickled_with_an_error,
        lambda trial: pipe_of(trial).send("hello"),
        lambda trial: pipe_of(trial).send(m.Reported(Report("2", 0.5))),  # type: ignore[arg-type]
    ],
    ids=["text", "noise", "pickle", "stranger", "kind"],
)
def test_stray_bytes_on_the_pipe(study: Path, bad: Callable[[Trial], object]) -> None:
    tune(training(bad), study, xs=[1, 2, 3, 4], constraints=[LIMIT])
    require_others_went_well(study, "sent what is not a message")


def send(*messages: object) -> Callable[[Trial], None]:
    def bad(trial: Trial) -> None:
        for message in messages:
            pipe_of(trial).send(message)

    return bad


@pytest.mark.parametrize(
    "bad",
    [
        send(m.Begin(4, 0.1)),
        send(m.Checking("no such constraint")),
        send(m.Evaluated({}, {})),
        send(m.Saved("model", 2, "../somewhere", 3)),
        send(m.Evaluated({}, {}), m.Done(), m.Done()),  # what follows at once counts no more
    ],
    ids=["begin", "checking", "evaluated", "saved", "more"],
)
def test_messages_that_make_no_sense(study: Path, bad: Callable[[Trial], object]) -> None:
    tune(training(bad), study, xs=[1, 2, 3, 4], constraints=[LIMIT])
    require_others_went_well(study, "makes no sense")
    assert trial_rows(study)[1]["code"] == "worker_lost"


@pytest.mark.parametrize(
    "message",
    [
        m.Reported(Report(2, 0.5, 2, {"unknown": Estimate(1.0, 0.0)})),
        m.Reported(Report(2, 0.5, 99, {"g": Estimate(1.0, 0.0)})),
        m.Reported(Report(2, 0.5, primary_cost_s=-1.0)),
        m.Reported(Report(50, 0.5)),
        m.Declare(3),
    ],
)
def test_reports_that_cannot_be_taken_are_answered_with_an_error(
    study: Path, message: object
) -> None:
    def bad(trial: Trial) -> None:
        trial._link._link._ask(message)  # type: ignore[attr-defined]

    tune(training(bad), study, xs=[1, 2, 3, 4], constraints=[LIMIT])
    require_others_went_well(study, "ReportError")


def test_a_closed_pipe(study: Path) -> None:
    tune(training(lambda t: pipe_of(t).close()), study, xs=[1, 2, 3, 4], constraints=[LIMIT])
    require_others_went_well(study, "its worker process")


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def raising(error: Exception) -> Callable[[Trial], None]:
    def bad(_: Trial) -> None:
        raise error

    return bad


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (UnspeakableError(), "UnspeakableError: (its text cannot be made"),
        (ValueError("x" * 50_000_000), "characters left out"),
        (ValueError("\udc80 half a character"), "half a character"),
    ],
)
def test_errors_that_cannot_be_said_or_are_endless(
    study: Path, error: Exception, reason: str
) -> None:
    tune(training(raising(error)), study, xs=[1, 2, 3, 4], constraints=[LIMIT])
    require_others_went_well(study, reason)


def test_errors_of_a_searcher_are_not_blamed_on_workers(study: Path) -> None:
    class Broken(acetune.Searcher):
        def ask(self, trial: int) -> dict[str, Any]:
            return {"x": 0.0}

        def tell(self, trial: int, outcome: Any, params: Any = None) -> None:
            raise ValueError("the searcher is broken")

        def add(self, trial: int, params: Any, outcome: Any) -> None:
            pass

    with pytest.raises(ValueError, match="is broken"):
        tune(training(lambda trial: None), study, searcher=Broken(), max_trials=1)
    assert states(study) == ["finished"]


def test_threads_that_report_at_once_wait_for_each_other(study: Path) -> None:
    def train(trial: Trial) -> None:
        threads = [
            threading.Thread(target=lambda: [trial.report(0.5, model=1) for _ in range(50)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    tune(train, study, xs=[1, 2], constraints=[LIMIT], policy=acetune.NoStopping())
    assert states(study) == ["finished"] * 2
    assert len([row for row in report_rows(study) if row["kind"] == "step"]) == 400


@pytest.mark.parametrize(
    "message",
    [
        m.Reported(Report(2, 2**70)),
        m.Begin(5, 10**400),
        m.Reported(Report(2, 0.5, 2**80)),
        m.Reported(Report(2, 0.5, 2, {"g": Estimate(2**70)})),
        m.Reported(Report(2, 0.5, 2, {"g": FailedCheck(5)})),  # type: ignore[arg-type]
        m.Reported(Report(2, 0.5, metrics={(1, 2): 3.0})),  # type: ignore[dict-item]
        m.Reported(Report(2, 0.5, metrics={"a": 10**5000})),
    ],
)
def test_numbers_that_no_study_file_holds(study: Path, message: object) -> None:
    tune(training(send(message)), study, xs=[1, 2, 3, 4], constraints=[LIMIT])
    require_others_went_well(study, "sent what is not a message")


def test_a_trial_that_is_done_before_it_has_ended(study: Path) -> None:
    tune(training(send(m.Done())), study, xs=[1, 2, 3, 4], constraints=[LIMIT])
    require_others_went_well(study, "before the trial had ended")


def test_a_worker_that_hangs_up_is_not_said_to_be_out_of_memory(study: Path) -> None:
    tune(training(lambda _: os.closerange(3, 64)), study, xs=[1, 2, 3, 4], constraints=[LIMIT])
    require_others_went_well(study, "its worker process closed its connection to the driver")


def test_an_answer_of_confirm_that_cannot_be_sent(study: Path) -> None:
    def train(trial: Trial) -> None:
        trial.report(0.5, model=1.0)

    result = tune(train, study, constraints=[LIMIT], confirm=lambda _: {"g": lambda: 1})
    assert result.best is not None and result.best.status == "unconfirmed"
    assert result.best.confirmation is not None
    assert "pickle" in (result.best.confirmation.error or "").lower()
