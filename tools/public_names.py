"""The public names of acetune with their signatures, read from the sources.

Public are the names in ``__all__`` of a public module, and what the reference shows besides. The
sources are parsed by Griffe, as they are for the reference, and not imported: what is listed does
not depend on the version of Python, nor on the frameworks that are installed.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import griffe
import yaml

import acetune

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
ROOMS = (*acetune._ROOMS, "core.cost")
WIDTH = 88
_ENTRY = re.compile(r"^::: (\S+)\n((?: {4}.*\n)*)", re.MULTILINE)
_SPECIAL = ("__call__", "__enter__", "__exit__", "__init__", "__iter__", "__len__")
_DECORATORS = ("abstractmethod", "classmethod", "overload", "staticmethod")


class Shown(NamedTuple):
    """How the reference shows a class."""

    members: bool | list[str] = True  # all, none or these
    is_made: bool = True  # by users, with its constructor

    def has(self, name: str) -> bool:
        """Whether a member is shown."""
        if name == "__init__":
            return self.is_made
        if isinstance(self.members, list):
            return name in self.members or name in _SPECIAL
        return self.members is not False


def reference() -> dict[str, Shown]:
    """What the pages of the reference show, by its path in the sources."""
    shown = {}
    for page in sorted(REFERENCE.glob("*.md")):
        for path, below in _ENTRY.findall(page.read_text(encoding="utf-8")):
            options = (yaml.safe_load(below) or {}).get("options", {})
            is_made = options.get("merge_init_into_class", True)
            shown[path] = Shown(options.get("members", True), is_made)
    return shown


class Listing:
    """The public names of the package, as stubs.

    Public are the names in ``__all__`` of a public module, and what the reference shows besides.
    """

    def __init__(self) -> None:
        with mock.patch.object(griffe.GitInfo, "from_package", return_value=None):
            # without asking git for links to the sources, which the page has not
            self._package: Any = griffe.load(
                "acetune", search_paths=[ROOT / "src"], resolve_aliases=True
            )
        self._shown = {self._find(path).path: shown for path, shown in reference().items()}
        self._home: dict[str, str] = {}  # the first public module of what has one, by its path
        self._named: dict[str, Any] = {}  # by signatures, by its path

    def sections(self) -> Iterator[str]:
        """A section for each public module, and what is public without being in one."""
        modules = dict(self._modules())
        for title, module in modules.items():
            for _, member in _exported(module):
                if member is not None:
                    self._home.setdefault(member.path, title)
        for title, module in modules.items():
            stubs = [self._stub(name, member, title) for name, member in _exported(module)]
            yield code_block(f"### {title}", stubs)
        yield from self._others()

    def _others(self) -> Iterator[str]:
        classes = [self._find(path) for path in self._shown if path not in self._home]
        classes = [found for found in classes if found.is_class]
        for found in classes:
            self._home[found.path] = ""
            shown = self._shown[found.path]
            self._shown[found.path] = shown._replace(is_made=False)  # users need not make them
        text = "The reference shows these too. Where they are imported from may change."
        stubs = [self._stub(found.name, found, "") for found in _by_name(classes)]
        yield code_block("### Further classes", stubs, text)
        aliases = [found for found in self._named.values() if found.is_attribute]
        text = "Type aliases that signatures above use."
        stubs = [self._stub(found.name, found, "") for found in _by_name(aliases)]
        yield code_block("### Aliases", dict.fromkeys(stubs), text)
        rest = [f for p, f in self._named.items() if f.is_class and p not in self._home]
        names = ", ".join(f"`{found.name}`" for found in _by_name(rest))
        yield f"Signatures also name these classes, whose members may change: {names}.\n"

    def _modules(self) -> Iterator[tuple[str, Any]]:
        waiting = [("acetune", self._package)]
        waiting += [(f"acetune.{room}", self._package[room]) for room in ROOMS]
        while waiting:
            title, module = waiting.pop(0)
            yield title, module
            inner = [(f"{title}.{name}", found) for name, found in _exported(module)]
            waiting[:0] = [each for each in inner if each[1] is not None and each[1].is_module]

    def _find(self, path: str) -> Any:
        """What is at a path; :class:`KeyError` if nothing is."""
        return _target(self._package[path.removeprefix("acetune.")])

    def _stub(self, name: str, member: Any, title: str) -> str:
        if member is None:
            return f"{name} = ...\n"
        if member.is_module:
            return f"{name}  # a module\n"
        home = self._home.get(member.path, title)
        if home != title:
            return f"from {home} import {name}\n"
        if member.is_function:
            return "".join(self._function(found, "") for found in member.overloads or [member])
        if member.is_class:
            return self._class(name, member)
        return self._attribute(member, "", with_value=True)

    # -- classes

    def _class(self, name: str, found: Any) -> str:
        bases = [self._text(base) for base in found.bases if self._is_known(base)]
        head = f"class {name}({', '.join(bases)}):\n" if bases else f"class {name}:\n"
        decorators = "".join(f"@{self._text(d.value)}\n" for d in found.decorators)
        body = "".join(self._body(found, self._shown.get(found.path, Shown())))
        return decorators + (head + body if body else head.rstrip() + " ...\n")

    def _is_known(self, base: Any) -> bool:
        path = getattr(base, "canonical_path", "")
        return not path.startswith("acetune.") or self._find(path).path in self._home

    def _body(self, found: Any, shown: Shown) -> Iterator[str]:
        fields: set[str] = set()
        members = self._members(found)
        if "dataclass" in found.labels:
            # the arguments of its constructor, which are attributes too
            made = _target(found.all_members["__init__"])
            for line in list(self._parameters(made))[1:]:
                yield "    # keywords only:\n" if line == "*" else f"    {line}\n"
            fields = {parameter.name for parameter in made.parameters}
            members.pop("__init__", None)
        documented = _documented(found)
        for name in documented:
            if name not in members:  # assigned as one of several, which the parser does not see
                yield f"    {name}\n"
        for name, member in members.items():
            if name in fields or not (shown.has(name) or name in documented):
                continue
            if member.is_attribute:
                is_class_level = "class-attribute" in member.labels
                yield self._attribute(member, "    ", with_value=is_class_level)
            elif member.is_function:
                for each in member.overloads or [member]:
                    yield self._function(each, "    ")

    def _members(self, found: Any) -> dict[str, Any]:
        """Its own, and those of bases that the page does not show."""
        members = dict(found.members)
        for name, member in found.inherited_members.items():
            if _target(member).parent.path not in self._home:
                members.setdefault(name, member)
        shown = (n for n in members if n in _SPECIAL or not n.startswith("_"))
        return {name: _target(members[name]) for name in shown}

    # -- what a name is

    def _attribute(self, member: Any, indent: str, *, with_value: bool) -> str:
        kind = "" if member.annotation is None else self._text(member.annotation)
        if "property" in member.labels:
            return f"{indent}@property\n{indent}def {member.name}(self) -> {kind}: ...\n"
        text = indent + member.name + (f": {kind}" if kind and kind != "TypeAlias" else "")
        if with_value and member.value is not None:
            value = self._text(member.value)
            text += f" = {value if len(text) + len(value) < 3 * WIDTH else '...'}"
        return text + "\n"

    def _function(self, found: Any, indent: str) -> str:
        lines = [f"{indent}@{d.value}\n" for d in found.decorators if str(d.value) in _DECORATORS]
        parts = list(self._parameters(found))
        result = "" if found.returns is None else f" -> {self._text(found.returns)}"
        line = f"{indent}def {found.name}({', '.join(parts)}){result}: ...\n"
        if len(line) > WIDTH:  # one to a line, so that a difference shows what has changed
            inner = "".join(f"{indent}    {part},\n" for part in parts)
            line = f"{indent}def {found.name}(\n{inner}{indent}){result}: ...\n"
        return "".join([*lines, line])

    def _parameters(self, found: Any) -> Iterator[str]:
        kinds = griffe.ParameterKind
        starred = {kinds.var_positional: "*", kinds.var_keyword: "**"}
        before = None
        for parameter in found.parameters:
            kind = parameter.kind
            if before is kinds.positional_only and kind is not before:
                yield "/"
            if kind is kinds.keyword_only and before not in (kind, kinds.var_positional):
                yield "*"
            text = starred.get(kind, "") + parameter.name
            if parameter.annotation is not None:
                text += f": {self._text(parameter.annotation)}"
            if parameter.default is not None and kind not in starred:
                text += f" = {self._text(parameter.default)}"
            yield text
            before = kind

    def _text(self, expression: Any) -> str:
        """An expression as in the source. What it names of the package is taken down."""
        if isinstance(expression, griffe.Expr):
            for part in expression.iterate(flat=True):
                path = getattr(part, "canonical_path", "")
                if path.startswith("acetune."):
                    self._take_down(path)
        return str(expression)

    def _take_down(self, path: str) -> None:
        with contextlib.suppress(KeyError):  # a name of another package that ours re-exports
            found = self._find(path)
            is_type = found.is_class or (found.is_attribute and not found.name.isupper())
            is_new = found.path not in self._home and found.path not in self._named
            if is_type and is_new and not found.name.startswith("_"):
                self._named[found.path] = found
                if found.is_attribute:  # and what the alias stands for
                    self._text(found.value)


def _exported(module: Any) -> Iterator[tuple[str, Any]]:
    """The public names of a module with what they name; None where the sources do not tell."""
    own = [n for n, m in module.members.items() if not n.startswith("_") and not m.is_alias]
    for name in map(str, module.exports or own):
        try:
            # a function may have the name of the module that it is imported from
            package = module.package
            path = module.imports.get(name, f"{module.path}.{name}")
            yield name, _target(package[path.removeprefix(f"{package.path}.")])
        except (KeyError, griffe.AliasResolutionError):
            yield name, None


def _documented(found: Any) -> list[str]:
    """The attributes that the docstring of a class lists."""
    text = "" if found.docstring is None else found.docstring.value
    section = re.search(r"^Attributes\n-+\n((?:(?!.+\n-{3,}$).*\n?)*)", text, re.MULTILINE)
    items = re.findall(r"^(\w.*):$", section[1], re.MULTILINE) if section else []
    return [name for item in items for name in item.split(", ")]


def _target(member: Any) -> Any:
    return member.final_target if member.is_alias else member


def _by_name(found: Iterable[Any]) -> list[Any]:
    return sorted(found, key=lambda each: (each.name, each.path))


def code_block(title: str, stubs: Iterable[str], text: str = "", language: str = "pyi") -> str:
    """A section of one block of code; what takes several lines has space around it."""
    parts = [f"\n{stub}\n" if stub.count("\n") > 1 else stub for stub in stubs]
    code = "".join(parts).replace("\n\n\n", "\n\n").strip("\n")
    above = f"{text}\n\n" if text else ""
    return f"{title}\n\n{above}```{language}\n{code}\n```\n"
