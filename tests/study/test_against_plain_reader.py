"""The reader of study files against a slow one in SQL: small studies of all kinds."""

from __future__ import annotations

import math
import tempfile
from dataclasses import fields
from pathlib import Path

import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

import acetune
import plain_study
from acetune.core.goals import Estimate, Goals, goals_from_json, goals_to_json
from acetune.study.best_checkpoints import incumbents
from acetune.study.findings import judge_fresh
from acetune.study.reader import StudyView
from acetune.study.store import Store
from properties import examples
from report.written import Written, goals_of, studies, write

FRESH = st.lists(
    st.tuples(st.integers(0, 30), st.floats(-3, 3), st.sampled_from(["all", "one", "none"])),
    max_size=4,
)


def judge_some(store: Store, goals: Goals, fresh: list[tuple[int, float, str]]) -> None:
    """Write what fresh data said of some checkpoints that were found valid."""
    found = store.rows("SELECT * FROM reports WHERE stratum = 'valid'")
    for place, value, which in fresh if found else ():
        row, names = found[place % len(found)], [c.name for c in goals.constraints]
        names = {"all": names, "one": names[:1], "none": []}[which]
        values = {name: Estimate(value, 0.5) for name in names}
        error = None if which == "all" else "it broke"
        with store.transaction():
            store.add_confirmation(
                row["trial"],
                row["attempt"],
                row["checked_step"],
                judge_fresh(goals, values, error),
                {name: tuple(measured) for name, measured in values.items()},
                error,
                1e9,
            )


@given(studies(), FRESH, st.floats(-4, 4))
@examples(40)
def test_the_result_is_that_of_the_file(
    study: Written, fresh: list[tuple[int, float, str]], limit: float
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.db"
        store = write(study, path)
        judge_some(store, study.goals, fresh)
        found, wanted = acetune.load(path), plain_study.read_result(store)
        for one in fields(wanted):
            if one.name != "ledger":
                assert getattr(found, one.name) == getattr(wanted, one.name), one.name
        for one in fields(wanted.ledger):
            value = getattr(wanted.ledger, one.name)
            assert getattr(found.ledger, one.name) == pytest.approx(value), one.name
        for limits in ({}, *({c.name: limit} for c in study.goals.constraints)):
            assert found.what_if(**limits) == plain_study.what_if(store, limits)
        require_same_trials(found.trials, store, study.goals)
        store.close()


def require_same_trials(frame: pandas.DataFrame, store: Store, goals: Goals) -> None:
    """The table of trials, a cell after the other; of objectives only finite ones count."""
    rows = store.rows(plain_study.TRIALS[goals.objective.mode])
    measured = plain_study.measured_of_trials(store, goals)
    assert len(frame) == len(rows)
    for row in rows:
        found = frame.loc[row["trial"]]
        row.pop("params")
        row["reason"] = plain_study.in_words(store, row["reason"], row.pop("reason_numbers"))
        for name in ("best_objective", "best_valid_objective"):
            if row[name] is not None and not math.isfinite(row[name]):
                row.pop(name)
        for name, wanted in (row | measured.get(row["trial"], {})).items():
            value = row["trial"] if name == "trial" else found[name]
            if wanted is None:
                assert pandas.isna(value), name
            elif isinstance(wanted, float):
                assert value == pytest.approx(wanted), name
            else:
                assert value == wanted, name


@given(studies())
@examples(40)
def test_what_was_best_over_time_is_that_of_the_file(study: Written) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = write(study, Path(folder) / "study.db")
        wanted: list[tuple[int, float]] = []
        for row in store.rows(
            "SELECT seq, checked_objective AS value FROM reports WHERE stratum = 'valid' "
            "AND checked_objective BETWEEN -1e308 AND 1e308 ORDER BY seq"
        ):
            loss = study.goals.objective.loss(row["value"])
            if not wanted or loss < wanted[-1][1]:
                wanted.append((row["seq"], loss))
        view = StudyView(Path(folder) / "study.db")
        assert view.reports.seq[incumbents(view)].tolist() == [seq for seq, _ in wanted]
        store.close()


@given(goals_of())
def test_goals_are_the_same_after_a_file(goals: Goals) -> None:
    assert goals_from_json(*goals_to_json(goals)) == goals
