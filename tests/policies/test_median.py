"""The median stopping rule: by hand, against the plain rule, and beside Ray's."""

from __future__ import annotations

import math
import random
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acetune.core.errors import GoalError
from acetune.policies import MedianStopping
from acetune.policies.stopper import Stopper
from core.test_against_reference import Pair, Study, studies
from properties import examples_or_more

from .plain import MedianRule

NAN = math.nan


def stopper(policy: MedianStopping, mode: Literal["min", "max"] = "min") -> Stopper:
    return Stopper(objective="loss", mode=mode, policy=policy)


def others(of: Stopper, *curves: tuple[float, ...]) -> None:
    """Trials that have reported these values; what the policy says of them is ignored."""
    for curve in curves:
        trial = of.start(f"other-{len(of.history.trials)}", 100)
        for step, value in enumerate(curve, start=1):
            trial.observe(step, value)
            trial.restore("running", "")


def test_the_best_so_far_is_compared_with_the_median_of_running_averages() -> None:
    study = stopper(MedianStopping())
    others(study, (4.0, 2.0), (5.0, 5.0), (8.0, 0.0))  # averages 3, 5 and 4 at step 2
    trial = study.start("a", 100)
    assert not trial.observe(1, 5.0).stop  # the median at step 1 is 5
    decision = trial.observe(2, 4.5)
    assert decision.stop
    assert (decision.numbers["median"], decision.rank, decision.of) == (4.0, 3, 4)
    assert decision.reason == (
        "its best ranks 3 of 4 among the running averages at step 2: below their median"
    )


def test_a_tie_with_the_median_goes_on_and_an_old_best_counts() -> None:
    study = stopper(MedianStopping())
    others(study, (4.0, 2.0), (5.0, 5.0), (8.0, 0.0))
    trial = study.start("a", 100)
    trial.observe(1, 4.0)
    assert not trial.observe(2, 99.0).stop


def test_an_even_number_of_others_has_its_median_between_two() -> None:
    study = stopper(MedianStopping(min_trials=2), mode="max")
    others(study, (1.0,), (2.0,), (4.0,), (9.0,))
    assert not study.start("a", 9).observe(1, 3.0).stop
    study = stopper(MedianStopping(min_trials=2), mode="max")
    others(study, (1.0,), (2.0,), (4.0,), (9.0,))
    assert study.start("a", 9).observe(1, 2.99).stop


def test_from_three_others_on() -> None:
    study = stopper(MedianStopping())
    others(study, (0.0,), (0.0,))
    decision = study.start("a", 9).observe(1, 1.0)
    assert not decision.stop
    assert decision.reason == "other trials that reported step 1: 2, too few to compare with"
    assert study.start("b", 9).observe(1, 1.0).stop  # the third other is a


def test_no_trial_stops_in_its_first_steps() -> None:
    study = stopper(MedianStopping(min_steps=2))
    others(study, (0.0, 0.0), (0.0, 0.0), (0.0, 0.0))
    trial = study.start("a", 9)
    first = trial.observe(1, 1.0)
    assert not first.stop
    assert first.reason == "within the first 2 steps"
    assert trial.observe(2, 1.0).stop


@pytest.mark.parametrize(
    ("curves", "own", "stops"),
    [
        (((NAN,), (0.0,), (0.0,)), 1.0, True),  # the median is finite
        (((NAN,), (NAN,), (0.0,)), 1.0, False),  # it is not
        (((NAN,), (NAN,), (0.0,)), NAN, False),
        (((0.0,), (0.0,), (0.0,)), NAN, True),
        (((NAN, 0.0), (NAN, 0.0), (0.0, 0.0)), 1.0, False),  # nor at step 2
        (((1e308, 1e308), (1e308, 1e308), (1e308, 1e308)), 1.0, False),
        (((-1e308, -1e308), (-1e308, -1e308), (NAN, NAN)), 1.0, False),  # no sum, no average
    ],
)
def test_values_that_are_not_finite(
    curves: tuple[tuple[float, ...], ...], own: float, stops: bool
) -> None:
    study = stopper(MedianStopping())
    others(study, *curves)
    decision = study.start("a", 9).observe(len(curves[0]), own)
    assert decision.stop is stops
    assert not math.isnan(float(decision.numbers["median"]))


def test_a_new_attempt_goes_on_with_the_average_it_had() -> None:
    study = stopper(MedianStopping(min_trials=1))
    first = study.start("a", 9)
    for step, value in enumerate((8.0, 4.0, 0.0), start=1):
        first.observe(step, value)
    again = study.start("a", 9, resumed_from=2)
    again.observe(3, 3.0)
    decision = study.start("b", 9).observe(3, 5.0)
    assert (decision.numbers["median"], decision.of) == (
        5.0,
        2,
    )  # (8 + 4 + 3) / 3, and the 0.0 is gone


def test_the_constraint_is_checked_once_on_the_best_checkpoint() -> None:
    policy = MedianStopping()
    assert policy.first_check(7, Stopper(objective="x", mode="min").history.costs) == 7
    assert MedianStopping(constraints="after").checks_after_run


@pytest.mark.parametrize(
    "options",
    [
        {"min_trials": 0},
        {"min_trials": 2.5},
        {"min_steps": 0},
        {"min_steps": True},
        {"constraints": "later"},
    ],
)
def test_bad_options_are_named(options: dict[str, Any]) -> None:
    (name, value) = next(iter(options.items()))
    with pytest.raises(GoalError, match=name) as caught:
        MedianStopping(**options)
    assert repr(value) in str(caught.value)


rules = st.builds(
    MedianRule,
    min_trials=st.sampled_from([3, 3, 1, 2]),
    min_steps=st.sampled_from([1, 1, 2, 3]),
    constraints=st.sampled_from(["callback", "callback", "after"]),
)


@examples_or_more(150)
@given(studies(rules, lengths=(3, 6, 10, None, 1)))
def test_against_the_plain_rule(study: Study) -> None:
    Pair(study).play()


# -- Ray -----------------------------------------------------------------------------------------
# The same rule where every step from 1 on is reported and all values are finite: Ray leaves trials
# whose average is not finite out of the median, and averages from its grace period on only.


@dataclass(eq=False)
class FakeTrial:
    trial_id: str


class FakeController:
    def get_live_trials(self) -> list[object]:
        return []


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("min_trials", [1, 3])
@pytest.mark.parametrize("kind", ["few", "any"])
def test_the_same_trials_stop_as_in_ray(
    mode: Literal["min", "max"], min_trials: int, kind: str
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of packages that Ray imports
        schedulers = pytest.importorskip("ray.tune.schedulers")
    ray = schedulers.MedianStoppingRule(
        time_attr="training_iteration",
        metric="loss",
        mode=mode,
        grace_period=1,
        min_samples_required=min_trials,
    )
    ours = stopper(MedianStopping(min_trials=min_trials), mode)
    rng = random.Random(f"{mode} {min_trials} {kind}")
    running: dict[int, tuple[FakeTrial, Any, int]] = {}
    started = stopped = 0
    while started < 80 or running:
        if started < 80 and len(running) < 6:
            fake = FakeTrial(f"trial-{started}")
            ray.on_trial_add(None, fake)
            running[started] = (fake, ours.start(started), 0)
            started += 1
            continue
        index = rng.choice(list(running))
        fake, trial, step = running.pop(index)
        loss = rng.randrange(8) / 4 if kind == "few" else rng.gauss(0, 1)
        result = {"training_iteration": step + 1, "loss": loss}
        stop = ray.on_trial_result(FakeController(), fake, result) == "STOP"
        assert trial.observe(step + 1, loss).stop is stop
        stopped += stop
        if not stop and step < 20:
            running[index] = (fake, trial, step + 1)
    assert 5 < stopped < 75
