"""What travels between driver and workers, and what a search remembers: no Ray is started."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, cast
from unittest import mock

import pytest
import ray
from hypothesis import given
from hypothesis import strategies as st

import acetune
from acetune.core.decision import Action, Decision
from acetune.core.errors import GoalError, ReportError
from acetune.core.goals import Constraint, Estimate, FailedCheck, Goals, Objective
from acetune.core.measured_costs import Costs
from acetune.core.outcome import outcome
from acetune.core.report_values import to_json
from acetune.core.trial_record import Progress
from acetune.policies import make_policy
from acetune.policies.stopper import StopperTrial, stopper_of
from acetune.ray import AceSearch, _results
from acetune.ray._ray_link import RayLink, Saving
from acetune.ray._result_format import (
    BEST_VALUE,
    REPORT,
    VIOLATION,
    Attempt,
    Best,
    Message,
    decode,
    encode,
)
from acetune.ray._trainable import RayTrial
from acetune.ray.broadcast import BroadcastReader, Terms, View
from acetune.trial.link import Report
from acetune.trial.trial import Trial
from one_ray import one_ray
from quick import TESTS

GO_ON = Decision(Action.CONTINUE, "decided elsewhere")
numbers = st.floats(allow_nan=False)
costs = st.none() | st.floats(0, 1e9)
estimates = st.builds(Estimate, numbers, st.floats(0, 10))
measurements = estimates | st.builds(FailedCheck, st.text())
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
    st.floats(0, 1e9),
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
    st.dictionaries(st.text(), estimates, max_size=3),
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
    best = Best(1, loss, violation == 0, "", {}, violation=violation)
    return {REPORT: encode(Message(attempt, None, best=best))}


# -- what a worker tells of itself ---------------------------------------------------------------


class Kept:
    """An outlet that sends nothing, and has what was to be sent and saved."""

    storage: Any = None

    def __init__(self) -> None:
        self.sent: list[tuple[dict[str, Any], Message]] = []
        self.saved: list[Saving] = []

    def ready_to_save(self) -> None:
        pass

    def send(self, result: dict[str, Any], message: Message, saving: Saving | None) -> None:
        self.sent.append((result, message))
        if saving is not None:
            self.saved.append(saving)


class Deaf(BroadcastReader):
    """Hears no more than how things stood when the trial began."""

    def __init__(self) -> None:
        self.notice = ""

    def ask(self) -> None:
        pass

    def answer(self) -> None:
        return None


def in_a_worker(
    terms: Terms, view: View, outlet: Kept, progress: Progress | None = None, total: int = 40
) -> Trial:
    progress = Progress() if progress is None else progress
    link = RayLink("t", "token", Deaf(), terms, view, outlet, progress)
    made: dict[str, Any] = {"number": 1, "params": {}, "folder": Path(), "progress": progress}
    trial = Trial(link, terms.goals, terms.policy, **made)
    trial.declare(total)
    return trial


def test_a_wrong_metric_names_the_place_of_ray_to_change_it() -> None:
    goals = Goals(Objective("loss", "min"))
    terms, view = Terms(goals, acetune.ACE2(), 1, 1), View(Costs(), (), 0.0, 1.0)
    link = RayLink("t", "token", Deaf(), terms, view, Kept(), Progress())
    made: dict[str, Any] = {"number": 1, "params": {}, "folder": Path()}
    trial = RayTrial(link, cast(Any, Kept()), terms, None, **made)
    with pytest.raises(ReportError, match=r"did you mean TuneConfig\(metric='error'\)\?"):
        trial.report(error=1.0)


def test_best_result_wants_what_fit_returned() -> None:
    with pytest.raises(GoalError, match=r"what Tuner\.fit\(\) returned, got 3"):
        acetune.ray.best_result(cast(Any, 3))


def test_what_a_run_has_cost_goes_into_its_checkpoint() -> None:
    """By these costs a restored trial says when its next check is due."""
    goals = Goals(Objective("loss", "min"), (Constraint("g", upper=1.0),))
    terms, view = Terms(goals, acetune.ACE2(), 1, 1), View(Costs(), (), 0.0, 1.0)
    outlet = Kept()

    def report(trial: Trial, value: float) -> Progress:
        costs: dict[str, Any] = {"primary_cost_s": 2.0, "constraint_cost_s": 9.0}
        trial.report(value, constraints={"g": 2.0}, checkpoint=lambda folder: None, **costs)
        return outlet.saved[-1].progress

    first = in_a_worker(terms, view, outlet)
    assert report(first, 0.5).last_check_s == 9.0
    left = report(first, 0.4)
    assert (left.primary_s, left.iterations, left.last_check_s, left.checks) == (4.0, 2, 9.0, 1)
    again = report(in_a_worker(terms, view, outlet, left), 0.3)
    due = [terms.policy.due(again, step, 0.3) for step in range(4, 10)]
    assert due == [None] * 4 + [8, 9]  # 1.5 checks take 6.75 steps


LEVELS = st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, math.nan])


@given(
    st.lists(st.tuples(LEVELS, LEVELS, LEVELS), min_size=1, max_size=6),
    st.sampled_from([0, 1, 2]),
    st.sampled_from(["ace2", "ace:interval=1", "ace:interval=end", "none"]),
    st.sampled_from([(), ((0.75, "another"),), ((0.75, "t"),)]),
    st.booleans(),
)
def test_a_worker_tells_of_itself_what_the_driver_finds(
    steps: list[tuple[float, float, float]],
    constraints: int,
    policy: str,
    best: tuple[tuple[float, str], ...],
    to_its_end: bool,
) -> None:
    """The driver judges and decides; a worker goes by its own verdicts."""
    limits = tuple(Constraint(f"g{i}", upper=1.0) for i in range(constraints))
    goals = Goals(Objective("loss", "min"), limits)
    terms = Terms(goals, make_policy(policy), 1, 1)
    view, outlet = View(Costs(), best, 0.25, 4.0), Kept()
    with mock.patch.object(Goals, "judge", side_effect=AssertionError("that is the driver's")):
        trial = in_a_worker(terms, view, outlet, total=len(steps) + (not to_its_end))
        for value, *found in steps:
            trial.report(
                value,
                constraints={limit.name: g for limit, g in zip(limits, found, strict=False)},
                model=value,
                snapshot=float,
            )
        trial.close()
    driver: StopperTrial | None = None
    for result, message in outlet.sent:
        attempt, report, end = message.attempt, message.report, message.end
        if driver is None:
            driver = stopper_of(goals, terms.policy).restart("t", *attempt[1:4])
        if report is not None:
            checked = {"checked_step": report.checked_step, "decided": GO_ON}
            driver.observe(report.step, report.value, report.measured, **checked)  # type: ignore[arg-type]
        if message.closed:
            driver.finish(end and end.measured, checked_step=end and end.checked_step)
        record = driver.record
        loss, violation, _ = outcome(record, view)
        told = record.best_valid or record.nearest
        assert message.best is not None
        assert message.best.step == (record.progress.best_step if told is None else told.step)
        assert message.best.feasible == (record.best_valid is not None)
        assert message.best.loss == result[BEST_VALUE] == (math.inf if loss is None else loss)
        assert message.best.violation == violation
        if told is None:  # nobody has measured it, whatever searchers are told
            assert math.isnan(result[VIOLATION])
        else:
            assert result[VIOLATION] == violation


def test_steps_that_make_no_sense_are_refused_in_the_worker() -> None:
    goals = Goals(Objective("loss", "min"), (Constraint("g", upper=1.0),))
    terms, outlet = Terms(goals, acetune.ACE(interval=1), 1, 1), Kept()
    trial = in_a_worker(terms, View(Costs(), (), 0.0, 1.0), outlet, total=3)
    given_: dict[str, Any] = {"constraints": {"g": 0.5}}
    assert trial.report(0.5, step=2, **given_).stratum == "valid"
    with pytest.raises(ReportError, match="steps must rise"):
        trial.report(0.5, step=1)
    with pytest.raises(ReportError, match="lies beyond total_steps=3"):
        trial.report(0.5, step=4)
    with pytest.raises(ReportError, match="it cannot become 5"):
        trial.declare(5)
    assert trial.report(0.5, step=2).stratum == "valid"  # as it was said before
    trial.report(0.5, step=3)
    with pytest.raises(ReportError, match="has finished; step 4 comes too late"):
        trial.report(0.5, step=4)
    assert [message.report and message.report.step for _, message in outlet.sent] == [2, 2, 3]


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


def test_a_broadcast_of_an_earlier_ray_is_let_go_of() -> None:
    """A Tuner may be forgotten when its Ray was ended and another one began."""
    code = (
        "from one_ray import one_ray\n"
        "from acetune.ray.broadcast import Publisher\n"
        "with one_ray(num_cpus=1):\n"
        "    publisher = Publisher('folder:experiment', None)\n"
        "    assert publisher._make()\n"
        "with one_ray(num_cpus=1):\n"
        "    publisher.close()\n"
        "    print('closed')\n"
    )
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines()[-1:] == ["closed"], done.stderr


def test_what_ray_has_forgotten_is_said(tmp_path: Path) -> None:
    def train(trial: acetune.Trial) -> None:
        for step in trial.steps(2):
            trial.report(1.0 / step, model=step)

    found = acetune.tune(
        train,
        {"x": acetune.uniform(0, 1)},
        objective="loss",
        mode="min",
        constraints=[acetune.Constraint("g", upper=5, check=float)],
        max_trials=1,
        study=tmp_path / "acetune.db",
        progress=False,
    )
    assert found.best is not None
    for loss in (None, 0.75):
        with pytest.warns(UserWarning, match="holds a better feasible checkpoint"):
            _results._warn_of_forgotten(str(tmp_path), loss)
    _results._warn_of_forgotten(str(tmp_path), found.best.value)  # warnings are errors here
    _results._warn_of_forgotten(str(tmp_path / "elsewhere"), None)
