"""Adaptive: each of its rules by hand, with numbers."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from typing import Any

import pytest

from acetune.core.decision import Action, Decision
from acetune.core.errors import GoalError
from acetune.core.goals import Constraint, FailedCheck
from acetune.core.learning import Learning, Trend, combined
from acetune.core.trial_record import Progress
from acetune.policies import Adaptive
from acetune.policies.stopper import Stopper, StopperTrial
from optuna_pruner.kit import made, play

NAN, INF = math.nan, math.inf
KEEP = {"invalid_truncation": 0.0, "hope": 0.0}  # stops nobody that was found violated
GOES_ON = Decision(Action.CONTINUE, "kept for the test", "unchecked")


def stopper(*names: str, **options: Any) -> Stopper:
    """Minimises under ``g <= 1``, or under such limits of these names."""
    limits = [Constraint(name, upper=1.0) for name in names or ("g",)]
    return Stopper(objective="loss", mode="min", constraints=limits, policy=Adaptive(**options))


def unconstrained() -> Stopper:
    return Stopper(objective="loss", mode="min", policy=Adaptive())


def g(x: float) -> dict[str, float]:
    """A measurement whose excess is x, on the scale that compresses large ones."""
    return {"g": 1.0 + math.sinh(x)}


def follow(
    study: Stopper, first: float, then: float, trials: int = 4, check_s: float = 4.0
) -> None:
    """Trials whose excess goes from ``first`` at step 1 to ``then`` at step 4; steps take 1 s.

    Without a finite objective: the gate stays open.
    """
    for index in range(trials):
        trial = study.start(f"followed {index}", 100)
        trial.observe(1, NAN, g(first), 1.0, check_s, decided=GOES_ON)
        trial.observe(4, NAN, g(then), 3.0, check_s, decided=GOES_ON)


def due(trial: StopperTrial, steps: Iterable[int]) -> list[int]:
    """Steps at which a check would be due after the reports so far."""
    return [step for step in steps if trial.check_due(step, 0.0) is not None]


def train(
    trial: StopperTrial, steps: Iterable[int], step_s: float | None, check_s: float | None
) -> list[int]:
    """Report a value that falls, with a violation at each check. Returns the steps checked."""
    checked = []
    for step in steps:
        at = trial.check_due(step, -float(step))
        measured = None if at is None else {"g": 2.0}
        trial.observe(step, -float(step), measured, step_s, check_s if measured else None)
        checked += [] if at is None else [at]
    return checked


# -- whom to stop: by rank -----------------------------------------------------------------------


def race(study: Stopper, later: Iterable[float]) -> None:
    """Trials of losses 0, 1, 2, ... at step 1, and of these at step 4."""
    for index, loss in enumerate(later):
        trial = study.start(f"raced {index}", 100)
        trial.observe(1, float(index), decided=GOES_ON)
        trial.observe(4, loss, decided=GOES_ON)


@pytest.mark.parametrize(
    ("step", "share"),
    [
        (1, 0.5552),  # Phi(2 r - 1.2816 sqrt(1 - r^2)) with r = sin(0.2 pi) = 0.588
        (2, 0.3331),  # two rungs: 1 - sqrt(1 - 0.5552)
        (3, 0.3331),
        (4, 0.1833),
        (7, 0.1833),
        (8, 0.0963),
        (15, 0.0963),
        (16, 0.0963),
        (17, 0.0),
        (18, 0.0963),
        (30, 0.0963),
        (31, 0.0),
        (32, 0.0963),
        (34, 0.0),
        (36, 0.0963),
        (2**62, 0.0963),
        (2**62 - 1, 0.0),
        (2**62 - 2**58, 0.0963),
    ],
)
def test_before_anything_is_known_half_are_stopped_in_an_octave(step: int, share: float) -> None:
    decision = unconstrained().start("a").observe(step, 0.0)
    assert decision.numbers["share"] == pytest.approx(share, abs=1e-4)
    assert decision.numbers["order"] == 0.7


@pytest.mark.parametrize(
    ("later", "order", "share"),
    [
        ([0, 1, 2, 3, 4, 5], 0.88, 0.9),  # (1 x 6 + 0.7 x 4) / 10; 0.9 at most
        ([5, 4, 3, 2, 1, 0], 0.28, 0.0118),
        ([1, 0, 2, 3, 4, 5], 0.84, 0.8719),  # 14 of 15 pairs
        ([0, 0, 0, 0, 0, 0], 0.7, 0.5552),  # none that says anything
        ([INF, INF, INF, NAN, 1, 1], 0.28, 0.0118),
    ],
)
def test_the_share_follows_how_well_order_is_kept(
    later: list[float], order: float, share: float
) -> None:
    study = unconstrained()
    race(study, later)
    decision = study.start("a").observe(1, 2.5)
    assert decision.numbers["order"] == pytest.approx(order)
    assert decision.numbers["share"] == pytest.approx(share, abs=1e-4)
    other_octave = study.start("b").observe(2, 2.5)
    assert other_octave.numbers["order"] == 0.7


def test_stopped_where_order_was_kept_and_kept_where_curves_cross() -> None:
    kept, crossing = unconstrained(), unconstrained()
    race(kept, [0, 1, 2, 3, 4, 5])
    race(crossing, [5, 4, 3, 2, 1, 0])
    assert not kept.start("first").observe(1, -1.0).stop
    third = kept.start("third").observe(1, 0.5)  # seven of eight are stopped
    assert third.stop and (third.rank, third.of) == (3, 8)
    assert str(third.reason) == (
        "rank 3 of 8 at step 1 among the valid: in the worst 90%; pairs of trials kept their "
        "order from about here on in 88% of cases"
    )
    assert third.because.short == ("among the worst of the valid at its step")
    last = crossing.start("last").observe(1, 9.0)
    assert not last.stop
    assert str(last.reason) == (
        "rank 7 of 7 at step 1 among the valid: kept; pairs of trials kept their order from "
        "about here on in 28% of cases"
    )


def test_nobody_is_stopped_by_rank_between_rungs() -> None:
    study = unconstrained()
    trials = [study.start(index, 100) for index in range(12)]
    for index, trial in enumerate(trials):
        trial.observe(17, float(index))
    assert [trial.state for trial in trials] == ["running"] * 12
    for index, trial in enumerate(trials):
        trial.observe(18, float(index))
    assert [trial.state for trial in trials] == ["running"] * 10 + ["stopped"] * 2


def test_an_objective_that_is_not_finite_ranks_last() -> None:
    study = unconstrained()
    for index in range(3):
        study.start(index, 100).observe(1, float(index), decided=GOES_ON)
    for value in (NAN, INF, -INF):
        decision = study.start(str(value), 100).observe(1, value)
        assert decision.stop and decision.rank == 4


def test_nobody_is_stopped_at_the_last_step() -> None:
    study = unconstrained()
    for index in range(6):
        study.start(index, 1).observe(1, float(index))
    assert {record.state for record in study.history.trials.values()} == {"finished"}
    assert str(study.start("a", 1).observe(1, 9.0).reason).startswith(
        "last step, the trial finishes; rank 7 of 7 at step 1"
    )


def test_between_checks_a_trial_is_ranked_as_it_was_found() -> None:
    study = stopper(hope=0.0, invalid_truncation=0.4)
    for index in range(4):
        trial = study.start(index, 100)
        trial.observe(1, 0.0, g(0.25 * (index + 1)), decided=GOES_ON)
        decision = trial.observe(2, 0.0)
        assert decision.rank == decision.of == index + 1
        assert decision.stop == (index == 3)  # two fifths of four
    assert str(decision.reason).startswith("rank 4 of 4 at step 2 among the invalid: in the worst")


# -- whom to stop: never checked -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("excesses", "spared"),
    [
        ([0.8, 0.6, 0.4, 0.2], True),  # the better the objective, the larger the violation
        ([0.2, 0.4, 0.6, 0.8], False),  # the better, the smaller: who is behind will not qualify
        ([0.8, 0.6, -0.4, -0.2], False),  # many are valid
        ([0.5, 0.5, 0.5, 0.5], True),  # nothing is known of it
        ([0.2, 0.6, 0.4, 0.8], False),  # 5 of 6 pairs: (2 x 5/6 - 1) x 4 / 7 = 0.38
        ([0.4, 0.6, 0.2, 0.8], True),  # 4 of 6: 0.19
        ([NAN, NAN, NAN, NAN], True),  # failed checks are not valid
    ],
)
def test_spared_where_few_are_valid_and_the_objective_says_nothing(
    excesses: list[float], spared: bool
) -> None:
    study = stopper()
    for index, x in enumerate(excesses):
        measured = {"g": FailedCheck("raised")} if math.isnan(x) else g(x)
        study.start(index, 50).observe(50, float(index), measured)
    for index in range(4):
        study.start(f"rival {index}", 50).observe(1, float(index), decided=GOES_ON)
    decision = study.start("last", 50).observe(1, 9.0)
    assert decision.stop != spared
    if spared:
        assert str(decision.reason) == (
            "rank 5 of 5 at step 1: kept, as few checks find valid and a better objective does "
            "not come with smaller violations"
        )
    # who reports past a trial of ours will never be checked
    assert study.restart("unplanned", 50, None, None).observe(1, 9.0).stop


# -- whom to stop: without hope ------------------------------------------------------------------


def test_where_limits_stay_violated_a_violated_trial_ends() -> None:
    study = stopper(invalid_truncation=0.0)
    follow(study, 1.0, 1.0, trials=2)
    assert not study.start("early", 100).observe(1, 0.0, g(1.0)).stop  # two pairs are too few
    third = study.start("third", 100)
    assert not third.observe(1, 0.0, g(1.0)).stop
    assert not third.observe(4, 0.0, g(1.0)).stop
    assert study.history.trend[:3] == (3, (0.0,), 0.0)
    # the nearest quarter of those at a step goes on, to learn from
    assert not study.start("near", 100).observe(1, 0.0, g(0.25)).stop
    decision = study.start("a", 100).observe(1, 0.0, g(1.5))
    assert decision.stop
    assert str(decision.reason) == (
        "not valid at its last check; going by the trials so far, less than 5 % chance to be valid "
        "later, even at step 100, where it is most likely"
    )
    assert decision.because.short == "no longer likely to be valid"
    assert not study.start("b", 100).observe(1, 0.0, g(-0.5)).stop
    assert not study.start("unknown length").observe(1, 0.0, g(0.5)).stop


@pytest.mark.parametrize(
    ("x", "hope", "stops"),
    [
        (1.0, 0.05, False),  # 1 - 0.689 ln 20 = -1.07 at the end
        (2.0, 0.05, False),  # chance 0.73
        (2.3, 0.05, True),  # 2.2 spreads of 0.107 from the limit
        (3.0, 0.05, True),
        (3.0, 0.0, False),
        (2.0, 0.75, True),
    ],
)
def test_where_limits_are_gained_the_end_counts(x: float, hope: float, stops: bool) -> None:
    study = stopper(invalid_truncation=0.0, hope=hope)
    follow(study, 1.0, 0.0)
    assert study.history.trend.slopes == pytest.approx((-0.6894,), abs=1e-4)
    assert study.history.trend.spread == pytest.approx(0.0611, abs=1e-4)
    decision = study.start("a", 20).observe(1, 0.0, g(x))
    assert decision.stop == stops
    if stops:
        assert "even at step 20" in str(decision.reason)


def test_where_limits_are_lost_the_next_step_counts() -> None:
    study = stopper(invalid_truncation=0.0)
    follow(study, -1.0, 0.0)
    study.start("near", 100).observe(1, 0.0, g(0.01))
    trial = study.start("a", 100)
    decision = trial.observe(1, 0.0, g(0.02))  # 0.02 + 0.689 ln 2 there
    assert decision.stop and decision.numbers["by"] == 2
    valid = study.start("b", 100)
    valid.observe(1, 0.0, g(-0.02))
    assert not valid.observe(2, 0.0).stop  # it was valid when last checked


def test_limits_that_are_gained_early_and_lost_late() -> None:
    study = stopper(invalid_truncation=0.0)
    for name in range(6):
        trial = study.start(f"before {name}", 100)
        for step, x in ((1, 1.0), (4, -1.0), (16, 0.0), (64, 1.0)):
            trial.observe(step, NAN, g(x), 1.0, 4.0, decided=GOES_ON)
    trend = study.history.trend
    assert trend.slopes[0] < -0.5 and min(trend.slopes[1:]) > 0.2
    trial = study.start("a", 100)
    assert not trial.observe(1, 0.0, g(1.2)).stop  # there is hope by step 4
    assert trend.best_chance(2, 100, 1, math.asinh(1.2))[1] == 4
    assert trend.best_chance(16, 100, 16, -0.2)[1] == 16  # from there on it is lost
    assert due(study.start("b", 100), [2, 3, 4, 5])[-1] == 5


def test_the_last_step_is_the_last_by_which_limits_may_hold() -> None:
    study = stopper(invalid_truncation=0.0)
    follow(study, 1.0, 1.0)
    study.start("near", 100).observe(5, 0.0, g(0.5))
    decision = study.start("a", 5).observe(5, 0.0, g(1.0))
    assert not decision.stop
    assert str(decision.reason) == (
        "last step, the trial finishes; not valid at its last check; going by the trials so far, "
        "less than 5 % chance to be valid later, even at step 5, where it is most likely"
    )


def test_a_check_that_failed_takes_no_hope_and_gives_no_answer() -> None:
    study = stopper(invalid_truncation=0.0)
    follow(study, 1.0, 1.0)
    learned = study.history.trend
    trial = study.start("a", 100)
    for step in range(1, 20):
        decision = trial.observe(step, -1.0, {"g": FailedCheck("raised")}, 1.0, 4.0)
        assert not decision.stop and decision.stratum == "invalid"
    assert study.best is None
    assert study.history.trend[:5] == learned[:5]
    assert math.isnan(trial.record.progress.excess)
    assert trial.check_due(100, -1.0) is not None


# -- whom to stop: who cannot beat the answer ----------------------------------------------------


def fall(study: Stopper, gained: Iterable[float], total: int = 20) -> None:
    """Trials whose loss of 10 at step 5 falls by so much to the end, and others at step 5."""
    for index, gain in enumerate(gained):
        trial = study.start(f"fell {index}", total)
        trial.observe(5, 10.0, decided=GOES_ON)
        trial.observe(total, 10.0 - gain, decided=GOES_ON)
    for index, loss in enumerate([9.0, 9.0, 9.0, 9.0, 99.0, 99.0]):
        study.start(f"ranked {index}", 20).observe(5, loss, decided=GOES_ON)


def answered(study: Stopper, loss: float = 5.0) -> Stopper:
    study.start("the answer", 20).observe(3, loss, {"g": 0.0}, decided=GOES_ON)
    return study


def code(trial: StopperTrial, step: int, loss: float) -> str:
    return trial.observe(step, loss).because.code


@pytest.mark.parametrize(
    ("loss", "outrun"),
    [
        (9.9, False),  # needs less than 5 to come to the answer
        (10.0, False),
        (10.1, True),
        (NAN, False),  # nothing is known of such
    ],
)
def test_who_would_have_to_gain_more_than_any_is_stopped(loss: float, outrun: bool) -> None:
    study = answered(stopper())
    fall(study, [0, 1, 2, 3, 4, 5])
    assert (code(study.start("a", 20), 5, loss) == "cannot_beat_the_answer") is outrun


def test_a_stop_says_what_was_needed() -> None:
    study = answered(stopper())
    fall(study, [1, 2, 3, 4, 5, 5])
    decision = study.start("a", 20).observe(5, 12.0)
    assert decision.stop and decision.numbers == {"needed": 7.0, "gained": 5.0}
    assert decision.reason == (
        "would have to gain 7 after step 5 to come to the best feasible checkpoints; no finished "
        "trial like it gained more than 5"
    )


def test_nobody_is_outrun_early_or_by_few_or_without_an_answer() -> None:
    few = answered(stopper())
    fall(few, [1, 2, 3, 4, 5])
    assert code(few.start("a", 20), 5, 12.0) == "kept_as_learned"
    early = answered(stopper())
    fall(early, [1, 2, 3, 4, 5, 5])
    assert code(early.start("a", 21), 5, 12.0) == "kept_as_learned"
    assert code(early.start("length unknown"), 5, 12.0) == "kept_as_learned"
    unanswered = stopper()
    fall(unanswered, [1, 2, 3, 4, 5, 5])
    assert code(unanswered.start("a", 20), 5, 12.0) == "kept_as_learned"


def test_the_best_quarter_is_never_outrun() -> None:
    study = answered(stopper(), -50.0)
    fall(study, [1, 2, 3, 4, 5, 5])
    assert code(study.start("a", 20), 5, 8.0) == "kept_as_learned"
    assert code(study.start("b", 20), 5, 9.5) == "cannot_beat_the_answer"


def test_who_is_ahead_of_the_answer_goes_on() -> None:
    """What it holds may qualify yet, whatever its last report says."""
    study = answered(stopper(), 8.0)
    fall(study, [0, 0, 0, 0, 0, 0])
    ahead, behind = study.start("a", 20), study.start("b", 20)
    ahead.observe(1, 7.0, decided=GOES_ON)
    behind.observe(1, 9.0, decided=GOES_ON)
    assert code(ahead, 5, 12.0) == "kept_as_learned"
    assert code(behind, 5, 12.0) == "cannot_beat_the_answer"


def test_runners_up_are_wanted_too() -> None:
    """With ``confirm_top`` there must be several to choose from."""
    limits = [Constraint("g", upper=1.0)]
    for keep, expected in ((1, "cannot_beat_the_answer"), (2, "kept_as_learned")):
        study = Stopper(
            objective="loss", mode="min", constraints=limits, policy=Adaptive(), confirm_top=keep
        )
        answered(study)
        fall(study, [1, 2, 3, 4, 5, 5])
        assert code(study.start("a", 20), 5, 12.0) == expected


def test_trials_that_were_shorter_would_have_gained_more() -> None:
    study = answered(stopper())
    fall(study, [3, 3, 3, 3, 3, 3], total=10)  # in one doubling; to step 20 there are two
    assert code(study.start("a", 20), 5, 11.0) == "kept_as_learned"
    assert study.start("b", 20).observe(5, 11.1).numbers["gained"] == pytest.approx(6.0)


def test_a_fall_at_the_end_of_training_is_waited_for() -> None:
    """As where the learning rate falls: what early steps gain says nothing about it."""
    study = unconstrained()
    rng = random.Random(0)
    finished = 0
    for index in range(60):
        quality, trial = rng.random(), study.start(str(index), 100)
        for step in range(1, 101):
            if trial.observe(step, quality + (1.0 if step < 75 else 0.0) + 0.3 / step).stop:
                break
        else:
            finished += 1
        if index == 9:
            assert finished >= 3  # the rule needs six, and must not keep them from coming about
    assert study.best is not None and study.best.value < 0.1 and finished >= 6


# -- when to check -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step_s", "check_s", "spacing", "checked"),
    [
        (1.0, 3.0, 1.5, [1, 6, 11, 12]),  # after 4.5 steps; the last one always
        (1.0, 3.0, 1.0, [1, 4, 7, 10, 12]),
        (2.0, 6.0, 1.0, [1, 4, 7, 10, 12]),
        (0.1, 0.3, 1.0, [1, 4, 7, 10, 12]),  # what is equal up to rounding is due
        (1.0, 100.0, 1.0, [1, 12]),
        (0.0, 1.0, 1.0, [1, 12]),
        (1.0, 100.0, 0.0, [*range(1, 13)]),
        (0.0, 0.0, 1.5, [*range(1, 13)]),
    ],
)
def test_before_three_pairs_checks_are_spaced_by_their_price(
    step_s: float, check_s: float, spacing: float, checked: list[int]
) -> None:
    trial = stopper(**KEEP, spacing=spacing).start("a", 12)
    assert train(trial, range(1, 13), step_s, check_s) == checked


@pytest.mark.parametrize(
    ("check_s", "total", "first"),
    [(10.0, 40, 5), (10.0, 20, 3), (24.0, 40, 6), (2.0, 40, 1), (1e30, 40, 6), (24.0, None, 1)],
)
def test_the_first_check_waits_for_half_its_time_or_a_share_of_the_steps(
    check_s: float, total: int | None, first: int
) -> None:
    study = stopper(**KEEP)
    study.start("dear", 100).observe(1, NAN, g(1.0), 1.0, check_s)
    assert due(study.start("a", total), range(1, 20))[0] == first


def test_costs_that_differ_beyond_all_bounds() -> None:
    study = stopper(**KEEP)
    study.start("dear", 100).observe(1, NAN, g(1.0), 5e-324, 1e30)
    assert due(study.start("a", 40), range(1, 20))[0] == 6


def test_where_limits_are_lost_a_trial_is_checked_just_before() -> None:
    study = stopper(**KEEP)
    follow(study, -1.0, 0.0)
    trend = study.history.trend
    assert (trend.pairs, trend.slopes) == (4, pytest.approx((0.6894,), abs=1e-4))
    # start: 0 - 0.689 ln 4; spread: 1 / (4 + 1)
    assert trend[3:] == pytest.approx((-0.9557, math.sqrt(0.2), 4.0, 1.0), abs=1e-4)
    trial = study.start("a", 100)
    assert due(trial, [1, 2, 4, 5, 9]) == [4, 5, 9]  # the limit is reached at step 4
    trial.observe(4, 0.0, g(-0.5), 4.0, 4.0)
    assert due(trial, range(5, 12)) == [8, 9, 10, 11]  # 0.689 ln(t / 4) = 0.5 at 8.3
    trial.observe(8, 0.0, g(-0.01), 0.4, 4.0)  # a step costs 0.55 now, a quarter of a check is 1
    assert due(trial, range(9, 12)) == [10, 11]


def test_cheap_checks_do_not_wait_where_limits_are_lost() -> None:
    study = stopper(**KEEP)
    follow(study, -1.0, 0.0, check_s=0.4)
    assert due(study.start("a", 100), range(1, 5)) == [1, 2, 3, 4]


def test_where_limits_are_gained_a_check_waits_until_it_is_likely() -> None:
    study = stopper(**KEEP)
    follow(study, 1.0, 0.0)
    trial = study.start("a", 100)
    assert due(trial, [1, 2, 3, 5, 6, 90]) == [5, 6, 90]  # 0.956 - 0.689 ln t is 0 at step 4
    trial.observe(5, 0.0, g(1.0), 5.0, 4.0)
    # 1 - 0.689 ln(t / 5) is 0 at 21.3; six steps after a check another one may be made
    assert due(trial, [10, 11, 20, 21, 22, 60]) == [22, 60]
    likely = study.start("b", 100)
    likely.observe(5, 0.0, g(-0.5), 5.0, 4.0)
    assert due(likely, range(6, 13)) == [11, 12]


def test_where_limits_are_gained_too_late_the_end_is_as_good() -> None:
    study = stopper(**KEEP)
    follow(study, 1.0, 0.0)
    trial = study.start("a", 10)
    trial.observe(1, 0.0, g(2.0), 1.0, 4.0)  # 0.5 at step 10
    assert due(trial, range(7, 11)) == [10]


def test_at_the_last_step_the_best_checkpoint_is_checked_unless_it_was() -> None:
    study = stopper(**KEEP)
    study.start("dear", 100).observe(1, NAN, g(1.0), 1.0, 1000.0)
    trial = study.start("a", 40)
    trial.observe(2, 0.5, None, 2.0)
    trial.observe(3, 0.7, None, 1.0)
    assert trial.check_due(40, 0.6) == trial.finish_due() == 2
    assert trial.check_due(40, 0.4) == trial.check_due(40, 0.6, snapshot=False) == 40
    checked = study.start("b", 40)
    checked.observe(2, 0.5, g(1.0), 2.0, 1000.0)
    assert checked.finish_due() is None
    checked.observe(3, 0.7, None, 1.0)
    assert checked.check_due(40, 0.6) == 40  # not the second one again
    assert checked.finish_due() == 3
    checked.observe(4, 0.4, None, 1.0)
    assert checked.check_due(40, 0.6) == checked.finish_due() == 4


def test_where_limits_are_lost_the_last_step_is_checked_itself() -> None:
    study = stopper(**KEEP)
    follow(study, -1.0, 0.0)
    trial = study.start("a", 40)
    trial.observe(1, 0.3, None, 1.0)
    assert trial.check_due(40, 0.6) == 1
    trial.observe(2, 0.5, g(-1.0), 1.0, 4.0)
    assert trial.check_due(40, 0.6) is None  # it cannot win: the second one has 0.5
    assert trial.check_due(40, 0.45) == 40


def test_only_what_can_win_is_checked() -> None:
    study = stopper(**KEEP)
    study.start("incumbent", 1).observe(1, 0.5, g(-1.0))
    trial = study.start("a", 40)
    assert [trial.check_due(1, value) for value in (0.6, NAN, INF, 0.5)] == [None, None, None, 1]


def test_where_the_length_is_unknown_checks_are_spaced() -> None:
    study = stopper(**KEEP)
    follow(study, 1.0, 0.0)
    trial = study.start("a")
    trial.observe(1, 0.0, g(3.0), 1.0, 4.0)
    assert due(trial, range(2, 10)) == [7, 8, 9]
    assert not trial.observe(2, 1.0, None, 1.0).stop
    assert trial.finish_due() == 2  # the best was checked
    trial.declare(9)
    assert due(trial, range(3, 10)) == [9]


def finite(trend: Trend) -> bool:
    numbers = (*trend.slopes, trend.spread, trend.start, trend.start_spread)
    return bool(trend.slopes) and all(map(math.isfinite, numbers))


def test_steps_may_be_huge() -> None:
    study = stopper(**KEEP)
    follow(study, 1.0, 0.0)
    trial = study.start("a", 2**62)
    for step in (2**40, 2**61, 2**62):
        assert trial.check_due(step, -1.0) == step
        decision = trial.observe(step, -1.0, g(0.5), 1.0, 4.0)
        assert str(step) in str(decision.reason)
    assert finite(study.history.trend)
    assert trial.state == "finished"


def test_a_progress_without_a_trend_is_that_of_a_new_study() -> None:
    policy = Adaptive()
    assert policy.due(Progress(40), 1, 0.0) == 1
    assert policy.due(Progress(40, trend=Trend(step_s=1.0)), 1, 0.0) == 1


def test_the_schedule_in_words() -> None:
    schedule = stopper().start("a", 10).schedule
    assert schedule.short == "where it decides"
    assert str(schedule).startswith("due just before limits are expected to be lost")
    assert not schedule.code.startswith("checked_once")


# -- several constraints -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("excess", "expected"),
    [
        ((-0.5, -0.25), math.asinh(-0.25)),
        ((-0.5, 0.0), 0.0),
        ((3.0, -1.0), math.asinh(3.0)),
        ((3.0, NAN), math.asinh(3.0)),  # left out, as the first was violated
        ((NAN, NAN), NAN),
        ((-0.5, NAN), NAN),  # the second has failed: who knows
        ((0.0, NAN), NAN),
        ((), NAN),
        ((INF,), math.asinh(1.7976931348623157e308)),
        ((-INF, -INF), -math.asinh(1.7976931348623157e308)),
    ],
)
def test_of_several_limits_the_farthest_counts(excess: tuple[float, ...], expected: float) -> None:
    assert combined(excess) == pytest.approx(expected, nan_ok=True)


def test_a_limit_that_holds_beside_a_check_that_failed_is_not_feasible() -> None:
    study = stopper("g", "h")
    for index in range(4):
        measured = {"g": 0.5, "h": FailedCheck("raised")}
        study.start(index, 50).observe(50, float(index), measured)
    for index in range(4):
        study.start(f"rival {index}", 50).observe(1, float(index), decided=GOES_ON)
    assert study.start("last", 50).observe(1, 9.0).reason.startswith("rank 5 of 5 at step 1: kept")
    assert study.best is None
    assert study.history.learning.agreement == 0.0
    assert study.history.trend[:5] == Trend()[:5]


def test_constraints_are_measured_one_by_one() -> None:
    study = stopper("g", "h")
    assert study.order is None
    study.start("a", 50).observe(1, 0.0, {"g": 3.0, "h": 0.0}, 1.0, {"g": 1.0, "h": 5.0})
    assert study.order == ("g", "h")
    trial = study.start("b", 50)
    trial.observe(1, 0.0, {"g": 3.0}, 1.0, {"g": 1.0})
    assert trial.record.progress.excess == math.asinh(2.0)
    assert stopper("g", "h", one_by_one=False).order is None


# -- what is learned -----------------------------------------------------------------------------


def test_an_infinite_excess_does_not_spoil_the_sums() -> None:
    limits = [Constraint("g", upper=1e-300)]
    study = Stopper(objective="loss", mode="min", constraints=limits, policy=Adaptive(**KEEP))
    trial = study.start("a", 100)
    for step in (1, 2, 3, 5):
        trial.observe(step, 0.0, {"g": 1e300 if step != 3 else -1e300}, 1.0, 1.0)
    assert finite(study.history.trend)


def test_a_new_attempt_takes_back_what_it_does_again() -> None:
    study = stopper(**KEEP)
    trial = study.start("a", 100)
    trial.observe(1, 0.0, g(0.5), decided=GOES_ON)
    trial.observe(4, 0.0, g(1.5), decided=GOES_ON)
    trial.fail("on purpose")
    before = study.history.trend
    again = study.start("a", 100, resumed_from=1)
    assert again.record.progress.excess == pytest.approx(0.5)
    assert study.history.trend.start == pytest.approx(0.5)  # of the check at step 1
    again.observe(4, 0.0, g(1.5), decided=GOES_ON)
    trend = study.history.trend
    assert (trend.pairs, trend.start_spread) == (2, pytest.approx(before.start_spread))
    afresh = study.start("a", 100)
    assert math.isnan(afresh.record.progress.excess)
    assert study.history.trend[3:5] == (0.0, 1.0)  # no check stands


def test_who_goes_on_where_it_was_cut_off_knows_what_it_knew() -> None:
    study = stopper(**KEEP)
    trial = study.start("a", 100)
    trial.observe(1, NAN, g(1.0), 1.0, 4.0)
    knew = trial.record.progress.trend
    follow(study, 1.0, 0.0)
    assert trial.record.progress.trend == knew != study.history.trend
    trial.interrupt("the driver died")
    assert study.start("a", 100, resumed_from=1).record.progress.trend == knew
    assert study.start("a", 100).record.progress.trend == study.history.trend


def test_the_checkpoint_counts_that_was_checked() -> None:
    """At the end it is the best one: its excess is not that of the last step."""
    study = stopper(**KEEP)
    trial = study.start("a", 64)
    trial.observe(4, 0.0, None)
    trial.observe(64, 1.0, g(0.5), checked_step=4)
    lost = Learning()
    lost.add_check(4, 0.0, 0.5, None)
    assert study.history.learning._last == pytest.approx(lost._last)


# -- steps of Optuna's begin at 0 ----------------------------------------------------------------


def test_a_step_0_of_optunas_counts_as_the_first() -> None:
    study = made(Adaptive())
    for value in (0.1, 0.2, 0.3):
        trial = study.ask()
        trial.report(value, 0)
        trial.should_prune()
    trial = study.ask()
    trial.report(0.9, 0)
    assert trial.should_prune()
    record = study.pruner.digest(study).history.trials[trial.number]  # type: ignore[attr-defined]
    assert str(record.reason).startswith("rank 4 of 4 at step 0 among the unchecked: in the worst")


def test_a_study_of_optunas() -> None:
    study = made(Adaptive())
    told = [play(study, [1.0 + n, 0.5 + n, 0.25 + n], [0.75, 0.5, 0.25]) for n in range(4)]
    assert told[0].state.name == "COMPLETE"


# -- options -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"invalid_truncation": 1.5},
        {"invalid_truncation": None},
        {"hope": -0.1},
        {"hope": NAN},
        {"hope": True},
        {"spacing": -1},
        {"spacing": INF},
        {"spacing": "1"},
    ],
)
def test_bad_options_are_named(options: dict[str, Any]) -> None:
    (name, value) = next(iter(options.items()))
    with pytest.raises(GoalError, match=rf"^{name}") as caught:
        Adaptive(**options)
    assert repr(value) in str(caught.value)
