"""What a function imports in its body from the user's own files, read from their text.

Such a module may be loaded in one session and not in the next, and a worker loads it anew. So what
counts is its file, whether it is loaded or not, and nothing is imported to read it: of the top
level of the file those statements count that give what is asked of the module, with what they
refer to, in other files too.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
import tokenize
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any, NamedTuple

from acetune.study._code_digests import digest_of_tree
from acetune.trial.checks import is_users_file

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)


class Imported(NamedTuple):
    """What was asked of the user's modules."""

    code: dict[str, list[str]]  # by name: digests of syntax trees
    values: dict[str, Any]  # what is written out as a number, a text or a container of them


class ModuleReader:
    """Follows imports from file to file. ``errors`` takes what cannot be read."""

    def __init__(self, errors: list[str]) -> None:
        self._errors = errors
        self._wanted: dict[str, set[str]] = {}
        self._files: dict[str, _File] = {}

    def take(self, module: str, names: set[str]) -> bool:
        """Take in those names of a module. False: it is nowhere as a file to be read."""
        if not names <= self._wanted.get(module, set()) or module not in self._wanted:
            spec = _find(module)
            if spec is None:
                return False
            if spec.origin is None or not is_users_file(spec.origin):
                # installed, or built in, or a folder of modules: what is used stands in the code
                return spec.submodule_search_locations is not None or spec.origin is not None
            if not spec.origin.endswith(".py"):
                return False
            self._wanted.setdefault(module, set()).update(names)
            try:
                if module not in self._files:
                    self._files[module] = _File(spec)
            except (OSError, SyntaxError, ValueError, RecursionError) as error:
                self._errors.append(f"import {module} ({error})")
                return True
            for other, others in self._files[module].follow(self._wanted[module]).items():
                self.take(other, others)
        return True

    def found(self) -> Imported:
        """All that was taken in."""
        found = Imported({}, {})
        for name, file in self._files.items():
            for node in file.taken:
                value = _written_out(node)
                if value is not None:
                    found.values[f"{name}.{value[0]}"] = value[1]
                    continue
                names = file.given[id(node)] or file.used[id(node)] & self._wanted[name]
                label = f"{', '.join(sorted(names))} in {Path(file.path).name}"
                found.code.setdefault(label, []).append(digest_of_tree(node))
        return found


class _File:
    """The statements at the top level of a module."""

    def __init__(self, spec: ModuleSpec) -> None:
        self.path = spec.origin or ""
        self._module = spec.name
        self._package = spec.name if spec.submodule_search_locations else spec.parent or ""
        with tokenize.open(self.path) as text:
            body = ast.parse(text.read()).body
        self._body = [node for node in body if not _is_main(node)]
        self.given = {id(node): _given(node) for node in self._body}
        self.used = {id(node): _names(node) for node in self._body}
        self.taken: list[ast.stmt] = []

    def follow(self, wanted: set[str]) -> dict[str, set[str]]:
        """Take the statements that matter for those names; what they ask of other modules."""
        wanted |= {"__getattr__"}
        mine = [node for node in self._body if not isinstance(node, _IMPORTS)]
        grows = True
        while grows:
            grows = False
            for node in mine:
                gives = self.given[id(node)] & wanted
                # such as OPTIONS.update(...)
                changes = isinstance(node, ast.Expr) and self.used[id(node)] & wanted
                if node not in self.taken and (gives or changes):
                    self.taken.append(node)
                    wanted |= self.used[id(node)]
                    grows = True
        self.taken.sort(key=lambda node: node.lineno)
        attributes = set(wanted)
        asked: dict[str, set[str]] = {}
        for node in self._body:
            if isinstance(node, _IMPORTS):
                self._ask(node, wanted, attributes, asked)
        for node in self.taken:
            for inner in ast.walk(node):
                if isinstance(inner, _IMPORTS):
                    self._ask(inner, None, attributes, asked)
        return asked

    def _ask(
        self,
        node: ast.Import | ast.ImportFrom,
        wanted: set[str] | None,
        attributes: set[str],
        asked: dict[str, set[str]],
    ) -> None:
        """What an import statement asks of which module, as far as its names are wanted."""
        for alias in node.names:
            bound = alias.asname or alias.name.partition(".")[0]
            if alias.name != "*" and wanted is not None and bound not in wanted:
                continue
            if isinstance(node, ast.Import):
                parts = alias.name.split(".")
                for end in range(1, len(parts) + 1):
                    asked.setdefault(".".join(parts[:end]), set()).update(attributes)
                continue
            module = absolute(node.module or "", node.level, self._package)
            if alias.name == "*":
                asked.setdefault(module, set()).update(attributes)
                continue
            asked.setdefault(module, set()).add(alias.name)
            inner = f"{module}.{alias.name}"
            if _find(inner) is not None:
                asked.setdefault(inner, set()).update(attributes)


def absolute(module: str, level: int, package: str) -> str:
    """The whole name of a module that is imported by so many dots.

    Outside a package it stays as it is: that import fails, and often in a ``try`` of its own.
    """
    relative = "." * level + module
    try:
        return importlib.util.resolve_name(relative, package)
    except ImportError:
        return relative


def submodules(module: str, names: set[str]) -> list[str]:
    """Those of the names that are modules of their own within it."""
    return [inner for name in sorted(names) if _find(inner := f"{module}.{name}") is not None]


def _find(module: str) -> ModuleSpec | None:
    """Where a module would come from. Unlike Python's own this never imports a package for it."""
    spec: ModuleSpec | None = getattr(sys.modules.get(module), "__spec__", None)
    if spec is not None:
        return spec
    top, *parts = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
        for part in parts:
            if spec is None or spec.submodule_search_locations is None:
                return None
            inside = list(spec.submodule_search_locations)
            spec = PathFinder.find_spec(f"{spec.name}.{part}", inside)
    except (ImportError, ValueError, AttributeError):
        return None
    return spec


def _names(node: ast.AST) -> set[str]:
    """What it refers to, and attributes of that."""
    found = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            found.add(inner.id)
        elif isinstance(inner, ast.Attribute):
            found.add(inner.attr)
    return found


def _given(node: ast.stmt) -> set[str]:
    """Names that a statement at the top level gives to its module."""
    if isinstance(node, _DEFINITIONS):
        return {node.name}
    found = set()
    for inner in ast.walk(node):
        if isinstance(inner, _DEFINITIONS):
            found.add(inner.name)
        elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            found.add(inner.id)
        elif isinstance(inner, (ast.Attribute, ast.Subscript)):
            if isinstance(inner.ctx, ast.Store) and isinstance(inner.value, ast.Name):
                found.add(inner.value.id)  # OPTIONS["scale"] = 2
        elif isinstance(inner, ast.alias):  # in try and if
            found.add(inner.asname or inner.name.partition(".")[0])
    return found


def _written_out(node: ast.stmt) -> tuple[str, Any] | None:
    """The name and value of ``NAME = literal``."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target: ast.expr = node.targets[0]
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        target = node.target
    else:
        return None
    if not isinstance(target, ast.Name) or node.value is None:
        return None
    try:
        return target.id, ast.literal_eval(node.value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _is_main(node: ast.stmt) -> bool:
    """What runs only as a program."""
    if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare):
        return False
    return isinstance(node.test.left, ast.Name) and node.test.left.id == "__name__"
