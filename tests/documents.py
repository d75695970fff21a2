"""The pages of the documentation, their Python blocks, and how a page is run.

Every ```python block of a page runs, in order, in one namespace and one process, so that a block
may go on from the one before. Code that a page needs and readers do not stands in a comment::

    <!-- setup
    X = ...
    -->

What cannot run here (a cluster's address, a device that is not there) is fenced as ```text.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

T = TypeVar("T")

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("**/*.md"))
_CODE = re.compile(
    r"^(?P<indent> *)```python\n(?P<block>.*?)^(?P=indent)```"
    r"|^<!-- setup\n(?P<setup>.*?)^-->",
    re.MULTILINE | re.DOTALL,
)
# where a warning is not ours to make an error of
_WARNINGS = {
    "callbacks.md": "error::DeprecationWarning",
    "callbacks_neural.md": "default",
    "cluster.md": "default",  # Ray
}


class Block(NamedTuple):
    """Python code of a page."""

    line: int  # of its first line of code, from 1
    code: str
    hidden: bool


class Shown(NamedTuple):
    """What a block printed."""

    line: int
    code: str
    out: str


class Played(NamedTuple):
    """A page that was run: where, and what its visible blocks printed."""

    folder: Path
    shown: list[Shown]


def blocks(page: Path) -> list[Block]:
    """The Python code of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _CODE.finditer(text):
        name = "setup" if match["setup"] is not None else "block"
        line = text.count("\n", 0, match.start(name)) + 1
        indent = match["indent"] or ""
        code = re.sub(f"^{indent}", "", match[name], flags=re.MULTILINE)
        found.append(Block(line, code, hidden=name == "setup"))
    return found


def name_of(page: Path) -> str:
    """A page as it is called in test names."""
    return page.relative_to(DOCS).as_posix()


def run_page(page: Path, folder: Path) -> Played:
    """Run all code of a page in a process of its own, in an empty folder."""
    env = {**os.environ, "HOME": str(folder), "PYTHONPATH": str(Path(__file__).parent)}
    code = f"import documents; documents.play({str(page)!r})"
    warnings = _WARNINGS.get(name_of(page), "error")
    done = subprocess.run(
        [sys.executable, "-W", warnings, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=400,  # Ray on a busy machine; nothing else comes near
        env=env,
    )
    assert done.returncode == 0, f"{name_of(page)}:\n{done.stderr}"
    rows = json.loads((folder / "shown.json").read_text())
    return Played(folder, [Shown(*row) for row in rows])


def play(name: str) -> None:
    """Run the code of a page in the main module; tracebacks name the page and its line."""
    page = Path(name)
    names = vars(sys.modules["__main__"])
    shown = []
    for line, code, hidden in blocks(page):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile("\n" * (line - 1) + code, name, "exec"), names)
        if not hidden:
            shown.append(Shown(line, code, out.getvalue()))
    Path("shown.json").write_text(json.dumps(shown))


@contextlib.contextmanager
def running_ahead(chosen: list[Path], run: Callable[[Path], T]) -> Iterator[Callable[[Path], T]]:
    """``run`` for all of ``chosen``, two at a time: they mostly wait for their workers.

    Gives a function that waits for one of them. Where the tests themselves are shared out among
    processes, nothing is run ahead: each process would run everything.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        yield run
        return
    with ThreadPoolExecutor(2) as pool:
        under_way = {path: pool.submit(run, path) for path in chosen}
        yield lambda path: under_way[path].result()
