"""A dry run finds what would go wrong, takes no look at fresh data and leaves nothing."""

from __future__ import annotations

import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import acetune
from acetune import Constraint, DryRun, Trial
from acetune.cli import app
from acetune.core.errors import AcetuneError, StudyChangedError

SECRET = 0.123456789


def train(trial: Trial) -> None:
    for step in trial.steps(10):
        trial.report(auc=0.5 + step / 100, model={"gap": 0.4, "step": step})


def confirm(model: Any) -> dict[str, float]:
    return {"gap": SECRET}


LIMIT = Constraint("gap", upper=0.1, check=lambda model: model["gap"])  # nothing is feasible


def rehearsed(train: Any = train, **options: Any) -> DryRun:
    given: dict[str, Any] = {"objective": "auc", "mode": "max", "constraints": [LIMIT]}
    given |= {"max_trials": 40, "workers": 2, "progress": False, "confirm": confirm}
    space = {"x": acetune.uniform(0, 1)}
    return acetune.tune(train, space, dry_run=True, **{**given, **options})


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Temporary folders of the test go to a place of their own, which is empty afterwards."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.chdir(tmp_path)
    yield
    assert [path.name for path in tmp_path.iterdir() if path.name != "rehearsed_here.py"] == []


def test_times_and_an_estimate() -> None:
    found = rehearsed(time_budget_s=60, study="study.db")
    assert isinstance(found, DryRun)
    assert found.total_steps == 10 and set(found.checks_s) == {"gap"} and set(found.params) == {"x"}
    assert found.confirm_s is not None and found.trial_s is not None
    assert found.whole_s == pytest.approx(20 * found.trial_s) and found.workers == 2
    assert found.trials == int(60 * 2 / found.trial_s)
    assert "0.123" not in str(found) and "0.123" not in repr(found)
    assert "if none were stopped early, without starting workers, waiting and confirm" in str(found)
    assert "a step" in str(found) and "check gap" in str(found) and "confirm" in str(found)


def test_it_takes_two_steps_and_checks_both() -> None:
    def failing_at_three(trial: Trial) -> None:
        for step in trial.steps(10):
            assert step < 3, "a third step"
            trial.report(auc=0.5, model={"gap": step})

    def once(model: Any) -> float:
        assert model["gap"] in (1, 2)
        return float(model["gap"])

    found = rehearsed(failing_at_three, constraints=[Constraint("gap", upper=0.5, check=once)])
    assert found.total_steps == 10


def raising(model: Any) -> float:
    raise ZeroDivisionError("no rows")


def without_model(trial: Trial) -> None:
    for _ in trial.steps(10):
        trial.report(auc=0.5, constraints={"gap": lambda: 0.1})


def no_objective(trial: Trial) -> None:
    for _ in trial.steps(10):
        trial.report(acc=0.5, model={"gap": 0.1})


def broken(trial: Trial) -> None:
    raise ValueError("no such file")


def silent(trial: Trial) -> None:
    pass


def unpicklable(trial: Trial) -> None:
    for _ in trial.steps(10):
        trial.report(auc=0.5, model={"gap": 0.1, "lock": threading.Lock()})


LOCK = threading.Lock()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"train": broken}, "no such file"),
        ({"train": no_objective}, "auc"),
        ({"train": silent}, "report"),
        ({"train": unpicklable}, "model"),
        ({"train": lambda trial: LOCK.locked()}, "pickle"),
        ({"constraints": [Constraint("gap", upper=0.1, check=raising)]}, "no rows"),
        ({"confirm": raising}, "confirm failed: ZeroDivisionError: no rows"),
        ({"confirm": lambda model: {"gab": 0.1}}, "confirm returned no 'gap', but 'gab'"),
        ({"confirm": lambda model: {"gap": "low"}}, "confirmed 'gap'"),
        ({"confirm": lambda model: 0.1}, "confirm failed"),
        ({"train": without_model, "constraints": [Constraint("gap", upper=0.1)]}, "no model"),
    ],
)
def test_errors_come_at_once(options: dict[str, Any], error: str) -> None:
    with pytest.raises(AcetuneError, match=error) as raised:
        rehearsed(**options)
    assert "0.123456" not in str(raised.value)


def test_the_command(tmp_path: Path) -> None:
    code = (
        "import acetune\n"
        "def train(trial):\n"
        "    for step in trial.steps(10):\n"
        "        trial.report(auc=0.5, model=step)\n"
        "STUDY = dict(space={'x': acetune.uniform(0, 1)}, objective='auc', mode='max',\n"
        "    constraints=[acetune.Constraint('gap', upper=5, check=lambda m: m)], max_trials=3)\n"
    )
    # the name stays among the imported modules, so it is not that of a folder of tests
    (tmp_path / "rehearsed_here.py").write_text(code)
    done = CliRunner().invoke(app, ["run", "rehearsed_here.py", "--dry-run"])
    assert done.exit_code == 0, done.output
    assert "dry run: no error" in done.output and "all trials" in done.output


def test_a_call_that_could_not_go_on_is_refused_and_the_study_left_as_it_is(tmp_path: Path) -> None:
    study = tmp_path / "study.db"
    options: dict[str, Any] = {"study": study, "max_trials": 1, "progress": False, "workers": 1}
    given: dict[str, Any] = {"objective": "auc", "mode": "max", "confirm": confirm, **options}
    acetune.tune(train, {"x": acetune.uniform(0, 1)}, constraints=[LIMIT], **given)
    before = study.read_bytes()
    assert isinstance(rehearsed(study=study), DryRun)
    for other, named in (
        (Constraint("gap", upper=0.2, check=LIMIT.check), "limit was <= 0.1, now <= 0.2"),
        (Constraint("gap", upper=0.1, check=other_check), "gap"),
    ):
        with pytest.raises(StudyChangedError, match=named) as error:
            rehearsed(study=study, constraints=[other])
        assert "margin_se" not in str(error.value)  # which acetune has chosen
    assert study.read_bytes() == before
    study.unlink()
    shutil.rmtree(tmp_path / "study.db.files", ignore_errors=True)


def other_check(model: Any) -> float:
    return float(model["gap"]) * 2
