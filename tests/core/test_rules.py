"""The rules one by one, on examples small enough to work out by hand."""

from __future__ import annotations

import contextlib
import math
import pickle
import warnings

import pytest

from acetune.core.errors import ReportError
from acetune.core.goals import Constraint, FailedCheck
from acetune.core.outcome import Outcome, outcome
from acetune.policies import ACE, ASHA, NoStopping, Policy
from acetune.policies.stopper import RepeatedReportWarning, Stopper, StopperTrial

NAN = math.nan


def study(policy: Policy | None = None, confirm_top: int = 1) -> Stopper:
    """Minimises under ``g <= 1``."""
    return Stopper(
        objective="loss",
        mode="min",
        constraints=[Constraint("g", upper=1.0)],
        policy=policy or ACE(interval=1),
        confirm_top=confirm_top,
    )


def told(stopper: Stopper, trial: StopperTrial) -> Outcome:
    return outcome(trial.record, stopper.history)


def with_best(policy: Policy, loss: float) -> Stopper:
    """A study in which a valid checkpoint of this loss is known."""
    stopper = study(policy)
    stopper.start("incumbent", 50).observe(50, loss, {"g": 0.0})
    assert stopper.history.gate == loss
    return stopper


# -- the cut -------------------------------------------------------------------------------------


def test_a_quarter_stops_nobody_among_three_and_the_worst_of_four() -> None:
    stopper = study()
    stops = [stopper.start(f"t{loss}", 9).observe(1, float(loss)).stop for loss in range(5)]
    assert stops == [False, False, False, True, True]


def test_a_tie_counts_for_the_current_trial() -> None:
    stopper = study()
    stops = [stopper.start(f"t{i}", 9).observe(1, 0.5).stop for i in range(8)]
    assert not any(stops)


def test_ties_share_the_better_rank() -> None:
    stopper = study()
    ranks = [stopper.start(f"t{i}", 9).observe(1, v).rank for i, v in enumerate((0.5, 0.1, 0.5))]
    assert ranks == [1, 1, 2]


def test_a_share_that_should_be_whole_is_not_lost_to_rounding() -> None:
    """0.29 * 100 is 28.999999999999996 in floating point; 29 of 100 are cut all the same."""
    stopper = study(ACE(truncation=0.29, interval=1))
    for i in range(99):
        stopper.start(f"t{i}", 9).observe(1, float(i))
    decision = stopper.start("t", 9).observe(1, 70.5)
    assert (decision.rank, decision.of, decision.stop) == (72, 100, True)


def test_strata_are_ranked_apart() -> None:
    stopper = study(ACE(interval=1, gate=False))
    for i in range(4):
        stopper.start(f"valid-{i}", 9).observe(1, 0.0, {"g": 0.0})
    worst = stopper.start("worst", 9)
    assert not worst.observe(1, 9.0, {"g": 5.0}).stop
    assert stopper.start("unchecked", 9).observe(1, 9.0).of == 1


def test_invalid_reports_are_ranked_by_violation_before_loss() -> None:
    stopper = study(ACE(interval=1, gate=False))
    ranks = []
    for i, (loss, g) in enumerate([(0.1, 3.0), (0.9, 2.0), (0.8, 2.0)]):
        ranks.append(stopper.start(f"t{i}", 9).observe(1, loss, {"g": g}).rank)
    assert ranks == [1, 1, 1]
    assert stopper.start("t", 9).observe(1, 0.0, {"g": FailedCheck("raised")}).rank == 4


def test_only_equal_steps_compare() -> None:
    stopper = study()
    for i in range(4):
        stopper.start(f"t{i}", 9).observe(1, 0.0)
    assert stopper.start("late", 9).observe(2, 9.0).of == 1


def test_a_stopped_report_stays_in_the_ranking() -> None:
    stopper = study(ACE(interval=1, stopping="first-violation"))
    assert stopper.start("a", 9).observe(1, 0.0, {"g": 2.0}).stop
    assert stopper.start("b", 9).observe(1, 0.0, {"g": 3.0}).of == 2


# -- the gate ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("loss", "due"), [(0.4, 1), (0.5, 1), (0.6, None), (NAN, None)])
def test_the_gate_lets_equality_through(loss: float, due: int | None) -> None:
    trial = with_best(ACE(interval=1), 0.5).start("t", 9)
    assert trial.check_due(1, loss) == due


@pytest.mark.parametrize("loss", [0.6, NAN, math.inf])
def test_without_a_gate_everything_is_checked(loss: float) -> None:
    trial = with_best(ACE(interval=1, gate=False), 0.5).start("t", 9)
    assert trial.check_due(1, loss) == 1


def test_a_check_counts_although_the_best_has_moved_meanwhile() -> None:
    stopper = study()
    slow = stopper.start("slow", 9)
    assert slow.check_due(1, 0.5) == 1
    stopper.start("quick", 9).observe(1, 0.1, {"g": 0.0})
    assert slow.check_due(1, 0.5) is None
    assert slow.observe(1, 0.5, {"g": 0.0}).stratum == "valid"


def test_the_gate_compares_with_the_kth_best_trial() -> None:
    stopper = study(confirm_top=2)
    first = stopper.start("first", 9)
    for step, loss in enumerate((0.3, 0.2, 0.1), start=1):
        first.observe(step, loss, {"g": 0.0})
    assert stopper.history.gate == math.inf  # three checkpoints, but one trial
    stopper.start("second", 9).observe(1, 0.5, {"g": 0.0})
    assert stopper.history.gate == 0.5


@pytest.mark.parametrize("gate", [True, False])
def test_a_valid_checkpoint_without_a_finite_objective_is_no_answer(gate: bool) -> None:
    stopper = study(ACE(interval=1, gate=gate))
    assert stopper.start("t", 9).observe(1, NAN, {"g": 0.0}).stratum == "valid"
    assert stopper.best is None
    assert stopper.history.gate == math.inf


# -- one check at the end ------------------------------------------------------------------------


def test_the_best_checkpoint_is_checked_at_the_end_the_earliest_on_ties() -> None:
    stopper = study(ACE(interval="end"))
    trial = stopper.start("t", 4)
    for step, loss in enumerate((0.3, 0.1, 0.1), start=1):
        assert trial.check_due(step, loss) is None
        trial.observe(step, loss)
    assert trial.check_due(4, 0.2) == 2
    trial.observe(4, 0.2, {"g": 0.0})
    assert stopper.best is not None
    assert (stopper.best.step, stopper.best.value) == (2, 0.1)


def test_without_a_snapshot_the_last_step_is_checked_and_judged_by_its_own_loss() -> None:
    stopper = with_best(ACE(interval="end"), 0.25)
    trial = stopper.start("t", 2)
    trial.observe(1, 0.1)
    assert trial.check_due(2, 0.2, snapshot=False) == 2
    assert trial.check_due(2, 0.3, snapshot=False) is None
    trial.observe(2, 0.2, {"g": 0.0}, checked_step=2)
    assert stopper.best is not None
    assert (stopper.best.step, stopper.best.value) == (2, 0.2)


def test_the_last_report_is_ranked_by_its_own_loss() -> None:
    stopper = study(ACE(interval="end"))
    for name, losses in {"a": (0.1, 0.9), "b": (0.5, 0.5)}.items():
        trial = stopper.start(name, 2)
        trial.observe(1, losses[0])
        decision = trial.observe(2, losses[1], {"g": 0.0})
    assert decision.rank == 1  # 0.5 before 0.9, although 0.1 is what was checked


def test_a_trial_that_ends_by_itself_is_still_checked() -> None:
    trial = study(ACE(interval="end")).start("t", 9)
    trial.observe(1, 0.1)
    trial.observe(2, 0.2)
    assert trial.finish_due() == 1
    assert trial.finish_due(snapshot=False) == 2


def test_a_trial_the_policy_stops_is_not_checked() -> None:
    stopper = study(ACE(interval="end", truncation=1.0))
    trial = stopper.start("t", 9)
    assert trial.observe(1, 0.1).stop
    assert trial.finish_due() is None


@pytest.mark.parametrize("ending", ["fail", "interrupt"])
def test_a_trial_that_did_not_end_by_itself_is_not_checked(ending: str) -> None:
    trial = study(ACE(interval="end")).start("t", 9)
    trial.observe(1, 0.1)
    getattr(trial, ending)("power cut")
    assert trial.finish_due() is None


def test_an_attempt_checked_once_at_its_end_is_so_whatever_it_has_inherited() -> None:
    """The first attempt is checked at every step, the second, now that costs are known, once."""
    stopper = study(ACE())
    first = stopper.start("t")
    assert first.interval == 1
    first.observe(1, 0.5, {"g": 2.0}, primary_cost_s=1.0, constraint_cost_s=1000.0)
    second = stopper.start("t", 9, resumed_from=1)
    assert second.interval == 9
    second.observe(2, 0.1)
    assert second.finish_due() == 2


# -- once ----------------------------------------------------------------------------------------


def test_the_same_report_again_gets_the_same_decision() -> None:
    stopper = study()
    trial = stopper.start("t", 9)
    first = trial.observe(1, 0.5, {"g": 0.0})
    stopper.start("u", 9).observe(1, 0.1, {"g": 0.0})
    again = trial.observe(1, 0.5, {"g": 0.0})
    assert (again.stop, again.stratum, again.rank, again.of) == (
        first.stop,
        first.stratum,
        first.rank,
        first.of,
    )
    assert stopper.history.reports == 2


@pytest.mark.parametrize(
    ("value", "g"), [(0.4, 0.5), (0.5, 0.25), (0.5, 2.0), (0.5, NAN), (NAN, 0.5)]
)
def test_other_values_get_the_recorded_decision_and_a_warning(value: float, g: float) -> None:
    trial = study().start("t", 9)
    first = trial.observe(1, 0.5, {"g": 0.5})
    with pytest.warns(RepeatedReportWarning, match="'t' reported step 1 again"):
        assert trial.observe(1, value, {"g": g}).stratum == first.stratum


def test_minus_one_and_minus_two_are_other_values() -> None:
    """Python hashes them alike."""
    trial = study().start("t", 9)
    trial.observe(1, 0.5, {"g": -1.0})
    with pytest.warns(RepeatedReportWarning):
        trial.observe(1, 0.5, {"g": -2.0})


def test_a_lower_step_never_reported_is_an_error() -> None:
    trial = study().start("t", 9)
    trial.observe(3, 0.5)
    with pytest.raises(ReportError, match="step 2 after step 3"):
        trial.observe(2, 0.5)


@pytest.mark.parametrize(
    "bad",
    [
        {"step": 0},
        {"step": True},
        {"step": 1.5},
        {"step": 10},
        {"value": "0.5"},
        {"value": None},
        {"constraints": {}},
        {"constraints": {"h": 0.5}},
        {"constraints": {"g": None}},
        {"constraints": {"g": 0.5}, "checked_step": 7},
        {"primary_cost_s": -1.0},
        {"primary_cost_s": NAN},
        {"constraint_cost_s": math.inf},
        {"constraint_cost_s": {"h": 1.0}},
        {"snapshot_cost_s": -1.0},
        {"snapshot_cost_s": NAN},
    ],
)
def test_a_refused_report_changes_nothing(bad: dict[str, object]) -> None:
    stopper = with_best(ACE(interval=1), 0.1)
    trial = stopper.start("t", 9)
    before = pickle.dumps(stopper.history)
    with pytest.raises(ReportError):
        trial.observe(**{"step": 1, "value": 0.5, **bad})  # type: ignore[arg-type]
    assert pickle.dumps(stopper.history) == before


@pytest.mark.parametrize(
    "bad",
    [
        {"constraints": {}},
        {"constraints": {"g": None}},
        {"checked_step": 7},
        {"constraint_cost_s": -1.0},
        {"snapshot_cost_s": NAN},
    ],
)
def test_a_refused_end_changes_nothing(bad: dict[str, object]) -> None:
    stopper = study(ACE(interval="end"))
    trial = stopper.start("t", 9)
    trial.observe(1, 0.5)
    before = pickle.dumps(stopper.history)
    with pytest.raises(ReportError):
        trial.finish(**{"constraints": {"g": 0.5}, **bad})  # type: ignore[arg-type]
    assert pickle.dumps(stopper.history) == before


# -- attempts ------------------------------------------------------------------------------------


def test_a_new_attempt_replaces_the_old_one_in_the_ranking() -> None:
    stopper = study()
    stopper.start("t", 9).observe(1, 0.5)
    again = stopper.start("t", 9)
    assert stopper.start("u", 9).observe(1, 0.9).of == 1
    assert again.observe(1, 0.7).of == 2


def test_an_attempt_that_goes_on_from_a_checkpoint_keeps_what_came_before_it() -> None:
    stopper = study()
    old = stopper.start("t", 9)
    for step in (1, 2, 3):
        old.observe(step, 0.5)
    again = stopper.start("t", 9, resumed_from=2)
    other = stopper.start("u", 9)
    assert [other.observe(step, 0.9).of for step in (1, 2, 3)] == [2, 2, 1]
    assert again.observe(2, 0.5).rank == 1
    assert again.observe(3, 0.5).of == 2


def test_what_was_found_valid_stays_found() -> None:
    stopper = study()
    old = stopper.start("t", 9)
    old.observe(1, 0.5, {"g": 0.0}, primary_cost_s=1.0, constraint_cost_s=2.0)
    again = stopper.start("t", 9)
    assert stopper.history.gate == 0.5
    assert stopper.history.costs.ratio == 2.0
    assert stopper.best is not None
    assert stopper.best.attempt == 1
    again.finish()
    assert told(stopper, again) == Outcome(0.5, 0.0)


def test_a_late_report_of_a_replaced_attempt_is_not_ranked() -> None:
    stopper = study()
    old = stopper.start("t", 9)
    stopper.start("t", 9).observe(1, 0.5)
    with contextlib.suppress(ReportError):
        old.observe(1, 0.5)
    assert stopper.start("u", 9).observe(1, 0.9).of == 2


def test_a_late_end_of_a_replaced_attempt_does_not_count_its_trial_twice() -> None:
    stopper = study(ACE(interval="end"), confirm_top=2)
    old = stopper.start("t", 9)
    old.observe(1, 0.5)
    again = stopper.start("t", 9)
    again.observe(1, 0.4)
    with contextlib.suppress(ReportError):
        old.finish({"g": 0.0}, checked_step=1)
    again.finish({"g": 0.0}, checked_step=1)
    assert stopper.history.gate == math.inf  # one valid trial, and the second best is asked for


@pytest.mark.parametrize("state", ["finished", "stopped"])
def test_an_ended_trial_does_not_start_again(state: str) -> None:
    stopper = study(ACE(interval=1, truncation=1.0))
    trial = stopper.start("t", 1 if state == "finished" else 2)
    trial.observe(1, 0.5)
    assert trial.state == state
    with pytest.raises(ReportError, match=f"'t' has {state}"):
        stopper.start("t", 2)


# -- what the searcher is told -------------------------------------------------------------------


def test_the_best_valid_checkpoint() -> None:
    stopper = study(ACE(interval=1, gate=False))
    trial = stopper.start("t", 3)
    for step, (loss, g) in enumerate([(0.5, 0.0), (0.3, 1.0), (0.1, 2.0)], start=1):
        trial.observe(step, loss, {"g": g})
    assert told(stopper, trial) == Outcome(0.3, 0.0)


def test_the_least_violating_checkpoint() -> None:
    stopper = study()
    trial = stopper.start("t", 3)
    for step, (loss, g) in enumerate([(0.1, 3.0), (0.4, 2.0), (0.3, 2.0)], start=1):
        trial.observe(step, loss, {"g": g})
    assert told(stopper, trial) == Outcome(0.3, 1.0)


def test_a_failed_check_is_told_as_the_largest_violation_seen() -> None:
    stopper = study()
    other = stopper.start("other", 2)
    other.observe(1, 0.5, {"g": 4.0})
    other.observe(2, 0.5, {"g": 2.0})
    trial = stopper.start("t", 1)
    trial.observe(1, 0.5, {"g": FailedCheck("raised")})
    assert told(stopper, trial) == Outcome(0.5, 3.0)


def test_a_trial_that_could_not_win_is_told_as_if_the_constraint_held() -> None:
    stopper = with_best(ACE(interval=1), 0.1)
    stopper.start("miss", 1).observe(1, 0.1, {"g": 3.0})
    trial = stopper.start("t", 2)
    trial.observe(1, 0.9)
    trial.observe(2, 0.8)
    assert told(stopper, trial) == Outcome(0.8, 0.0)


def test_the_same_where_it_ended_by_itself() -> None:
    stopper = with_best(ACE(interval="end"), 0.1)
    stopper.start("miss", 1).observe(1, 0.1, {"g": 3.0})
    trial = stopper.start("t", 9)
    trial.observe(1, 0.9)
    assert trial.finish_due() is None
    trial.finish()
    assert told(stopper, trial) == Outcome(0.9, 0.0)


def test_the_same_where_no_snapshot_made_the_last_step_the_one_that_counts() -> None:
    stopper = with_best(ACE(interval="end"), 0.1)
    stopper.start("miss", 1).observe(1, 0.1, {"g": 3.0})
    trial = stopper.start("t", 2)
    trial.observe(1, 0.05)
    assert trial.check_due(2, 0.5, snapshot=False) is None
    trial.observe(2, 0.5)
    assert told(stopper, trial) == Outcome(0.05, 0.0)


def test_an_attempt_that_goes_on_could_not_win_with_what_it_inherited() -> None:
    stopper = with_best(ACE(interval=1), 0.1)
    stopper.start("miss", 1).observe(1, 0.1, {"g": 3.0})
    stopper.start("t", 9).observe(1, 0.9)
    again = stopper.start("t", 9, resumed_from=1)
    again.finish()
    assert told(stopper, again) == Outcome(0.9, 0.0)


@pytest.mark.parametrize(("seen", "median"), [((), 0.0), ((3.0,), 2.0), ((2.0, 5.0), 2.5)])
def test_a_trial_never_due_is_told_with_the_median_violation(
    seen: tuple[float, ...], median: float
) -> None:
    stopper = study(ACE(interval="end", truncation=1.0))
    for i, g in enumerate(seen):
        stopper.start(f"miss-{i}", 1).observe(1, 0.1, {"g": g})
    trial = stopper.start("t", 9)
    assert trial.observe(1, 0.5).stop
    assert told(stopper, trial) == Outcome(0.5, median)


def test_a_failed_trial_is_a_failure_with_the_largest_violation() -> None:
    stopper = study()
    stopper.start("miss", 1).observe(1, 0.1, {"g": 3.0})
    trial = stopper.start("t", 9)
    trial.observe(1, 0.5)
    trial.fail("out of memory")
    assert told(stopper, trial) == Outcome(None, 2.0, failed=True)


def test_a_failed_trial_with_a_valid_checkpoint_has_an_answer_all_the_same() -> None:
    stopper = study()
    trial = stopper.start("t", 9)
    trial.observe(1, 0.5, {"g": 0.0})
    trial.fail("out of memory")
    assert told(stopper, trial) == Outcome(0.5, 0.0)


def test_a_trial_without_a_finite_objective_is_a_failure() -> None:
    stopper = study()
    trial = stopper.start("t", 1)
    trial.observe(1, NAN)
    assert told(stopper, trial) == Outcome(None, 1.0, failed=True)


def test_the_searcher_never_hears_of_infinity() -> None:
    stopper = study(ACE(interval="end", truncation=1.0))
    for i, g in enumerate((1.6e308, 1.7e308)):
        stopper.start(f"miss-{i}", 1).observe(1, 0.1, {"g": g})
    trial = stopper.start("t", 9)
    trial.observe(1, 0.5)
    assert math.isfinite(told(stopper, trial).violation)


# -- the constraint-blind policies ---------------------------------------------------------------


def test_asha_is_checked_at_rungs_and_at_the_last_step() -> None:
    trial = study(ASHA()).start("t", 20)
    due = []
    for step in range(1, 21):
        due.append(trial.check_due(step, 0.5))
        trial.observe(step, 0.5, {"g": 0.0} if due[-1] else None)
    assert [step for step in due if step] == [1, 4, 16, 20]


def test_without_stopping_the_best_checkpoint_is_checked_at_the_end() -> None:
    trial = study(NoStopping()).start("t", 3)
    due = []
    for step, loss in enumerate((0.5, 0.1, 0.3), start=1):
        due.append(trial.check_due(step, loss))
        trial.observe(step, loss, {"g": 0.0} if due[-1] else None)
    assert due == [None, None, 2]


@pytest.mark.parametrize("policy", [ASHA(constraints="after"), NoStopping(constraints="after")])
def test_after_the_run_means_not_during_it(policy: Policy) -> None:
    trial = study(policy).start("t", 5)
    for step in range(1, 5):
        assert trial.check_due(step, 0.5) is None
        trial.observe(step, 0.5)
    assert trial.check_due(5, 0.5) is None
    assert trial.finish_due() is None


def test_asha_stops_an_objective_that_is_not_finite_at_a_rung_that_holds_a_finite_one() -> None:
    stopper = study(ASHA())
    values = [NAN, NAN, 0.5, NAN, math.inf, 0.4, 0.6]
    stops = [stopper.start(f"t{i}", 9).observe(1, v).stop for i, v in enumerate(values)]
    assert stops == [False, False, False, True, True, False, True]


def test_nothing_is_warned_of_in_an_ordinary_study() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trial = study().start("t", 2)
        trial.observe(1, 0.5, {"g": 0.0})
        trial.observe(2, 0.4, {"g": 0.0})
    assert trial.state == "finished"


def test_what_was_asked_does_not_outlive_what_it_was_asked_of() -> None:
    limits = [Constraint("g", upper=1.0)]
    study = Stopper(objective="loss", mode="min", constraints=limits, policy=ACE(interval="end"))
    trial = study.start("a")
    assert trial.check_due(5, 0.5) is None  # it may be the last step, and nobody has said so
    trial.declare(5)
    trial.observe(5, 0.5)
    assert trial.record.gated_at == 5  # a check was due, and not made


def test_best_losses_that_nobody_asked_for_meanwhile_are_in_order() -> None:
    limits = [Constraint("g", upper=1.0)]
    study = Stopper(
        objective="loss",
        mode="min",
        constraints=limits,
        policy=ACE(truncation=0.0, interval=1),
        confirm_top=2,
    )
    trials = [study.start(name, 50) for name in "abc"]
    best: dict[int, float] = {}
    for step in range(1, 21):
        for place, trial in enumerate(trials):
            loss = ((step * 7 + place * 5) % 23) / (step + place + 1)
            trial.observe(step, loss, {"g": 0.0})
            best[place] = min(loss, best.get(place, math.inf))
            known = sorted(best.values())
            assert study.history.gate == (known[1] if len(known) > 1 else math.inf)
            if step % 6 == 0:
                assert [study.history.kth_best(k + 1) for k in range(len(known))] == known
