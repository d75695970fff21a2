"""ACE2: each of its parts by hand, and the whole against the plain rule."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acetune.core.errors import GoalError
from acetune.core.goals import Constraint, FailedCheck
from acetune.core.measured_costs import Costs
from acetune.policies import ACE2
from acetune.policies.stopper import Stopper, StopperTrial
from core.test_against_reference import Ask, Declare, Pair, Repeat, Retry, Study, studies
from optuna_pruner.kit import made, play
from properties import examples_or_more

from .plain import Ace2Rule

# stops nobody, and checks when training has cost as much
KEEP = {"truncation": 0.0, "invalid_truncation": 0.0, "patience": 1.0, "spacing": 1.0}
NAN = math.nan


def stopper(**options: Any) -> Stopper:
    """Minimises under ``g <= 1``."""
    limits = [Constraint("g", upper=1.0)]
    return Stopper(objective="loss", mode="min", constraints=limits, policy=ACE2(**options))


def with_best(loss: float, **options: Any) -> Stopper:
    """A study in which a valid checkpoint of this loss is known; few are valid: nothing waits."""
    study = stopper(**options)
    for name in ("misses", "misses too", "misses again"):
        study.start(name, 50).observe(50, 0.0, {"g": 2.0})
    study.start("incumbent", 50).observe(50, loss, {"g": 0.0})
    assert study.history.gate == loss
    return study


def train(
    trial: StopperTrial, steps: Iterable[int], step_s: float | None, check_s: float | None
) -> list[int]:
    """Report a value that falls, with a violation at each check. Returns the steps checked."""
    checked = []
    for step in steps:
        due = trial.check_due(step, -float(step))
        assert due in (None, step)
        measured = None if due is None else {"g": 2.0}
        trial.observe(step, -float(step), measured, step_s, check_s if measured else None)
        if due is not None:
            checked.append(step)
    return checked


# -- spacing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step_s", "check_s", "spacing", "checked"),
    [
        (1.0, 3.0, 1.0, [1, 4, 7, 10, 12]),  # the last step always
        (1.0, 3.0, 2.0, [1, 7, 12]),
        (1.0, 3.0, 0.5, [1, 3, 5, 7, 9, 11, 12]),  # 1.5 steps
        (2.0, 3.0, 1.0, [1, 3, 5, 7, 9, 11, 12]),
        (1.0, 3.01, 1.0, [1, 5, 9, 12]),
        (1.0, 100.0, 1.0, [1, 12]),
        (1.0, 1.0, 1.0, [*range(1, 13)]),
        (1.0, 0.5, 1.0, [*range(1, 13)]),
        (1.0, 100.0, 0.0, [*range(1, 13)]),
        (0.0, 1.0, 1.0, [1, 12]),  # next to training that costs nothing any check is dear
        (1.0, 0.0, 1.0, [*range(1, 13)]),
        (0.0, 0.0, 1.0, [*range(1, 13)]),
        (None, 1.0, 1.0, [*range(1, 13)]),  # nothing is known of its cost
        (1.0, None, 1.0, [*range(1, 13)]),
    ],
)
def test_a_check_waits_until_training_has_cost_as_much(
    step_s: float | None, check_s: float | None, spacing: float, checked: list[int]
) -> None:
    trial = stopper(**{**KEEP, "spacing": spacing}).start("a", 12)
    assert train(trial, range(1, 13), step_s, check_s) == checked


@pytest.mark.parametrize(
    ("step_s", "check_s", "gap"),
    [
        (0.1, 0.2, 2),
        (0.1, 0.3, 3),
        (0.7, 2.1, 3),
        (1 / 3, 1.0, 3),
        (0.01, 0.07, 7),
        (1e-7, 4e-7, 4),
    ],
)
def test_what_is_equal_up_to_rounding_is_due(step_s: float, check_s: float, gap: int) -> None:
    """Ten times 0.1 adds up to less than 1: the check must not come a step late for that."""
    trial = stopper(**KEEP).start("a", 1000)
    assert train(trial, range(1, 200), step_s, check_s) == [*range(1, 200, gap)]


def test_a_report_may_cover_several_iterations() -> None:
    trial = stopper(**KEEP).start("a", 40)
    # two seconds for two iterations; a check of five seconds waits for five of them
    assert train(trial, range(2, 41, 2), 2.0, 5.0) == [2, 8, 14, 20, 26, 32, 38, 40]


def test_the_mean_cost_of_a_step_counts_and_that_of_the_last_check() -> None:
    trial = stopper(**KEEP).start("a", 40)
    trial.observe(1, 0.0, {"g": 2.0}, 1.0, 6.0)
    trial.observe(2, 0.0, None, 1.0)
    trial.observe(3, 0.0, None, 4.0)  # a step costs 2 now
    assert trial.check_due(3 + 1, 0.0) == 4
    assert trial.check_due(3, 0.0) is None  # reported
    trial.observe(4, 0.0, {"g": 2.0}, 2.0, 4.0)
    assert trial.check_due(5, 0.0) is None
    assert trial.check_due(6, 0.0) == 6
    trial.observe(6, 0.0, {"g": 2.0}, 4.0)  # nobody knows what it cost: as the one before
    assert [trial.check_due(step, 0.0) for step in (7, 8)] == [None, 8]


def test_the_costs_of_all_constraints_count_and_those_of_other_trials_do_not() -> None:
    limits = [Constraint("g", upper=1.0), Constraint("h", upper=1.0)]
    study = Stopper(objective="loss", mode="min", constraints=limits, policy=ACE2(**KEEP))
    measured = {"g": 2.0, "h": 0.0}
    study.start("dear", 40).observe(1, 0.0, measured, 1.0, 1000.0)
    trial = study.start("a", 40)
    trial.observe(1, 0.0, measured, 1.0, {"g": 1.0, "h": 2.0})
    assert [trial.check_due(step, 0.0) for step in (2, 3, 4)] == [None, None, 4]


@pytest.mark.parametrize(
    ("ratio", "head_start", "total", "first"),
    [
        (None, 0.15, 40, 1),  # no check was timed yet
        (0.1, 0.15, 40, 1),
        (2.0, 0.15, 40, 1),  # half a check is one step
        (2.1, 0.15, 40, 2),
        (5.0, 0.15, 40, 3),
        (12.0, 0.15, 40, 6),
        (24.0, 0.15, 40, 6),  # 15 % of 40 steps
        (24.0, 0.15, 39, 5),
        (24.0, 0.15, 20, 3),  # 0.15 * 20 is a little less than 3 in floating point
        (24.0, 0.15, 3, 1),
        (24.0, 0.0, 40, 1),
        (24.0, 1.0, 40, 12),
        (24.0, 1.0, 5, 5),
        (24.0, 0.15, None, 1),  # of steps nobody knows the number of
        (1e300, 0.15, 40, 6),
        (24.0, 0.15, 1, 1),
    ],
)
def test_the_first_check_waits_for_half_its_time_or_a_share_of_the_steps(
    ratio: float | None, head_start: float, total: int | None, first: int
) -> None:
    costs = Costs(invalid_n=1)
    if ratio is not None:
        costs = Costs(primary_s=1.0, primary_n=1, invalid_n=1)
        costs.add_check({"g": ratio}, 0.0)
    assert ACE2(head_start=head_start).first_check(total, costs) == first


def test_from_the_first_check_on() -> None:
    study = stopper(**{**KEEP, "head_start": 1.0})
    study.start("dear", 40).observe(1, 0.0, {"g": 2.0}, 1.0, 10.0)
    trial = study.start("a", 40)
    assert trial.interval == 5
    assert train(trial, range(1, 41), 1.0, 10.0) == [5, 15, 25, 35, 40]
    late = study.start("b", 40)  # the gate, or a loss that is not finite, may let it pass later
    for step in range(1, 8):
        assert late.check_due(step, NAN) is None
        late.observe(step, NAN, None, 1.0)
    assert late.check_due(8, 0.0) == 8


def test_a_head_start_of_all_steps_is_a_check_at_the_end() -> None:
    study = stopper(**{**KEEP, "head_start": 1.0})
    study.start("dear", 40).observe(1, 0.0, {"g": 2.0}, 1.0, 1000.0)
    trial = study.start("a", 4)
    assert trial.interval == 4
    for step, value in ((1, 0.3), (2, 0.2), (3, 0.4)):
        assert trial.check_due(step, value) is None
        trial.observe(step, value, None, 1.0)
    assert (trial.check_due(4, 0.5), trial.finish_due()) == (2, 2)


def test_before_its_first_check_every_step_is_due_that_passes_the_gate() -> None:
    trial = with_best(0.5, **KEEP).start("a", 40)
    for step, value in ((1, 0.51), (2, NAN), (3, math.inf)):
        assert trial.check_due(step, value) is None
        trial.observe(step, value, None, 1.0)
    assert trial.check_due(4, 0.5) == 4


def test_a_check_that_the_gate_skips_is_due_again_at_the_next_step() -> None:
    trial = with_best(0.5, **KEEP).start("a", 40)
    trial.observe(1, 0.5, {"g": 2.0}, 1.0, 3.0)
    assert [trial.check_due(step, 0.4) for step in (2, 3, 4)] == [None, None, 4]
    assert trial.check_due(4, 0.6) is None
    trial.observe(4, 0.6, None, 3.0)
    assert trial.record.gated_at == 4
    assert trial.check_due(5, 0.5) == 5
    assert trial.check_due(40, 0.6) is None  # at the last step too


def test_where_the_last_step_is_unknown_the_last_one_is_checked_at_the_end() -> None:
    trial = stopper(**KEEP).start("a")
    assert train(trial, (1, 2, 3), 1.0, 9.0) == [1]
    assert trial.finish_due() == trial.finish_due(snapshot=False) == 3
    trial.declare(4)
    assert trial.check_due(4, 0.0) == 4
    other = stopper(**KEEP).start("a")
    assert train(other, (1,), 1.0, 9.0) == [1]
    assert other.finish_due() is None  # it just was


# -- a new attempt -------------------------------------------------------------------------------


def test_a_new_attempt_goes_on_with_what_steps_and_checks_have_cost() -> None:
    study = stopper(**KEEP)
    first = study.start("a", 40)
    costs = [(1.0, 6.0), (1.0, None), (1.0, None), (5.0, 6.0)]
    for step, (step_s, check_s) in enumerate(costs, start=1):
        first.observe(step, 0.0, None if check_s is None else {"g": 2.0}, step_s, check_s)
    first.fail("on purpose")
    again = study.start("a", 40, resumed_from=3)
    progress = again.record.progress
    assert (progress.primary_s, progress.iterations) == (6.0, 3)  # 2 seconds a step
    assert (progress.last_check_s, progress.checks, progress.checked_at) == (6.0, 1, 1)
    assert again.check_due(4, 0.0) == 4
    afresh = study.start("a", 40)
    assert afresh.record.progress.last_check_s == afresh.record.progress.iterations == 0
    # a check of the study costs 6, and a step 2: half a check is over in the second step
    assert [afresh.check_due(step, 0.0) for step in (1, 2)] == [None, 2]


def test_a_check_that_came_without_a_report_does_not_make_the_others_cheaper() -> None:
    """One made at a trial's end that had to be cut off: the trial has failed and tries again."""
    study = stopper(**KEEP)
    first = study.start("a")
    assert train(first, range(1, 6), 1.0, 6.0) == [1]
    first.add_check({"g": FailedCheck("took too long")}, 6.0, 5)
    first.fail("took too long")
    again = study.start("a", resumed_from=5)
    assert again.record.progress.last_check_s == 6.0
    assert [again.check_due(step, 0.0) for step in (6, 7)] == [None, 7]


# -- remembering ---------------------------------------------------------------------------------


def test_between_checks_a_trial_is_ranked_among_the_invalid_with_its_last_violation() -> None:
    study = stopper(**KEEP)
    for index, g in enumerate((1.25, 1.75)):
        study.start(index, 9).observe(2, 0.0, {"g": g})
    trial = study.start("a", 9)
    trial.observe(1, 0.0, {"g": 1.5})
    decision = trial.observe(2, 99.0)
    assert (decision.stratum, decision.rank, decision.of) == ("unchecked", 2, 3)
    assert decision.reason == "rank 2 of 3 at step 2 among the invalid, as last checked: kept"
    # and others are ranked with it in turn: the objective decides among equal violations
    assert study.start("b", 9).observe(2, 98.0, {"g": 1.5}).rank == 2
    assert study.start("c", 9).observe(2, 100.0, {"g": 1.5}).rank == 4
    assert study.start("d", 9).observe(2, 0.0).of == 1  # never checked


def test_between_checks_a_valid_trial_is_ranked_among_the_valid() -> None:
    study = stopper(truncation=0.5, invalid_truncation=0.0)
    study.start("better", 9).observe(2, 1.0, {"g": 0.0})
    trial = study.start("a", 9)
    trial.observe(1, 0.0, {"g": 1.0})
    decision = trial.observe(2, 2.0)
    assert decision.stop
    assert decision.reason == (
        "rank 2 of 2 at step 2 among the valid, as last checked: in the worst 50%"
    )


def test_the_last_verdict_counts() -> None:
    study = stopper(**KEEP)
    rival = study.start("rival", 9)
    for step in range(1, 7):
        rival.observe(step, 0.0, {"g": 1.5})
    trial = study.start("a", 9)
    found: list[float | FailedCheck | None] = [0.0, None, FailedCheck("raised"), None, 1.25, None]
    answers = []
    for step, g in enumerate(found, start=1):
        decision = trial.observe(step, 9.0, None if g is None else {"g": g})
        answers.append((decision.stratum, decision.rank, decision.of))
    assert answers == [
        ("valid", 1, 1),
        ("unchecked", 1, 1),  # among the valid, where nobody is
        ("invalid", 2, 2),
        ("unchecked", 2, 2),  # infinitely far from the limit
        ("invalid", 1, 2),
        ("unchecked", 1, 2),
    ]


def test_a_trial_need_not_remember() -> None:
    study = stopper(remember=False, **KEEP)
    study.start("rival", 9).observe(2, 0.0, {"g": 1.5})
    trial = study.start("a", 9)
    trial.observe(1, 0.0, {"g": 1.5})
    assert trial.observe(2, 0.0).reason.startswith("rank 1 of 1 unchecked reports at step 2: kept")


def test_a_new_attempt_remembers_what_it_goes_on_from() -> None:
    study = stopper(**KEEP)
    study.start("rival", 9).observe(3, 0.0, {"g": 1.5})
    trial = study.start("a", 9)
    trial.observe(1, 0.0, {"g": 1.25})
    trial.observe(2, 0.0, {"g": 0.0})
    trial.fail("on purpose")
    from_1 = study.start("a", 9, resumed_from=1).observe(3, 9.0)
    assert "rank 1 of 2 at step 3 among the invalid" in from_1.reason
    afresh = study.start("a", 9).observe(3, 9.0)
    assert afresh.reason.startswith("rank 1 of 1 unchecked reports at step 3: kept")


# -- sparing -------------------------------------------------------------------------------------


def test_the_never_checked_are_not_cut_while_few_checks_find_valid() -> None:
    study = stopper(truncation=1.0, patience=1.0)
    found = []
    for index, g in enumerate((None, 2.0, 0.0, 2.0, 2.0)):
        if g is not None:
            study.start(f"checked {index}", 9).observe(9, 0.0, {"g": g})
        found.append(study.start(index, 9).observe(1, 1.0))
    # no check yet; 0 of 1 valid; 1 of 2; 1 of 3; 1 of 4
    assert [decision.stop for decision in found] == [True, False, True, True, False]
    assert found[-1].reason == (
        "rank 1 of 5 unchecked reports at step 1: kept, as few checks find valid"
    )
    assert study.start("valid", 9).observe(1, 1.0, {"g": 0.0}).stop  # who is checked is ranked


def test_the_never_checked_need_not_be_spared() -> None:
    study = stopper(truncation=1.0, spare=False)
    study.start("checked", 9).observe(9, 0.0, {"g": 2.0})
    assert study.start("a", 9).observe(1, 1.0).stop


def test_who_is_not_meant_to_be_checked_is_not_spared() -> None:
    """As trials that report to Optuna, or to Ray, themselves: there no check is to come."""
    study = stopper(truncation=1.0)
    study.start("checked", 9).observe(9, 0.0, {"g": 2.0})
    assert study.restart("a", None, None, None).observe(1, 1.0).stop
    assert not study.start("b").observe(1, 1.0).stop


def test_who_would_not_be_cut_is_said_to_be_kept() -> None:
    study = stopper(truncation=0.5)
    study.start("checked", 9).observe(9, 0.0, {"g": 2.0})
    kept = [
        study.start(index, 9).observe(1, value).reason for index, value in enumerate((2.0, 1.0))
    ]
    assert kept[0].endswith("kept") and kept[1].endswith("kept")
    assert study.start("a", 9).observe(1, 3.0).reason.endswith("kept, as few checks find valid")


# -- the cut -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("g", "cut"), [(0.0, 1), (None, 1), (1.5, 2), (FailedCheck("raised"), 2)], ids=str
)
def test_a_larger_share_of_the_invalid_stops(g: float | FailedCheck | None, cut: int) -> None:
    """The fifth report: 1 of 5 among the valid and unchecked, 2 of 5 among the invalid."""
    measured = None if g is None else {"g": g}
    for better in range(5):
        study = stopper()
        study.start("valid", 9).observe(9, 99.0, {"g": 0.0})  # so that the unchecked are ranked
        for index in range(4):
            study.start(index, 9).observe(1, 0.0 if index < better else 9.0, measured)
        decision = study.start("a", 9).observe(1, 5.0, measured)
        assert (decision.rank, decision.of) == (better + 1, 5)
        assert decision.stop == (better >= 5 - cut)


def test_reasons_name_the_share() -> None:
    study = stopper()
    for index in range(4):
        study.start(index, 9).observe(1, 0.0, {"g": 1.5})
        study.start(f"valid {index}", 9).observe(1, 0.0, {"g": 1.0})
    cut = study.start("a", 9).observe(1, 1.0, {"g": 1.5})
    assert cut.reason == "rank 5 of 5 invalid reports at step 1: in the worst 40%"
    cut = study.start("b", 9).observe(1, 1.0, {"g": 0.5})
    assert cut.reason == "rank 5 of 5 valid reports at step 1: in the worst 25%"
    kept = study.start("c", 9).observe(1, 0.0, {"g": 0.5})
    assert kept.reason == "rank 1 of 6 valid reports at step 1: kept"


def test_a_trial_remembered_as_invalid_is_cut_as_such() -> None:
    study = stopper()
    trial = study.start("a", 9)
    trial.observe(1, 0.0, {"g": 1.5})
    for index, value in enumerate((3.0, 2.0, 1.0, 6.0)):
        study.start(index, 9).observe(2, value, {"g": 1.5})
    decision = trial.observe(2, 5.0)
    assert (decision.stop, decision.rank, decision.of) == (True, 4, 5)
    assert decision.reason == (
        "rank 4 of 5 at step 2 among the invalid, as last checked: in the worst 40%"
    )


# -- putting checks off --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("valid", "invalid", "total", "interval"),
    [
        (0, 0, 9, 1),
        (1, 0, 9, 9),
        (1, 1, 9, 9),
        (1, 2, 9, 9),
        (1, 3, 9, 1),
        (2, 5, 9, 1),
        (3, 6, 9, 9),
        (0, 1, 9, 1),
        (5, 0, None, 1),
        (5, 0, 1, 1),
    ],
)
def test_where_a_third_of_the_checks_are_valid_the_next_trial_is_checked_at_its_end(
    valid: int, invalid: int, total: int | None, interval: int
) -> None:
    costs = Costs(valid_n=valid, invalid_n=invalid)
    assert ACE2().first_check(total, costs) == interval
    assert ACE2(defer=False).first_check(total, costs) == 1


def test_a_trial_that_is_put_off_is_checked_once_at_its_best() -> None:
    study = stopper(**KEEP)
    early = study.start("early", 4)
    early.observe(1, 1.0, {"g": 0.0}, 1.0, 1.0)
    assert early.check_due(2, 0.5) == 2  # it has begun: as before
    trial = study.start("a", 4)
    assert trial.interval == 4
    assert study.policy.may_check_best(trial.record.progress)
    assert not study.policy.may_check_best(early.record.progress)
    for step, value in ((1, 0.9), (2, 0.3), (3, 0.3)):
        assert trial.check_due(step, value) is None
        trial.observe(step, value, None, 1.0)
    assert trial.record.gated_at is None  # nothing was due
    assert trial.check_due(4, 0.4) == 2
    assert trial.check_due(4, 0.2) == 4
    assert trial.check_due(4, 0.4, snapshot=False) == 4  # there is no copy of the best
    assert trial.finish_due() == 2
    assert trial.finish_due(snapshot=False) == 3
    trial.observe(4, 0.4, {"g": 0.0}, 1.0, 1.0, checked_step=2)
    assert study.best is not None
    assert (study.best.trial, study.best.step, study.best.value) == ("a", 2, 0.3)


def test_the_gate_holds_for_what_was_put_off() -> None:
    study = stopper(**KEEP)
    study.start("best", 4).observe(1, 0.5, {"g": 0.0})
    trial = study.start("a", 4)
    trial.observe(1, 0.6)
    assert trial.check_due(4, 0.6) is None
    assert trial.finish_due() is None
    assert trial.check_due(4, 0.5) == 4


def test_when_few_checks_are_valid_trials_are_checked_along_the_way_again() -> None:
    study = stopper(**KEEP)
    assert study.start(0, 4).interval == 1
    study.start(1, 4).observe(1, 0.0, {"g": 0.0})
    assert study.start(2, 4).interval == 4
    study.start(3, 4).observe(4, 0.0, {"g": FailedCheck("raised")})
    study.start(4, 4).observe(4, 0.0, {"g": 2.0})
    assert study.start(5, 4).interval == 4
    study.start(6, 4).observe(4, 0.0, {"g": 2.0})
    assert study.start(7, 4).interval == 1


# -- patience ------------------------------------------------------------------------------------


def stopped_at(study: Stopper, values: Iterable[float]) -> tuple[int, str] | None:
    """Where a trial stops that nobody checks, and why."""
    trial = study.start("a", 50)
    for step, value in enumerate(values, start=1):
        if trial.observe(step, value).stop:
            return step, str(trial.record.reason)
    return None


def test_who_is_behind_and_has_not_improved_for_three_quarters_of_its_steps_stops() -> None:
    assert stopped_at(with_best(0.5), [0.6] * 40) == (
        4,
        "behind the best feasible checkpoint at step 4, and no better than at step 1",
    )
    assert stopped_at(with_best(0.5), [0.7] + [0.6] * 40) == (
        8,
        "behind the best feasible checkpoint at step 8, and no better than at step 2",
    )
    assert stopped_at(with_best(0.5), [1 - step / 100 for step in range(40)]) is None


def test_who_is_level_with_the_best_is_not_behind() -> None:
    assert stopped_at(with_best(0.5), [0.5] * 40) is None
    assert stopped_at(with_best(0.5), [0.4] + [0.6] * 40) == (
        4,
        "behind the best feasible checkpoint at step 4, and no better than at step 1",
    )


def test_a_value_that_is_not_finite_is_behind() -> None:
    stopped = stopped_at(with_best(0.5), [NAN] * 40)
    assert stopped is not None
    assert stopped[0] == 4


def test_while_nothing_feasible_is_known_nobody_is_behind() -> None:
    assert stopped_at(stopper(), [0.6] * 40) is None
    assert stopped_at(stopper(), [NAN] * 40) is None


@pytest.mark.parametrize(
    ("patience", "step"), [(0.0, 1), (0.5, 2), (0.75, 4), (0.9, 10), (0.95, 20), (1.0, None)]
)
def test_patience_is_a_share_of_the_steps(patience: float, step: int | None) -> None:
    """1 - 0.9 is 0.09999999999999998 in floating point; nine steps of ten are nine tenths."""
    stopped = stopped_at(with_best(0.5, patience=patience), [0.6] * 40)
    assert (None if stopped is None else stopped[0]) == step


@pytest.mark.parametrize("g", [0.0, 1.5, FailedCheck("raised")], ids=str)
@pytest.mark.parametrize("remember", [True, False])
def test_a_trial_that_was_checked_once_is_not_given_up(
    g: float | FailedCheck, remember: bool
) -> None:
    trial = with_best(0.5, remember=remember).start("a", 50)
    assert not trial.observe(1, 0.4, {"g": g}).stop
    assert not any(trial.observe(step, 0.6).stop for step in range(2, 41))


def test_a_trial_that_is_put_off_may_be_given_up() -> None:
    study = stopper()
    study.start("best", 50).observe(50, 0.5, {"g": 0.0})
    trial = study.start("a", 50)
    assert trial.interval == 50
    assert [trial.observe(step, 0.6).stop for step in range(1, 5)] == [False, False, False, True]


def test_nobody_is_given_up_at_the_last_step() -> None:
    trial = with_best(0.5).start("a", 4)
    decisions = [trial.observe(step, 0.6) for step in range(1, 5)]
    assert not any(decision.stop for decision in decisions)
    assert decisions[-1].reason == (
        "last step, the trial finishes; behind the best feasible checkpoint at step 4, and no "
        "better than at step 1"
    )


@pytest.mark.parametrize(("patience", "step"), [(0.75, 4), (0.5, 2), (1.0, None)])
def test_a_step_0_of_optunas_counts_as_the_first(patience: float, step: int | None) -> None:
    """Who reports to Optuna from step 0 on has not gone without improving for all its steps."""
    study = made(ACE2(patience=patience))
    play(study, [0.5] * 5, [0.0] * 5)
    trial = study.ask()
    for at in range(20):
        trial.report(0.6, at)
        if trial.should_prune():
            break
    else:
        at = -1
    assert (at if at > 0 else None) == step
    if step is not None:
        record = study.pruner.digest(study).history.trials[trial.number]  # type: ignore[attr-defined]
        assert str(record.reason) == (
            f"behind the best feasible checkpoint at step {step}, and no better than at step 0"
        )


# -- options, and the plain rule -----------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"head_start": -0.1},
        {"head_start": 1.5},
        {"head_start": None},
        {"spacing": -1},
        {"spacing": NAN},
        {"spacing": math.inf},
        {"spacing": True},
        {"spacing": "1"},
        {"truncation": 2},
        {"truncation": -0.1},
        {"truncation": True},
        {"invalid_truncation": 40},
        {"invalid_truncation": None},
        {"patience": 1.5},
        {"patience": NAN},
    ],
)
def test_bad_options_are_named(options: dict[str, Any]) -> None:
    (name, value) = next(iter(options.items()))
    with pytest.raises(GoalError, match=rf"^{name}") as caught:
        ACE2(**options)
    assert repr(value) in str(caught.value)


rules = st.builds(
    Ace2Rule,
    truncation=st.sampled_from([0.25, 0.25, 0.0, 0.1, 0.5, 1.0]),
    invalid_truncation=st.sampled_from([0.4, 0.4, 0.0, 0.1, 1.0]),
    head_start=st.sampled_from([0.15, 0.15, 0.0, 0.3, 0.5, 1.0]),
    spacing=st.sampled_from([1.5, 1.5, 1.0, 0.0, 0.5, 3.0]),
    patience=st.sampled_from([0.75, 0.75, 0.5, 0.9, 0.0, 1.0]),
    remember=st.sampled_from([True, True, True, False]),
    spare=st.booleans(),
    defer=st.booleans(),
)


@examples_or_more(120)
@given(studies(rules, lengths=(6, 10, 20, None, 3, 1)))
def test_against_the_plain_rule(study: Study) -> None:
    Pair(study).play()


def often_retried(study: Study) -> Study:
    """With new attempts, from some step on, in place of what there is little of otherwise."""
    events = [
        Retry(event.slot, index % 13) if isinstance(event, (Ask, Repeat, Declare)) else event
        for index, event in enumerate(study.events)
    ]
    return replace(study, events=tuple(events))


lasting = st.builds(
    Ace2Rule,
    truncation=st.just(0.0),
    invalid_truncation=st.just(0.0),
    head_start=st.sampled_from([0.15, 0.0, 1.0]),
    spacing=st.sampled_from([1.0, 0.5, 2.0]),
    patience=st.just(1.0),
    defer=st.just(False),
)


@examples_or_more(50)
@given(studies(lasting, lengths=(20, 40, None)).map(often_retried))
def test_new_attempts_against_the_plain_rule(study: Study) -> None:
    """What they take over, and the mean costs that they go on with."""
    Pair(study).play()
