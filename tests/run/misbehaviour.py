"""What a training function may do wrong: one deed per row, and how its trial must end.

Odd trials misbehave, one row each; each even trial is as it should be, and is trained by the same
worker where that is still there. So whatever a deed leaves behind meets a healthy trial.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from acetune import ACE, Constraint, Trial
from acetune.core.errors import GoalWarning
from run.helpers import DEADLINE_S, report_rows, trial_rows, tune

STEPS = 4
LEFT_BEHIND: list[threading.Thread] = []  # keeps threads of earlier rows, and their trials, alive
ENOUGH: list[str] = []  # not empty: such threads end, which would slow whatever comes after


@dataclass(frozen=True)
class Row:
    """A deed, done after the second report.

    Parameters
    ----------
    deed:
        What the training function does.
    reason:
        A regular expression that the reason of the failed trial matches; None where the trial is
        to end as if nothing had been.
    in_ray:
        What Ray makes of it, where that is tried too and differs.
    """

    deed: Callable[[Trial], object]
    reason: str | None = None
    in_ray: str | None = None


def raising(error: BaseException | type[BaseException]) -> Callable[[Trial], NoReturn]:
    def deed(_: Trial) -> NoReturn:
        raise error

    return deed


def says(word: str, what: Callable[[], object]) -> type[Exception]:
    """An exception whose ways of saying what it is do something else."""

    class SilentError(Exception):
        def __str__(self) -> str:
            return what()  # type: ignore[return-value]

        __repr__ = __str__

    SilentError.__name__ = word
    return SilentError


def fails() -> NoReturn:
    raise RuntimeError("no words")


def chained(_: Trial) -> NoReturn:
    """Errors that go round in a circle."""
    first, second = ValueError("the first"), ValueError("the second")
    first.__cause__, second.__cause__ = second, first
    raise first


def deep(_: Trial) -> None:
    def down() -> None:
        down()

    down()


def of_no_name(_: Trial) -> NoReturn:
    raise type("", (Exception,), {"__module__": None})("of no name")


def without_output(_: Trial) -> NoReturn:
    sys.stdout.close()
    sys.stderr.close()
    os.close(1)
    os.close(2)
    raise ValueError("nowhere to print")


def other_output(_: Trial) -> NoReturn:
    sys.stdout = sys.stderr = None  # type: ignore[assignment]
    raise ValueError("nowhere to print")


def hiding_errors(_: Trial) -> NoReturn:
    import traceback

    traceback.print_exc = traceback.format_exc = fails  # type: ignore[assignment]
    raise ValueError("untraceable")


def prints_much(trial: Trial) -> None:
    """Bounded here; nothing but the disk bounds it."""
    for _ in range(300):
        os.write(1, b"x" * 1_000_000)
    (trial.folder / "log.txt").unlink()


def warns_much(_: Trial) -> None:
    for number in range(500):
        warnings.warn(f"a notice {number} " + "x" * 10_000, GoalWarning, stacklevel=1)


def warns_nonsense(_: Trial) -> None:
    warnings.warn("a NUL \0, a screen cleared \x1b[2J and {braces}", GoalWarning, stacklevel=1)


def reporting_on(trial: Trial) -> None:
    """A thread that is never told to end, and goes on reporting when other trials run."""

    def report() -> None:
        step = 2
        while not ENOUGH:
            step += 1
            try:
                trial.report(-1e6, step=min(step, STEPS), model=-1e6)
            except Exception:
                time.sleep(0.001)

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    LEFT_BEHIND.append(thread)
    raise ValueError("the thread goes on")


def reporting_later(trial: Trial) -> None:
    """As above, but each report sees the trial as it was before it ended."""
    link = trial._link

    def report() -> None:
        from acetune.trial.link import Report

        for step in range(2000, 3000):
            try:
                link.report(Report(step, -1e6))
                link.keep_model(step, "stale")
            except Exception:
                time.sleep(0.001)

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    LEFT_BEHIND.append(thread)
    raise ValueError("the thread goes on")


def many_reporters(trial: Trial) -> None:
    """What it should do; the steps are given out under the lock of report itself."""
    threads = [
        threading.Thread(target=lambda: [trial.report(0.5, step=2) for _ in range(20)])
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def raising_in_a_thread(_: Trial) -> None:
    thread = threading.Thread(target=fails)
    thread.start()
    thread.join()


class Unpicklable:
    def __reduce__(self) -> NoReturn:
        raise SystemExit("this cannot be pickled")

    def __deepcopy__(self, _: object) -> Unpicklable:
        return self

    def __float__(self) -> float:
        return 0.5


def unpicklable_model(trial: Trial) -> None:
    trial.report(-50.0, model=Unpicklable())


class Number:
    """Says nothing about itself but an error."""

    def __float__(self) -> NoReturn:
        raise RuntimeError("no number")

    __repr__ = __str__ = __index__ = __float__  # type: ignore[assignment]


def segfault(_: Trial) -> None:
    ctypes.string_at(0)


def hung_up(trial: Trial) -> None:
    os.closerange(3, 256)
    time.sleep(DEADLINE_S)


def elsewhere(trial: Trial) -> None:
    """The folder that it works in is gone, and so is its own."""
    gone = trial.folder / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    (trial.folder / "log.txt").unlink()
    trial.folder.rmdir()


def signals(_: Trial) -> NoReturn:
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    time.sleep(DEADLINE_S)
    raise AssertionError("SIGALRM ends it")


def kill_itself(number: int) -> Callable[[Trial], None]:
    def deed(_: Trial) -> None:
        os.kill(os.getpid(), number)
        time.sleep(DEADLINE_S)

    return deed


_DIED = r"died.* \(exited, crashed, killed or out of memory\)"  # Ray knows no more

MISBEHAVIOUR: dict[str, Row] = {
    "its text raises": Row(raising(says("Mute", fails)), "Mute: .*text cannot be made"),
    "its text exits": Row(
        raising(says("Leaver", lambda: sys.exit(3))), "Leaver: .*text cannot be made"
    ),
    "its text is none": Row(raising(says("Numb", lambda: 5)), "Numb: .*text cannot be made"),
    "its text goes on for ever": Row(
        raising(says("Deep", lambda: deep(None))),  # type: ignore[arg-type]
        "Deep: .*text cannot be made",
    ),
    "50 MB of text": Row(raising(ValueError("x" * 50_000_000)), "characters left out"),
    "half a character": Row(raising(ValueError("\udc80 and \0")), "ValueError: .*and"),
    "braces": Row(raising(ValueError("{text} {0} {")), r"ValueError: \{text\} \{0\} \{"),
    "a circle of errors": Row(chained, "ValueError: the first"),
    "a class of no name": Row(of_no_name, "of no name"),
    "a deep stack": Row(deep, "RecursionError"),
    "a group": Row(raising(ExceptionGroup("many", [ValueError("of them")] * 5)), "many"),
    "KeyboardInterrupt": Row(raising(KeyboardInterrupt("no key")), "KeyboardInterrupt: no key"),
    "GeneratorExit": Row(raising(GeneratorExit), "GeneratorExit"),
    "StopIteration": Row(raising(StopIteration), "StopIteration"),
    "sys.exit(0)": Row(lambda _: sys.exit(0), "SystemExit: 0"),
    "sys.exit('text')": Row(lambda _: sys.exit("because"), "SystemExit: because"),
    "os._exit(0)": Row(lambda _: os._exit(0), "exited with status 0", _DIED),
    "os._exit(3)": Row(lambda _: os._exit(3), "exited with status 3"),
    "os.abort": Row(lambda _: os.abort(), "was killed by SIGABRT", _DIED),
    "a segmentation fault": Row(segfault, "was killed by SIGSEGV", _DIED),
    "SIGKILL": Row(kill_itself(signal.SIGKILL), "was killed by SIGKILL"),
    "SIGTERM": Row(kill_itself(signal.SIGTERM), "was killed by SIGTERM"),
    "an alarm": Row(signals, "was killed by SIGALRM"),
    "all files are closed": Row(hung_up, "closed its connection", _DIED),
    "output is closed": Row(without_output, "ValueError: nowhere to print"),
    "output is None": Row(other_output, "ValueError: nowhere to print"),
    "tracebacks fail": Row(hiding_errors, "ValueError: untraceable"),
    "300 MB are printed": Row(prints_much),
    "many notices": Row(warns_much),
    "notices of nonsense": Row(warns_nonsense),
    "a thread goes on reporting": Row(reporting_on, "the thread goes on"),
    "a thread goes on talking": Row(reporting_later, "the thread goes on"),
    "threads report one step": Row(many_reporters),
    "an error in a thread": Row(raising_in_a_thread),
    "a model that cannot be pickled": Row(unpicklable_model),
    "a value that raises": Row(
        lambda trial: trial.report(Number()), "must be a number, got a value that cannot be shown"
    ),
    "a check that raises in silence": Row(
        lambda trial: trial.report(0.1, model=1, constraints={"g": lambda: Number()})
    ),
    "a check that exits": Row(
        lambda trial: trial.report(-9.0, model=1, constraints={"g": lambda: sys.exit(4)}),
        "SystemExit: 4",
    ),
    "its folder is gone": Row(elsewhere),
}


IN_RAY = (
    "its text raises",
    "50 MB of text",
    "half a character",
    "sys.exit('text')",
    "os._exit(0)",
    "a segmentation fault",
    "all files are closed",
    "output is closed",
    "a thread goes on reporting",
    "a thread goes on talking",
    "threads report one step",
    "a model that cannot be pickled",
)
"""Those that are tried there too: starting an actor takes long."""


def end_what_was_left_behind() -> None:
    """Where trials run in the process of the tests: threads end, and nothing has to be sent."""
    ENOUGH.append("enough")
    try:
        for thread in LEFT_BEHIND:
            thread.join(60)
        alive = [thread for thread in LEFT_BEHIND if thread.is_alive()]
    finally:
        LEFT_BEHIND.clear()
        ENOUGH.clear()
    assert not alive


def run_misbehaving(study: Path, names: Sequence[str], **options: Any) -> None:
    """A study of these rows."""

    def train(trial: Trial) -> None:
        for step in trial.steps(STEPS):
            trial.report(trial.params["x"] + 1 / step, model=float(step))
            if trial.number % 2 and step == 2:
                MISBEHAVIOUR[names[trial.number // 2]].deed(trial)

    tune(
        train,
        study,
        xs=range(1, 2 * len(names) + 1),
        constraints=[Constraint("g", upper=10, check=lambda model: model)],
        policy=ACE(truncation=0, interval=1, gate=False),
        **options,
    )


def require_hurt_itself_only(study: Path, place: int, reason: str | None) -> None:
    """The trial of a row ended as it must, and the one after it as if nothing had been."""
    number = 2 * place + 1
    bad, good = (row for row in trial_rows(study) if row["trial"] in (number, number + 1))
    if reason is None:
        assert bad["state"] == "finished", bad["reason"]
    else:
        assert bad["state"] == "failed"
        assert re.search(reason, bad["reason"], re.DOTALL), bad["reason"]
        assert len(bad["reason"]) < 30_000
    assert good["state"] == "finished", good["reason"]
    found = [
        (row["step"], row["objective"])
        for row in report_rows(study)
        if row["trial"] == number + 1 and row["kind"] == "step"
    ]
    assert found == [(step, number + 1 + 1 / step) for step in range(1, STEPS + 1)]
