"""Corners that once went wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import acetune
from acetune import Constraint, Estimate, Stopper, StudyCallback, Trial
from acetune.core.reason import Reason, stated
from acetune.study._journal import Journal
from acetune.study.coordinator import Coordinator
from acetune.study.session import StudyTrial
from acetune.study.store import Store
from acetune.trial.hardware import physical_gpu

FREE = Constraint("g", upper=1, check=lambda model: 0.0)


def tune(train: Any, study: Path, **options: Any) -> acetune.StudyResult:
    settings = {"max_trials": 3, "workers": 1, "policy": "ace-beta1", "seed": 0, "progress": False}
    settings |= {"constraints": [FREE], **options}
    space = settings.pop("space", {"x": acetune.uniform(0, 1)})
    return acetune.tune(train, space, objective="loss", mode="min", study=study, **settings)


def constant(trial: Trial) -> None:
    for step in trial.steps(2):
        trial.report(1.0, model=step)


class Notices(StudyCallback):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def on_notice(self, text: str) -> None:
        self.texts.append(text)


def test_a_deleted_study_does_not_come_back_from_what_a_killed_driver_left(study: Path) -> None:
    tune(constant, study)
    store = Store.open(study)
    with store.transaction():
        store.beat(1, 1000.0, 1000.0)
    wal = study.with_name("study.db-wal")
    left = wal.read_bytes()
    assert left  # what a driver killed now would leave
    store.close()
    study.unlink()
    wal.write_bytes(left)

    result = tune(constant, study, max_trials=1)
    assert result.counts == {"finished": 1}
    assert result.ledger.wall_s < 1000


def test_ties_do_not_fill_the_disk(study: Path) -> None:
    tune(constant, study, max_trials=12, keep_models=3)
    assert len(list(study.with_name("study.db.files").glob("*/*/model-*"))) == 3


def test_models_that_waited_for_a_check_after_the_run_go_when_it_is_made(study: Path) -> None:
    def train(trial: Trial) -> None:
        for _ in trial.steps(1):
            trial.report(float(trial.number), model=trial.number)

    result = tune(train, study, max_trials=8, keep_models=2, policy="none+after")
    assert result.best is not None and result.best.load() == 1
    assert len(list(study.with_name("study.db.files").glob("*/*/model-*"))) <= 2


def test_the_last_step_declared_when_it_was_reached_still_gets_its_check(study: Path) -> None:
    def train(trial: Trial) -> None:
        for step in (1, 2, 3):
            trial.report(1 / step, model=step)
        trial.declare(3)

    result = tune(train, study, max_trials=1, policy="ace-betaT")
    assert result.counts == {"finished": 1}
    assert result.best is not None and result.best.step == 3


def test_a_last_step_below_what_was_reported_is_refused(study: Path) -> None:
    def train(trial: Trial) -> None:
        trial.report(1.0, model=1)
        trial.report(1.0, model=1)
        trial.declare(1)

    result = tune(train, study, max_trials=1)
    assert "total_steps=1 is below step 2" in result.trials["reason"][1]


def test_a_checkpoint_reported_twice_is_still_there_for_the_next_attempt(study: Path) -> None:
    def train(trial: Trial) -> None:
        if trial.attempt == 2:
            assert trial.checkpoint is not None and (trial.checkpoint / "state").exists()
        for step in trial.steps(4):
            for _ in range(2):
                trial.report(1.0, model=step, checkpoint=lambda folder: (folder / "state").touch())
            if step == 2 and trial.attempt == 1:
                trial.report(1.0, model=step)
                raise RuntimeError("once")

    assert tune(train, study, max_trials=1, retries=1).counts == {"finished": 1}


def test_a_rejected_configuration_goes_through_the_journal() -> None:
    told: list[tuple[object, ...]] = []

    class Noting(Journal):
        def added(self, trial: StudyTrial) -> None:
            told.append((trial.number, trial.params))

        def ended(
            self, trial: StudyTrial, state: str, reason: Reason, traceback: str | None = None
        ) -> None:
            told.append((trial.number, state, str(reason)))

    coordinator = Coordinator(Stopper(objective="loss", mode="min"), Noting())
    assert coordinator.reject({"x": 1}, stated("rejected", "too large")) == 1
    assert told == [(1, {"x": 1}), (1, "rejected", "too large")]
    assert coordinator.rejected == 1 and coordinator.next_number() == 2 and not coordinator.trials


def test_confirmation_does_not_eat_the_budget(study: Path) -> None:
    def slow(model: object) -> dict[str, float]:
        import time

        time.sleep(1.5)
        return {"g": 0.0}

    options: dict[str, Any] = {"confirm": slow, "max_trials": 1}
    result = tune(constant, study, time_budget_s=30, **options)
    assert result.ledger.wall_s > 1.5
    store = Store.read(study)
    (session,) = store.rows("SELECT seconds FROM sessions")
    assert session["seconds"] - store.searched() > 1.5
    store.close()


def test_numpy_values_are_values(study: Path) -> None:
    import numpy as np

    space = {"x": acetune.randint(1, 9)}
    result = tune(constant, study, space=space, points=[{"x": np.int64(3)}], max_trials=1)
    assert result.trials["param.x"][1] == 3


def test_an_unpicklable_function_leaves_no_study_behind(study: Path) -> None:
    generator = (i for i in range(3))
    with pytest.raises(acetune.errors.TrainingCodeError):
        tune(lambda trial: next(generator), study)
    assert not study.exists()


def test_the_same_numbers_written_otherwise_are_the_same_study(study: Path) -> None:
    tune(constant, study, max_trials=1)
    same = Constraint("g", upper=1.0, check=FREE.check)
    space = {"x": acetune.uniform(0.0, 1)}
    assert tune(constant, study, constraints=[same], space=space, max_trials=2).counts == {
        "finished": 2
    }


def test_json_stays_json_when_a_check_fails(study: Path) -> None:
    broken = Constraint("g", upper=1, check=lambda model: 1 / 0)
    notices = Notices()
    result = tune(constant, study, constraints=[broken], callbacks=[notices])
    command = [sys.executable, "-m", "acetune", "show", "--json", str(study)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 3, done.stderr  # nothing qualifies

    def refuse(text: str) -> None:
        raise AssertionError(text)

    shown = json.loads(done.stdout, parse_constant=refuse)
    assert shown["best"] is None
    assert shown["nearest_miss"] is None  # how near it was is not known
    assert [text for text in notices.texts if "ZeroDivisionError" in text]
    assert len(notices.texts) == 1  # once, not for every report
    assert "6 of 6 gave no number" in str(result)


def test_a_margin_without_a_standard_error_is_noticed(study: Path) -> None:
    notices = Notices()
    careful = Constraint("g", upper=1, margin_se=1, check=lambda model: 0.5)
    tune(constant, study, constraints=[careful], callbacks=[notices])
    assert [text for text in notices.texts if "margin_se of 'g' has no effect" in text]


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_share_of_none_or_all_has_no_standard_error(share: float, study: Path) -> None:
    notices = Notices()
    certain = Constraint("g", upper=1, margin_se=1, check=lambda model: Estimate(share, 0.0))
    tune(constant, study, constraints=[certain], callbacks=[notices])
    assert notices.texts == []


def test_a_missing_model_is_noticed_at_the_first_report(study: Path) -> None:
    def train(trial: Trial) -> None:
        for _ in trial.steps(100):
            trial.report(1.0)

    with pytest.raises(acetune.errors.StudyError, match="takes a model, but none was reported"):
        tune(train, study, max_trials=1, policy="ace-betaT")
    result = acetune.load(study)
    assert "takes a model, but none was reported" in result.trials["reason"][1]
    assert result.trials["reports"][1] == 0


def test_a_space_that_is_smaller_than_the_budget_is_told_of_once(study: Path) -> None:
    notices = Notices()
    options: dict[str, Any] = {"space": {"x": acetune.choice([1, 2])}, "searcher": "random"}
    tune(constant, study, **options, max_trials=4, callbacks=[notices])
    said = "the space has only 2 configurations; max_trials=4 trains some again"
    assert notices.texts == [said]
    notices = Notices()
    tune(constant, study.with_name("fits.db"), **options, max_trials=2, callbacks=[notices])
    assert notices.texts == []


def test_nothing_left_to_do_is_said(study: Path) -> None:
    tune(constant, study)
    notices = Notices()
    tune(constant, study, callbacks=[notices])
    assert [text for text in notices.texts if "nothing left to do" in text]


@pytest.mark.parametrize(
    ("given", "device", "seen"), [("", "1", "1"), ("2,3", "1", "3"), ("2,3", "cuda:0", "2")]
)
def test_devices_count_among_those_this_process_has(given: str, device: str, seen: str) -> None:
    assert physical_gpu(device, {"CUDA_VISIBLE_DEVICES": given}) == seen


def test_a_file_that_tunes_when_it_is_imported_does_not_multiply(tmp_path: Path) -> None:
    (tmp_path / "bomb.py").write_text(
        "import acetune\n"
        "def train(trial):\n    trial.report(1.0)\n"
        "acetune.tune(train, {'x': acetune.uniform(0, 1)}, objective='l', mode='min',"
        " max_trials=1, workers=1, progress=False)\n"
    )
    command = [sys.executable, "-c", "import bomb"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "if __name__ == '__main__':" in done.stderr


def test_a_misspelt_key_of_a_study_file_names_the_right_one(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text("def train(trial): ...\nSTUDY = {'max_trial': 3}\n")
    command = [sys.executable, "-m", "acetune", "run", "s.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "did you mean 'max_trials'?" in done.stderr and "Traceback" not in done.stderr


def test_steps_that_are_skipped_count_in_the_cost_of_one(study: Path) -> None:
    def train(trial: Trial) -> None:
        for step in trial.steps(20):
            if step % 10 == 0:
                trial.report(1.0, model=1, primary_cost_s=10.0, constraint_cost_s=3.0)

    result = tune(train, study, max_trials=2, policy="ace")
    assert result.trials["cost_ratio"][2] == 3.0


def _run_file(folder: Path, study: str) -> str:
    text = f"import acetune\ndef train(trial): ...\nSTUDY = {study}\n"
    (folder / "s.py").write_text(text)
    command = [sys.executable, "-m", "acetune", "run", "s.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("missing", ["space", "objective", "mode", "max_trials"])
def test_a_study_file_without_a_key_it_needs_is_told_so(tmp_path: Path, missing: str) -> None:
    study: dict[str, Any] = {"space": {}, "objective": "loss", "mode": "min", "max_trials": 3}
    del study[missing]
    said = _run_file(tmp_path, repr(study))
    if missing == "max_trials":
        assert "has no budget" in said and "acetune run s.py --max-trials 100" in said
    else:
        assert f"has no '{missing}'; for example '{missing}': " in said
