"""Models: those of the best valid checkpoints are kept, as they were at that very step."""

from __future__ import annotations

import copy
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest

import acetune
from acetune import ACE, Constraint, NoStopping, Trial
from run.helpers import Events, by_hand, g_of, rows, tune

EVERY_STEP = ACE(truncation=0, interval=1, gate=False)
LIMIT = Constraint("g", upper=2, check=g_of)
ANYTHING = Constraint("g", upper=2, check=lambda model: 0)


def on_disk(study: Path) -> set[tuple[int, int]]:
    """Trial and step of each model that lies on disk; the file must know the same ones."""
    files = study.with_name(study.name + ".files")
    found = {str(path.relative_to(files)) for path in files.glob("**/model-*")}
    known = rows(study, "SELECT * FROM checkpoints WHERE kind = 'model'")
    assert found == {row["path"] for row in known}
    return {(row["trial"], row["step"]) for row in known}


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("constrained", [True, False])
def test_only_the_best_models_remain(
    study: Path, workers: int, order: int, constrained: bool
) -> None:
    table = [[(10.0 * n + 5, 1.0), (10.0 * n, 1.0)] for n in range(1, 9)][::order]
    result = tune(
        by_hand(table),
        study,
        xs=range(8),
        workers=workers,
        policy=EVERY_STEP,
        constraints=[LIMIT] if constrained else [],
        keep_models=3,
    )

    best = [1, 2, 3] if order == 1 else [8, 7, 6]
    assert on_disk(study) == {(trial, 2) for trial in best}
    assert [found.load() for found in result.candidates] == [(trial, 2, 1.0) for trial in best]


def test_models_of_trials_that_end_badly_go_too(study: Path) -> None:
    table = [[(1.0, 1.0)], [(5.0, 1.0), (6.0, 1.0)], [(4.0, 1.0), (6.0, 1.0)], [(0.5, 9.0)]]
    train = by_hand(table)

    def fails_at_its_end(trial: Trial) -> None:
        train(trial)
        if trial.number in (2, 3):
            raise ValueError("at the end")

    def leaves_early(trial: Trial) -> None:
        trial.declare(9)
        loss, g = table[trial.number - 1][0]
        trial.report(loss, model=(trial.number, 1, g))
        if trial.number == 3:
            raise ValueError("early")

    for number, function in enumerate((fails_at_its_end, leaves_early)):
        path = study.with_name(f"{number}.db")
        tune(function, path, xs=range(4), policy=EVERY_STEP, constraints=[LIMIT], keep_models=1)
        assert on_disk(path) == {(1, 1)}


def test_a_resumed_study_keeps_the_best_of_all_sessions(study: Path) -> None:
    table = [[(loss, 1.0)] for loss in (3.0, 1.0, 2.0, 9.0, 0.5, 8.0)]
    for total in (1, 3, 4, 6):
        result = tune(
            by_hand(table),
            study,
            xs=range(6),
            max_trials=total,
            policy=EVERY_STEP,
            constraints=[LIMIT],
            keep_models=2,
        )
    assert on_disk(study) == {(5, 1), (2, 1)}
    assert result.best is not None and result.best.load() == (5, 1, 1.0)


def test_the_model_is_the_one_of_that_very_step(study: Path) -> None:
    def train(trial: Trial) -> None:
        weights: list[int] = []
        for step in trial.steps(5):
            weights.append(step)
            trial.report(abs(step - 3), model=weights)

    result = tune(train, study, constraints=[ANYTHING], policy=EVERY_STEP)

    assert result.best is not None and result.best.step == 3
    assert result.best.load() == [1, 2, 3]
    assert result.best.checkpoint is not None and result.best.checkpoint.is_dir()


@pytest.mark.parametrize("with_snapshot", [True, False])
@pytest.mark.parametrize(
    "policy", [ACE(interval="end"), NoStopping(), NoStopping("after")], ids=repr
)
def test_checks_at_the_end_and_the_best_checkpoint(
    study: Path, policy: acetune.Policy, with_snapshot: bool
) -> None:
    """With a snapshot the best checkpoint is checked and kept, without one the last."""

    def train(trial: Trial) -> None:
        weights: list[int] = []
        for step in trial.steps(5):
            weights.append(step)
            trial.report(
                abs(step - 3), model=weights, snapshot=copy.deepcopy if with_snapshot else None
            )

    check = Constraint("g", upper=9, check=len)
    result = tune(train, study, constraints=[check], policy=policy)

    step = 3 if with_snapshot else 5
    assert result.best is not None and (result.best.step, result.best.value) == (
        step,
        abs(step - 3),
    )
    assert result.best.constraints["g"].value == step
    assert result.best.load() == list(range(1, step + 1))
    checked = rows(study, "SELECT kind, step FROM reports WHERE checked_step = ?", step)
    after = policy == NoStopping("after")
    assert checked == [{"kind": "after" if after else "step", "step": step if after else 5}]


def test_snapshots_are_made_only_when_they_may_be_needed(study: Path) -> None:
    def train(trial: Trial) -> None:
        made: list[int] = []

        def snapshot(model: int) -> int:
            made.append(model)
            return model

        losses = [5.0, 4.0, 4.5, 3.0, 6.0] if trial.number == 1 else [7.0, 6.0, 2.0, 8.0, 9.0]
        for step in trial.steps(5):
            trial.report(losses[step - 1], model=step, snapshot=snapshot)
        # at each new best; in trial 2 only where it can beat trial 1
        assert made == ([1, 2, 4] if trial.number == 1 else [3]), made

    result = tune(train, study, xs=[1, 2], constraints=[ANYTHING], policy=ACE(0, "end"))

    assert result.counts == {"finished": 2}, result.reasons
    assert result.best is not None and (result.best.trial, result.best.step) == (2, 3)


def test_a_model_that_cannot_be_pickled_is_a_notice_and_no_failure(study: Path) -> None:
    def train(trial: Trial) -> None:
        for _ in trial.steps(3):
            trial.report(1.0, model=threading.Lock())

    events = Events()
    result = tune(train, study, constraints=[ANYTHING], policy=EVERY_STEP, callbacks=[events])

    assert result.counts == {"finished": 1}
    assert len(events.notices) == 1
    assert "cannot be kept (TypeError: cannot pickle '_thread.lock'" in events.notices[0]
    assert "snapshot=function" in events.notices[0]
    assert result.best is not None and result.best.checkpoint is None
    assert on_disk(study) == set() and not list(study.parent.glob("**/*-partial"))


def test_a_model_of_a_class_from_the_training_code(study: Path) -> None:
    def train(trial: Trial) -> None:
        class Model:
            def __init__(self, weight: float) -> None:
                self.weight = weight

        trial.report(1.0, model=Model(0.5))

    check = Constraint("g", upper=9, check=lambda model: model.weight)
    result = tune(train, study, constraints=[check], policy=EVERY_STEP)

    assert result.best is not None and result.best.load().weight == 0.5  # type: ignore[attr-defined]


def test_none_is_a_model_like_any_other(study: Path) -> None:
    def train(trial: Trial) -> None:
        trial.report(1.0, model=None)

    result = tune(train, study, constraints=[ANYTHING], policy=EVERY_STEP)

    assert result.best is not None and result.best.checkpoint is not None
    assert result.best.load() is None


def saves(files: dict[str, str], what: str) -> Any:
    """Writes files into a folder that is reused at each step, and reports a path."""

    def train(trial: Trial) -> None:
        folder = trial.folder / "own-model"
        folder.mkdir()
        for step in trial.steps(3):
            for name, text in files.items():
                (folder / name).write_text(f"{text} {step}")
            trial.report(abs(step - 2), model=folder / what)

    return train


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_path_as_model_is_copied(study: Path, what: str) -> None:
    def check(path: Path) -> float:
        path = path if what == "file" else path / "weights"
        return float(path.read_text().split()[1])

    files = {"weights": "w", "settings": "s"}
    result = tune(
        saves(files, "weights" if what == "file" else ""),
        study,
        constraints=[Constraint("g", upper=9, check=check)],
        policy=EVERY_STEP,
        confirm=lambda path: {"g": check(path)},
    )

    assert result.best is not None and result.best.step == 2
    assert result.best.confirmation is not None
    assert result.best.confirmation.values["g"].value == 2
    path = result.best.load()
    assert isinstance(path, Path)
    if what == "file":
        assert path.name == "weights" and path.read_text() == "w 2"
    else:
        assert {file.name: file.read_text() for file in path.iterdir()} == {
            "weights": "w 2",
            "settings": "s 2",
        }


def test_a_folder_with_one_file_comes_back_as_a_folder(study: Path) -> None:
    result = tune(saves({"weights": "w"}, ""), study, constraints=[ANYTHING], policy=EVERY_STEP)

    assert result.best is not None
    path = result.best.load()
    assert isinstance(path, Path) and path.is_dir()
    assert (path / "weights").read_text() == "w 2"


def test_models_can_be_read_without_acetune(study: Path) -> None:
    result = tune(by_hand([[(1.0, 1.0)]]), study, constraints=[LIMIT], policy=EVERY_STEP)

    assert result.best is not None and result.best.checkpoint is not None
    with (result.best.checkpoint / "model.pkl").open("rb") as file:
        assert pickle.load(file) == (1, 1, 1.0)
