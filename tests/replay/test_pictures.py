"""Figures hold the right numbers, and come to disk as files that stand alone."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acetune.core.errors import AcetuneError, GoalError, MissingExtraError
from acetune.replay import pictures
from acetune.replay.pictures.dots import mean_interval
from acetune.replay.pictures.over_time import value_range
from acetune.replay.pictures.panels import cell_titles, looks
from acetune.replay.runs import Cell, Incumbent, Run, summarise
from acetune.replay.statistics import BestOverTime, Ranks, rank_policies
from acetune.report import figure_files as drawing
from acetune.report.palette import COLOURS

HARD = Cell("credit", "eod <= 0.25", 1.94, 35.0, 4, "random")
EASY = Cell("credit", "eod <= 0.325", 1.94, 35.0, 4, "random")


def run(
    policy: str,
    seed: int,
    steps: Sequence[tuple[float, float]],
    cell: Cell = HARD,
    mode: str = "max",
) -> Run:
    found = tuple(Incumbent(time_s, value, 0, 1) for time_s, value in steps)
    return Run(policy, cell, seed, mode, found, 10, 100, 50, 0, 30.0, 5.0, 35.0)


def made_runs(policies: Sequence[str] = ("none", "asha", "ace"), seeds: int = 6) -> list[Run]:
    """Runs that get better over time; one of them finds nothing."""
    made = []
    for c, cell in enumerate((HARD, EASY)):
        for p, policy in enumerate(policies):
            for seed in range(seeds):
                rng = np.random.default_rng([c, p, seed])
                times, values = np.sort(30 * rng.random(4)), np.sort(0.85 + 0.01 * rng.random(4))
                nothing = (c, p, seed) == (0, 0, 0)
                steps = [] if nothing else list(zip(times, values, strict=True))
                made.append(run(policy, seed, steps, cell))
    return made


def traces(figure: Any, **wanted: Any) -> list[Any]:
    """Those with these properties."""
    return [trace for trace in figure.data if all(trace[name] == v for name, v in wanted.items())]


def texts(figure: Any) -> str:
    """All that is written in it."""
    return " | ".join(
        [figure.layout.title.text, *(note.text for note in figure.layout.annotations)]
    )


# -- over time -------------------------------------------------------------------------------------


def test_lines_over_time_hold_means_and_shares() -> None:
    steps: list[list[tuple[float, float]]] = [[(0.0, 0.5), (20.0, 0.9)], [(10.0, 0.6)]]
    figure = pictures.over_time([run("ace", seed, found) for seed, found in enumerate(steps)])
    (line,) = traces(figure, name="ace", yaxis="y", hoverinfo=None, showlegend=False)
    at = {float(time): value for time, value in zip(line.x, line.y, strict=True)}
    assert max(at) == 35
    assert at[max(time for time in at if time < 10)] == 0.5
    assert at[min(time for time in at if time >= 10)] == pytest.approx(0.55)
    assert at[35] == pytest.approx(0.75)
    (share,) = traces(figure, name="ace", yaxis="y2")
    assert (share.y[0], share.y[-1]) == (50, 100)
    assert line.line.shape == "hv"  # what was found stays known until something better is


def test_a_panel_a_cell_and_a_legend_entry_a_policy() -> None:
    figure = pictures.over_time(made_runs(), objective="AUC")
    written = texts(figure)
    assert "eod ≤ 0.25" in written
    assert "eod ≤ 0.325" in written
    assert "credit, cost ratio 1.94, 35 s, 4 workers, random search" in written
    assert [trace.name for trace in traces(figure, showlegend=True)] == ["none", "asha", "ace"]
    assert figure.layout.yaxis.title.text.startswith("Best feasible AUC<br>(higher is better)")
    for yaxis in ("y", "y2", "y3", "y4"):
        assert len(traces(figure, yaxis=yaxis, name="ace")) in (
            1,
            2,
        )  # the legend's is in the first


def test_policies_can_be_chosen_and_ordered() -> None:
    figure = pictures.over_time(made_runs(), policies=["ace", "none"])
    named = traces(figure, showlegend=True)
    assert [trace.name for trace in named] == ["ace", "none"]
    assert [trace.line.color for trace in named] == list(COLOURS[:2])
    with pytest.raises(GoalError, match="no runs of 'hyperband'; there are none, asha, ace"):
        pictures.over_time(made_runs(), policies=["hyperband"])
    with pytest.raises(GoalError, match="no runs were given"):
        pictures.over_time([])


def test_bands_are_left_out_when_they_would_be_too_many() -> None:
    many = made_runs([f"p{i}" for i in range(8)])
    assert not traces(pictures.over_time(many), fill="toself")
    assert len(traces(pictures.over_time(many, bands=True), fill="toself")) == 16
    assert len(traces(pictures.over_time(made_runs()), fill="toself")) == 6


def test_early_poor_values_do_not_squash_the_rest() -> None:
    found = [run("ace", seed, [(0.1, 0.01), (5.0, 0.85 + 0.001 * seed)]) for seed in range(5)]
    low, high = pictures.over_time(found).layout.yaxis.range
    assert 0.85 < low < 0.852 < high < 0.854


def test_the_range_is_that_of_the_second_half_and_of_finite_bands() -> None:
    t = np.linspace(0, 10, 5)
    centre = np.array([math.nan, 0.1, 0.5, 0.6, 0.7])
    line = BestOverTime(t, centre, np.full(5, -math.inf), centre + 0.1, np.ones(5))
    assert value_range([line]) == pytest.approx([0.5 - 0.08 * 0.3, 0.8 + 0.08 * 0.3])
    nothing = np.full(5, math.nan)
    assert value_range([BestOverTime(t, nothing, nothing, nothing, np.zeros(5))]) is None


def test_a_cell_in_which_nobody_found_anything_says_so() -> None:
    figure = pictures.over_time([run("ace", 0, []), run("asha", 0, [])])
    assert "of no policy have half of the runs<br>found something feasible" in texts(figure)


def test_checks_after_the_run_are_shown_beyond_the_budget() -> None:
    late = [run("none+after", seed, [(36.0 + seed, 0.8)]) for seed in range(3)]
    figure = pictures.over_time(late + made_runs())
    assert figure.layout.xaxis.range[1] == pytest.approx(38)
    assert figure.layout.shapes[0].x0 == 35
    assert "budget" in texts(figure)


# -- ranks -----------------------------------------------------------------------------------------


RANKS = Ranks(
    policies=("ace", "asha", "median", "none"),
    average_ranks=(1.3, 1.9, 2.9, 3.9),
    blocks=40,
    friedman_p=0.012,
    alpha=0.05,
    critical_difference=0.74,
    cliques=(("ace", "asha"),),
)


def test_two_rankings_that_agree_show_no_difference() -> None:
    two = replace(RANKS, blocks=2, friedman_p=0.16, cliques=(RANKS.policies,))
    assert "p = 0.16, no difference is shown" in texts(pictures.critical_difference(two))
    joined = replace(two, friedman_p=0.001)  # significant, but nobody stands apart
    assert "no difference is shown" in texts(pictures.critical_difference(joined))


def test_policies_hang_off_their_ranks_and_bars_join_those_not_told_apart() -> None:
    figure = pictures.critical_difference(RANKS)
    points = {trace.name: trace.x[0] for trace in traces(figure, mode="markers")}
    assert points == dict(zip(RANKS.policies, RANKS.average_ranks, strict=True))
    (bar,) = traces(figure, hovertext="not told apart: ace, asha")
    assert bar.x[0] == pytest.approx(1.3, abs=0.03)
    assert bar.x[1] == pytest.approx(1.9, abs=0.03)
    written = texts(figure)
    assert "CD = 0.74" in written
    assert "p = 0.012, they differ" in written
    for policy, rank in zip(RANKS.policies, RANKS.average_ranks, strict=True):
        assert policy in written
        assert f"{rank:.2f}" in written


def test_bars_that_meet_are_drawn_below_each_other() -> None:
    ranks = Ranks(
        ("a", "b", "c", "d", "e", "f"),
        (1.0, 2.0, 3.0, 4.5, 5.5, 5.8),
        *(30, 0.5, 0.05, 1.7),
        (("a", "b"), ("b", "c"), ("d", "e", "f")),
    )
    figure = pictures.critical_difference(ranks)
    heights = [
        traces(figure, hovertext=f"not told apart: {', '.join(clique)}")[0].y[0]
        for clique in ranks.cliques
    ]
    assert heights[1] < heights[0] == heights[2]
    assert "no difference is shown" in texts(figure)


def test_a_critical_difference_wider_than_the_axis() -> None:
    ranks = rank_policies(made_runs())  # two cells show nothing
    assert ranks.critical_difference < 3
    wide = Ranks(ranks.policies, ranks.average_ranks, 1, 1.0, 0.05, 3.3, (ranks.policies,))
    assert "CD = 3.30, wider than the axis" in texts(pictures.critical_difference(wide))


# -- means with intervals --------------------------------------------------------------------------


def test_dots_are_means_with_students_interval() -> None:
    runs = [run("ace", seed, [(1.0, value)]) for seed, value in enumerate((0.1, 0.2, 0.3))]
    (dot,) = pictures.dots(summarise(runs)).data
    assert dot.x[0] == pytest.approx(0.2)
    # t of 0.975 with two degrees of freedom is 4.3027
    assert dot.error_x.array[0] == pytest.approx(4.302653 * 0.1 / math.sqrt(3), rel=1e-6)


def test_dots_tell_who_found_nothing() -> None:
    runs = made_runs() + [run("median", seed, []) for seed in range(6)]
    figure = pictures.dots(summarise(runs), objective="AUC")
    written = texts(figure)
    assert "1 of 6" in written
    assert "all 6 found nothing" in written
    assert len(traces(figure, name="median")) == 0
    assert len(traces(figure, name="ace")) == 2
    assert list(figure.layout.yaxis.ticktext) == ["none", "asha", "ace", "median"]
    assert figure.layout.xaxis.title.text == "Best feasible AUC"


def test_one_run_has_a_mean_and_no_interval() -> None:
    (summary,) = summarise([run("ace", 0, [(1.0, 0.4)])])
    interval = mean_interval(summary)
    assert interval is not None
    assert interval.mean == 0.4
    assert math.isnan(interval.low)
    (dot,) = pictures.dots([summary]).data
    assert dot.error_x.array[0] == 0
    (nothing,) = summarise([run("ace", 0, [])])
    assert mean_interval(nothing) is None


# -- style -----------------------------------------------------------------------------------------


def test_no_two_policies_look_the_same() -> None:
    found = looks([f"p{i}" for i in range(32)])
    assert len({(look.colour, look.dash) for look in found.values()}) == 32
    assert len({look.colour for look in list(found.values())[:8]}) == 8


def test_a_cell_is_named_by_what_tells_it_from_the_others() -> None:
    expensive = Cell("credit", "eod < 0.25", 24.0, 35.0, 1, "random")
    titles, shared = cell_titles([HARD, expensive])
    assert titles == [
        "eod ≤ 0.25, cost ratio 1.94, 4 workers",
        "eod &lt; 0.25, cost ratio 24, 1 worker",
    ]
    assert shared == "credit, 35 s, random search"


# -- on disk ---------------------------------------------------------------------------------------


def every_kind() -> dict[str, Any]:
    return {
        "over_time": pictures.over_time(made_runs(), objective="AUC"),
        "ranks": pictures.critical_difference(RANKS),
        "dots": pictures.dots(summarise(made_runs())),
    }


def test_html_stands_alone_and_is_the_same_each_time(tmp_path: Path) -> None:
    path = tmp_path / "new" / "ranks.html"
    drawing.write_figures({path: pictures.critical_difference(RANKS)})
    text = path.read_text(encoding="utf-8")
    assert "Average ranks of the policies" in text
    assert len(text) > 1_000_000  # plotly.js is in it
    assert not re.search(r"<script[^>]*\bsrc\s*=", text)
    assert not re.search(r"<link[^>]*\bhref\s*=", text)
    drawing.write_figures({path: pictures.critical_difference(RANKS)})
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", ["figure.bmp", "figure", "figure.htm"])
def test_a_suffix_that_is_unknown_writes_nothing(name: str, tmp_path: Path) -> None:
    figure = pictures.critical_difference(RANKS)
    with pytest.raises(GoalError, match=r"must end in one of \.html, \.png, \.svg, \.pdf"):
        drawing.write_figures({tmp_path / "good.html": figure, tmp_path / name: figure})
    assert not list(tmp_path.iterdir())


def test_without_kaleido_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "kaleido", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'acetune\[png\]'"):
        drawing.write_figures({tmp_path / "ranks.png": pictures.critical_difference(RANKS)})
    assert not list(tmp_path.iterdir())


def test_without_a_browser_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("kaleido", reason="kaleido is not installed")
    chromium = pytest.importorskip("choreographer.browsers.chromium").Chromium
    monkeypatch.setattr(chromium, "find_browser", lambda **_: None)
    with pytest.raises(AcetuneError, match=r"apt install chromium.*kaleido_get_chrome.*html"):
        drawing.write_figures({tmp_path / "ranks.png": pictures.critical_difference(RANKS)})
    assert not list(tmp_path.iterdir())


def require_kaleido() -> None:
    """Skip where nothing can draw an image."""
    pytest.importorskip("kaleido", reason="kaleido is not installed")
    chromium = pytest.importorskip("choreographer.browsers.chromium").Chromium
    if chromium.find_browser(skip_local=False) is None:
        pytest.skip("neither Chrome nor Chromium is installed")


def require_image(path: Path, figure: Any) -> None:
    """It is a picture of the figure's size, and not an empty one."""
    image = path.read_bytes()
    assert image[:8] == b"\x89PNG\r\n\x1a\n"
    size = [int.from_bytes(image[at : at + 4], "big") for at in (16, 20)]
    assert size == [2 * figure.layout.width, 2 * figure.layout.height]
    assert len(image) > 10_000


def test_images_of_every_kind_with_one_browser(tmp_path: Path) -> None:
    require_kaleido()
    kinds = every_kind()
    wanted: dict[Path | str, Any] = {tmp_path / f"{n}.png": f for n, f in kinds.items()}
    wanted |= {tmp_path / "ranks.svg": kinds["ranks"], tmp_path / "ranks.PDF": kinds["ranks"]}
    drawing.write_figures(wanted)
    for name, figure in kinds.items():
        require_image(tmp_path / f"{name}.png", figure)
    drawn = (tmp_path / "ranks.svg").read_text(encoding="utf-8")
    assert "<svg" in drawn
    assert "asha" in drawn
    assert (tmp_path / "ranks.PDF").read_bytes().startswith(b"%PDF")
