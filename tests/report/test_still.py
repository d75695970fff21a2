"""The picture that is seen until plotly.js draws: the same curves, in the same room."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from acetune.core.goals import Constraint, Estimate, Goals, Objective
from acetune.report._markup import to_html
from acetune.report._static_figure import round_values, still
from acetune.report.figures import page_figures
from acetune.report.html import write_report
from acetune.study.reader import StudyView
from browser import opened
from report.written import Attempt, Written, write
from synthetic_study import make_study

STARS = "path[fill='#C9709F'], .scatterlayer .points path"
CENTRES = f"""place => [...place.querySelectorAll("{STARS}")]
    .map((path) => path.getBoundingClientRect())
    .map((box) => box.x + box.width / 2 - place.getBoundingClientRect().x)"""


def progress_of(study: Path) -> dict[str, Any]:
    with StudyView(study) as view:
        return next(figure for figure in page_figures(view) if figure["id"] == "progress")


def room(page: Page) -> list[float]:
    box = page.locator("#plot-progress").bounding_box()
    assert box is not None
    return [round(box["width"]), round(box["height"])]


def test_it_draws_what_the_figure_says(finished: Path) -> None:
    figure = progress_of(finished)
    drawn = to_html(still(figure))
    x0, x1 = figure["figure"]["layout"]["xaxis"]["range"]
    y0, y1 = figure["figure"]["layout"]["yaxis"]["range"]
    paths = re.findall(r'<path d="M([^"]*)" vector-effect', drawn)
    lines = [trace for trace in figure["figure"]["data"] if trace["mode"] == "lines"]
    assert len(paths) == len(lines) == 2
    for path, trace in zip(paths, lines, strict=True):
        numbers = [float(n) for n in re.findall(r"-?[\d.]+", path)]
        across, down = numbers[::2], numbers[1::2]
        assert [x0 + a / 1000 * (x1 - x0) for a in across] == pytest.approx(trace["x"], abs=1e-2)
        inside = [min(y1 + (y1 - y0), max(y0 - (y1 - y0), value)) for value in trace["y"]]
        assert [y1 - d / 1000 * (y1 - y0) for d in down] == pytest.approx(inside, abs=1e-3)
    for name in ("best of all", "best feasible", "the answer", "Time (", "auc"):
        assert name in drawn
    assert "style=" not in drawn


@pytest.mark.parametrize("width", [1200, 390])
def test_nothing_jumps_when_plotly_draws(browser: Browser, report: Path, width: int) -> None:
    with opened(browser, report, width=width, scripts=False) as watched:
        page = watched.page
        expect(page.locator("#plot-progress .still > svg")).to_be_visible()
        before, tall = room(page), page.locator("#first-figure").bounding_box()
        star = page.locator("#plot-progress").evaluate(CENTRES)[0]
        assert watched.complaints == []
    with opened(browser, report, width=width) as watched:
        page = watched.page
        page.locator("#plot-progress").evaluate("place => place.scrollIntoView()")
        page.locator("#plot-progress .main-svg").first.wait_for(state="attached")
        assert page.locator(".still").count() == 0
        assert room(page) == before
        now = page.locator("#first-figure").bounding_box()
        assert tall is not None and now is not None
        assert now["height"] == pytest.approx(tall["height"], abs=2)
        # and the same things are in the same places
        assert page.locator("#plot-progress").evaluate(CENTRES)[0] == pytest.approx(star, abs=6)


def test_it_has_the_colours_of_the_page(browser: Browser, report: Path) -> None:
    fills = set()
    for dark in (False, True):
        with opened(browser, report, dark=dark, scripts=False) as watched:
            text = watched.page.locator(".still text").first
            fills.add(text.evaluate("text => getComputedStyle(text).fill"))
    assert len(fills) == 2


def test_it_stands_first_and_is_one_image_to_a_reader(browser: Browser, report: Path) -> None:
    with opened(browser, report, scripts=False) as watched:
        first = watched.page.locator("main .plot").first
        expect(first).to_have_id("plot-progress")
        expect(first).to_have_role("img")
        expect(first).to_have_accessible_name(re.compile("best feasible auc"))


@pytest.mark.parametrize("options", [{"feasible": False}, {"constraints": 0}, {"mode": "min"}])
def test_other_studies(tmp_path: Path, options: dict[str, Any]) -> None:
    study = make_study(tmp_path / "study.db", trials=30, reports=400, **options)
    drawn = to_html(still(progress_of(study)))
    assert ("nothing feasible" in drawn) == (options.get("feasible") is False)
    assert ("best feasible" in drawn) == ("mode" in options)
    assert "the answer" in drawn or "feasible" in options


def test_words_stay_text(browser: Browser, hostile: Path) -> None:
    with opened(browser, hostile, scripts=False, width=390) as watched:
        assert watched.page.locator(".still script, .still img, .still b").count() == 0
        assert "&amp;" not in watched.page.locator(".still").inner_text()


def test_a_study_without_a_report_says_so(browser: Browser, tmp_path: Path) -> None:
    goals = Goals(Objective("auc", "max"), (Constraint("gap", upper=0.1),))
    write(Written(goals, []), tmp_path / "study.db").close()
    report = write_report(tmp_path / "study.db", tmp_path / "empty.html")
    with opened(browser, report, scripts=False) as watched:
        expect(watched.page.locator("#plot-progress")).to_have_text("No reports yet.")


@pytest.mark.parametrize("size", [1e-300, 1e-5, 1.0, 1e7, 1e300])
def test_axes_of_any_size_can_be_read(browser: Browser, tmp_path: Path, size: float) -> None:
    goals = Goals(Objective("loss", "min"), (Constraint("gap", upper=1.0),))
    fine = {"gap": Estimate(0.5, 0.01)}
    trials = [[Attempt([((9 - n) * size, fine)], None, "finished", 0)] for n in range(8)]
    write(Written(goals, trials), tmp_path / "study.db").close()
    report = write_report(tmp_path / "study.db", tmp_path / "report.html")
    with opened(browser, report, scripts=False, width=390) as watched:
        picture = watched.page.locator(".still")
        boxes = picture.locator("text[text-anchor=end]").evaluate_all(
            "texts => texts.map((text) => [text.textContent, text.getBoundingClientRect().left])"
        )
        title = picture.locator(".upwards").bounding_box()
    assert title is not None
    assert 3 <= len({text for text, _ in boxes}) == len(boxes) <= 9
    assert all(left >= title["x"] + title["width"] for _, left in boxes)


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (-3.2, 17), (0.7131, 0.7134), (5, 5.00001), (-1e300, 1e300)]
)
def test_round_values_lie_between_the_ends(low: float, high: float) -> None:
    found = round_values(low, high)
    assert 3 <= len(found) <= 9
    assert low <= found[0] and found[-1] <= high
    assert found == sorted(set(found))
