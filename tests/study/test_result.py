"""What a study says at its end: the answer, the table of trials, where the time went, what if."""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

import acetune
from acetune import ACE, ACE2, Constraint, Estimate, NoStopping, StudyResult, Trial
from acetune.core.errors import GoalError, ReportError
from acetune.core.goals import Goals, Objective
from acetune.core.reason import BUDGET_SPENT, NO_REASON
from acetune.policies import Policy
from acetune.report._content import content
from acetune.study.opening import describe_study
from acetune.study.reader import StudyView
from acetune.study.store import Store
from run.helpers import by_hand, g_of, report_rows, rows, tune

EVERY_STEP = ACE(truncation=0, interval=1, gate=False)
GATED = ACE(truncation=0, interval=1)
LIMIT = Constraint("g", upper=2, check=g_of)

#            (loss, g) at steps 1, 2, 3
TABLE = [
    [(9.0, 1.0), (5.0, 2.0), (4.0, 3.0)],
    [(8.0, 1.0), (6.0, 4.0), (3.0, 5.0)],
    [(7.0, 6.0), (2.0, 2.5), (1.0, 9.0)],
]


@pytest.fixture(scope="module")
def table_result(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    return run(tmp_path_factory.mktemp("table") / "study.db", TABLE)


def run(
    study: Path, table: list[list[tuple[float, float]]], policy: ACE = EVERY_STEP
) -> StudyResult:
    return tune(by_hand(table), study, xs=range(len(table)), policy=policy, constraints=[LIMIT])


# -- the answer ----------------------------------------------------------------------------------


def test_the_best_is_a_checkpoint_and_not_a_trial(study: Path) -> None:
    result = run(study, TABLE)

    best = result.best
    assert best is not None and result.outcome == "feasible"
    assert (best.trial, best.attempt, best.step, best.value) == (1, 1, 2, 5.0)
    assert best.constraints == {"g": Estimate(2.0)} and best.violation == 0
    assert best.params == {"x": 0.0}
    assert best.status == "unconfirmed" and best.load() == (1, 2, 2.0)
    assert [(found.trial, found.value) for found in result.candidates] == [(1, 5.0), (2, 8.0)]
    miss = result.nearest_miss
    assert miss is not None
    assert (miss.trial, miss.step, miss.violation, miss.value) == (3, 2, 0.25, 2.0)
    assert json.loads(result.info["policy"]) == {"name": "ACE", **EVERY_STEP.options()}


def test_none_feasible_is_an_answer_with_the_nearest_miss(study: Path) -> None:
    result = run(study, [[(1.0, 9.0), (1.0, 3.0)], [(5.0, 2.5), (4.0, 2.5)]])

    assert result.best is None and result.outcome == "none feasible" and result.candidates == []
    miss = result.nearest_miss
    assert miss is not None and (miss.trial, miss.step, miss.value) == (2, 2, 4.0)
    with pytest.raises(ReportError, match="no model was kept of trial 2 step 2"):
        miss.load()
    text = str(result)
    assert "none feasible  none of the 4 checkpoints that were checked qualifies" in text
    assert "nearest miss" in text and "g 2.5 (limit <= 2)" in text and "step 2 of 2" in text
    assert "is the limit right" not in text  # it is near


def test_nothing_reported_is_an_answer_too(study: Path) -> None:
    def train(trial: Trial) -> None:
        raise ValueError("nothing")

    result = tune(train, study, constraints=[LIMIT])

    assert result.best is None and result.nearest_miss is None
    assert result.ledger.reports == 0 and result.ledger.check_share == 0
    assert result.reasons == {"ValueError: nothing": 1}
    assert list(result.trials["state"]) == ["failed"]
    assert "none feasible" in str(result)


def test_a_maximised_objective_and_a_lower_limit_are_shown_as_people_think_of_them(
    study: Path,
) -> None:
    result = tune(
        by_hand([[(0.7, 0.9), (0.8, 0.5)], [(0.9, 0.1), (0.75, 0.6)]]),
        study,
        xs=[1, 2],
        mode="max",
        policy=EVERY_STEP,
        constraints=[Constraint("g", lower=0.5, check=g_of)],
    )

    best = result.best
    assert best is not None and (best.trial, best.step, best.value) == (1, 2, 0.8)
    miss = result.nearest_miss
    assert miss is not None and miss.value == 0.9 and miss.violation == pytest.approx(0.8)
    assert "g 0.5 (limit >= 0.5)" in str(result)
    assert list(result.trials["best_objective"]) == [0.8, 0.9]


def test_a_study_read_from_its_file_is_the_same(table_result: StudyResult) -> None:
    assert acetune.load(table_result.study) == table_result
    assert acetune.load(str(table_result.study)).best == table_result.best


def test_the_distance_to_the_limit_is_told_in_standard_errors(study: Path) -> None:
    def train(trial: Trial) -> None:
        trial.report(1.0, constraints={"g": lambda: Estimate(0.20, 0.02)})

    constraint = Constraint("g", upper=0.25, margin_se=1.0)
    result = tune(train, study, constraints=[constraint], policy=EVERY_STEP)

    assert result.best is not None and result.best.constraints == {"g": Estimate(0.20, 0.02)}
    text = str(result)
    assert "unconfirmed: nothing was measured on fresh data" in text
    assert "; g is 2.5 standard errors below its limit" in text
    # there is none to go on with
    assert "next           only a model that was kept can be tested: report models (trial." in text


@pytest.mark.parametrize(
    ("constraint", "words"),
    [
        (Constraint("kb", upper=64), "kb is 4.5 below its limit (7%)"),
        (Constraint("kb", lower=59.5), "kb is at its limit"),
        (Constraint("kb", lower=0), "kb is 60 above its limit\n"),
    ],
)
def test_an_exact_value_has_a_distance_and_no_standard_error(
    study: Path, constraint: Constraint, words: str
) -> None:
    result = tune(
        lambda trial: trial.report(1.0, constraints={"kb": lambda: 59.5}),
        study,
        constraints=[constraint],
        policy=EVERY_STEP,
    )
    assert words in str(result) and "standard error" not in str(result)


def test_parameters_come_with_the_step_to_stop_at(table_result: StudyResult) -> None:
    assert table_result.best is not None and table_result.best.total_steps == 3
    text = str(table_result)
    assert "g 2 (limit <= 2); trial 1, step 2 of 3\n" in text
    assert "x=0; stop at step 2 of 3, or use the model that was kept\n" in text


def test_the_last_step_needs_no_such_word(study: Path) -> None:
    result = run(study, [[(9.0, 1.0), (5.0, 2.0)]])
    assert "parameters     x=0\n" in str(result) and "step 2 of 2" in str(result)


def test_large_numbers_have_their_digits(study: Path) -> None:
    limit = Constraint("bytes", upper=60_000)
    result = tune(
        lambda trial: trial.report(1234567.0, constraints={"bytes": lambda: 40171}),
        study,
        constraints=[limit],
        policy=EVERY_STEP,
    )
    assert "loss 1,234,567, bytes 40,171 (limit <= 60,000)" in str(result)
    assert "1 check in 1 report)" in str(result)
    assert str(result.what_if(bytes=50_000)).startswith("bytes at 50,000: 1,234,567 (trial 1")


# -- why there is no answer ----------------------------------------------------------------------


def test_objectives_that_are_no_numbers_are_why_nothing_was_checked(study: Path) -> None:
    result = run(study, [[(math.nan, 1.0)] * 3] * 2, GATED)
    assert result.ledger.checks == 0 and result.finite_reports == 0
    words = "nothing could be checked: loss was not a finite number in any of 6 reports"
    assert words in str(result)


def test_a_limit_far_away_is_asked_about(study: Path) -> None:
    result = run(study, [[(1.0, 90.0), (1.0, 30.0)], [(5.0, 25.0), (4.0, 25.0)]])
    text = str(result)
    assert "the nearest is far away, with g 25 (limit <= 2): is the limit right?" in text
    assert "ace-beta1" not in text  # everything was checked


def test_where_all_checks_are_far_off_no_more_of_them_are_advised(study: Path) -> None:
    table = [[(1.0, 90.0)] * 4, [(5.0, 25.0)] * 4]
    result = tune(by_hand(table), study, xs=[1, 2], policy=NoStopping(), constraints=[LIMIT])
    assert (result.ledger.checks, result.ledger.reports) == (2, 8)
    assert "with g 25 (limit <= 2): is the limit right?" in str(result)
    assert "ace-beta1" not in str(result)


def test_where_few_reports_were_checked_a_policy_is_named(study: Path) -> None:
    table = [[(1.0, 90.0)] * 4, [(5.0, 2.5)] * 4]
    result = tune(by_hand(table), study, xs=[1, 2], policy=NoStopping(), constraints=[LIMIT])
    assert result.ledger.checks == 2
    text = str(result)
    assert "none of the 2 checkpoints that were checked qualifies; 8 were reported" in text
    assert "policy='ace-beta1' (check at every step)" in text


@dataclass(frozen=True)
class EveryInterval(NoStopping):
    """A policy of somebody's own whose option is called as one of ACE's, and means other things."""

    interval: int = 1


@pytest.mark.parametrize(
    ("policy", "named"),
    [(EveryInterval(), True), (ACE2(spacing=0.0, defer=False, head_start=0.0), False)],
    ids=repr,
)
def test_another_policy_is_named_unless_a_check_was_due_at_every_step(
    policy: Policy, named: bool, study: Path
) -> None:
    table = [[(1.0, 2.5)] + [(math.nan, 90.0)] * 3] * 2  # nothing else is worth a check
    result = tune(by_hand(table), study, xs=[1, 2], policy=policy, constraints=[LIMIT])
    assert 2 * result.ledger.checks < result.ledger.reports
    assert ("policy='ace-beta1' (check at every step)" in str(result)) == named
    assert result.due_at_every_step == (not named)


@pytest.mark.parametrize(
    ("states", "startup_s", "words"),
    [
        ([], None, "the first report, while the workers were starting; raise time_budget_s"),
        (["interrupted"] * 2, None, "first report, while 2 trials set up the training"),
        (["interrupted"] * 2, 0.8, "2 trials took 1.6 s to set up and did not come to the end"),
    ],
)
def test_a_budget_that_is_gone_before_the_first_report_says_why(
    states: list[str], startup_s: float | None, words: str, study: Path
) -> None:
    goals = Goals(Objective("loss"), (LIMIT,))
    settings = {"time_budget_s": 1.5, "confirm_top": 1, "keep_models": 3}
    store = Store.create(study, describe_study(goals, [], EVERY_STEP, {}, settings))
    with store.transaction():
        for number, state in enumerate(states, 1):
            store.add_trial(number, 1, {}, 0.0, 0)
            store.set_plan(number, 1, None, None, None, NO_REASON, startup_s)
            store.end_trial(number, 1, state, BUDGET_SPENT, 1.0)
        store.end_session(store.add_session(0.0, "here"), BUDGET_SPENT)
    store.close()
    result = acetune.load(study)
    assert "nothing was reported: the time budget of 1.5 s was spent before" in str(result)
    assert words in str(result)
    with StudyView(study) as view:
        assert words in content(view, figures=False)["answer"]["words"]


def test_waiting_for_others_stands_in_the_ledger(study: Path) -> None:
    result = run(study, TABLE)
    assert result.ledger.waiting_s == 0 and "\nwaiting " not in str(result)
    with contextlib.closing(Store.open(study)) as store, store.transaction():
        store.add_wait(1, 1, 60.0)
        store.add_wait(1, 1, 30.0)
        store.add_wait(2, 1, 2.0)
    result = acetune.load(study)
    assert result.ledger.waiting_s == 92.0
    assert "waiting        1 min 32 s on workers, so that checks could be measured" in str(result)
    with StudyView(study) as view:
        page = content(view, figures=False)
    assert {"waiting", "training"} <= {row["label"] for row in page["numbers"]}


def test_while_it_runs_nothing_is_lost(study: Path) -> None:
    result = run(study, [[(1.0, 90.0), (1.0, 30.0)]])
    with contextlib.closing(sqlite3.connect(study)) as db, db:
        db.execute("UPDATE sessions SET ended = NULL")
    text = str(acetune.load(study))
    assert "none feasible  none yet: 2 checks made so far, in 2 reports" in text
    assert "none yet" not in str(result)


# -- the table of trials -------------------------------------------------------------------------


def test_the_table_of_trials(table_result: StudyResult) -> None:
    frame = table_result.trials

    assert list(frame.index) == [1, 2, 3]
    assert list(frame["state"]) == ["finished"] * 3 and list(frame["attempts"]) == [1, 1, 1]
    assert list(frame["last_step"]) == [3] * 3 and list(frame["total_steps"]) == [3] * 3
    assert list(frame["reports"]) == [3] * 3 and list(frame["checks"]) == [3] * 3
    assert list(frame["best_objective"]) == [4.0, 3.0, 1.0]
    assert list(frame["best_valid_objective"])[:2] == [5.0, 8.0]
    assert math.isnan(frame["best_valid_objective"][3])
    assert list(frame["least_violation"]) == [0.0, 0.0, 0.25]
    assert list(frame["param.x"]) == [0.0, 1.0, 2.0]
    # of the best valid checkpoint, and of the nearest miss of trial 3
    assert list(frame["constraint.g"]) == [2.0, 1.0, 2.5] and list(frame["stderr.g"]) == [0.0] * 3
    assert list(frame["training_s"]) == [6.0] * 3


# -- where the time went -------------------------------------------------------------------------


def test_the_ledger_adds_up(study: Path) -> None:
    ledger = run(study, TABLE).ledger

    assert (ledger.reports, ledger.checks) == (9, 9)
    assert ledger.training_s == 9 * 2.0
    assert ledger.checks_s == 9 * 0.5
    assert ledger.check_share == pytest.approx(4.5 / 22.5)
    assert ledger.invalid_s == 3 * 2.5  # trial 3 was never valid
    stored = rows(study, "SELECT sum(bytes) AS n FROM checkpoints")[0]["n"]
    files = [path for path in study.parent.glob("**/model-*/*") if path.is_file()]
    assert ledger.disk_bytes == stored == sum(path.stat().st_size for path in files)
    assert 0 < ledger.wall_s < 60


def test_the_clock_measures_what_no_cost_was_given_for(study: Path) -> None:
    def train(trial: Trial) -> None:
        time.sleep(0.02)  # set-up
        for _ in trial.steps(3):
            time.sleep(0.03)
            trial.report(1.0, model=0, snapshot=lambda model: time.sleep(0.01))

    def check(model: int) -> float:
        time.sleep(0.05)
        return 0.0

    constraint = Constraint("g", upper=1, check=check)
    ledger = tune(train, study, constraints=[constraint], policy=NoStopping()).ledger

    assert ledger.startup_s >= 0.02 and ledger.training_s >= 0.09
    assert all(row["primary_cost_s"] >= 0.03 for row in report_rows(study))
    # one check, at the end, of the first step: the snapshot of it belongs to the check
    assert ledger.checks == 1 and ledger.checks_s >= 0.06
    assert [row["snapshot_cost_s"] >= 0.01 for row in report_rows(study)] == [True, False, False]


def test_costs_of_each_constraint_can_be_given(study: Path) -> None:
    def train(trial: Trial) -> None:
        trial.report(1.0, model=0, constraint_cost_s={"g": 3.0, "h": 4.0}, primary_cost_s=1)
        trial.report(0.5, model=0, constraint_cost_s=5.0)

    constraints = [Constraint(name, upper=1, check=lambda model: 0) for name in ("g", "h")]
    tune(train, study, constraints=constraints, policy=EVERY_STEP)

    found = rows(study, 'SELECT seq, "constraint" AS name, cost_s FROM checks ORDER BY seq, name')
    assert [(row["name"], row["cost_s"]) for row in found] == [
        ("g", 3.0),
        ("h", 4.0),
        ("g", 2.5),
        ("h", 2.5),
    ]


def test_extra_metrics_are_recorded(study: Path) -> None:
    def train(trial: Trial) -> None:
        trial.report(loss=1.0, accuracy=0.5, epoch_s=2)

    tune(train, study)

    assert report_rows(study)[0]["metrics"] == '{"accuracy": 0.5, "epoch_s": 2.0}'


def test_reasons_are_counted_without_their_numbers(study: Path) -> None:
    table = [[(float(loss), 9.0), (float(loss), 9.0)] for loss in (1, 2, 3, 4, 5, 6, 7, 8)]
    result = run(study, table, ACE(truncation=0.5, interval=1))

    assert result.counts["stopped"] > 1
    assert list(result.reasons.values()) == [result.counts["stopped"]]
    assert "worst 50% of the invalid reports at its step" in next(iter(result.reasons))


# -- what if -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "answer"),
    [(0.5, None), (1.0, (2, 1)), (2.0, (1, 2)), (2.5, (3, 2)), (4.0, (3, 2)), (9.0, (3, 3))],
)
def test_what_if_knows_everything_that_was_checked(
    table_result: StudyResult, limit: float, answer: tuple[int, int] | None
) -> None:
    found = table_result.what_if(g=limit)

    assert (None if found.best is None else (found.best.trial, found.best.step)) == answer
    assert found.unchecked_better == 0 and "nothing better unchecked" in str(found)
    assert found.limits == {"g": limit}


def test_what_if_says_how_much_it_does_not_know(study: Path) -> None:
    """With the gate, worse checkpoints than the best valid one are not checked."""
    result = run(study, [[(5.0, 1.0), (4.0, 3.0)], [(9.0, 0.5), (8.0, 0.5)], [(4.5, 3.0)]], GATED)
    assert [row["checked_step"] for row in report_rows(study)] == [1, 2, None, None, 1]

    looser = result.what_if(g=3.0)
    assert looser.best is not None and looser.best.value == 4.0 and looser.unchecked_better == 0
    same = result.what_if(g=1.0)
    assert same.best is not None and same.best.value == 5.0 and same.unchecked_better == 0
    tighter = result.what_if(g=0.7)
    assert tighter.best is None and tighter.unchecked_better == 2
    assert "perhaps better: 2 checkpoints were never fully checked" in str(tighter)
    assert "nothing recorded qualifies" in str(tighter)


def test_what_if_counts_a_checkpoint_checked_at_the_end_as_checked(study: Path) -> None:
    table = [[(5.0, 1.0), (3.0, 2.0), (4.0, 9.0)], [(2.0, 7.0), (6.0, 7.0)]]
    result = tune(by_hand(table), study, xs=[1, 2], policy=NoStopping(), constraints=[LIMIT])
    assert [row["checked_step"] for row in report_rows(study)] == [None, None, 2, None, 1]

    assert result.what_if(g=2.0).unchecked_better == 0
    loose = result.what_if(g=8.0)
    assert loose.best is not None and (loose.best.trial, loose.best.step) == (2, 1)
    assert result.what_if(g=1.5).unchecked_better == 3  # 5.0, 4.0 and 6.0


def test_what_if_respects_margins_scales_and_the_other_constraints(study: Path) -> None:
    def train(trial: Trial) -> None:
        for value, g, h in ((3.0, 0.20, 1.0), (2.0, 0.24, 1.0), (1.0, 0.10, 9.0)):
            trial.report(value, constraints={"g": (g, 0.02), "h": h})

    constraints = [Constraint("g", upper=0.23, margin_se=1.0), Constraint("h", upper=2)]
    result = tune(train, study, constraints=constraints, policy=EVERY_STEP)

    assert result.best is not None and result.best.value == 3.0
    assert (best := result.what_if(g=0.25).best) is not None and best.value == 3.0
    assert (best := result.what_if(g=0.265).best) is not None and best.value == 2.0
    assert (best := result.what_if(h=9).best) is not None and best.value == 1.0
    assert result.what_if(g=0.1, h=9).best is None


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"eod": 1.0}, r"no constraint 'eod' in this study; it has \['g'\]"),
        ({"g": math.nan}, "limit of 'g' must be a finite number, got nan"),
        ({"g": "low"}, "limit of 'g' must be a finite number, got 'low'"),
    ],
)
def test_what_if_of_nonsense(
    table_result: StudyResult, limits: dict[str, float], message: str
) -> None:
    with pytest.raises(GoalError, match=message):
        table_result.what_if(**limits)
