"""A study file as columns: they hold what the file holds, also while it grows."""

from __future__ import annotations

import json
import math
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from acetune.core.errors import StudyFileError
from acetune.core.goals import Constraint, Estimate, FailedCheck, Goals, Objective
from acetune.core.reason import LAST_STEP
from acetune.study.reader import StudyView
from acetune.study.report_arrays import DECISIONS, KINDS, STRATA
from acetune.study.store import Store
from acetune.trial.artifacts import kept_name
from properties import examples
from report.written import Attempt, Check, Written, studies, write, write_attempt

GOALS = Goals(Objective("loss"), (Constraint("g", upper=0.2), Constraint("a", lower=0.0)))
FINE: Check = {"g": Estimate(0.1, 0.01), "a": Estimate(1.0)}
BROKEN: Check = {"g": Estimate(0.5), "a": FailedCheck("no number")}
SMALL = Written(
    GOALS,
    [
        [Attempt([(3.0, None), (math.nan, None)], None, "failed", 0),
         Attempt([(2.0, FINE), (math.inf, BROKEN)], ("end", 1, FINE), "finished", 1)],
        [Attempt([(1.0, None), (0.5, None)], ("after", 1, BROKEN), "stopped", 0)],
    ],
)  # fmt: skip


def file_rows(path: Path, sql: str) -> list[dict[str, Any]]:
    """Rows of the file, by another way than the view's."""
    db = sqlite3.connect(path)
    db.row_factory = sqlite3.Row
    found = [dict(row) for row in db.execute(sql)]
    db.close()
    return found


def require_same_as_file(view: StudyView) -> None:
    """Every column holds what the file holds."""
    reports = view.reports
    rows = file_rows(view.path, "SELECT * FROM reports ORDER BY seq")
    assert len(reports) == len(rows)
    words = {"kind": KINDS, "stratum": STRATA, "decision": DECISIONS}
    for name in rows[0] if rows else ():
        if name in ("rank", "of", "metrics"):
            continue
        column = getattr(reports, name)
        assert not column.flags.writeable
        if name in words:
            assert [words[name][code] for code in column] == [row[name] for row in rows]
            continue
        unknown = 0 if name == "checked_step" else math.nan
        wanted = [unknown if row[name] is None else row[name] for row in rows]
        np.testing.assert_array_equal(column, wanted, err_msg=name)
    names = [constraint.name for constraint in view.goals.constraints]
    wanted_checks = {
        (row["seq"], names.index(row["constraint"])): [
            math.nan if row[name] is None else row[name] for name in ("value", "stderr", "cost_s")
        ]
        for row in file_rows(view.path, "SELECT * FROM checks")
    }
    checks = view.checks
    keys = list(zip(checks.seq.tolist(), checks.constraint.tolist(), strict=True))
    assert sorted(keys) == sorted(wanted_checks)
    for place, key in enumerate(keys):
        found = [float(c[place]) for c in (checks.value, checks.stderr, checks.cost_s)]
        np.testing.assert_array_equal(found, wanted_checks[key])
    np.testing.assert_array_equal(reports.seq[checks.row], checks.seq)
    latest = {row["trial"]: row for row in file_rows(
        view.path, "SELECT * FROM trials ORDER BY trial, attempt")}  # fmt: skip
    assert [t.trial for t in view.trials] == list(latest)
    for trial in view.trials:
        row = latest[trial.trial]
        for name in set(trial._fields) - {"params", "reason", "schedule"}:
            assert getattr(trial, name) == row[name]
        for name in ("reason", "schedule"):
            found = getattr(trial, name)
            assert (found.code, dict(found.numbers)) == (
                row[name],
                json.loads(row[f"{name}_numbers"]),
            )
    wanted_latest = [row["attempt"] == latest[row["trial"]]["attempt"] for row in rows]
    assert view.is_latest.tolist() == wanted_latest


@given(studies())
@examples(30)
def test_columns_hold_what_the_file_holds(study: Written) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(study, Path(folder) / "study.db").close()
        with StudyView(Path(folder) / "study.db") as view:
            require_same_as_file(view)


def test_attempts_and_late_checks(study: Path) -> None:
    write(SMALL, study).close()
    view = StudyView(study)

    require_same_as_file(view)
    assert len(view.reports) == 8 and len(view.checks) == 8
    assert [KINDS[kind] for kind in view.reports.kind].count("after") == 1
    assert [(t.trial, t.attempt, t.resumed_from, t.state) for t in view.trials] == [
        (1, 2, 1, "finished"),
        (2, 1, 0, "stopped"),
    ]
    assert view.params(1) == {"x": 1 / 7, "k<i>": "a"}
    assert view.info["policy"]["name"] == "ACE" and view.goals == GOALS
    assert view.startup_s == 0.75 and view.disk_bytes == 30
    files = study.with_name("study.db.files")
    assert view.models[1, 2, 2].folder == files / kept_name(1, 2, 2, "model")


def test_it_grows_with_the_file(study: Path) -> None:
    store = write(SMALL, study)
    view = StudyView(study)
    before = view.reports
    assert view.refresh() is False and view.refresh() is False

    write_attempt(store, GOALS, 3, 1, Attempt([(0.25, FINE)] * 3, None, "running", 0))
    assert view.refresh() is True
    require_same_as_file(view)
    assert len(before) == 8 and len(before.time) == 8  # what was handed out stays as it was
    assert view.trials[-1].state == "running"

    with store.transaction():
        store.end_trial(3, 1, "finished", LAST_STEP, 2e9)
        store.end_session(1, LAST_STEP)
    assert view.refresh() is True
    assert view.trials[-1].state == "finished" and view.sessions[-1]["ended"]
    assert view.refresh() is False
    store.close()
    require_same_as_file(view)


def test_every_commit_is_seen_however_fast_they_follow(study: Path) -> None:
    store = write(Written(GOALS, []), study)
    view = StudyView(study)
    for number in range(1, 60):
        write_attempt(store, GOALS, number, 1, Attempt([(1.0, FINE)], None, "running", 0))
        if number % 3 == 0:
            view.refresh()
    view.refresh()
    view.refresh()
    assert len(view.reports) == len(view.trials) == 59
    store.close()


def test_numbers_with_gaps_are_found(study: Path) -> None:
    write(SMALL, study).close()
    db = sqlite3.connect(study)
    db.execute("DELETE FROM reports WHERE seq = 2")
    db.commit()
    db.close()
    view = StudyView(study)
    assert view.reports.seq.tolist() == [1, 3, 4, 5, 6, 7, 8]
    require_same_as_file(view)


def test_running_is_whether_the_lock_is_held(study: Path) -> None:
    store = write(SMALL, study)
    view = StudyView(study)
    states = [view.running]
    store.close()
    assert view.refresh() is True
    states.append(view.running)
    for _ in range(3):
        again = Store.open(study)  # looking did not keep the lock
        assert view.refresh() is True
        states.append(view.running)
        again.close()
        assert view.refresh() is True and view.refresh() is False
        states.append(view.running)
    assert states == [True, False] * 4


def test_a_driver_can_start_while_somebody_keeps_looking(study: Path) -> None:
    write(SMALL, study).close()
    views = [StudyView(study) for _ in range(3)]
    for _ in range(20):
        for view in views:
            view.refresh()
        Store.open(study).close()


def test_the_file_is_left_to_the_driver_to_tidy(study: Path) -> None:
    store = write(SMALL, study)
    view = StudyView(study)
    store.close()
    assert not study.with_name("study.db-wal").exists()  # the driver was the last to close it
    assert view.refresh() is True and len(view.reports) == 8


def test_a_link_shows_what_it_leads_to(study: Path, tmp_path: Path) -> None:
    store = write(SMALL, study)
    link = tmp_path / "elsewhere" / "latest.db"
    link.parent.mkdir()
    link.symlink_to(study)
    view = StudyView(link)
    while view.refresh():  # until it has settled: from here on only the file's log grows
        pass
    running = [view.running]
    write_attempt(store, GOALS, 3, 1, Attempt([(0.25, FINE)], None, "finished", 0))
    assert view.refresh() is True and len(view.reports) == 9
    assert view.models[3, 1, 1].folder == store.files / kept_name(3, 1, 1, "model")
    store.close()
    assert view.refresh() is True
    assert [*running, view.running] == [True, False]
    other = study.with_name("other.db")
    write(SMALL, other).close()
    link.unlink()
    link.symlink_to(other)
    with pytest.raises(StudyFileError, match="was replaced"):
        view.refresh()


def test_a_file_that_is_gone_or_another_is_said(study: Path) -> None:
    write(SMALL, study).close()
    view = StudyView(study)
    study.rename(study.with_name("moved.db"))
    with pytest.raises(StudyFileError, match=r"no study file .*study.db any more"):
        view.refresh()
    write(SMALL, study.with_name("other.db")).close()
    study.with_name("other.db").rename(study)
    with pytest.raises(StudyFileError, match="was replaced"):
        view.refresh()


def test_what_is_no_study_file_is_refused(study: Path) -> None:
    with pytest.raises(StudyFileError, match="there is no study file"):
        StudyView(study)
    study.write_bytes(b"not a database" * 20)
    with pytest.raises(StudyFileError, match="is not a study file"):
        StudyView(study)


def test_an_unknown_word_in_the_file_is_damage(study: Path) -> None:
    write(SMALL, study).close()
    db = sqlite3.connect(study)
    db.execute("UPDATE reports SET decision = 'perhaps' WHERE seq = 3")
    db.commit()
    db.close()
    with pytest.raises(StudyFileError, match="damaged"):
        StudyView(study)


def test_a_study_without_trials(study: Path) -> None:
    store = write(Written(GOALS, []), study)
    view = StudyView(study)
    assert len(view.reports) == len(view.checks) == len(view.trials) == 0
    assert view.reports.step.tolist() == view.is_latest.tolist() == []
    store.close()
    view.close()
