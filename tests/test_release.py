"""The version is the same wherever it stands, and `make release` refuses what is not ready."""

from __future__ import annotations

import re
import tomllib

import pytest

import acetune
from documents import ROOT
from tools import make_speed_page
from tools.pythons import supported
from tools.release import (
    ProblemError,
    readme_for_an_index,
    refuse_if_measured_on_older_code,
    refuse_if_not_dated,
)


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    cited = re.findall(r"^version: (.+)$", citation, re.MULTILINE)
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.findall(r"^## (\S+) \(", changelog, re.MULTILINE)[0]
    assert {project["version"], *cited, newest} == {acetune.__version__}


@pytest.mark.parametrize(
    "first",
    ["## 0.2.0 (not released)", "## 0.1.0 (2026-12-01)", "## 0.2.0", "## 0.2.01 (2026-12-01)"],
)
def test_a_version_that_the_changelog_does_not_date_is_not_released(first: str) -> None:
    with pytest.raises(ProblemError, match=re.escape("write '## 0.2.0 (YEAR-MONTH-DAY)'")):
        refuse_if_not_dated(f"# Changelog\n\n{first}\n\n- New.\n", "0.2.0")
    refuse_if_not_dated("# Changelog\n\n## 0.2.0 (2026-12-01)\n\n## 0.1.0 (x)\n", "0.2.0")


def test_every_supported_version_of_python_is_tried() -> None:
    assert supported() == ["3.11", "3.12", "3.13"]


def test_figures_of_older_code_are_not_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_speed_page, "older", lambda found: ["ray_overhead", "gpu"])
    with pytest.raises(ProblemError, match=r'make bench BENCHMARKS="ray_overhead"$'):
        refuse_if_measured_on_older_code()
    monkeypatch.setattr(make_speed_page, "older", lambda found: ["gpu"])
    refuse_if_measured_on_older_code()


def test_the_readme_of_the_packages_leads_nowhere_that_an_index_has_not() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "](docs/" in readme
    packaged = readme_for_an_index(readme)
    assert re.findall(r"\]\((?!https://)", packaged) == []
    assert "![" not in packaged
    assert "Read on" in packaged and "constraints=[acetune.Constraint(" in packaged
    assert "With Python" in packaged and "pip install 'acetune[lightgbm]'" in packaged
    kept = "![A](https://a.b/c.svg) and [PEP 8](https://a.b)\n"
    assert readme_for_an_index(f"![Picture](docs/a.svg)\n\n[Start](docs/a.md): {kept}") == (
        f"Start: {kept}"
    )
