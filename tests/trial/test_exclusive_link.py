"""A wrapped link: the devices of its trial are free whenever it waits, and in use when it works."""

from __future__ import annotations

import math
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from acetune.core.decision import Action, Decision
from acetune.trial.device_locks import DeviceLocks, lock_folder
from acetune.trial.exclusive_link import ExclusiveLink
from acetune.trial.link import Link, Plan, Reply, Report
from trial.test_exclusive import ALONE, room

BUSY, FREE = "some that train", "nobody"


@pytest.fixture(autouse=True)
def _locks_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


class Noting(Link):
    """Notes what it is told, and whether the trial's devices are in use then."""

    def __init__(self, *, fails: bool = False, ended: bool = False) -> None:
        self.fails, self.ended = fails, ended
        self.told: list[tuple[str, str]] = []

    def note(self, what: str) -> None:
        self.told.append((what, room()))
        if self.fails:
            raise ConnectionError

    def begin(self, total_steps: int | None, startup_s: float) -> Plan:
        self.note("begin")
        return Plan(1, math.inf, math.inf)

    def declare(self, total_steps: int) -> None:
        self.note("declare")

    def note_hardware(self, description: str) -> None:
        self.note("hardware")

    def fresh_gate(self, report: Report) -> float:
        self.note("gate")
        return 0.0

    def checking(self, constraint: str | None) -> None:
        self.note("checking")

    def report(self, report: Report) -> Reply:
        self.note("report")
        return Reply(Decision(Action.CONTINUE, ""), 0.0, 0.0, stop=False, ended=self.ended)

    def finish(self, report: Report | None) -> None:
        self.note("finish")

    def keep_model(self, step: int, model: object) -> None:
        self.note("model")

    def keep_checkpoint(self, step: int, source: Callable[[Path], object] | Path) -> None:
        self.note("checkpoint")

    def close(self) -> None:
        self.note("close")


def wrapped(engine: Noting) -> ExclusiveLink:
    link = ExclusiveLink(engine)
    link.expect([ALONE])
    return link


REPORT = Report(1, 0.5)
WAITS: dict[str, Callable[[ExclusiveLink], object]] = {
    "begin": lambda link: link.begin(3, 0.0),
    "declare": lambda link: link.declare(3),
    "gate": lambda link: link.fresh_gate(REPORT),
    "finish": lambda link: link.finish(None),
}
WORKS: dict[str, Callable[[ExclusiveLink], object]] = {
    "checking": lambda link: link.checking("ms"),
    "model": lambda link: link.keep_model(1, None),
    "checkpoint": lambda link: link.keep_checkpoint(1, Path()),
}


@pytest.mark.parametrize("call", WAITS)
def test_devices_are_free_while_the_engine_is_waited_for(call: str) -> None:
    engine = Noting()
    link = wrapped(engine)
    assert room() == BUSY
    WAITS[call](link)
    assert engine.told == [(call, FREE)]
    assert room() == (FREE if call == "finish" else BUSY)


@pytest.mark.parametrize("call", WORKS)
def test_devices_are_in_use_while_the_trial_works(call: str) -> None:
    engine = Noting()
    link = wrapped(engine)
    WORKS[call](link)
    assert engine.told == [(call, BUSY)]
    assert room() == BUSY


@pytest.mark.parametrize("ended", [False, True])
def test_hardware_is_told_once_with_the_first_report(ended: bool) -> None:
    engine = Noting(ended=ended)
    link = wrapped(engine)
    link.report(REPORT)
    assert engine.told == [("hardware", BUSY), ("report", FREE)]
    assert room() == (FREE if ended else BUSY)
    link.report(REPORT)
    assert [what for what, _ in engine.told] == ["hardware", "report", "report"]


@pytest.mark.parametrize("call", WAITS)
def test_an_engine_that_is_gone_leaves_the_devices_free(call: str) -> None:
    link = wrapped(Noting(fails=True))
    with pytest.raises(ConnectionError):
        WAITS[call](link)
    assert room() == FREE


def test_a_trial_pauses_goes_on_measures_and_ends() -> None:
    engine = Noting()
    link = wrapped(engine)
    link.pause()
    assert room() == FREE
    link.go_on()
    assert room() == BUSY
    with link.measuring(ALONE):  # type: ignore[arg-type]
        assert room() == "one that measures"
    assert room() == BUSY
    link.close()
    assert engine.told == [("close", FREE)]


def test_what_was_waited_comes_with_the_next_report() -> None:
    class Keeping(Noting):
        reported: list[Report] = []  # noqa: RUF012

        def report(self, report: Report) -> Reply:
            self.reported.append(report)
            return super().report(report)

    engine = Keeping()
    link = wrapped(engine)
    other = DeviceLocks("cpu")
    link.report(Report(1, 0.0))
    link.pause()
    other.empty()  # somebody measures
    threading.Timer(0.3, other.leave).start()
    link.go_on()
    link.report(Report(2, 0.0))
    link.report(Report(3, 0.0))
    first, second, third = (report.waited_s for report in engine.reported)
    assert second > max(first, third)  # which had nobody to wait for
    link.close()


def test_without_such_a_check_nothing_is_locked() -> None:
    engine = Noting()
    link = ExclusiveLink(engine)
    link.expect([SimpleNamespace(), len])
    for call in (*WAITS.values(), *WORKS.values()):
        call(link)
    link.report(REPORT)
    with link.measuring(len):
        pass
    assert "hardware" not in [what for what, _ in engine.told]
    assert not lock_folder().exists()
