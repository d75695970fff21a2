"""What the stopper refuses leaves it as it was."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acetune import ACE, ACE2, ASHA, Constraint, NoStopping, Policy, Stopper
from acetune.core.errors import GoalError, ReportError
from acetune.core.report_values import LARGEST_STEP
from acetune.policies.stopper import StopperTrial
from properties import examples

LIMITS = (Constraint("g", upper=1), Constraint("h", lower=0))
TOTAL = LARGEST_STEP  # so that steps of any size are taken
POLICIES: list[Policy] = [ACE(interval=1), ACE2(spacing=0.5), ACE(interval="end"), ASHA()]
POLICIES += [NoStopping()]


class Rude:
    """Says nothing about itself but an error."""

    def fail(self, *_: object) -> Any:
        raise RuntimeError("none of your business")

    __float__ = __index__ = __str__ = __len__ = __iter__ = fail
    __repr__ = fail


class RudeDict(dict[str, float]):
    __iter__ = keys = items = Rude.fail  # type: ignore[assignment]


# no step, no name of a trial, no number of seconds, and no values by name
ODD: list[Any] = [math.inf, -math.inf, math.nan, 1e308, 10**400, 10**5000, 1j, Rude(), object()]
ODD += [np.array([1, 2]), np.array([]), np.array([[1]]), np.array(None), np.float16(2), [1], b"1"]

finite = st.floats(-3, 3)
measured = st.fixed_dictionaries({"g": finite, "h": finite})
cost = st.floats(0, 10)


@st.composite
def good_reports(draw: st.DrawFn) -> dict[str, Any]:
    """A report without its step, which depends on those before."""
    report: dict[str, Any] = {"value": draw(st.floats(-3, 3) | st.just(math.nan))}
    if draw(st.booleans()):
        report["constraints"] = draw(measured)
        report["constraint_cost_s"] = draw(st.none() | cost)
    report["primary_cost_s"] = draw(st.none() | cost)
    report["snapshot_cost_s"] = draw(cost)
    return report


BAD: list[dict[str, Any]] = [
    {"step": 2**63},
    {"step": LARGEST_STEP + 1},
    {"step": 2**200},
    {"step": 0},
    {"step": True},
    {"step": 1.5},
    {"value": True},
    {"value": "0.5"},
    {"value": np.bool_(False)},
    {"primary_cost_s": math.nan},
    {"primary_cost_s": -1.0},
    {"primary_cost_s": True},
    {"snapshot_cost_s": math.nan},
    {"snapshot_cost_s": -1.0},
    {"snapshot_cost_s": False},
    {"constraints": {"g": True, "h": 1.0}},
    {"constraints": {"g": 0.5}},
    {"constraints": {"g": 0.5, "h": (1.0, True)}},
    {"constraints": {"g": 0.5, "h": 1.0, "unknown": 1.0}},
    {"constraints": {"g": 0.5, "h": 1.0}, "constraint_cost_s": math.nan},
    {"constraints": {"g": 0.5, "h": 1.0}, "constraint_cost_s": {"g": -1.0}},
    {"constraints": {"g": 0.5, "h": 1.0}, "constraint_cost_s": {"unknown": 1.0}},
    {"constraints": {"g": 0.5, "h": 1.0}, "checked_step": 2**61 + 1},  # never reported
    {"constraints": {"g": 0.5, "h": 1.0}, "checked_step": True},
    {"constraints": {"g": 0.5, "h": 1.0}, "checked_step": 2**63},
]
BAD += [{"step": odd} for odd in ODD]
BAD += [{"value": odd} for odd in (10**400, 10**5000, 1j, Rude(), np.array([1, 2]), [1])]
BAD += [{"constraints": odd} for odd in (*ODD, RudeDict(g=0.5, h=1.0), "gh", {1, 2})]
BAD += [{"constraints": {"g": 0.5, "h": odd}} for odd in (10**400, 10**5000, Rude())]
BAD += [{"constraints": {"g": 0.5, "h": 1.0}, "checked_step": odd} for odd in ODD]
BAD += [{"snapshot_cost_s": odd} for odd in (math.inf, 10**5000, Rude(), np.array([1, 2]))]
BAD_ENDS: list[dict[str, Any]] = [
    bad for bad in BAD if not bad.keys() & {"step", "value", "primary_cost_s"}
]


def refused(trial: StopperTrial, step: int, bad: dict[str, Any]) -> None:
    report: dict[str, Any] = {"step": step, "value": 0.5, "primary_cost_s": 1.0} | bad
    with pytest.raises(ReportError):
        trial.observe(**report)


def state_of(stopper: Stopper) -> bytes:
    """All that the stopper knows, groups, costs and progress included."""
    return pickle.dumps(stopper.history)


def new(policy: Policy) -> Stopper:
    return Stopper(objective="loss", mode="min", constraints=LIMITS, policy=policy)


@examples(60)
@given(data=st.data(), policy=st.sampled_from(POLICIES))
def test_a_stopper_is_as_if_it_had_never_heard_of_what_it_refused(
    data: st.DataObject, policy: Policy
) -> None:
    clean, other = new(policy), new(policy)
    sizes = st.integers(1, 3) | st.integers(2**31 - 2, 2**31 + 2) | st.integers(2**53, 2**53 + 2)
    for name in ("a", "b", "c"):
        for wrong in ({"total_steps": 2**63}, {"total_steps": True}, {"resumed_from": 2**63}):
            with pytest.raises(ReportError):
                other.start(name, **wrong)  # type: ignore[arg-type]
        trials = clean.start(name, TOTAL), other.start(name, TOTAL)
        step = 0
        for report in data.draw(st.lists(good_reports(), min_size=1, max_size=6)):
            if trials[0].state != "running":
                break
            step += data.draw(sizes)
            for bad in data.draw(st.lists(st.sampled_from(BAD), max_size=3)):
                refused(trials[1], step, bad)
            decisions = [trial.observe(step, **report) for trial in trials]
            assert decisions[0] == decisions[1]
        if trials[0].state == "running":
            for bad in data.draw(st.lists(st.sampled_from(BAD_ENDS), max_size=3)):
                with pytest.raises(ReportError):
                    trials[1].finish(**bad)
            end = data.draw(st.none() | measured)
            for trial in trials:
                trial.finish(end, snapshot_cost_s=0.5)
    assert state_of(clean) == state_of(other)
    assert clean.history.gate == other.history.gate
    for name in ("a", "b", "c"):
        records = [stopper.history.trials[name] for stopper in (clean, other)]
        assert records[0].gated_at == records[1].gated_at
        assert records[0].progress == records[1].progress


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: "-".join(bad))
@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_each_kind_of_wrong_report_changes_nothing(policy: Policy, bad: dict[str, Any]) -> None:
    stopper = new(policy)
    trial = stopper.start("a", TOTAL)
    trial.observe(1, 0.1, {"g": 0.5, "h": 1.0}, 1.0, 2.0)
    before = state_of(stopper)
    refused(trial, 2, bad)
    assert state_of(stopper) == before


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_odd_arguments_of_the_other_calls_are_refused(policy: Policy) -> None:
    stopper = new(policy)
    trial = stopper.start("a", TOTAL)
    trial.observe(1, 0.1, {"g": 0.5, "h": 1.0}, 1.0, 2.0)
    before = state_of(stopper)
    for odd in ODD:
        calls: list[Callable[[], object]] = [
            lambda odd=odd: trial.check_due(odd, 0.1),
            lambda odd=odd: trial.declare(odd),
            lambda odd=odd: trial.add_check(odd, None, 1),
            lambda odd=odd: trial.add_check({"g": 0.5, "h": 1.0}, None, odd),
            lambda odd=odd: stopper.start(odd),
            lambda odd=odd: stopper.start("b", odd),
            lambda odd=odd: stopper.start("b", resumed_from=odd),
            lambda odd=odd: stopper.found_in(odd),
        ]
        for call in calls:
            with pytest.raises(ReportError):
                call()
    for unknown in ("b", 7):
        with pytest.raises(ReportError, match=f"no trial {unknown!r} has started"):
            stopper.found_in(unknown)
    assert state_of(stopper) == before


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
def test_odd_goals_are_refused(odd: Any) -> None:
    for odds in ({"objective": odd}, {"mode": odd}, {"constraints": [odd]}, {"policy": odd}):
        with pytest.raises(GoalError):
            Stopper(**({"objective": "loss", "mode": "min"} | odds))
    for odds in ({"name": odd}, {"on": odd}, {"check": odd}, {"exact": odd}):
        with pytest.raises(GoalError):
            Constraint(**({"name": "g", "upper": 1.0} | odds))
    if type(odd) is not float or odd != 1e308:
        for name in ("upper", "margin_se", "scale", "timeout_s"):
            with pytest.raises(GoalError):
                Constraint(**({"name": "g", "upper": 1.0} | {name: odd}))


@pytest.mark.parametrize(
    "odd", [Rude(), 3, np.array(3), None], ids=["rude", "int", "array", "none"]
)
def test_constraints_that_are_no_list_are_refused(odd: Any) -> None:
    with pytest.raises(GoalError, match="constraints must be Constraint objects"):
        Stopper(objective="loss", mode="min", constraints=odd)


def test_steps_beyond_the_last_are_refused_unchanged() -> None:
    stopper = new(ACE(interval=1))
    trial = stopper.start("a", 5)
    trial.observe(1, 0.1)
    before = state_of(stopper)
    refused(trial, 6, {})
    with pytest.raises(ReportError, match="at most 2\\*\\*62"):
        trial.declare(2**63)
    assert state_of(stopper) == before


class Raises(ACE):
    """A policy of one's own that breaks down at its second report."""

    def decide(self, trial: Any, report: Any, filing: Any, history: Any) -> Any:
        if report.step > 1:
            raise RuntimeError("broken")
        return super().decide(trial, report, filing, history)


def test_a_policy_that_raises_leaves_no_skipped_check_behind() -> None:
    stopper = new(Raises(interval=1))
    trial = stopper.start("a", 5)
    trial.observe(1, 0.1, {"g": 0.5, "h": 1.0})
    with pytest.raises(RuntimeError):
        trial.observe(2, 0.9)  # due, and not made
    assert trial.record.gated_at is None


def test_the_largest_step_is_taken_and_the_next_one_named() -> None:
    stopper = new(ACE(interval=1))
    trial = stopper.start("a", LARGEST_STEP)
    trial.observe(LARGEST_STEP - 1, 0.5)
    with pytest.raises(
        ReportError,
        match=r"step must be at most 2\*\*62, got 4611686018427387905.*"
        "thousands of tokens",
    ):
        trial.observe(LARGEST_STEP + 1, 0.4)
    trial.observe(np.int64(LARGEST_STEP), 0.3)  # type: ignore[arg-type]
    assert trial.state == "finished"
