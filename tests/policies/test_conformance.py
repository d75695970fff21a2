"""What every policy must do, whatever its rule."""

from __future__ import annotations

import math
import pickle
import random
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Literal, NamedTuple

import cloudpickle
import pytest

from acetune import policies
from acetune.core.decision import Decision
from acetune.core.errors import GoalError
from acetune.core.goals import Constraint, Estimate, FailedCheck
from acetune.core.outcome import outcome
from acetune.policies import POLICY_NAMES, parse_policy
from acetune.stopper import Stopper
from acetune.stopper_trial import StopperTrial

SETTINGS = (
    *POLICY_NAMES,
    "ace:truncation=0.5",
    "ace:truncation=1.0,min_steps=3",
    "ace-noskip:interval=1",
    "ace-hard:interval=1,min_steps=2",
    "ace-betaT:gate=False",
    "asha:reduction_factor=2",
    "asha:reduction_factor=3,min_steps=2",
    "hyperband:reduction_factor=2,brackets=2",
    "hyperband:reduction_factor=1.5,brackets=5,min_steps=2",
    "median:min_trials=1,min_steps=3",
    "bandit:slack_ratio=0.0",
    "bandit:slack_ratio=2.0,min_steps=3",
    "bandit:slack_amount=0.0",  # any other amount has a unit
    "truncation:truncation=0.5,every=2,min_steps=3",
    "truncation:truncation=1.0,min_steps=5",
    "curve:probability=0.5,min_finished=3,min_steps=2",
    "curve:probability=1.0,spacing=1.5",
    "asha-stratum:reduction_factor=2,min_steps=2",
    "asha-stratum-adaptive:reduction_factor=3,truncation=0.5",
    "asha-lex:reduction_factor=2",
    "asha-lex:reduction_factor=1.5,gate=False",
    "backoff:truncation=0.5,growth=2",
    "backoff:truncation=0.0,growth=1",
    "ace2:spacing=0,remember=False",
    "ace2:truncation=0.5,invalid_truncation=0.1,patience=0.5,defer=False",
    "ace2:spacing=2.5,patience=0.0",
)
every_policy = pytest.mark.parametrize("name", SETTINGS)
SEEDS = (0, 1, 2)
LAST = 9


class Told(NamedTuple):
    """One report as it was made, with what was decided."""

    trial: str
    step: int
    value: float
    constraints: dict[str, float | Estimate | FailedCheck] | None
    checked_step: int | None
    costs: tuple[float, float | None]
    decision: Decision


def as_it_is(value: float) -> float:
    return value


def some_value(rng: random.Random) -> float:
    return rng.choice((rng.random(), rng.choice((0.25, 0.5, 0.75)), math.nan, math.inf))


def some_measurement(rng: random.Random) -> float | Estimate | FailedCheck:
    value = rng.choice((0.0, 0.25, 0.5, 1.0))
    return rng.choice((value, Estimate(value, 0.1), math.nan, FailedCheck("raised")))


class Run:
    """A study of interleaved random trials under one policy."""

    def __init__(
        self,
        name: str,
        seed: int,
        *,
        constraints: bool = True,
        mode: Literal["min", "max"] = "min",
        rename: Callable[[int], str] = "trial-{}".format,
        value: Callable[[float], float] = as_it_is,
    ) -> None:
        limits = [Constraint("g", upper=0.5), Constraint("h", lower=0.25, margin_se=1.0)]
        self.stopper = Stopper(
            objective="loss",
            mode=mode,
            constraints=limits if constraints else (),
            policy=parse_policy(name),
        )
        self.log: list[str | Told] = []  # a trial that starts, or a report
        self.asked_for: list[int | None] = []
        rng = random.Random(seed)
        waiting = [rename(index) for index in range(60)]
        running: dict[str, StopperTrial] = {}
        while waiting or running:
            while waiting and len(running) < 4:
                trial = waiting.pop(0)
                running[trial] = self.stopper.start(trial, LAST)
                self.log.append(trial)
            trial = list(running)[rng.randrange(len(running))]
            handle = running[trial]
            step = min(LAST, handle.record.progress.last_step + rng.choice((1, 1, 1, 2)))
            reported = value(some_value(rng))
            due = handle.check_due(step, reported)
            self.asked_for += [due, handle.finish_due()]
            measured = {"g": some_measurement(rng), "h": some_measurement(rng)}
            check_cost = rng.choice((0.5, 2.0, 8.0))
            costs = (1.0, None if due is None else check_cost)
            given = None if due is None else measured
            decision = handle.observe(step, reported, given, *costs, checked_step=due)
            self.log.append(Told(trial, step, reported, given, due, costs, decision))
            if handle.state != "running":
                del running[trial]

    @property
    def told(self) -> list[Told]:
        return [event for event in self.log if isinstance(event, Told)]

    @property
    def decisions(self) -> list[Decision]:
        return [told.decision for told in self.told]

    @property
    def answers(self) -> list[tuple[object, ...]]:
        """The decisions without the number they were compared with, which has a unit."""
        return [(d.action, d.why, d.stratum, d.rank, d.of, d.step) for d in self.decisions]


@cache
def played(name: str, seed: int) -> Run:
    """The same run for all tests that only look at it."""
    return Run(name, seed)


def replayed(run: Run) -> Stopper:
    """The same reports in the same order, to a new stopper; the decisions must be the same."""
    stopper = Stopper(
        objective="loss",
        mode=run.stopper.goals.objective.mode,
        constraints=run.stopper.goals.constraints,
        policy=pickle.loads(pickle.dumps(run.stopper.policy)),
    )
    handles = {}
    for event in run.log:
        if isinstance(event, str):
            handles[event] = stopper.start(event, LAST)
            continue
        decision = handles[event.trial].observe(
            event.step,
            event.value,
            event.constraints,
            *event.costs,
            checked_step=event.checked_step,
        )
        assert decision == event.decision
    return stopper


def state(stopper: Stopper) -> tuple[object, ...]:
    """What a study has come to."""
    history = stopper.history
    trials = [
        (record.id, record.state, record.reason, record.progress, outcome(record, history))
        for record in history.trials.values()
    ]
    return trials, stopper.best, history.nearest, history.gate, history.costs, history.strata


# -- asking --------------------------------------------------------------------------------------


@every_policy
@pytest.mark.parametrize("seed", SEEDS)
def test_asking_changes_nothing(name: str, seed: int) -> None:
    stopper = Run(name, seed).stopper
    trial = stopper.start("new", LAST)
    trial.observe(1, 0.5)
    before = pickle.dumps((stopper.history, stopper.policy))
    for snapshot in (True, False):
        for step in (2, LAST):
            for value in (0.0, 1.0, math.nan):
                first = trial.check_due(step, value, snapshot=snapshot)
                assert trial.check_due(step, value, snapshot=snapshot) == first
        assert trial.finish_due(snapshot=snapshot) == trial.finish_due(snapshot=snapshot)
    for told in stopper.history.trials.values():
        assert outcome(told, stopper.history) == outcome(told, stopper.history)
    assert stopper.best == stopper.best
    stopper.history.kth_best(1)
    assert pickle.dumps((stopper.history, stopper.policy)) == before


@every_policy
@pytest.mark.parametrize("total_steps", [None, 1, 10])
def test_choosing_an_interval_changes_nothing(name: str, total_steps: int | None) -> None:
    stopper = Run(name, seed=0).stopper
    before = pickle.dumps(stopper.history)
    first = stopper.policy.first_check(total_steps, stopper.history.costs)
    assert stopper.policy.first_check(total_steps, stopper.history.costs) == first
    assert (first is None and total_steps is None) or 1 <= first <= (total_steps or first)
    assert pickle.dumps(stopper.history) == before


# -- deciding ------------------------------------------------------------------------------------


@every_policy
@pytest.mark.parametrize("seed", SEEDS)
def test_a_replay_decides_like_the_run(name: str, seed: int) -> None:
    run = played(name, seed)
    assert state(replayed(run)) == state(run.stopper)


@every_policy
@pytest.mark.parametrize("seed", SEEDS)
def test_the_names_of_trials_do_not_matter(name: str, seed: int) -> None:
    run = played(name, seed)
    renamed = Run(name, seed, rename=lambda index: f"{(index * 37) % 60:03d} other")
    assert renamed.answers == run.answers
    assert renamed.asked_for == run.asked_for


@every_policy
@pytest.mark.parametrize("power", [-20, -1, 1, 20])
def test_the_unit_of_the_objective_does_not_matter(name: str, power: int) -> None:
    run = played(name, 1)
    scaled = Run(name, seed=1, value=lambda value: value * 2.0**power)
    assert scaled.answers == run.answers
    assert scaled.asked_for == run.asked_for


@every_policy
@pytest.mark.parametrize("seed", SEEDS)
def test_maximising_is_minimising_the_negative(name: str, seed: int) -> None:
    run = played(name, seed)
    mirrored = Run(name, seed, mode="max", value=lambda value: -value)
    assert mirrored.answers == run.answers


@every_policy
@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_is_stopped_at_the_last_step(name: str, seed: int) -> None:
    run = played(name, seed)
    last = [told for told in run.told if told.step == LAST]
    assert not any(told.decision.stop for told in last)
    assert all(run.stopper.history.trials[told.trial].state == "finished" for told in last)


@every_policy
def test_the_worst_of_many_finishes_when_it_is_at_its_last_step(name: str) -> None:
    stopper = Stopper(
        objective="loss",
        mode="min",
        constraints=[Constraint("g", upper=0.5)],
        policy=parse_policy(name),
    )
    for index in range(20):
        stopper.start(index, 10).observe(1, 0.1)
    trial = stopper.start("worst", 1)
    assert not trial.observe(1, 0.9).stop
    assert trial.state == "finished"


@every_policy
@pytest.mark.parametrize("seed", SEEDS)
def test_every_decision_has_a_reason(name: str, seed: int) -> None:
    run = played(name, seed)
    for decision in run.decisions:
        assert decision.reason.strip()
        assert not set(decision.reason) & set("{}")
        assert "None" not in decision.reason
    for record in run.stopper.history.trials.values():
        assert record.reason.strip()
        assert not set(record.reason) & set("{}")


@every_policy
def test_a_report_made_twice_has_a_reason_too(name: str) -> None:
    run = Run(name, seed=0)
    stopper = run.stopper
    trial = stopper.start("new", LAST)
    for step in (1, 2, 3):
        if not trial.observe(step, 0.0).stop:
            reason = trial.observe(step, 0.0).reason
            assert reason.strip()
            assert not set(reason) & set("{}")
            assert "None" not in reason


@every_policy
@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_report_was_compared_with_is_a_number(name: str, seed: int) -> None:
    assert not any(math.isnan(decision.number) for decision in played(name, seed).decisions)


@every_policy
@pytest.mark.parametrize("seed", SEEDS)
def test_ranks_make_sense(name: str, seed: int) -> None:
    for decision in played(name, seed).decisions:
        assert (decision.rank is None) == (decision.of is None)
        if decision.rank is not None and decision.of is not None:
            assert 1 <= decision.rank <= decision.of


# -- values that are not finite ------------------------------------------------------------------


@every_policy
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("mode", ["min", "max"])
def test_an_objective_that_is_not_finite_is_never_the_best(
    name: str, value: float, mode: Literal["min", "max"]
) -> None:
    stopper = Stopper(
        objective="loss",
        mode=mode,
        constraints=[Constraint("g", upper=0.5)],
        policy=parse_policy(name),
    )
    stopper.start("broken", 1).observe(1, value, {"g": 0.0})
    assert stopper.history.kth_best(1) == math.inf
    stopper.start("fine", 1).observe(1, 0.5, {"g": 0.0})
    stopper.start("broken too", 1).observe(1, value, {"g": 0.0})
    assert stopper.best is not None
    assert stopper.best.trial == "fine"


@every_policy
@pytest.mark.parametrize("seed", SEEDS)
def test_the_searcher_is_told_finite_numbers(name: str, seed: int) -> None:
    history = played(name, seed).stopper.history
    for record in history.trials.values():
        told = outcome(record, history)
        assert math.isfinite(told.violation)
        assert told.violation >= 0
        assert told.failed if told.loss is None else math.isfinite(told.loss)


# -- without constraints -------------------------------------------------------------------------


@every_policy
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_checked_in_a_study_without_constraints(name: str, seed: int) -> None:
    run = Run(name, seed, constraints=False)
    assert set(run.asked_for) == {None}


@pytest.mark.parametrize("name", [name for name in SETTINGS if "+after" in name])
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_checked_during_a_run_that_checks_afterwards(name: str, seed: int) -> None:
    run = played(name, seed)
    assert set(run.asked_for) == {None}
    assert run.stopper.policy.checks_after_run


# -- the policy as an object ---------------------------------------------------------------------


@every_policy
@pytest.mark.parametrize("pickler", [pickle, cloudpickle])
def test_it_can_be_sent_to_another_process(name: str, pickler: ModuleType) -> None:
    policy = parse_policy(name)
    sent = pickle.loads(pickler.dumps(policy))
    assert sent == policy
    assert hash(sent) == hash(policy)
    assert vars(sent) == vars(policy)


@every_policy
def test_its_repr_and_its_options_make_it_again(name: str) -> None:
    policy = parse_policy(name)
    assert type(policy)(**policy.options()) == policy
    assert eval(repr(policy), vars(policies)) == policy


@every_policy
def test_an_option_it_does_not_have_is_refused(name: str) -> None:
    with pytest.raises(GoalError, match="colour"):
        parse_policy(f"{name}{',' if ':' in name else ':'}colour=3")


def test_names_stand_for_different_policies() -> None:
    assert len({parse_policy(name) for name in POLICY_NAMES}) == len(POLICY_NAMES)


@pytest.mark.parametrize("text", ["", "acee", "ACE", "ace:truncation", "ace:truncation=2"])
def test_a_policy_that_does_not_exist_is_named(text: str) -> None:
    with pytest.raises(GoalError) as caught:
        parse_policy(text)
    assert repr(text.partition(":")[0]) in str(caught.value) or "truncation" in str(caught.value)
