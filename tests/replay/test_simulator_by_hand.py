"""Replays of a few short curves, every event of which was worked out by hand.

Unless a test says otherwise a step costs 1 s, a check 0.5 s, the objective is to be maximised and
the limit is ``eod <= 0.25``. Trial ``n`` trains configuration ``n - 1``.
"""

from __future__ import annotations

import math

import pytest

from acetune.core.goals import Constraint, Estimate, FailedCheck, Objective
from acetune.core.outcome import Outcome
from acetune.policies import ACE, ASHA, NoStopping
from acetune.replay.curve_table import TableConstraint
from acetune.replay.runs import Incumbent

from .watching import InOrder, curve, replay, table_of

nan = math.nan


# -- ACE -----------------------------------------------------------------------------------------


def test_ace_that_checks_every_step() -> None:
    table = table_of(
        curve([0.70, 0.80], [0.10, 0.30]),
        curve([0.60, 0.70], [0.10, 0.25]),
        curve([0.50, 0.90], [0.10, 0.10]),
    )
    run = replay(table, ACE(truncation=0.5, interval=1))
    assert run.events == [
        (1.0, 1, "step 1", "check 1"),  # f* is not known: everything passes the gate
        (1.5, 1, "check 1", "valid 1/1"),  # f* = 0.70
        (2.5, 1, "step 2", "check 2"),  # 0.80 beats it
        (3.0, 1, "check 2", "invalid 1/1 finished"),  # 0.30 > 0.25
        (4.0, 2, "step 1", "unchecked 1/1"),  # 0.60 < f*
        (5.0, 2, "step 2", "check 2"),  # 0.70 = f*: equality evaluates
        (5.5, 2, "check 2", "valid 1/1 finished"),  # 0.25 is allowed; alone of its stratum
        # unchecked at step 1: 0.60 and this one, n = 2: better = 1 >= 2 - floor(0.5 * 2)
        (6.5, 3, "step 1", "unchecked 2/2 stopped"),
    ]
    assert run.states == ["finished", "finished", "stopped"]
    found = run.summary()
    assert found.incumbents == (Incumbent(1.5, 0.70, 0, 1),)  # an equal one changes nothing
    assert (found.trials, found.reports, found.constraint_evaluations) == (3, 5, 3)
    assert (found.primary_cost_s, found.constraint_cost_s, found.time_s) == (5.0, 1.5, 6.5)
    assert found.constraint_cost_share == 1.5 / 6.5


def test_ace_that_checks_once_at_the_end() -> None:
    table = table_of(
        curve([0.60, 0.80, 0.70], [0.10, 0.20, 0.90]),
        curve([0.50, 0.90, 0.95], [0.10, 0.20, 0.30]),
        curve([0.40, 0.80, 0.80], [0.10, 0.10, 0.90]),
        curve([0.45, 0.79, 0.99], [0.10, 0.10, 0.10]),
        curve([0.50, 0.79, 0.78], [0.10, 0.10, 0.10]),
    )
    run = replay(table, ACE(interval="end"))
    assert run.events == [
        (1.0, 1, "step 1", "unchecked 1/1"),
        (2.0, 1, "step 2", "unchecked 1/1"),
        (3.0, 1, "step 3", "check 2"),  # its best checkpoint, not its last
        (3.5, 1, "check 2", "valid 1/1 finished"),  # 0.20; f* = 0.80
        (4.5, 2, "step 1", "unchecked 2/2"),
        (5.5, 2, "step 2", "unchecked 1/2"),
        (6.5, 2, "step 3", "check 3"),
        (7.0, 2, "check 3", "invalid 1/1 finished"),
        # 0.60, 0.50, 0.40: better = 2 < 3 - floor(0.75)
        (8.0, 3, "step 1", "unchecked 3/3"),
        (9.0, 3, "step 2", "unchecked 2/3"),  # 0.80 ties with trial 1, 0.90 is better
        (10.0, 3, "step 3", "check 2"),  # the earlier of its two best; as good as f*
        # ranked by its own 0.80 at step 3 against trial 1's 0.70 there
        (10.5, 3, "check 2", "valid 1/2 finished"),
        (11.5, 4, "step 1", "unchecked 3/4"),  # n = 4: only the last place stops
        (12.5, 4, "step 2", "unchecked 4/4 stopped"),  # and gets no check
        (13.5, 5, "step 1", "unchecked 2/5"),  # ties with trial 2
        (14.5, 5, "step 2", "unchecked 4/5"),  # ties with trial 4: better = 3 < 5 - 1
        (15.5, 5, "step 3", "unchecked 1/1 finished"),  # its best, 0.79, is behind f*
    ]
    found = run.summary()
    assert found.incumbents == (Incumbent(3.5, 0.80, 0, 2),)
    assert (found.reports, found.constraint_evaluations) == (14, 3)


def test_ace_chooses_the_interval_when_a_trial_starts() -> None:
    """With p = 0.25 the threshold of Theorem 1 is 0.0625 / 0.1875 = 0.33 for T = 2.

    It is (0.75 + 0.75**3 - 1) / (0.75 - 0.75**3) = 0.171875 / 0.328125 = 0.52 for T = 3. A check
    costs half a step: r = 0.5 lies between them.
    """
    table = table_of(
        curve([0.5, 0.6, 0.7], [0.3, 0.3, 0.3]),
        curve([0.6, 0.7, 0.8], [0.3, 0.3, 0.3]),
        curve([0.7, 0.8], [0.2, 0.2]),
        curve([0.9], [0.1]),
        curve([0.9, 0.9], [0.1, 0.1], total=0),  # T is not known
    )
    run = replay(table, "ace")
    assert run.intervals == [3, 1, 2, 1, 1]  # no check was timed when the first one started
    assert run.events[:7] == [
        (1.0, 1, "step 1", "unchecked 1/1"),
        (2.0, 1, "step 2", "unchecked 1/1"),
        (3.0, 1, "step 3", "check 3"),
        (3.5, 1, "check 3", "invalid 1/1 finished"),
        (4.5, 2, "step 1", "check 1"),
        (5.0, 2, "check 1", "invalid 1/1"),
        (6.0, 2, "step 2", "check 2"),
    ]
    # on two workers the first two start together: neither knows what a check costs
    assert replay(table, "ace", workers=2).intervals == [3, 3, 2, 1, 1]
    # r = 0.6 is above both thresholds
    assert replay(table, "ace", cost_ratio=0.6).intervals == [3, 3, 2, 1, 1]


def test_what_is_being_checked_elsewhere_is_not_known_yet() -> None:
    table = table_of(
        curve([0.80], [0.10]),
        curve([0.70, 0.75], [0.20, 0.20], cost_s=1.5),
        curve([0.85, 0.90], [0.30, 0.10]),
        constraints=[TableConstraint("eod", upper=0.25, cost_s=2.0)],
    )
    run = replay(table, ACE(interval=1), workers=2)
    expected = [
        (1.0, 1, "step 1", "check 1"),  # until 3
        (1.5, 2, "step 1", "check 1"),  # f* is still unknown; until 3.5
        (3.0, 1, "check 1", "valid 1/1 finished"),  # f* = 0.80; trial 3 takes the worker
        (3.5, 2, "check 1", "valid 2/2"),  # taken as it is, though it cannot win any more
        (4.0, 3, "step 1", "check 1"),  # 0.85 beats f*
        (5.0, 2, "step 2", "unchecked 1/1 finished"),  # 3.5 + 1.5; 0.75 < f*. Nobody is left.
        (6.0, 3, "check 1", "invalid 1/1"),
        (7.0, 3, "step 2", "check 2"),
        (9.0, 3, "check 2", "valid 1/1 finished"),
    ]
    assert run.events == expected
    found = run.summary()
    first, second = Incumbent(3.0, 0.80, 0, 1), Incumbent(9.0, 0.90, 2, 2)
    assert found.incumbents == (first, second)
    assert (found.reports, found.constraint_evaluations) == (5, 4)
    assert (found.primary_cost_s, found.constraint_cost_s) == (6.0, 8.0)  # 1 + 3 + 2, 4 * 2

    # the last check ends at 9: a budget of 9 s just holds it, a shorter one does not
    assert replay(table, ACE(interval=1), workers=2, budget_s=9.0).events == expected
    cut = replay(table, ACE(interval=1), workers=2, budget_s=8.9)
    assert cut.events == expected[:-1]
    assert cut.states == ["finished", "finished", "interrupted"]
    found = cut.summary()
    assert found.incumbents == (first,)
    assert (found.reports, found.constraint_evaluations, found.time_s) == (4, 3, 8.9)
    assert (found.primary_cost_s, found.constraint_cost_s) == (5.0, 6.0)  # of what was reported

    # at 5.2 trial 3 is in the middle of its first check, of which nothing is known
    cut = replay(table, ACE(interval=1), workers=2, budget_s=5.2)
    assert cut.events == expected[:6]
    assert cut.states == ["finished", "finished", "interrupted"]
    assert cut.summary().trials == 3  # it has begun

    # at 0.9 nothing has happened yet
    cut = replay(table, ACE(interval=1), workers=2, budget_s=0.9)
    found = cut.summary()
    assert (cut.events, cut.states) == ([], ["interrupted", "interrupted"])
    assert (found.incumbents, found.best, found.reports, found.time_s) == ((), None, 0, 0.9)


def test_at_the_same_time_what_was_scheduled_first_comes_first() -> None:
    table = table_of(
        curve([0.5, 0.6], [0.1, 0.1]),
        curve([0.4, 0.7], [0.1, 0.1], cost_s=[2.0, 1.0]),
        constraints=[TableConstraint("eod", upper=0.25, cost_s=1.0)],
    )
    run = replay(table, ACE(interval=1), workers=2)
    assert run.events == [
        (1.0, 1, "step 1", "check 1"),  # until 2
        # at 2 the step of trial 2, which began at 0, comes before the check that began at 1: its
        # 0.4 is checked, because the 0.5 that would have closed the gate is not known
        (2.0, 2, "step 1", "check 1"),
        (2.0, 1, "check 1", "valid 1/1"),
        # both were scheduled at 2, in this order
        (3.0, 2, "check 1", "valid 2/2"),
        (3.0, 1, "step 2", "check 2"),
        (4.0, 2, "step 2", "check 2"),  # f* is 0.5; scheduled before the other one
        (4.0, 1, "check 2", "valid 1/1 finished"),  # 0.6
        (5.0, 2, "check 2", "valid 1/2 finished"),
    ]


def test_a_check_that_costs_nothing_comes_after_what_waits_for_the_same_moment() -> None:
    table = table_of(
        curve([0.5], [0.1]),
        curve([0.4], [0.1]),
        curve([0.4], [0.1]),
    )
    run = replay(table, ACE(interval=1), workers=2, cost_ratio=0.0)
    assert run.events == [
        (1.0, 1, "step 1", "check 1"),
        (1.0, 2, "step 1", "check 1"),  # scheduled at 0, that check at 1
        (1.0, 1, "check 1", "valid 1/1 finished"),
        (1.0, 2, "check 1", "valid 2/2 finished"),
        (2.0, 3, "step 1", "unchecked 1/1 finished"),
    ]
    assert run.summary().constraint_cost_s == 0.0


def test_the_first_violation_may_stop() -> None:
    table = table_of(curve([0.5, 0.6], [0.3, 0.1]), curve([0.4, 0.6], [0.2, 0.1]))
    run = replay(table, ACE(interval=1, stopping="first-violation"))
    assert run.events == [
        (1.0, 1, "step 1", "check 1"),
        (1.5, 1, "check 1", "invalid 1/1 stopped"),
        (2.5, 2, "step 1", "check 1"),
        (3.0, 2, "check 1", "valid 1/1"),
        (4.0, 2, "step 2", "check 2"),
        (4.5, 2, "check 2", "valid 1/1 finished"),
    ]


# -- the others ----------------------------------------------------------------------------------


def test_asha_with_callback() -> None:
    """Rungs at 1 and 2; of those before it a trial must reach the median."""
    table = table_of(
        curve([0.60, 0.70, 0.80], [0.30, 0.20, 0.10]),
        curve([0.50, 0.90, 0.90], [0.10, 0.10, 0.10]),
        curve([0.90, 0.65, 0.90], [0.20, 0.20, 0.10]),
    )
    run = replay(table, ASHA(reduction_factor=2))
    assert run.events == [
        (1.0, 1, "step 1", "check 1"),
        (1.5, 1, "check 1", "invalid 1/1"),  # the first at a rung goes on
        (2.5, 1, "step 2", "check 2"),
        (3.0, 1, "check 2", "valid 1/1"),
        (4.0, 1, "step 3", "check 3"),  # no rung, but the last step
        (4.5, 1, "check 3", "valid finished"),  # not ranked
        (5.5, 2, "step 1", "check 1"),  # no gate: checked though 0.50 < 0.80
        (6.0, 2, "check 1", "valid 2/2 stopped"),  # 0.50 < 0.60
        (7.0, 3, "step 1", "check 1"),
        (7.5, 3, "check 1", "valid 1/3"),  # 0.90 >= (0.60 + 0.50) / 2
        (8.5, 3, "step 2", "check 2"),
        (9.0, 3, "check 2", "valid 2/2 stopped"),  # 0.65 < 0.70
    ]
    assert run.summary().incumbents == (
        Incumbent(3.0, 0.70, 0, 2),
        Incumbent(4.5, 0.80, 0, 3),
        Incumbent(7.5, 0.90, 2, 1),
    )


def test_no_stopping_on_two_workers_with_a_start_up_cost() -> None:
    table = table_of(
        curve([0.70, 0.60], [0.10, 0.90]),
        curve([0.60, 0.80], [0.10, 0.30]),
        curve([0.50, 0.65], [0.10, 0.10]),
    )
    run = replay(table, "none", workers=2, startup_s=0.25)
    assert run.events == [
        (1.25, 1, "step 1", "unchecked"),  # 0.25 + 1
        (1.25, 2, "step 1", "unchecked"),
        (2.25, 1, "step 2", "check 1"),  # its best
        (2.25, 2, "step 2", "check 2"),
        (2.75, 1, "check 1", "valid finished"),
        (2.75, 2, "check 2", "invalid finished"),
        (4.0, 3, "step 1", "unchecked"),  # 2.75 + 0.25 + 1
        (5.0, 3, "step 2", "check 2"),  # no gate: 0.65 < 0.70
        (5.5, 3, "check 2", "valid finished"),
    ]
    found = run.summary()
    assert found.incumbents == (Incumbent(2.75, 0.70, 0, 1),)
    assert (found.primary_cost_s, found.constraint_cost_s) == (6.0, 1.5)  # without the start-up


def test_checks_after_the_run_are_shared_by_the_workers() -> None:
    table = table_of(
        curve([0.70, 0.90], [0.10, 0.30]),
        curve([0.85, 0.60], [nan, 0.10]),
        curve([0.50, 0.80], [0.10, 0.20]),
        curve([0.80, 0.75], [0.10, 0.10]),
        constraints=[TableConstraint("eod", upper=0.25, cost_s=0.5, sparse=True)],
    )
    run = replay(table, NoStopping("after"), workers=2)
    assert run.events == [
        (1.0, 1, "step 1", "unchecked"),
        (1.0, 2, "step 1", "unchecked"),
        (2.0, 1, "step 2", "unchecked finished"),
        (2.0, 2, "step 2", "unchecked finished"),
        (3.0, 3, "step 1", "unchecked"),
        (3.0, 4, "step 1", "unchecked"),
        (4.0, 3, "step 2", "unchecked finished"),
        (4.0, 4, "step 2", "unchecked finished"),
        # best first, each at its best checkpoint: 0.90, 0.85, 0.80, 0.80; a check takes two workers
        # 0.5 / 2
        (4.25, 1, "after 2", "invalid"),
        (4.5, 2, "after 1", "invalid"),  # never measured
        (4.75, 3, "after 2", "valid"),  # of equals the one that began first; that is enough
    ]
    found = run.summary()
    assert found.incumbents == (Incumbent(4.75, 0.80, 2, 2),)
    assert (found.constraint_evaluations, found.unmeasured_checks) == (3, 1)
    assert (found.constraint_cost_s, found.time_s) == (1.5, 4.75)

    # a trial that the budget cut off counts with what it has reported
    cut = replay(table, NoStopping("after"), workers=2, budget_s=3.5)
    assert cut.states == ["finished", "finished", "interrupted", "interrupted"]
    assert cut.events[6:] == [
        (3.75, 1, "after 2", "invalid"),  # the checks come on top of the budget
        (4.0, 2, "after 1", "invalid"),
        (4.25, 4, "after 1", "valid"),  # 0.80 at its first step, where trial 3 had 0.50
    ]
    # one that has reported nothing does not count
    cut = replay(table, NoStopping("after"), workers=2, budget_s=0.5)
    assert (cut.events, cut.summary().time_s) == ([], 0.5)


def test_asha_after_the_run() -> None:
    table = table_of(
        curve([0.70, 0.75], [0.30, 0.30]),
        curve([0.60, 0.90], [0.20, 0.10]),
        curve([0.80, 0.65], [0.40, 0.10]),
    )
    run = replay(table, ASHA(reduction_factor=2, constraints="after"))
    assert run.events == [
        (1.0, 1, "step 1", "unchecked 1/1"),
        (2.0, 1, "step 2", "unchecked 1/1 finished"),
        (3.0, 2, "step 1", "unchecked 2/2 stopped"),  # 0.60 < 0.70
        (4.0, 3, "step 1", "unchecked 1/3"),  # 0.80 >= (0.60 + 0.70) / 2
        # 0.65 < 0.75, but at its last step a trial finishes
        (5.0, 3, "step 2", "unchecked 2/2 finished"),
        # the best of each trial: 0.80 of trial 3, 0.75 of trial 1, 0.60 of the stopped one
        (5.5, 3, "after 1", "invalid"),
        (6.0, 1, "after 2", "invalid"),
        (6.5, 2, "after 1", "valid"),
    ]
    assert run.summary().incumbents == (Incumbent(6.5, 0.60, 1, 1),)


# -- curves that end before their last step ------------------------------------------------------


def test_a_curve_that_ends_early_gets_its_check_at_the_end() -> None:
    table = table_of(
        curve([0.80, 0.70], [0.20, 0.10], total=5),
        curve([0.70, 0.75], [0.20, 0.10], total=5),
        curve([0.60, 0.90], [0.20, 0.30], total=0),
    )
    run = replay(table, ACE(interval="end"))
    assert run.intervals == [5, 5, None]
    assert run.events == [
        (1.0, 1, "step 1", "unchecked 1/1"),
        (2.0, 1, "step 2", "unchecked 1/1"),
        (2.0, 1, "end", "check 1"),  # at once: its best
        (2.5, 1, "check 1", "finished"),  # f* = 0.80
        (3.5, 2, "step 1", "unchecked 2/2"),
        (4.5, 2, "step 2", "unchecked 1/2"),
        (4.5, 2, "end", "finished"),  # 0.75 < f*: no check
        (5.5, 3, "step 1", "unchecked 3/3"),
        (6.5, 3, "step 2", "unchecked 1/3"),
        (6.5, 3, "end", "check 2"),
        (7.0, 3, "check 2", "finished"),  # violated
    ]
    found = run.summary()
    assert found.incumbents == (Incumbent(2.5, 0.80, 0, 1),)
    assert (found.reports, found.constraint_evaluations) == (6, 2)
    assert (found.constraint_cost_s, found.time_s) == (1.0, 7.0)

    # a check at the end that the budget cuts off does not count either
    cut = replay(table, ACE(interval="end"), budget_s=6.9)
    assert cut.states == ["finished", "finished", "interrupted"]
    assert cut.summary().constraint_evaluations == 1


def test_a_curve_that_ends_early_at_interval_1_has_nothing_left_to_check() -> None:
    table = table_of(curve([0.5, 0.6], [0.1, 0.3], total=3))
    run = replay(table, ACE(interval=1))
    assert run.events == [
        (1.0, 1, "step 1", "check 1"),
        (1.5, 1, "check 1", "valid 1/1"),
        (2.5, 1, "step 2", "check 2"),
        (3.0, 1, "check 2", "invalid 1/1"),
        (3.0, 1, "end", "finished"),
    ]


def test_a_curve_that_asha_saw_end_early_has_its_last_step_checked() -> None:
    table = table_of(
        curve([0.5, 0.6, 0.7], [0.1, 0.1, 0.2], total=9),
        curve([0.6, 0.7], [0.1, 0.1], total=9),
    )
    run = replay(table, ASHA(reduction_factor=2))
    assert run.events == [
        (1.0, 1, "step 1", "check 1"),
        (1.5, 1, "check 1", "valid 1/1"),
        (2.5, 1, "step 2", "check 2"),
        (3.0, 1, "check 2", "valid 1/1"),
        (4.0, 1, "step 3", "unchecked"),  # no rung
        (4.0, 1, "end", "check 3"),
        (4.5, 1, "check 3", "finished"),
        (5.5, 2, "step 1", "check 1"),
        (6.0, 2, "check 1", "valid 1/2"),
        (7.0, 2, "step 2", "check 2"),
        (7.5, 2, "check 2", "valid 1/2"),
        (7.5, 2, "end", "finished"),  # its last step was checked
    ]
    assert run.summary().best == 0.7


def test_a_trial_that_is_stopped_at_the_end_of_its_record_is_stopped() -> None:
    table = table_of(
        curve([0.5, 0.6], [0.1, 0.1]),
        curve([0.4], [0.1], total=2),
    )
    run = replay(table, ACE(interval="end", truncation=0.5))
    assert run.events[-1] == (3.5, 2, "step 1", "unchecked 2/2 stopped")


# -- constraints ---------------------------------------------------------------------------------


def test_a_value_that_was_never_measured_is_a_failed_check() -> None:
    table = table_of(
        curve([0.90, 0.80], [nan, 0.60]),
        curve([0.70, 0.95], [0.50, nan]),
        curve([0.60, 0.60], [nan, 0.25]),
        constraints=[TableConstraint("eod", upper=0.25, cost_s=0.5, sparse=True)],
    )
    picker = InOrder(range(3))
    run = replay(table, ACE(interval=1, truncation=0.0), picker=picker)
    assert run.events == [
        (1.0, 1, "step 1", "check 1"),
        (1.5, 1, "check 1", "invalid 1/1"),  # infinitely far from the limit
        (2.5, 1, "step 2", "check 2"),
        (3.0, 1, "check 2", "invalid 1/1 finished"),  # (0.60 - 0.25) / 0.25 = 1.4
        (4.0, 2, "step 1", "check 1"),
        (4.5, 2, "check 1", "invalid 1/2"),  # (0.50 - 0.25) / 0.25 = 1 comes before infinity
        (5.5, 2, "step 2", "check 2"),
        (6.0, 2, "check 2", "invalid 2/2 finished"),
        (7.0, 3, "step 1", "check 1"),
        (7.5, 3, "check 1", "invalid 3/3"),  # equally far as trial 1's 0.90, and worse
        (8.5, 3, "step 2", "check 2"),
        (9.0, 3, "check 2", "valid 1/1 finished"),
    ]
    found = run.summary()
    assert found.incumbents == (Incumbent(9.0, 0.60, 2, 2),)
    assert (found.constraint_evaluations, found.unmeasured_checks) == (6, 3)
    assert found.constraint_cost_s == 3.0  # a check that fails has been paid for
    told = dict(picker.told)
    assert told[1] == Outcome(-0.80, pytest.approx(1.4))  # the least violating one that was seen
    assert told[2] == Outcome(-0.70, 1.0)
    assert told[3] == Outcome(-0.60, 0.0)


def test_an_infinite_value_is_a_failed_check_too() -> None:
    """A limit may be set on a metric that the table holds without one."""
    table = table_of(
        curve([0.9, 0.8], gain=[math.inf, 2.0]),
        curve([0.95, 0.7], gain=[-math.inf, math.inf]),
        constraints=[],
    )
    limit = Constraint("gain", lower=1.0)
    run = replay(table, ACE(interval=1), constraints=[limit], cost_ratio=0.5)
    assert run.events == [
        (1.0, 1, "step 1", "check 1"),
        (1.5, 1, "check 1", "invalid 1/1"),
        (2.5, 1, "step 2", "check 2"),
        (3.0, 1, "check 2", "valid 1/1 finished"),
        (4.0, 2, "step 1", "check 1"),
        (4.5, 2, "check 1", "invalid 1/2"),
        (5.5, 2, "step 2", "unchecked 1/1 finished"),
    ]
    after = replay(table, "none+after", constraints=[limit], cost_ratio=0.5)
    assert after.events[-2:] == [
        (4.5, 2, "after 1", "invalid"),
        (5.0, 1, "after 1", "invalid"),  # each trial at its best checkpoint only
    ]


def test_several_constraints() -> None:
    """A check costs 0.25 + 0.75 s; violations are divided by their limits and added up."""
    table = table_of(
        curve([0.9, 0.9], gap=[0.375, 0.25], recall=[0.5, 0.4375]),
        curve([0.8, 0.9], gap=[0.25, 0.25], recall=[0.375, 0.5]),
        curve([0.8, 0.9], gap=[0.28125, 0.375], recall=[0.4375, 0.9]),
        constraints=[
            TableConstraint("gap", upper=0.25, cost_s=0.25),
            TableConstraint("recall", lower=0.5, cost_s=0.75),
        ],
    )
    run = replay(table, ACE(interval=1, truncation=0.0))
    assert run.events == [
        (1.0, 1, "step 1", "check 1"),
        (2.0, 1, "check 1", "invalid 1/1"),  # 0.125 / 0.25 = 0.5
        (3.0, 1, "step 2", "check 2"),
        (4.0, 1, "check 2", "invalid 1/1 finished"),  # 0.0625 / 0.5 = 0.125: one is enough
        (5.0, 2, "step 1", "check 1"),
        (6.0, 2, "check 1", "invalid 1/2"),  # 0.125 / 0.5 = 0.25
        (7.0, 2, "step 2", "check 2"),
        (8.0, 2, "check 2", "valid 1/1 finished"),  # both limits are met exactly
        (9.0, 3, "step 1", "unchecked 1/1"),
        (10.0, 3, "step 2", "check 2"),
        (11.0, 3, "check 2", "invalid 2/2 finished"),  # 0.5 is more than 0.125
    ]
    found = run.summary()
    assert found.constraint_evaluations == 5  # one for both constraints
    assert found.constraint_cost_s == 5.0
    assert run.stopper.history.costs.check_s == {"gap": 1.25, "recall": 3.75}

    # 0.03125 / 0.25 + 0.0625 / 0.5 = 0.25: a tie with trial 2, which has the same objective
    noskip = replay(table, ACE(interval=1, truncation=0.0, gate=False))
    assert noskip.events[-4:] == [
        (9.0, 3, "step 1", "check 1"),
        (10.0, 3, "check 1", "invalid 1/3"),
        (11.0, 3, "step 2", "check 2"),
        (12.0, 3, "check 2", "invalid 2/2 finished"),
    ]


def test_without_constraints_every_checkpoint_qualifies() -> None:
    table = table_of(curve([0.5, 0.7]), curve([0.6, 0.7]), curve([0.4, 0.9]), constraints=[])
    for policy in ("ace:truncation=0.5", "ace:truncation=0.5,interval=1"):
        run = replay(table, policy)
        assert run.events == [
            (1.0, 1, "step 1", "valid 1/1"),
            (2.0, 1, "step 2", "valid 1/1 finished"),
            (3.0, 2, "step 1", "valid 1/2"),
            (4.0, 2, "step 2", "valid 1/2 finished"),
            (5.0, 3, "step 1", "valid 3/3 stopped"),
        ]
        found = run.summary()
        assert found.incumbents == (Incumbent(1.0, 0.5, 0, 1), Incumbent(2.0, 0.7, 0, 2))
        assert (found.constraint_evaluations, found.constraint_cost_s) == (0, 0.0)
    # nothing is left to check after the run
    after = replay(table, "none+after")
    assert after.summary().incumbents[-1] == Incumbent(6.0, 0.9, 2, 2)
    assert after.summary().time_s == 6.0
    # the table's own limit can be left out
    limited = table_of(curve([0.5], [0.9]))
    assert replay(limited, "ace", constraints=[]).summary().best == 0.5


def test_an_objective_to_be_minimised_under_a_lower_limit() -> None:
    table = table_of(
        curve([3.0, 2.0], recall=[0.9, 0.7]),
        curve([3.5, 1.0], recall=[0.9, 0.8]),
        curve([4.0, 0.5], recall=[0.9, 0.9]),
        constraints=[TableConstraint("recall", lower=0.8, cost_s=0.5)],
        objective=Objective("auc", "min"),
    )
    run = replay(table, ACE(interval=1, truncation=0.5))
    assert run.events == [
        (1.0, 1, "step 1", "check 1"),
        (1.5, 1, "check 1", "valid 1/1"),  # f* = 3
        (2.5, 1, "step 2", "check 2"),
        (3.0, 1, "check 2", "invalid 1/1 finished"),
        (4.0, 2, "step 1", "unchecked 1/1"),  # 3.5 > 3
        (5.0, 2, "step 2", "check 2"),
        (5.5, 2, "check 2", "valid 1/1 finished"),  # 0.8 is allowed
        (6.5, 3, "step 1", "unchecked 2/2 stopped"),
    ]
    found = run.summary()
    assert found.incumbents == (Incumbent(1.5, 3.0, 0, 1), Incumbent(5.5, 1.0, 1, 2))
    assert (found.mode, found.best) == ("min", 1.0)


def test_what_a_check_costs() -> None:
    """The mean step costs (1 + 1 + 1 + 5) / 4 = 2 s."""
    table = table_of(
        curve([0.5, 0.6], [0.1, 0.1], gap=[0.1, 0.1]),
        curve([0.6, 0.7], [0.1, 0.1], cost_s=[1.0, 5.0], gap=[0.1, 0.1]),
    )
    both = [Constraint("eod", upper=0.25), Constraint("gap", upper=0.2)]
    # as recorded, 0.5 s each: 1 + 1 + 0.5, then 1 + 5 + 0.5
    assert [e.time_s for e in replay(table, "none").events] == [1.0, 2.0, 2.5, 3.5, 8.5, 9.0]
    # three times a mean step: 6 s
    run = replay(table, "none", cost_ratio=3.0)
    assert [e.time_s for e in run.events] == [1.0, 2.0, 8.0, 9.0, 14.0, 20.0]
    # the same for two constraints, which share it
    run = replay(table, "none", cost_ratio=3.0, constraints=both)
    assert [e.time_s for e in run.events] == [1.0, 2.0, 8.0, 9.0, 14.0, 20.0]
    assert run.stopper.history.costs.check_s == {"eod": 6.0, "gap": 6.0}


# -- the rest ------------------------------------------------------------------------------------


def test_no_more_trials_than_asked_for() -> None:
    table = table_of(*(curve([0.5], [0.1]) for _ in range(5)))
    for most, workers in ((1, 4), (3, 2), (5, 4), (9, 4)):
        run = replay(table, "none", max_trials=most, workers=workers)
        assert run.summary().trials == min(most, 5)
        assert run.states == ["finished"] * min(most, 5)


def test_more_workers_than_configurations() -> None:
    table = table_of(curve([0.5], [0.1]), curve([0.6], [0.1]))
    run = replay(table, "none", workers=8)
    assert run.summary().time_s == 1.5
    after = replay(table, "none+after", workers=8)
    assert after.summary().time_s == 1.0 + 0.5 / 8


def test_the_picker_is_told_when_a_trial_has_ended_and_before_the_next_one_begins() -> None:
    class Noting(InOrder):
        def __init__(self) -> None:
            super().__init__(range(4))
            self.log: list[object] = []

        def pick(self, trial: int) -> int | None:
            self.log.append(f"pick {trial}")
            return super().pick(trial)

        def tell(self, trial: int, outcome: Outcome) -> None:
            self.log.append((trial, outcome))

    table = table_of(
        curve([0.7, 0.8], [0.10, 0.30]),
        curve([0.6, 0.6], [0.10, 0.10], cost_s=2.0),
        curve([0.9, 0.9], [0.50, 0.50]),
        curve([0.9, 0.9], [0.10, 0.10], cost_s=9.0),
    )
    picker = Noting()
    run = replay(table, ACE(interval=1), workers=2, budget_s=8.0, picker=picker)
    assert picker.log == [
        "pick 1",
        "pick 2",
        # 1 + 0.5 + 1 + 0.5 = 3: valid at its first step, 0.70
        (1, Outcome(-0.7, 0.0)),
        "pick 3",
        # 2 + 2 = 4, never checked: 0.60 < 0.70 at 2 already, so it could not win
        (2, Outcome(-0.6, 0.0)),
        "pick 4",
        # 3 + 1 + 0.5 + 1 + 0.5 = 6; (0.5 - 0.25) / 0.25
        (3, Outcome(-0.9, 1.0)),
        "pick 5",
        # trial 4 would report at 13: cut off, and nobody is told
    ]
    assert run.states[-1] == "interrupted"


def test_the_measured_values_of_the_answer_are_kept() -> None:
    table = table_of(curve([0.7], [0.2]))
    best = replay(table, "none").stopper.best
    assert best is not None
    assert (best.value, best.constraints) == (0.7, {"eod": Estimate(0.2)})
    unmeasured = table_of(
        curve([0.7], [nan]),
        constraints=[TableConstraint("eod", upper=0.25, sparse=True)],
    )
    nearest = replay(unmeasured, "none").stopper.nearest_miss
    assert nearest is not None
    assert nearest.constraints == {"eod": FailedCheck("not recorded")}
