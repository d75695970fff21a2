"""ASHA beside the scheduler it follows: the same reports to both, the same trials stopped."""

from __future__ import annotations

import random
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from acetune.core.decision import Decision
from acetune.policies import ASHA
from acetune.policies.stopper import Stopper

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of packages that Ray imports
    schedulers = pytest.importorskip("ray.tune.schedulers")

FOREVER = 10**9


@dataclass
class FakeTrial:
    """All that Ray's scheduler looks at."""

    trial_id: str


def values(kind: str, rng: random.Random) -> float:
    """Losses with many ties, with few, and with none."""
    if kind == "few":
        return float(rng.randrange(4))
    if kind == "some":
        return round(rng.gauss(0, 1), 1)
    return rng.gauss(0, 1)


class Both:
    """One study, two schedulers."""

    def __init__(self, mode: Literal["min", "max"], reduction_factor: int, first_rung: int) -> None:
        self.ray: Any = schedulers.ASHAScheduler(
            time_attr="training_iteration",
            metric="loss",
            mode=mode,
            max_t=FOREVER,
            grace_period=first_rung,
            reduction_factor=reduction_factor,
        )
        policy = ASHA(reduction_factor=reduction_factor, min_steps=first_rung)
        self.ours = Stopper(objective="loss", mode=mode, policy=policy)

    def start(self, name: str) -> tuple[FakeTrial, Any]:
        trial = FakeTrial(name)
        self.ray.on_trial_add(None, trial)
        return trial, self.ours.start(name)

    def report(self, trial: tuple[FakeTrial, Any], step: int, loss: float) -> bool:
        """Whether the trial stops, on which they must agree."""
        theirs, ours = trial
        result = {"training_iteration": step, "loss": loss}
        decision: Decision = ours.observe(step, loss)
        stopped = bool(self.ray.on_trial_result(None, theirs, result) == "STOP")
        assert decision.stop is stopped, (theirs.trial_id, step, loss, decision)
        return decision.stop


def study(both: Both, rng: random.Random, kind: str, skips: tuple[int, ...]) -> int:
    """Forty interleaved trials of at most a hundred steps; how many were stopped."""
    running: dict[int, tuple[Any, int]] = {}
    started = stopped = 0
    while started < 40 or running:
        if started < 40 and len(running) < 5:
            running[started] = (both.start(f"trial-{started}"), 0)
            started += 1
            continue
        index = rng.choice(list(running))
        trial, step = running[index]
        step += rng.choice(skips)
        running[index] = (trial, step)
        if both.report(trial, step, values(kind, rng)):
            stopped += 1
            del running[index]
        elif step >= 100:
            del running[index]
    return stopped


@pytest.mark.parametrize("reduction_factor", [2, 3, 4])
@pytest.mark.parametrize("first_rung", [1, 3])
@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("kind", ["few", "some", "any"])
@pytest.mark.parametrize("skips", [(1,), (1, 1, 2), (1, 5, 30)], ids=["all", "some", "big"])
def test_the_same_trials_stop(
    mode: Literal["min", "max"],
    reduction_factor: int,
    first_rung: int,
    kind: str,
    skips: tuple[int, ...],
) -> None:
    both = Both(mode, reduction_factor, first_rung)
    rng = random.Random(f"{mode} {reduction_factor} {first_rung} {kind} {skips}")
    assert study(both, rng, kind, skips) > 5


@pytest.mark.parametrize("reduction_factor", [2, 3, 4])
def test_they_agree_on_who_equals_the_cutoff(reduction_factor: int) -> None:
    """Every rung size up to sixty, so that every way the percentile is rounded comes up."""
    both = Both("max", reduction_factor, first_rung=1)
    recorded: list[float] = []
    rng = random.Random(reduction_factor)
    for index in range(60):
        bracket = both.ray._brackets[0]
        cutoff = bracket.cutoff(bracket._rungs[-1][1])
        loss = rng.choice([rng.random(), *recorded[-3:], *([] if cutoff is None else [cutoff])])
        both.report(both.start(f"trial-{index}"), 1, float(loss))
        recorded.append(float(loss))


def test_a_trial_that_skipped_a_rung_is_ranked_there_at_its_next_report() -> None:
    both = Both("min", 4, first_rung=1)
    for index in range(3):
        assert not both.report(both.start(f"early-{index}"), 1, 0.0)
    late = both.start("late")
    assert not both.report(late, 4, 9.0)  # first at the rung of step 4
    assert both.report(late, 5, 9.0)  # which leaves the rung of step 1
