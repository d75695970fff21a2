"""Studies that end before their budget is spent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from acetune import Constraint, StudyResult, Trial
from acetune.cli.show import to_json
from acetune.core.errors import GoalError
from acetune.study.reader import viewing
from run.helpers import Events, tune


def train(trial: Trial) -> None:
    """The objective is ``x``; what is above 100 is not feasible."""
    for _ in trial.steps(2):
        trial.report(trial.params["x"], model=trial.params["x"])


LIMIT = Constraint("large", upper=100.0, check=lambda model: model)


def search(study: Path, xs: list[float], **options: Any) -> StudyResult:
    given = {"objective": "auc", "mode": "max", "constraints": [LIMIT], "policy": "ace"}
    return tune(train, study, **{"xs": xs, **given, "max_trials": len(xs), **options})


def run(result: StudyResult) -> int:
    return sum(result.counts.values())


def test_a_target_ends_the_study_when_a_feasible_answer_reaches_it(tmp_path: Path) -> None:
    study = tmp_path / "study.db"
    xs = [1.0, 500.0, 7.0, 8.0, 9.0]  # the second is better, and not feasible
    result = search(study, xs, target=7.0)
    assert result.ended_code == "target_reached" and run(result) == 3
    assert result.best is not None and result.best.value == 7.0
    assert result.ended == "the target is reached: auc 7, asked for 7"
    assert result.ended in str(result)
    assert to_json(result)["ended_code"] == "target_reached"
    with viewing(study) as view:
        assert view.info["settings"]["target"] == 7.0
    events = Events()
    again = search(study, xs, target=7.0, callbacks=[events])
    assert run(again) == 3 and any("give a better target=" in text for text in events.notices)
    higher = search(study, xs, target=8.5)
    assert run(higher) == 5 and higher.ended_code == "target_reached"


def test_a_target_of_a_smaller_objective(tmp_path: Path) -> None:
    result = search(tmp_path / "study.db", [9.0, 5.0, 1.0, 0.0], mode="min", target=4.0)
    assert run(result) == 3 and result.best is not None and result.best.value == 1.0


def test_patience_counts_ended_trials_since_the_best(tmp_path: Path) -> None:
    study = tmp_path / "study.db"
    xs = [1.0, 3.0, 2.0, 2.0, 2.0, 2.0, 2.0, 4.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    result = search(study, xs, patience_trials=3)
    # the second is the best, and has ended itself since its first report: it and two more
    assert result.ended_code == "patience_trials" and run(result) == 4
    events = Events()
    same = search(study, xs, patience_trials=3, callbacks=[events])
    assert run(same) == 4 and any("raise patience_trials=" in text for text in events.notices)
    with viewing(study) as view:
        assert [s["ended"] for s in view.sessions] == ["patience_trials"] * 2
    raised = search(study, xs, patience_trials=5)
    assert run(raised) == 6  # those of the first session count
    without = search(study, xs)
    assert run(without) == len(xs) and without.ended_code == "all_done"


def test_patience_in_seconds_outlasts_a_resume(tmp_path: Path) -> None:
    study = tmp_path / "study.db"
    first = search(study, [5.0] * 3, max_trials=3)
    assert run(first) == 3
    result = search(study, [5.0] * 3000, max_trials=3000, patience_s=1e-6)
    assert result.ended_code == "patience_s" and run(result) == 3


def test_patience_waits_for_a_feasible_answer(tmp_path: Path) -> None:
    result = search(tmp_path / "study.db", [500.0] * 6, patience_trials=1, patience_s=1e-6)
    assert run(result) == 6 and result.best is None


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"target": "high"}, "target must be a value of the objective, got 'high'"),
        ({"target": float("nan")}, "target must be a value of the objective, got nan"),
        ({"patience_trials": 0}, "patience_trials"),
        ({"patience_s": -1.0}, "patience_s must be a number of seconds"),
        ({"max_trials": None, "target": 3.0}, "give a budget.*with target and patience"),
    ],
)
def test_wrong_ends(options: dict[str, Any], error: str, tmp_path: Path) -> None:
    with pytest.raises(GoalError, match=error):
        search(tmp_path / "study.db", [1.0], **options)
    assert not (tmp_path / "study.db").exists()


def test_the_json_of_a_result_says_why_it_ended(tmp_path: Path) -> None:
    result = search(tmp_path / "study.db", [1.0, 2.0], target=1.0)
    assert json.loads(json.dumps(to_json(result)))["ended"] == result.ended
