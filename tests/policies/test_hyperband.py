"""Hyperband: by hand, against the plain rule, and beside Ray's asynchronous one."""

from __future__ import annotations

import random
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acetune.core.errors import GoalError
from acetune.policies import ASHA, Hyperband
from acetune.policies.stopper import Stopper
from acetune.study.coordinator import StudyCoordinator
from acetune.study.store import Store
from acetune.trial.link import Report
from core.test_against_reference import Pair, Study, studies
from properties import examples_or_more

from .plain import HyperbandRule


def stopper(policy: Hyperband | ASHA, mode: Literal["min", "max"] = "min") -> Stopper:
    return Stopper(objective="loss", mode=mode, policy=policy)


def test_brackets_are_given_out_in_turn() -> None:
    policy = Hyperband(brackets=3)
    study = stopper(policy)
    brackets = [policy.bracket(study.start(name).record) for name in "fedcba"]
    assert brackets == [0, 1, 2, 0, 1, 2]


def test_a_new_attempt_stays_in_its_bracket() -> None:
    policy = Hyperband(brackets=3)
    study = stopper(policy)
    for name in "ab":
        study.start(name)
    assert policy.bracket(study.start("b").record) == 1
    assert policy.bracket(study.start("b", resumed_from=1).record) == 1
    assert policy.bracket(study.start("c").record) == 2


def test_a_higher_bracket_has_its_first_rung_later() -> None:
    study = stopper(Hyperband(reduction_factor=4, brackets=3, min_steps=1))
    ranked = []
    for name in "abc":
        trial = study.start(name, 100)
        ranked.append([s for s in range(1, 65) if trial.observe(s, 0.0).rank is not None])
    assert ranked == [[1, 4, 16, 64], [4, 16, 64], [16, 64]]


def test_trials_are_compared_within_their_bracket() -> None:
    study = stopper(Hyperband(reduction_factor=4, brackets=2))
    a, b, c, d = (study.start(name, 100) for name in "abcd")
    first = a.observe(1, 0.0)
    assert first.reason == "first at the rung of bracket 0 at step 1"
    for step in (1, 2, 3):
        assert b.observe(step, 1.0).reason == f"step {step} is between rungs"
    decision = b.observe(4, 1.0)  # a was better, in another bracket
    assert decision.reason == "first at the rung of bracket 1 at step 4"
    assert c.observe(1, 0.5).reason == (
        "rank 2 of 2 at the rung of bracket 0 at step 1: worse than the cutoff"
    )
    assert d.observe(4, 1.0).reason == "rank 1 of 2 at the rung of bracket 1 at step 4: kept"


def test_the_cutoff_is_the_interpolated_percentile_of_those_before() -> None:
    study = stopper(Hyperband(reduction_factor=2, brackets=1))
    for index, value in enumerate((0.0, 0.0, 3.0, 4.0)):
        study.start(index, 9).observe(1, value)  # a stopped one stays in the comparison
    decision = study.start("a", 9).observe(1, 1.5)
    assert (decision.stop, decision.numbers["cutoff"]) == (False, 1.5)  # half way between 0 and 3
    assert study.start("b", 9).observe(1, 1.51).stop


def test_one_bracket_stops_whom_asha_stops() -> None:
    rng = random.Random(3)
    ours, asha = stopper(Hyperband(brackets=1)), stopper(ASHA())
    stopped = 0
    for index in range(60):
        one, two = ours.start(index, 30), asha.start(index, 30)
        for step in range(1, 31):
            value = rng.gauss(0, 1)
            stop = one.observe(step, value).stop
            assert two.observe(step, value).stop is stop
            if stop:
                stopped += 1
                break
    assert stopped > 20


def test_a_resumed_study_has_the_same_brackets(study: Path) -> None:
    """Trials begin and report in any order; the file knows their numbers."""
    about = dict.fromkeys(("constraints", "space", "settings", "versions"), "[]")
    store = Store.create(
        study, {**about, "objective": "", "policy": "", "code_hash": "", "created": 0}
    )
    policy = Hyperband(reduction_factor=2, brackets=3)
    before = StudyCoordinator(store, stopper(policy))
    with store.transaction():
        trials = [before.add_trial({}) for _ in range(5)]
        for index in (3, 0, 4, 1, 2):
            before.begin(trials[index], 9, 0.0)
        for index in (2, 4, 1, 3, 0):
            before.report(trials[index], Report(1, float(index)))
    store.close()
    store = Store.open(study)
    after = StudyCoordinator(store, stopper(policy))
    after.load()
    store.close()
    for number in range(1, 6):
        old, new = (c.stopper.history.trials[number] for c in (before, after))
        assert policy.bracket(new) == policy.bracket(old) == (number - 1) % 3
        assert [group for _, group, _ in new.filings] == [group for _, group, _ in old.filings]


@pytest.mark.parametrize(
    "options",
    [
        {"reduction_factor": 1},
        {"reduction_factor": float("inf")},
        {"reduction_factor": "4"},
        {"brackets": 0},
        {"brackets": 2.0},
        {"min_steps": 0},
        {"constraints": "never"},
    ],
)
def test_bad_options_are_named(options: dict[str, Any]) -> None:
    (name, value) = next(iter(options.items()))
    with pytest.raises(GoalError, match=name) as caught:
        Hyperband(**options)
    assert repr(value) in str(caught.value)


rules = st.builds(
    HyperbandRule,
    reduction_factor=st.sampled_from([2, 3, 4]),
    brackets=st.sampled_from([1, 2, 2, 3]),
    min_steps=st.sampled_from([1, 1, 2]),
    constraints=st.sampled_from(["callback", "callback", "after"]),
)


@examples_or_more(120)
@given(studies(rules, lengths=(6, 10, 20, None, 1)))
def test_against_the_plain_rule(study: Study) -> None:
    Pair(study).play()


# -- Ray -----------------------------------------------------------------------------------------
# Ray draws a trial's bracket at random; put into the bracket whose turn it is, both must agree.


@dataclass
class FakeTrial:
    trial_id: str


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("reduction_factor", [2, 3, 4])
@pytest.mark.parametrize("brackets", [2, 3])
@pytest.mark.parametrize("skips", [(1,), (1, 5, 30)], ids=["all", "big"])
def test_the_same_trials_stop_as_in_ray(
    mode: Literal["min", "max"], reduction_factor: int, brackets: int, skips: tuple[int, ...]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of packages that Ray imports
        schedulers = pytest.importorskip("ray.tune.schedulers")
    ray = schedulers.AsyncHyperBandScheduler(
        time_attr="training_iteration",
        metric="loss",
        mode=mode,
        max_t=10**6,
        grace_period=1,
        reduction_factor=reduction_factor,
        brackets=brackets,
    )
    ours = stopper(Hyperband(reduction_factor, brackets), mode)
    rng = random.Random(f"{mode} {reduction_factor} {brackets} {skips}")
    running: dict[int, tuple[FakeTrial, Any, int]] = {}
    started = stopped = 0
    while started < 60 or running:
        if started < 60 and len(running) < 5:
            fake = FakeTrial(f"trial-{started}")
            ray.on_trial_add(None, fake)
            ray._trial_info[fake.trial_id] = ray._brackets[started % brackets]
            running[started] = (fake, ours.start(started), 0)
            started += 1
            continue
        index = rng.choice(list(running))
        fake, trial, step = running.pop(index)
        step += rng.choice(skips)
        loss = rng.choice((rng.gauss(0, 1), float(rng.randrange(3))))
        result = {"training_iteration": step, "loss": loss}
        stop = ray.on_trial_result(None, fake, result) == "STOP"
        assert trial.observe(step, loss).stop is stop
        stopped += stop
        if not stop and step < 100:
            running[index] = (fake, trial, step)
    assert stopped > 10
