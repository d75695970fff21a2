"""The page as data: its numbers are those of the study file, whatever the study is like."""

from __future__ import annotations

import json
import math
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import acetune
import plain_study
from acetune import ACE, ACE2, Constraint, Estimate
from acetune.cli.show import to_json
from acetune.core.goals import Goals, Objective
from acetune.core.reason import stated
from acetune.report._content import content
from acetune.report._trials import trial_detail
from acetune.report.figures import FigureData, chosen_trials
from acetune.study.findings import Ledger
from acetune.study.reader import StudyView
from acetune.study.result import result_of
from acetune.study.store import reading
from properties import examples
from report.written import Attempt, Written, studies, write, write_attempt
from run.helpers import by_hand, g_of, tune

#            (loss, g) at steps 1, 2, 3
TABLE = [
    [(9.0, 1.0), (5.0, 2.0), (4.0, 3.0)],
    [(8.0, 1.0), (6.0, 4.0), (3.0, 5.0)],
    [(7.0, 6.0), (2.0, 2.5), (1.0, 9.0)],
]


def require_same_as_load(view: StudyView) -> None:
    """The result from the columns is the result from the file, read the slow way."""
    found = result_of(view)
    with reading(view.path) as store:
        wanted = plain_study.read_result(store)
    for one in fields(wanted):
        if one.name != "ledger":
            assert getattr(found, one.name) == getattr(wanted, one.name), one.name
    for one in fields(Ledger):  # sums, in another order
        assert getattr(found.ledger, one.name) == pytest.approx(getattr(wanted.ledger, one.name))
    assert list(found.reasons.values()) == sorted(wanted.reasons.values(), reverse=True)
    assert acetune.load(view.path) == found


def require_same_numbers(view: StudyView) -> dict[str, Any]:
    """What the page says is what ``acetune show --json`` and the table of trials say."""
    page = content(view, figures=False)
    json.dumps(page, allow_nan=False)
    result = acetune.load(view.path)
    shown = to_json(result)
    answer = page["answer"]
    assert answer["outcome"] == shown["outcome"]
    misses = require_misses(view, result, answer["nearest_misses"])
    for found, wanted in (
        (answer["best"], shown["best"]),
        *([] if result.best is not None else [(misses, shown["nearest_miss"])]),
    ):
        if wanted is None:
            assert found is None
            continue
        assert found is not None
        for name in ("trial", "attempt", "step", "params", "value", "violation", "status"):
            assert found[name] == wanted[name]
        assert found["model"] == wanted["checkpoint"]
        require_fresh(found, result)
        measured = {c["name"]: c for c in found["constraints"]}
        for constraint in result.goals.constraints:
            one = measured[constraint.name]
            estimate = wanted["constraints"][constraint.name]
            assert (one["value"], one["stderr"]) == (estimate["value"], estimate["stderr"])
            limit = constraint.condition  # a margin that acetune chose is none
            assert one["ok"] == limit.holds(Estimate(**estimate))
            assert one["excess"] == max(0.0, limit.excess(Estimate(**estimate)))
    with reading(view.path) as store:
        best = None if result.best is None else result.best.value
        assert answer["unchecked_better"] == plain_study.unchecked_better(store, result.goals, best)
        require_same_trials(page, store.rows(plain_study.TRIALS[result.goals.objective.mode]))
    return page


def require_misses(
    view: StudyView, result: acetune.StudyResult, misses: list[dict[str, Any]]
) -> dict[str, Any] | None:
    """Beside an answer only what is better and breaks a limit, the least violation first."""
    loss, best = result.goals.objective.loss, result.best
    with reading(view.path) as store:
        checked = plain_study.checked_checkpoints(store, result.goals)
    wanted = [
        found
        for found in checked
        if 0 < found.violation < math.inf
        and math.isfinite(found.value)
        and (best is None or loss(found.value) < loss(best.value))
    ]
    least: dict[int, float] = {}
    for found in wanted:
        least[found.trial] = min(found.violation, least.get(found.trial, math.inf))
    # a trial that began again has its replaced checkpoints in the file too
    assert [one["violation"] for one in misses] == sorted(least.values())[:5]
    assert len({one["trial"] for one in misses}) == len(misses)
    return misses[0] if misses else None


def require_fresh(found: dict[str, Any], result: acetune.StudyResult) -> None:
    """What fresh data said of the answer is what the file says of it."""
    best = result.best
    if best is None or found["status"] == "unconfirmed":
        assert found["fresh"] is None
        return
    assert best.confirmation is not None
    values = best.confirmation.values
    fresh = found["fresh"]
    for constraint, one in zip(result.goals.constraints, fresh["constraints"], strict=True):
        assert Estimate(one["value"], one["stderr"]) == values[constraint.name]
        assert one["ok"] == constraint.without_margin().holds(values[constraint.name])
    objective = values.get(result.goals.objective.name)
    assert fresh["objective"] == (None if objective is None else objective._asdict())


def require_same_trials(page: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """The table of trials is that of ``StudyResult.trials``."""
    names, found_rows = page["trials"]["columns"], page["trials"]["rows"]
    assert [row[0] for row in found_rows] == [row["trial"] for row in rows]
    for row, wanted in zip(found_rows, rows, strict=True):
        found = dict(zip(names, row, strict=True))
        assert (found["state"], found["checks"]) == (wanted["state"], wanted["checks"])
        assert found["steps"] == (wanted["last_step"] or 0)
        assert found["training_s"] == pytest.approx(wanted["training_s"] or 0.0, rel=1e-4)
        for name in ("best_objective", "best_valid_objective", "least_violation"):
            value = wanted[name]
            if value is None:
                assert found[name] is None
            elif math.isfinite(value):  # an infinite one may hide what the page shows
                assert found[name] == pytest.approx(value, rel=1e-4)


@given(studies())
@examples(25)
def test_numbers_are_those_of_the_file(study: Written) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.db"
        write(study, path).close()
        with StudyView(path) as view:
            require_same_as_load(view)
            require_same_numbers(view)


@given(studies())
@examples(8)
def test_numbers_of_a_study_that_grows(study: Written) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.db"
        store = write(Written(study.goals, []), path)
        view = StudyView(path)
        for number, attempts in enumerate(study.trials, 1):
            for place, attempt in enumerate(attempts, 1):
                write_attempt(store, study.goals, number, place, attempt)
                view.refresh()
                content(view, figures=False)
        require_same_as_load(view)
        require_same_numbers(view)
        store.close()


def test_a_real_study(study: Path) -> None:
    tune(
        by_hand(TABLE),
        study,
        xs=[0, 1, 2],
        policy=ACE(truncation=0, interval=1, gate=False),
        constraints=[Constraint("g", upper=2, check=g_of)],
        confirm=lambda model: {"g": Estimate(model[2] + 0.5, 0.25), "loss": 5.5},
        confirm_top=2,
    )
    view = StudyView(study)
    require_same_as_load(view)
    page = require_same_numbers(view)

    answer = page["answer"]
    assert (answer["best"]["trial"], answer["best"]["value"]) == (2, 8.0)  # the one confirmed
    assert [found["status"] for found in answer["candidates"]] == ["broken", "certified"]
    assert answer["best_of_all"]["value"] == 1.0 and answer["best_of_all"]["stratum"] == "invalid"
    assert answer["words"] == (
        "Use trial 2 at step 1 of 3: loss 5.5 on fresh data (8 where it was chosen). "
        "g 1 (limit ≤ 2) holds, also on fresh data: certified. The limits cost 7 loss: the best of "
        "all, loss 1 (trial 3, step 3), breaks g (9, 7 beyond its limit)."
    )
    assert answer["recommended"] and answer["next"] is None
    assert answer["best"]["total_steps"] == 3 and answer["later"] == {"checked": 2, "valid": 0}
    assert answer["best"]["fresh"]["objective"] == {"value": 5.5, "stderr": 0.0}
    assert answer["load"] == 'acetune.load("study.db").best.load()'
    assert (
        "certified on fresh data: g 1.5 (limit ≤ 2; a limit of 1.945 would have passed too; normal"
        in answer["trust"]
    )
    assert (answer["status"], answer["confidence"]) == ("certified", 95)
    assert "this model is certified to keep g ≤ 2 on data like the fresh rows" in answer["claim"]
    assert "1 look at fresh data" in answer["account"]
    assert [use["status"] for use in page["confirmations"]] == ["certified", "broken"]
    metrics = {m["name"]: (m["value"], m["stderr"]) for m in page["confirmations"][0]["metrics"]}
    assert metrics == {"g": (1.5, 0.25), "loss": (5.5, 0.0)}
    about = page["study"]
    assert about["running"] is False and about["ended"] == "all trials are done"
    assert about["constraints"][0]["text"].startswith("g <= 2, aiming") and about["workers"] == 1
    assert about["seq"] == 9 and about["policy"].startswith("ACE (truncation=0")
    numbers = {row["label"]: row["value"] for row in page["numbers"]}
    assert (numbers["trials"], numbers["reports"], numbers["checks"]) == ("3", "9", "9")
    assert numbers["time on checks"] == "20%" and numbers["confirmations"] == "2"


def test_the_nearest_miss_is_told_whatever_a_limit_is_called(study: Path) -> None:
    def train(trial: acetune.Trial) -> None:
        trial.report(
            trial.params["x"],
            model=0,
            constraints={"nearest": lambda model: 1.0, "g": lambda model: 2.5},
            constraint_cost_s={"nearest": 9.0, "g": 0.1},
        )

    limits = [Constraint("nearest", upper=2), Constraint("g", upper=2)]
    tune(train, study, xs=[3, 4, 5], policy=ACE2(spacing=0, patience=1), constraints=limits)
    words = content(StudyView(study), figures=False)["answer"]["words"]
    assert "nearest was measured of 1 of them, as another limit was broken first" in words
    assert "Nearest came loss 3, nearest 1 (limit ≤ 2), g 2.5 (limit ≤ 2); trial 1" in words


def test_when_fresh_data_breaks_a_limit_nothing_is_recommended(study: Path) -> None:
    tune(
        by_hand(TABLE),
        study,
        xs=[0, 1, 2],
        policy=ACE(truncation=0, interval=1, gate=False),
        constraints=[Constraint("g", upper=2, check=g_of)],
        confirm=lambda model: {"g": 2.5},
        confirm_top=3,
    )
    answer = require_same_numbers(StudyView(study))["answer"]
    assert answer["outcome"] == "rejected" and not answer["recommended"]
    assert answer["best"] is None and answer["load"] is None
    assert answer["words"] == (
        "No model can be recommended: all 2 candidates that were judged broke a limit on fresh "
        "data. The one with the best loss had g 2.5 there (limit ≤ 2; 2 where it was chosen)."
    )
    assert "confirm_top=7, now 3" in answer["next"]
    assert [found["status"] for found in answer["candidates"]] == ["broken", "broken"]
    rejected = answer["rejected"]
    (fresh,) = rejected["fresh"]["constraints"]
    assert (fresh["value"], fresh["ok"], fresh["excess"]) == (2.5, False, 0.5)
    assert rejected["constraints"][0]["ok"] and rejected["fresh"]["objective"] is None
    view = StudyView(study)
    assert (
        "it holds a rejected candidate: step 2 of 3 broke a limit on fresh data"
        in trial_detail(view, rejected["trial"])["why"]
    )
    digest = FigureData(view)
    assert digest.answer is None and digest.rejected is not None
    assert digest.rejected.trial == rejected["trial"]
    assert chosen_trials(digest)[rejected["trial"]] == "rejected on fresh data"
    assert not any(
        "the answer" in json.dumps(figure["figure"]) for figure in content(view)["figures"]
    )


@pytest.mark.parametrize(
    "said", [["broken", None], ["broken", "holds"], ["holds", "broken"], ["broken"] * 2]
)
def test_verdicts_on_earlier_attempts_stand(study: Path, said: list[str | None]) -> None:
    """As in the result: also of a checkpoint that is no longer the best of its trial."""
    goals = Goals(Objective("loss"), (Constraint("g", upper=2.0),))
    attempts = [Attempt([(loss, {"g": Estimate(1.0)})], None, "finished", 0) for loss in (2.0, 1.0)]
    store = write(Written(goals, [attempts]), study)
    for attempt, status in enumerate(said, 1):
        if status is not None:
            fresh = {"g": (9.0 if status == "broken" else 1.0, 0.0)}
            with store.transaction():
                store.add_confirmation(1, attempt, 1, status, fresh, None, 1e9)
    store.close()
    view = StudyView(study)
    answer = require_same_numbers(view)["answer"]
    assert result_of(view).candidates == acetune.load(study).candidates
    star = FigureData(view).answer
    if "holds" not in said:
        assert answer["best"] is star is None and answer["outcome"] == "rejected"
    else:
        attempt = said.index("holds") + 1
        assert star is not None and answer["best"]["attempt"] == star.attempt == attempt


def test_what_was_not_checked_is_counted_and_said(study: Path) -> None:
    goals = Goals(Objective("auc", "max"), (Constraint("g", upper=1.0),))
    reports: list[tuple[float, Any]] = [(0.5, {"g": Estimate(0.5)})]
    reports += [(0.9, None), (0.8, None), (0.4, None)]
    write(Written(goals, [[Attempt(reports, None, "finished", 0)]]), study).close()
    page = require_same_numbers(StudyView(study))

    assert page["answer"]["unchecked_better"] == 2
    assert page["answer"]["words"].endswith(
        "The best of all, auc 0.9 (trial 1, step 2), was never checked. "
        "2 better checkpoints were never checked."
    )
    assert page["answer"]["best_of_all"]["violation"] is None


def test_without_constraints_everything_is_valid(study: Path) -> None:
    def train(trial: acetune.Trial) -> None:
        for step in trial.steps(3):
            trial.report(trial.params["x"] - step)

    tune(train, study, xs=[5, 7])
    page = require_same_numbers(StudyView(study))
    assert page["answer"]["words"] == "Use trial 1 at step 3: loss 2."
    assert page["what_if"] == [] and page["answer"]["unchecked_better"] == 0
    assert [row["label"] for row in page["numbers"]] == [
        "trials", "reports", "wall clock", "training", "on disk",
    ]  # fmt: skip
    assert page["numbers"][1]["note"] == "6 valid"


def test_before_anything_was_reported(study: Path) -> None:
    goals = Goals(Objective("loss"), (Constraint("g", upper=1.0),))
    store = write(Written(goals, []), study)
    view = StudyView(study)
    page = require_same_numbers(view)
    assert page["answer"]["best"] is page["answer"]["best_of_all"] is None
    assert page["answer"]["words"] == "Nothing has been reported yet." and page["study"]["running"]
    store.close()
    view.refresh()
    assert content(view, figures=False)["answer"]["words"] == "Nothing was reported."


def test_a_trial_that_begins_again_keeps_the_stratum_it_was_in(study: Path) -> None:
    goals = Goals(Objective("loss"), (Constraint("g", upper=1.0),))
    before = Attempt([(3.0, {"g": Estimate(0.5)})], None, "failed", 0)
    again = Attempt([], None, "running", 0)
    write(Written(goals, [[before, again], [again]]), study).close()
    page = require_same_numbers(StudyView(study))
    columns, rows = page["trials"]["columns"], page["trials"]["rows"]
    found = [dict(zip(columns, row, strict=True)) for row in rows]
    assert [(row["stratum"], row["best_valid_objective"], row["steps"]) for row in found] == [
        ("valid", 3.0, 0),
        (None, None, 0),
    ]


def test_a_study_of_a_ray_tuner_has_no_searcher_and_workers_of_its_own(study: Path) -> None:
    goals = Goals(Objective("loss"), (Constraint("g", upper=1.0),))
    store = write(Written(goals, [[Attempt([(1.0, None)], None, "running", 0)]]), study)
    with store.transaction():
        settings = {"engine": "ray tune", "confirm_top": 0, "keep_models": 3}
        store.set_settings(json.dumps(settings), store.study()["constraints"])
        store.name_trial(1, "1a2b_00000")
    about = content(StudyView(study), figures=False)["study"]
    store.close()
    assert (about["searcher"], about["workers"], about["engine"]) == ("Ray's own", None, "ray tune")


def test_long_and_hostile_words_stay_words(study: Path) -> None:
    hostile = "<script>alert(1)</script>" + "x" * 10_000
    goals = Goals(Objective("loss"), (Constraint(hostile, upper=1.0),))
    store = write(Written(goals, []), study)
    with store.transaction():
        store.add_trial(1, 1, {hostile: hostile, "y": math.inf}, 1e9, 0)
        store.end_trial(1, 1, "failed", stated("failed", hostile), 1e9)
    store.close()
    page = content(StudyView(study), figures=False)
    json.dumps(page, allow_nan=False)
    assert page["study"]["constraints"][0]["name"] == hostile
    assert len(page["trials"]["columns"][-2]) == len(page["trials"]["rows"][0][-2]) == 80
    assert page["trials"]["rows"][0][-1] == "inf"


def test_a_result_in_a_notebook_is_a_table_of_text(study: Path) -> None:
    goals = Goals(Objective("<b>loss</b>"), (Constraint("g", upper=1.0),))
    write(Written(goals, [[Attempt([(1.0, {"g": Estimate(0.5)})], None, "finished", 0)]]),
          study).close()  # fmt: skip
    html = acetune.load(study)._repr_html_()
    assert html.startswith("<table>") and "&lt;b&gt;loss&lt;/b&gt; 1, g 0.5" in html
    assert "<b>" not in html and html.count("<tr>") == html.count("</tr>") >= 6
