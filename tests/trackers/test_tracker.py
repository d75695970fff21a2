"""What every tracker is told, and what its failures do: nothing to the study."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import acetune
from acetune.core.errors import AcetuneError
from acetune.testing import check_study_callback
from acetune.trackers._tracker import Attempt, Tracker
from run.helpers import Events, tune
from trackers.studies import LIMIT, run_study


class Told:
    """A service that writes down what it is told."""

    name = "Told"

    def __init__(self, fail: str = "", hang: threading.Event | None = None) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._fail, self._hang = fail, hang

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> None:
            if self._hang is not None:
                self._hang.wait()
            if name == self._fail:
                raise ConnectionError("the server\nis away")
            self.calls.append((name, *arguments))
            if name == "end" and arguments[0].report is not None:
                self.calls.append(("page", arguments[0].report.read_text()))

        return call

    def of(self, name: str) -> list[Any]:
        found = [call[1:] for call in self.calls if call[0] == name]
        return [call[0] if len(call) == 1 else call for call in found]

    def values(self, run: Attempt | None) -> dict[str, list[tuple[int, float]]]:
        found: dict[str, list[tuple[int, float]]] = {}
        for where, told in self.of("log"):
            if where == run:
                for name, value in told.values.items():
                    found.setdefault(name, []).append((told.step, value))
        return found


def tracker(service: Any, *, report: bool = False, wait_s: float = 60.0) -> Tracker:
    return Tracker(service, report=report, wait_s=wait_s)


def test_a_study_is_told_whole_and_in_order(tmp_path: Path) -> None:
    service = Told()
    result = run_study(tmp_path / "loans.db", tracker(service, report=True))

    (begun,) = service.of("begin")
    assert begun.name == "loans" and begun.params["objective"] == "loss"
    assert begun.params["policy"] == "ACE" and "space.x" in begun.params
    assert begun.facts["limit.gap (%)"].startswith("gap (%) <= 5, aiming")
    assert begun.facts["setting.max_trials"] == 3
    assert service.of("begin_trial") == [
        (Attempt(n), {"x": x}) for n, x in ((1, 1), (2, 2), (3, 30))
    ]
    assert service.values(Attempt(1)) == {
        "loss": [(1, 1.0), (2, 0.5), (3, pytest.approx(1 / 3))],
        "lr": [(step, pytest.approx(0.1 * step)) for step in (1, 2, 3)],
        "gap (%)": [(step, 1.0) for step in (1, 2, 3)],
        "gap (%).stderr": [(step, 0.5) for step in (1, 2, 3)],
        "feasible": [(step, 1.0) for step in (1, 2, 3)],
    }
    assert service.values(Attempt(3))["feasible"] == [(step, 0.0) for step in (1, 2, 3)]
    ends = {run.trial: (state, facts) for run, state, facts in service.of("end_trial")}
    assert [ends[n][0] for n in (1, 2, 3)] == ["finished", "failed", "finished"]
    assert [ends[n][1]["stratum"] for n in (1, 2, 3)] == ["valid", "valid", "invalid"]
    assert "as it happens" in ends[2][1]["reason"]
    assert (ends[1][1]["best.step"], ends[1][1]["best.gap (%)"]) == (3, 1.0)
    assert [value for _, value in service.values(None)["best.loss"]] == [
        1.0,
        0.5,
        pytest.approx(1 / 3),
    ]
    (ended,) = service.of("end")
    assert (ended.state, ended.status, ended.answer) == ("finished", result.status, Attempt(1))
    assert ended.values["fresh.gap (%)"] == 1.0 and ended.facts["answer.x"] == 1
    assert "gap (%) <= 5" in ended.facts["you_may_say"] and ended.summary == str(result)
    (page,) = service.of("page")
    assert "<html" in page and "loans" in page
    order = [call[0] for call in service.calls]
    assert order[0] == "begin" and order.index("end") > order.index("end_trial")


def test_the_check_at_the_end_is_told_of(tmp_path: Path) -> None:
    """One that came after the last report, when training had ended by itself."""

    def ends_early(trial: Any) -> None:
        trial.declare(9)
        trial.report(1.0, model=4.0)

    service = Told()
    at_end = acetune.ACE(truncation=0, interval="end", gate=False)
    tune(
        ends_early,
        tmp_path / "s.db",
        callbacks=[tracker(service)],
        constraints=[LIMIT],
        policy=at_end,
    )
    ((_, _, facts),) = service.of("end_trial")
    assert (facts["stratum"], facts["best.step"], facts["best.gap (%)"]) == ("valid", 1, 4.0)


def test_a_study_without_an_answer(tmp_path: Path) -> None:
    service = Told()
    run_study(tmp_path / "s.db", tracker(service), xs=[30])
    (ended,) = service.of("end")
    assert (ended.status, ended.answer, ended.values) == ("none", None, {})


def test_a_study_that_goes_on_has_the_same_key(tmp_path: Path) -> None:
    service = Told()
    once = tracker(service)
    for trials in (1, 2):
        run_study(tmp_path / "s.db", once, max_trials=trials, xs=[1, 3], confirm=None)
    first, second = service.of("begin")
    assert first.key == second.key and first.params == second.params
    assert [run.trial for run, _ in service.of("begin_trial")] == [1, 2]


@pytest.mark.parametrize("fail", ["begin", "log", "end"])
def test_a_server_that_is_away_is_told_of_once_and_hurts_nothing(tmp_path: Path, fail: str) -> None:
    events = Events()
    result = run_study(tmp_path / "s.db", tracker(Told(fail=fail)), events)
    assert result.counts == {"finished": 2, "failed": 1}
    (notice,) = [text for text in events.notices if "Tracker" in text]
    assert "Told could not be told (ConnectionError: the server is away)" in notice
    assert "the study goes on without it" in notice


def test_a_server_that_hangs_holds_up_nothing(tmp_path: Path) -> None:
    hang, events = threading.Event(), Events()
    try:
        result = run_study(tmp_path / "s.db", tracker(Told(hang=hang), wait_s=0.0), events)
    finally:
        hang.set()
    assert result.best is not None and result.best.trial == 1
    (notice,) = [text for text in events.notices if "Tracker" in text]
    assert "Told has not answered for 0 s, and was not told everything" in notice


def test_it_keeps_to_the_protocol_of_listeners() -> None:
    check_study_callback(tracker(Told()))


@pytest.mark.parametrize("wait_s", [-1, "long", float("nan")])
def test_a_wait_that_makes_no_sense(wait_s: Any) -> None:
    with pytest.raises(AcetuneError, match="wait_s must be a number of seconds"):
        tracker(Told(), wait_s=wait_s)
