"""Every Python block of the documentation runs.

Those of pages that load frameworks do in test_documentation_frameworks.py: tests are shared out
among processes by file.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import acetune
from documents import FRAMEWORKS, PAGES, PRINTED, WITH_CODE, blocks, name_of, require_page


@pytest.mark.parametrize(
    "page", [page for page in WITH_CODE if name_of(page) not in FRAMEWORKS], ids=name_of
)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    require_page(page, tmp_path)
    if page.name == "start.md":
        try_the_commands(page, tmp_path)


def try_the_commands(page: Path, folder: Path) -> None:
    """What a newcomer types after the first study."""
    commands = re.findall(r"^ {4}(acetune .*?)(?: +#.*)?$", page.read_text(), re.MULTILINE)
    assert [command.split()[1] for command in commands] == ["report", "explain", "show"]
    assert commands[-1].endswith("--require certified")
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", *shlex.split(command)],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=100,
        )
        enough = (
            "--require" not in command or acetune.load(folder / "first.db").status == "certified"
        )
        assert done.returncode == (0 if enough else 5), done.stderr
    assert (folder / "report.html").stat().st_size > 100_000


def test_every_page_that_is_named_is_run() -> None:
    assert {*PRINTED, *FRAMEWORKS} <= {name_of(page) for page in WITH_CODE}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_block_hides_from_the_tests(page: Path) -> None:
    """A fence that is written another way, or of another language, would not be run."""
    text = page.read_text(encoding="utf-8")
    fences = re.findall(r"^ *(```+|~~~+) *([^\n]*)$", text, re.MULTILINE)
    opening = fences[::2]  # they come in pairs
    assert len(fences) % 2 == 0
    assert {fence for fence, _ in fences} <= {"```"}
    stubs = {"pyi", "sql"} if page.name == "public_api.md" else set()  # made from the code
    languages = [language.partition(" hl_lines=")[0] for _, language in opening]
    assert set(languages) <= {"python", "text", "bash"} | stubs
    assert all(not language for _, language in fences[1::2])
    shown = [block for block in blocks(page) if not block.hidden]
    assert len(shown) == languages.count("python")
