"""A study with two constraints whose checks end at the first violated one, and what is seen of it.

``dear`` is declared first, and costs more; ``cheap`` is violated by most configurations.
"""

from __future__ import annotations

import csv
import json
import math
from dataclasses import dataclass
from pathlib import Path

import optuna
import pytest
from click.testing import CliRunner

from acetune import ACE, ACE2, Constraint, StudyResult, Trial
from acetune.cli import app
from acetune.cli.exits import code_of
from acetune.core.history import History
from acetune.core.observation import Observation
from acetune.core.ranked_groups import Filing
from acetune.core.trial_record import Progress, TrialRecord
from acetune.policies import Action, Decision, Policy, parse_policy
from acetune.report.html import write_report
from acetune.study.reader import StudyView
from acetune.study.time_spent import ledger_of
from run.helpers import report_rows, rows, tune

STEPS = 4
XS = [0.9, 0.8, 0.7, 0.2, 0.6, 0.1, 0.5, 0.3, 0.95, 0.05]
LIMITS = [Constraint("dear", upper=0.5), Constraint("cheap", upper=0.32)]
KEEP = "ace2:truncation=0,invalid_truncation=0,patience=1,spacing=0,defer=False,head_start=0"


def dear(x: float, step: int) -> float:
    """Falls with the steps: below the limit from the second on."""
    return 0.3 + 0.3 / step


def cheap(x: float, step: int) -> float:
    """Small x satisfy it."""
    return x


def train(trial: Trial) -> None:
    x = trial.params["x"]
    for step in trial.steps(STEPS):
        trial.report(
            -x - 0.01 * step,
            model={"x": x, "step": step},
            constraints={
                "dear": lambda m: dear(m["x"], m["step"]),
                "cheap": lambda m: cheap(m["x"], m["step"]),
            },
            primary_cost_s=1.0,
            constraint_cost_s={"dear": 10.0, "cheap": 0.5},
        )


def run(study: Path, policy: str | Policy = KEEP, xs: list[float] = XS) -> StudyResult:
    return tune(train, study, constraints=LIMITS, policy=policy, xs=xs)


def made(study: Path) -> dict[str, int]:
    """How often each constraint was measured."""
    found = rows(study, 'SELECT "constraint" AS name, count(*) AS n FROM checks GROUP BY name')
    return {row["name"]: row["n"] for row in found}


def test_the_dear_one_is_measured_where_the_cheap_one_holds(study: Path) -> None:
    result = run(study)
    found = rows(
        study,
        'SELECT r.trial, r.step, r.violation, r.stratum, group_concat(c."constraint") AS names '
        "FROM reports r JOIN checks c USING (seq) GROUP BY seq ORDER BY seq",
    )
    by_place = {(row["trial"], row["step"]): row for row in found}
    for (trial, step), row in by_place.items():
        x = XS[trial - 1]
        if trial == 1:  # before both were timed
            assert row["names"] == "cheap,dear"
        elif x > 0.32:
            assert (row["names"], row["stratum"]) == ("cheap", "invalid")
            assert row["violation"] == pytest.approx((x - 0.32) / 0.32)  # of what was measured
        else:
            assert row["names"] == "cheap,dear"
            assert (row["stratum"] == "valid") == (step > 1)
    assert made(study)["dear"] < made(study)["cheap"] / 2
    assert result.best is not None
    assert (result.best.params["x"], result.best.step) == (0.3, STEPS)
    assert result.best.constraints.keys() == {"dear", "cheap"}
    assert result.ledger.failed_checks == 0

    # the same answer as with all of them measured, for more
    whole = study.with_name("whole.db")
    every = run(whole, f"{KEEP},one_by_one=False")
    assert every.best is not None
    assert (every.best.params, every.best.step) == (result.best.params, result.best.step)
    assert made(whole)["dear"] == made(whole)["cheap"]
    assert every.ledger.checks_s > 2 * result.ledger.checks_s


def test_a_study_that_goes_on_knows_what_it_has_left_out(study: Path) -> None:
    run(study, xs=XS[:5])
    run(study, xs=XS)  # the same file, more trials
    undisturbed = study.with_name("at-once.db")
    run(undisturbed, xs=XS)
    columns = ("trial", "step", "stratum", "violation", "rank", "of", "decision")
    ours, theirs = ([[r[c] for c in columns] for r in report_rows(s)] for s in (study, undisturbed))
    assert ours == theirs
    assert made(study) == made(undisturbed)


def test_what_people_see_of_what_was_left_out(study: Path, tmp_path: Path) -> None:
    result = run(study, xs=[0.9, 0.8, 0.4])  # none of them feasible
    assert result.best is None
    assert result.nearest_miss is not None
    assert result.nearest_miss.params["x"] == 0.4
    assert "dear not measured (limit <= 0.5), cheap 0.4 (limit <= 0.32)" in str(result)
    assert "is the limit right?" not in str(result)  # 0.4 is not far away
    assert f"dear was measured of {STEPS} of them, as another limit was broken first" in str(result)
    assert f"dear {STEPS} times in 40 s, cheap {3 * STEPS} times in 6 s" in str(result)
    runner = CliRunner()

    explained = runner.invoke(app, ["explain", str(study), "2"], env={"COLUMNS": "200"})
    assert explained.exit_code == 0, explained.output
    assert "dear not measured, cheap 0.8" in explained.output
    assert "not measured: another limit was broken already; counts as a further violation of 1" in (
        explained.output
    )
    first = runner.invoke(app, ["explain", str(study), "1"], env={"COLUMNS": "200"})
    assert "not measured" not in first.output

    shown = runner.invoke(app, ["show", str(study)], env={"COLUMNS": "200"})
    assert shown.exit_code == code_of(result), shown.output
    assert "failed" not in shown.output

    table = tmp_path / "trials.csv"
    exported = runner.invoke(app, ["export", str(study), "-o", str(table)])
    assert exported.exit_code == 0, exported.output
    with table.open() as file:
        trials = list(csv.DictReader(file))
    assert [bool(row["constraint.dear"]) for row in trials] == [True, False, False]
    assert [float(row["constraint.cheap"]) for row in trials] == [0.9, 0.8, 0.4]

    in_json = json.loads(runner.invoke(app, ["show", str(study), "--json"]).output)
    assert in_json["ledger"]["by_constraint"]["dear"] == {"checks": STEPS, "seconds": 40.0}
    live = ledger_of(StudyView(study))
    assert live.by_constraint == result.ledger.by_constraint

    page = write_report(study, tmp_path / "report.html").read_text()
    assert "not measured" in page

    storage = f"sqlite:///{tmp_path}/optuna.db"
    as_optuna = runner.invoke(app, ["export", str(study), "-o", storage])
    assert as_optuna.exit_code == 0, as_optuna.output
    (name,) = optuna.get_all_study_names(storage)
    loaded = optuna.load_study(study_name=name, storage=storage)
    constraints = [trial.constraints for trial in loaded.trials]
    for found in constraints:  # in the order of the study, by name and by number
        assert found["0"] == found["dear"] and found["1"] == found["cheap"]
    assert constraints[0]["dear"] < 0
    assert [found["dear"] for found in constraints[1:]] == [1.0, 1.0]
    assert constraints[2]["cheap"] == pytest.approx(0.25)


def test_another_limit_is_not_met_by_what_was_not_measured(study: Path) -> None:
    """At cheap <= 0.85 the dear constraint decides, under which x = 0.8 was never measured."""
    result = run(study)
    looser = result.what_if(cheap=0.85)
    assert looser.best is not None and looser.best.params["x"] == 0.3
    # those that break only this limit, and are not known to break the other
    better = [x for x in XS[1:] if 0.32 < x <= 0.85]
    assert looser.unchecked_better == len(better) * STEPS
    assert "never fully checked" in str(looser)
    loosest = result.what_if(cheap=1.0).best
    assert loosest is not None and loosest.params["x"] == 0.9  # the first trial was
    own = result.what_if(cheap=0.32)
    assert own.best == result.best and own.unchecked_better == 0


def test_the_paper_measures_all(study: Path) -> None:
    tune(train, study, constraints=LIMITS, policy=ACE(interval=1), xs=XS)
    assert made(study)["dear"] == made(study)["cheap"] > 0


def test_a_check_that_fails_ends_the_check(study: Path) -> None:
    def broken(trial: Trial) -> None:
        for _ in trial.steps(3):
            trial.report(
                1.0,
                constraints={
                    "dear": lambda: 0.1,
                    "cheap": lambda: math.nan if trial.number > 1 else 0.9,
                },
                primary_cost_s=1.0,
                constraint_cost_s={"dear": 10.0, "cheap": 0.5},
            )

    result = tune(broken, study, constraints=LIMITS, policy=KEEP, xs=[0.0, 0.1])
    second = rows(
        study,
        'SELECT "constraint" AS name, error FROM checks JOIN reports USING (seq) WHERE trial = 2',
    )
    assert {row["name"] for row in second} == {"cheap"}
    assert all("cheap" in row["error"] for row in second)
    assert result.best is None
    explained = CliRunner().invoke(app, ["explain", str(study), "2"], env={"COLUMNS": "200"})
    assert "constraint 'cheap' is nan" in explained.output


def test_options_are_in_the_file(study: Path) -> None:
    run(study, xs=XS[:1])
    (row,) = rows(study, "SELECT policy FROM study")
    assert json.loads(row["policy"])["one_by_one"] is True
    (row,) = rows(study, "SELECT count(*) AS n FROM checks")
    assert row["n"] == 2 * STEPS  # the first trial measures all


class OneByOne(ACE2):
    """A policy of somebody's own with the option."""


@dataclass(frozen=True)
class Always(Policy):
    """One without it: it measures one by one, at every step."""

    one_by_one = True

    def due(self, trial: Progress, step: int, loss: float) -> int | None:
        return step

    def decide(
        self, trial: TrialRecord, report: Observation, filing: Filing | None, history: History
    ) -> Decision:
        return Decision(Action.CONTINUE, "goes on", report.stratum, step=report.step)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (OneByOne(**parse_policy(KEEP).options()), "OneByOne with one_by_one=False measures all"),
        (Always(), "Always with one_by_one = False in its class measures all"),
    ],
    ids=["option", "class"],
)
def test_the_policy_that_would_measure_all_is_the_studys_own(
    policy: Policy, words: str, study: Path
) -> None:
    result = run(study, policy, xs=[0.9, 0.8, 0.4])
    assert f"as another limit was broken first: {words}" in str(result)
