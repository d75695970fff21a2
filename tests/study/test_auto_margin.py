"""The margin that acetune chooses: fixed with the study, and no bar to what may be certified."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import acetune
from acetune import ACE, Constraint, Estimate, StudyResult
from acetune.certification.account import Account
from acetune.certification.margin import auto_margin
from acetune.cli import app
from acetune.core.errors import GoalError, StudyChangedError
from acetune.core.goals import Goals, Objective, goals_from_json
from acetune.export import to_optuna
from acetune.policies.stopper import stopper_of
from acetune.report._json_values import as_json
from acetune.report.figures._curves import chosen_trials
from acetune.report.figures._figure_data import FigureData
from acetune.report.html import write_report
from acetune.study.best_checkpoints import valid_checkpoints
from acetune.study.coordinator import StudyCoordinator
from acetune.study.findings import broken_limits
from acetune.study.reader import StudyView
from acetune.study.store import Store
from run.helpers import by_hand, g_of, rows, tune

# g has a standard error of 0.1, the margin is about 3 of them: trials 2 and 3 are bold
TABLE = [[(3.0, 1.2)], [(1.0, 1.9)], [(2.0, 1.75)], [(4.0, 0.9)]]
LATER = Account(0.95).level(2)
SURE, UNSURE = Estimate(1.0, 0.1), Estimate(1.95, 0.1)


def measured(model: tuple[int, int, float]) -> Estimate:
    return Estimate(g_of(model), 0.1)


def run(study: Path, confirm: Any = None, **options: Any) -> StudyResult:
    defaults = {
        "constraints": [Constraint("g", upper=2, check=measured)],
        "policy": ACE(truncation=0, interval=1, gate=False),
        "xs": range(4),
    }
    return tune(by_hand(TABLE), study, confirm=confirm, **(defaults | options))


def stored(study: Path) -> dict[str, Any]:
    (row,) = rows(study, "SELECT constraints FROM study")
    (limit,) = json.loads(row["constraints"])
    found: dict[str, Any] = limit
    return found


def test_it_is_the_default_where_confirm_is_given(tmp_path: Path) -> None:
    run(tmp_path / "without.db")
    assert stored(tmp_path / "without.db") == {
        "name": "g", "upper": 2.0, "margin_se": 0.0, "scale": None, "on": "model"
    }  # fmt: skip
    result = run(tmp_path / "with.db", lambda model: {"g": SURE})
    limit = stored(tmp_path / "with.db")
    assert limit["auto_margin"] and limit["margin_se"] == pytest.approx(
        auto_margin(0.0375, 1.0, 4), abs=0.01
    )
    assert result.goals.constraints[0].margin_is_auto
    given = [Constraint("g", upper=2, check=measured, margin_se=0)]
    run(tmp_path / "given.db", lambda model: {"g": SURE}, constraints=given)
    assert stored(tmp_path / "given.db")["margin_se"] == 0


def test_bold_ones_are_kept_and_tested(study: Path) -> None:
    result = run(study, lambda model: {"g": SURE})
    view = StudyView(study)
    assert [place[0] for place in view.looks[0]["candidates"]] == [1, 4, 3, 2]
    assert result.strata == {"valid": 2, "invalid": 2}
    assert result.best is not None and (result.best.trial, result.status) == (2, "certified")
    assert to_optuna(study).best_trial.user_attrs["trial"] == 2
    assert result.best.load() is not None
    assert acetune.load(study).best == result.best


def test_a_bold_one_that_is_not_certified_costs_nothing(study: Path) -> None:
    result = run(study, lambda model: {"g": UNSURE if model[0] in (2, 3) else SURE})
    assert result.best is not None and (result.best.trial, result.status) == (1, "certified")


def test_where_all_are_bold_the_best_is_an_answer(study: Path) -> None:
    bold = [[(3.0, 1.95)], [(1.0, 1.95)], [(2.0, 2.3)]]
    options: dict[str, Any] = {
        "constraints": [Constraint("g", upper=2, check=measured, margin_se="auto")],
        "policy": ACE(truncation=0, interval=1, gate=False),
        "xs": range(3),
    }
    unconfirmed = tune(by_hand(bold), study, **options)
    assert unconfirmed.best is not None and unconfirmed.best.trial == 2
    assert (unconfirmed.status, unconfirmed.best.violation) == ("unconfirmed", 0.0)
    result = tune(by_hand(bold), study, confirm=lambda model: {"g": SURE}, **options)
    assert result.best is not None and (result.best.trial, result.status) == (2, "certified")


def test_an_answer_that_is_not_valid_is_no_contradiction(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Counts, progress and report say what valid means, and what stands in the way of the rest."""
    bold = [[(3.0, 1.75)], [(1.0, 1.95)], [(2.0, 2.3)]]
    options: dict[str, Any] = {
        "constraints": [Constraint("g", upper=2, check=measured)],
        "policy": ACE(truncation=0, interval=1, gate=False),
        "xs": range(3),
        "progress": True,
    }
    result = tune(
        by_hand(bold),
        study,
        confirm=lambda model: {"g": SURE if model[0] == 1 else UNSURE},
        **options,
    )
    assert result.best is not None and result.best.trial == 1 and result.status == "certified"
    assert result.strata == {"invalid": 3}
    assert "0 valid, 3 invalid, 0 unchecked; valid means: as far within" in str(result)
    last = capsys.readouterr().err.splitlines()[-1]
    assert "none safe enough yet; nearest, g 1.75 (limit <= 2)" in last
    page = write_report(study, study.with_suffix(".html")).read_text()
    assert "Better, but too close to a limit or over it" in page
    chosen = chosen_trials(FigureData(StudyView(study)))
    assert chosen[2] == "too close to a limit"


def judged_by(study: Path) -> list[tuple[int, float, str]]:
    """Of each check the trial, the margin in force then, and the verdict."""
    found = rows(
        study,
        "SELECT trial, margin_se, stratum FROM checks JOIN reports USING (seq) ORDER BY seq",
    )
    return [tuple(row.values()) for row in found]


def test_a_session_aims_for_the_next_look_and_relabels_nothing(study: Path) -> None:
    table = [[(3.0, 1.69)], [(1.0, 1.9)], [(2.0, 1.69)], [(4.0, 0.9)]]
    first, second = (round(auto_margin(level, 1.0, n), 2) for level, n in ((0.0375, 2), (LATER, 4)))
    assert first < 3.1 < second  # g = 1.69 is 3.1 standard errors from its limit

    def session(trials: int, confirm: Any) -> StudyResult:
        limits = [Constraint("g", upper=2, check=measured)]
        policy = ACE(truncation=0, interval=1, gate=False)
        options = {"constraints": limits, "policy": policy, "max_trials": trials}
        return tune(by_hand(table), study, confirm=confirm, xs=range(4), **options)

    session(2, lambda model: {"g": UNSURE})
    assert judged_by(study) == [(1, first, "valid"), (2, first, "invalid")]
    session(2, None)  # who does not look has nothing else to aim for
    assert stored(study)["margin_se"] == first
    result = session(4, lambda model: {"g": UNSURE})
    assert stored(study)["margin_se"] == second
    assert judged_by(study) == [
        (1, first, "valid"), (2, first, "invalid"), (3, second, "invalid"), (4, second, "valid")
    ]  # fmt: skip
    assert result.strata == {"valid": 2, "invalid": 2}
    assert result.best is not None  # whatever the margin was then and is now
    best = to_optuna(study).best_trial
    assert best.user_attrs["trial"] == result.best.trial and best.value == result.best.value
    # a resume replays it: what was valid then is, in what the policy and the searcher know
    with StudyView(study) as view:
        (one, *_) = [found for found in valid_checkpoints(view) if found.trial == 1]
        assert one.margins == {"g": first} and not broken_limits(view.goals, one)
        assert as_json(view, one)["constraints"][0]["margin_se"] == first  # type: ignore[index]
    with closing(Store.open(study)) as store:
        goals = goals_from_json(store.study()["objective"], store.study()["constraints"])
        coordinator = StudyCoordinator(store, stopper_of(goals, ACE()))
        coordinator.load()
        trials = coordinator.stopper.history.trials
        assert [trials[n].best_valid is not None for n in (1, 2, 3, 4)] == [
            True,
            False,
            False,
            True,
        ]


def test_explain_says_by_which_margin_a_trial_was_judged(study: Path) -> None:
    run(study, lambda model: {"g": UNSURE}, max_trials=2)
    first = stored(study)["margin_se"]
    run(study, lambda model: {"g": UNSURE})
    now = stored(study)["margin_se"]
    assert first != now
    text = CliRunner().invoke(app, ["explain", str(study), "1"]).output
    assert f"limit: g <= 2, aiming {first:.3g} s.e. within; since a resume {now:.3g} s.e." in text
    text = CliRunner().invoke(app, ["explain", str(study), "4"]).output
    assert f"limit: g <= 2, aiming {now:.3g} s.e. within\n" in text


def test_a_margin_of_ones_own_must_stay(study: Path) -> None:
    run(study, lambda model: {"g": SURE}, max_trials=2)
    run(study, lambda model: {"g": SURE}, confirm_data=np.arange(1000))
    with pytest.raises(StudyChangedError, match="margin_se was"):
        run(study, constraints=[Constraint("g", upper=2, check=measured, margin_se=1)])


def test_a_study_without_one_goes_on_without_one(study: Path) -> None:
    run(study, max_trials=2)
    run(study, lambda model: {"g": SURE})
    assert stored(study)["margin_se"] == 0


def test_more_fresh_rows_need_less_margin() -> None:
    assert auto_margin(0.05, 4.0, 10) < auto_margin(0.05, 1.0, 10) < auto_margin(0.05, 1.0, 100)
    assert auto_margin(0.01) > auto_margin(0.05)


def test_it_is_refused_where_nothing_is_certified() -> None:
    with pytest.raises(GoalError, match=r"margin_se='auto' .* needs tune\(confirm=...\)"):
        Goals(Objective("loss"), (Constraint("g", upper=2, margin_se="auto"),))
    with pytest.raises(GoalError, match="margin_se must be a number or 'auto', got 'much'"):
        Constraint("g", upper=2, margin_se="much")  # type: ignore[arg-type]


def test_worse_and_safer_ones_are_checked_and_kept(study: Path) -> None:
    """Bold ones do not close the gate, and near-twins of the best do not crowd out safe ones."""
    # the bold first, then near-twins 3.5 standard errors from the limit, and safer, worse ones
    bold = [[(0.1, 1.95)]]
    twins = [[(1.0 + 0.01 * n, 1.65)] for n in range(4)]
    safer = [[(2.0, 1.6)], [(2.1, 1.55)], [(3.0, 1.2)]]
    table = [*bold, *safer, *twins]
    options: dict[str, Any] = {
        "constraints": [Constraint("g", upper=2, check=measured)],
        "policy": ACE(truncation=0, interval=1),  # with its gate
        "xs": range(len(table)),
        "confirm_top": 3,
        "keep_models": 3,
    }
    result = tune(by_hand(table), study, confirm=lambda model: {"g": UNSURE}, **options)
    assert result.strata["valid"] >= 6  # what is worse than the bold one was checked all the same
    with StudyView(study) as view:
        order = [place[0] for place in view.looks[0]["candidates"]]
        kept = {trial for trial, *_ in view.models}
    # the safest, one between, and the best
    assert order[0] in (3, 4) and order[-1] == 1 and len(order) == 3
    assert {3, 4} & kept
