"""A bare interpreter: it finds what its parent finds, and is gone when it should be."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from acetune.interprocess.child import Child, module_path, out_of_memory_kills
from acetune.interprocess.frames import BlockingChannel
from run.helpers import alive, read_lines, script, wait_for

CORES = sorted(os.sched_getaffinity(0))
UNNAMED = signal.SIGRTMIN + 3  # a signal without a name of its own


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """A module with a function ``talk``, which only the path of this process leads to."""

    def write(body: str) -> str:
        (tmp_path / "talking.py").write_text(
            f"import os, pickle, signal, sys\n\ndef talk(connected, *arguments):\n    {body}\n"
        )
        monkeypatch.syspath_prepend(str(tmp_path))
        return "talking"

    return write


def heard(child: Child) -> Any:
    channel = BlockingChannel(child.socket)
    try:
        return pickle.loads(channel.receive())
    finally:
        child.kill(after_s=60.0)
        channel.close()


def sending(what: str) -> str:
    return (
        "from acetune.interprocess.frames import BlockingChannel; "
        f"BlockingChannel(connected).send(pickle.dumps({what}))"
    )


def test_it_is_called_with_its_arguments_and_has_the_path_of_its_parent(
    module: Callable[[str], str],
) -> None:
    child = Child(module(sending("(arguments, sys.path)")), "talk", ["a", "b c"])
    assert heard(child) == (("a", "b c"), module_path())
    assert child.exit_word() == "exited with status 0"


def test_cores_and_variables_are_there_from_the_start(module: Callable[[str], str]) -> None:
    body = sending("(os.sched_getaffinity(0), os.environ['SOME_NAME'], os.getpgrp())")
    child = Child(
        module(body), "talk", variables={"SOME_NAME": "x"}, cores=CORES[-1:], own_session=False
    )
    assert heard(child) == ({CORES[-1]}, "x", os.getpgrp())


@pytest.mark.parametrize(
    ("body", "how"),
    [
        ("os._exit(3)", "exited with status 3"),
        ("os.kill(os.getpid(), signal.SIGTERM)", "was killed by SIGTERM"),
        # a signal without a name of its own
        (
            "os.kill(os.getpid(), signal.SIGRTMIN + 3)",
            f"was killed by signal {signal.SIGRTMIN + 3}",
        ),
    ],
)
def test_how_it_ended(module: Callable[[str], str], body: str, how: str) -> None:
    child = Child(module(body), "talk")
    child.kill(after_s=60.0)
    child.socket.close()
    assert child.exit_word() == how
    assert child.exit_handle is None


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (None, None, "out of memory?"),
        (2, 2, "sent by a process: the kernel ended none for want of memory"),
        (2, 3, "meanwhile the kernel ended processes for want of memory"),
    ],
)
def test_who_killed_it_is_said_as_far_as_the_system_knows(
    module: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    before: int | None,
    after: int | None,
    why: str,
) -> None:
    monkeypatch.setattr("acetune.interprocess.child.out_of_memory_kills", lambda: before)
    child = Child(module("os.kill(os.getpid(), signal.SIGKILL)"), "talk")
    child.kill(after_s=60.0)
    child.socket.close()
    monkeypatch.setattr("acetune.interprocess.child.out_of_memory_kills", lambda: after)
    assert child.exit_word() == f"was killed by SIGKILL ({why})"


def test_the_system_says_how_often_it_ran_out_of_memory() -> None:
    found = out_of_memory_kills()
    assert found is None or found >= 0
    assert (found is not None) == ("oom_kill" in Path("/proc/vmstat").read_text())


# -- its end ---------------------------------------------------------------------------------------

# what a child does: it notes itself and what it has started, and is then of no use to anybody
BUSY = """
import ctypes, os, subprocess, sys, time

LEAVING = "import os, time; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); "
LEAVING += "print(os.getpid(), flush=True); time.sleep(1000)"

def started(code):
    found = subprocess.Popen([sys.executable, "-c", code], env={}, stdout=subprocess.PIPE)
    return int(found.stdout.readline())

def note(path, *pids):
    with open(path, "a") as file:
        file.write(" ".join(map(str, (os.getpid(), *pids))) + "\\n")

def hold(connected, path):
    note(path)
    ctypes.PyDLL(None).sleep(1000)  # with Python's lock

def leave(connected, path):
    stays = started("import os, time; print(os.getpid(), flush=True); time.sleep(1000)")
    note(path, stays, started(LEAVING))
    ctypes.PyDLL(None).sleep(1000)
"""


@pytest.fixture
def busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Path]:
    """A module, and where its functions note processes."""
    (tmp_path / "busy.py").write_text(BUSY)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "busy", tmp_path / "pids"


def noted(path: Path) -> list[int]:
    wait_for(lambda: read_lines(path), "processes to be started")
    return [int(pid) for pid in read_lines(path)[0]]


@pytest.mark.parametrize("own_session", [True, False])
def test_it_ends_with_its_parent_and_takes_no_stranger_along(
    tmp_path: Path, busy: tuple[str, Path], own_session: bool
) -> None:
    source = f"""
import subprocess, sys, threading, time
from acetune.interprocess.child import Child
sys.path.insert(0, {str(tmp_path)!r})
stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
# the thread that makes a child need not stay
making = threading.Thread(target=Child, args=("busy", "hold", [sys.argv[1]]),
                          kwargs=dict(own_session={own_session}))
making.start()
making.join()
print(stranger.pid, flush=True)
time.sleep(1000)
"""
    with script(tmp_path / "script.py", source, busy[1]) as process:
        (child,) = noted(busy[1])
        assert process.stdout is not None
        stranger = int(process.stdout.readline())
        time.sleep(0.2)
        assert alive(child)
        process.kill()
        process.wait()
        wait_for(lambda: not alive(child), "the child to end")
        assert alive(stranger)
        os.kill(stranger, signal.SIGKILL)


def test_what_it_has_started_ends_with_it(busy: tuple[str, Path]) -> None:
    module, path = busy
    child = Child(module, "leave", [str(path)])
    processes = noted(path)
    assert len(processes) == 3
    assert all(map(alive, processes))
    child.kill()
    child.socket.close()
    assert not any(map(alive, processes))  # also those in a session of their own


def test_what_it_has_started_ends_when_it_was_killed(busy: tuple[str, Path]) -> None:
    module, path = busy
    child = Child(module, "leave", [str(path)])
    processes = noted(path)
    os.kill(processes[0], signal.SIGKILL)
    wait_for(child.exit_word, "the child to end")
    assert not any(map(alive, processes))
    child.kill()
    child.socket.close()


#: run beside the module, makes a child that leaves others behind
PARENT = """
import sys, time
from acetune.interprocess.child import Child
child = Child("busy", "leave", [sys.argv[1]])
time.sleep(1000)
"""


def test_what_it_has_started_ends_with_its_parent(tmp_path: Path, busy: tuple[str, Path]) -> None:
    with script(tmp_path / "script.py", PARENT, busy[1]) as process:
        processes = noted(busy[1])
        process.kill()
        process.wait()
        wait_for(lambda: not any(map(alive, processes)), "the child and its own to end")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux wakes a guardian")
def test_it_ends_with_its_parent_though_all_were_stopped(
    tmp_path: Path, busy: tuple[str, Path]
) -> None:
    with script(tmp_path / "script.py", PARENT, busy[1]) as process:
        processes = noted(busy[1])
        processes.append(guardian_of(processes[0]))
        for pid in processes:
            os.kill(pid, signal.SIGSTOP)
        process.kill()
        process.wait()
        wait_for(lambda: not any(map(alive, processes)), "the child and its own to end")


def guardian_of(process: int) -> int:
    stat = Path(f"/proc/{process}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def test_it_ends_when_its_guardian_was_killed(busy: tuple[str, Path]) -> None:
    module, path = busy
    child = Child(module, "hold", [str(path)])
    (process,) = noted(path)
    os.kill(guardian_of(process), signal.SIGKILL)
    wait_for(lambda: not alive(process), "the child to end")
    child.kill()
    child.socket.close()
