"""Why a trial ended: the page and the terminal say the same, with the numbers of the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from acetune import (
    ACE,
    ACE2,
    ASHA,
    ASHALexicographic,
    ASHAStratum,
    Constraint,
    Estimate,
    Hyperband,
    MedianStopping,
    Trial,
)
from acetune.cli import app
from acetune.core.errors import StudyError
from acetune.core.goals import Goals, Objective
from acetune.core.measured_costs import Costs
from acetune.core.reason import NO_REASON, stated
from acetune.policies.policy import Policy
from acetune.report._trials import trial_detail
from acetune.report.explanation import how_it_ended, telling, why_unchecked
from acetune.report.figures import FIGURES, FigureData
from acetune.study.reader import StudyView
from acetune.study.table_rows import TrialRow
from report.written import Attempt, Written, planned, write
from run.helpers import by_hand, g_of, tune

GOALS = Goals(Objective("loss"), (Constraint("g", upper=0.2),))


def flat(text: str) -> str:
    """A terminal's text without its line breaks and frames."""
    return " ".join(text.replace("│", " ").split())


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> StudyView:
    """A study in which trials were stopped."""
    path = tmp_path_factory.mktemp("stopped") / "study.db"
    table = [[(float(n), 5.0 - n), (float(n), 1.0), (float(n), 1.0)] for n in range(1, 7)]
    tune(
        by_hand(table),
        path,
        xs=range(6),
        policy=ACE(truncation=0.5, interval=1),
        constraints=[Constraint("g", upper=2, check=g_of)],
    )
    return StudyView(path)


def test_page_and_terminal_say_the_same(stopped: StudyView) -> None:
    for trial in stopped.trials:
        detail = trial_detail(stopped, trial.trial)
        run = CliRunner().invoke(
            app, ["explain", str(stopped.path), str(trial.trial), "--all"], env={"COLUMNS": "200"}
        )
        assert run.exit_code == 0
        said = flat(run.output)
        assert f"trial {trial.trial} {trial.state}: {trial.reason}" in detail["why"][:2]
        for line in detail["why"]:
            assert flat(line) in said
        assert "parameters: " in said  # the page has a table of them
        assert not [line for line in detail["why"] if line.startswith("parameters: ")]
        for row in detail["reports"]["rows"]:
            assert flat(" ".join(row)) in said
    states = {trial.state for trial in stopped.trials}
    assert "stopped" in states  # or nothing was explained


def test_the_reports_are_those_of_the_file(stopped: StudyView) -> None:
    trial = next(t.trial for t in stopped.trials if t.state == "stopped")
    detail = trial_detail(stopped, trial)
    with stopped.open() as store:
        rows = store.rows("SELECT * FROM reports WHERE trial = ? ORDER BY seq", (trial,))
    assert detail["reports"]["columns"][:3] == ["step", "loss", "stratum"]
    assert [row[:3] for row in detail["reports"]["rows"]] == [
        [str(r["step"]), f"{r['objective']:.5g}", r["stratum"]] for r in rows
    ]
    assert detail["reports"]["rows"][-1][-1] == "stop" and detail["reports"]["note"] == ""
    assert detail["figure"]["data"] and detail["params"] == stopped.params(trial)
    json.dumps(detail, allow_nan=False)


ROW = TrialRow(
    7, 1, {}, None, None, None, 0, "running", None, 1e9, None, NO_REASON, NO_REASON
)  # fmt: skip


def explained_plan(
    policy: Policy, total: int | None, interval: int | None, ratio: float | None
) -> str:
    schedule = planned(policy, total, interval, ratio)[-1]
    return how_it_ended(ROW._replace(schedule=schedule), None)[2]


@pytest.mark.parametrize(
    ("policy", "when"),
    [
        (ACE(interval=1), "at every step of 64 steps"),
        (ACE(interval="end"), "once, at the end of 64 steps"),
        (ASHA(), "at every rung and at the last step"),
        (ASHALexicographic(), "at every rung and at the last step"),
        (ASHAStratum(interval=1), "at every rung and at the last step"),
        (Hyperband(), "once, at the end of 64 steps"),
        (MedianStopping(), "once, at the end of 64 steps"),
        (
            ACE2(),
            "at step 1, at its last, and in between when it has trained for 1.5 times as "
            "long as its last check took",
        ),
    ],
    ids=repr,
)
def test_when_a_check_was_due(policy: Policy, when: str, study: Path) -> None:
    interval = policy.first_check(64, Costs())
    assert explained_plan(policy, 64, interval, None) == f"constraint: due {when}"
    store = write(Written(GOALS, [[Attempt([(1.0, None)], None, "running", 0)]]), study)
    with store.transaction():
        store.set_plan(1, 1, *planned(policy, 64, interval, 0.5))
    store.close()
    drawing = FIGURES["intervals"](FigureData(StudyView(study)))
    assert drawing.table is not None
    if not isinstance(policy, ACE2):
        assert f"due {drawing.table.rows[0][0]}" in f"due {when}".replace("once, ", "")


@pytest.mark.parametrize(
    ("interval", "total", "policy", "when"),
    [
        (6, 64, {}, "at step 6, at its last, and in between when it has trained for 1.5 times as "
         "long as its last check took"),
        (6, 64, {"spacing": 0.0}, "from step 6 on, at every step of 64 steps"),
        (64, 64, {}, "once, at the end of 64 steps, because many checks had come out valid when it "
         "started"),
        (1, None, {"spacing": 1.0}, "at step 1, at its last, and in between when it has trained "
         "for as long as its last check took"),
    ],
)  # fmt: skip
def test_when_a_check_was_due_with_ace2(
    interval: int, total: int | None, policy: dict[str, Any], when: str
) -> None:
    assert explained_plan(ACE2(**policy), total, interval, 3.0) == f"constraint: due {when}"
    told = why_unchecked(
        ROW._replace(schedule=planned(ACE2(**policy), total, interval, 3.0)[-1]), True
    )
    assert (told is None) == (interval == total)


def test_a_trial_that_runs_has_no_reason_yet() -> None:
    assert how_it_ended(ROW, None)[0] == "trial 7 running"


def test_a_last_step_that_became_known_late_is_not_called_a_reason(study: Path) -> None:
    store = write(Written(GOALS, [[Attempt([(1.0, None)], None, "running", 0)]] * 2), study)
    with store.transaction():
        # by the theorem it would be checked at its end
        store.set_plan(1, 1, *planned(ACE(), 10, 1, 500.0))
        store.set_plan(2, 1, *planned(ACE(), 10, 10, 500.0))
    store.close()
    view = StudyView(study)
    late, usual = (trial_detail(view, trial)["why"][1] for trial in (1, 2))
    assert late == (
        "constraint: due at every step of 10 steps; its last step was not known yet when that was "
        "chosen"
    )
    assert usual.startswith("constraint: due once, at the end of 10 steps, because a check cost")
    caption = FIGURES["intervals"](FigureData(view)).caption
    assert "The T of 1 trial became known after the start" in caption


def test_unchecked_reports_have_a_word_where_checks_were_due_along_the_way() -> None:
    row = ROW._replace(schedule=planned(ACE(), 64, 1, None)[-1])
    assert str(why_unchecked(row, True)).startswith("unchecked: no check was due there, or")
    assert why_unchecked(row, False) is None
    for policy in (ACE(interval="end"), ASHA(constraints="after")):
        row = ROW._replace(schedule=planned(policy, 64, 64, None)[-1])
        assert why_unchecked(row, True) is None
    assert why_unchecked(ROW, True) is None  # no constraints


def test_long_trials_are_thinned_and_said_to_be(study: Path) -> None:
    reports: list[tuple[float, Any]] = [(float(n), None) for n in range(1000)]
    reports[501] = (0.0, {"g": Estimate(0.1)})
    write(Written(GOALS, [[Attempt(reports, None, "stopped", 0)]]), study).close()
    table = trial_detail(StudyView(study), 1)["reports"]

    assert [row[0] for row in table["rows"] if row[0].startswith("*")] == ["* 502"]  # the answer
    steps = [int(row[0].removeprefix("* ")) for row in table["rows"]]
    assert len(steps) < 110 and steps == sorted(set(steps))
    assert {1, 502, 1000} <= set(steps) and table["rows"][-1][-1] == "stop"
    assert table["note"].startswith(f"{len(steps)} of its 1000 reports")


@pytest.fixture
def long(study: Path) -> Path:
    """A trial of 84 steps whose only valid checkpoint is at step 15."""
    reports: list[tuple[float, Any]] = [(float(n), None) for n in range(84)]
    reports[13] = (50.0, {"g": Estimate(0.9)})
    reports[14] = (60.0, {"g": Estimate(0.1)})
    reports[40] = (70.0, {"g": Estimate(0.7)})
    store = write(Written(GOALS, [[Attempt(reports, None, "stopped", 0)]]), study)
    with store.transaction():
        store.set_plan(1, 1, *planned(ACE(), 90, 1, None))
    store.close()
    return study


def explained(study: Path, *more: str) -> list[str]:
    run = CliRunner().invoke(app, ["explain", str(study), "1", *more], env={"COLUMNS": "200"})
    assert run.exit_code == 0, run.output
    return run.output.splitlines()


def test_the_answer_is_never_left_out(long: Path) -> None:
    lines = explained(long)

    assert lines[0] == "it holds the answer: step 15 of 90"
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if "│" in line]
    steps = [row[0] for row in cells]
    # the first two, those before and at the only valid one, the last invalid one, the last three
    dots = "..."
    assert steps == ["1", "2", dots, "14", "* 15", dots, "41", dots, "82", "83", "84"]
    assert cells[4][2:4] == ["valid", "g 0.1"] and cells[-1][-1] == "stop"
    assert "* the answer" in lines and "76 of 84 rows left out: --all shows them" in lines
    everything = explained(long, "--all")
    assert len([line for line in everything if "│" in line]) == 84
    assert not [line for line in everything if "left out" in line]


def test_few_reports_are_all_shown(study: Path) -> None:
    reports: list[tuple[float, Any]] = [(float(n), None) for n in range(30)]
    write(Written(GOALS, [[Attempt(reports, None, "finished", 0)]]), study).close()
    lines = explained(study)
    assert len([line for line in lines if "│" in line]) == 30
    assert not [line for line in lines if "left out" in line or "the answer" in line]


def test_no_dots_in_place_of_a_single_report() -> None:
    rows = [
        {"kind": "step", "step": n, "checked_step": None, "decision": "continue",
         "stratum": "valid" if n == 4 else "unchecked"} for n in range(1, 50)
    ]  # fmt: skip
    assert telling(rows) == [0, 1, 2, 3, 46, 47, 48]


def test_a_trial_that_reported_nothing_has_no_table_and_the_users_frames_alone(
    study: Path,
) -> None:
    def train(trial: Trial) -> None:
        raise ValueError("nothing here")

    tune(train, study)
    lines = explained(study)
    text = "\n".join(lines)
    assert "it reported nothing" in lines and "┃" not in text and "its reports" not in text
    assert lines[0] == "trial 1 failed: ValueError: nothing here"
    assert 'test_explanation.py", line' in text and 'raise ValueError("nothing here")' in text
    assert "worker.py" not in text and "_train_from" not in text


def test_attempts_names_hardware_and_tracebacks(study: Path) -> None:
    attempts = [
        Attempt([(1.0, None)], None, "failed", 0),
        Attempt([(1.0, None), (2.0, None)], None, "failed", 1),
    ]
    store = write(Written(GOALS, [attempts]), study)
    with store.transaction():
        store.end_trial(
            1, 2, "failed", stated("failed", "ValueError: x"), 1e9, "Traceback ...\n  [/bold]: x\n"
        )
        store.set_hardware(1, 2, "a <fast> machine")
        store.name_trial(1, "1a2b_00000")
    store.close()
    detail = trial_detail(StudyView(study), 1)

    assert [a["attempt"] for a in detail["attempts"]] == [1, 2]
    assert detail["attempt"] == 2 and detail["name"] == "1a2b_00000"
    assert detail["hardware"] == "a <fast> machine"
    assert [row[0] for row in detail["reports"]["rows"]] == ["2", "3"]  # of the latest attempt
    why = "\n".join(detail["why"])
    assert "this is its attempt 2" in why and "[/bold]: x" in why and "measured on: a <fast>" in why
    run = CliRunner().invoke(app, ["explain", str(study), "train_1a2b_00000"])
    assert run.exit_code == 0 and "[/bold]: x" in run.output


def test_names_and_errors_are_not_taken_for_markup(study: Path) -> None:
    goals = Goals(Objective("[/loss]"), (Constraint("[bold]g", upper=0.2),))
    reports: list[tuple[float, Any]] = [(1.0, {"[bold]g": Estimate(0.1)})]
    write(Written(goals, [[Attempt(reports, None, "finished", 0)]]), study).close()
    run = CliRunner().invoke(app, ["explain", str(study), "1"], env={"COLUMNS": "200"})
    assert run.exit_code == 0
    assert "limit: [bold]g <= 0.2" in run.output and "[/loss]" in run.output
    assert "[bold]g 0.1" in run.output


def test_a_trial_that_is_not_there_is_said(study: Path, stopped: StudyView) -> None:
    with pytest.raises(StudyError, match=r"has no trial 99; it has trials 1 to 6"):
        trial_detail(stopped, 99)
    write(Written(GOALS, []), study).close()
    with pytest.raises(StudyError, match=r"has no trial 1; it has no trial yet"):
        trial_detail(StudyView(study), 1)
