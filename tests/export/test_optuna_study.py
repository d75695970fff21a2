"""A study of Optuna: the same answer, and trials as Optuna's own would be."""

from __future__ import annotations

import json
import math
import os
import sqlite3
from datetime import datetime
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.distributions import (
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.storages import InMemoryStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

import acetune
from acetune import Constraint, Estimate
from acetune.core.errors import AcetuneError, GoalError
from acetune.core.goals import FailedCheck
from acetune.export import to_optuna
from acetune.study.store import Store
from export.kit import BEGAN, writing
from synthetic_study import make_study

COMPLETE, PRUNED = TrialState.COMPLETE, TrialState.PRUNED
FAIL, RUNNING = TrialState.FAIL, TrialState.RUNNING
NAN = math.nan


def read_back(path: Path) -> optuna.Study:
    """The one study in a file, as anyone would open it."""
    if path.suffix == ".log":
        return optuna.load_study(
            study_name=None, storage=JournalStorage(JournalFileBackend(str(path)))
        )
    return optuna.load_study(study_name=None, storage=f"sqlite:///{path}")


def plain(trial: FrozenTrial) -> Any:
    """All of a trial; NaN compares equal to itself as text."""
    parts = [trial.number, trial.state, trial.values, trial.params, trial.distributions,
             trial.user_attrs, trial.system_attrs, sorted(trial.intermediate_values.items()),
             trial.datetime_start, trial.datetime_complete]  # fmt: skip
    return [repr(sorted(p.items())) if isinstance(p, dict) else repr(p) for p in parts]


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("constraints", [0, 1, 3])
def test_the_best_trial_is_the_answer(mode: Any, constraints: int, study: Path) -> None:
    make_study(study, trials=60, reports=900, mode=mode, constraints=constraints, running=2)
    made, result = to_optuna(study), acetune.load(study)

    assert result.best is not None
    best = made.best_trial
    assert best.user_attrs["trial"] == result.best.trial and best.value == result.best.value
    assert best.user_attrs["found_step"] == result.best.step
    assert best.params == result.best.params
    assert set(best.user_attrs) >= {f"constraint.{name}" for name in result.best.constraints}
    assert made.direction.name == ("MAXIMIZE" if mode == "max" else "MINIMIZE")
    assert len(made.trials) == 60 and made.metric_names == [result.goals.objective.name]


@pytest.mark.parametrize("name", ["o.db", "o.log"])
def test_what_is_stored_is_what_add_trial_would_have_stored(
    name: str, study: Path, tmp_path: Path
) -> None:
    make_study(study, trials=40, reports=400, constraints=3, hostile=True, running=1)
    returned = to_optuna(study, tmp_path / name)
    in_memory = [plain(trial) for trial in to_optuna(study).trials]

    found = read_back(tmp_path / name)
    assert found.study_name == returned.study_name == "study"
    assert [plain(trial) for trial in found.trials] == in_memory
    assert [plain(trial) for trial in returned.trials] == in_memory
    if name == "o.db":
        slow = optuna.create_study(storage=f"sqlite:///{tmp_path / 'slow.db'}")
        slow.add_trials(to_optuna(study).trials[:6])
        assert [plain(trial) for trial in slow.trials] == in_memory[:6]
    assert found.user_attrs["objective"] == json.loads(acetune.load(study).info["objective"])
    found.optimize(lambda trial: trial.suggest_float("lr", 1e-4, 1.0, log=True), n_trials=1)
    assert found.trials[-1].number == 40  # it can go on


# -- states --------------------------------------------------------------------------------------

VALID, MISS, WORSE = {"g": 1.0}, {"g": 3.0}, {"g": 4.0}
CASES = {
    "valid": ("finished", [(5.0, VALID), (4.0, MISS)], COMPLETE, 5.0, -0.5),
    "valid, stopped": ("stopped", [(6.0, VALID), (9.0, None)], COMPLETE, 6.0, -0.5),
    "valid, failed": ("failed", [(6.0, VALID)], COMPLETE, 6.0, -0.5),
    "valid, running": ("running", [(6.0, VALID)], COMPLETE, 6.0, -0.5),
    "valid, cut off": ("interrupted", [(6.0, VALID)], COMPLETE, 6.0, -0.5),
    "missed": ("finished", [(1.0, WORSE), (2.0, MISS)], COMPLETE, 2.0, 0.5),
    "missed, stopped": ("stopped", [(1.0, MISS)], PRUNED, None, 0.5),
    "missed, failed": ("failed", [(1.0, MISS)], FAIL, None, 0.5),
    "missed, running": ("running", [(1.0, MISS)], RUNNING, None, 0.5),
    "missed, cut off": ("interrupted", [(1.0, MISS)], PRUNED, None, 0.5),
    "unchecked": ("finished", [(0.0, None)], PRUNED, None, None),
    "unchecked, stopped": ("stopped", [(0.0, None)], PRUNED, None, None),
    "never finite": ("finished", [(NAN, None)], FAIL, None, None),
    "never finite, stopped": ("stopped", [(NAN, None)], PRUNED, None, None),
    "nothing": ("failed", [], FAIL, None, None),
    "rejected": ("rejected", [], PRUNED, None, None),
    "just begun": ("running", [], RUNNING, None, None),
}


@pytest.mark.parametrize("case", CASES)
def test_states(case: str, study: Path) -> None:
    state, reports, expected, value, beyond = CASES[case]
    with writing(study) as author:
        author.run(1, {"x": 0.5}, reports, state, "because")
    (trial,) = to_optuna(study, for_dashboard=False).trials

    assert (trial.state, trial.value) == (expected, value)
    assert trial.constraints == ({} if beyond is None else {"g": beyond})
    assert trial.user_attrs["state"] == state
    assert (trial.datetime_complete is None) is (expected is RUNNING)
    assert trial.datetime_start == datetime.fromtimestamp(BEGAN)


def test_without_a_feasible_trial_optuna_has_no_best(study: Path) -> None:
    with writing(study) as author:
        author.run(1, {"x": 0.5}, [(1.0, MISS)])
        author.run(2, {"x": 0.5}, [(0.0, None)])
    with pytest.raises(ValueError, match="No feasible trials"):
        _ = to_optuna(study).best_trial


def test_a_trial_by_hand(study: Path) -> None:
    limits = [Constraint("g", upper=2.0, margin_se=1.0), Constraint("h", lower=0.5, scale=0.1)]
    with writing(study, limits) as author:
        measured = {"g": Estimate(1.0, 0.5), "h": 0.75}
        author.run(
            1, {"x": 0.5}, [(9.0, measured), (NAN, None), (math.inf, None), (-math.inf, None)],
            "stopped", "rank 3 of 3",
        )  # fmt: skip
    made = to_optuna(study)
    (trial,) = made.trials

    assert trial.constraints == {"g": -0.25, "h": -2.5, "0": -0.25, "1": -2.5}
    assert trial.system_attrs["constraints"] == [-0.25, -2.5]  # what optuna-dashboard reads
    values = trial.intermediate_values
    assert values[1] == 9.0 and math.isnan(values[2])
    assert (values[3], values[4]) == (math.inf, -math.inf)
    told = trial.user_attrs
    assert (told["stratum"], told["reason"], told["found_step"]) == ("valid", "rank 3 of 3", 1)
    assert (told["constraint.g"], told["stderr.g"], told["constraint.h"]) == (1.0, 0.5, 0.75)
    assert told["violation"] == 0 and told["confirmation"] == "unconfirmed"
    assert made.user_attrs["policy"]["name"] == "ACE"
    assert [c["name"] for c in made.user_attrs["constraints"]] == ["g", "h"]


def test_a_failed_check_is_as_bad_as_the_worst(study: Path) -> None:
    with writing(study, [Constraint("g", upper=2.0), Constraint("h", upper=1.0)]) as author:
        author.run(1, {"x": 0.5}, [(1.0, {"g": 8.0, "h": 0.5})])
        author.run(2, {"x": 0.5}, [(0.0, {"g": FailedCheck("broke"), "h": 0.5})])
    trial = to_optuna(study, for_dashboard=False).trials[1]

    assert trial.constraints == {"g": 3.0, "h": -0.5}
    assert trial.user_attrs["constraint.g"] == "broke" and trial.user_attrs["violation"] is None


def test_an_attempt_that_went_on_keeps_the_past_of_its_checkpoint(study: Path) -> None:
    with writing(study) as author:
        lost = [(9.0, None), (8.0, {"g": 1.0}), (1.0, {"g": 9.0})]
        author.run(1, {"x": 0.5}, lost, "interrupted")
        author.run(1, {"x": 0.5}, [(7.0, None)], attempt=2, resumed_from=2)
        author.run(2, {"x": 0.5}, [(6.0, None), (5.0, None)], "interrupted")
        author.run(2, {"x": 0.5}, [(4.0, None)], attempt=2)  # from the beginning
    first, second = to_optuna(study).trials

    assert first.intermediate_values == {1: 9.0, 2: 8.0, 3: 7.0} and first.value == 8.0
    assert second.intermediate_values == {1: 4.0} and second.user_attrs["attempts"] == 2


@pytest.mark.parametrize("name", ["g", "passed over"])
def test_trials_passed_over_for_a_confirmed_one_are_not_the_best(name: str, study: Path) -> None:
    with writing(study, [Constraint(name, upper=2.0)]) as author:
        for number in (1, 2, 3):
            author.run(number, {"x": 0.5}, [(float(number), {name: 1.0})])
        with author.store.transaction():
            author.store.add_confirmation(1, 1, 1, "broken", {name: (3.0, 0.0)}, None, 0.0)
            author.store.add_confirmation(2, 1, 1, "holds", {name: (1.0, 0.0)}, None, 0.0)
    made, result = to_optuna(study, for_dashboard=False), acetune.load(study)

    assert result.best is not None and result.best.trial == 2
    assert made.best_trial.user_attrs["trial"] == 2
    assert [t.user_attrs["confirmation"] for t in made.trials] == [
        "broken", "holds", "unconfirmed"
    ]  # fmt: skip
    assert [sorted(t.constraints.values()) for t in made.trials] == [[-0.5, 1.0], [-0.5], [-0.5]]
    uses = made.user_attrs["confirmations"]
    assert [use["metrics"][name] for use in uses] == [[3.0, 0.0], [1.0, 0.0]]


def test_if_all_failed_on_fresh_data_there_is_no_best_trial(study: Path) -> None:
    """Neither the one that was rejected nor one that nobody has judged."""
    with writing(study) as author:
        author.run(1, {"x": 0.5}, [(2.0, VALID)])
        author.run(2, {"x": 0.5}, [(1.0, VALID)])
        with author.store.transaction():
            author.store.add_confirmation(2, 1, 1, "broken", {"g": (3.0, 0.0)}, None, 0.0)
    made = to_optuna(study)
    assert [t.constraints["passed over"] for t in made.trials] == [1.0, 1.0]
    assert (made.user_attrs["outcome"], made.user_attrs["answer"]) == ("rejected", None)
    with pytest.raises(ValueError, match="No feasible trials"):
        made.best_trial  # noqa: B018


def test_the_answer_is_named(study: Path) -> None:
    with writing(study) as author:
        author.run(1, {"x": 0.5}, [(2.0, VALID), (1.0, VALID)])
    made = to_optuna(study)
    assert made.user_attrs["outcome"] == "feasible"
    assert made.user_attrs["answer"] == {"trial": 1, "attempt": 1, "step": 2}


@pytest.mark.filterwarnings("error")
def test_a_constraint_with_a_number_for_a_name_is_written_once(study: Path) -> None:
    with writing(study, [Constraint("0", upper=2.0)]) as author:
        author.run(1, {"x": 0.5}, [(2.0, {"0": 1.0})])
    (trial,) = to_optuna(study).trials
    assert trial.constraints == {"0": -0.5}


# -- parameters ----------------------------------------------------------------------------------


def test_distributions_are_those_of_the_space(study: Path) -> None:
    space = {
        "rate": {"float": [0.01, 1.0], "log": True},
        "layers": {"integer": [1, 4], "log": False},
        "kind": {"choice": [None, True, 2.5, "a"]},
        "fixed": 3,
    }
    with writing(study, space=space) as author:
        author.run(1, {"rate": 0.5, "layers": 2, "kind": True, "fixed": 3}, [(1.0, VALID)])
        author.run(2, {"rate": 0.1, "layers": 1, "kind": None, "fixed": 3}, [(1.0, VALID)])
    made = to_optuna(study)

    assert made.trials[0].distributions == {
        "rate": FloatDistribution(0.01, 1.0, log=True),
        "layers": IntDistribution(1, 4),
        "kind": CategoricalDistribution((None, True, 2.5, "a")),
    }
    assert made.trials[0].params == {"rate": 0.5, "layers": 2, "kind": True}
    assert made.trials[1].params["kind"] is None
    assert made.user_attrs["fixed"] == {"fixed": 3}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", [None, "o.db", "o.log"])
def test_parameters_that_optuna_cannot_hold(name: str | None, study: Path, tmp_path: Path) -> None:
    with writing(study, space={"x": {"float": [0.0, 1.0], "log": False}}) as author:
        author.run(
            1, {"x": 5.0, "list": [1, 2], "n": 3, "m": 1, "\ud800": "\ud801"}, [(1.0, VALID)]
        )
        author.run(2, {"x": 0.5, "list": {"a": 1}, "n": 9, "m": "a"}, [(2.0, VALID)])
        author.run(3, {"n": 0.5, "m": True}, [(3.0, VALID)])
    made = to_optuna(study, None if name is None else tmp_path / name)
    first, second, third = made.trials if name is None else read_back(tmp_path / name).trials

    assert first.params == {"x": 5.0, "list": "[1, 2]", "n": 3, "m": "1", "\\ud800": "\ud801"}
    # a dict is a space inside: its names are joined by a dot
    assert second.params == {"x": 0.5, "list.a": 1, "n": 9, "m": "a"}
    assert third.params == {"n": 0.5, "m": "True"}  # Optuna would take True for 1
    assert first.distributions["x"] == FloatDistribution(0.0, 5.0)
    assert first.distributions["n"] == FloatDistribution(0.5, 9.0)
    assert first.distributions["list"] == CategoricalDistribution(("[1, 2]",))
    assert first.distributions["m"] == CategoricalDistribution(("1", "a", "True"))


@pytest.mark.parametrize("name", [None, "o.db", "o.log"])
def test_an_empty_study(name: str | None, study: Path, tmp_path: Path) -> None:
    with writing(study, mode="max", objective="auc"):
        pass
    made = to_optuna(study, None if name is None else tmp_path / name)
    assert made.trials == [] and made.metric_names == ["auc"]
    assert made.direction.name == "MAXIMIZE"


# -- storages ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["path", "url", "journal", "object"])
def test_other_studies_stay_and_one_of_the_same_name_is_replaced_only_if_asked(
    kind: str, study: Path, tmp_path: Path
) -> None:
    with writing(study) as author:
        author.run(1, {"x": 0.5}, [(1.0, VALID), (2.0, None)])
    place: Any = {
        "path": tmp_path / "o.db",
        "url": f"sqlite:///{tmp_path / 'o.db'}",
        "journal": str(tmp_path / "o.log"),
        "object": InMemoryStorage(),
    }[kind]
    other = to_optuna(study, place, study_name="other")
    to_optuna(study, place)
    with pytest.raises(AcetuneError, match=r"has a study 'study' already.* --force"):
        to_optuna(study, place)
    with writing(tmp_path / "more" / "study.db") as author:
        author.run(1, {"x": 0.5}, [(1.0, VALID)])
        author.run(2, {"x": 0.5}, [(1.0, VALID)])
    again = to_optuna(tmp_path / "more" / "study.db", place, force=True)

    assert len(again.trials) == 2 and len(other.trials) == 1
    assert other.trials[0].intermediate_values == {1: 1.0, 2: 2.0}
    if kind == "path":
        with sqlite3.connect(place) as db:  # nothing is left of what was replaced
            ids = {row[0] for row in db.execute("SELECT trial_id FROM trial_intermediate_values")}
            known = {row[0] for row in db.execute("SELECT trial_id FROM trials")}
        db.close()
        assert ids == known and len(known) == 3


@pytest.mark.parametrize("name", ["o.db", "o.log"])
def test_a_file_of_another_kind_is_left_alone(name: str, study: Path, tmp_path: Path) -> None:
    with writing(study):
        pass
    path = tmp_path / name
    path.write_text("precious\n")
    with pytest.raises(AcetuneError, match=r"exists and is no (database|journal) of Optuna"):
        to_optuna(study, path, force=True)
    assert path.read_text() == "precious\n"


def test_a_study_file_is_left_alone(study: Path) -> None:
    with writing(study):
        pass
    for place in (study, f"sqlite:///{study}"):
        with pytest.raises(AcetuneError, match="is a study file of acetune"):
            to_optuna(study, place, force=True)
    store = Store.read(study)
    tables = {row["name"] for row in store.rows("SELECT name FROM sqlite_master")}
    store.close()
    assert "studies" not in tables


def test_another_database_is_left_alone(study: Path, tmp_path: Path) -> None:
    with writing(study):
        pass
    with sqlite3.connect(tmp_path / "mine.db") as db:
        db.execute("CREATE TABLE mine (x)")
    db.close()
    with pytest.raises(AcetuneError, match="is no database of Optuna"):
        to_optuna(study, tmp_path / "mine.db")


def test_an_empty_name_is_an_error(study: Path) -> None:
    with writing(study):
        pass
    with pytest.raises(GoalError, match="must not be empty"):
        to_optuna(study, study_name="")


def test_an_export_that_breaks_off_leaves_no_half_study(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with writing(study) as author:
        author.run(1, {"x": 0.5}, [(1.0, VALID)])

    def broken(*_: object, **__: object) -> Any:
        raise RuntimeError("in the middle")
        yield

    for place in (tmp_path / "o.db", tmp_path / "o.log"):
        monkeypatch.setattr("acetune.study.export._optuna_study.frozen_trials", broken)
        with pytest.raises(RuntimeError, match="in the middle"):
            to_optuna(study, place)
        monkeypatch.undo()
        assert len(to_optuna(study, place).trials) == 1  # the name is free


def test_a_journal_waits_for_the_disk_once_not_for_each_trial(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_study(study, trials=60, reports=300)
    place, syncs, sync = tmp_path / "o.log", 0, os.fsync

    def counted(descriptor: int) -> None:
        nonlocal syncs
        syncs += 1
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", counted)
    made = to_optuna(study, place)
    assert syncs < 30
    made.add_trial(optuna.trial.create_trial(value=1.0))  # it is one to go on with
    there = read_back(place).trials
    assert [plain(trial) for trial in there] == [plain(trial) for trial in made.trials]
    assert len(there) == 61
