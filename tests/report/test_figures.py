"""The figures of a study: small, valid, sensible for every study, and true to the study file."""

from __future__ import annotations

import html
import json
import math
import sqlite3
import sys
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given

import acetune
from acetune.core.cost import interval_threshold
from acetune.core.errors import GoalError, StudyError
from acetune.core.goals import Constraint, Estimate, Goals, Objective
from acetune.core.reason import LAST_STEP
from acetune.report import figures
from acetune.report._breakpoints import breakpoints
from acetune.report.figures import (
    FIGURES,
    Drawing,
    FigureData,
    chosen_trials,
    drawings,
    page_figures,
    trial_figure,
)
from acetune.report.figures import _look as look
from acetune.report.figures._curves import curves
from acetune.report.figures._importance import chance_level, columns, effects
from acetune.report.figures._time import saved_by_stopping
from acetune.study.reader import StudyView
from properties import examples
from report.written import Attempt, Written, studies, write
from synthetic_study import HOSTILE, make_study

IDS = ["progress", "tradeoff", "what_if", "curves", "time", "reasons", "strata", "importance",
       "intervals"]  # fmt: skip
G = Goals(Objective("loss", "min"), (Constraint("g", upper=2.0),))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> StudyView:
    """A study with more of everything than a figure shows."""
    path = tmp_path_factory.mktemp("large") / "study.db"
    return StudyView(make_study(path, trials=1500, reports=60_000, constraints=3, running=3))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> StudyView:
    path = tmp_path_factory.mktemp("hostile") / "study.db"
    return StudyView(make_study(path, trials=60, reports=1500, constraints=2, hostile=True))


def attempt(*reports: tuple[float, float | None], state: str = "finished") -> Attempt:
    """An attempt from pairs of objective and value of g, None where it was not checked."""
    rows = [(loss, None if g is None else {"g": Estimate(g, 0.0)}) for loss, g in reports]
    return Attempt(rows, None, state, 0)  # type: ignore[arg-type]


def view_of(study: Written) -> StudyView:
    folder = tempfile.TemporaryDirectory()
    write(study, Path(folder.name) / "study.db").close()
    view = StudyView(Path(folder.name) / "study.db")
    weakref.finalize(view, folder.cleanup)  # notes beside values are read when they are asked for
    return view


def digest_of(*trials: Attempt, goals: Goals = G) -> FigureData:
    return FigureData(view_of(Written(goals, [[one] for one in trials])))


def drawn(view: StudyView, id: str) -> Drawing:
    return drawings(view, [id])[0]


def traces(drawing: Drawing) -> dict[str, dict[str, Any]]:
    """Traces by name; of several panels the first."""
    found: dict[str, dict[str, Any]] = {}
    for trace in drawing.data:
        found.setdefault(trace["name"], trace)
    return found


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from strings(key)
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


# -- every study ---------------------------------------------------------------------------------


def require_sensible(view: StudyView) -> None:
    found = drawings(view)
    assert [drawing.id for drawing in found] == IDS == list(FIGURES)
    for drawing in found:
        json.dumps(drawing.as_json(), allow_nan=False)
        assert drawing.title and drawing.alt.endswith(".") and drawing.caption.endswith(".")
        assert drawing.figure.layout.title.text == f"<b>{drawing.title}</b>"  # Plotly takes it
        if not drawing.data:
            (words,) = drawing.layout["annotations"]
            assert html.unescape(words["text"].replace("<br>", " ")) == drawing.alt
        if drawing.table is not None:
            assert {len(row) for row in drawing.table.rows} <= {len(drawing.table.columns)}
        for axis in (v for k, v in drawing.layout.items() if k[1:5] == "axis"):
            low, high = axis.get("range", (0, 1))
            assert math.isfinite(low) and math.isfinite(high) and low < high


_TINY = Written(
    Goals(Objective("loss", "min"), ()),
    [[Attempt([(math.nan, None), (1e-9, None)], None, "running", 0)]],
)


@given(study=studies())
@example(study=_TINY)  # infinity on an axis that is far shorter than 1
@examples(40)
def test_every_study_has_figures_that_say_something(study: Written) -> None:
    require_sensible(view_of(study))


@pytest.mark.parametrize("constraints", [0, 1, 3])
@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("feasible", [True, False])
def test_synthetic_studies(tmp_path: Path, constraints: int, mode: Any, feasible: bool) -> None:
    path = make_study(tmp_path / "study.db", trials=60, reports=900, constraints=constraints,
                      mode=mode, feasible=feasible)  # fmt: skip
    view = StudyView(path)
    require_sensible(view)
    empty = {drawing.id for drawing in drawings(view) if not drawing.data}
    if constraints == 0:
        assert empty == {"tradeoff", "what_if", "intervals"}
    elif feasible or constraints == 1:
        assert not empty
    else:
        assert empty == {"what_if"}  # every checkpoint breaks several limits


def test_an_empty_study_says_so() -> None:
    view = view_of(Written(G, []))
    for drawing in drawings(view):
        assert not drawing.data and drawing.alt.startswith("No ")


def test_objectives_that_are_no_numbers() -> None:
    digest = digest_of(attempt((math.nan, None), (math.inf, None), state="stopped"))
    assert figures.FIGURES["progress"](digest).alt == "No report with a finite loss yet."
    curves = figures.curves(digest)
    assert "trial 1 (stopped, unchecked) stopped at step 2 with infinite" in curves.alt
    require_sensible(digest.view)


@pytest.mark.parametrize("mode", ["min", "max"])
def test_numbers_that_are_hardly_any(mode: Any) -> None:
    most = sys.float_info.max
    goals = Goals(Objective("loss", mode), (Constraint("g", upper=2.0, margin_se=1.0),))
    huge = [most, -most, 1.7e308, 1.0, 5e-324, -1.7e308]
    for values in (huge, [most] * 3, [5e-324, 0.0]):
        some = [attempt(*[(v, g) for v, g in zip(values, values[::-1], strict=True)])] * 2
        view = view_of(Written(goals, [[one] for one in some]))
        view.trials[:] = [row._replace(cost_ratio=most) for row in view.trials]
        require_sensible(view)


def test_figures_are_the_same_every_time(large: StudyView) -> None:
    assert page_figures(large) == page_figures(StudyView(large.path))


# -- size and safety -----------------------------------------------------------------------------


def test_figures_stay_small(large: StudyView) -> None:
    sizes = {f["id"]: len(json.dumps(f)) for f in page_figures(large)}
    assert max(sizes.values()) < 60_000, sizes
    assert sum(sizes.values()) < 400_000, sizes


def test_what_was_left_out_is_said(large: StudyView) -> None:
    digest = FigureData(large)
    tradeoff = FIGURES["tradeoff"](digest)
    measured = len(digest.measured.rows)
    shown = sum(
        len(t["x"])
        for t in tradeoff.data
        if t["name"] in ("valid", "invalid") and t["xaxis"] == "x"
    )
    assert shown < measured and f"{shown:,} of {measured:,} checked checkpoints" in tradeoff.caption
    assert "of 1,500 trials are shown" in FIGURES["curves"](digest).caption
    intervals = FIGURES["intervals"](digest)
    shown = sum(len(t["x"]) for t in intervals.data if t["name"].startswith("checked"))
    known = sum(row.cost_ratio is not None for row in large.trials)
    assert f"{shown:,} of {known:,} trials are shown" in intervals.caption


def test_hostile_words_are_shown_and_not_run(hostile: StudyView) -> None:
    seen = 0
    for drawing in drawings(hostile):
        for text in strings([drawing.data, drawing.layout]):
            assert len(text) < 400
            plain = text
            for tag in ("<br>", "<b>", "</b>", "<i>", "</i>", "<extra>", "</extra>"):
                plain = plain.replace(tag, "")
            assert "<" not in plain.replace("<=", ""), text  # of ours there are only those tags
            seen += "&lt;script&gt;" in text
    assert seen >= 4  # objective, constraint, reason, parameter
    assert HOSTILE[:20] in drawn(hostile, "progress").alt  # words are plain text for the page


def contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))

    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def test_colours_read_on_white_and_on_near_black() -> None:
    for colour in (*look.STRATUM_COLOURS, look.BEST_OF_ALL, look.ANSWER, look.NEUTRAL):
        assert contrast(colour, "#ffffff") >= 3 and contrast(colour, "#14171a") >= 3


# -- what they show ------------------------------------------------------------------------------


@given(study=studies())
@examples(40)
def test_the_answer_is_that_of_the_study(study: Written) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.db"
        write(study, path).close()
        result, digest = acetune.load(path), FigureData(StudyView(path))
        answer = digest.answer
    found = None if answer is None else (answer.trial, answer.attempt, answer.step, answer.value)
    best = result.best
    wanted = None if best is None else (best.trial, best.attempt, best.step, best.value)
    assert found == wanted


def test_progress_goes_down_the_stairs() -> None:
    digest = digest_of(attempt((9, 1), (3, 9), (7, 1), (5, None), (4, 2), (2, 9)))
    lines = traces(FIGURES["progress"](digest))
    # the reports come a second after one another, in a session of 12 s
    assert lines["best feasible"]["x"] == [1, 3, 5, 12]
    assert lines["best feasible"]["y"] == [9, 7, 4, 4]
    assert lines["best of all"]["x"] == [1, 2, 6, 12]
    assert lines["best of all"]["y"] == [9, 3, 2, 2]
    assert lines["the answer"]["x"] == [5] and lines["the answer"]["y"] == [4]
    assert "best feasible loss 4 found after 5 s of 12 s" in FIGURES["progress"](digest).alt


def test_progress_knows_the_same_checkpoints_as_the_answer() -> None:
    digest = digest_of(attempt((9, 1), (-1.5e308, 1), (4, 1)))  # too large to be an answer
    lines = traces(FIGURES["progress"](digest))
    assert digest.answer is not None and digest.answer.value == 4
    assert lines["best feasible"]["x"] == [1, 3, 12]


def test_progress_in_numbers_is_not_thinned() -> None:
    # better by one a second for 1000 seconds, with some that are invalid
    digest = digest_of(attempt(*[(2000.0 - i, 1.0 + 8 * (i % 3 == 0)) for i in range(1, 1001)]))
    drawing = FIGURES["progress"](digest)
    assert len(traces(drawing)["best of all"]["x"]) == 401 and "400 are shown" in drawing.caption
    assert drawing.table is not None
    assert [row[1:] for row in drawing.table.rows] == [
        ["1900", "1900"], ["1750", "1750"], ["1500", "1500"], ["1251", "1250"], ["1000", "1000"],
    ]  # fmt: skip


def test_the_front_is_what_nothing_beats(large: StudyView) -> None:
    digest = FigureData(large)
    measured = digest.measured
    tradeoff = FIGURES["tradeoff"](digest)
    for panel, constraint in enumerate(large.goals.constraints):
        key = "" if panel == 0 else str(panel + 1)
        front, valid = (
            next(t for t in tradeoff.data if t["name"] == n and t["xaxis"] == f"x{key}")
            for n in ("Pareto front", "valid")
        )
        values = measured.values[:, panel] * (1 if constraint.lower is None else -1)
        beaten = [
            bool(
                np.any((values <= v) & (measured.loss <= x) & ((values < v) | (measured.loss < x)))
            )
            for v, x in zip(values[::7], measured.loss[::7], strict=True)
        ]
        on_front = {round(float(v), 2) for v in front["y"]}
        for loss, is_beaten in zip(measured.loss[::7], beaten, strict=True):
            assert is_beaten or round(-float(loss), 2) in on_front
        line = next(s for s in tradeoff.layout["shapes"]
                    if s["type"] == "line" and s["xref"] == f"x{key}")  # fmt: skip
        assert line["x0"] == line["x1"] == constraint.limit
        # the answer and its rivals are never left out
        kept = {tuple(place) for place in valid["customdata"]}
        assert {(c.trial, c.step) for c in digest.candidates[:5]} <= kept


def test_time_goes_on_with_the_session_and_not_while_the_machine_sleeps(tmp_path: Path) -> None:
    store = write(Written(G, [[attempt((3.0, 1.0), (2.0, 1.0))]]), tmp_path / "study.db")
    with store.transaction():
        store.end_session(1, LAST_STEP)
    store.close()
    with sqlite3.connect(tmp_path / "study.db") as db:
        db.execute("UPDATE reports SET time = time + 50000 WHERE step = 2")
    db.close()
    digest = FigureData(StudyView(tmp_path / "study.db"))
    assert digest.elapsed.tolist() == [1.0, 12.0] and digest.end == 12.0


def test_the_slider_and_the_figure_show_the_same_limits(tmp_path: Path) -> None:
    path = make_study(tmp_path / "study.db", trials=80, reports=1500, constraints=2)
    view = StudyView(path)
    drawing = drawn(view, "what_if")
    for panel, item in enumerate(breakpoints(view)):
        for key in (2 * panel + 1, 2 * panel + 2):
            axis = drawing.layout[f"xaxis{'' if key == 1 else key}"]
            assert axis["range"] == [item["low"], item["high"]]
        assert item["low"] >= 0  # as all values are
        positions = (item["high"] - item["low"]) / item["step"]
        assert positions == pytest.approx(round(positions)) and 70 < positions < 220
    assert "band" in drawing.caption
    exact = digest_of(attempt((3.0, 1.0), (2.0, 3.0)))
    assert "band" not in FIGURES["what_if"](exact).caption


def test_a_star_stands_at_the_step_of_the_answer() -> None:
    late = Attempt([(5.0, None), (3.0, None), (4.0, None)], ("end", 2, {"g": Estimate(1.0)}),
                   "finished", 0)  # fmt: skip
    digest = digest_of(attempt((9.0, 1.0), (8.0, 1.5), (7.0, 4.0)), late)
    for trials in (None, [2]):
        drawing = curves(digest, trials)
        found = [t for t in drawing.data if t["name"] == "the answer"]
        assert [(t["x"], t["y"], t["yaxis"]) for t in found] == [
            ([2], [3.0], "y"),
            ([2], [1.0], "y2"),
        ]
        diamonds = [t for t in drawing.data if t["name"] == "checked at the end"]
        assert [(t["x"], t["y"]) for t in diamonds] == [([2], [3.0]), ([2], [1.0])]
        assert "star is the answer" in drawing.caption and "diamond" in drawing.caption
    assert all(t["name"] != "the answer" for t in curves(digest, [1]).data)


def test_what_if_equals_the_result_at_every_step(tmp_path: Path) -> None:
    path = make_study(tmp_path / "study.db", trials=80, reports=1500, constraints=1)
    result = acetune.load(path)
    line = traces(drawn(StudyView(path), "what_if"))
    stairs, unchecked = line["best under this limit"], line["unchecked, better"]
    assert len(stairs["x"]) > 3
    for i, limit in enumerate(stairs["x"][:-1]):
        wanted = result.what_if(gap=limit + 1e-4)  # beyond what was rounded off
        assert wanted.best is not None
        if i + 2 < len(stairs["x"]) and stairs["x"][i + 1] - limit < 3e-4:
            continue  # the next step is nearer than that
        assert stairs["y"][i] == pytest.approx(wanted.best.value, abs=1e-4)
        assert unchecked["y"][i] == wanted.unchecked_better


def test_the_band_holds_the_staircase(tmp_path: Path) -> None:
    path = make_study(tmp_path / "study.db", trials=80, reports=1500, constraints=1)
    drawing = drawn(StudyView(path), "what_if")
    worse, better, best = drawing.data[:3]
    assert better["fill"] == "tonexty"

    def at(line: dict[str, Any], limit: float) -> float:
        return max((y for x, y in zip(line["x"], line["y"], strict=True) if x <= limit),
                   default=-math.inf)  # fmt: skip

    for limit in best["x"][1:]:
        assert at(worse, limit) <= at(best, limit) + 1e-3
        assert at(best, limit) <= at(better, limit) + 1e-3


# -- curves --------------------------------------------------------------------------------------


def test_trials_are_chosen_for_a_reason(large: StudyView) -> None:
    digest = FigureData(large)
    chosen = chosen_trials(digest)
    assert digest.answer is not None
    assert chosen[digest.answer.trial] == "holds the answer"
    words = set(chosen.values())
    assert {"just over a limit", "best but invalid", "running", "stopped, unchecked"} <= words
    for trial, why in chosen.items():
        state = digest.rows[trial].state
        assert why.split(",")[0] not in ("running", "stopped") or why.startswith(state)


def test_curves_break_where_the_stratum_changes() -> None:
    digest = digest_of(attempt((9, 1), (8, 1), (7, 5), (6, None), (5, 1), state="stopped"))
    drawing = figures.curves(digest, [1])
    lines = traces(drawing)
    assert lines["valid"]["x"] == [1, 2, None, 4, 5] and lines["valid"]["y"] == [9, 8, None, 6, 5]
    assert lines["invalid"]["x"] == [2, 3] and lines["unchecked"]["x"] == [3, 4]
    assert lines["valid"]["marker"]["size"] == [5, 5, 0, 0, 5]  # no mark where another belongs
    assert (lines["stopped here"]["x"], lines["stopped here"]["y"]) == ([5], [5])
    lower = next(t for t in drawing.data if t["name"] == "invalid" and t["yaxis"] == "y2")
    assert lower["y"] == [1, 5]


def test_below_the_objective_stands_only_what_was_checked() -> None:
    digest = digest_of(attempt((9, 1), (8, None), (7, None), (6, 9)), attempt((5, None)))
    below = [trace["name"] for trace in figures.curves(digest).data if trace.get("yaxis") == "y2"]
    assert below == ["valid", "invalid", "the answer"]
    texts = traces(figures.curves(digest, [1]))["unchecked"]["text"]
    assert texts == [f"trial 1, step {step}" for step in (1, 2, 3)]
    both = traces(figures.curves(digest))["unchecked"]["text"]
    assert set(both) == {*texts, "trial 2, step 1", ""}


def test_long_curves_keep_their_ends_and_their_best() -> None:
    losses = [10 - i / 1000 for i in range(3000)]
    losses[1234] = 1.0
    digest = digest_of(attempt(*[(loss, None) for loss in losses], state="stopped"))
    drawing = figures.curves(digest, [1])
    line = traces(drawing)["unchecked"]
    assert len(line["x"]) < 700 and {1, 1235, 3000} <= set(line["x"])
    assert "of their 3,000 reports are drawn" in drawing.caption
    assert "stopped at step 3000" in drawing.alt


def test_trials_that_are_not_there(large: StudyView) -> None:
    with pytest.raises(StudyError, match=r"no trial 9999; it has trials 1 to 1500"):
        trial_figure(FigureData(large), 9999)


# -- time, intervals, strata ---------------------------------------------------------------------


def test_saved_by_stopping_is_estimated_from_the_steps_left() -> None:
    # T is 10 and a step takes 2 s; the second trial ran on, the third stopped at its start
    digest = digest_of(
        attempt((9, 1), (8, 1), (7, 1), state="stopped"),
        attempt((9, 1), (8, 1)),
        Attempt([], None, "stopped", 0),
    )
    assert saved_by_stopping(digest) == (7 * 2.0, 1, 1)
    drawing = FIGURES["time"](digest)
    assert "estimate" in drawing.title and "an estimate, not a measurement" in drawing.caption
    assert "1 stopped trial of unknown T or cost is left out" in drawing.caption
    assert "about 14 s, an estimate from 1 trial" in drawing.alt


def test_a_resumed_trial_has_the_mean_cost_of_the_steps_it_took() -> None:
    lost = attempt((9, 1), (8, 1), (7, 1), (6, 1))
    again = replace(attempt((5, 1), (4, 1), state="stopped"), resumed_from=4)
    saved = saved_by_stopping(FigureData(view_of(Written(G, [[lost, again]]))))
    assert saved.seconds == 4 * 2.0  # steps 7 to 10


def test_the_threshold_is_the_theorems(large: StudyView) -> None:
    drawing = drawn(large, "intervals")
    line = traces(drawing)["threshold (p = 0.25)"]
    for steps, ratio in zip(line["x"], line["y"], strict=True):
        assert ratio == pytest.approx(interval_threshold(0.25, steps), rel=1e-2)
    rows = [row for row in large.trials if row.cost_ratio and row.total_steps]
    below = sum(row.cost_ratio < interval_threshold(0.25, row.total_steps) for row in rows)  # type: ignore[operator,arg-type]
    assert f"{below:,} of {len(rows):,} trials lay below the threshold" in drawing.alt


@pytest.mark.parametrize("by", ["time", "step"])
def test_every_report_is_in_one_bar(large: StudyView, by: Any) -> None:
    drawing = figures.strata(FigureData(large), by)
    strata = acetune.load(large.path).strata
    assert {t["name"]: sum(t["y"]) for t in drawing.data} == {
        name: strata.get(name, 0) for name in ("valid", "invalid", "unchecked")
    }


def test_strata_by_step_count_steps() -> None:
    digest = digest_of(attempt((9, 1), (8, 1), (7, 5)), attempt((9, 1), (8, None)))
    lines = traces(figures.strata(digest, "step"))
    assert lines["valid"]["x"] == [1, 2, 3] and lines["valid"]["y"] == [2, 1, 0]
    assert lines["invalid"]["y"] == [0, 0, 1] and lines["unchecked"]["y"] == [0, 1, 0]
    with pytest.raises(GoalError, match="by must be 'time' or 'step', got 'trial'"):
        figures.strata(digest, "trial")  # type: ignore[arg-type]


def test_reasons_are_counted_as_in_the_summary(large: StudyView) -> None:
    table = drawn(large, "reasons").table
    assert table is not None
    counted = {why: int(n.replace(",", "")) for state, why, n in table.rows if state == "stopped"}
    wanted = acetune.load(large.path).reasons
    assert counted == {why: n for why, n in wanted.items() if why in counted} and counted
    assert sum(int(row[2].replace(",", "")) for row in table.rows) == 1500


# -- importance ----------------------------------------------------------------------------------


def test_effects_find_what_was_put_in() -> None:
    rng = np.random.default_rng(0)
    n = 400
    params = [
        {"rate": float(10 ** rng.uniform(-4, 0)), "kind": str(rng.choice(["a", "b", "c"])),
         "noise": float(rng.random()), "fixed": 3}
        for _ in range(n)
    ]  # fmt: skip
    outcome = np.array(
        [math.log10(p["rate"]) + (2 if p["kind"] == "b" else 0) for p in params]  # type: ignore[arg-type]
    )
    outcome += 0.3 * rng.standard_normal(n)
    found = {effect.name: effect for effect in effects(columns(params), outcome)}
    assert (found["rate"].share or 0) > (found["kind"].share or 0) > found["kind"].chance
    assert (found["noise"].share or 0) <= 2 * found["noise"].chance
    assert found["fixed"].share is None and "same" in found["fixed"].why
    # what a scale or the units of the outcome are makes no difference
    other = [{**p, "rate": math.log(p["rate"])} for p in params]  # type: ignore[arg-type]
    assert effects(columns(other), np.exp(outcome))[0].share == pytest.approx(found["rate"].share)


def test_effects_of_parameters_that_only_some_trials_have() -> None:
    rng = np.random.default_rng(1)
    values = rng.random(300)
    params: list[dict[str, Any]] = [
        {"deep": i % 2 == 0, **({"depth": float(v)} if i % 2 == 0 else {})}
        for i, v in enumerate(values)
    ]
    outcome = np.where(np.arange(300) % 2 == 0, values, 5.0)
    outcome[0] = np.inf  # a trial without a result
    found = {effect.name: effect for effect in effects(columns(params), outcome)}
    assert found["depth"].trials == 149 and (found["depth"].share or 0) > 0.9
    few = effects(columns(params[:30]), outcome[:30])
    assert few[1].share is None and few[1].why == "too few trials (14)"


def test_effects_of_what_is_no_number_and_comes_once() -> None:
    params = [{"name": f"run {i}", "seed": 10 ** (400 + i % 2)} for i in range(60)]
    name, seed = effects(columns(params), np.arange(60.0) % 2)
    assert (name.share, name.why) == (None, "no value comes up often enough")
    assert seed.share == pytest.approx(1.0)  # larger than any float: categories


def test_chance_is_what_shuffled_outcomes_give() -> None:
    rng = np.random.default_rng(2)
    values = [float(v) for v in rng.random(120)]
    outcome = rng.random(120)
    params = [{"x": v} for v in values]
    shares = []
    for _ in range(400):
        (effect,) = effects(columns(params), rng.permutation(outcome))
        shares.append(effect.share or 0.0)
    assert np.mean(np.array(shares) > effect.chance) == pytest.approx(0.05, abs=0.03)
    for groups, quantile in ((2, 3.841), (3, 5.991), (6, 11.070), (10, 16.919)):  # by table
        assert chance_level(groups, 101) == pytest.approx(quantile / 100, rel=0.01)


def test_too_few_trials_are_said_to_be_too_few() -> None:
    drawing = FIGURES["importance"](digest_of(*[attempt((float(i), 1.0)) for i in range(7)]))
    assert not drawing.data
    assert drawing.alt == "Too few trials to tell: 7 with a result, and at least 20 are needed."


def test_importance_tells_objective_from_feasibility(large: StudyView) -> None:
    # in these studies the rate makes models good, and the width makes them break limits
    drawing = drawn(large, "importance")
    assert drawing.table is not None
    rows = {row[0]: row[1:] for row in drawing.table.rows}
    objective, feasibility = ({name: row[i] for name, row in rows.items()} for i in (0, 1))
    assert max(objective, key=lambda k: int(objective[k].split("%")[0])) == "lr"
    assert max(feasibility, key=lambda k: int(feasibility[k].split("%")[0])) == "width"
    assert "not cause" in drawing.caption
