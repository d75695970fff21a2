"""The paper's figures hold the right numbers, and come to disk as images."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from acetune.core.cost import best_interval, interval_threshold
from acetune.core.cost import expected_cost as cost
from acetune.core.errors import GoalError
from acetune.replay.statistics import Interval
from acetune.report import figure_files as drawing
from acetune.report.palette import COLOURS
from paper import figures
from paper.figures.expected_cost import HORIZONS, RATIOS, spread_apart, switch_length
from replay.test_pictures import require_image, require_kaleido, texts, traces


def test_curves_of_expected_cost_and_their_cheapest_ends() -> None:
    figure = figures.expected_cost()
    lines = {trace.name: trace for trace in traces(figure, mode="lines")}
    assert set(lines) == {
        *(f"T = {T}" for T in HORIZONS),
        *(f"r = {r:g}" for r in RATIOS),
        "both ends cost the same",
    }
    line = lines["r = 64"]
    assert (line.x[0], line.x[-1]) == (1, 16)
    assert list(line.y) == pytest.approx([cost(beta, 0.5, 64, 16) for beta in line.x])
    dots = [(trace.x[0], trace.y[0]) for trace in traces(figure, mode="markers", yaxis="y")]
    best = [best_interval(0.5, 20, T) for T in HORIZONS]
    assert best == [2, 4, 8, 16, 1, 1]
    wanted = [(b, cost(b, 0.5, 20, T)) for b, T in zip(best, HORIZONS, strict=True)]
    assert np.array(dots) == pytest.approx(np.array(wanted))
    equal = lines["both ends cost the same"]
    assert equal.y[0] == pytest.approx(equal.y[-1])
    assert "switch at T = 22" in texts(figure)
    assert "switch at r = 14" in texts(figure)


@pytest.mark.parametrize(
    ("p", "r"), [(0.5, 20.0), (0.25, 1.94), (0.03, 24.0), (0.9, 1.0), (0.5, 0)]
)
def test_the_length_at_which_the_theorem_switches(p: float, r: float) -> None:
    lengths = (T for T in range(2, 10_000) if r < interval_threshold(p, T))
    assert switch_length(p, r) == next(lengths)


def test_a_trial_that_is_never_stopped_is_checked_at_its_end() -> None:
    assert switch_length(0.0, 1.0) is None
    assert texts(figures.expected_cost(p=0.0)).count("always at the end") == 2


def test_labels_are_moved_apart_and_keep_their_order() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        wanted = list(rng.uniform(0, 100, 12))
        moved = spread_apart(wanted, gap=5)
        assert np.argsort(moved).tolist() == np.argsort(wanted).tolist()
        assert np.diff(np.sort(moved)).min() > 5 - 1e-9
    assert spread_apart([1.0, 9.0], gap=5) == [1.0, 9.0]


def test_truncation_ours_with_intervals_beside_the_papers() -> None:
    ours = {"EOD ≤ 0.25": {25.0: Interval(85.2, 85.1, 85.4), 3.0: Interval(84.9, 84.8, 85.0)}}
    paper = {"EOD ≤ 0.25": {3.0: 85.3, 13.0: 85.4}}
    figure = figures.truncation_curve(ours, paper, trials={"EOD ≤ 0.25": {3.0: 60.0, 25.0: 214.0}})
    theirs, mine = figure.data
    assert (list(theirs.x), list(theirs.y)) == ([3, 13], [85.3, 85.4])
    assert (list(mine.x), list(mine.y)) == ([3, 25], [84.9, 85.2])  # in order, whatever was given
    assert list(mine.error_y.array) == pytest.approx([0.1, 0.2])
    assert list(mine.error_y.arrayminus) == pytest.approx([0.1, 0.1])
    assert list(figure.layout.xaxis.tickvals) == [3, 13, 25]
    assert "214" in texts(figure)
    assert len(figures.truncation_curve(ours).data) == 2
    with pytest.raises(GoalError, match="no limits were given"):
        figures.truncation_curve({})


def curve(label: str = "trial 1", stops: dict[str, int] | None = None) -> figures.TrialCurve:
    return figures.TrialCurve(
        label, [1, 2, 3, 4], [0.5, 0.6, 0.7, 0.8], [0.2, 0.25, 0.3, math.nan], 0.25, stops or {}
    )


def test_valid_checkpoints_are_dots_and_invalid_ones_plus_signs() -> None:
    figure = figures.case_study([curve()], objective="AUC", constraint="EOD")
    valid, also_valid = traces(figure, name="trial 1, valid")
    invalid, _ = traces(figure, name="trial 1, invalid")
    assert (list(valid.x), list(valid.y)) == ([1, 2], [0.5, 0.6])  # at the limit is valid
    assert list(also_valid.y) == [0.2, 0.25]
    assert (list(invalid.x), list(invalid.y)) == ([3], [0.7])  # and 4 was not measured
    assert valid.marker.symbol == "circle"
    assert invalid.marker.symbol == "cross-thin"
    assert list(traces(figure, name="trial 1", yaxis="y")[0].y) == [0.5, 0.6, 0.7, 0.8]
    assert "limit 0.25" in texts(figure)


def test_lines_say_where_policies_stopped_a_trial() -> None:
    curves = [curve(stops={"ACE": 3, "ASHA": 1}), curve("trial 2", {"ACE": 2, "ASHA": 2})]
    figure = figures.case_study(curves)
    written = texts(figure)
    assert "ASHA stops trial 1 at 1" in written
    assert "ACE and ASHA stop trial 2 at 2" in written
    upright = {
        (shape.x0, shape.line.color) for shape in figure.layout.shapes if shape.x0 == shape.x1
    }
    assert upright == {(1, COLOURS[0]), (3, COLOURS[0]), (2, COLOURS[1])}


@pytest.mark.parametrize("log_steps", [False, True])
def test_long_curves_get_no_more_markers_than_can_be_seen(log_steps: bool) -> None:
    steps = list(range(1, 3001))
    long = figures.TrialCurve("trial 1", steps, [0.5] * 3000, [0.1] * 3000, 0.25)
    figure = figures.case_study([long], log_steps=log_steps)
    (line, _), (valid, _) = traces(figure, name="trial 1"), traces(figure, name="trial 1, valid")
    assert len(line.x) == 3000
    assert 40 < len(valid.x) <= 70
    assert valid.x[0] == 1


def test_curves_that_do_not_fit_together() -> None:
    with pytest.raises(
        GoalError, match="trial 1 has 2 steps, 1 objectives and 2 constraint values"
    ):
        figures.TrialCurve("trial 1", [1, 2], [0.5], [0.1, 0.2], 0.25)
    with pytest.raises(GoalError, match="trial 1 has no steps"):
        figures.TrialCurve("trial 1", [], [], [], 0.25)
    with pytest.raises(GoalError, match="no trials were given"):
        figures.case_study([])


def test_images_of_every_kind(tmp_path: Path) -> None:
    require_kaleido()
    kinds = {
        "cost": figures.expected_cost(),
        "truncation": figures.truncation_curve({"EOD ≤ 0.25": {3.0: Interval(1.0, 0.9, 1.2)}}),
        "case": figures.case_study([curve(stops={"ACE": 3})]),
    }
    drawing.write_figures({tmp_path / f"{name}.png": figure for name, figure in kinds.items()})
    for name, figure in kinds.items():
        require_image(tmp_path / f"{name}.png", figure)
