"""The layout shows the architecture: rooms, and what is private to them."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "src" / "acetune"
#: beside the package: they may import it, but nothing of it that is private
BESIDE = {folder: PACKAGE.parents[1] / folder for folder in ("paper", "benchmarks")}
MODULES = {
    path.relative_to(PACKAGE).with_suffix("").parts: path
    for path in PACKAGE.rglob("*.py")
    if path.name not in ("__init__.py", "__main__.py")
}
# at the top, where users import them from
PUBLIC = {"__init__.py", "__main__.py", "distributed.py", "export.py", "plot.py", "py.typed"}
# whose modules have public names: verbs of the command, frameworks, checks
NAMED_FOR_USERS = ("cli", "callbacks", "constraints", "testing", "trackers")


def users() -> dict[tuple[str, ...], set[str]]:
    """The rooms that import each module, in functions too, and the folders beside the package."""
    found: dict[tuple[str, ...], set[str]] = defaultdict(set)
    sources = [
        (path.relative_to(PACKAGE).parts[0].removesuffix(".py"), path)
        for path in PACKAGE.rglob("*.py")
    ]
    sources += [(name, path) for name, folder in BESIDE.items() for path in folder.rglob("*.py")]
    for room, path in sources:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            for name in names:
                if name.partition(".")[0] == "acetune":
                    found[tuple(name.split(".")[1:])].add(room)
    return found


def test_only_thin_public_names_lie_at_the_top() -> None:
    assert {path.name for path in PACKAGE.iterdir() if path.is_file()} == PUBLIC


def test_a_private_module_is_used_in_its_own_room_only_and_others_elsewhere() -> None:
    used_by = users()
    for module in MODULES:
        room, name = module[0], module[-1]
        if len(module) == 1 or (room in NAMED_FOR_USERS and not name.startswith("_")):
            continue
        elsewhere = used_by[module] - {room}
        if name.startswith("_"):
            assert not elsewhere, f"{'/'.join(module)} is used in {elsewhere}"
        else:
            assert elsewhere, f"only {room} uses {'/'.join(module)}: call it _{name}"


def test_studies_are_read_by_the_one_reader_elsewhere_too() -> None:
    """The room of the study file has all SQL on it; a recording of curves is a file of its own."""
    own = (PACKAGE / "study", PACKAGE / "replay" / "recorder.py")
    sql = re.compile(r"\bsqlite3\b|\b(SELECT|INSERT INTO|UPDATE|DELETE FROM) ")
    for folder in (PACKAGE, *BESIDE.values()):
        for path in sorted(folder.rglob("*.py")):
            if not any(path.is_relative_to(place) for place in own):
                assert not sql.search(path.read_text("utf-8")), path


def test_no_two_modules_have_one_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for module in MODULES:
        places[module[-1].lstrip("_")].append("/".join(module))
    for where in places.values():  # a verb may be called like what it calls
        assert len([path for path in where if not path.startswith("cli/")]) <= 1, where
