"""``acetune report``: what it writes, what it says, and how it fails."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

from acetune.cli import app
from acetune.core.errors import AcetuneError, GoalError, StudyFileError
from acetune.report.html import plotly_js, write_report
from browser import find_browser
from synthetic_study import make_study


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return make_study(tmp_path / "small.db", trials=12, reports=120)


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["report", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_it_lies_beside_the_study_and_its_path_and_size_are_said(small: Path) -> None:
    output = run(small)
    written = small.with_suffix(".html")
    assert str(written) in output
    assert f"{written.stat().st_size / 1e6:.3g} MB" in output
    assert [path.name for path in small.parent.glob("*.html*")] == ["small.html"]


def test_it_goes_where_it_is_told(small: Path, tmp_path: Path) -> None:
    run(small, "-o", tmp_path / "new" / "folder" / "page.html")
    assert (tmp_path / "new" / "folder" / "page.html").exists()
    assert not small.with_suffix(".html").exists()


def test_a_name_that_is_no_text_can_be_shown(tmp_path: Path) -> None:
    study = make_study(tmp_path / os.fsdecode(b"caf\xe9.db"), trials=12, reports=120)
    written = write_report(study, tmp_path / "report.html")
    assert "<h1>caf?.db</h1>" in written.read_text("utf-8")


def test_a_large_study_with_many_parameters_stays_small(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study.db", trials=5_000, reports=20_000, constraints=2)
    with sqlite3.connect(study) as db:
        rows = db.execute("SELECT rowid, params FROM trials").fetchall()
        more = [
            (json.dumps(json.loads(params) | {f"p{i}": (row * 0.618 + i) % 1 for i in range(13)}),
             row) for row, params in rows
        ]  # fmt: skip
        db.executemany("UPDATE trials SET params = ? WHERE rowid = ?", more)
    db.close()
    assert write_report(study, tmp_path / "report.html").stat().st_size < 6_000_000


def test_figures_as_images(small: Path, tmp_path: Path) -> None:
    if find_browser() is None:
        pytest.skip("images are drawn by Chrome or Chromium, and none was found")
    run(small, "--png", tmp_path / "images", "--figure", "progress", "--figure", "time")
    images = sorted((tmp_path / "images").iterdir())
    assert [image.name for image in images] == ["progress.png", "time.png"]
    assert all(image.read_bytes().startswith(b"\x89PNG") for image in images)
    assert not small.with_suffix(".html").exists()  # nobody asked for it


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (["--figure", "time"], GoalError, "--png FOLDER"),
        (["--png", "images", "--figure", "tim"], GoalError, "no figure 'tim'"),
        (["-o", "report.pdf"], GoalError, "must end in .html, got 'report.pdf'"),
        (["-o", "/proc/nowhere/report.html"], AcetuneError, "cannot write /proc/nowhere"),
    ],
)
def test_what_cannot_be_done_is_said(
    small: Path, arguments: list[str], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=re.escape(words)):
        run(small, *arguments)
    assert list(small.parent.glob("*.html*")) == []


def test_a_study_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StudyFileError, match=r"missing\.db"):
        run(tmp_path / "missing.db")


def test_nothing_but_what_was_hashed_may_run(small: Path) -> None:
    text = write_report(small, small.with_suffix(".html")).read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert not re.search(r"unsafe|https?:|data:|blob:|\*", policy[1])
    # nothing is taken from elsewhere: no address in an attribute, outside plotly.js
    assert not re.search(r'(?:src|href)="(?!#)', text.replace(plotly_js(), ""))


def test_a_large_study_stays_small(tmp_path: Path) -> None:
    study = make_study(tmp_path / "large.db", trials=5_000, reports=50_000, constraints=2)
    assert write_report(study, tmp_path / "large.html").stat().st_size < 6_000_000
