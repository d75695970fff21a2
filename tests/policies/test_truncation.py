"""Truncation selection: by hand, against the plain rule, and beside ACE without constraints."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acetune.core.errors import GoalError
from acetune.core.goals import Constraint
from acetune.policies import ACE, TruncationSelection
from acetune.policies.stopper import Stopper
from core.test_against_reference import Pair, Study, studies
from properties import examples_or_more

from .plain import TruncationRule


def test_the_worst_quarter_stops() -> None:
    study = Stopper(objective="loss", mode="min", policy=TruncationSelection())
    stops = [
        study.start(index, 9).observe(1, value).stop for index, value in enumerate((3.0, 2.0, 1.0))
    ]
    assert stops == [False, False, False]  # nothing while there are fewer than four
    decision = study.start("a", 9).observe(1, 4.0)
    assert decision.reason == "rank 4 of 4 reports at step 1: in the worst 25%"
    assert study.start("b", 9).observe(1, 4.0).reason == "rank 4 of 5 reports at step 1: kept"
    assert study.start("c", 9).observe(2, 4.0).of == 1  # another step


def test_violations_do_not_matter() -> None:
    study = Stopper(
        objective="loss",
        mode="min",
        constraints=[Constraint("g", upper=0.0)],
        policy=TruncationSelection(truncation=0.5),
    )
    assert not study.start("a", 1).observe(1, 2.0, {"g": -1.0}).stop
    decision = study.start("b", 2).observe(1, 1.0, {"g": 9.0})
    assert (decision.stop, decision.rank, decision.of) == (False, 1, 2)
    assert study.start("c", 2).observe(1, 2.0).of == 3


def test_only_every_so_many_steps_and_not_at_first() -> None:
    policy = TruncationSelection(truncation=1.0, every=3, min_steps=4)
    trial = Stopper(objective="loss", mode="min", policy=policy).start("a", 9)
    reasons = {step: trial.observe(step, 0.0).reason for step in (1, 3, 4, 6)}
    assert reasons == {
        1: "step 1 is not a multiple of 3: nothing is compared",
        3: "rank 1 of 1 reports at step 3: within the first 4 steps",
        4: "step 4 is not a multiple of 3: nothing is compared",
        6: "rank 1 of 1 reports at step 6: in the worst 100%",
    }


def test_a_value_that_is_not_finite_ranks_last() -> None:
    study = Stopper(objective="loss", mode="max", policy=TruncationSelection(truncation=0.5))
    study.start("a", 9).observe(1, -5.0)
    assert study.start("b", 9).observe(1, math.nan).stop
    assert not study.start("c", 9).observe(1, -5.0).stop


def test_without_constraints_it_stops_whom_ace_stops() -> None:
    rng = random.Random(1)
    ours = Stopper(objective="x", mode="min", policy=TruncationSelection(truncation=0.3))
    ace = Stopper(objective="x", mode="min", policy=ACE(truncation=0.3))
    stopped = 0
    for index in range(100):
        one, two = ours.start(index, 9), ace.start(index, 9)
        for step in range(1, 10):
            value = float(rng.randrange(20))
            stop = one.observe(step, value).stop
            assert two.observe(step, value).stop is stop
            if stop:
                stopped += 1
                break
    assert stopped > 30


@pytest.mark.parametrize(
    "options",
    [
        {"truncation": -0.1},
        {"truncation": 25},
        {"truncation": math.nan},
        {"every": 0},
        {"min_steps": 0},
        {"constraints": "Callback"},
    ],
)
def test_bad_options_are_named(options: dict[str, Any]) -> None:
    (name, value) = next(iter(options.items()))
    with pytest.raises(GoalError, match=name) as caught:
        TruncationSelection(**options)
    assert repr(value) in str(caught.value)


rules = st.builds(
    TruncationRule,
    truncation=st.sampled_from([0.25, 0.25, 0.0, 0.1, 0.5, 0.75, 1.0]),
    every=st.sampled_from([1, 1, 2]),
    min_steps=st.sampled_from([1, 1, 2, 3]),
    constraints=st.sampled_from(["callback", "callback", "after"]),
)


@examples_or_more(120)
@given(studies(rules, lengths=(3, 6, 10, None, 1)))
def test_against_the_plain_rule(study: Study) -> None:
    Pair(study).play()
