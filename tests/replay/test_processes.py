"""Many jobs in worker processes, whatever happens to one of them."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle
import pytest

from acetune.core.errors import GoalError, TrainingCodeError
from acetune.interprocess.child import Child
from acetune.replay import parallel as processes
from acetune.replay.parallel import Lost, run_jobs
from run.helpers import alive, append_line, output_of, read_lines, script, wait_for


@pytest.fixture(autouse=True)
def functions_by_value() -> Iterator[None]:
    """Workers need not find the tests."""
    modules = [sys.modules[__name__], sys.modules[alive.__module__]]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in modules:
        cloudpickle.unregister_pickle_by_value(module)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> list[Child]:
    """All worker processes that a test starts."""
    started: list[Child] = []

    class Noted(processes._JobProcess):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            started.append(self.child)

    monkeypatch.setattr(processes, "_JobProcess", Noted)
    return started


def results(function: Callable[[Any], object], jobs: list[Any], workers: int) -> list[Any]:
    """The results in the order of the jobs."""
    found = list(run_jobs(function, jobs, workers))
    assert sorted(index for index, _ in found) == list(range(len(jobs)))
    return [result for _, result in sorted(found, key=lambda pair: pair[0])]


def square(number: int) -> int:
    return number * number


# -- all is well ---------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 3])
def test_every_job_once(workers: int) -> None:
    assert results(square, list(range(10)), workers) == [n * n for n in range(10)]


def test_processes_are_used_again() -> None:
    pids = results(lambda _: os.getpid(), [None] * 12, workers=2)
    assert 1 <= len(set(pids)) <= 2
    assert os.getpid() not in pids


def test_no_more_processes_than_jobs(workers: list[Child]) -> None:
    assert results(square, [2, 3], workers=50) == [4, 9]
    assert len(workers) == 2


def test_no_jobs(workers: list[Child]) -> None:
    assert list(run_jobs(square, [], workers=4)) == []
    assert list(run_jobs(square, [], workers=0)) == []
    assert workers == []


def test_no_workers() -> None:
    with pytest.raises(GoalError, match="workers must be a whole number >= 1, got 0"):
        list(run_jobs(square, [1], workers=0))


def test_results_come_as_they_are_ready(tmp_path: Path) -> None:
    def wait_for_file(path: Path | None) -> str:
        while path is not None and not path.exists():
            time.sleep(0.01)
        return "done"

    found = run_jobs(wait_for_file, [tmp_path / "go", None], workers=2)
    assert next(found) == (1, "done")
    (tmp_path / "go").touch()
    assert list(found) == [(0, "done")]


def test_large_functions_arguments_and_results() -> None:
    ballast = os.urandom(3_000_000)

    def echo(data: bytes) -> tuple[int, bytes]:
        return len(ballast), data * 4

    jobs = [os.urandom(5_000_000) for _ in range(4)]
    assert results(echo, jobs, workers=2) == [(3_000_000, data * 4) for data in jobs]


def test_the_function_is_sent_once_a_worker_and_keeps_its_state() -> None:
    class Counting:
        def __init__(self) -> None:
            self.calls = 0

        def __call__(self, _: None) -> int:
            self.calls += 1
            return self.calls

    assert results(Counting(), [None] * 5, workers=1) == [1, 2, 3, 4, 5]


def test_threads_of_numerical_libraries() -> None:
    def threads(name: str) -> str | None:
        return os.environ.get(name)

    names = ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"]
    assert [result for _, result in sorted(run_jobs(threads, names, 1, threads=3))] == ["3"] * 3
    assert results(threads, names, 1) == ["1"] * 3


def test_scripts_need_no_guard_and_may_return_objects_of_their_own(tmp_path: Path) -> None:
    source = """
from acetune.replay.parallel import run_jobs

class Found:
    def __init__(self, number):
        self.number = number

found = dict(run_jobs(lambda number: Found(number + 1), [1, 2, 3], workers=2))
print([(type(found[job]) is Found, found[job].number) for job in range(3)])
"""
    with script(tmp_path / "script.py", source) as process:
        assert output_of(process) == "[(True, 2), (True, 3), (True, 4)]\n"


# -- a job goes wrong ----------------------------------------------------------------------------


def test_an_exception_is_told_and_the_process_goes_on() -> None:
    def fail_at_3(number: int) -> int:
        if number == 3:
            raise ValueError(f"not {number}, please")
        return os.getpid()

    found = results(fail_at_3, list(range(6)), workers=1)
    assert isinstance(found[3], Lost)
    first, *where = found[3].error.splitlines()
    assert first == "ValueError: not 3, please"
    assert any("fail_at_3" in line for line in where)
    assert len({result for result in found if result != found[3]}) == 1


def exit_at_once(status: int) -> None:
    os._exit(status)


def kill(number: int) -> None:
    os.kill(os.getpid(), number)
    threading.Event().wait()


def crash(_: int) -> None:
    ctypes.string_at(0)


@pytest.mark.parametrize(
    ("die", "argument", "how"),
    [
        (exit_at_once, 3, "exited with status 3"),
        (exit_at_once, 0, "exited with status 0"),
        (sys.exit, 4, "exited with status 4"),
        (kill, int(signal.SIGKILL), "was killed by SIGKILL (out of memory?)"),
        (kill, int(signal.SIGTERM), "was killed by SIGTERM"),
        (crash, 0, "was killed by SIGSEGV"),
    ],
)
def test_a_job_that_ends_its_process_is_lost_and_the_others_run(
    die: Callable[[int], None],
    argument: int,
    how: str,
    workers: list[Child],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("acetune.interprocess.child.out_of_memory_kills", lambda: None)

    def job(number: int) -> int:
        if number == 2:
            die(argument)
        return number

    expected: list[Any] = [0, 1, Lost(f"its process {how}"), 3, 4, 5]
    assert results(job, list(range(6)), workers=1) == expected
    assert len(workers) == 2  # another one took its place
    assert all(worker.exit_word() is not None for worker in workers)


def test_every_job_ends_its_process() -> None:
    found = results(exit_at_once, [1, 2, 3, 4, 5], workers=2)
    assert found == [Lost(f"its process exited with status {n}") for n in (1, 2, 3, 4, 5)]


def test_a_process_that_dies_while_its_child_holds_the_pipe() -> None:
    def fork_and_die(number: int) -> int:
        if number == 1:
            if os.fork() == 0:
                threading.Event().wait()
            os._exit(7)
        return number

    found = results(fork_and_die, [0, 1, 2], workers=1)
    assert found == [0, Lost("its process exited with status 7"), 2]


def test_a_result_that_cannot_be_sent_is_lost() -> None:
    def lock(number: int) -> object:
        return threading.Lock() if number == 1 else os.getpid()

    found = results(lock, [0, 1, 2], workers=1)
    assert isinstance(found[1], Lost)
    assert "cannot pickle" in found[1].error
    assert found[0] == found[2]  # the process goes on


class Unreadable:
    """Can be sent, but not received."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (fail_to_read, ())


def fail_to_read() -> None:
    raise OSError("this cannot be read")


def test_a_result_that_cannot_be_received_is_lost() -> None:
    found = results(lambda n: Unreadable() if n == 1 else n, [0, 1, 2], workers=1)
    assert found[::2] == [0, 2]
    assert isinstance(found[1], Lost)
    assert found[1].error.startswith("OSError: this cannot be read")


def test_an_argument_that_cannot_be_received_is_lost() -> None:
    found = results(lambda argument: argument, [0, Unreadable(), 2], workers=1)
    assert found[::2] == [0, 2]
    assert found[1].error.startswith("OSError: this cannot be read")


def test_an_argument_that_cannot_be_sent_ends_everything(
    workers: list[Child],
) -> None:
    for jobs in ([threading.Lock()], [0, 1, 2, threading.Lock()]):
        with pytest.raises(TypeError, match="cannot pickle"):
            list(run_jobs(square, jobs, workers=2))
    assert workers
    assert all(worker.exit_word() is not None for worker in workers)


def test_a_function_that_cannot_be_sent() -> None:
    lock = threading.Lock()
    with pytest.raises(TrainingCodeError, match=r"cannot be sent to a worker process.*lock"):
        list(run_jobs(lambda number: lock, [1], workers=1))


def test_a_function_that_is_not_there_in_the_worker() -> None:
    module = ModuleType("only_here")
    exec("def function(number): return number", module.__dict__)
    sys.modules["only_here"] = module
    try:
        found = results(module.function, [0, 1], workers=1)
    finally:
        del sys.modules["only_here"]
    for lost in found:
        assert isinstance(lost, Lost)
        assert lost.error.startswith("ModuleNotFoundError: No module named 'only_here'")


# -- the parent goes away ------------------------------------------------------------------------


def note_and_wait(path: Path | None) -> None:
    """Start a child, write down both processes, and never end."""
    if path is not None:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
        append_line(path, os.getpid(), child.pid)
        threading.Event().wait()


def pids(path: Path) -> list[int]:
    return [int(pid) for line in read_lines(path) for pid in line]


def test_closing_early_ends_the_workers_and_what_they_started(tmp_path: Path) -> None:
    notes = tmp_path / "pids"
    found = run_jobs(note_and_wait, [None, notes, notes, None], workers=3)
    assert next(found)[0] in (0, 3)
    wait_for(lambda: len(read_lines(notes)) == 2, "both jobs to begin")
    found.close()
    assert len(pids(notes)) == 4
    for pid in pids(notes):
        wait_for(lambda pid=pid: not alive(pid), f"process {pid} to end")


def test_a_loop_that_is_left_by_an_error_ends_the_workers(
    tmp_path: Path, workers: list[Child]
) -> None:
    notes = tmp_path / "pids"

    def consume() -> None:
        for _ in run_jobs(note_and_wait, [notes, None], workers=2):
            wait_for(lambda: read_lines(notes), "the other job to begin")
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        consume()
    assert len(workers) == 2
    for worker in workers:
        wait_for(worker.exit_word, "a worker to end")


def test_workers_end_when_their_parent_was_killed(tmp_path: Path) -> None:
    source = """
import os, subprocess, sys, threading
from acetune.replay.parallel import run_jobs

def job(path):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    with open(path, "a") as file:
        file.write(f"{os.getpid()} {child.pid}\\n")
    threading.Event().wait()

list(run_jobs(job, [sys.argv[1]] * 4, workers=2))
"""
    notes = tmp_path / "pids"
    with script(tmp_path / "script.py", source, notes) as process:
        wait_for(lambda: len(read_lines(notes)) == 2, "both jobs to begin")
        process.kill()
        process.wait()
        for pid in pids(notes):  # in the middle of their jobs
            wait_for(lambda pid=pid: not alive(pid), f"process {pid} to end")
    assert len(pids(notes)) == 4  # no other job was begun
