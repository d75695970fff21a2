"""A study that begins with what earlier ones have found: ``tune(learn_from=...)``."""

from __future__ import annotations

import json
import math
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import acetune
from acetune import ACE, Constraint, Searcher, Trial
from acetune.core.errors import AcetuneError, GoalError, StudyChangedError, StudyFileError
from acetune.core.goals import Goals, Objective
from acetune.core.outcome import Curve
from acetune.policies.stopper import stopper_of
from acetune.searchers.space import Space
from acetune.study.coordinator import StudyCoordinator
from acetune.study.earlier_studies import EarlierStudies, kept_curves
from acetune.study.store import Store, reading
from acetune.study.summary import what_changed
from run.helpers import Events, InOrder, rows, tune

SQUARE = {"x": acetune.uniform(0.0, 1.0), "y": acetune.uniform(0.0, 1.0)}


def train(trial: Trial) -> None:
    x, y = trial.params["x"], trial.params["y"]
    for step in trial.steps(6):
        value = (x - 0.7) ** 2 + (y - 0.2) ** 2 + 1 / step
        trial.report(value, model=x - y, primary_cost_s=1.0, constraint_cost_s={"gap": 1.0})


def limit(upper: float = 0.4, **options: Any) -> Constraint:
    return Constraint("gap", upper=upper, check=lambda model: model, **options)


def searched(study: Path, *max_trials: int, **options: Any) -> list[dict[str, Any]]:
    """The configurations that a study has tried, over several sessions."""
    defaults = {"space": SQUARE, "searcher": "forest", "seed": 5, "constraints": [limit()]}
    for most in max_trials:
        tune(train, study, max_trials=most, **defaults | options)
    found = rows(study, "SELECT params FROM trials ORDER BY trial, attempt")
    return [json.loads(row["params"]) for row in found]


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An earlier study, of 30 trials."""
    path = tmp_path_factory.mktemp("old") / "old.db"
    searched(path, 30, seed=1)
    return path


def learned(study: Path, goals: Goals, *files: Path, space: Any = SQUARE) -> list[Curve]:
    """The curves that a study with these goals would learn from."""
    earlier = EarlierStudies(files, goals, (), Space(space))
    description = {
        "objective": "{}",
        "constraints": "[]",
        "policy": "",
        "space": "{}",
        "settings": "{}",
        "versions": "{}",
        "code_hash": "",
        "created": 0.0,
    }
    store = Store.create(study, description)
    try:
        earlier.keep_in(store)
        return kept_curves(store)
    finally:
        store.close()


def goals_of(*limits: Constraint) -> Goals:
    return Goals(Objective("loss", "min"), limits)


# -- what is learned -----------------------------------------------------------------------------


def test_it_learns_the_curves_that_the_earlier_study_had(old: Path, tmp_path: Path) -> None:
    goals = goals_of(limit())
    store = Store.open(old)
    try:
        coordinator = StudyCoordinator(store, stopper_of(goals, acetune.ACE2(), 1))
        coordinator.load()
        expected = list(coordinator.curves.first(coordinator.curves.reports))
    finally:
        store.close()
    found = learned(tmp_path / "new.db", goals, old)
    assert found == expected and len(found) == 30
    assert sum(len(curve.checks) for curve in found) > 10
    assert {curve.ended for curve in found} == {True}


def test_other_limits_judge_anew_what_was_measured(old: Path, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    then = learned(tmp_path / "a.db", goals_of(limit(0.4)), old)
    now = learned(tmp_path / "b.db", goals_of(limit(0.8, scale=2.0)), old)
    for one, other in zip(then, now, strict=True):
        assert [step for step, _ in one.checks] == [step for step, _ in other.checks]
        for (_, (a,)), (_, (b,)) in zip(one.checks, other.checks, strict=True):
            assert 0.4 * (a + 1) == pytest.approx(2.0 * b + 0.8)


def test_of_a_constraint_that_was_left_out_nothing_is_known(tmp_path: Path) -> None:
    """By the old limit the first was violated and the second left out; by the new one it holds."""

    def two(trial: Trial) -> None:
        x = trial.params["x"]
        checks = {"a": lambda: x, "b": lambda: -1.0 if x < 0.9 else math.nan}
        costs = {"a": 0.1, "b": 5.0}
        trial.report(-x, constraints=checks, primary_cost_s=9.0, constraint_cost_s=costs)

    limits = [Constraint("a", upper=0.5), Constraint("b", upper=0.0)]
    space = {"x": acetune.uniform(0.0, 1.0)}
    xs = (0.2, 0.3, 0.55, 0.8, 0.95)
    old = tmp_path / "old.db"
    policy = acetune.ACE2(one_by_one=True)
    tune(two, old, max_trials=5, xs=xs, space=space, constraints=limits, policy=policy)
    strict = learned(tmp_path / "a.db", goals_of(*limits), old, space=space)
    measured = rows(old, "SELECT count(*) AS n FROM checks")[0]["n"]
    assert measured < 10  # some were left out
    assert all(curve.checks for curve in strict)
    loose = [Constraint("a", upper=0.7), Constraint("b", upper=0.0)]
    found = learned(tmp_path / "b.db", goals_of(*loose), old, space=space)
    assert [bool(curve.checks) for curve in found] == [True, True, False, True, True]


def test_bounds_may_differ_and_trials_outside_are_left_out(old: Path, tmp_path: Path) -> None:
    wider = SQUARE | {"x": acetune.uniform(-1.0, 2.0)}
    assert len(learned(tmp_path / "a.db", goals_of(limit()), old, space=wider)) == 30
    narrower = SQUARE | {"x": acetune.uniform(0.5, 1.0)}
    some = learned(tmp_path / "b.db", goals_of(limit()), old, space=narrower)
    inside = [p for p in searched(old, 30, seed=1) if p["x"] >= 0.5]
    assert [curve.params for curve in some] == inside and 0 < len(some) < 30
    said = Events()
    searched(tmp_path / "c.db", 2, learn_from=[old], space=narrower, callbacks=[said])
    left_out = 30 - len(some)
    text = f"learns from {len(some)} trials of old.db; {left_out} outside the space are left out"
    assert text in said.notices


def test_a_value_that_was_fixed_may_be_searched_now(tmp_path: Path) -> None:
    old = tmp_path / "old.db"
    searched(old, 15, space=SQUARE | {"y": 0.25})
    found = learned(tmp_path / "new.db", goals_of(limit()), old)
    assert {curve.params["y"] for curve in found} == {0.25} and len(found) == 15


def test_long_curves_are_thinned_to_what_counts(tmp_path: Path) -> None:
    def long(trial: Trial) -> None:
        for step in trial.steps(1000):
            trial.report(abs(step - 777) + 1.0, constraints={"gap": abs(step - 333) / 1000})

    old = tmp_path / "old.db"
    space = {"x": acetune.uniform(0.0, 1.0)}
    tune(long, old, space=space, constraints=[limit()], policy=ACE(interval=1, gate=False))
    (found,) = learned(tmp_path / "new.db", goals_of(limit()), old, space=space)
    steps = found.steps.tolist()
    assert (
        len(steps) < 140
        and len(found.checks) < 70
        and steps == sorted(set(steps))
        and steps[-1] == 1000
    )
    checked = {step for step, _ in found.checks}
    shares = np.ceil(1000 * np.array([1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4]))
    assert {733, 1, 1000} <= checked  # the first is the best that is valid
    assert checked | {777} | set(shares.tolist()) <= set(steps)
    assert found.losses.tolist() == [abs(step - 777) + 1.0 for step in steps]


# -- what is suggested ---------------------------------------------------------------------------


def test_it_begins_where_the_earlier_study_has_found_something(old: Path, tmp_path: Path) -> None:
    warm = searched(tmp_path / "warm.db", 12, learn_from=[old])
    cold = searched(tmp_path / "cold.db", 12)
    assert not {tuple(p.values()) for p in warm} & {
        tuple(p.values()) for p in searched(old, 30, seed=1)
    }

    def far(p: dict[str, Any]) -> float:
        return math.dist((p["x"], p["y"]), (0.65, 0.25))  # the best within the limit

    def valid(p: dict[str, Any]) -> bool:
        return bool(p["x"] - p["y"] <= 0.4)

    assert np.median([*map(far, warm)]) < 0.5 * np.median([*map(far, cold)])
    assert min(map(far, filter(valid, warm))) < min(map(far, filter(valid, cold)))


def test_a_resumed_study_suggests_what_an_uninterrupted_one_would_have(
    old: Path, tmp_path: Path
) -> None:
    whole = searched(tmp_path / "whole.db", 25, learn_from=[old])
    copy = tmp_path / "copy.db"
    shutil.copy(old, copy)
    in_parts = tmp_path / "in parts.db"
    searched(in_parts, 1, 9, learn_from=[str(copy)])
    copy.unlink()  # what was learned is in the study file
    searched(in_parts, 15, learn_from=[copy])
    moved = tmp_path / "moved.db"
    shutil.copy(old, moved)
    searched(in_parts, 20, learn_from=[moved])  # the same file is not learned twice
    assert searched(in_parts, 25) == whole  # nor forgotten
    assert len(rows(in_parts, "SELECT * FROM earlier_studies")) == 1


def test_several_studies_and_one_that_is_named_later(old: Path, tmp_path: Path) -> None:
    second = tmp_path / "second.db"
    searched(second, 13, learn_from=[old], seed=2)
    new = tmp_path / "new.db"
    said = Events()
    searched(new, 2, learn_from=[second], callbacks=[said])
    searched(new, 4, learn_from=[second, old], callbacks=[said])
    assert [text for text in said.notices if text.startswith("learns")] == [
        "learns from 13 trials of second.db",  # its own alone
        "learns from 30 trials of old.db",
    ]
    with reading(new) as store:
        assert len(kept_curves(store)) == 43


def test_fresh_rows_that_an_earlier_study_has_used_are_noticed(tmp_path: Path) -> None:
    asked = {"confirm": lambda model: {"gap": acetune.Estimate(model, 0.1)}, "confirm_top": 1}
    first, said = tmp_path / "first.db", Events()
    searched(first, 8, confirm_data="May", **asked)
    for rows_of in ("May", "June"):
        new = tmp_path / f"{rows_of}.db"
        learns = {"learn_from": [first], "confirm_data": rows_of}
        searched(new, 2, callbacks=[said], **asked, **learns)
        stays = [
            text for text in what_changed(acetune.load(new)) if "a study that this one" in text
        ]
        assert len(stays) == (rows_of == "May")
    # other rows later, and rows that are named only when it goes on
    new = tmp_path / "May.db"
    searched(new, 4, **asked, learn_from=[first], confirm_data="August")
    assert not [text for text in what_changed(acetune.load(new)) if "a study that this one" in text]
    late = tmp_path / "late.db"
    searched(late, 2, learn_from=[first])
    searched(late, 4, **asked, learn_from=[first], confirm_data="May")
    assert [text for text in what_changed(acetune.load(late)) if "a study that this one" in text]
    noticed = [text for text in said.notices if "rows that another study has used" in text]
    assert len(noticed) == 1 and noticed[0].startswith("first.db has looked at the fresh rows")


# -- what is refused -----------------------------------------------------------------------------


def refused(old: Path, study: Path, **options: Any) -> str:
    with pytest.raises(StudyChangedError) as error:
        searched(study, 2, learn_from=[old], **options)
    assert not study.exists()  # nothing was begun
    assert "leave the file out of learn_from=" in str(error.value)
    assert str(error.value).startswith(f"{old} cannot be learned from: its ")
    return str(error.value)


def test_a_study_that_does_not_fit_is_refused(old: Path, study: Path) -> None:
    text = refused(old, study, mode="max")
    assert "objective does not fit" in text and "mode was 'min', now 'max'" in text
    text = refused(old, study, objective="error")
    assert "name was 'loss', now 'error'" in text
    text = refused(old, study, constraints=[])
    assert "constraints do not fit" in text and "gap is gone" in text
    text = refused(old, study, constraints=[Constraint("gap", lower=0.4), Constraint("b", upper=1)])
    assert "b is new" in text and "gap: limit was <=, now >=" in text
    text = refused(old, study, space={"x": SQUARE["x"], "z": 1.0})
    assert "space does not fit" in text and "y is gone" in text and "z is new" in text
    text = refused(old, study, space=SQUARE | {"x": acetune.uniform(2.0, 3.0)})
    assert "none of its 30 trials lies in it" in text
    assert "x was uniform(0.0, 1.0), now uniform(2.0, 3.0)" in text
    text = refused(old, study, space=SQUARE | {"y": 0.5})
    assert "none of its 30 trials" in text and "y was uniform(0.0, 1.0), now 0.5" in text


def on_config(**limit: float) -> Constraint:
    return Constraint("sum", on="config", check=lambda p: p["x"] + p["y"], **limit)


def test_limits_on_the_configuration_may_not_be_tighter(tmp_path: Path, study: Path) -> None:
    old = tmp_path / "old.db"
    searched(old, 13, constraints=[limit(), on_config(upper=1.5)])
    text = refused(old, study, constraints=[limit(), on_config(upper=1.2)])
    assert "limits on the configuration do not fit" in text
    assert "sum: limit was 1.5, now tighter: 1.2" in text
    text = refused(old, study, constraints=[limit(), on_config(lower=1.2)])
    assert "sum >= 1.2 on the configuration is new" in text
    searched(tmp_path / "looser.db", 2, learn_from=[old], constraints=[limit(), on_config(upper=2)])
    searched(tmp_path / "none.db", 2, learn_from=[old])


def test_a_file_that_says_nothing_is_refused(tmp_path: Path, study: Path) -> None:
    def fails(trial: Trial) -> None:
        raise MemoryError

    empty = tmp_path / "empty.db"
    tune(fails, empty, space=SQUARE, constraints=[limit()], searcher="forest", max_trials=2)
    with pytest.raises(StudyChangedError, match="no trial has reported; leave it out"):
        searched(study, 2, learn_from=[empty])
    with pytest.raises(StudyFileError, match="there is no study file"):
        searched(study, 2, learn_from=[tmp_path / "nowhere.db"])
    assert not study.exists()


class Learns(InOrder):
    """A searcher of one's own."""

    earlier: Any = None

    def learn(self, earlier: Any) -> None:
        self.earlier = earlier


def test_other_searchers_refuse_it_unless_they_learn(old: Path, study: Path) -> None:
    for searcher in ("tpe", "random", InOrder()):
        with pytest.raises(GoalError, match="use searcher='forest', or leave learn_from= out"):
            searched(study, 2, learn_from=[old], searcher=searcher)
    with pytest.raises(GoalError, match="which InOrder does not"):
        InOrder().learn([])
    assert not study.exists()
    own: Searcher = Learns()
    space = SQUARE | {"y": acetune.uniform(0.0, 1.0)}
    with pytest.raises(AcetuneError):  # suggests x alone
        searched(study, 2, learn_from=[old], searcher=own, space=space, seed=None)
    assert len(own.earlier) == 30  # type: ignore[attr-defined]


def test_wrong_calls_are_told(old: Path, study: Path) -> None:
    with pytest.raises(GoalError, match=r'write learn_from=\["old.db"\]'):
        searched(study, 2, learn_from=str(old))
    with pytest.raises(GoalError, match="got 3 in it"):
        searched(study, 2, learn_from=[3])
    with pytest.raises(GoalError, match="is the study itself"):
        searched(study, 2, learn_from=[study])
    with pytest.raises(TypeError, match=r'learn_from=\["old.db"\]'):
        searched(study, 2, warm_start=old)


def test_a_check_that_was_another_one_is_said(tmp_path: Path) -> None:
    def gap_at(threshold: float) -> Constraint:
        return Constraint("gap", upper=0.4, check=partial(over, threshold=threshold))

    first, said = tmp_path / "first.db", Events()
    searched(first, 8, constraints=[gap_at(0.5)])
    for threshold in (0.5, 0.3):
        new = tmp_path / f"{threshold}.db"
        limits = [gap_at(threshold)]
        searched(new, 2, callbacks=[said], learn_from=[first], constraints=limits)
    noticed = [text for text in said.notices if "by another check" in text]
    assert len(noticed) == 1 and noticed[0].startswith("first.db has measured 'gap' by another")
    assert "threshold" in noticed[0] and "0.3" in noticed[0]


def over(model: float, threshold: float) -> float:
    return model * (1 - threshold)
