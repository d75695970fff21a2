"""Whatever user code and the machine do: a trial may fail, the study goes on, nothing is lost."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import acetune
from acetune import ACE, ACE2, Adaptive, Constraint, Policy, Stopper, Trial, TrialStopped
from acetune.core.errors import ReportError, StudyError, TrainingCodeError
from acetune.study.coordinator import StudyCoordinator
from acetune.study.store import Store
from acetune.trial.artifacts import kept_name, write_folder
from acetune.trial.link import Report
from run.helpers import (
    DEADLINE_S,
    DRIVER,
    Events,
    acknowledging,
    alive,
    append_line,
    killing,
    log_of,
    output_of,
    read_lines,
    report_rows,
    require_acknowledged,
    require_failed_as_killed,
    require_same_decisions,
    require_whole,
    rows,
    script,
    states,
    trial_rows,
    tune,
    wait_for,
)


def good(trial: Trial) -> None:
    for step in trial.steps(3):
        trial.report(trial.params["x"] + 1 / step, model=step)


def sleeping(seconds: float) -> float:
    time.sleep(seconds)
    return 0.0


def noted(calls: list[int]) -> float:
    calls.append(1)
    return 0.0


def bad_first(what: Callable[[Trial], object]) -> Callable[[Trial], None]:
    """A training function that does something bad in trial 1 and trains the others."""

    def train(trial: Trial) -> None:
        if trial.number == 1:
            what(trial)
        else:
            good(trial)

    return train


# -- SIGKILL of workers --------------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "policy"), [(1, ACE2()), (2, ACE2()), (3, Adaptive())])
def test_workers_killed_at_random_moments(
    study: Path, tmp_path: Path, seed: int, policy: Policy
) -> None:
    acks, chance = tmp_path / "acks", random.Random(seed)
    xs = random.Random(seed).choices(range(1000), k=150)
    check = Constraint("g", upper=4.5, check=lambda model: model)
    with killing(acks, lambda: chance.uniform(0.02, 0.12)) as killed:
        train = acknowledging(acks, 6, 0.003)
        tune(train, study, xs=xs, constraints=[check], workers=2, policy=policy)

    assert len(killed) >= 5
    assert require_acknowledged(study, acks) > 0
    found = trial_rows(study)
    assert [row["trial"] for row in found] == list(range(1, 151))
    assert {row["state"] for row in found} == {"finished", "stopped", "failed"}
    require_failed_as_killed(study, killed, "was killed by SIGKILL")
    require_same_decisions(study, policy)


def test_a_killed_worker_is_retried_as_a_new_attempt(study: Path) -> None:
    def train(trial: Trial) -> None:
        for step in trial.steps(4):
            if trial.attempt == 1 and step == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            trial.report(step)

    tune(train, study, retries=1)

    assert states(study) == ["failed", "finished"]
    steps = [(row["attempt"], row["step"]) for row in report_rows(study)]
    assert steps == [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (2, 4)]
    assert acetune.load(study).counts == {"finished": 1}


def test_retries_end(study: Path) -> None:
    def train(trial: Trial) -> None:
        raise ValueError(f"attempt {trial.attempt}")

    tune(train, study, xs=[1, 2], retries=2)

    assert [(row["trial"], row["attempt"], row["reason"]) for row in trial_rows(study)] == [
        (trial, attempt, f"ValueError: attempt {attempt}")
        for trial in (1, 2)
        for attempt in (1, 2, 3)
    ]


def test_the_best_model_survives_when_only_a_later_attempt_reported(study: Path) -> None:
    def train(trial: Trial) -> None:
        if trial.number == 1 and trial.attempt == 1:
            raise MemoryError("before anything was reported")
        trial.report(trial.params["x"], model=trial.params["x"])

    xs = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    tune(train, study, xs=xs, max_trials=1, retries=1, keep_models=2)
    result = tune(train, study, xs=xs, max_trials=6, retries=1, keep_models=2)

    assert result.best is not None and (result.best.trial, result.best.attempt) == (1, 2)
    assert result.best.load() == 0.0


# -- SIGKILL of the driver -----------------------------------------------------------------------


@pytest.mark.parametrize("save", ["save", "nothing"])
def test_driver_killed_at_random_moments(study: Path, tmp_path: Path, save: str) -> None:
    acks, path = tmp_path / "acks", tmp_path / "driver.py"
    arguments = study, acks, save, 0.004, json.dumps({"max_trials": 60, "workers": 2})
    chance = random.Random(save)
    for _ in range(12):
        with script(path, DRIVER, *arguments) as driver:
            if chance.random() < 0.2:  # perhaps before the study exists
                time.sleep(chance.uniform(0.0, 0.5))
            else:
                known = len(read_lines(acks))
                wait_for(
                    lambda: driver.poll() is not None or len(read_lines(acks)) > known,  # noqa: B023
                    "a report",
                )
                time.sleep(chance.uniform(0.0, 0.15))
            driver.send_signal(signal.SIGKILL)
    with script(path, DRIVER, *arguments) as driver:
        best = int(output_of(driver))

    workers = {int(line[-1]) for line in read_lines(acks)}
    wait_for(lambda: not any(map(alive, workers)), "the workers of killed drivers to end")
    require_whole(study, acks, 60, best)
    found = trial_rows(study)
    assert any(row["attempt"] > 1 for row in found)
    assert any(row["resumed_from"] > 0 for row in found) == (save == "save")


# -- user code that fails ------------------------------------------------------------------------


class Odd(BaseException):
    pass


def raise_(error: BaseException) -> None:
    raise error


FAILURES: dict[str, tuple[Callable[[Trial], object], str]] = {
    "raises": (lambda trial: raise_(ValueError("too warm")), "ValueError: too warm"),
    "raises EOFError": (lambda trial: raise_(EOFError("no data")), "EOFError: no data"),
    "raises BrokenPipeError": (lambda trial: raise_(BrokenPipeError("tool")), "BrokenPipe.*tool"),
    "raises odd text": (lambda trial: raise_(ValueError("\udcff {x}")), "ValueError: .* {x}"),
    "raises BaseException": (lambda trial: raise_(Odd("odd")), "Odd: odd"),
    "asks for input": (lambda trial: input(), "EOFError"),
    "calls sys.exit": (lambda trial: sys.exit(3), "SystemExit: 3"),
    "calls os._exit": (lambda trial: os._exit(3), "worker process exited with status 3"),
    "never reports": (lambda trial: None, r"without reporting.*report\(loss=...\)"),
    "steps(0)": (lambda trial: list(trial.steps(0)), "total_steps.*got 0"),
    "steps(-2)": (lambda trial: list(trial.steps(-2)), "total_steps.*got -2"),
    "steps(2.5)": (lambda trial: list(trial.steps(2.5)), "total_steps.*got 2.5"),  # type: ignore[arg-type]
    "reports text": (lambda trial: trial.report("high"), "objective 'loss'.*'high'"),  # type: ignore[arg-type]
    "reports nothing": (lambda trial: trial.report(), r"report\(loss=...\)"),
    "reports another name": (lambda trial: trial.report(auc=1), r"report\(loss=.*'auc'"),
    "reports twice by name": (lambda trial: trial.report(1, loss=2), "given twice: 1 and 2"),
    "step 0": (lambda trial: trial.report(1, step=0, model=1), "step is 0, and steps count from 1"),
    "step 1.5": (lambda trial: trial.report(1, step=1.5, model=1), "step must be .* got 1.5"),  # type: ignore[arg-type]
    "constraint as metric": (lambda trial: trial.report(1, g=2), "'g' is a constraint"),
    "unknown constraint": (
        lambda trial: trial.report(1, constraints={"gg": int}),
        r"unknown constraint 'gg'.*\['g'\]",
    ),
    "cost below 0": (
        lambda trial: trial.report(1, primary_cost_s=-1, model=1),
        "primary_cost_s.*-1",
    ),
    "no model for the check": (lambda trial: trial.report(1), "'g' takes a model.*model=..."),
    "missing checkpoint": (
        lambda trial: trial.report(1, model=1, checkpoint="/no/such"),
        "'/no/such' does not exist",
    ),
    "wrong checkpoint": (
        lambda trial: trial.report(1, model=1, checkpoint=5),  # type: ignore[arg-type]
        "checkpoint must be a path or a function, got 5",
    ),
}


def test_user_code_that_fails_fails_its_trial_with_a_message(study: Path) -> None:
    wrongs = list(FAILURES.values())

    def train(trial: Trial) -> None:
        if trial.number > 1:
            wrongs[trial.number - 2][0](trial)
        else:
            good(trial)  # else a wrong call of report would end the study

    result = tune(
        train,
        study,
        xs=[0.0] * (len(wrongs) + 1),
        policy=ACE(interval=1),
        constraints=[Constraint("g", upper=9, check=lambda model: model)],
    )

    found = trial_rows(study)
    assert [row["state"] for row in found] == ["finished"] + ["failed"] * len(wrongs)
    for name, (_, message), row in zip(FAILURES, wrongs, found[1:], strict=True):
        assert re.search(message, row["reason"]), (name, row["reason"])
        assert row["code"] == ("worker_lost" if "os._exit" in name else "raised"), name
        if "os._exit" not in name:
            assert row["traceback"].startswith("Traceback"), name
            assert row["traceback"] in log_of(study, row["trial"]), name
    assert result.counts == {"failed": len(wrongs), "finished": 1}


def test_all_trials_failing_end_the_study_with_the_traceback(study: Path) -> None:
    def train(trial: Trial) -> None:
        if trial.number == 1:
            time.sleep(600)
        open("/no/such/file")  # noqa: PTH123, SIM115

    with pytest.raises(
        StudyError, match=r"3 trials failed one after another(.|\n)*Traceback"
    ) as caught:
        tune(train, study, xs=[0.0] * 9, max_failures=3, workers=2)

    assert "FileNotFoundError" in str(caught.value) and 'open("/no/such/file")' in str(caught.value)
    ended = "an error: 3 trials failed one after another, so the study was ended"
    assert acetune.load(study).ended == ended
    # what was still running is not said to run for ever
    assert sorted(states(study)) == ["failed", "failed", "failed", "interrupted"]


def test_an_error_of_somebody_elses_is_why_the_session_ended(study: Path) -> None:
    class Full(ACE2):
        def decide(self, *arguments: Any) -> Any:
            raise StudyError("there is no room; it was asked for by:\nsomebody")

    with pytest.raises(StudyError, match="there is no room"):
        tune(good, study, policy=Full())
    assert acetune.load(study).ended == "an error: there is no room; it was asked for by:"


def test_failures_that_are_not_in_a_row_do_not_end_the_study(study: Path) -> None:
    def train(trial: Trial) -> None:
        if trial.number % 2:
            raise ValueError("every other")
        good(trial)

    result = tune(train, study, xs=[0.0] * 8, max_failures=2)

    assert result.counts == {"failed": 4, "finished": 4}


def test_training_code_that_cannot_be_sent(study: Path) -> None:
    lock = threading.Lock()

    def train(trial: Trial) -> None:
        with lock:
            good(trial)

    with pytest.raises(
        TrainingCodeError, match=r"cannot pickle '_thread.lock'.*inside the function"
    ):
        tune(train, study)


def test_training_code_that_cannot_be_loaded(study: Path, tmp_path: Path) -> None:
    class Spiteful:
        def __reduce__(self) -> tuple[Any, ...]:
            return raise_, (ImportError("no module named 'spite'"),)

    spiteful = Spiteful()

    def train(trial: Trial) -> None:
        trial.report(float(spiteful is not None))

    with pytest.raises(TrainingCodeError, match=r"could not load .* no module named 'spite'"):
        tune(train, study)


# -- user code that hangs ------------------------------------------------------------------------


def test_a_trial_that_hangs(study: Path) -> None:
    result = tune(bad_first(lambda trial: time.sleep(600)), study, xs=[0, 0], report_timeout_s=0.4)

    assert result.counts == {"failed": 1, "finished": 1}
    failed = trial_rows(study)[0]
    assert failed["reason"] == "no report for 0.4 s (report_timeout_s)"
    assert (failed["code"], failed["numbers"]) == ("no_report", {"seconds": 0.4})


@pytest.mark.parametrize("where", ["step", "end"])
def test_a_check_that_hangs(study: Path, where: str) -> None:
    def train(trial: Trial) -> None:
        for step in trial.steps(4):
            trial.report(1 / step, model=trial.number, snapshot=int)
            if where == "end" and step == 2:
                return

    events = Events()
    check = Constraint(
        "g", upper=9, check=lambda number: sleeping(600 * (number == 1)), timeout_s=0.4
    )
    result = tune(
        train,
        study,
        xs=[0, 0],
        policy=ACE(interval=1 if where == "step" else "end"),
        constraints=[Constraint("first", upper=9, check=lambda model: 0), check],
        callbacks=[events],
    )

    reason = "the check of 'g' outran its timeout of 0.4 s"
    failed, good = trial_rows(study)
    assert (failed["state"], failed["reason"]) == ("failed", reason)
    assert failed["code"] == "check_timeout"
    assert failed["numbers"] == {"constraint": "g", "timeout": 0.4}
    assert good["state"] == "finished" and result.counts == {"failed": 1, "finished": 1}
    row = next(row for row in report_rows(study) if row["trial"] == 1 and row["checked_step"])
    assert row["kind"] == where
    assert (row["stratum"], row["violation"]) == ("invalid", math.inf)
    checks = rows(study, "SELECT * FROM checks WHERE seq = ? ORDER BY 2", row["seq"])
    assert [check["error"] for check in checks] == [reason, reason]
    assert {check["value"] for check in checks} == {None}
    assert not [text for text in events.notices if "after its end" in text]


def test_checks_that_hang_count_as_failures_in_a_row(study: Path) -> None:
    check = Constraint("g", upper=9, check=lambda model: time.sleep(600), timeout_s=0.2)

    with pytest.raises(StudyError, match=r"2 trials failed(.|\n)*check of 'g' outran"):
        tune(good, study, xs=[0] * 5, constraints=[check], policy=ACE(interval=1), max_failures=2)


def test_the_timeout_of_a_check_ends_with_the_check(study: Path) -> None:
    class SlowToKeep:
        def __reduce__(self) -> tuple[Any, ...]:
            time.sleep(0.8)
            return SlowToKeep, ()

    def train(trial: Trial) -> None:
        trial.declare(1)
        trial.report(1.0, model=SlowToKeep())

    result = tune(
        train,
        study,
        constraints=[
            Constraint("fast", upper=1, check=lambda model: 0, timeout_s=0.4),
            Constraint("slow", upper=1, check=lambda model: sleeping(0.8)),
        ],
    )

    assert result.counts == {"finished": 1}, trial_rows(study)


# -- user code that reports strange things -------------------------------------------------------


def test_objectives_that_are_not_finite(study: Path) -> None:
    def train(trial: Trial) -> None:
        trial.declare(2)
        for value in (math.nan, math.inf):
            trial.report(value if trial.number == 1 else trial.params["x"], model=0)

    check = Constraint("g", upper=1, check=lambda model: model)
    result = tune(train, study, xs=[0, 5], constraints=[check], policy=ACE(interval=1, gate=False))

    assert [row["objective"] for row in report_rows(study)] == [None, math.inf, 5, 5]
    assert result.best is not None and (result.best.trial, result.best.value) == (2, 5)
    require_same_decisions(study, ACE(interval=1, gate=False))


@pytest.mark.parametrize(
    ("check", "error"),
    [
        (lambda model: math.nan, "constraint 'g' is nan"),
        (lambda model: math.inf, "constraint 'g' is inf"),
        (lambda model: (0.1, math.nan), "standard error of constraint 'g' is nan"),
        (lambda model: (0.1, -1), "standard error of constraint 'g' is -1.0"),
        (lambda model: None, "ReportError: constraint 'g' must be a number, got None"),
        (lambda model: model.missing, "AttributeError: 'int' object has no attribute 'missing'"),
    ],
)
def test_checks_that_fail_are_invalid_and_never_feasible(
    study: Path, check: Callable[[Any], Any], error: str
) -> None:
    constraints = [
        Constraint("g", upper=1e9, check=check),
        Constraint("h", upper=1e9, check=lambda model: 0),
    ]
    result = tune(good, study, constraints=constraints, policy=ACE(interval=1))

    assert result.best is None and result.counts == {"finished": 1}
    found = report_rows(study)
    assert [(row["stratum"], row["violation"]) for row in found] == [("invalid", math.inf)] * 3
    first, rest = rows(study, 'SELECT * FROM checks WHERE seq = 1 ORDER BY "constraint"')
    assert first["error"].startswith(error) and first["value"] is None
    assert rest["error"] == "not evaluated, because 'g' failed" and rest["cost_s"] is None


def test_a_step_reported_twice(study: Path) -> None:
    calls: list[int] = []

    def train(trial: Trial) -> None:
        trial.declare(2)
        for step, value in ((1, 5.0), (1, 5.0), (1, 6.0), (2, 4.0)):
            decision = trial.report(value, step=step, constraints={"g": lambda: noted(calls)})
            assert decision.rank == 1 and decision.of == 1
        assert len(calls) == 2  # a step reported again is not checked again

    events = Events()
    tune(
        train,
        study,
        constraints=[Constraint("g", upper=1)],
        policy=ACE(interval=1),
        callbacks=[events],
    )

    assert [(row["step"], row["objective"]) for row in report_rows(study)] == [(1, 5), (2, 4)]
    assert states(study) == ["finished"]
    assert events.notices == [
        "trial 1 reported step 1 again with other values; the first report stands"
    ]


def test_reports_after_the_last_step_are_told_of_once(study: Path) -> None:
    def train(trial: Trial) -> None:
        for step in trial.steps(3):
            trial.report(1 / step)
        trial.report(0.1)
        trial.report(0.2)

    events = Events()
    result = tune(train, study, max_trials=3, callbacks=[events])
    assert result.best is not None and result.best.value == 1 / 3
    said = "trial 1 reported step 3, its last, again; the first report stands. If training goes on "
    assert events.notices == [said + "beyond it, give trial.steps(4), or total_steps=4"]


def test_two_reports_in_each_step_are_told_of_once(study: Path) -> None:
    def train(trial: Trial) -> None:
        for _ in trial.steps(3):
            trial.report(1.0)
            trial.report(0.5)

    events = Events()
    tune(train, study, max_trials=2, callbacks=[events])
    assert len(events.notices) == 1 and "step 1 again" in events.notices[0]


def test_steps_out_of_order(study: Path) -> None:
    def train(trial: Trial) -> None:
        trial.declare(9)
        trial.report(1.0, step=5)
        with pytest.raises(ReportError, match="step 3 after step 5; steps must rise"):
            trial.report(1.0, step=3)
        with pytest.raises(ReportError, match="step 10 lies beyond total_steps=9"):
            trial.report(1.0, step=10)
        trial.report(1.0, step=9)

    tune(train, study)

    assert states(study) == ["finished"], trial_rows(study)[0]["traceback"]
    assert [row["step"] for row in report_rows(study)] == [5, 9]


def test_another_last_step_is_refused(study: Path) -> None:
    def train(trial: Trial) -> None:
        trial.declare(5)
        trial.report(1.0)
        trial.declare(6)

    tune(train, study)

    assert re.search("total_steps=5; it cannot become 6", trial_rows(study)[0]["reason"])


# -- user code that prints and forks -------------------------------------------------------------


def test_megabytes_of_output_go_to_the_log(study: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def train(trial: Trial) -> None:
        for _ in range(30):
            print("x" * 99_999)
            print("y" * 99_999, file=sys.stderr)
        subprocess.run(["echo", "from a child"], check=True)
        os.write(1, b"from C\n")
        good(trial)

    tune(train, study, xs=[0, 0])

    for trial in (1, 2):
        text = log_of(study, trial)
        assert text.count("x") >= 30 * 99_999 and text.count("y") >= 30 * 99_999
        assert "from a child" in text and "from C" in text
    assert states(study) == ["finished", "finished"]
    assert "xxx" not in "".join(capfd.readouterr())


def test_children_that_outlive_their_trial_are_ended(study: Path, tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    def train(trial: Trial) -> None:
        child = os.fork()
        if child == 0:
            time.sleep(600)
            os._exit(0)
        other = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
        other.start()
        append_line(pids, child, other.pid)
        good(trial)
        if trial.number == 2:
            os._exit(1)  # dies before its children
        other.join(0)
        multiprocessing.active_children()

    tune(train, study, xs=[0, 0, 0])

    found = [int(pid) for line in read_lines(pids) for pid in line]
    assert len(found) == 6
    wait_for(lambda: not any(map(alive, found)), "the children to be ended")


def test_a_fork_that_reports_gets_a_clear_error(study: Path) -> None:
    def train(trial: Trial) -> None:
        for step in trial.steps(3):
            if os.fork() == 0:
                trial.report(-step)  # not caught: the child must not go on as if it were the worker
            status = os.wait()[1]
            trial.report(os.waitstatus_to_exitcode(status), model=step)

    result = tune(train, study, xs=[0, 0])

    assert result.counts == {"finished": 2}
    assert [row["objective"] for row in report_rows(study)] == [1.0] * 6
    for trial in (1, 2):
        assert log_of(study, trial).count("ReportError: report was called in a forked process") == 3


def test_a_fork_that_returns_does_not_end_the_trial(study: Path) -> None:
    def train(trial: Trial) -> None:
        for step in trial.steps(2):
            trial.report(step)
        if os.fork() == 0:
            return
        os.wait()
        time.sleep(0.05)

    result = tune(train, study, xs=[0] * 5)

    assert result.counts == {"finished": 5}


# -- trials that were stopped --------------------------------------------------------------------


def worse_is_stopped(ignore: Callable[[Trial], object]) -> Callable[[Trial], None]:
    """Trial 1 is good; the worse trial 2 is stopped at its first report, and ignores that."""

    def train(trial: Trial) -> None:
        if trial.number != 2:
            good(trial)
        else:
            trial.declare(3)
            assert trial.report(trial.params["x"], model=0).stop and trial.should_stop
            assert trial.stop_reason == "rank 2 of 2 unchecked reports at step 1: in the worst 50%"
            ignore(trial)

    return train


HALF = ACE(truncation=0.5)
NEVER_VALID = Constraint("g", upper=-1, check=lambda model: 0)


@pytest.mark.parametrize(
    "ignore",
    [
        lambda trial: trial.report(0.0, model=0),
        lambda trial: list(trial.steps(3)),
        lambda trial: raise_(ValueError("in its clean-up")),
    ],
)
def test_a_stopped_trial_that_goes_on_stays_stopped(
    study: Path, ignore: Callable[[Trial], object]
) -> None:
    result = tune(
        worse_is_stopped(ignore), study, xs=[0, 9], policy=HALF, constraints=[NEVER_VALID]
    )

    assert result.counts == {"finished": 1, "stopped": 1}
    assert [row["step"] for row in report_rows(study) if row["trial"] == 2] == [1]
    assert re.search("in the worst 50%", trial_rows(study)[1]["reason"])


def test_a_stopped_trial_that_swallows_everything_loses_its_worker(
    study: Path, tmp_path: Path
) -> None:
    stopped = tmp_path / "stopped"

    def ignore(trial: Trial) -> None:
        while True:
            try:
                trial.report(0.0, model=0)
            except BaseException as error:
                assert isinstance(error, TrialStopped)
                assert "trial.should_stop" in str(error)
                append_line(stopped, os.getpid())
            time.sleep(0.01)

    events = Events()
    result = tune(
        worse_is_stopped(ignore),
        study,
        xs=[0, 9, -9],
        policy=HALF,
        constraints=[NEVER_VALID],
        stop_grace_s=0.3,
        callbacks=[events],
    )

    assert result.counts == {"finished": 2, "stopped": 1}
    assert len(read_lines(stopped)) > 1
    assert [text for text in events.notices if "did not end within 0.3 s of being stopped" in text]


# -- resumable trials ----------------------------------------------------------------------------


def resumable(how: str, die: Callable[[Trial, int], object]) -> Callable[[Trial], None]:
    """Adds up steps; the sum is its state. Checkpoints at even steps."""

    def train(trial: Trial) -> None:
        total = 0
        if trial.checkpoint is not None:
            total = int((trial.checkpoint / "sum.txt").read_text())
        for step in trial.steps(7):
            die(trial, step)
            total += step
            saving: dict[str, Any] = {}
            if step % 2 == 0 and how == "function":
                saving["checkpoint"] = lambda folder, total=total: (folder / "sum.txt").write_text(
                    str(total)
                )
            elif step % 2 == 0:
                folder = trial.folder / "own-state"
                folder.mkdir(exist_ok=True)
                (folder / "sum.txt").write_text(str(total))
                path = folder if how == "folder" else folder / "sum.txt"
                saving["checkpoint"] = path if how == "folder" else str(path)
            trial.report(-total, **saving)

    return train


def require_went_on(study: Path) -> None:
    first, second = trial_rows(study)
    assert (first["resumed_from"], second["resumed_from"]) == (0, 4)
    assert second["state"] == "finished", second["reason"]
    found = [(row["attempt"], row["step"], -row["objective"]) for row in report_rows(study)]
    sums = [sum(range(step + 1)) for step in range(8)]
    assert found == [(1, s, sums[s]) for s in range(1, 6)] + [(2, s, sums[s]) for s in (5, 6, 7)]
    # of a trial that has ended nothing is left to go on from
    assert not rows(study, "SELECT * FROM checkpoints WHERE kind = 'resume'")
    assert not list(study.parent.glob("**/resume-*"))


@pytest.mark.parametrize("how", ["function", "folder", "file"])
def test_a_resumable_trial_goes_on_after_its_worker_was_killed(study: Path, how: str) -> None:
    def die(trial: Trial, step: int) -> None:
        if trial.attempt == 1 and step == 6:
            os.kill(os.getpid(), signal.SIGKILL)

    tune(resumable(how, die), study, retries=1)

    require_went_on(study)
    assert trial_rows(study)[0]["state"] == "failed"
    require_same_decisions(study, Adaptive())


RESUMABLE = """
import os, pathlib, signal, sys, time
sys.path.insert(0, sys.argv[3])
from run.helpers import append_line, tune
from run.test_faults import resumable

def die(trial, step):
    if trial.attempt == 1 and step == 6:
        append_line(pathlib.Path("worker"), os.getpid())
        os.kill(DRIVER, signal.SIGKILL)
        time.sleep(600)

DRIVER = os.getpid()
tune(resumable(sys.argv[2], die), pathlib.Path(sys.argv[1]))
"""


@pytest.mark.parametrize("how", ["function", "folder", "file"])
def test_a_resumable_trial_goes_on_after_its_driver_was_killed(
    study: Path, tmp_path: Path, how: str
) -> None:
    arguments = tmp_path / "driver.py", RESUMABLE, study, how, Path(__file__).parents[1]
    with script(*arguments) as driver:
        assert driver.wait(DEADLINE_S) == -signal.SIGKILL
    # the worker, which is busy and says nothing, notices it all the same
    worker = int(read_lines(tmp_path / "worker")[0][0])
    wait_for(lambda: not alive(worker), "the worker of the killed driver to end")
    # what the trial has put into its folder itself is left alone
    own = study.with_name("study.db.files") / "trial-00001" / "attempt-1" / "own-notes"
    own.mkdir()
    with script(*arguments) as driver:
        output_of(driver)

    require_went_on(study)
    assert trial_rows(study)[0]["state"] == "interrupted"
    assert own.exists()
    require_same_decisions(study, Adaptive())


def test_a_checkpoint_counts_only_with_its_report(study: Path) -> None:
    """The worker or the driver may be killed between the two."""
    describe = dict.fromkeys(("constraints", "space", "settings", "versions"), "[]")
    store = Store.create(
        study, {**describe, "objective": "", "policy": "", "code_hash": "", "created": 0}
    )
    stopper = Stopper(objective="loss", mode="min")

    def save(step: int) -> None:
        name = kept_name(1, 1, step, "resume")
        written = write_folder(
            store.files / name, lambda folder: (folder / "state").write_text("x"), store.files
        )
        coordinator.kept_models.add_checkpoint(trial, step, name, *written)

    with store.transaction():
        coordinator = StudyCoordinator(store, stopper)
        trial = coordinator.add_trial({"x": 1.0})
        coordinator.begin(trial, 9, 0.0)
        for step in (1, 2):
            save(step)
            coordinator.report(trial, Report(step, 1.0))
        save(3)
    store.close()

    store = Store.open(study)
    coordinator = StudyCoordinator(store, Stopper(objective="loss", mode="min"))
    assert coordinator.load() == [1]
    with store.transaction():
        resumed = coordinator.add_attempt(1)
    assert (resumed.attempt, resumed.resumed_from) == (2, 2)
    assert resumed.checkpoint == store.files / kept_name(1, 1, 2, "resume")
    assert coordinator.progress(resumed).last_step == 2
    store.close()
