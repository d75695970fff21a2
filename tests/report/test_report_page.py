"""The report in a real browser: what people see is what the study file says."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

import acetune
from acetune.cli.show import to_json
from acetune.core.goals import Constraint, Estimate, Goals, Objective
from acetune.report.html import write_report
from browser import Watched, opened
from report.written import Attempt, Written, write
from synthetic_study import make_study

WIDER = "place => place.scrollWidth - place.clientWidth"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def test_everything_is_drawn_without_a_complaint_or_a_request(
    browser: Browser, report: Path
) -> None:
    with opened(browser, report) as watched:
        watched.see_everything()
        assert watched.page.locator("main .plot .main-svg").count() >= 9
        watched.page.locator("#theme").click()
        watched.see_everything()
        watched.page.locator("#trial-table [data-trial]").first.click()
        expect(watched.page.locator("dialog")).to_be_visible()
        assert watched.complaints == []
        assert watched.requests == [report.as_uri()]


def test_the_numbers_are_those_of_the_study_file(
    browser: Browser, finished: Path, report: Path
) -> None:
    shown = to_json(acetune.load(finished))
    best = shown["best"]
    with opened(browser, report) as watched:
        page = watched.page
        assert page.locator("[data-value=objective]").inner_text() == f"{best['value']:.5g}"
        for name, measured in best["constraints"].items():
            text = page.locator(f'[data-value="constraint {name}"]').inner_text()
            assert text == f"{measured['value']:.4g} ± {measured['stderr']:.2g}"
        for name, value in best["params"].items():
            text = page.locator(f'[data-param="{name}"]').inner_text()
            assert text == (f"{value:.5g}" if isinstance(value, float) else str(value))
        numbers = dict(
            zip(
                page.locator("#numbers dt").all_text_contents(),
                page.locator("#numbers .figure-number").all_inner_texts(),
                strict=True,
            )
        )
        assert numbers["trials"] == f"{sum(shown['trials'].values()):,}"
        assert numbers["reports"] == f"{shown['ledger']['reports']:,}"
        assert numbers["checks"] == f"{shown['ledger']['checks']:,}"
        table = page.locator("#trials-shown").inner_text()
        assert table == f"1 to 25 of {sum(shown['trials'].values())}"


def test_fresh_data_stands_beside_the_search_and_has_the_last_word(
    browser: Browser, finished: Path, report: Path
) -> None:
    best = acetune.load(finished).best
    assert best is not None and best.confirmation is not None
    assert best.total_steps is not None and best.step < best.total_steps
    with opened(browser, report, scripts=False) as watched:
        page = watched.page
        for name, measured in best.confirmation.values.items():
            place = "objective" if name == "auc" else f"constraint {name}"
            text = page.locator(f'[data-fresh="{place}"]').inner_text()
            assert text == f"{measured.value:.4g} ± {measured.stderr:.2g}"
        answer = page.locator("#answer")
        expect(answer).to_contain_text(f"Stop at step {best.step} of {best.total_steps}")
        expect(answer).to_contain_text('acetune.load("study.db").best.load()')
        expect(page.locator("#lead")).to_contain_text("Begun 21 September 2026, ")
        page.locator("#words summary").click()
        expect(page.locator("#words dt").first).to_be_visible()


def test_a_broken_limit_on_fresh_data_is_not_green(browser: Browser, tmp_path: Path) -> None:
    study = make_study(tmp_path / "study.db", trials=30, reports=600, constraints=1)
    fresh = json.dumps({"gap": [0.4321, 0.01]})
    with sqlite3.connect(study) as db:
        db.execute("UPDATE confirmations SET status = 'broken', metrics = ?", (fresh,))
    db.close()
    with opened(browser, write_report(study, tmp_path / "report.html")) as watched:
        page = watched.page
        expect(page.locator("#answer .words")).to_contain_text("No model can be recommended")
        expect(page.locator("#answer .words")).to_contain_text("gap 0.4321 there (limit ≤ 0.1")
        expect(page.locator("#answer .badge")).to_have_class("badge badge-bad")
        expect(page.locator("#answer .badge")).to_have_text(
            "broken: a limit is broken on fresh data"
        )
        expect(page.locator("#answer")).to_contain_text("keeps farther from the limit")
        expect(page.locator("#answer [data-action=copy]")).to_have_count(0)  # nothing to take
        expect(page.locator("#answer")).not_to_contain_text("best.load()")
        values = page.locator("#answer table").first
        expect(values.locator(".bad")).to_have_text("broken")
        assert values.locator(".good").count() == 0
        expect(values).to_contain_text("not measured")
        expect(page.locator("#slider-0")).to_contain_text("that it keeps there too")
        shown = acetune.load(study).what_if(gap=0.1).best
        assert shown is not None and shown.status == "unconfirmed"
        expect(page.locator("#result-0")).to_have_attribute("data-value", str(shown.value))


def test_the_slider_gives_what_the_study_would(
    browser: Browser, finished: Path, report: Path
) -> None:
    result = acetune.load(finished)
    with opened(browser, report) as watched:
        for place, constraint in enumerate(result.goals.constraints):
            _slide(watched, result, constraint.name, place)


def _slide(watched: Watched, result: acetune.StudyResult, name: str, place: int) -> None:
    slider = watched.page.locator(f"#range-{place}")
    shown = watched.page.locator(f"#result-{place}")
    ends = (slider.get_attribute(name) for name in ("min", "max", "step"))
    low, high, step = (float(end or "nan") for end in ends)
    answers = set()
    for share in (0.0, 0.2, 0.45, 0.6, 0.8, 1.0):
        slider.fill(f"{low + round(share * (high - low) / step) * step:.12g}")
        limit = float(watched.page.locator(f"#field-{place}").input_value())
        expected = result.what_if(**{name: limit})
        answers.add(shown.inner_text())
        assert shown.get_attribute("data-unchecked") == str(expected.unchecked_better)
        if expected.best is None:
            assert "nothing recorded qualifies" in shown.inner_text()
            continue
        assert float(shown.get_attribute("data-value") or "nan") == expected.best.value
        assert f"trial {expected.best.trial}, step {expected.best.step}" in shown.inner_text()
    assert len(answers) > 3
    assert "needs fresh data" in watched.page.locator(f"#slider-{place}").inner_text()
    watched.page.get_by_role("button", name="Reset").nth(place).click()


def test_the_limit_is_drawn_where_the_slider_stands(browser: Browser, report: Path) -> None:
    with opened(browser, report) as watched:
        watched.page.locator("#field-0").fill("0.123")
        watched.page.locator("#plot-what_if").scroll_into_view_if_needed()
        watched.page.wait_for_function(
            "() => document.getElementById('plot-what_if').layout?.shapes"
            ".some((shape) => shape.x0 === 0.123)"
        )
        watched.page.get_by_role("button", name="Reset").first.click()
        watched.page.wait_for_function(
            "() => document.getElementById('plot-what_if').layout.shapes"
            ".every((shape) => shape.x0 !== 0.123)"
        )


def test_words_of_the_study_stay_text(browser: Browser, hostile: Path) -> None:
    for scripts in (True, False):
        with opened(browser, hostile, scripts=scripts, width=390) as watched:
            page = watched.page
            assert "<script>" in page.locator("#answer").inner_text()
            assert page.locator("img, iframe, object").count() == 0
            if scripts:
                watched.see_everything()
                for trial in page.locator("#trial-table [data-trial]").all()[:40:5]:
                    trial.click()
                    page.get_by_role("button", name="Close").click()
                assert page.evaluate("window.injected") is None
                assert page.evaluate(OVERFLOW) <= 0  # long words do not widen a phone
            assert watched.complaints == []
            assert watched.requests == [hostile.as_uri()]


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (390, True)])
def test_accessible(browser: Browser, report: Path, width: int, dark: bool) -> None:
    with opened(browser, report, width=width, dark=dark) as watched:
        page = watched.page
        expect(page.locator("#theme")).to_have_text("Light" if dark else "Dark")
        watched.see_everything()
        assert page.evaluate(OVERFLOW) <= 0
        assert page.locator("#trial-table .frame").evaluate(WIDER) <= 0  # nothing is cut off
        assert watched.serious_findings() == []
        page.locator("#trial-table [data-trial]").nth(3).click()
        expect(page.locator("dialog")).to_be_visible()
        assert page.evaluate(OVERFLOW) <= 0
        assert watched.serious_findings("dialog") == []


def test_by_keyboard(browser: Browser, report: Path) -> None:
    with opened(browser, report) as watched:
        page = watched.page
        page.keyboard.press("Tab")
        expect(page.locator(".skip")).to_be_focused()
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.id") == "range-0":
                break
        expect(page.locator("#range-0")).to_be_focused()
        before = page.locator("#range-0").get_attribute("aria-valuetext")
        for _ in range(10):
            page.keyboard.press("ArrowRight")
        assert page.locator("#range-0").get_attribute("aria-valuetext") != before

        head = page.locator("#trial-table th button.sort").first
        head.focus()
        page.keyboard.press("Enter")
        expect(page.locator("#trial-table th").first).to_have_attribute("aria-sort", "descending")
        page.locator("#trial-table [data-trial]").first.focus()
        page.keyboard.press("Enter")
        expect(page.locator("dialog h2")).to_have_text("Trial 120")
        page.keyboard.press("Escape")
        expect(page.locator("dialog")).to_be_hidden()
        expect(page.locator("#trial-table [data-trial]").first).to_be_focused()


def test_a_trial_says_why_it_was_stopped(browser: Browser, finished: Path, report: Path) -> None:
    trials = acetune.load(finished).trials
    stopped = trials[trials["state"] == "stopped"]
    with opened(browser, report) as watched:
        page = watched.page
        page.locator("#filter-state").select_option("stopped")
        expect(page.locator("#trials-shown")).to_contain_text(f"of {len(stopped)} ")
        page.locator("#trial-words").fill("")
        while page.locator("#trials-on").is_enabled():
            page.locator("#trials-on").click()
        page.locator("#trial-table [data-trial]").last.click()
        # one of the last, whose details are in the file: word for word as in the study file
        text = page.locator("dialog .why").inner_text()
        assert stopped["reason"].iloc[-1] in text


def test_trials_are_sorted_by_what_the_table_has_no_column_for(
    browser: Browser, finished: Path, report: Path
) -> None:
    trials = acetune.load(finished).trials
    smallest = trials.sort_values("param.lr").index[:3].tolist()
    with opened(browser, report, width=390) as watched:
        page = watched.page
        page.locator("#trial-sort").select_option("lr")
        shown = page.locator("#trial-table [data-trial]").all_inner_texts()
        assert [int(text) for text in shown[:3]] == smallest
        page.get_by_role("button", name="Reverse").click()
        assert page.locator("#trial-table [data-trial]").all_inner_texts()[0] != shown[0]


def test_a_parameter_that_is_none_is_shown_as_none(
    browser: Browser, finished: Path, report: Path
) -> None:
    trials = acetune.load(finished).trials
    without = trials.index[trials["param.decay"].isna()][0]
    with opened(browser, report) as watched:
        row = watched.page.locator(f"#trial-table tr:has([data-trial='{without}'])")
        assert "decay = None" in (row.text_content() or "")


def test_a_miss_says_what_it_counts_as(browser: Browser, finished: Path, report: Path) -> None:
    constraint = acetune.load(finished).goals.constraints[0]
    assert constraint.margin_se == 1
    with opened(browser, report, scripts=False) as watched:
        misses = watched.page.locator("#answer tr:has(.bad):has-text('counts as')")
        for text in misses.all_inner_texts():
            found = re.search(r"([\d.]+) ± ([\d.]+)\s+counts as ([\d.]+)", text)
            assert found is not None, text
            value, stderr, counts = map(float, found.groups())
            assert counts == pytest.approx(value + stderr, rel=0.01)
            assert counts >= constraint.limit and "beyond" in text
        assert misses.count() > 0


def test_the_configuration_is_copied(browser: Browser, finished: Path, report: Path) -> None:
    best = acetune.load(finished).best
    assert best is not None
    with opened(browser, report) as watched:
        page = watched.page
        page.get_by_role("button", name="Copy as JSON").click()
        expect(page.get_by_role("button", name="Copied")).to_be_visible()
        page.locator("#trial-words").focus()
        page.keyboard.press("ControlOrMeta+v")
        # the parameters alone, trained to their end, would make another model
        assert json.loads(page.locator("#trial-words").input_value()) == {
            "params": best.params,
            "step": best.step,
            "total_steps": best.total_steps,
            "trial": best.trial,
        }
        assert watched.complaints == []


def test_on_paper_everything_is_drawn_in_light_colours(browser: Browser, report: Path) -> None:
    with opened(browser, report, dark=True) as watched:
        page = watched.page
        colour = "getComputedStyle(document.querySelector('#plot-progress text')).fill"
        watched.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        plots = page.locator("main .plot:visible")
        assert plots.count() == plots.locator(".main-svg:first-child").count() >= 9
        on_paper = page.evaluate(colour)
        watched.page.evaluate("dispatchEvent(new Event('afterprint'))")
        page.locator("#plot-progress").scroll_into_view_if_needed()
        page.wait_for_function(f"before => {colour} !== before", arg=on_paper)
        assert page.locator("#theme").inner_text() == "Light"  # dark again


def test_without_javascript(browser: Browser, finished: Path, report: Path) -> None:
    best = acetune.load(finished).best
    assert best is not None
    with opened(browser, report, scripts=False) as watched:
        page = watched.page
        expect(page.locator("#answer .words")).to_contain_text(f"{best.value:.5g}")
        expect(page.locator("#numbers .figure-number").first).to_be_visible()
        expect(page.locator("#confirmations table")).to_be_visible()
        expect(page.locator("#trial-table table")).to_be_visible()
        expect(page.locator("#plot-progress .still path").first).to_be_visible()
        page.locator("#figure-progress summary").click()
        expect(page.locator("#table-progress table")).to_be_visible()
        expect(page.locator("#theme")).to_be_hidden()


def test_trials_have_the_same_columns_with_and_without_javascript(
    browser: Browser, report: Path
) -> None:
    heads = []
    for scripts in (True, False):
        with opened(browser, report, scripts=scripts) as watched:
            if scripts:
                expect(watched.page.locator("#trial-table.ready")).to_be_attached()
            heads.append(watched.page.locator("#trial-table th[scope=col]").all_text_contents())
    assert heads[0] == heads[1]
    assert heads[0][0] == "trial" and heads[0][-2:] == ["training (s)", "configuration"]


@pytest.mark.parametrize(
    "options", [{"feasible": False}, {"constraints": 0}, {"mode": "min", "constraints": 3}]
)
def test_other_studies(browser: Browser, tmp_path: Path, options: dict[str, Any]) -> None:
    study = make_study(tmp_path / "study.db", trials=30, reports=400, **options)
    report = write_report(study, tmp_path / "report.html")
    with opened(browser, report) as watched:
        assert watched.page.locator("#what-if").is_visible() == (options.get("constraints") != 0)
        watched.see_everything()
        assert watched.complaints == []
    content = report.read_text().split('id="content">')[1].split("</script>")[0]
    assert json.loads(content)["answer"]["outcome"] == (
        "none feasible" if "feasible" in options else "feasible"
    )


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_odd_numbers_and_long_names(browser: Browser, tmp_path: Path, size: float) -> None:
    name = "\N{ARABIC LETTER AIN}" * 5_000 + "\N{RIGHT-TO-LEFT OVERRIDE}"
    goals = Goals(Objective("loss" * 2_000, "min"), (Constraint(name, upper=size),))
    trials = [
        [
            Attempt(
                [(place * size, {name: Estimate(place * size / 4, size / 50)})], None, "failed", 0
            )
        ]
        for place in range(8)
    ]
    study = tmp_path / "study.db"
    write(Written(goals, trials), study).close()
    for width in (1200, 390):
        with opened(browser, write_report(study, tmp_path / "odd.html"), width=width) as watched:
            watched.see_everything()
            watched.page.locator("#trial-table [data-trial]").first.click()
            expect(watched.page.locator("dialog")).to_be_visible()
            assert watched.complaints == []
            assert watched.page.evaluate(OVERFLOW) <= 0
            assert watched.page.locator("#trial-table .frame").evaluate(WIDER) <= 0


def test_a_study_without_a_report(browser: Browser, tmp_path: Path) -> None:
    goals = Goals(Objective("auc", "max"), (Constraint("gap", upper=0.1),))
    study = tmp_path / "study.db"
    write(Written(goals, []), study).close()
    with opened(browser, write_report(study, tmp_path / "empty.html")) as watched:
        watched.see_everything()
        expect(watched.page.locator("#answer")).to_contain_text("Nothing was reported")
        assert watched.complaints == []
