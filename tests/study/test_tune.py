"""``tune()`` from its call to its result, with real workers."""

from __future__ import annotations

import contextlib
import functools
import gc
import io
import json
import math
import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import acetune
from acetune import ACE, ASHA, Constraint, NoStopping, Stopper, StudyCallback, Trial
from acetune.core.errors import StudyError
from acetune.core.outcome import Outcome
from acetune.run import tuning
from acetune.run.terminal import LiveProgress, PlainProgress, make_progress
from acetune.study import coordinator
from run.helpers import (
    Events,
    InOrder,
    append_line,
    by_hand,
    g_of,
    output_of,
    read_lines,
    report_rows,
    rows,
    script,
    states,
    trial_rows,
    tune,
    wait_for,
)

EVERY_STEP = ACE(truncation=0, interval=1, gate=False)
LIMIT = Constraint("g", upper=2, check=g_of)


def short(trial: Trial) -> None:
    for step in trial.steps(2):
        trial.report(trial.params["x"] + 1 / step, model=step)


# -- decisions -----------------------------------------------------------------------------------

POLICIES = [
    ACE(),
    ACE(truncation=0.5),
    ACE(interval=1),
    ACE(interval="end"),
    ACE(gate=False, truncation=0.4),
    ACE(stopping="first-violation", interval=1),
    ACE(min_steps=3, truncation=0.5),
    ASHA(),
    NoStopping(),
]


@pytest.mark.parametrize("snapshot", [True, False])
@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_one_worker_decides_as_a_stopper_fed_with_the_same_reports(
    study: Path, policy: acetune.Policy, snapshot: bool
) -> None:
    """With costs given, everything is determined: also which checkpoints are checked."""

    def curve(trial: int) -> list[tuple[float, float, float]]:
        chance = random.Random(trial)
        level, bad = chance.random(), chance.random() - 0.3
        return [
            (round(level + chance.random() / step, 2), bad + step / 9, chance.random())
            for step in range(1, chance.randint(2, 9))
        ]

    def train(trial: Trial) -> None:
        its = curve(trial.number)
        for step in trial.steps(len(its)):
            value, g, h = its[step - 1]
            if trial.number % 5 == 0 and step == len(its):
                return  # T was an upper bound
            trial.report(
                value,
                model=(g, h),
                snapshot=tuple if snapshot else None,
                primary_cost_s=1.0,
                constraint_cost_s={"g": 0.25, "h": float(trial.number % 4)},
            )

    constraints = [
        Constraint("g", upper=0.6, check=lambda model: model[0]),
        Constraint("h", lower=0.2, check=lambda model: model[1]),
    ]
    tune(train, study, xs=range(40), constraints=constraints, policy=policy)

    stopper = Stopper(objective="loss", mode="min", constraints=constraints, policy=policy)
    expected: list[tuple[Any, ...]] = []
    for number in range(1, 41):
        its = curve(number)
        cost = {"g": 0.25, "h": float(number % 4)}
        trial = stopper.start(number, len(its))

        def measure(
            due: int | None, its: list[tuple[float, float, float]] = its
        ) -> dict[str, Any] | None:
            return None if due is None else {"g": its[due - 1][1], "h": its[due - 1][2]}

        for step, (value, _, _) in enumerate(its, 1):
            if number % 5 == 0 and step == len(its):
                break
            due = trial.check_due(step, value, snapshot=snapshot)
            decision = trial.observe(
                step, value, measure(due), 1.0, cost if due else None, checked_step=due
            )
            ranked = decision.stratum, decision.rank, decision.of, decision.action.value
            expected.append((number, "step", step, due, *ranked))
            if decision.stop:
                break
        if trial.state == "running" and trial.record.progress.last_step:
            due = trial.finish_due(snapshot=snapshot)
            trial.finish(measure(due), None, checked_step=due)
            if due is not None:
                expected.append((number, "end", step - 1, due))
    found = report_rows(study)
    names = ("trial", "kind", "step", "checked_step", "stratum", "rank", "of", "decision")
    decided = [
        tuple(row[name] for name in (names if row["kind"] == "step" else names[:4]))
        for row in found
    ]
    assert decided == expected
    plans = [(row["interval"], row["state"]) for row in trial_rows(study)]
    records = [stopper.history.trials[number] for number in range(1, 41)]
    # a trial of one step that leaves before it has reported nothing and failed
    assert plans == [
        (record.progress.interval, record.state if len(record.log) else "failed")
        for record in records
    ]
    best, known = acetune.load(study).best, stopper.best
    assert (best is None) == (known is None)
    if best is not None and known is not None:
        assert (best.trial, best.step, best.value) == (known.trial, known.step, known.value)


def test_a_stopped_trial_leaves_its_loop_by_itself(study: Path) -> None:
    table = [[(loss, 9.0)] * 4 for loss in (1.0, 2.0, 3.0, 4.0)]
    result = tune(by_hand(table), study, xs=range(4), policy=ACE(interval=1), constraints=[LIMIT])

    assert result.counts == {"finished": 3, "stopped": 1}
    last = trial_rows(study)[3]
    assert last["reason"] == "rank 4 of 4 invalid reports at step 1: in the worst 25%"
    assert [row["step"] for row in report_rows(study) if row["trial"] == 4] == [1]


# -- constraints ---------------------------------------------------------------------------------


def test_without_constraints_everything_qualifies(study: Path) -> None:
    result = tune(by_hand([[(3.0, 9.0), (1.0, 9.0), (2.0, 9.0)]]), study)

    assert result.best is not None and (result.best.step, result.best.value) == (2, 1.0)
    assert result.best.load() == (1, 2, 9.0)
    assert {row["stratum"] for row in report_rows(study)} == {"valid"}
    assert result.ledger.checks == 0 and not rows(study, "SELECT * FROM checks")


def test_several_constraints_must_all_hold(study: Path) -> None:
    def train(trial: Trial) -> None:
        for value, speed, size in (
            (5.0, 9.0, 1.0),
            (4.0, 4.0, 1.0),
            (3.0, 9.0, 8.0),
            (2.0, 1.0, 9.0),
        ):
            trial.report(value, model={"speed": speed, "size": size})

    constraints = [
        Constraint("speed", lower=5, check=lambda model: model["speed"]),
        Constraint("size", upper=4, check=lambda model: model["size"], scale=8),
    ]
    result = tune(train, study, constraints=constraints, policy=EVERY_STEP)

    assert [row["violation"] for row in report_rows(study)] == pytest.approx(
        [0, 1 / 5, 4 / 8, 4 / 5 + 5 / 8]
    )
    assert result.best is not None and result.best.value == 5.0
    assert result.nearest_miss is not None and result.nearest_miss.value == 4.0


def test_checks_given_with_the_report(study: Path) -> None:
    def train(trial: Trial) -> None:
        for step in trial.steps(3):
            trial.report(
                -step,
                model=step,
                constraints={
                    "a": lambda model: model,
                    "b": functools.partial(float, step),  # a bound value: no parameter is left
                    "c": step,
                },
            )

    constraints = [Constraint(name, upper=2) for name in ("a", "b", "c")]
    result = tune(train, study, constraints=constraints, policy=EVERY_STEP)

    assert [row["stratum"] for row in report_rows(study)] == ["valid", "valid", "invalid"]
    assert result.best is not None and result.best.step == 2


def test_a_constraint_without_a_check_is_named(study: Path) -> None:
    with pytest.raises(StudyError, match="constraint 'eod' has no check"):
        tune(short, study, constraints=[Constraint("eod", upper=1)])

    assert "constraint 'eod' has no check" in trial_rows(study)[0]["reason"]


def test_a_check_without_parameters_sees_the_current_step_only(study: Path) -> None:
    def train(trial: Trial) -> None:
        for step in trial.steps(4):
            value, check = abs(step - 2), functools.partial(float, step)
            trial.report(value, model=step, snapshot=int, constraints={"g": check})

    tune(train, study, constraints=[Constraint("g", upper=9)], policy=NoStopping())

    last = report_rows(study)[-1]
    assert (last["checked_step"], last["checked_objective"]) == (4, 2.0)


def test_limits_on_the_configuration_are_checked_before_any_training(
    study: Path, tmp_path: Path
) -> None:
    trained = tmp_path / "trained"

    def train(trial: Trial) -> None:
        append_line(trained, trial.params["x"])
        trial.report(trial.params["x"])

    searcher = InOrder([9, 1, 8, 7, 2, 3])
    size = Constraint("size", upper=5, on="config", check=lambda params: params["x"])
    options: dict[str, Any] = {"constraints": [size], "searcher": searcher}
    result = tune(train, study, max_trials=2, **options)

    assert states(study) == ["rejected", "finished", "rejected", "rejected", "finished"]
    assert [line[0] for line in read_lines(trained)] == ["1.0", "2.0"]
    reason = "breaks size <= 5 with 9 before any training"
    assert trial_rows(study)[0]["reason"] == reason
    assert searcher.told[1] == Outcome(None, 0.8) and searcher.told[2] == Outcome(1.0, 0.0)
    assert result.counts == {"finished": 2, "rejected": 3}
    assert list(result.trials["state"]) == states(study)

    # those that were turned down do not count, and the searcher hears of them again
    tune(train, study, max_trials=3, **options)
    assert states(study)[5:] == ["finished"]
    assert searcher.added == {n: searcher.told[n] for n in range(1, 6)}


# -- policies that are blind to the constraint ---------------------------------------------------


@pytest.mark.parametrize("name", ["none+after", "asha+after"])
def test_after_the_run_trials_are_checked_from_the_best_down(study: Path, name: str) -> None:
    #        its best checkpoint is valid only in trial 3
    table = [
        [(4.0, 9.0), (2.0, 8.0), (3.0, 1.0)],
        [(1.0, 7.0), (1.5, 1.0), (1.6, 1.0)],
        [(2.5, 1.0), (9.0, 9.0), (9.0, 9.0)],
        [(3.5, 1.0), (3.4, 1.0), (3.3, 1.0)],
    ]
    result = tune(by_hand(table), study, xs=range(4), policy=name, constraints=[LIMIT])

    found = [row for row in report_rows(study) if row["checked_step"]]
    assert {row["kind"] for row in found} == {"after"}
    assert result.best is not None
    checked = [(row["trial"], row["checked_step"], row["stratum"]) for row in found]
    if name == "none+after":
        assert checked == [(2, 1, "invalid"), (1, 2, "invalid"), (3, 1, "valid")]
        assert (result.best.trial, result.best.step, result.best.value) == (3, 1, 2.5)
        assert result.best.load() == (3, 1, 1.0)
    else:  # stopped trials count with what they have
        assert checked[-1][2] == "valid" and all(row[2] == "invalid" for row in checked[:-1])
    before = report_rows(study)

    # the same call again has nothing left to check
    again = tune(by_hand(table), study, xs=range(4), policy=name, constraints=[LIMIT])
    assert report_rows(study) == before and again.best == result.best


def test_after_the_run_as_many_are_found_as_are_to_be_confirmed(study: Path) -> None:
    table = [[(loss, 1.0 + 8 * (loss == 2))] for loss in (1.0, 2.0, 3.0, 4.0)]
    result = tune(
        by_hand(table),
        study,
        xs=range(4),
        policy="none+after",
        constraints=[LIMIT],
        confirm=lambda model: {"g": 9.0 if model[0] == 1 else 0.0},
        confirm_top=2,
    )

    checked = [row["trial"] for row in report_rows(study) if row["kind"] == "after"]
    assert checked == [1, 2, 3]
    assert result.best is not None and (result.best.trial, result.best.status) == (3, "holds")


def test_after_the_run_a_check_that_fails_is_not_feasible(study: Path) -> None:
    def check(model: tuple[int, int, float]) -> float:
        if model[0] == 1:
            raise ValueError("no")
        if model[0] == 2:
            os._exit(1)
        if model[0] == 3:
            time.sleep(600)
        return 0.0

    table = [[(float(n), 1.0)] for n in range(1, 5)]
    constraint = Constraint("g", upper=2, check=check, timeout_s=0.5)
    result = tune(by_hand(table), study, xs=range(4), policy="none+after", constraints=[constraint])

    errors = [row["error"] for row in rows(study, "SELECT * FROM checks ORDER BY seq")]
    assert errors[0].startswith("ValueError: no (line ") and errors[3] is None
    assert "worker process exited with status 1" in errors[1]
    assert "outran its timeout of 0.5 s" in errors[2]
    assert result.best is not None and result.best.trial == 4


def test_none_with_callback_checks_each_best_checkpoint_at_the_end(study: Path) -> None:
    table = [[(3.0, 1.0), (1.0, 9.0), (2.0, 1.0)], [(5.0, 1.0), (6.0, 9.0), (7.0, 9.0)]]
    result = tune(by_hand(table), study, xs=[1, 2], policy="none", constraints=[LIMIT])

    assert [row["checked_step"] for row in report_rows(study)] == [None, None, 2, None, None, 1]
    assert result.best is not None and (result.best.trial, result.best.step) == (2, 1)


def test_asha_with_callback_checks_at_rungs_and_at_the_end(study: Path) -> None:
    table = [[(20.0 - step, 1.0) for step in range(18)]]
    tune(by_hand(table), study, policy="asha", constraints=[LIMIT])

    found = [row["checked_step"] for row in report_rows(study) if row["checked_step"]]
    assert found == [1, 4, 16, 18]


# -- the last step -------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [ACE(interval="end"), NoStopping(), ASHA()], ids=repr)
def test_the_last_step_may_be_declared_late(study: Path, policy: acetune.Policy) -> None:
    def train(trial: Trial) -> None:
        for step in range(1, 4):
            trial.report(-step, model=step)
            if step == 1:
                trial.declare(3)
                trial.declare(3)  # again is fine

    check = Constraint("g", upper=9, check=lambda model: model)
    result = tune(train, study, constraints=[check], policy=policy)

    assert trial_rows(study)[0]["total_steps"] == 3 and result.counts == {"finished": 1}
    found = report_rows(study)
    assert found[-1]["checked_step"] == 3 and {row["kind"] for row in found} == {"step"}
    assert result.best is not None and result.best.step == 3


@pytest.mark.parametrize("snapshot", [True, False])
@pytest.mark.parametrize("policy", [ACE(interval="end"), NoStopping()], ids=repr)
def test_the_last_step_may_be_an_upper_bound(
    study: Path, policy: acetune.Policy, snapshot: bool
) -> None:
    def train(trial: Trial) -> None:
        for step in trial.steps(100):
            trial.report(abs(step - 2), model=step, snapshot=int if snapshot else None)
            if step == 4:
                break

    check = Constraint("g", upper=9, check=lambda model: model)
    result = tune(train, study, constraints=[check], policy=policy)

    assert result.counts == {"finished": 1} and trial_rows(study)[0]["reason"] == "ended by itself"
    last = report_rows(study)[-1]
    step = 2 if snapshot else 4
    assert (last["kind"], last["step"], last["checked_step"]) == ("end", 4, step)
    assert result.best is not None and result.best.load() == step


def test_a_trial_that_ends_by_itself_and_cannot_win_is_not_checked(study: Path) -> None:
    def train(trial: Trial) -> None:
        for step in trial.steps(9):
            trial.report(trial.params["x"], model=trial.params["x"])
            if step == 2:
                return

    searcher = InOrder([1, 5, 3, 0])
    check = Constraint("g", upper=2, check=lambda model: 1.0 if model == 1 else 3.0)
    options: dict[str, Any] = {"constraints": [check], "policy": ACE(0, "end")}
    tune(train, study, searcher=searcher, max_trials=4, **options)
    assert [row["trial"] for row in report_rows(study) if row["kind"] == "end"] == [1, 4]
    expected = {
        1: Outcome(1.0, 0.0),
        2: Outcome(5.0, 0.0),  # the gate said that it cannot win
        3: Outcome(3.0, 0.0),
        4: Outcome(0.0, 0.5),
    }
    assert searcher.told == expected

    # and the searcher of a resumed study is told the same
    again = InOrder([1, 5, 3, 0])
    tune(train, study, searcher=again, max_trials=4, **options)
    assert again.added == expected


def test_a_loop_of_ones_own(study: Path) -> None:
    def train(trial: Trial) -> None:
        step = 0
        while not trial.should_stop and step < 3:
            step += 1
            trial.report(trial.params["x"], model=0)
        if trial.should_stop:
            assert trial.number == 4 and "in the worst 25%" in trial.stop_reason

    check = Constraint("g", upper=-1, check=lambda model: model)
    tune(train, study, xs=[1, 2, 3, 4], constraints=[check], policy=ACE(interval=1))

    assert states(study) == ["finished"] * 3 + ["stopped"]
    assert trial_rows(study)[0]["total_steps"] is None
    assert [row["step"] for row in report_rows(study)] == [1, 2, 3] * 3 + [1]


# -- searchers and points ------------------------------------------------------------------------


def params(study: Path) -> list[dict[str, Any]]:
    return [json.loads(row["params"]) for row in trial_rows(study)]


SPACE = {
    "x": acetune.uniform(0, 1),
    "n": acetune.randint(1, 9),
    "kind": acetune.choice(["a", None]),
}


@pytest.mark.parametrize("searcher", ["random", "tpe"])
def test_points_are_tried_first_and_not_again(study: Path, searcher: str) -> None:
    def train(trial: Trial) -> None:
        trial.report(trial.params["x"])

    points = [{"x": 0.5, "n": 3, "kind": None}, {"x": 0.25}, {"n": 7, "kind": "a", "fixed": 5}]
    options = {"space": SPACE | {"fixed": 5}, "searcher": searcher, "points": points, "seed": 1}
    tune(train, study, max_trials=2, **options)
    tune(train, study, max_trials=5, **options)

    found = params(study)
    assert found[0] == {"x": 0.5, "n": 3, "kind": None, "fixed": 5}
    assert found[1]["x"] == 0.25 and found[2]["n"] == 7 and found[2]["kind"] == "a"
    assert found[3]["x"] not in (0.5, 0.25) and found[4]["x"] not in (0.5, 0.25)
    assert all(one["fixed"] == 5 for one in found)


def test_a_seed_repeats_a_study(study: Path) -> None:
    def train(trial: Trial) -> None:
        trial.report(trial.params["x"])

    def run(path: Path, seed: int | None, total: int = 3) -> list[dict[str, Any]]:
        tune(train, path, space=SPACE, searcher="random", seed=seed, max_trials=total)
        return params(path)

    one, two, other = (study.with_name(name) for name in ("1.db", "2.db", "3.db"))
    assert run(one, 7) == run(two, 7) != run(other, 8)
    # a study that goes on does not begin with the same suggestions again
    more = run(one, 7, 6)
    assert more[:3] == run(two, 7)
    assert not [found for found in more[3:] if found in more[:3]]


# -- where it runs -------------------------------------------------------------------------------


def test_devices_and_threads_of_the_workers(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    seen = tmp_path / "seen"

    def train(trial: Trial) -> None:
        variables = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
        values = [os.environ[name] for name in variables]
        append_line(seen, trial.device, trial.threads, *values)
        wait_for(lambda: len(read_lines(seen)) == 2, "the other worker")
        trial.report(1.0)

    tune(train, study, xs=[1, 2], workers=None, devices=["0", "cuda:1"], threads=3)

    assert sorted(read_lines(seen)) == [["0", "3", "0", "3", "3"], ["cuda:1", "3", "1", "3", "3"]]


def test_without_devices_nothing_is_hidden(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,6")
    seen = tmp_path / "seen"

    def train(trial: Trial) -> None:
        append_line(seen, trial.device, os.environ["CUDA_VISIBLE_DEVICES"])
        trial.report(1.0)

    tune(train, study)

    assert read_lines(seen) == [["None", "5,6"]]


SCRIPT = """
import acetune
print("top level")

FACTOR = 3.0

def value(x):
    return FACTOR * x

def train(trial):
    for step in trial.steps(2):
        trial.report(value(trial.params["x"]), model=step)

result = acetune.tune(
    train, {"x": acetune.uniform(0, 1)}, objective="loss", mode="min",
    constraints=[acetune.Constraint("g", upper=1, check=lambda model: value(0.1))],
    max_trials=3, workers=2, study="study.db", searcher="random",
)
print(result.counts, result.best.value == value(result.best.params["x"]))
"""


def test_a_script_needs_no_main_guard(study: Path, tmp_path: Path) -> None:
    with script(tmp_path / "tuning.py", SCRIPT) as process:
        assert output_of(process) == "top level\n{'finished': 3} True\n"


def test_functions_from_a_notebook(study: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    cells = [
        "import math\nOFFSET = 2.0",
        "class Model:\n    def __init__(self, x): self.x = x",
        "def loss(model): return math.sqrt(model.x + OFFSET)",
        "def train(trial):\n"
        "    for step in trial.steps(2):\n"
        "        model = Model(trial.params['x'])\n"
        "        trial.report(loss(model), model=model)",
        "def check(model): return model.x",
    ]
    for cell in cells:
        exec(cell, namespace)

    check = Constraint("g", upper=5, check=namespace["check"])
    result = tune(namespace["train"], study, xs=[2, 7], constraints=[check], policy=EVERY_STEP)

    assert result.best is not None and result.best.value == 2.0 and result.best.trial == 1


def test_from_a_thread_that_is_not_the_main_one(study: Path) -> None:
    results: list[acetune.StudyResult] = []
    thread = threading.Thread(target=lambda: results.append(tune(short, study, xs=[1, 2])))
    thread.start()
    thread.join()

    assert results[0].counts == {"finished": 2}


def test_a_method_and_a_callable_object_can_train(study: Path) -> None:
    class Trainer:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        def __call__(self, trial: Trial) -> None:
            trial.report(self.scale * trial.params["x"])

    trainers: list[Callable[[Trial], None]] = [Trainer(2), Trainer(2).__call__]
    for number, train in enumerate(trainers):
        best = tune(train, study.with_name(f"{number}.db"), xs=[3]).best
        assert best is not None and best.value == 6.0


# -- callbacks and progress ----------------------------------------------------------------------


def test_callbacks_are_called_in_order(study: Path) -> None:
    events = Events()
    tune(by_hand([[(1.0, 1.0)] * 2] * 2), study, xs=[1, 2], callbacks=[events])

    assert [event[:3] for event in events.log] == [
        ("start",),
        ("trial start", 1, 1),
        ("report", 1, 1),
        ("report", 1, 2),
        ("trial end", 1, "finished"),
        ("trial start", 2, 1),
        ("report", 2, 1),
        ("report", 2, 2),
        ("trial end", 2, "finished"),
        ("end",),
    ]
    decision = events.log[2][3]
    assert not decision.stop and decision.rank == 1 and "rank 1 of 1" in decision.reason


def test_callbacks_see_how_the_study_stands(study: Path) -> None:
    seen: list[Any] = []

    class Watch(StudyCallback):
        def on_start(self, status: Any) -> None:
            self.status = status
            assert (status.trials, status.best, status.max_trials) == (0, None, 2)

        def on_trial_end(self, trial: int, state: str, reason: str) -> None:
            status = self.status
            best = status.best and status.best.value
            seen.append((status.trials, dict(status.by_state), dict(status.strata), best))
            assert status.elapsed_s > 0 and status.goals.objective.name == "loss"
            assert status.check_share == pytest.approx(0.2)

    tune(
        by_hand([[(2.0, 1.0)], [(1.0, 9.0)]]),
        study,
        xs=[1, 2],
        callbacks=[Watch()],
        constraints=[LIMIT],
        policy=EVERY_STEP,
    )

    assert seen == [
        (1, {"finished": 1}, {"valid": 1, "invalid": 0, "unchecked": 0}, 2.0),
        (2, {"finished": 2}, {"valid": 1, "invalid": 1, "unchecked": 0}, 2.0),
    ]


def test_a_callback_that_raises_is_dropped_with_a_notice(study: Path) -> None:
    calls: list[int] = []

    class Bad(StudyCallback):
        def on_report(self, trial: int, report: Any, decision: Any) -> None:
            calls.append(trial)
            raise KeyError("no such metric")

    events = Events()
    result = tune(short, study, xs=[1, 2], callbacks=[Bad(), events])

    assert result.counts == {"finished": 2} and calls == [1]
    assert events.notices == [
        "callback Bad.on_report raised KeyError: 'no such metric'; it is not called again"
    ]


def test_progress_where_there_is_no_terminal(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = [[(2.0, 1.0)], [(1.0, 1.0)]]
    for total in (1, 2):
        tune(
            by_hand(table),
            study,
            xs=[1, 2],
            max_trials=total,
            constraints=[LIMIT],
            policy=EVERY_STEP,
            progress=True,
        )
    out, err = capsys.readouterr()

    assert out == "" and "\x1b" not in err
    lines = err.splitlines()
    assert all(line.startswith("acetune: ") for line in lines)
    assert [line for line in lines if "goes on after 1 trial and" in line]
    assert "trials 2 finished" in lines[-1]
    assert "best in the search: loss 1, g 1 (trial 2 step 1)" in lines[-1]


def test_one_interrupted_trial_is_one(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tune(by_hand([[(2.0, 1.0)]]), study, constraints=[LIMIT], policy=EVERY_STEP)
    with contextlib.closing(sqlite3.connect(study)) as db, db:
        db.execute("UPDATE trials SET state = 'interrupted'")
    tune(by_hand([[(2.0, 1.0)]]), study, constraints=[LIMIT], policy=EVERY_STEP, progress=True)
    assert "; 1 interrupted trial is taken up again" in capsys.readouterr().err


def test_progress_on_a_terminal(study: Path) -> None:
    def train(trial: Trial) -> None:
        if trial.number == 3:
            trial.report(1.0, step=1, model=1)
            trial.report(2.0, step=1, model=1)  # gives a notice
        for step in trial.steps(3):
            time.sleep(0.1)
            trial.report(trial.params["x"], model=step)

    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    progress = make_progress(console)
    assert isinstance(progress, LiveProgress)
    check = Constraint("g", upper=2, check=lambda model: model)
    result = tune(
        train,
        study,
        xs=[1, 2, 3],
        callbacks=[progress],
        constraints=[check],
        policy=EVERY_STEP,
        time_budget_s=600,
    )

    assert result.counts == {"finished": 3}
    text = screen.getvalue()
    assert "note: trial 3 reported step 1 again" in text
    for word in ("trials", "reports", "best", "left", "valid"):
        assert word in text
    assert isinstance(make_progress(Console(file=io.StringIO())), PlainProgress)


def test_objectives_and_limits_of_zero_are_ordinary_numbers(study: Path) -> None:
    constraint = Constraint("g", upper=0, check=g_of)
    result = tune(
        by_hand([[(0.0, 0.0), (-1.0, 0.5)]]), study, constraints=[constraint], policy=EVERY_STEP
    )

    assert [(row["stratum"], row["violation"]) for row in report_rows(study)] == [
        ("valid", 0.0),
        ("invalid", 0.5),
    ]
    assert result.best is not None and result.best.value == 0.0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_study_of_objectives_that_are_not_finite_has_no_answer(study: Path, value: float) -> None:
    def train(trial: Trial) -> None:
        for _ in trial.steps(2):
            trial.report(value, model=0)

    searcher = InOrder()
    result = tune(train, study, searcher=searcher, mode="max")

    assert result.best is None and result.counts == {"finished": 1}
    assert searcher.told == {1: Outcome(None, 1.0, failed=True)}


@pytest.mark.parametrize("raised", [None, KeyboardInterrupt, RuntimeError])
def test_the_garbage_collector_leaves_a_large_history_alone_until_the_end(
    study: Path, monkeypatch: pytest.MonkeyPatch, raised: type[BaseException] | None
) -> None:
    def train(trial: Trial) -> None:
        trial.report(1.0)

    frozen: list[int] = []

    class Driver(tuning.Driver):
        def run(self, *given: Any) -> None:
            frozen.append(gc.get_freeze_count())
            if raised is not None:
                raise raised
            super().run(*given)

    tune(train, study)
    monkeypatch.setattr(tuning, "Driver", Driver)
    with contextlib.nullcontext() if raised is None else pytest.raises(raised):
        tune(train, study, max_trials=2)  # a small one is not worth it
    monkeypatch.setattr(coordinator, "_LARGE", 1)
    with contextlib.nullcontext() if raised is None else pytest.raises(raised):
        tune(train, study, max_trials=3)
    assert frozen[0] == 0 < frozen[1] and gc.get_freeze_count() == 0
    gc.freeze()
    try:  # what somebody else has set aside stays so
        with contextlib.nullcontext() if raised is None else pytest.raises(raised):
            tune(train, study, max_trials=4)
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
