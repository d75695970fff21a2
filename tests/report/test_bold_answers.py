"""Answers that keep the limits and miss only a margin which acetune has chosen: told of alike."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
import pytest
from click.testing import CliRunner
from hypothesis import given

import acetune
from acetune import Constraint, Estimate
from acetune.cli import app
from acetune.core.goals import Margin
from acetune.export import to_csv, to_optuna
from acetune.report._content import content
from acetune.report._trials import trial_detail
from acetune.report.figures import FIGURES, Drawing, FigureData
from acetune.report.figures._curves import chosen_trials
from acetune.study.reader import StudyView
from export.kit import writing
from properties import examples
from report.written import Written, studies, write

# the search aims 3 standard errors of 0.1 within the limit of 2
LIMITS = [Constraint("g", upper=2.0, margin_se=Margin(3.0, "auto"))]
SAFE, BOLD, OVER = ({"g": Estimate(value, 0.1)} for value in (1.2, 1.9, 2.4))
Reports = Sequence[tuple[float, Mapping[str, Estimate] | None]]

# trials, what fresh data said of some, and trial and step of the answer
CASES: dict[str, tuple[list[Reports], list[tuple[int, int, str]], tuple[int, int] | None]] = {
    "all are bold": ([[(3.0, BOLD)], [(2.0, BOLD), (1.0, OVER)], [(0.5, None)]], [], (2, 1)),
    "beside valid ones": (
        [[(3.0, SAFE)], [(2.0, BOLD)], [(1.0, OVER)]], [(1, 1, "holds"), (2, 1, "holds")], (2, 1)
    ),
    "its trial has a valid one too": (
        [[(3.0, SAFE), (2.0, BOLD)], [(4.0, SAFE)]], [(1, 2, "holds")], (1, 2)
    ),
    "better ones were not judged": (
        [[(3.0, BOLD)], [(2.0, BOLD)], [(4.0, SAFE)], [(1.0, OVER)]], [(1, 1, "holds")], (1, 1)
    ),
    "a better one of its trial was not": (
        [[(3.0, BOLD), (2.0, BOLD)], [(4.0, SAFE)]], [(1, 1, "holds")], (1, 1)
    ),
    "better ones were rejected": (
        [[(3.0, BOLD)], [(2.0, BOLD)], [(1.0, SAFE)]],
        [(1, 1, "holds"), (2, 1, "broken"), (3, 1, "broken")],
        (1, 1),
    ),
    "a bold one is better, and a valid one is the answer": (
        [[(3.0, SAFE)], [(2.0, BOLD)]], [], (1, 1)
    ),
    "all were rejected": ([[(3.0, BOLD)], [(2.0, BOLD)]], [(2, 1, "broken")], None),
}  # fmt: skip


@pytest.fixture(params=CASES)
def bold(request: pytest.FixtureRequest, study: Path) -> tuple[Path, tuple[int, int] | None]:
    """A study file, and where its answer is."""
    trials, judged, answer = CASES[request.param]
    made(study, trials, judged)
    return study, answer


def made(study: Path, trials: list[Reports], judged: list[tuple[int, int, str]]) -> None:
    with writing(study, LIMITS) as author:
        for number, reports in enumerate(trials, 1):
            author.run(number, {"x": number / 10}, reports, "stopped")
        with author.store.transaction():
            for trial, step, status in judged:
                value = 3.0 if status == "broken" else 1.5
                values = {"g": (value, 0.1)}
                author.store.add_confirmation(trial, 1, step, status, values, None, 0.0)


def drawn(study: Path, figure: str) -> Drawing:
    return FIGURES[figure](FigureData(StudyView(study)))


def test_optunas_best_trial_is_the_answer(bold: tuple[Path, tuple[int, int] | None]) -> None:
    study, answer = bold
    result, exported = acetune.load(study), to_optuna(study)
    assert (result.best and (result.best.trial, result.best.step)) == answer
    if answer is None:
        with pytest.raises(ValueError, match="No feasible trials"):
            exported.best_trial  # noqa: B018
        return
    assert result.best is not None
    best = exported.best_trial
    assert (best.user_attrs["trial"], best.user_attrs["found_step"]) == answer
    assert best.value == result.best.value and best.state is optuna.trial.TrialState.COMPLETE
    limit = LIMITS[0].condition
    assert best.constraints["g"] == limit.relative_excess(result.best.constraints["g"]) <= 0
    assert best.user_attrs["confirmation"] == result.best.status


@given(studies())
@examples(60)
def test_of_any_study(tmp_path_factory: pytest.TempPathFactory, study: Written) -> None:
    path = tmp_path_factory.mktemp("any") / "study.db"
    write(study, path).close()
    result, exported = acetune.load(path), to_optuna(path, for_dashboard=False)
    if result.best is None:
        with pytest.raises(ValueError, match=r"feasible|completed"):
            exported.best_trial  # noqa: B018
        return
    mine = exported.trials[result.best.trial - 1]
    assert exported.best_trial.number == mine.number and mine.value == result.best.value
    assert all(amount <= 0 for amount in mine.constraints.values())
    assert mine.user_attrs["found_step"] == result.best.step


def test_the_answer_lies_on_or_below_the_line_of_what_is_feasible(
    bold: tuple[Path, tuple[int, int] | None],
) -> None:
    study, _ = bold
    picture = drawn(study, "progress")
    lines = {trace["name"]: trace for trace in picture.data}
    feasible = lines["best feasible"]["y"]
    trials, *_ = CASES[next(name for name, case in CASES.items() if case[0] == read(study))]
    keeps = [value for reports in trials for value, g in reports if g and g["g"].value <= 2]
    assert feasible[-1] == min(keeps)
    assert "annotations" not in picture.layout  # "nothing feasible"
    if "the answer" in lines:
        ((x,), (y,)) = lines["the answer"]["x"], lines["the answer"]["y"]
        at = max(i for i, moment in enumerate(lines["best feasible"]["x"]) if moment <= x)
        assert y >= feasible[at]  # smaller is better


def read(study: Path) -> list[Reports]:
    """The trials of a study as :data:`CASES` has them."""
    view = StudyView(study)
    found: dict[int, list[Any]] = {}
    measured = dict(zip(view.checks.row.tolist(), view.checks.value.tolist(), strict=True))
    for row, trial in enumerate(view.reports.trial.tolist()):
        check = {"g": Estimate(measured[row], 0.1)} if row in measured else None
        found.setdefault(trial, []).append((float(view.reports.objective[row]), check))
    return [found[trial] for trial in sorted(found)]


def test_the_tradeoff_tells_of_the_answer(bold: tuple[Path, tuple[int, int] | None]) -> None:
    study, answer = bold
    picture = drawn(study, "tradeoff")
    assert picture.table is not None
    kinds = [(row[0], (int(row[1]), int(row[2]))) for row in picture.table.rows]
    assert [place for kind, place in kinds if kind == "the answer"] == ([answer] if answer else [])
    assert len({place for _, place in kinds}) == len(kinds)
    for kind, (trial, step) in kinds:
        _, measured = read(study)[trial - 1][step - 1]
        assert measured is not None
        assert (kind == "nearest miss") is (measured["g"].value > 2)
    assert "circles are as far within every limit as the search aimed for" in picture.caption
    assert "does not keep" not in picture.caption
    assert "Limits include" not in drawn(study, "what_if").caption
    kept = sum(g["g"].value <= 2 for reports in read(study) for _, g in reports if g)
    assert picture.alt.startswith(f"{kept} of ")


def test_a_margin_that_was_given_is_a_condition(study: Path) -> None:
    limits = [Constraint("g", upper=2.0, margin_se=3.0)]
    with writing(study, limits) as author:
        author.run(1, {"x": 0.5}, [(1.0, BOLD), (2.0, SAFE)])
    assert "A value within the margin that was given does not keep" in (
        drawn(study, "tradeoff").caption
    )
    assert "Limits include the margin that was given." in drawn(study, "what_if").caption
    assert to_optuna(study, for_dashboard=False).best_trial.value == 2.0
    assert drawn(study, "progress").data[1]["y"] == [2.0, 2.0]


def test_tables_show_the_answer_in_its_row(
    bold: tuple[Path, tuple[int, int] | None], tmp_path: Path
) -> None:
    study, answer = bold
    result = acetune.load(study)
    to_csv(study, tmp_path / "trials.csv")
    with (tmp_path / "trials.csv").open() as file:
        rows = {int(row["trial"]): row for row in csv.DictReader(file)}
    marked = [trial for trial, row in rows.items() if row["answer"] == "True"]
    page = content(StudyView(study), figures=False)
    if answer is None:
        assert marked == [] and page["trials"]["answer"] is None
        return
    assert result.best is not None
    assert marked == [answer[0]] == [page["trials"]["answer"]]
    row = rows[answer[0]]
    assert (int(row["found_step"]), float(row["found_objective"])) == (
        result.best.step,
        result.best.value,
    )
    assert row["confirmation"] == result.best.status
    value = result.best.constraints["g"].value
    assert float(row["constraint.g"]) == value
    assert result.trials.loc[answer[0], "constraint.g"] == value
    assert row["stratum"] == ("invalid" if value > 1.7 else "valid")


def test_the_nearest_miss_breaks_a_limit(study: Path) -> None:
    made(study, *CASES["all are bold"][:2])
    result = acetune.load(study)
    assert result.nearest_miss is not None
    assert result.nearest_miss.constraints == OVER
    shown = json.loads(CliRunner().invoke(app, ["show", str(study), "--json"]).output)
    assert shown["nearest_miss"]["status"] is None and shown["best"]["status"] == "unconfirmed"
    assert chosen_trials(FigureData(StudyView(study)))[2] == "holds the answer"


def test_an_answer_in_an_earlier_attempt_is_shown(study: Path) -> None:
    with writing(study, LIMITS) as author:
        author.run(1, {"x": 0.5}, [(3.0, None), (1.0, BOLD), (5.0, OVER)], "interrupted", "cut off")
        author.run(1, {"x": 0.5}, [(4.0, None)], attempt=2, resumed_from=1)
    run = CliRunner().invoke(app, ["explain", str(study), "1"], env={"COLUMNS": "200"})
    assert run.exit_code == 0, run.output
    text = run.output
    assert "it holds the answer: step 2 of 10 of its attempt 1" in text
    assert "this is its attempt 2; of earlier ones only what they found counts" in text
    said = "its attempt 1, which holds the answer, was interrupted: cut off"
    assert said in text and text.count("* 2 │") == 1 and text.count("its reports (") == 2

    detail = trial_detail(StudyView(study), 1)
    assert detail["attempt"] == 2
    earlier = detail["earlier"]
    assert earlier["attempt"] == 1 and said in earlier["why"]
    assert [row[0] for row in earlier["reports"]["rows"]] == ["1", "* 2", "3"]
    for line in earlier["why"]:
        assert line in text
    made(study.with_name("other.db"), *CASES["all are bold"][:2])
    assert trial_detail(StudyView(study.with_name("other.db")), 2)["earlier"] is None
