"""Stopping by prediction: its statistics, by hand, a second implementation, and calibration."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from acetune.core.decision import Decision
from acetune.core.errors import GoalError
from acetune.policies import PerformanceCurve
from acetune.policies._performance_curve import chance_below, student_cdf
from acetune.policies.stopper import Stopper
from properties import examples

NAN = math.nan


# -- the statistics ------------------------------------------------------------------------------


@pytest.mark.parametrize("df", [1, 2, 3, 4, 5, 10, 31, 200, 2001])
@pytest.mark.parametrize("t", [-1e9, -30.0, -2.0, -0.1, 0.0, 1e-9, 0.7, 3.0, 50.0, 1e9])
def test_students_distribution_is_scipys(df: int, t: float) -> None:
    assert student_cdf(t, df) == pytest.approx(float(stats.t.cdf(t, df)), abs=1e-9)


numbers = st.floats(-100, 100).map(lambda x: round(x, 3))


@examples(200, derandomize=True)
@given(st.lists(st.tuples(numbers, numbers), min_size=4, max_size=30), numbers, numbers)
def test_the_prediction_is_that_of_linear_regression(
    points: list[tuple[float, float]], x: float, limit: float
) -> None:
    xs, ys = zip(*points, strict=True)
    n = len(points)
    if len(set(xs)) == 1:
        assert chance_below(points, x, limit) is None
        return
    fit = stats.linregress(xs, ys)
    left = sum((b - fit.intercept - fit.slope * a) ** 2 for a, b in points)
    if left < 1e-6 or len({round(a, 1) for a in xs}) == 1:  # rounding decides
        return
    mean_x = sum(xs) / n
    spread = sum((a - mean_x) ** 2 for a in xs)
    error = math.sqrt(left / (n - 2) * (1 + 1 / n + (x - mean_x) ** 2 / spread))
    expected = stats.t.cdf((limit - fit.intercept - fit.slope * x) / error, n - 2)
    assert chance_below(points, x, limit) == pytest.approx(float(expected), abs=1e-6)


@pytest.mark.parametrize(
    ("points", "x", "limit", "chance"),
    [
        ([(1, 1), (2, 2)], 3, 3, None),  # too few
        ([(2, 1), (2, 2), (2, 3)], 2, 2, None),  # all at one x
        ([(0.1, 1), (0.1, 2), (0.1, 3)], 0.1, 2, None),  # and their mean is not quite it
        ([(1, 0), (2, 0), (3, 0)], 4, 1, 1.0),  # no variance at all
        ([(1, 0), (2, 0), (3, 0)], 4, 0, 0.0),
        ([(1, 0), (2, 0), (3, 0)], 4, -1, 0.0),
        ([(0, 0), (0, 0), (0, 0)], 0, 0, None),
        ([(1, 1), (2, 2), (3, 3)], 2, 2.5, 1.0),
        ([(1, 1), (2, 2), (3, 3)], 2, 2, 0.0),
    ],
)
def test_points_that_leave_no_doubt_or_no_clue(
    points: list[tuple[float, float]], x: float, limit: float, chance: float | None
) -> None:
    assert chance_below(points, x, limit) == chance


@pytest.mark.parametrize("unit", [1e-300, 1e-30, 1.0, 1e30, 1e300])
def test_the_unit_does_not_matter_nor_does_the_order(unit: float) -> None:
    rng = random.Random(5)
    points = [(rng.gauss(0, 1), rng.gauss(0, 1)) for _ in range(9)]
    expected = chance_below(points, 0.3, -0.2)
    scaled = [(x * unit, y * unit) for x, y in points]
    assert chance_below(scaled, 0.3 * unit, -0.2 * unit) == pytest.approx(expected, rel=1e-9)
    rng.shuffle(points)
    assert chance_below(points, 0.3, -0.2) == expected


@pytest.mark.parametrize("n", [3, 5, 20])
def test_predicted_probabilities_are_what_happens(n: int) -> None:
    """Under a linear law with normal scatter, parameters unknown, they are uniform."""
    rng = random.Random(n)
    seen = []
    for _ in range(3000):
        slope, scatter = rng.gauss(0, 1), rng.expovariate(1)
        xs = [rng.gauss(0, 1) for _ in range(n + 1)]
        *points, (x, y) = [(x, slope * x + rng.gauss(0, scatter)) for x in xs]
        chance = chance_below(points, x, y)
        assert chance is not None
        seen.append(chance)
    assert stats.kstest(seen, "uniform").pvalue > 1e-3


# -- the policy by hand --------------------------------------------------------------------------


def finished(study: Stopper, *curves: Sequence[float]) -> None:
    """Trials that have run to their end, whatever the policy says of them."""
    for curve in curves:
        trial = study.start(f"finished-{len(study.history.trials)}", len(curve))
        for step, value in enumerate(curve, start=1):
            trial.observe(step, value)
            if trial.state == "stopped":
                trial.restore("running", "")
        trial.restore("finished", "on purpose")


def study_of(policy: PerformanceCurve, *curves: Sequence[float]) -> Stopper:
    study = Stopper(objective="loss", mode="min", policy=policy)
    finished(study, *curves)
    return study


# from 1.0 at step 1 to about 0.5, from 2.0 to about 1.0 and so on
HALVED = [(1.0, 0.9, 0.51), (2.0, 1.5, 0.98), (3.0, 2.5, 1.52), (4.0, 3.0, 2.01), (5.0, 4.0, 2.48)]


def test_a_trial_that_will_hardly_win_stops() -> None:
    study = study_of(PerformanceCurve(), *HALVED)
    decision = study.start("a", 3).observe(1, 4.0)  # expected to end near 2
    assert decision.stop
    assert float(decision.numbers["chance"]) < 1e-3
    assert "with probability" in decision.reason
    assert decision.reason.endswith("only, seen from step 1")


def test_a_trial_that_may_win_goes_on() -> None:
    study = study_of(PerformanceCurve(), *HALVED)
    decision = study.start("a", 3).observe(1, 1.02)  # expected to end near 0.51
    assert not decision.stop
    assert 0.1 < float(decision.numbers["chance"]) < 0.9
    decision = study.start("b", 3).observe(1, 0.5)
    assert (decision.stop, decision.rank, decision.of) == (False, 1, 7)
    assert decision.reason == "rank 1 of 7 at step 1: no trial has been better"


def test_a_slow_start_is_forgiven_where_starts_say_nothing_about_ends() -> None:
    rng = random.Random(2)
    curves = [(rng.random(), 0.9, rng.gauss(0, 1)) for _ in range(30)]
    study = study_of(PerformanceCurve(), *curves)
    study.history.best_loss = -1.0
    assert not study.start("a", 3).observe(1, 1.0).stop


def test_it_takes_enough_finished_trials_that_passed_the_step() -> None:
    study = study_of(PerformanceCurve(), *HALVED[:4])
    decision = study.start("a", 3).observe(1, 5.0)
    assert not decision.stop
    assert decision.reason == "finished trials that passed step 1: 4, too few to predict from"
    finished(study, HALVED[4])
    assert study.start("b", 3).observe(1, 5.0).stop
    # none of them reached step 4
    late = study.start("c", 9)
    late.restore("running", "")
    assert late.observe(4, 5.0).reason.startswith("finished trials that passed step 4: 0")


def test_only_trials_that_finished_count() -> None:
    study = study_of(PerformanceCurve(), *HALVED[:4])
    for name, how in (("failed", "fail"), ("interrupted", "interrupt")):
        trial = study.start(name, 3)
        trial.observe(1, 0.4)
        getattr(trial, how)("on purpose")
    last = study.start("check failed at its last step", 1)
    last.observe(1, 3.0)
    last.restore("running", "")
    last.fail("on purpose")
    assert study.start("a", 3).observe(1, 5.0).numbers["finished"] == 4
    ended = study.start("ended by itself", 3)
    ended.observe(1, 0.3)
    ended.finish()
    assert study.start("b", 3).observe(1, 5.0).stop


def test_predictions_are_made_at_geometric_steps() -> None:
    study = study_of(PerformanceCurve(min_steps=2, spacing=3))
    trial = study.start("a", 99)
    steps = [step for step in range(1, 60) if trial.observe(step, 0.0).rank is not None]
    assert steps == [2, 6, 18, 54]
    jumps = study.start("b", 99)
    assert jumps.observe(1, 0.0).reason == "nothing is predicted at step 1"
    assert jumps.observe(7, 0.0).of == 2  # at step 6
    assert jumps.observe(17, 0.0).of is None


def test_zero_variance() -> None:
    exact = [(float(x), x / 2) for x in (1, 2, 3, 4, 5)]
    study = study_of(PerformanceCurve(), *exact)
    decision = study.start("a", 2).observe(1, 1.5)
    assert (decision.stop, decision.numbers["chance"]) == (True, 0.0)
    alike = [(1.0, y) for y in (0.1, 0.2, 0.3, 0.4, 0.5)]
    study = study_of(PerformanceCurve(), *alike)
    decision = study.start("a", 2).observe(1, 9.0)
    assert not decision.stop
    assert decision.reason == "all finished trials were alike at step 1: nothing to predict from"


def test_values_that_are_not_finite() -> None:
    study = study_of(PerformanceCurve(), *HALVED, (NAN, 1.0, 1.0), (NAN, NAN, NAN))
    decision = study.start("a", 3).observe(1, NAN)
    assert decision.stop
    assert decision.reason == "no finite objective by step 1"
    trial = study.start("b", 3)
    trial.observe(1, 1.02)
    decision = trial.observe(2, NAN)  # its best counts
    assert (decision.stop, decision.of) == (False, 8)
    nothing = study_of(PerformanceCurve(min_finished=3), (NAN, NAN), (NAN, NAN), (NAN, NAN))
    assert not nothing.start("a", 2).observe(1, NAN).stop


@pytest.mark.parametrize(
    "options",
    [
        {"probability": 1.5},
        {"probability": NAN},
        {"min_finished": 2},
        {"min_steps": 0},
        {"spacing": 1},
        {"constraints": "x"},
    ],
)
def test_bad_options_are_named(options: dict[str, Any]) -> None:
    (name, value) = next(iter(options.items()))
    with pytest.raises(GoalError, match=name) as caught:
        PerformanceCurve(**options)
    assert repr(value) in str(caught.value)


# -- a second implementation ---------------------------------------------------------------------


class Seen(NamedTuple):
    trial: int
    step: int
    loss: float


def expected(seen: list[Seen], ended: set[int], now: Seen, least: int) -> float | None:
    """The chance of a report by the list of those before it; None: no opinion."""

    def best(trial: int, upto: float = math.inf) -> float:
        losses = [s.loss for s in [*seen, now] if s.trial == trial and s.step <= upto]
        return min((x for x in losses if not math.isnan(x)), default=math.inf)

    def at(trial: int, rung: int) -> int | None:
        """The first step at or past the rung, if it is before the next one."""
        steps = [s.step for s in [*seen, now] if s.trial == trial and s.step >= rung]
        return steps[0] if steps and steps[0] < 2 * rung else None

    rung = 2 ** int(math.log2(now.step))
    if at(now.trial, rung) != now.step:
        return None
    top = min((s.loss for s in seen if not math.isnan(s.loss)), default=math.inf)
    if best(now.trial) <= top:
        return None
    points = []
    for trial in ended:
        step = at(trial, rung)
        if step is not None and best(trial, step) < math.inf:
            points.append((best(trial, step), best(trial)))
    if len(points) < least:
        return None
    if best(now.trial) == math.inf:
        return 0.0
    return chance_below(points, best(now.trial), top)


@pytest.mark.parametrize("seed", range(12))
def test_against_a_second_implementation(seed: int) -> None:
    rng = random.Random(seed)
    policy = PerformanceCurve(probability=rng.choice((0.05, 0.5)), min_finished=3)
    study = Stopper(objective="loss", mode="min", policy=policy)
    seen: list[Seen] = []
    ended: set[int] = set()
    running: dict[int, Any] = {}
    level = {}
    stopped = 0
    for number in range(60):
        running[number] = study.start(number, rng.choice((5, 12, 20)))
        level[number] = rng.gauss(0, 1)
        while len(running) > 3 or (number == 59 and running):
            index = rng.choice(list(running))
            trial = running[index]
            last = trial.record.progress.total_steps
            step = min(last, trial.record.progress.last_step + rng.choice((1, 1, 1, 2, 5)))
            if rng.random() < 0.02:
                trial.finish()
                ended.add(index)
                del running[index]
                continue
            loss = NAN if rng.random() < 0.1 else level[index] + rng.gauss(0, 1) + 3 / step
            now = Seen(index, step, loss)
            chance = expected(seen, ended, now, least=3)
            decision: Decision = trial.observe(step, loss)
            seen.append(now)
            stops = chance is not None and chance < policy.probability and step != last
            assert decision.stop is stops
            if chance is not None:
                assert decision.numbers.get("chance", 0.0) == chance  # 0: not finite
            stopped += stops
            if trial.state != "running":
                del running[index]
                if trial.state == "finished":
                    ended.add(index)
    assert stopped > 3


# -- calibration ---------------------------------------------------------------------------------


def test_few_of_the_stopped_would_have_won() -> None:
    """Curves a / step + b, with noise: of those stopped, at most about the promised share wins."""
    rng = random.Random(11)
    stopped = missed = reported = possible = 0
    for _ in range(15):
        study = study_of(PerformanceCurve(probability=0.1))
        for number in range(60):
            end = rng.gauss(0, 1)
            curve = [end + rng.gauss(3, 0.5) / step for step in range(1, 33)]
            possible += len(curve)
            trial = study.start(number, len(curve))
            for step, value in enumerate(curve, start=1):
                best = study.history.best_loss
                reported += 1
                if trial.observe(step, value).stop:
                    stopped += 1
                    missed += min(curve) < best
                    break
    assert stopped > 500
    assert missed / stopped < 0.1
    assert reported / possible < 0.5
