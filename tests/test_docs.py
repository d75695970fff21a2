"""What README and examples show runs, and what all documents point to exists.

The code of the pages in docs/ is run by test_documentation_pages.py and its sibling.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from documents import blocks

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "acetune"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "tables" / "README.md",
    ROOT / "benchmarks" / "README.md",
    ROOT / "paper" / "README.md",
    *sorted((ROOT / "docs").glob("**/*.md")),
]


def _run(example: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(example)]
    if "STUDY = " in example.read_text():  # for the command line
        study = str(folder / "study.db")
        command = [sys.executable, "-m", "acetune", "run", str(example), "--study", study]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=170)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example_runs(example: Path, tmp_path: Path) -> None:
    done = _run(example, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "best feasible" in done.stdout
    assert "none feasible" not in done.stdout


README = (ROOT / "README.md").read_text()


def test_the_example_of_the_readme_is_the_end_of_the_one_on_fairness() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert (ROOT / "examples" / "fairness.py").read_text().endswith(block)
    assert block.startswith("def train")


def test_the_readme_counts_the_lines_that_the_guides_mark_as_new() -> None:
    guides = [ROOT / "docs" / "howto" / f"from_{name}.md" for name in ("optuna", "ray_tune")]
    new = [len(block.marked) for guide in guides for block in blocks(guide) if block.marked]
    assert f"{new[0]} and {new[1]} new lines" in README


def test_the_readme_is_read_in_five_minutes() -> None:
    assert README.count("\n") <= 150


def test_the_commands_of_the_replay_run(tmp_path: Path) -> None:
    page = ROOT / "docs" / "howto" / "choose_a_policy.md"
    (tmp_path / "study.py").write_text(blocks(page)[0].code)
    commands = re.findall(r"^    (acetune .*)$", page.read_text(), re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        words = [sys.executable, "-m", *command.split()]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=170)
        assert done.returncode == 0, done.stderr
        if words[3] == "replay":  # a budget that lets policies find something
            assert re.search(r"^adaptive +0\.\d+ ± ", done.stdout, re.MULTILINE), done.stdout
    assert (tmp_path / "over-time.html").exists()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
        if "://" not in target:
            assert (document.parent / target).exists(), target


def _rooms() -> dict[str, str]:
    """The rows of the table of rooms, by the room."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    part = text[text.index("## Rooms") : text.index("## How a report flows")]
    return dict(re.findall(r"^\| `(\w+(?:/|\.py))` \|(.*)$", part, re.MULTILINE))


def test_the_architecture_has_every_room_and_no_other() -> None:
    found = set()
    for path in PACKAGE.iterdir():
        if path.suffix == ".py" and not path.name.startswith("__"):
            found.add(path.name)
        elif (path / "__init__.py").exists():
            found.add(f"{path.name}/")
    assert set(_rooms()) == found


def test_rooms_are_in_the_order_of_the_layers() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    ordered = [room for layer in layers for room in layer.split(" | ")]
    assert [room.removesuffix("/").removesuffix(".py") for room in _rooms()] == ordered


def test_modules_named_of_a_room_are_in_it() -> None:
    for room, row in _rooms().items():
        modules = re.findall(r"`([\w.]+)`", row.split("|")[1])
        assert room.endswith(".py") or 2 <= len(modules) <= 5, room
        for module in modules:
            assert (PACKAGE / room / module).exists(), f"{room}{module}"


@pytest.mark.parametrize(
    "document", ["docs/architecture.md", "docs/internals.md", "docs/policies.md", "CONTRIBUTING.md"]
)
def test_files_that_a_document_names_exist(document: str) -> None:
    text = (ROOT / document).read_text()
    named = set(re.findall(r"`((?:\w+/)+(?:\w+\.(?:py|js))?)`", text))
    assert named
    for name in named:
        assert (PACKAGE / name).exists() or (ROOT / name).exists(), name


def test_functions_that_the_architecture_names_are_where_it_says() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    named = re.findall(r"`([\w.]+)`(?: and `([\w.]+)`)? in `([\w/]+\.py)`", text)
    assert len(named) >= 5
    for *functions, path in named:
        for function in filter(None, functions):
            name = function.rpartition(".")[2]
            assert f"def {name}(" in (PACKAGE / path).read_text(), f"{function} in {path}"
