"""Recording whole curves: what is noted, what is left out, and how a recording goes on."""

from __future__ import annotations

import itertools
import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

import acetune
from acetune import Constraint, Trial
from acetune.core.errors import AcetuneError, GoalError, TableError, TrainingCodeError
from acetune.replay.curve_table import CurveTable
from acetune.replay.recorder import (
    Partial,
    count_recorded,
    draw,
    partial_path,
    record,
)
from acetune.replay.table_file import read_table
from acetune.replay.training import RecordedCurve, Task, train_curve
from acetune.searchers.space import Space
from run.helpers import alive, append_line, read_lines, wait_for

# by value, so that workers need not import the tests with all they import
cloudpickle.register_pickle_by_value(sys.modules[__name__])

SPACE = {"x": acetune.uniform(0, 1), "steps": acetune.randint(2, 6), "fixed": "a"}


def score(x: float, step: int) -> float:
    return x - 1 / step


def size(model: tuple[float, int]) -> float:
    return model[0] + model[1]


def train(trial: Trial) -> None:
    x = trial.params["x"]
    for step in trial.steps(trial.params["steps"]):
        trial.report(
            score(x, step),
            model=(x, step),
            half=step / 2,
            primary_cost_s=0.1 * step,
            constraint_cost_s=0.5,
        )


def confirm(model: tuple[float, int]) -> dict[str, float]:
    return {"score": score(*model) - 0.01, "size": size(model) + 0.01}


LIMIT = Constraint("size", upper=3.0, check=size)
TASK = Task("tiny", train, SPACE, "score", "max", (LIMIT,), confirm)


def curve_of(train: Callable[[Trial], object], **changes: Any) -> RecordedCurve:
    """The curve of one configuration, trained here."""
    task = replace(TASK, train=train, confirm=None)
    return train_curve(replace(task, **changes), {"x": 0.5, "steps": 3})


def counting(folder: Path, task: Task = TASK) -> Task:
    """The task, with every training noted in a file."""

    def train(trial: Trial) -> None:
        append_line(folder / "trainings", trial.number)
        task.train(trial)

    return replace(task, train=train)


def trained(folder: Path) -> list[int]:
    """The configurations that were trained, in order."""
    return sorted(int(line[0]) - 1 for line in read_lines(folder / "trainings"))


def assert_same_curves(one: CurveTable, other: CurveTable) -> None:
    assert one.configs == other.configs and one.constraints == other.constraints
    np.testing.assert_array_equal(one.starts, other.starts)
    np.testing.assert_array_equal(one.total_steps, other.total_steps)
    np.testing.assert_array_equal(one.cost_s, other.cost_s)
    assert one.metrics.keys() == other.metrics.keys()
    for metric, column in one.metrics.items():
        np.testing.assert_array_equal(column, other.metrics[metric])


# -- what is recorded ----------------------------------------------------------------------------


def test_every_step_of_every_configuration_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    seen: list[int] = []
    record(TASK, path, configs=4, seed=7, workers=2, on_curve=lambda config, _: seen.append(config))
    table = read_table(path)

    assert sorted(seen) == [0, 1, 2, 3]
    assert table.configs == tuple(draw(Space(SPACE), 7, config) for config in range(4))
    assert table.space == Space(SPACE).describe() and table.made == {"seed": 7}
    assert (table.name, table.objective.name, table.objective.mode) == ("tiny", "score", "max")
    (limit,) = table.constraints
    assert (limit.goal, limit.cost_s, limit.sparse) == (Constraint("size", upper=3.0), 0.5, False)
    assert table.has_confirmation
    for config, params in enumerate(table.configs):
        steps = np.arange(1, params["steps"] + 1)
        assert table.complete(config) and table.steps(config) == params["steps"]
        expected = {
            "score": params["x"] - 1 / steps,
            "size": params["x"] + steps,
            "half": steps / 2,
            "score@confirm": params["x"] - 1 / steps - 0.01,
            "size@confirm": params["x"] + steps + 0.01,
        }
        assert table.metrics.keys() == expected.keys()
        for metric, values in expected.items():
            np.testing.assert_allclose(table.curve(config, metric), values, rtol=1e-12)
    np.testing.assert_allclose(
        table.cost_s[: table.steps(0)], 0.1 * np.arange(1, 9)[: table.steps(0)]
    )
    assert not partial_path(path).exists()


def test_digits_round_what_is_written(tmp_path: Path) -> None:
    task = replace(TASK, digits={"score": 1, "cost_s": 1})
    record(task, tmp_path / "t.parquet", configs=1)
    table = read_table(tmp_path / "t.parquet")
    rounded = [round(value, 1) for value in table.metrics["score"].tolist()]
    assert table.metrics["score"].tolist() == rounded


class Clock:
    """Stands still unless it is told to go on."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("acetune.trial.trial.synchronised_clock", clock)
    return clock


@pytest.mark.parametrize("loop", ["steps", "bare"])
def test_costs_are_clocked_and_confirming_costs_nothing(clock: Clock, loop: str) -> None:
    def train(trial: Trial) -> None:
        for step in trial.steps(3) if loop == "steps" else range(1, 4):
            clock.now += step  # training
            trial.report(1.0, model=step, snapshot=lambda model: 1 / 0)

    def check(model: int) -> float:
        clock.now += 10 * model
        return 0.0

    def confirm(model: int) -> dict[str, float]:
        clock.now += 1000
        return {"score": 1.0, "size": 0.0}

    found = curve_of(
        train, constraints=(Constraint("size", upper=1, check=check),), confirm=confirm
    )
    # without steps() nobody knows when the first iteration began
    assert found.cost_s.tolist() == [1.0 if loop == "steps" else 0.0, 2.0, 3.0]
    assert found.check_cost_s == {"size": 20.0}


def test_costs_of_checks_are_means_over_all_checkpoints(tmp_path: Path) -> None:
    def train(trial: Trial) -> None:
        steps = trial.params["steps"]
        for _ in trial.steps(steps):
            trial.report(1.0, constraints={"size": 0.0}, constraint_cost_s=float(steps))

    task = replace(TASK, train=train, confirm=None)
    table = record(task, tmp_path / "t.parquet", configs=5)
    lengths = np.array([params["steps"] for params in table.configs])
    assert len(set(lengths)) > 1
    expected = (lengths**2).sum() / lengths.sum()
    assert table.constraints[0].cost_s == pytest.approx(expected, rel=0.005)


def test_confirmation_sees_the_model_of_each_step_however_it_is_checked() -> None:
    def on_the_spot(trial: Trial) -> None:
        for step in trial.steps(3):
            value = 1.0 if step != 2 else math.nan  # a failed check
            trial.report(0.5, model=(0.5, step), constraints={"size": lambda _, value=value: value})

    found = curve_of(on_the_spot, confirm=confirm)
    np.testing.assert_array_equal(found.metrics["size"], [1.0, math.nan, 1.0])
    assert found.metrics["size@confirm"].tolist() == [1.51, 2.51, 3.51]


def test_confirmation_of_what_was_not_recorded_is_left_out() -> None:
    found = curve_of(train, confirm=lambda model: {"score": 1, "recall": 0.3})
    assert set(found.metrics) == {"score", "size", "half", "score@confirm"}


def test_without_a_model_nothing_is_confirmed() -> None:
    def train(trial: Trial) -> None:
        for _ in trial.steps(2):
            trial.report(1.0, constraints={"size": 0.0})

    assert set(curve_of(train, confirm=confirm).metrics) == {"score", "size"}


def test_without_constraints_there_is_confirmation_too() -> None:
    found = curve_of(train, constraints=(), confirm=lambda model: {"score": model[1]})
    assert found.metrics["score@confirm"].tolist() == [1, 2, 3]


def test_a_confirmation_that_gives_no_number_fails_the_configuration() -> None:
    with pytest.raises(AcetuneError, match=r"confirm gave no number: confirmed 'score' is nan"):
        curve_of(train, confirm=lambda model: {"score": math.nan})


# -- where a curve ends --------------------------------------------------------------------------


def test_a_trial_that_ends_by_itself_is_complete() -> None:
    def converges(trial: Trial) -> None:
        for step in trial.steps(100):
            trial.report(1.0, model=(0.0, step))
            if step == 4:
                break

    def never_says(trial: Trial) -> None:
        for step in range(4):
            trial.report(1.0, model=(0.0, step))

    def says_late(trial: Trial) -> None:
        for step in range(4):
            trial.report(1.0, model=(0.0, step))
            trial.declare(9)

    for ends in (converges, never_says, says_late):
        found = curve_of(ends)
        assert (len(found.cost_s), found.total_steps) == (4, 4)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_an_objective_that_is_no_finite_number_cuts_the_curve(wrong: float) -> None:
    after: list[int] = []

    def diverges(trial: Trial) -> None:
        for step in trial.steps(5):
            trial.report(1.0 if step < 3 else wrong, model=(0.0, step))
            after.append(step)

    found = curve_of(diverges)
    assert found.metrics["score"].tolist() == [1.0, 1.0]
    assert found.total_steps == 5
    assert after == [1, 2, 3]  # the loop has ended


def test_a_cut_curve_of_unknown_length_is_incomplete() -> None:
    def diverges(trial: Trial) -> None:
        for step in itertools.count(1):  # goes on whatever it is told
            trial.report(1.0 if step < 3 else math.nan, model=(0.0, step))

    found = curve_of(diverges)
    assert (len(found.cost_s), found.total_steps) == (2, 0)


def test_cut_curves_are_incomplete_in_the_table(tmp_path: Path) -> None:
    def train(trial: Trial) -> None:
        total = 5 if trial.number == 1 else None
        for step in trial.steps(total):
            trial.report(1.0 if step < 3 else math.nan, model=(0.0, step))

    task = replace(TASK, train=train, confirm=None)
    record(task, tmp_path / "t.parquet", configs=2)
    table = read_table(tmp_path / "t.parquet")
    assert table.total_steps.tolist() == [5, 0]
    assert [table.steps(config) for config in (0, 1)] == [2, 2]


def test_a_step_reported_again_counts_once() -> None:
    def train(trial: Trial) -> None:
        for step in (1, 1, 2, 1, 3):
            trial.report(float(step) if step > 1 else -1.0, step=step, model=(0.0, step))

    assert curve_of(train).metrics["score"].tolist() == [-1.0, 2.0, 3.0]


def test_a_step_left_out_is_an_error() -> None:
    def train(trial: Trial) -> None:
        for step in (1, 3):
            trial.report(1.0, step=step, model=(0.0, step))

    with pytest.raises(AcetuneError, match="every step: 3 was reported after 1"):
        curve_of(train)


def test_metrics_that_come_and_go_are_an_error() -> None:
    def train(trial: Trial) -> None:
        for step in trial.steps(3):
            trial.report(1.0, model=(0.0, step), **({"loss": 1.0} if step == 2 else {}))

    with pytest.raises(AcetuneError, match=r"step 2 reported \['loss', 'score', 'size'\]"):
        curve_of(train)


def test_metrics_that_not_all_configurations_have_are_left_out(tmp_path: Path) -> None:
    def train(trial: Trial) -> None:
        for step in trial.steps(2):
            trial.report(1.0, model=(0.0, step), both=2.0, **{f"only{trial.number}": 1.0})

    task = replace(TASK, train=train, confirm=None)
    table = record(task, tmp_path / "t.parquet", configs=2)
    assert set(table.metrics) == {"score", "size", "both"}


# -- what goes wrong -----------------------------------------------------------------------------


def test_failed_checks_make_holes(tmp_path: Path) -> None:
    def second(model: tuple[float, int]) -> float:
        return 1 / (model[1] - 2)

    def third(model: tuple[float, int]) -> float:
        return 0.0

    def train(trial: Trial) -> None:
        for step in trial.steps(3 if trial.number == 1 else 1):
            # the second configuration is at step 2 all the time: never checked to the end
            trial.report(1.0, model=(0.0, step if trial.number == 1 else 2))

    constraints = (
        LIMIT,
        Constraint("b", upper=1, check=second),
        Constraint("c", lower=0, check=third),
    )
    task = replace(TASK, train=train, constraints=constraints, confirm=None)
    record(task, tmp_path / "t.parquet", configs=2)
    table = read_table(tmp_path / "t.parquet")
    assert [limit.sparse for limit in table.constraints] == [False, True, True]
    np.testing.assert_array_equal(table.metrics["b"], [-1, math.nan, 1, math.nan])
    np.testing.assert_array_equal(table.metrics["c"], [0, math.nan, 0, math.nan])
    assert all(limit.cost_s >= 0 for limit in table.constraints)


FAILURES = {
    1: "ZeroDivisionError: division by zero",
    3: "its process was killed by SIGKILL",
    4: "its process exited with status 3",
    6: "AcetuneError: the first objective was no finite number: there is no curve",
    7: "ReportError: the training function returned without reporting anything",
}


def test_a_configuration_that_fails_is_left_out_and_named(tmp_path: Path) -> None:
    def fails(trial: Trial) -> None:
        config = trial.number - 1
        if config == 1:
            _ = 1 / 0
        elif config == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        elif config == 4:
            sys.exit(3)
        elif config == 6:
            trial.report(math.nan, model=(0.0, 1))
        elif config != 7:
            train(trial)

    task = counting(tmp_path, replace(TASK, train=fails))
    path = tmp_path / "t.parquet"
    table = record(task, path, configs=9, workers=2, made={"command": "c"})
    kept = [draw(Space(SPACE), 0, config) for config in (0, 2, 5, 8)]
    assert read_table(path).configs == tuple(kept)
    assert trained(tmp_path) == list(range(9))
    assert table.made["command"] == "c" and table.made == read_table(path).made
    failed = table.made["failed"]
    assert failed.keys() == {str(config) for config in FAILURES}
    for config, error in FAILURES.items():
        assert error in failed[str(config)]


def test_a_failure_is_told_with_where_it_happened(tmp_path: Path) -> None:
    def fails(trial: Trial) -> None:
        if trial.number == 2:
            raise ValueError("no such luck")
        train(trial)

    told: dict[int, Any] = {}
    task = replace(TASK, train=fails)
    record(task, tmp_path / "t.parquet", configs=2, on_curve=told.__setitem__)
    assert isinstance(told[0], RecordedCurve)
    assert "no such luck" in told[1].error and "in fails" in told[1].error


def test_nothing_trained_is_an_error_with_the_reason(tmp_path: Path) -> None:
    def fails(trial: Trial) -> None:
        raise ValueError("no such luck")

    path = tmp_path / "t.parquet"
    with pytest.raises(TableError, match=r"none of 3 .*t.parquet.partial(.|\n)*no such luck"):
        record(replace(TASK, train=fails), path, configs=3)
    assert not path.exists()


def test_what_cannot_be_sent_to_a_worker_is_said(tmp_path: Path) -> None:
    lock = threading.Lock()

    def locked(trial: Trial) -> None:
        with lock:
            train(trial)

    with pytest.raises(TrainingCodeError, match="cannot be sent to a worker process"):
        record(replace(TASK, train=locked), tmp_path / "t.parquet", configs=1)


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, {"configs": 0}, "configs must be a whole number >= 1, got 0"),
        ({}, {"seed": -1}, "seed must be a whole number >= 0, got -1"),
        ({}, {"workers": 0}, "workers must be a whole number >= 1, got 0"),
        ({"objective": "size"}, {}, "'size' is used twice"),
        ({"objective": "cost_s"}, {}, "cannot be called 'cost_s'"),
        ({"constraints": (Constraint("step", upper=1, check=len),)}, {}, "cannot be called 'step'"),
        ({"mode": "up"}, {}, "mode must be 'min' or 'max', got 'up'"),
        ({"space": {}}, {}, "the space is empty"),
    ],
)
def test_what_makes_no_sense_is_refused(
    tmp_path: Path, changes: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(AcetuneError, match=message):
        record(replace(TASK, **changes), tmp_path / "t.parquet", **{"configs": 2, **options})


def test_a_metric_with_the_name_of_a_column_is_refused() -> None:
    def train(trial: Trial) -> None:
        for step in trial.steps(2):
            trial.report(1.0, model=(0.0, step), cost_s=3.0)

    with pytest.raises(GoalError, match="cannot be called 'cost_s'"):
        curve_of(train)


def test_an_existing_table_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    path.write_text("precious")
    with pytest.raises(TableError, match=r"t.parquet exists; give another name, or delete it"):
        record(counting(tmp_path), path, configs=2)
    assert path.read_text() == "precious"
    assert trained(tmp_path) == [] and not partial_path(path).exists()


def test_what_writes_the_table_is_asked_for_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)  # as if it were not installed
    with pytest.raises(ImportError, match=r"pip install 'acetune\[replay\]'"):
        record(counting(tmp_path), tmp_path / "curves.parquet", configs=1, workers=1)
    assert trained(tmp_path) == [] and not list(tmp_path.glob("curves*"))


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"cannot write .*there is no folder .*nowhere"):
        record(counting(tmp_path), tmp_path / "nowhere" / "t.parquet", configs=2)
    assert trained(tmp_path) == []


def test_something_else_under_the_name_of_the_partial_file(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    partial_path(path).write_bytes(b"anything else" * 100)
    assert count_recorded(partial_path(path)) == 0
    with pytest.raises(TableError, match=r"is not a recording that can go on .*delete it"):
        record(TASK, path, configs=2)


# -- stopping and going on -----------------------------------------------------------------------


def stop_after(count: int) -> Callable[[int, object], None]:
    """Ctrl-C, once so many curves are there."""
    seen: list[int] = []

    def on_curve(config: int, curve: object) -> None:
        seen.append(config)
        if len(seen) == count:
            raise KeyboardInterrupt

    return on_curve


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> CurveTable:
    """What an uninterrupted recording gives."""
    path = tmp_path_factory.mktemp("whole") / "t.parquet"
    record(TASK, path, configs=6, seed=3)
    return read_table(path)


def test_a_recording_goes_on_where_it_was(tmp_path: Path, whole: CurveTable) -> None:
    task, path = counting(tmp_path), tmp_path / "t.parquet"
    for stopped_after, known in ((2, 2), (1, 3)):
        with pytest.raises(KeyboardInterrupt):
            record(task, path, configs=6, seed=3, on_curve=stop_after(stopped_after))
        assert not path.exists() and count_recorded(partial_path(path)) == known
    begun = len(trained(tmp_path))
    assert begun <= 5  # each time at most the configuration under way was begun in vain

    record(task, path, configs=6, seed=3, workers=2)
    again = [int(line[0]) - 1 for line in read_lines(tmp_path / "trainings")][begun:]
    assert sorted(again) == [3, 4, 5]
    assert_same_curves(read_table(path), whole)
    assert not partial_path(path).exists()


def test_failures_are_not_tried_again(tmp_path: Path) -> None:
    def fails(trial: Trial) -> None:
        if trial.number == 1:
            raise ValueError("always")
        train(trial)

    task, path = counting(tmp_path, replace(TASK, train=fails)), tmp_path / "t.parquet"
    with pytest.raises(KeyboardInterrupt):
        record(task, path, configs=3, on_curve=stop_after(1))
    table = record(task, path, configs=3)
    assert trained(tmp_path).count(0) == 1
    assert len(table.configs) == 2 and "always" in table.made["failed"]["0"]


def test_a_recording_can_grow(tmp_path: Path, whole: CurveTable) -> None:
    task, path = counting(tmp_path), tmp_path / "t.parquet"
    with pytest.raises(KeyboardInterrupt):
        record(task, path, configs=2, seed=3, on_curve=stop_after(2))
    assert trained(tmp_path) == [0, 1]
    record(task, path, configs=6, seed=3)
    assert trained(tmp_path) == list(range(6))
    assert_same_curves(read_table(path), whole)


ANOTHER = Constraint("size", upper=4.0, check=size)
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "seed": ({}, {"seed": 4}, "its seed is 3, now it is 4"),
    "task": ({"name": "other"}, {}, "its task is 'tiny', now it is 'other'"),
    "space": ({"space": {**SPACE, "x": acetune.uniform(0, 2)}}, {}, "its space is"),
    "objective": ({"objective": "half"}, {}, r"its objective is \['score', 'max'\]"),
    "mode": ({"mode": "min"}, {}, r"its objective is \['score', 'max'\]"),
    "constraints": ({"constraints": (ANOTHER,)}, {}, r"its constraints is \['size <= 3'\]"),
    "data": ({}, {"source": {"data": "b.csv"}}, "its data is 'a.csv', now it is 'b.csv'"),
    "no data": ({}, {"source": None}, "its data is 'a.csv', now it is None"),
}


DESCRIPTION = {
    "task": "tiny",
    "space": Space(SPACE).describe(),
    "objective": ["score", "max"],
    "constraints": ["size <= 3"],
    "seed": 3,
    "data": "a.csv",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_recording_is_refused_and_left_alone(tmp_path: Path, change: str) -> None:
    changes, options, message = CHANGES[change]
    path = tmp_path / "t.parquet"
    known = {"seed": 3, "source": {"data": "a.csv"}}
    Partial(partial_path(path), DESCRIPTION).close()
    before = partial_path(path).read_bytes()
    with pytest.raises(TableError, match=f"something else: {message}.*Delete it to start again"):
        record(replace(TASK, **changes), path, configs=1, **{**known, **options})
    assert partial_path(path).read_bytes() == before


def test_where_the_data_come_from_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    Partial(partial_path(path), DESCRIPTION).close()
    record(TASK, path, configs=1, seed=3, source={"data": "a.csv"})
    assert read_table(path).made == {"data": "a.csv", "seed": 3}


def test_two_recordings_at_once_notice_each_other(tmp_path: Path) -> None:
    path = tmp_path / "t.partial"
    one, other = Partial(path, {"seed": 1}), Partial(path, {"seed": 1})
    curve = RecordedCurve({}, {"score": np.array([1.0])}, np.array([1.0]), {}, 1)
    one.add(0, curve)
    with pytest.raises(TableError, match=r"another process records .* has added configuration 0"):
        other.add(0, curve)
    one.close()
    other.close()


def test_a_partial_recording_can_be_looked_into(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    with pytest.raises(KeyboardInterrupt):
        record(TASK, path, configs=3, seed=3, on_curve=stop_after(2))
    db = sqlite3.connect(partial_path(path))
    rows = db.execute("SELECT config, params, total_steps, error FROM curves").fetchall()
    db.close()
    first = draw(Space(SPACE), 3, 0)
    assert len(rows) == 2
    assert rows[0] == (0, json.dumps(first), first["steps"], None)


FILE = """
import os, pathlib, time
import acetune

HERE = pathlib.Path(__file__).parent

def train(trial):
    with open(HERE / "trainings", "a") as log:
        log.write(f"{trial.number} {os.getpid()}\\n")
    while trial.number == 4 and not (HERE / "go-on").exists():
        time.sleep(0.01)
    for step in trial.steps(trial.params["steps"]):
        trial.report(trial.params["x"] - 1 / step, model=step, primary_cost_s=0.1 * step,
                     constraint_cost_s=0.5)

STUDY = dict(
    space={"x": acetune.uniform(0, 1), "steps": acetune.randint(2, 6)},
    objective="score",
    mode="max",
    constraints=[acetune.Constraint("size", upper=3, check=lambda step: step)],
)
"""
# with the handler that a terminal's programs have, whatever these tests were started from
COMMAND = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from acetune.cli import main; main()"
)


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Starts ``acetune record`` on a file whose fourth configuration waits."""
    (tmp_path / "tiny.py").write_text(FILE)
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        arguments = ["record", "tiny.py", "-o", "t.parquet", "--configs", "6", "--workers", "1"]
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *arguments],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_signal_to_the_command_loses_nothing(
    tmp_path: Path, recording: Callable[[], subprocess.Popen[str]], number: signal.Signals
) -> None:
    log, partial = tmp_path / "trainings", tmp_path / "t.parquet.partial"
    first = recording()
    wait_for(lambda: len(read_lines(log)) == 4, "the fourth configuration")
    wait_for(lambda: count_recorded(partial) == 3, "the third curve")
    first.send_signal(number)
    _, printed = first.communicate(timeout=60)
    if number == signal.SIGINT:
        assert first.returncode == 130
        assert "interrupted; what was recorded is in t.parquet.partial" in printed
        assert "Traceback" not in printed
    assert not (tmp_path / "t.parquet").exists()
    assert count_recorded(partial) == 3
    # the worker does not go on for nobody
    wait_for(lambda: not alive(int(read_lines(log)[-1][1])), "the worker to end")

    (tmp_path / "go-on").touch()
    second = recording()
    _, printed = second.communicate(timeout=60)
    assert second.returncode == 0, printed
    assert [line[0] for line in read_lines(log)] == ["1", "2", "3", "4", "4", "5", "6"]
    table = read_table(tmp_path / "t.parquet")
    space = Space({"x": acetune.uniform(0, 1), "steps": acetune.randint(2, 6)})
    assert table.configs == tuple(draw(space, 0, config) for config in range(6))
    for config, params in enumerate(table.configs):
        steps = np.arange(1, params["steps"] + 1)
        np.testing.assert_array_equal(table.curve(config, "score"), params["x"] - 1 / steps)
        np.testing.assert_array_equal(table.curve(config, "size"), steps)


# -- drawing -------------------------------------------------------------------------------------

DRAWN = Space(
    {
        "flat": acetune.uniform(-2, 3),
        "log": acetune.loguniform(1e-4, 1e2),
        "whole": acetune.randint(-3, 4),
        "logwhole": acetune.lograndint(1, 1000),
        "one": acetune.lograndint(7, 7),
        "point": acetune.loguniform(0.3, 0.3),
        "option": acetune.choice(["a", None, True, 2]),
        "fixed": "f",
    }
)


@pytest.fixture(scope="module")
def drawn() -> dict[str, list[Any]]:
    configs = [draw(DRAWN, 11, config) for config in range(4000)]
    return {name: [config[name] for config in configs] for name in configs[0]}


def test_configurations_lie_in_the_space(drawn: dict[str, list[Any]]) -> None:
    assert set(drawn) == {*DRAWN.dimensions, *DRAWN.fixed}
    for name, dimension in DRAWN.dimensions.items():
        assert all(dimension.contains(value) for value in drawn[name]), name
    assert {type(value) for value in drawn["logwhole"]} == {int}
    assert {type(value) for value in drawn["log"]} == {float}
    assert set(drawn["one"]) == {7} and set(drawn["point"]) == {0.3}
    assert set(drawn["fixed"]) == {"f"}


def test_dimensions_are_uniform_or_log_uniform(drawn: dict[str, list[Any]]) -> None:
    def cdf_distance(values: Any) -> float:
        """Largest distance to the uniform distribution function (Kolmogorov and Smirnov)."""
        ranks = np.arange(1, len(values) + 1) / len(values)
        return float(np.abs(np.sort(values) - ranks).max())

    n = len(drawn["flat"])
    limit = 1.95 / math.sqrt(n)  # reached by chance once in a thousand
    assert cdf_distance((np.array(drawn["flat"]) + 2) / 5) < limit
    assert cdf_distance((np.log10(drawn["log"]) + 4) / 6) < limit
    whole = np.bincount(np.array(drawn["whole"]) + 3, minlength=8) / n
    np.testing.assert_allclose(whole, 1 / 8, atol=0.02)
    counts = [drawn["option"].count(option) for option in ("a", None)]
    np.testing.assert_allclose(np.array(counts) / n, 1 / 4, atol=0.03)
    # each whole number stands for the unit around it
    logwhole = np.array(drawn["logwhole"])
    for value in (1, 2, 5):
        share = math.log((value + 0.5) / (value - 0.5)) / math.log(1000.5 / 0.5)
        assert (logwhole == value).mean() == pytest.approx(share, abs=0.02)
    assert (logwhole > 100).mean() == pytest.approx(math.log(10) / math.log(2001), abs=0.03)


def test_a_configuration_depends_on_seed_and_number_alone() -> None:
    assert draw(DRAWN, 5, 17) == draw(DRAWN, 5, 17)
    assert draw(DRAWN, 5, 17) != draw(DRAWN, 5, 18)
    assert draw(DRAWN, 5, 17) != draw(DRAWN, 6, 17)
    for name in ("flat", "log"):
        values = {draw(DRAWN, seed, config)[name] for seed in range(9) for config in range(9)}
        assert len(values) == 81
