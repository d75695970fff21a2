"""The slider's breakpoints answer for every limit as ``StudyResult.what_if`` does."""

from __future__ import annotations

import math
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import acetune
from acetune.core.goals import Constraint, Estimate, Goals, Objective
from acetune.report._breakpoints import NOTE, breakpoints
from acetune.study.findings import judge_fresh
from acetune.study.reader import StudyView
from properties import examples
from report.written import Attempt, Written, studies, write, write_attempt


def answer_at(item: dict[str, Any], limit: float) -> dict[str, Any]:
    """The answer at a limit, looked up as the page does."""
    found: dict[str, Any] = {}
    for point in item["breakpoints"]:
        allowed = point["limit"] is None or (
            point["limit"] <= limit if item["sense"] == "<=" else point["limit"] >= limit
        )
        if not allowed:
            break
        found = point
    return found


def limits_to_try(item: dict[str, Any]) -> list[float]:
    """At every breakpoint, just before and after it, between them, beyond them, and the limit."""
    at = sorted(point["limit"] for point in item["breakpoints"][1:])
    near = [math.nextafter(limit, way) for limit in at for way in (-math.inf, math.inf)]
    between = [(a + b) / 2 for a, b in pairwise(at)]
    return [item["limit"], item["low"], item["high"], -1e12, 1e12, *at, *near, *between]


def require_same_as_result(view: StudyView) -> None:
    """The breakpoints give what the result gives, whatever the limit."""
    result = acetune.load(view.path)
    items = breakpoints(view)
    assert [item["constraint"] for item in items] == [c.name for c in view.goals.constraints]
    for item in items:
        name = item["constraint"]
        for limit in sorted(set(limits_to_try(item))):
            wanted = result.what_if(**{name: limit})
            found = answer_at(item, limit)
            assert found["unchecked_better"] == wanted.unchecked_better
            if wanted.best is None:
                assert found["value"] is found["trial"] is found["limit"] is None
                continue
            best = wanted.best
            assert (found["value"], found["trial"], found["step"]) == (
                best.value,
                best.trial,
                best.step,
            )
            assert Estimate(found["constraint_value"], found["stderr"]) == best.constraints[name]


@given(studies())
@examples(25)
def test_at_between_and_beyond_every_breakpoint(study: Written) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.db"
        write(study, path).close()
        with StudyView(path) as view:
            require_same_as_result(view)


@given(studies())
@examples(12)
def test_a_study_that_grows_gives_the_same(study: Written) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.db"
        store = write(Written(study.goals, []), path)
        view = StudyView(path)
        attempts = [
            (number, trial, attempt)
            for trial, its in enumerate(study.trials, 1)
            for number, attempt in enumerate(its, 1)
        ]
        # all first attempts, then the second ones, which replace them
        for number, trial, attempt in sorted(attempts, key=lambda each: each[:2]):
            write_attempt(store, study.goals, trial, number, attempt)
            view.refresh()
            breakpoints(view)
        require_same_as_result(view)
        store.close()


FRESH = st.lists(
    st.tuples(st.integers(0, 30), st.floats(-3, 3), st.sampled_from(["all", "one", "none"])),
    max_size=4,
)


@given(studies(), FRESH)
@examples(25)
def test_what_was_judged_on_fresh_data_must_keep_the_limit_there(
    study: Written, fresh: list[tuple[int, float, str]]
) -> None:
    """Also where the verdict comes after the breakpoints were known."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.db"
        store = write(study, path)
        with StudyView(path) as view:
            breakpoints(view)
            found = store.rows("SELECT * FROM reports WHERE stratum != 'unchecked'")
            for place, value, which in fresh if found else ():
                row = found[place % len(found)]
                names = [c.name for c in study.goals.constraints]
                names = {"all": names, "one": names[:1], "none": []}[which]
                values = dict.fromkeys(names, (value, 0.5))
                where = row["trial"], row["attempt"], row["checked_step"]
                with store.transaction():
                    error = None if which == "all" else "it broke"
                    status = judge_fresh(
                        study.goals, {n: Estimate(*v) for n, v in values.items()}, error
                    )
                    store.add_confirmation(*where, status, values, error, 1e9)
                view.refresh()
                require_same_as_result(view)
        store.close()


def test_what_fresh_data_rejected_counts_from_its_values_on(study: Path) -> None:
    goals = Goals(Objective("auc", "max"), (Constraint("gap", upper=0.2),))
    reports: list[tuple[float, Any]] = [
        (0.5, {"gap": Estimate(0.1)}), (0.9, {"gap": Estimate(0.15)})
    ]  # fmt: skip
    store = write(Written(goals, [[Attempt(reports, None, "finished", 0)]]), study)
    with store.transaction():
        store.add_confirmation(1, 1, 2, "broken", {"gap": (0.3, 0.0)}, None, 1e9)
    store.close()

    (gap,) = breakpoints(StudyView(study))
    points = [(p["limit"], p["value"]) for p in gap["breakpoints"]]
    assert points == [(None, None), (0.1, 0.5), (0.3, 0.9)]
    result = acetune.load(study)
    here, looser = result.what_if(gap=0.2), result.what_if(gap=0.3)
    assert here.best is not None and (here.best.value, here.rejected_better) == (0.5, 1)
    assert str(here) == (
        "gap at 0.2: 0.5 (trial 1, step 1 of 10); left out: 1 better checkpoint that breaks a "
        "limit on fresh data, where this one was not judged; nothing better unchecked"
    )
    assert looser.best is not None and (looser.best.value, looser.rejected_better) == (0.9, 0)
    assert looser.best.status == "holds" and "fresh" not in str(looser)
    nothing = result.what_if(gap=0.01)
    assert nothing.best is None and nothing.rejected_better == 0


def test_breakpoints_by_hand(study: Path) -> None:
    goals = Goals(
        Objective("auc", "max"),
        (Constraint("gap", upper=0.2, margin_se=2.0), Constraint("recall", lower=0.5)),
    )

    def check(gap: float, stderr: float, recall: float) -> dict[str, Any]:
        return {"gap": Estimate(gap, stderr), "recall": Estimate(recall)}

    reports = [
        (0.5, check(0.125, 0.0, 0.5)),
        (0.9, check(0.0625, 0.0, 0.25)),  # breaks the other limit: never an answer here
        (0.7, check(0.125, 0.0625, 0.75)),  # qualifies from 0.25 on, its margin included
        (0.6, check(0.375, 0.0, 0.75)),  # qualifies later and is no better
        (0.8, None),
    ]
    write(Written(goals, [[Attempt(reports, None, "finished", 0)]]), study).close()

    gap, recall = breakpoints(StudyView(study))
    assert [(p["limit"], p["value"], p["unchecked_better"]) for p in gap["breakpoints"]] == [
        (None, None, 1),
        (0.125, 0.5, 1),
        (0.25, 0.7, 1),
    ]
    assert (gap["sense"], gap["limit"], gap["note"]) == ("<=", 0.2, NOTE)
    assert gap["low"] < 0.125 and gap["high"] > 0.25 and "fresh data" in NOTE
    assert [(p["limit"], p["value"], p["unchecked_better"]) for p in recall["breakpoints"]] == [
        (None, None, 1),
        (0.5, 0.5, 1),
        (0.25, 0.9, 0),
    ]
    assert recall["sense"] == ">=" and recall["low"] < 0.25 and recall["high"] > 0.5


def test_the_slider_ends_where_numbers_do(study: Path) -> None:
    goals = Goals(Objective("loss"), (Constraint("g", upper=1.0),))
    reports: list[tuple[float, Any]] = [(2.0, {"g": Estimate(-1.7e308)})]
    reports += [(1.0, {"g": Estimate(1.7e308)})]
    write(Written(goals, [[Attempt(reports, None, "finished", 0)]]), study).close()
    (item,) = breakpoints(StudyView(study))
    assert math.isfinite(item["low"]) and math.isfinite(item["high"])


def test_without_constraints_there_is_nothing_to_slide(study: Path) -> None:
    goals = Goals(Objective("loss"))
    write(Written(goals, [[Attempt([(1.0, None)], None, "finished", 0)]]), study).close()
    assert breakpoints(StudyView(study)) == []


def test_what_was_measured_under_one_limit_only(study: Path) -> None:
    """It may qualify where that one is looser, and is counted from there on."""
    goals = Goals(
        Objective("auc", "max"), (Constraint("gap", upper=0.2), Constraint("recall", lower=0.5))
    )
    values = [
        (0.5, {"gap": 0.1, "recall": 0.5}),
        (0.8, {"gap": 0.3}),
        (0.9, {"gap": 0.5}),
        (0.7, {"gap": 0.4, "recall": 0.6}),
        (0.6, {"recall": 0.25}),
        (0.95, {"gap": 0.1, "recall": 0.1}),
    ]
    reports = [(auc, {name: Estimate(v) for name, v in found.items()}) for auc, found in values]
    write(Written(goals, [[Attempt(reports, None, "finished", 0)]]), study).close()
    gap, recall = breakpoints(StudyView(study))
    keys = ("limit", "value", "unchecked_better", "unchecked_looser")
    assert [tuple(p[key] for key in keys) for p in gap["breakpoints"]] == [
        (None, None, 0, 0),
        (0.1, 0.5, 0, 1),  # 0.8, from 0.3 on
        (0.4, 0.7, 1, 2),  # and 0.9, from 0.5 on
    ]
    assert [tuple(p[key] for key in keys) for p in recall["breakpoints"]] == [
        (None, None, 0, 0),
        (0.5, 0.5, 0, 1),  # 0.6, from 0.25 on
        (0.1, 0.95, 0, 0),
    ]
    result = acetune.load(study)
    assert result.what_if(gap=0.2).unchecked_better == 0
    assert result.what_if(gap=0.35).unchecked_better == 1
    assert result.what_if(gap=1.0).unchecked_better == 2
    assert result.what_if(recall=0.3).unchecked_better == 0
    assert result.what_if(recall=0.2).unchecked_better == 1
    assert result.what_if(gap=1.0, recall=0.0).unchecked_better == 0  # 0.95 is better than all
