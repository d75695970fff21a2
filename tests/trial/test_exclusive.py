"""Measured alone: real processes, threads and forks on real locks."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from acetune.core.errors import GoalError, StudyError
from acetune.trial.device_locks import GivenUpError, lock_folder
from acetune.trial.exclusive import (
    DeviceNeeds,
    DeviceUse,
    alone,
    hardware_for,
    needs_of,
    paused,
    waiting_until,
)

ALONE = SimpleNamespace(measured_alone=True)
DEADLINE_S = 60.0


@pytest.fixture(autouse=True)
def _locks_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def trains(device: str | None = None, check: Any = ALONE) -> DeviceUse:
    """A trial that trains, with a check that is measured alone."""
    use = DeviceUse(device)
    use.expect([check])
    return use


def locked(name: str, how: str = "exclusive") -> bool:
    """Whether somebody who wants the lock in this way would have to wait."""
    path = lock_folder() / name
    if not path.exists():
        return False
    descriptor = os.open(path, os.O_RDWR)
    try:
        wanted = fcntl.LOCK_EX if how == "exclusive" else fcntl.LOCK_SH
        fcntl.flock(descriptor, wanted | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def room(device: str = "cpu") -> str:
    """Who is in the room of a device."""
    if locked(f"{device}.room", "shared"):
        return "one that measures"
    return "some that train" if locked(f"{device}.room") else "nobody"


def wait_until(condition: Any) -> None:
    give_up = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.005)


@contextlib.contextmanager
def process(body: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has said 'ready'."""
    source = (
        "import os, subprocess, sys, time\n"
        "from types import SimpleNamespace\n"
        "from acetune.trial.exclusive import DeviceUse, alone\n"
        "check = SimpleNamespace(measured_alone=True)\n"
        "def ready(): print('ready', flush=True)\n" + body
    )
    started = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    try:
        assert started.stdout.readline() == "ready\n"
        yield started
    finally:
        started.kill()
        started.wait()
        started.stdout.close()


TRAINS = "use = DeviceUse(); use.expect([check]); ready(); time.sleep(600)"
MEASURES = "with alone(check): ready(); time.sleep(600)"
# in the room itself, so that the measurement has the turnstile and waits for ever
WAITS = (
    "import threading\n"
    "use = DeviceUse(); use.expect([check])\n"
    "def measure():\n"
    "    with alone(check): pass\n"
    "threading.Thread(target=measure, daemon=True).start()\n"
    "ready(); time.sleep(600)"
)


# -- who waits for whom --------------------------------------------------------------------------


def test_trials_train_together_and_one_measures_alone() -> None:
    use = trains()
    assert room() == "some that train"
    with process(TRAINS) as other:
        use.leave()
        assert room() == "some that train"  # the other one
        other.kill()
        other.wait()
    assert room() == "nobody"
    with process(MEASURES):
        assert room() == "one that measures"
        assert locked("cpu.turnstile", "shared")


def test_a_trial_that_measures_leaves_its_own_place_and_comes_back() -> None:
    use = trains()
    with alone(ALONE):
        assert room() == "one that measures"
        with alone(ALONE):  # within itself nothing happens
            assert room() == "one that measures"
        assert room() == "one that measures"
    assert room() == "some that train" and use.inside


def test_a_place_that_is_left_is_not_taken_again_by_a_measurement() -> None:
    trains().leave()
    with alone(ALONE):
        pass
    assert room() == "nobody"


def test_an_error_within_gives_everything_back() -> None:
    use = trains()
    with pytest.raises(ZeroDivisionError), alone(ALONE):
        raise ZeroDivisionError
    assert room() == "some that train"
    use.leave()
    assert room() == "nobody" and not locked("cpu.turnstile")


def test_who_wants_to_measure_keeps_others_from_coming_in() -> None:
    with process(WAITS):
        wait_until(lambda: locked("cpu.turnstile", "shared"))
        assert room() == "some that train"


def test_trials_without_such_a_check_touch_no_file() -> None:
    use = DeviceUse("cuda:0")
    use.expect([lambda model: 1.0])
    with use, alone(len):
        assert use.untold_hardware() is None
    assert not lock_folder().exists()


def test_threads_exclude_each_other_like_processes() -> None:
    training, done = threading.Event(), threading.Event()

    def train() -> None:
        with trains():
            training.set()
            done.wait(DEADLINE_S)

    other = threading.Thread(target=train)
    other.start()
    training.wait(DEADLINE_S)
    measured = threading.Event()

    def measure() -> None:
        with alone(ALONE):
            measured.set()

    measuring = threading.Thread(target=measure)
    measuring.start()
    wait_until(lambda: locked("cpu.turnstile", "shared"))
    assert not measured.is_set()
    done.set()
    measuring.join(DEADLINE_S)
    assert measured.is_set()
    other.join()


# -- no deadlock ---------------------------------------------------------------------------------


def test_a_trial_that_was_never_ended_does_not_block_its_own_thread() -> None:
    forgotten = trains()
    second = trains()
    assert not forgotten.inside and second.inside
    with alone(ALONE):
        assert room() == "one that measures"
    forgotten.enter()  # both are trained by turns
    assert not second.inside
    with alone(ALONE):
        assert room() == "one that measures"


def test_a_trial_that_is_forgotten_lets_go() -> None:
    use = trains()
    assert room() == "some that train"
    del use
    assert room() == "nobody"


def test_a_trial_may_be_trained_by_another_thread_than_made_it() -> None:
    use, seen = trains(), []

    def report() -> None:
        use.enter()
        with alone(ALONE):
            seen.append(room())

    thread = threading.Thread(target=report)
    thread.start()
    thread.join(DEADLINE_S)
    assert seen == ["one that measures"]


@pytest.mark.parametrize("body", [TRAINS, MEASURES, WAITS], ids=["trains", "measures", "waits"])
def test_a_process_that_is_killed_blocks_nobody(body: str) -> None:
    with process(body) as other:
        wait_until(lambda: body == TRAINS or locked("cpu.turnstile", "shared"))
        assert room() != "nobody"
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
        with alone(ALONE):  # would wait for ever
            assert room() == "one that measures"


FORKS = """
use = DeviceUse(); use.expect([check])
child = os.fork()
if child == 0:
    ready(); print(os.getpid(), flush=True)
time.sleep(600)
"""
STARTS = """
use = DeviceUse(); use.expect([check])
child = subprocess.Popen(["sleep", "600"], close_fds=False, stdout=subprocess.DEVNULL)
ready(); print(child.pid, flush=True); time.sleep(600)
"""


@pytest.mark.parametrize("body", [FORKS, STARTS], ids=["forked", "started"])
def test_children_of_a_trial_do_not_hold_its_place(body: str) -> None:
    with process(body) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            assert room() == "some that train"
            os.kill(parent.pid, signal.SIGKILL)
            parent.wait()
            os.kill(child, 0)  # it lives
            assert room() == "nobody"
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_forked_child_does_not_give_its_parents_place_away() -> None:
    use = trains()
    child = os.fork()
    if child == 0:
        try:
            use.leave()
            del use
            trains().leave()  # it may train something of its own
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert room() == "some that train"
    use.leave()
    assert room() == "nobody"


STORM = """
import random, sys
number, log = int(sys.argv[1]), os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)
os.environ["CUDA_VISIBLE_DEVICES"] = "1" if number == 1 else "0"
chance = random.Random(number)
checks = [check, SimpleNamespace(measured_alone=True, device="cpu")]
use = DeviceUse("cuda:0" if number < 4 else None)
def note(what, on, began):
    os.write(log, f"{what} {on} {os.getpid()} {began} {time.monotonic()}\\n".encode())
use.expect(checks)
for step in range(40):
    began = time.monotonic()
    time.sleep(chance.random() / 500)
    note("step", "cpu+" + use.own[0], began)
    if chance.random() < 0.6:
        made = chance.choice(checks)
        with alone(made):
            began = time.monotonic()
            time.sleep(chance.random() / 500)
            note("alone", "cpu" if hasattr(made, "device") else use.own[0], began)
    use.leave()
    use.enter()
"""


def test_a_crowd_on_three_devices_never_measures_in_company_and_always_ends(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    setup = "import os, time\nfrom types import SimpleNamespace\n"
    setup += "from acetune.trial.exclusive import DeviceUse, alone\n"
    setup += "check = SimpleNamespace(measured_alone=True)\n"
    crowd = [
        subprocess.Popen([sys.executable, "-c", setup + STORM, str(number), str(log)])
        for number in range(6)
    ]
    try:
        wait_until(lambda: log.read_text().count(f" {crowd[0].pid} ") > 5)
        crowd[0].kill()
        assert [member.wait(DEADLINE_S) for member in crowd[1:]] == [0] * 5
    finally:
        for member in crowd:
            member.kill()
            member.wait()
    lines = [line.split() for line in log.read_text().splitlines()]
    assert sum(line[0] == "alone" for line in lines) > 20
    for what, on, process_id, began, ended in lines:
        if what == "alone":
            for _, other_on, other, other_began, other_ended in lines:
                if other != process_id and on in other_on.split("+"):
                    apart = float(other_ended) < float(began) or float(ended) < float(other_began)
                    assert apart, (on, other_on)


# -- giving up, and stepping out -----------------------------------------------------------------


@pytest.mark.parametrize("body", [TRAINS, MEASURES], ids=["trains", "measures"])
def test_who_gives_up_holds_nothing(body: str) -> None:
    with process(body):
        asked = []

        def give_up() -> bool:
            asked.append(room())
            return len(asked) == 3

        with pytest.raises(GivenUpError), waiting_until(give_up), alone(ALONE):
            raise AssertionError  # not alone
        assert len(asked) == 3
        assert locked("cpu.turnstile") == (body == MEASURES)
    with waiting_until(lambda: True), alone(ALONE):  # nobody is there to wait for
        assert room() == "one that measures"


def test_a_check_on_a_gpu_gives_up_waiting_for_the_processor_too() -> None:
    on_gpu = SimpleNamespace(measured_alone=True, device="cuda:1")
    at_once = waiting_until(lambda: True)
    with process(MEASURES), at_once, pytest.raises(GivenUpError), alone(on_gpu):
        raise AssertionError
    assert room("gpu-1") == room("cpu") == "nobody"


def test_outside_its_room_a_trial_may_wait() -> None:
    with paused():  # no trial at all
        pass
    use = trains()
    with pytest.raises(ZeroDivisionError), paused():
        assert room() == "nobody"
        with alone(ALONE):
            pass
        assert room() == "nobody"
        raise ZeroDivisionError
    assert room() == "some that train"
    use.leave()
    with paused():
        pass
    assert room() == "nobody"  # it was not in the room before


# -- checks that others make ---------------------------------------------------------------------


def test_a_trial_makes_way_for_checks_that_others_make(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    needs = needs_of([len, ALONE, SimpleNamespace(measured_alone=True, device="cuda:1")])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4")  # what a worker sees
    use = DeviceUse("cuda:0")
    use.make_way(needs)
    assert room("cpu") == room("gpu-4") == room("gpu-6") == "some that train"
    assert use.untold_hardware() is None  # nothing is measured on what this trial uses
    use.expect([ALONE])
    assert "cores" in (use.untold_hardware() or "")
    use.expect([ALONE])
    assert use.untold_hardware() is None


def test_checks_that_want_nothing_touch_no_file() -> None:
    assert needs_of([len]) == DeviceNeeds() and hardware_for([len]) is None
    DeviceUse().make_way(DeviceNeeds())
    assert not lock_folder().exists()


def test_what_others_set_aside_is_kept_off() -> None:
    every = frozenset(os.sched_getaffinity(0))
    check = SimpleNamespace(measured_alone=False, aside=every)
    assert (hardware_for([check]) or "").partition("; set aside: core")[2]
    with pytest.raises(GoalError, match="no other to train on; give fewer"):
        DeviceUse().make_way(needs_of([check]))


# -- which device --------------------------------------------------------------------------------


def test_a_gpu_is_known_by_its_physical_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    use = trains("cuda:0")
    assert room("gpu-3") == room("cpu") == "some that train"
    with alone(ALONE):
        assert room("gpu-3") == "one that measures"
        assert room("cpu") == "some that train"  # it uses the processor, as any trial does
    use.leave()
    assert room("gpu-3") == room("cpu") == "nobody"


def test_a_trial_with_several_gpus_is_on_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1, 2")
    use = trains("cuda:0")
    assert use.inside and room("gpu-1") == room("gpu-2") == "some that train"


def test_a_check_may_be_on_another_device_than_its_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a/b")
    served = SimpleNamespace(measured_alone=True, device="cpu")
    use = trains("0", served)
    with alone(served):
        assert room("cpu") == "one that measures"
        assert room("gpu-GPU-a_b") == "nobody"
    assert room("gpu-GPU-a_b") == "some that train" and use.inside


def test_a_check_on_a_gpu_of_trials_that_were_given_none() -> None:
    on_gpu = SimpleNamespace(measured_alone=True, device="cuda:1")
    use = trains(None, on_gpu)
    assert room("gpu-1") == "some that train" and use.inside
    with alone(on_gpu):
        assert room("gpu-1") == "one that measures"


# -- set aside -----------------------------------------------------------------------------------


def test_what_is_measured_aside_waits_for_its_like_only() -> None:
    aside = SimpleNamespace(measured_alone=False, aside="1")
    use = trains()
    use.expect([aside])
    with alone(aside):
        assert room("cpu") == "some that train"
        assert room("aside-gpu-1") == "one that measures"
    assert room("aside-gpu-1") == "nobody"


def test_cores_that_are_all_set_aside_are_an_error() -> None:
    every = frozenset(os.sched_getaffinity(0))
    with pytest.raises(GoalError, match="no other to train on; give fewer"):
        DeviceUse().expect([SimpleNamespace(measured_alone=False, aside=every)])
    assert os.sched_getaffinity(0) == every


def test_a_folder_that_cannot_be_written_to_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    with pytest.raises(StudyError, match=r"cannot lock .*; set TMPDIR"):
        trains()


def test_a_folder_of_somebody_else_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    lock_folder().mkdir()
    mine = os.getuid()
    folder = lock_folder()
    monkeypatch.setattr("acetune.trial.device_locks.lock_folder", lambda: folder)
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    with pytest.raises(StudyError, match="belongs to another user; remove it, or set TMPDIR"):
        trains()
    assert not list(folder.iterdir())


def test_a_folder_that_is_a_link_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    lock_folder().symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StudyError, match="is a link; remove it, or set TMPDIR"):
        trains()
    assert not list((tmp_path / "elsewhere").iterdir())
