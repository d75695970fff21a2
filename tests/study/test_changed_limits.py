"""A study goes on under other limits: what was measured is judged anew, and that is noted."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import acetune
from acetune import ACE, Adaptive, Constraint, Estimate, Policy, Stopper, StudyResult, Trial
from acetune.core.errors import GoalError, StudyChangedError
from acetune.report.html import write_report
from acetune.study.coordinator import StudyCoordinator
from acetune.study.opening import open_study
from acetune.study.reader import StudyView
from acetune.study.store import Store, reading
from acetune.study.summary import summary_rows
from plain_study import read_result
from run.helpers import (
    Events,
    InOrder,
    by_hand,
    g_of,
    output_of,
    read_lines,
    report_rows,
    rows,
    script,
    trial_rows,
    tune,
    wait_for,
)

EVERY_STEP = ACE(truncation=0, interval=1, gate=False)
HARD = ACE(truncation=0, interval=1, gate=False, stopping="first-violation")
# loss and g of four trials at three steps: the best ones break most
TABLE = [
    [(9.0, 1.0), (8.0, 1.1), (7.0, 1.2)],
    [(8.0, 1.6), (6.0, 1.7), (4.0, 1.8)],
    [(5.0, 2.4), (3.0, 2.5), (2.0, 2.6)],
    [(4.0, 3.5), (2.0, 3.6), (1.0, 3.7)],
]


def limit(upper: float, **options: Any) -> list[Constraint]:
    return [Constraint("g", upper=upper, check=g_of, **options)]


def run(study: Path, upper: float = 2.0, **options: Any) -> StudyResult:
    defaults: dict[str, Any] = {
        "constraints": limit(upper),
        "policy": EVERY_STEP,
        "xs": range(4),
        "keep_models": 4,
    }
    return tune(by_hand(TABLE), study, **(defaults | options))


def under(study: Path, upper: float, **options: Any) -> StudyResult:
    return run(study, upper, on_changed_limit="judge_again", **options)


def resumable(table: Sequence[Sequence[tuple[float, float]]]) -> Callable[[Trial], None]:
    """As ``by_hand``, and each trial can go on from its last step."""

    def train(trial: Trial) -> None:
        its = table[trial.number - 1]
        begun = int((trial.checkpoint / "at").read_text()) if trial.checkpoint is not None else 0
        for step in trial.steps(len(its)):
            assert step > begun, "it goes on after the step that was saved"
            loss, g = its[step - 1]
            save = lambda folder, at=step: (folder / "at").write_text(str(at))  # noqa: E731
            trial.report(loss, model=(trial.number, step, g), snapshot=tuple, checkpoint=save)

    return train


def contents(study: Path) -> dict[str, list[dict[str, Any]]]:
    """All that a study has, but for its sessions and the time it took."""
    names = rows(study, "SELECT name FROM sqlite_master WHERE type = 'table'")
    tables = [row["name"] for row in names if row["name"] != "sessions"]
    return {name: rows(study, f"SELECT * FROM {name}") for name in tables}


def test_an_answer_without_a_model_says_how_to_make_one(study: Path) -> None:
    run(study, keep_models=1)
    loosened = under(study, 3.0, keep_models=1)
    best = loosened.best
    assert best is not None and best.trial == 3 and best.checkpoint is None
    (model,) = [text for name, text in summary_rows(loosened) if name == "model"]
    assert model == "none was kept under the earlier limit; train these parameters for 3 steps"


# -- asked for, or refused -----------------------------------------------------------------------


def test_another_limit_is_refused_with_the_ways_out(study: Path) -> None:
    run(study)
    before = study.read_bytes()
    with pytest.raises(StudyChangedError) as caught:
        run(study, 3.0)
    text = str(caught.value)
    for words in (
        "g: limit was <= 2.0, now <= 3.0",
        'on_changed_limit="judge_again"',
        "--on-changed-limit judge-again",
        "--limit",
        "what_if(g=3.0)",
        "study=...",
    ):
        assert words in text
    assert study.read_bytes() == before


@pytest.mark.parametrize(
    "constraints",
    [
        [Constraint("g", lower=2, check=g_of)],
        [Constraint("h", upper=2, check=g_of)],
        [Constraint("g", upper=2, check=g_of, exact=True)],
        [*limit(3), Constraint("h", upper=2, check=g_of)],
        [*limit(3), Constraint("c", upper=1, on="config", check=lambda params: 0)],
    ],
    ids=["side", "name", "exact", "one more", "on the configuration"],
)
def test_other_constraints_are_another_study(study: Path, constraints: list[Constraint]) -> None:
    run(study)
    with pytest.raises(StudyChangedError) as caught:
        under(study, 2.0, constraints=constraints)
    assert "judge_again" not in str(caught.value)
    assert rows(study, "SELECT * FROM limit_changes") == []


def test_a_limit_on_the_configuration_stays(study: Path) -> None:
    def both(upper: float) -> list[Constraint]:
        size = Constraint("size", upper=upper, on="config", check=lambda params: params["x"])
        return [*limit(2.0), size]

    run(study, constraints=both(9))
    with pytest.raises(StudyChangedError, match=r"size: limit was <= 9\.0, now <= 8\.0"):
        under(study, 2.0, constraints=both(8))


def test_a_tuner_of_ray_says_that_it_cannot(study: Path) -> None:
    run(study)
    with reading(study) as store:
        described = store.study()
    described["constraints"] = described["constraints"].replace("2.0", "3.0")
    with pytest.raises(StudyChangedError, match="one of a Tuner cannot") as caught:
        open_study(study, described)
    assert "judge_again" not in str(caught.value)


def test_a_wrong_option_is_refused(study: Path) -> None:
    with pytest.raises(GoalError, match=r"must be .refuse. or .judge_again."):
        run(study, on_changed_limit="accept")


# -- judged anew ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("upper", "best"), [(3.0, 3), (1.5, 1), (9.0, 4), (0.5, None)])
def test_the_answer_is_that_of_the_limits_of_now(
    study: Path, upper: float, best: int | None
) -> None:
    first = run(study)
    assert first.best is not None and first.best.trial == 2
    expected = first.what_if(g=upper).best
    events = Events()
    result = under(study, upper, callbacks=[events])
    assert (None if result.best is None else result.best.trial) == best
    assert (None if expected is None else expected.trial) == best
    assert [note for note in events.notices if "judged again" in note]
    assert result.goals.constraints[0].upper == upper
    with reading(study) as store:
        assert read_result(store) == result  # as the slow, obvious reader has it
    # the model of what qualifies now may have been deleted while it did not
    if result.best is not None and result.best.checkpoint is not None:
        assert result.best.load() == (best, 3, TABLE[best - 1][2][1])  # type: ignore[operator]
    back = result.what_if(g=2.0).best
    assert back is not None and (back.trial, back.step) == (2, 3)


def test_decisions_stay_as_they_were_made_and_the_history_is_kept(study: Path) -> None:
    run(study, policy=HARD)
    before, ended = report_rows(study), trial_rows(study)
    under(study, 3.0, policy=HARD)
    after = report_rows(study)
    kept = ("decision", "rank", "of", "objective", "checked_step", "time")
    assert [[row[k] for k in kept] for row in after] == [[row[k] for k in kept] for row in before]
    assert [row["reason"] for row in trial_rows(study)] == [row["reason"] for row in ended]
    (change,) = rows(study, "SELECT * FROM limit_changes")
    assert (change["session"], change["seq"], change["look"]) == (2, len(before), 0)
    assert json.loads(change["earlier"])[0]["upper"] == 2.0
    assert json.loads(change["what"]) == ["g: limit was <= 2.0, now <= 3.0"]
    then = rows(study, "SELECT * FROM earlier_verdicts ORDER BY seq")
    assert [(row["seq"], row["stratum"], row["violation"]) for row in then] == [
        (row["seq"], row["stratum"], row["violation"]) for row in before
    ]


@pytest.mark.parametrize("again", [False, True])
def test_going_on_under_the_same_limit_changes_nothing(study: Path, again: bool) -> None:
    options: dict[str, Any] = {"policy": ACE(truncation=0.5, interval=1), "xs": range(4)}
    train = resumable(TABLE)
    tune(train, study, constraints=limit(2), **options)
    if again:  # also where the limits have changed before
        tune(train, study, constraints=limit(3), on_changed_limit="judge_again", **options)
    before = contents(study)
    upper = 3 if again else 2
    tune(train, study, constraints=limit(upper), on_changed_limit="judge_again", **options)
    assert contents(study) == before


POLICIES = {
    "every step": EVERY_STEP,
    "strata": ACE(truncation=0.5, interval=1, gate=False),
    "gate": ACE(truncation=0.25, interval=1),
    "hard": HARD,
    "adaptive": Adaptive(),
    "asha": acetune.policies.make_policy("asha-stratum"),
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_judged_anew_is_what_a_fresh_stopper_says(study: Path, policy: Policy) -> None:
    """The same reports, given to a Stopper that never knew other limits."""
    run(study, policy=policy)
    for upper in (3.0, 1.15):
        under(study, upper, policy=policy)
        require_judged_as_by_a_fresh_stopper(study, policy, upper)


def require_judged_as_by_a_fresh_stopper(study: Path, policy: Policy, upper: float) -> None:
    constraints = [Constraint("g", upper=upper)]
    fresh = Stopper(objective="loss", mode="min", constraints=constraints, policy=policy)
    checks = {row["seq"]: Estimate(row["value"], row["stderr"]) for row in
              rows(study, "SELECT * FROM checks")}  # fmt: skip
    handles: dict[int, Any] = {}
    begun = {row["trial"]: row for row in trial_rows(study)}
    for row in report_rows(study):
        number = row["trial"]
        if number not in handles:
            plan = [begun[number][k] for k in ("total_steps", "interval", "cost_ratio")]
            handles[number] = fresh.restart(number, *plan)
            handles[number].record.order = number - 1
        handle, found = handles[number], checks.get(row["seq"])
        measured = None if found is None else {"g": found}
        if row["kind"] != "step":
            check = handle.add_check(measured, None, row["checked_step"])
            assert (row["stratum"], row["violation"]) == (check.stratum, check.violation)
            continue
        handle.restore("running")  # it went on, whatever a limit of now would have said
        stratum = handle.observe(
            row["step"], row["objective"], measured, checked_step=row["checked_step"]
        ).stratum
        assert row["stratum"] == stratum
        last = handle.record.last_check
        assert row["violation"] == (None if last is None else last.violation)
    # and so is what the study decides by from now on
    store = Store.open(study)
    try:
        stopper = Stopper(objective="loss", mode="min", constraints=constraints, policy=policy)
        coordinator = StudyCoordinator(store, stopper)
        coordinator.load()
    finally:
        store.close()
    assert stopper.best == fresh.best and stopper.nearest_miss == fresh.nearest_miss
    mine, its = stopper.history, fresh.history
    assert (mine.strata, mine.gate) == (its.strata, its.gate)
    for number, record in mine.trials.items():
        other = its.trials[number]
        assert record.verdicts == other.verdicts and record.best_valid == other.best_valid
        # ranked as they would be, whatever was decided
        assert record.filings == other.filings


def test_what_the_searcher_is_told_is_of_the_limits_of_now(study: Path) -> None:
    run(study)
    searcher = InOrder(range(5))
    under(study, 3.0, searcher=searcher, max_trials=4)
    told = {number: one for number, one in searcher.added.items() if one is not None}
    assert [told[n].violation == 0 for n in (1, 2, 3, 4)] == [True, True, True, False]
    assert told[3].loss == 2.0


def test_margins_and_scales_are_judged_by_as_well(study: Path) -> None:
    def noisy(model: tuple[int, int, float]) -> Estimate:
        return Estimate(model[2], 0.1)

    def its(**options: Any) -> list[Constraint]:
        return [Constraint("g", upper=2.0, check=noisy, **options)]

    run(study, constraints=its())
    with pytest.raises(StudyChangedError, match=r"margin_se was 0\.0, now 3\.0"):
        run(study, constraints=its(margin_se=3))
    result = under(study, 2.0, constraints=its(margin_se=3))  # 1.8 + 0.3 breaks it
    assert result.best is not None and (result.best.trial, result.best.step) == (2, 2)
    assert {row["margin_se"] for row in rows(study, "SELECT * FROM checks")} == {3.0}
    (then, *_) = rows(study, "SELECT * FROM earlier_verdicts")
    assert json.loads(then["margins"]) == {"g": 0.0}
    before = {row["seq"]: row["violation"] for row in report_rows(study)}
    under(study, 2.0, constraints=its(margin_se=3, scale=1.0))
    for row in report_rows(study):
        assert row["violation"] == pytest.approx(2 * before[row["seq"]])


def test_what_was_left_out_of_a_check_counts_as_unchecked(study: Path) -> None:
    """Where g was broken h was not measured: if g holds now, nobody knows of h."""

    def both(upper: float) -> list[Constraint]:
        h = Constraint("h", upper=10, check=lambda model: model[2])
        return [*limit(upper), h]

    events = Events()
    tune(by_hand(TABLE), study, constraints=both(2.0), xs=range(4), policy=Adaptive())
    seen = rows(study, "SELECT seq, count(*) AS n FROM checks GROUP BY seq")
    half = [row["seq"] for row in seen if row["n"] == 1]
    assert half, "one was left out"
    strata = {row["seq"]: row["stratum"] for row in report_rows(study)}

    def again(upper: float) -> StudyResult:
        return tune(
            by_hand(TABLE),
            study,
            constraints=both(upper),
            xs=range(4),
            policy=Adaptive(),
            on_changed_limit="judge_again",
            callbacks=[events],
        )

    again(9.0)
    by_seq = {row["seq"]: row for row in report_rows(study)}
    for seq in half:
        row = by_seq[seq]
        assert (row["stratum"], row["violation"], row["checked_step"]) == ("unchecked", None, None)
    text = explain(study, by_seq[half[0]]["trial"])
    assert "unchecked (then invalid)" in text
    # back again, they are what they were
    again(2.0)
    assert {row["seq"]: row["stratum"] for row in report_rows(study)} == strata


# -- going on with what was stopped --------------------------------------------------------------


def stopped_at_once(study: Path, **options: Any) -> StudyResult:
    defaults: dict[str, Any] = {"policy": HARD, "xs": range(4)}
    return tune(resumable(TABLE), study, **(defaults | options))


def test_a_trial_that_would_not_be_stopped_goes_on_from_its_checkpoint(study: Path) -> None:
    stopped_at_once(study, constraints=limit(2))
    assert [row["state"] for row in trial_rows(study)] == ["finished"] * 2 + ["stopped"] * 2
    events = Events()
    options: dict[str, Any] = {"on_changed_limit": "judge_again", "callbacks": [events]}
    result = stopped_at_once(study, constraints=limit(3), **options)
    third = [row for row in trial_rows(study) if row["trial"] == 3]
    ended = [(row["state"], row["resumed_from"]) for row in third]
    assert ended == [("stopped", 0), ("finished", 1)]
    assert result.best is not None
    assert (result.best.trial, result.best.attempt, result.best.step) == (3, 2, 3)
    assert result.best.load() == (3, 3, 2.6)
    # trial 4 breaks this limit too, and the others came to their end
    assert [e for e in events.log if e[0] == "trial start"] == [("trial start", 3, 2)]
    assert [note for note in events.notices if "trial 3 goes on from its checkpoint" in note]
    # once: the next session has nothing to do
    before = contents(study)
    stopped_at_once(study, constraints=limit(3))
    assert contents(study) == before


def test_without_a_checkpoint_it_counts_as_it_is(study: Path) -> None:
    run(study, policy=HARD)
    result = under(study, 3.0, policy=HARD)
    assert {row["attempt"] for row in trial_rows(study)} == {1}
    assert result.best is not None and (result.best.trial, result.best.step) == (2, 3)
    assert report_rows(study)[-2]["stratum"] == "valid"  # trial 3, that was stopped there


def test_it_goes_on_later_if_the_session_ended_before(study: Path) -> None:
    """Which trials go on follows from the file: nothing is lost with a session."""
    stopped_at_once(study, constraints=limit(2))
    spent: dict[str, Any] = {"time_budget_s": 1e-9}
    stopped_at_once(study, constraints=limit(3), on_changed_limit="judge_again", **spent)
    assert {row["attempt"] for row in trial_rows(study)} == {1}
    result = stopped_at_once(study, constraints=limit(3))
    assert result.best is not None and (result.best.trial, result.best.attempt) == (3, 2)


def test_under_a_tighter_limit_nothing_goes_on_that_breaks_it(study: Path) -> None:
    stopped_at_once(study, constraints=limit(2))
    result = stopped_at_once(study, constraints=limit(1.15), on_changed_limit="judge_again")
    assert {row["attempt"] for row in trial_rows(study)} == {1}
    assert result.best is not None and (result.best.trial, result.best.step) == (1, 2)


def test_under_a_tighter_limit_one_goes_on_that_was_stopped_for_its_objective(
    study: Path,
) -> None:
    """The worst of those that were valid is the best of those that are left."""
    table = [[(1.0, 1.8)] * 3, [(2.0, 1.8)] * 3, [(3.0, 1.8)] * 3, [(9.0, 0.5)] * 3]
    options: dict[str, Any] = {
        "policy": ACE(truncation=0.5, interval=1, gate=False),
        "xs": range(4),
    }
    tune(resumable(table), study, constraints=limit(2), **options)
    assert trial_rows(study)[-1]["state"] == "stopped"
    options["on_changed_limit"] = "judge_again"
    result = tune(resumable(table), study, constraints=limit(1), **options)
    assert result.best is not None and (result.best.trial, result.best.step) == (4, 1)
    assert [row["state"] for row in trial_rows(study) if row["trial"] == 4] == [
        "stopped",
        "finished",
    ]


def test_so_many_stopped_trials_can_go_on_from_safe_to_bold(study: Path) -> None:
    losses = [5.0, 4.0, 3.0, 2.0, 1.0]
    table = [[(loss, 3.0 + n)] * 3 for n, loss in enumerate(losses)]
    options: dict[str, Any] = {"policy": HARD, "xs": range(5), "keep_models": 3}
    tune(resumable(table), study, constraints=limit(2), **options)
    kept = rows(study, "SELECT * FROM checkpoints WHERE kind = 'resume'")
    assert [row["trial"] for row in kept] == [1, 2, 5]  # the safest, the best, one between
    folders = [p.name for p in study.parent.glob("study.db.files/*/*/resume-*")]
    assert len(folders) == 3
    # a broken one is left out
    for path in study.parent.glob("study.db.files/trial-00001/*/resume-*/*"):
        path.write_text("something else")
    options["on_changed_limit"] = "judge_again"
    tune(resumable(table), study, constraints=limit(5.5), **options)
    attempts = [(row["trial"], row["attempt"]) for row in trial_rows(study) if row["attempt"] > 1]
    assert attempts == [(2, 2)]


# -- what people are told ------------------------------------------------------------------------


def explain(study: Path, trial: int) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "acetune", "explain", str(study), str(trial)],
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "200"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_people_are_told_under_which_limits_it_was_decided(study: Path, tmp_path: Path) -> None:
    stopped_at_once(study, constraints=limit(2))
    stopped_at_once(study, constraints=limit(3), on_changed_limit="judge_again")
    result = acetune.load(study)
    for words in ("limits were changed", "g: limit was <= 2.0, now <= 3.0"):
        assert words in str(result)
    assert [change["session"] for change in result.limit_changes] == [2]
    fourth = explain(study, 4)
    assert "limit: g <= 3" in fourth
    assert "decided under earlier limits at step 1: g <= 2" in fourth
    assert "valid (then invalid)" not in fourth
    write_report(study, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "limits were changed" in page and "decided under earlier limits" in page


def test_a_view_that_is_open_sees_the_verdicts_of_now(study: Path) -> None:
    run(study)
    with StudyView(study) as view:
        before = view.reports.stratum.tolist()
        under(study, 3.0)
        assert view.refresh()
        with StudyView(study) as fresh:
            assert view.reports.stratum.tolist() == fresh.reports.stratum.tolist() != before
        assert view.goals.constraints[0].upper == 3.0


def test_trials_of_earlier_studies_are_judged_by_the_limits_of_now(
    study: Path, tmp_path: Path
) -> None:
    def search(path: Path, upper: float, **options: Any) -> Any:
        return acetune.tune(
            by_hand(TABLE),
            {"x": acetune.uniform(0, 1)},
            objective="loss",
            mode="min",
            constraints=limit(upper),
            policy=EVERY_STEP,
            max_trials=4,
            workers=1,
            seed=0,
            study=path,
            progress=False,
            **options,
        )

    old = tmp_path / "old.db"
    search(old, 2.0)
    search(study, 2.0, learn_from=[old])
    search(study, 4.0, learn_from=[old], on_changed_limit="judge_again")
    search(tmp_path / "new.db", 4.0, learn_from=[old])
    sql = "SELECT checks FROM earlier_trials ORDER BY place"
    mine, fresh = ([json.loads(row["checks"]) for row in rows(path, sql)]
                   for path in (study, tmp_path / "new.db"))  # fmt: skip
    assert [step for one in mine for step, _ in one] == [step for one in fresh for step, _ in one]
    flat = [[b for one in its for _, beyond in one for b in beyond] for its in (mine, fresh)]
    assert flat[0] == pytest.approx(flat[1])


# -- fresh data ----------------------------------------------------------------------------------


def certified(study: Path, upper: float, values: float | dict[int, float], **options: Any) -> Any:
    """A study with fresh rows on which a trial has its own value, or all of them have one."""

    def confirm(model: tuple[int, int, float]) -> dict[str, object]:
        value = values if isinstance(values, float) else values[model[0]]
        return {"g": Estimate(value, 0.1)}

    its = [Constraint("g", upper=upper, check=g_of, margin_se=0)]
    defaults = {"constraints": its, "confirm": confirm, "confirm_top": 1}
    return run(study, upper, **(defaults | options))


def test_a_certificate_is_about_the_limit_in_force_when_it_was_issued(study: Path) -> None:
    result = certified(study, 2.0, 1.0)
    assert result.status == "certified"
    # it keeps a looser limit as well
    result = certified(study, 2.5, 1.0, on_changed_limit="judge_again", confirm=None)
    assert result.status == "certified" and result.account.looks == 1
    # and says nothing of a stricter one
    result = certified(study, 1.9, 1.0, on_changed_limit="judge_again", confirm=None)
    assert result.status == "holds"
    assert "tested it against <= 2, the limit at that time" in str(result)
    (use,) = rows(study, "SELECT * FROM confirmations")
    assert use["status"] == "certified"  # as it was written


def test_what_was_broken_may_hold_by_a_looser_limit_without_a_certificate(study: Path) -> None:
    assert certified(study, 2.0, 2.2).status == "broken"
    result = certified(study, 2.5, 2.2, on_changed_limit="judge_again", confirm=None)
    assert result.status == "holds"
    assert "cannot be certified: these fresh rows have tested it against <= 2" in str(result)


def test_what_if_under_a_stricter_limit_shows_no_bound_of_the_limit_of_now(study: Path) -> None:
    result = certified(study, 2.0, 1.0)
    stricter, looser = result.what_if(g=1.9).best, result.what_if(g=2.1).best
    assert stricter is not None and stricter.confirmation is not None
    assert stricter.status == "holds"
    bound = stricter.confirmation.bounds["g"]
    assert not bound.passes and bound.value is None and bound.p_value == 1.0
    assert "tested it against <= 2, the limit at that time" in str(bound.refused)
    assert looser is not None and looser.confirmation is not None and result.best is not None
    assert looser.status == "certified"
    assert looser.confirmation == result.best.confirmation


@pytest.mark.parametrize("first", [1.95, 1.0])
def test_two_limits_on_the_same_rows_share_one_account(study: Path, first: float) -> None:
    """However often the limit changes, all looks together spend no more than 1 - confidence."""
    xs, uppers = range(8), [2.0, 3.0, 1.5, 2.6, 4.0, 1.3]
    table = [[(9.0 - n, 1.2 + n / 3)] for n in range(8)]
    events = Events()
    for n, upper in enumerate(uppers):
        tune(
            by_hand(table),
            study,
            constraints=[Constraint("g", upper=upper, check=g_of, margin_se=0)],
            policy=EVERY_STEP,
            xs=xs,
            max_trials=3 + n,
            keep_models=8,
            confirm=lambda model: {"g": Estimate(first, 0.1)},
            confirm_top=1,
            confirm_data="the same rows",
            on_changed_limit="judge_again",
            callbacks=[events],
        )
    looks = rows(study, "SELECT * FROM looks ORDER BY look")
    assert len(looks) >= 3
    levels = [look["level"] for look in looks]
    account = acetune.load(study).account
    assert levels == [account.level(n) for n in range(1, len(looks) + 1)]
    assert sum(levels) < 1 - account.confidence
    assert account.spent == pytest.approx(sum(levels))
    # no checkpoint was tested twice on these rows, by whatever limit
    listed = [tuple(place) for look in looks for place in json.loads(look["candidates"])]
    assert len(listed) == len(set(listed))
    bounds = [json.loads(use["bounds"])["g"] for use in rows(study, "SELECT * FROM confirmations")]
    assert {bound["level"] for bound in bounds} <= set(levels)
    assert [note for note in events.notices if "looked at under other limits before" in note]


def test_a_look_that_was_under_way_ends_with_the_limits_it_was_for(study: Path) -> None:
    def wrong(model: object) -> dict[str, object]:
        raise RuntimeError("the fresh rows are not there yet")

    its = [Constraint("g", upper=2.0, check=g_of, margin_se=0)]
    run(study, constraints=its, confirm=wrong, confirm_top=1)
    (look,) = rows(study, "SELECT * FROM looks")
    assert look["ended"] is None
    certified(study, 1.7, 1.0, on_changed_limit="judge_again")
    first, second = rows(study, "SELECT * FROM looks")
    assert first["ended"] is not None and second["level"] < first["level"]


# -- from the command line, and after kill -9 ----------------------------------------------------

FILE = """
import acetune
def check(model):
    return model["x"]
def train(trial):
    for step in trial.steps(2):
        trial.report(-trial.params["x"], model=dict(trial.params))
STUDY = dict(space={{"x": acetune.uniform(0, 1)}}, objective="loss", mode="min", max_trials=6,
             constraints=[acetune.Constraint("g", upper={limit}, check=check)], workers=1, seed=0,
             searcher="random", policy=acetune.ACE(truncation=0, interval=1, gate=False),
             progress=False)
"""


def test_from_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "search.py"

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "acetune", *words], cwd=tmp_path, capture_output=True, text=True
        )

    file.write_text(FILE.format(limit=0.5))
    assert call("run", "search.py").returncode == 0
    wrong = call("resume", "search.db", "--limit", "h<=0.9")
    assert wrong.returncode != 0 and "'h<=0.9' is none of the study's constraints" in wrong.stderr
    twice = call("resume", "search.db", "--limit", "g<=0.75", "--limit", "g<=0.8")
    assert twice.returncode != 0 and "two limits for one constraint" in twice.stderr
    done = call("resume", "search.db", "--limit", "g<=0.75")
    assert done.returncode == 0 and "now <= 0.75" in done.stdout, done.stderr
    # the file has the first one still: the study's own counts
    done = call("resume", "search.db")
    assert done.returncode == 0, done.stderr
    assert "the limits that the study was run with last: g <= 0.75" in done.stdout
    file.write_text(FILE.format(limit=0.9))
    refused = call("resume", "search.db")
    assert refused.returncode != 0 and "--on-changed-limit judge-again" in refused.stderr
    done = call("run", "search.py", "--on-changed-limit", "judge-again")
    assert done.returncode == 0, done.stderr
    shown = json.loads(call("show", "search.db", "--json").stdout)
    assert [change["what"] for change in shown["limit_changes"]] == [
        ["g: limit was <= 0.5, now <= 0.75"],
        ["g: limit was <= 0.75, now <= 0.9"],
    ]
    assert shown["constraints"] == {"g": "g <= 0.9"}


KILLED = """
import os, sys, time
from pathlib import Path
import acetune
from acetune import Constraint

def train(trial):
    x, begun = trial.params["x"], 0
    if trial.checkpoint is not None:
        begun = int((trial.checkpoint / "at").read_text())
    for step in trial.steps(6):
        assert step == begun + 1, (step, begun)
        begun = step
        time.sleep(PAUSE_S)
        trial.report(
            -x * step, model=(x, step), snapshot=tuple,
            checkpoint=lambda folder: (folder / "at").write_text(str(begun)),
        )
        with open(ACKS, "a") as log:
            log.write(f"{trial.number} {trial.attempt} {step}\\n")

STUDY, ACKS, UPPER, PAUSE_S = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
result = acetune.tune(
    train, {"x": acetune.uniform(0, 1)}, objective="loss", mode="min",
    constraints=[Constraint("g", upper=UPPER, check=lambda model: model[0] * (1 + model[1] / 10))],
    policy=acetune.ACE(truncation=0, interval=1, gate=False, stopping="first-violation"),
    searcher="random", seed=3, workers=2, max_trials=8, study=STUDY, progress=False,
    on_changed_limit="judge_again",
)
"""


@pytest.mark.parametrize("upper", [1.2, 0.3], ids=["looser", "tighter"])
def test_a_study_that_was_killed_goes_on_under_another_limit(
    study: Path, tmp_path: Path, upper: float
) -> None:
    acks = tmp_path / "acks"
    with script(tmp_path / "first.py", KILLED, study, acks, 0.6, 0.05) as process:
        wait_for(lambda: len(read_lines(acks)) >= 12, "reports")
        process.send_signal(signal.SIGKILL)
        process.wait()
    was = {tuple(map(int, line)) for line in read_lines(acks)}
    with script(tmp_path / "again.py", KILLED, study, acks, upper, 0.0) as process:
        output_of(process)
    found = {(row["trial"], row["attempt"], row["step"]) for row in report_rows(study)}
    assert was <= found  # nothing that was acknowledged is lost
    values = {row["seq"]: row["value"] for row in rows(study, "SELECT * FROM checks")}
    for row in report_rows(study):
        held = values[row["seq"]] <= upper
        assert row["stratum"] == ("valid" if held else "invalid")
        if row["stratum"] == "invalid":
            assert row["violation"] == pytest.approx(values[row["seq"]] / upper - 1)
    result = acetune.load(study)
    holding = [row for row in report_rows(study) if row["stratum"] == "valid"]
    assert result.best is not None and result.goals.constraints[0].upper == upper
    assert result.best.value == min(row["objective"] for row in holding)
    assert len(result.trials) == 8
    went_on = [row for row in trial_rows(study) if row["attempt"] > 1]
    if upper > 0.6:  # those that were stopped for the earlier limit went on where they were
        stopped = [row for row in trial_rows(study) if row["attempt"] == 1]
        again = {row["trial"] for row in went_on}
        assert again & {row["trial"] for row in stopped if row["state"] == "stopped"} or not [
            row for row in stopped if row["state"] == "stopped"
        ]
    for row in went_on:
        steps = [r["step"] for r in report_rows(study)
                 if (r["trial"], r["attempt"]) == (row["trial"], row["attempt"])]  # fmt: skip
        assert not steps or min(steps) == row["resumed_from"] + 1
    assert re.search(r"limits were changed", str(result))
