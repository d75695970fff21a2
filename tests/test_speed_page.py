"""Every figure of speed in the documents comes from a result, and tells when it is older."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from documents import ROOT
from tools import make_speed_page
from tools.make_speed_page import ProblemError
from tools.speed_curves import curves


def test_page_and_documents_say_what_was_measured() -> None:
    make_speed_page.require_agreement()


def test_every_benchmark_of_speed_is_on_the_page() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", "")
    names = re.findall(r"^BENCHMARKS \?= (.*)$", makefile, re.MULTILINE)[0].split()
    found = make_speed_page.results()
    assert {*names} | make_speed_page.ELSEWHERE == {*found}
    for name in names:
        assert f"benchmarks/{name}" in found[name]["measures"]
    figures = [figure["name"] for result in found.values() for figure in result["figures"]]
    assert len(figures) == len({*figures})


def test_figures_that_count_something_are_drawn() -> None:
    some = [figure(f"driver-{held}", cost) for held, cost in ((1000, 12.0), (10, 30.0), (100, 6.0))]
    one = figure("constraints-1", 15.0)  # no curve
    drawn = curves({"figures": [*some, one, figure("driver-time", 9.0)]})
    assert [*drawn] == ["reports"]
    svg = ElementTree.fromstring(drawn["reports"])
    texts = [text.text for text in svg.iterfind(".//{*}text")]
    assert texts[0] == "CPU time of a report in the driver, ms"
    assert texts[-3:] == ["10", "100", "1,000"]
    circles = [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in svg.iterfind(".//{*}circle")]
    (x, a), (y, b), (z, c) = circles
    assert y - x == pytest.approx(z - y)  # by the logarithm
    assert a < c < b  # the most on top
    zero = 200  # where the axis is
    assert (zero - a) / (zero - b) == pytest.approx(5, abs=0.05)


def test_a_run_that_was_interrupted_goes_on_with_what_is_not_measured_yet(project: Path) -> None:
    assert make_speed_page.due(["rule", "other"], project) == ["other"]
    (project / "src/acetune/core/rule.py").write_text("LIMIT = 4\n", encoding="utf-8")
    assert make_speed_page.due(["rule", "other"], project) == ["rule", "other"]


def figure(name: str, ours: float, peer: float | None = None) -> dict[str, Any]:
    def same(value: float) -> dict[str, float]:
        return {"median": value, "low": value, "high": value}

    return {
        "name": name,
        "what": f"a {name}",
        "unit": "ms",
        "ours": same(ours),
        "peer": None if peer is None else {"name": "Peer", **same(peer)},
        "ratio": None if peer is None else same(ours / peer),
        "wanted": {"most": 0.5, "least": None} if peer else None,
        "reached": ours / peer <= 0.5 if peer else None,
    }


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a module, a benchmark of it and two documents."""
    for name, text in {
        "src/acetune/core/rule.py": "LIMIT = 3  # as it was\n",
        "benchmarks/rule.py": "ROUNDS = 5\n",
        "README.md": "It takes [? ms](docs/results/speed.md#decision), or less.\n",
        "docs/guide.md": "That is [half](results/speed.md#decision-ratio), `9 ms` apart.\n",
        "docs/results/speed.md": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    measures = ["src/acetune/core/*", "benchmarks/rule"]
    result = {
        "title": "What a rule costs",
        "command": "python benchmarks/rule.py",
        "versions": "Python 3.11",
        "made": "2026-01-01",
        "beside": 0.5,
        "measures": measures,
        "code": make_speed_page.source_hash(measures, root=tmp_path),
        "figures": [figure("decision", 0.3172, 1.0), figure("start", 120.0)],
        "details": ["A table."],
    }
    (tmp_path / "benchmarks/results").mkdir()
    (tmp_path / "benchmarks/results/rule.json").write_text(json.dumps(result), encoding="utf-8")
    (tmp_path / "benchmarks/results/other.json").write_text("[]", encoding="utf-8")
    return tmp_path


def write_all(project: Path) -> None:
    for path, text in make_speed_page.made(project).items():
        path.write_text(text, encoding="utf-8")


def test_documents_are_given_the_figures_of_now(project: Path) -> None:
    with pytest.raises(ProblemError, match=r"run python tools/make_speed_page\.py"):
        make_speed_page.require_agreement(project)
    write_all(project)
    make_speed_page.require_agreement(project)
    assert "[0.32 ms](docs/results/speed.md#decision)" in (project / "README.md").read_text()
    assert "[0.32 times](results/speed.md" in (project / "docs/guide.md").read_text()
    page = (project / "docs/results/speed.md").read_text()
    assert '<a id="decision-ratio"></a>0.32 |' in page
    assert "1 of 1 aims are reached" in page
    assert "Other programs took 50% of this machine's processors" in page


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("It takes [1 ms](results/speed.md#nothing).", "no benchmark has written a figure 'noth"),
        ("It takes 0.3 to 0.4 ms.", r"figures without a source: \['0.3 to 0.4 ms'\]"),
        ("It takes about 4 s, or 2 s.", r"figures without a source: \['takes about 4 s'\]"),
        ("That is 3 times faster.", r"figures without a source: \['3 times faster'\]"),
    ],
)
def test_a_figure_without_a_source_is_refused(project: Path, text: str, said: str) -> None:
    (project / "docs/guide.md").write_text(text, encoding="utf-8")
    with pytest.raises(ProblemError, match=rf"docs/guide\.md.*{said}"):
        make_speed_page.made(project)


def test_a_figure_that_is_older_than_its_code_is_marked(project: Path) -> None:
    write_all(project)
    readme, module = (project / "README.md").read_text(), project / "src/acetune/core/rule.py"
    page = (project / "docs/results/speed.md").read_text()
    module.write_text('"""Another docstring."""\n\nLIMIT = 3  # and another comment\n')
    assert make_speed_page.older(make_speed_page.results(project), project) == []
    assert make_speed_page.marked(readme, project) == readme
    assert make_speed_page.marked_page(page, project) == page

    module.write_text("LIMIT = 4\n")
    assert make_speed_page.older(make_speed_page.results(project), project) == ["rule"]
    assert "[0.32 ms †](docs/results" in make_speed_page.marked(readme, project)
    assert "`make bench BENCHMARKS=rule` measures it" in make_speed_page.marked_page(page, project)
    make_speed_page.require_agreement(project)  # a change of code changes no document

    shutil.rmtree(project / "src")
    assert make_speed_page.older(make_speed_page.results(project), project) == ["rule"]
