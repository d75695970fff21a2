"""Steps counted in tokens: exact up to 2**62 wherever they are read, refused beyond."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import optuna
import pytest
from pyarrow import parquet

import acetune
from acetune import ACE, ACE2, Constraint, NoStopping, Trial
from acetune.core.errors import TableError
from acetune.export import to_csv, to_optuna, to_parquet
from acetune.optuna import AcePruner
from acetune.replay.from_study import table_from_study
from acetune.report.dashboard._study_follower import StudyFollower
from acetune.report.html import write_report
from acetune.study.reader import StudyView
from cli.inside import Command
from run.helpers import report_rows, states, trial_rows, tune

LAST = 2**62
STEPS = [2**31 - 1, 2**31, 2**31 + 1, 2**32 + 1, 2**53 + 1, 2**53 + 3, LAST - 1]
BEST = 2**53 + 1
LIMIT = Constraint("g", upper=0.5, check=lambda model: model)
EVERY = ACE(truncation=0, interval=1, gate=False)


def train(trial: Trial) -> None:
    trial.declare(LAST)
    for step in STEPS if trial.number != 2 else [*STEPS[:2], 2**63]:
        value = 0.0 if step == BEST and trial.number == 1 else 1.0
        trial.report(value + trial.number, step=step, model=0.25)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of three trials, of which the second goes too far."""
    study = tmp_path_factory.mktemp("large") / "study.db"
    tune(train, study, constraints=[LIMIT], policy=EVERY, xs=range(3))
    return study


def test_one_trial_that_goes_too_far_fails_alone(ran: Path) -> None:
    assert states(ran) == ["finished", "failed", "finished"]
    reason = trial_rows(ran)[1]["reason"]
    assert "step must be at most 2**62, got 9223372036854775808" in reason
    assert "thousands of tokens" in reason
    assert [row["step"] for row in report_rows(ran) if row["trial"] == 1] == STEPS


def test_the_result(ran: Path) -> None:
    result = acetune.load(ran)
    assert result.best is not None
    assert (result.best.step, result.best.total_steps) == (BEST, LAST)
    assert f"step {BEST} of {LAST}" in str(result)
    frame = result.trials
    assert list(frame["last_step"]) == [STEPS[-1], STEPS[1], STEPS[-1]]
    assert list(frame["total_steps"]) == [LAST] * 3
    other = result.what_if(g=0.3).best
    assert other is not None and other.step == BEST


def test_the_columns_of_the_report(ran: Path) -> None:
    with StudyView(ran) as view:
        reports = view.reports
        first = reports.trial == 1
        assert reports.step[first].tolist() == reports.checked_step[first].tolist() == STEPS


def test_the_page_and_what_the_dashboard_sends(ran: Path, tmp_path: Path) -> None:
    """What people read is exact: browsers round numbers beyond 2**53, and not text."""
    page = write_report(ran, tmp_path / "page.html").read_text()
    assert f"Stop at step {BEST} of {LAST}" in page
    assert f"trial 1, step {BEST}" in page  # where one points at a curve
    assert f"{STEPS[-1]} of {LAST}" in page
    follower = StudyFollower(ran)
    try:
        found = json.loads(follower.update().body, parse_int=float)  # as a browser reads it
        detail = json.loads(follower.trial(1) or b"", parse_int=float)
    finally:
        follower.close()
    best = found["answer"]["best"]
    assert (best["step"], best["total_steps"]) == (str(BEST), str(LAST))
    assert {point["step"] for point in found["what_if"][0]["breakpoints"]} == {None, str(BEST)}
    columns = found["trials"]["columns"]
    row = dict(zip(columns, found["trials"]["rows"][0], strict=True))
    assert (row["steps"], row["total_steps"]) == (str(STEPS[-1]), str(LAST))
    assert detail["total_steps"] == str(LAST)
    assert [cells[0].strip("* ★") for cells in detail["reports"]["rows"]] == list(map(str, STEPS))
    shown = {figure["id"]: figure["figure"]["data"] for figure in found["figures"]}
    texts = [text for trace in shown["curves"] for text in trace.get("text", [])]
    assert {f"trial 1, step {step}" for step in STEPS} <= set(texts)
    steps = [point[1] for trace in shown["tradeoff"] for point in trace.get("customdata", [])]
    assert str(BEST) in steps and float(2**31 + 1) in steps


def test_show_and_explain(
    ran: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    acetune_command = Command(capsys, monkeypatch)
    monkeypatch.setenv("COLUMNS", "200")
    assert f"step {BEST} of {LAST}" in acetune_command("show", ran)[0]
    shown, _ = acetune_command("explain", ran, 1)
    assert all(str(step) in shown for step in STEPS)


def test_exports(ran: Path, tmp_path: Path) -> None:
    to_csv(ran, tmp_path / "csv")
    with (tmp_path / "csv" / "reports.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows if row["trial"] == "1"] == STEPS
    to_parquet(ran, tmp_path / "parquet")
    table = parquet.read_table(tmp_path / "parquet" / "reports.parquet").to_pylist()
    assert [row["step"] for row in table if row["trial"] == 1] == STEPS
    storage = f"sqlite:///{tmp_path / 'optuna.db'}"
    to_optuna(ran, storage)
    (name,) = optuna.get_all_study_names(storage)
    trial = optuna.load_study(study_name=name, storage=storage).trials[0]
    assert list(trial.intermediate_values) == STEPS
    assert trial.user_attrs["found_step"] == BEST


def test_a_curve_table_says_that_it_needs_every_step(ran: Path) -> None:
    with pytest.raises(TableError, match="every step from 1 on"):
        table_from_study(ran)


def test_resuming_goes_on_from_a_large_step(study: Path) -> None:
    def fails_once(trial: Trial) -> None:
        trial.declare(LAST)
        for step in [step for step in STEPS if step > trial.last_step]:
            trial.report(1.0, step=step, model=0.25, checkpoint=lambda folder: None)
            if trial.attempt == 1 and step == BEST:
                raise RuntimeError("once")

    options: dict[str, Any] = {"constraints": [LIMIT], "policy": EVERY, "retries": 1}
    tune(fails_once, study, **options)
    tries = trial_rows(study)
    assert [row["resumed_from"] for row in tries] == [0, BEST]
    assert [row["step"] for row in report_rows(study)] == STEPS
    result = tune(fails_once, study, xs=range(2), **options)  # replays all of it
    assert result.counts == {"finished": 2}


def test_steps_beyond_the_largest_are_refused_however_they_come(study: Path) -> None:
    def too_long(trial: Trial) -> None:
        for _ in trial.steps([2**62 + 1, True][trial.number - 1]):
            trial.report(1.0)

    result = tune(too_long, study, xs=range(2))
    reasons = list(result.trials["reason"])
    assert "total_steps must be at most 2**62, got 4611686018427387905" in reasons[0]
    assert "total_steps must be a whole number >= 1, got True" in reasons[1]


def test_the_frame_of_trials_is_exact_where_a_last_step_is_unknown(study: Path) -> None:
    def sometimes(trial: Trial) -> None:
        if trial.number == 2:
            trial.declare(LAST - 1)
        trial.report(1.0, step=BEST)

    frame = tune(sometimes, study, xs=range(2)).trials
    assert frame["total_steps"][2] == LAST - 1 and frame["total_steps"].isna()[1]
    assert list(frame["last_step"]) == [BEST, BEST]


@pytest.mark.parametrize("policy", [ACE2(), ACE(), NoStopping(), acetune.ASHA()], ids=repr)
def test_a_loop_of_that_many_steps_can_be_left(study: Path, policy: acetune.Policy) -> None:
    """Nothing takes longer because there are many steps to come."""

    def leaves(trial: Trial) -> None:
        for step in trial.steps(LAST):
            trial.report(1 / step, model=0.25)
            if step == 3:
                break

    result = tune(leaves, study, constraints=[LIMIT], policy=policy, xs=range(2))
    assert result.best is not None and result.best.step == 3


@pytest.mark.parametrize("stored", [True, False], ids=["database", "memory"])
def test_optuna_keeps_them_too(tmp_path: Path, stored: bool) -> None:
    storage = f"sqlite:///{tmp_path / 'optuna.db'}" if stored else None
    pruner = AcePruner([LIMIT], EVERY)
    study = optuna.create_study(storage=storage, pruner=pruner)

    def objective(trial: optuna.Trial) -> float:
        with acetune.optuna.trial(trial, total_steps=LAST) as ace:
            for step in STEPS:
                ace.report(0.0 if step == BEST else 1.0, step=step, model=0.25)
            if trial.number == 1:
                ace.report(1.0, step=2**63, model=0.25)
        return ace.finish()

    study.optimize(objective, n_trials=3, catch=acetune.errors.ReportError)
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "FAIL", "COMPLETE"]
    assert list(study.trials[0].intermediate_values) == STEPS
    best = acetune.optuna.best(study)
    assert best is not None and best.step == BEST


def test_a_report_to_optuna_itself_that_goes_too_far_fails_alone() -> None:
    study = optuna.create_study(pruner=AcePruner([LIMIT], EVERY))

    def objective(trial: optuna.Trial) -> float:
        for step in [*STEPS, *([2**63] if trial.number == 1 else [])]:
            trial.report(1.0, step)
            trial.should_prune()
        return 1.0

    with pytest.warns(UserWarning):  # nothing is ever checked
        study.optimize(objective, n_trials=3, catch=acetune.errors.ReportError)
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "FAIL", "COMPLETE"]
