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
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("**/*.md"))
_CODE = re.compile(
    r"^(?P<indent> *)```python(?: hl_lines=\"(?P<marked>[\d ]+)\")?\n(?P<block>.*?)^(?P=indent)```"
    r"|^<!-- setup\n(?P<setup>.*?)^-->",
    re.MULTILINE | re.DOTALL,
)
# pages that load frameworks, which takes long; their warnings are not ours to make errors of
FRAMEWORKS = {
    "callbacks.md": "error::DeprecationWarning",
    "howto/catboost.md": "error::DeprecationWarning",
    "howto/cluster.md": "default",  # Ray
    "howto/from_ray_tune.md": "default",
    "howto/keras.md": "default",
    "howto/lightgbm.md": "error::DeprecationWarning",
    "howto/lightning.md": "default",
    "howto/pytorch.md": "default",
    "howto/scikit_learn.md": "error::DeprecationWarning",
    "howto/slurm.md": "default",
    "howto/trainer.md": "default",
    "howto/xgboost.md": "error::DeprecationWarning",
    "trackers.md": "default",
}
# what the blocks of a page must have printed, beside the answers of their studies
PRINTED = {
    "ask_and_tell.md": [r"^trial-\d+: rank \d+ of \d+", r"^best feasible: CheckedCheckpoint"],
    "concepts.md": [r"^5 valid stops", r"^4 invalid goes on", r"^best feasible: 0 0.8$"],
    "dry_run.md": [r"^dry run: no error with rate="],
    "ending_early.md": [r"^(?:patience_trials|target_reached) "],
    "extend/callback.md": [r"^15 trials ended"],
    "extend/constraint.md": [r"True\n.*False"],
    "extend/policy.md": [r"rank|stopped"],
    "faults.md": [r"^None\n"],
    "howto/after_a_crash.md": [r"^1 +2 +finished +20$"],
    "howto/from_optuna.md": [r"^\{'rate': .*\n(?:.*\n)*FoundCheckpoint\(trial="],
    "howto/from_ray_tune.md": [r"^best feasible: \{'rate'"],
    "howto/none_feasible.md": [r"^none feasible\nFoundCheckpoint\(.*\nsize at 5: 0\.\d+"],
    "howto/two_constraints.md": [r"^parity at 0\.12, recall at 0\.5: 0\.\d+"],
    "latency.md": [r"^p50 .* ms \(500 calls on .*\)\nEstimate\(value="],
    "optuna.md": [r"^FoundCheckpoint\(trial=", r"'size': Estimate\(value=(?:[0-4]\.|5\.0\b)"],
    "own_checks.md": [r"^[1-9]\d* turned down", r"^errors: errors want upper="],
    "policies.md": [r"^none .* 1200 reports", r"^adaptive .* [1-9]\d\d reports"],
    "replay.md": [r"^none: .*\nasha: .*\nace: "],
    "resume.md": [r"^6 trials\n10 trials"],
    "see.md": [r"^9 figures"],
    "several_constraints.md": [r"^\(False, 0\.7\d*\)", r"True 0.0\n"],
    # on a busy machine checks cost more, fewer are made, and the answer may not be certified
    "start.md": [
        r"^status +(certified$|holds:)",
        r"^(certified|holds) \{'rate'",
        r"^gap at 0\.15: 0\.\d+ \(trial",
    ],
    "trackers.md": [r"^answer: trial-0000\d 0\.\d+ \{"],
    "theory.md": [r"^1 30.0 30.0\n", r"^16 4\.1 16\n"],
}


class Block(NamedTuple):
    """Python code of a page."""

    line: int  # of its first line of code, from 1
    code: str
    hidden: bool
    marked: tuple[int, ...] = ()  # lines of it that the site marks as new


class Shown(NamedTuple):
    """What a block printed."""

    line: int
    code: str
    out: str


def blocks(page: Path) -> list[Block]:
    """The Python code of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _CODE.finditer(text):
        name = "setup" if match["setup"] is not None else "block"
        line = text.count("\n", 0, match.start(name)) + 1
        indent = match["indent"] or ""
        code = re.sub(f"^{indent}", "", match[name], flags=re.MULTILINE)
        marked = tuple(map(int, (match["marked"] or "").split()))
        found.append(Block(line, code, name == "setup", marked))
    return found


WITH_CODE = [page for page in PAGES if blocks(page)]


def name_of(page: Path) -> str:
    """A page as it is called in test names."""
    return page.relative_to(DOCS).as_posix()


def require_page(page: Path, folder: Path) -> None:
    """The code of a page runs, finds something feasible, and prints what it should."""
    shown = run_page(page, folder)
    for line, code, out in shown:
        if "print(result)" in code:
            assert "best feasible" in out, f"{name_of(page)}:{line}"
            assert "none feasible" not in out, f"{name_of(page)}:{line}"
    everything = "".join(block.out for block in shown)
    for pattern in PRINTED.get(name_of(page), []):
        assert re.search(pattern, everything, re.MULTILINE), f"{pattern!r} in\n{everything}"


def run_page(page: Path, folder: Path) -> list[Shown]:
    """Run all code of a page in a process of its own, in an empty folder."""
    paths = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "HOME": str(folder), "PYTHONPATH": paths.rstrip(os.pathsep)}
    code = f"import documents; documents.play({str(page)!r})"
    warnings = FRAMEWORKS.get(name_of(page), "error")
    done = subprocess.run(
        [sys.executable, "-W", warnings, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=400,  # Ray on a busy machine; nothing else comes near
        env=env,
    )
    assert done.returncode == 0, f"{name_of(page)}:\n{done.stderr}"
    return [Shown(*row) for row in json.loads((folder / "shown.json").read_text())]


def play(name: str) -> None:
    """Run the code of a page in the main module; tracebacks name the page and its line."""
    page = Path(name)
    names = vars(sys.modules["__main__"])
    shown = []
    for line, code, hidden, _ in blocks(page):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile("\n" * (line - 1) + code, name, "exec"), names)
        if not hidden:
            shown.append(Shown(line, code, out.getvalue()))
    Path("shown.json").write_text(json.dumps(shown))
