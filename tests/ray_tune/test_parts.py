"""What travels between driver and workers, and what a search remembers: no Ray is started."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import ray
from hypothesis import given
from hypothesis import strategies as st

import acetune
from acetune.core.goals import Constraint, Estimate, FailedCheck, Goals, Objective
from acetune.core.measured_costs import Costs
from acetune.core.measurements import to_json
from acetune.core.trial_record import Progress
from acetune.ray import AceSearch
from acetune.ray._ray_link import RayLink, Saving
from acetune.ray._result_format import REPORT, VIOLATION, Attempt, Best, Message, decode, encode
from acetune.ray.broadcast import BroadcastReader, Terms, View
from acetune.trial.link import Report
from one_ray import one_ray
from quick import TESTS

numbers = st.floats(allow_nan=False)
costs = st.none() | st.floats(0, 1e9)
measurements = st.builds(Estimate, numbers, st.floats(0, 10)) | st.builds(FailedCheck, st.text())
reports = st.builds(
    Report,
    st.integers(1, 10**9),
    numbers,
    st.none() | st.integers(1, 10**9),
    st.none() | st.dictionaries(st.text(), measurements, max_size=3),
    costs,
    st.none() | st.dictionaries(st.text(), st.floats(0, 1e9), max_size=3),
    st.floats(0, 1e9),
    st.none() | st.dictionaries(st.text(), numbers, max_size=3),
)
attempts = st.builds(
    Attempt,
    st.text(),
    st.none() | st.integers(1, 10**9),
    st.none() | st.integers(1, 10**9),
    st.none() | numbers,
    st.floats(0, 1e9),
    st.integers(0, 10**9),
)


bests = st.builds(
    Best,
    st.integers(1),
    numbers,
    st.booleans(),
    st.text(),
    st.dictionaries(st.text(), numbers, max_size=3),
)


@given(
    st.builds(
        Message,
        attempts,
        st.none() | reports,
        st.none() | reports,
        st.none() | bests,
        st.text(),
        st.booleans(),
        st.text(),
    )
)
def test_a_message_comes_back_as_it_was(message: Message) -> None:
    assert decode(encode(message)) == message


@given(attempts, reports)
def test_measurements_are_written_as_everywhere(attempt: Attempt, report: Report) -> None:
    measured = json.loads(encode(Message(attempt, report)))["report"][3]
    known = report.measured
    assert measured == (known and {name: to_json(found) for name, found in known.items()})


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.sampled_from([1.0, 2.0, 3.0, 4.0, 5.0])),
    st.sampled_from("abcdef"),
    st.sampled_from([0.5, 1.0, 2.5, math.inf]),
    st.integers(1, 4),
)
def test_a_trial_knows_the_gate_from_the_best_few(
    valid: dict[str, float], trial: str, own: float, keep: int
) -> None:
    """The published top and what a trial knows of itself give what the driver will know."""
    own = min(own, valid.get(trial, math.inf))
    published = tuple(sorted((loss, name) for name, loss in valid.items())[:keep])
    view = View(Costs(), published, 0.0, 1.0)
    true = sorted({**valid, trial: own}.values()) + [math.inf] * keep
    assert view.kth_best(keep, trial, own) == true[keep - 1]


def told(loss: float, violation: float) -> dict[str, Any]:
    attempt = Attempt("run", 1, 1, None, 0.0, 0)
    best = Best(1, loss, violation == 0, "", {})
    return {REPORT: encode(Message(attempt, None, best=best)), VIOLATION: violation}


class Kept:
    """An outlet that sends nothing, and has what is to be saved."""

    storage: Any = None

    def __init__(self) -> None:
        self.saved: list[Saving] = []

    def ready_to_save(self) -> None:
        pass

    def send(self, result: dict[str, Any], message: Message, saving: Saving | None) -> None:
        if saving is not None:
            self.saved.append(saving)


def test_what_a_run_has_cost_goes_into_its_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """By these costs a restored trial says when its next check is due."""
    monkeypatch.setattr("acetune.ray.broadcast.broadcast_name", str)  # Ray would be asked for it
    goals = Goals(Objective("loss", "min"), (Constraint("g", upper=1.0),))
    terms = Terms(goals, acetune.ACE2(), 1, 1)
    view = View(Costs(), ((-1.0, "another trial"),), 0.0, 1.0)  # f*, so that nobody asks for it
    outlet = Kept()

    def run(token: str, progress: Progress) -> RayLink:
        link = RayLink("t", token, BroadcastReader("an experiment"), terms, view, outlet, progress)
        assert link.begin(40, 0.0).interval == 1
        return link

    def saved(link: RayLink, report: Report) -> Progress:
        link.keep_checkpoint(report.step, lambda folder: None)
        link.report(report)
        return outlet.saved[-1].progress

    first = run("token", Progress())
    found = {"g": Estimate(2.0)}
    first.report(Report(1, 0.5, 1, found, primary_cost_s=2.0, check_cost_s={"g": 9.0}))
    left = saved(first, Report(2, 0.4, primary_cost_s=2.0))
    assert (left.primary_s, left.iterations, left.last_check_s, left.checks) == (4.0, 2, 9.0, 1)
    again = saved(run("another", left), Report(3, 0.3, primary_cost_s=2.0))
    due = [acetune.ACE2().due(again, step, 0.3) for step in range(4, 10)]
    assert due == [None] * 4 + [8, 9]  # 1.5 checks take 6.75 steps


@pytest.mark.parametrize("name", ["tpe", "forest"])
def test_a_search_remembers_over_a_restore(tmp_path: Path, name: str) -> None:
    space = {"x": acetune.uniform(0, 1), "fixed": 3}
    search = AceSearch(space, name, seed=3)
    for index in range(20):
        params = search.suggest(f"t{index}")
        assert params["fixed"] == 3
        if index < 18:
            search.on_trial_complete(f"t{index}", told(-params["x"], max(0, params["x"] - 0.5)))
    search.on_trial_complete("t18", None, error=True)
    search.save(str(tmp_path / "search"))
    again = AceSearch(space, name, seed=3)
    again.restore(str(tmp_path / "search"))
    assert again._told == search._told and len(again._told) == 19
    again.on_trial_complete("t19", told(-0.4, 0.0))  # it was under way
    assert 0 <= again.suggest("t20")["x"] <= 1
    # neither knows the seed's first suggestion any more
    assert again.suggest("t21")["x"] != AceSearch(space, name, seed=3).suggest("t0")["x"]


def test_a_trial_that_was_valid_once_stays_so_for_the_search() -> None:
    search = AceSearch({"x": acetune.uniform(0, 1)}, "random", seed=1)
    search.suggest("t")
    search.on_trial_result("t", told(-0.8, 0.0))
    search.on_trial_complete("t", told(-0.9, 0.3))  # another attempt, not valid
    assert search._told["t"] == (-0.8, 0.0, False)


def test_a_wrong_searcher_is_named() -> None:
    with pytest.raises(acetune.AcetuneError, match="unknown searcher 'tpee'"):
        AceSearch({"x": acetune.uniform(0, 1)}, "tpee")


# -- the Ray of other tests ----------------------------------------------------------------------


def test_a_ray_that_an_earlier_test_has_left_is_ended_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    up, done = [True], []
    monkeypatch.setattr(ray, "is_initialized", lambda: bool(up))
    monkeypatch.setattr(ray, "shutdown", lambda: (up.clear(), done.append("ended")))
    monkeypatch.setattr(ray, "init", lambda address, **_: done.append(address))
    with pytest.raises(ZeroDivisionError), one_ray():
        1 / 0  # noqa: B018
    assert done == ["ended", "local", "ended"]


def test_tests_start_ray_in_one_place() -> None:
    starting = re.compile(r"^ *ray\.init\(", re.MULTILINE)
    files = [path.name for path in TESTS.rglob("*.py") if starting.search(path.read_text("utf-8"))]
    assert sorted(files) == ["driver.py", "one_ray.py"]  # the first is a process of its own
