from __future__ import annotations

import math
import pickle

import pytest

from acetune import ACE, Stopper
from acetune.core.ranked_groups import Group
from acetune.core.trial_record import Progress
from acetune.policies.policy import best_step


@pytest.mark.parametrize("n", [3, 2500])  # a list, and a SortedList
def test_a_copy_of_a_group_is_apart_from_it(n: int) -> None:
    group = Group("g")
    for key in range(n):
        group.add(float(key))
    copied = group.copy()
    copied.remove(1.0)
    copied.add(0.5)
    assert list(group.keys) == [float(key) for key in range(n)]
    assert list(copied.keys)[:3] == [0.0, 0.5, 2.0]
    assert copied.id == group.id


def test_the_history_without_what_a_trial_reported_since() -> None:
    stopper = Stopper(objective="loss", mode="min", policy=ACE())
    others, own = stopper.start("others", 9), stopper.start("own", 9)
    for step in (1, 2, 3):
        others.observe(step, 0.5)
        own.observe(step, 0.1)
    history = stopper.history
    before = pickle.dumps(history)
    past = history.without(own.record, since=2)
    groups = [(step, "valid") for step in (1, 2, 3)]
    assert [list(past.group(group).keys) for group in groups] == [[0.1, 0.5], [0.5], [0.5]]
    assert [list(history.group(group).keys) for group in groups] == [[0.1, 0.5]] * 3
    assert past.gate == history.gate and past.costs is history.costs
    assert pickle.dumps(history) == before


def test_a_step_0_can_be_the_best() -> None:
    """Those of Optuna may begin there."""
    progress = Progress()
    progress.advance(0, 0.5, None)
    assert best_step(progress, 1, 0.7) == 0
    progress.advance(1, 0.7, None)
    assert (progress.best_step, progress.best_loss) == (0, 0.5)
    assert best_step(progress, 2, 0.4) == 2


def test_without_a_finite_objective_the_first_step_is_the_best() -> None:
    progress = Progress()
    for step in (1, 2):
        assert best_step(progress, step, math.inf) == 1
        progress.advance(step, math.inf, None)
        assert progress.best_step == 1
