"""The search space: a dict of named dimensions, perhaps with spaces inside.

>>> space = {"lr": loguniform(1e-3, 1.0), "layers": randint(1, 4), "act": choice(["relu", "gelu"])}
>>> Space(space).names
['lr', 'layers', 'act']

Searchers see a flat list of dimensions. Those inside a dict have the names of both, joined by a
dot, and those of an option are there only where it is chosen:

>>> linear = {"kind": "linear", "penalty": loguniform(0.01, 1.0)}
>>> trees = {"kind": "trees", "depth": randint(2, 8), "rate": uniform(0.1, 1.0)}
>>> space = Space({"model": choice([linear, trees])})
>>> space.names
['model', 'model.penalty', 'model.depth', 'model.rate']
>>> space.complete({"model": "linear", "model.penalty": 0.1})
{'model': {'kind': 'linear', 'penalty': 0.1}}
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple, TypeAlias

from acetune.core.errors import SpaceError
from acetune.searchers._foreign_dimensions import read_dimension
from acetune.searchers.dimensions import (
    Choice,
    Dimension,
    Float,
    Integer,
    Scalar,
    choice,
    described,
    dimension_of,
    is_scalar,
    lograndint,
    loguniform,
    place_in,
    randint,
    require_whole_text,
    same,
    uniform,
    value_at,
)

__all__ = [
    "MISSING",
    "Choice",
    "Dimension",
    "Float",
    "Integer",
    "Params",
    "Scalar",
    "Space",
    "choice",
    "flat_names",
    "lograndint",
    "loguniform",
    "randint",
    "read_dimension",
    "require_inside",
    "uniform",
]

Params: TypeAlias = dict[str, Any]
MISSING = -1.0  # the place of a dimension that a configuration lacks: below all others
_OPEN = object()  # a value that is not there


class _Fixed(NamedTuple):
    """A value that is not searched."""

    value: Scalar


class _Searched(NamedTuple):
    """A dimension, by its name in the flat list."""

    name: str


class _Branches(NamedTuple):
    """A choice with spaces among its options: its name, and what each label stands for."""

    name: str
    options: list[tuple[Scalar, _Node]]


_Tree: TypeAlias = "dict[str, _Node]"
_Node: TypeAlias = "_Fixed | _Searched | _Branches | _Tree"


class Space:
    """Validated dimensions, with the fixed values that every configuration shares.

    ``dimensions`` is the flat list, in which a dimension comes after the choice it depends on.

    >>> space = Space({"lr": loguniform(0.001, 1.0), "depth": 3})
    >>> space.complete({"lr": 0.1})
    {'lr': 0.1, 'depth': 3}
    """

    def __init__(self, space: Mapping[str, Any]) -> None:
        if not isinstance(space, Mapping):
            raise SpaceError(f"space must be a dict of dimensions, got {space!r}")
        self.dimensions: dict[str, Dimension] = {}
        self._conditions: dict[str, tuple[str, Scalar]] = {}  # a dimension: a choice, its option
        self._tree = self._grown(space, "", None)
        self.fixed = {n: node.value for n, node in self._tree.items() if isinstance(node, _Fixed)}
        #: whether configurations are more than a flat dict of these dimensions
        self.nested = any(isinstance(node, (dict, _Branches)) for node in self._tree.values())
        if self.nested:
            _require_no_dots(self._tree)
        if not self.dimensions:
            raise SpaceError(
                f"the space is empty: it has nothing to search, got {dict(space)!r}; add for "
                "example {'learning_rate': acetune.loguniform(1e-3, 1.0)}"
            )

    @property
    def names(self) -> list[str]:
        """The names of the searched dimensions."""
        return list(self.dimensions)

    @property
    def size(self) -> float:
        """How many different configurations there are; of a dimension at most 2**62 count."""
        return self._size(self._tree)

    def replacing(self, dimensions: Mapping[str, Dimension]) -> Space:
        """The same space with other dimensions under the same names."""
        assert list(dimensions) == self.names
        found = copy.copy(self)
        found.dimensions = dict(dimensions)
        return found

    # -- which dimensions a configuration has ------------------------------------------------------

    def has(self, name: str, searched: Mapping[str, Any]) -> bool:
        """Whether a configuration has a dimension, by the choices it depends on."""
        while name in self._conditions:
            name, label = self._conditions[name]
            if not same(searched.get(name, _OPEN), label):
                return False
        return True

    def active(self, searched: Mapping[str, Any]) -> dict[str, Any]:
        """The part of a flat configuration that counts, in the order of the dimensions."""
        return {n: searched[n] for n in self.dimensions if n in searched and self.has(n, searched)}

    # -- between flat configurations and those that training sees ----------------------------------

    def complete(self, searched: Mapping[str, Any]) -> Params:
        """A whole configuration from its searched part, in plain Python values."""
        wanted = [name for name in self.dimensions if self.has(name, searched)]
        if set(searched) != set(wanted):
            raise SpaceError(
                f"a suggestion must have the dimensions {wanted}, got {sorted(searched)}"
            )
        # NumPy's numbers become Python's, which the study file can hold
        plain = {k: v.item() if hasattr(v, "item") else v for k, v in searched.items()}
        if not self.nested:
            return {**plain, **self.fixed}
        return _built(self._tree, plain)

    def flatten(self, params: Mapping[str, Any], *, partly: bool = False) -> dict[str, Any]:
        """The searched part of a configuration: the inverse of :meth:`complete`.

        With ``partly`` dimensions may be left open. What does not lie in the space is an error.
        """
        found: dict[str, Any] = {}
        self._read(self._tree, params, "", partly, found)
        return {name: found[name] for name in self.dimensions if name in found}

    def require_point(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """A point to try first, perhaps with dimensions left open; wrong ones are an error."""
        if not isinstance(point, Mapping):
            raise SpaceError(f"a point must be a dict, got {point!r}")
        try:
            return self.flatten(point, partly=True)
        except SpaceError as error:
            raise SpaceError(f"point {dict(point)!r}: {error}") from None

    # -- places ------------------------------------------------------------------------------------

    def place(self, searched: Mapping[str, Any]) -> list[float]:
        """Where a configuration lies: a number between 0 and 1 for each searched dimension.

        One that it lacks, as where a dimension depends on the value of another, is at -1.

        >>> space = Space({"lr": loguniform(0.01, 1.0), "act": choice(["a", "b"])})
        >>> space.place({"lr": 0.1, "act": "b"}), space.place({"lr": 0.1})
        ([0.5, 0.75], [0.5, -1.0])
        """
        return [
            place_in(dimension, searched[name]) if name in searched else MISSING
            for name, dimension in self.dimensions.items()
        ]

    def at(self, place: Sequence[float], point: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The searched part of the configuration at a place: the inverse of :meth:`place`.

        ``point`` has values that count before those of the place.
        """
        named = zip(self.dimensions.items(), place, strict=True)
        found = {name: value_at(dimension, share) for (name, dimension), share in named}
        found |= point or {}
        return self.active(found) if self._conditions else found

    # -- as data -----------------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """The space as plain data: what the study file keeps and compares."""
        return self._described(self._tree)

    @classmethod
    def from_description(cls, described: Mapping[str, Any]) -> Space:
        """The inverse of :meth:`describe`."""
        return cls(_from_description(described, ""))

    # -- inside ----------------------------------------------------------------------------------

    def _size(self, node: _Node) -> float:
        if isinstance(node, _Fixed):
            return 1.0
        if isinstance(node, _Searched):
            return float(min(self.dimensions[node.name].size, 2**62))
        if isinstance(node, _Branches):
            return sum(self._size(option) for _, option in node.options)
        return math.prod(self._size(inside) for inside in node.values())

    def _grown(
        self, space: Mapping[str, Any], path: str, condition: tuple[str, Scalar] | None
    ) -> _Tree:
        """The tree of a space; its dimensions are added to the flat list."""
        tree: _Tree = {}
        for name, given in space.items():
            if not isinstance(name, str) or not name:
                raise SpaceError(f"the name of a dimension must be a string, got {name!r}")
            require_whole_text("the name of a dimension", name)
            here = f"{path}.{name}" if path else name
            value = read_dimension(given, here)
            if isinstance(value, Choice) and any(isinstance(o, Mapping) for o in value.options):
                tree[name] = self._branched(value, here, condition)
            elif isinstance(value, (Float, Integer, Choice)):
                tree[name] = _Searched(self._added(here, value, condition))
            elif is_scalar(value):
                require_whole_text(f"space[{here!r}]", value)
                tree[name] = _Fixed(value)
            elif isinstance(value, Mapping):
                tree[name] = self._grown(value, here, condition)
            else:
                raise SpaceError(
                    f"space[{here!r}] is {value!r}; use acetune.uniform, loguniform, randint, "
                    "lograndint or choice, a dict of them, or a plain value to fix it"
                )
        return tree

    def _branched(
        self, value: Choice, path: str, condition: tuple[str, Scalar] | None
    ) -> _Branches:
        labels = _labels(value.options)
        chosen = self._added(path, Choice(tuple(labels)), condition)
        options: list[tuple[Scalar, _Node]] = []
        for label, option in zip(labels, value.options, strict=True):
            inside = isinstance(option, Mapping)
            node = self._grown(option, path, (chosen, label)) if inside else _Fixed(option)
            options.append((label, node))
        spaces = [(n, o) for n, (_, o) in enumerate(options, 1) if isinstance(o, dict)]
        for (first, one), (second, other) in combinations(spaces, 2):
            if not _differ(one, other):
                raise SpaceError(
                    f"space[{path!r}]: options {first} and {second} have the same names, and a "
                    "configuration does not tell which it is of; give each a fixed value of its "
                    "own, such as 'kind': 'first' and 'kind': 'second'"
                )
        return _Branches(chosen, options)

    def _added(self, path: str, value: Dimension, condition: tuple[str, Scalar] | None) -> str:
        """Add a dimension to the flat list; its name there."""
        name, n = path, 1
        while name in self.dimensions:  # in another option, or a name with a dot
            n += 1
            name = f"{path}#{n}"
        self.dimensions[name] = value
        if condition is not None:
            self._conditions[name] = condition
        return name

    def _read(
        self, tree: _Tree, params: object, path: str, partly: bool, found: dict[str, Any]
    ) -> None:
        """Find the dimensions of a tree in a configuration."""
        where = f" in {path!r}" if path else ""
        if not isinstance(params, Mapping):
            raise SpaceError(f"{path!r} must be a dict with {', '.join(tree)}, got {params!r}")
        for name in params:
            if name not in tree and (partly or path):
                known = [n for n, node in tree.items() if not isinstance(node, _Fixed)]
                raise SpaceError(f"{name!r}{where} is not searched; the space has {known}")
        for name, node in tree.items():
            here = f"{path}.{name}" if path else name
            if name in params:
                self._read_one(node, params[name], here, partly, found)
            elif not partly and not isinstance(node, _Fixed):
                raise SpaceError(f"{here!r} is missing from the configuration {dict(params)!r}")

    def _read_one(
        self, node: _Node, value: Any, path: str, partly: bool, found: dict[str, Any]
    ) -> None:
        if isinstance(node, dict):
            self._read(node, value, path, partly, found)
        elif isinstance(node, _Fixed):
            if value != node.value:
                raise SpaceError(f"{path}={value!r} is not searched, and fixed to {node.value!r}")
        elif isinstance(node, _Searched):
            found[node.name] = require_inside(self.dimensions[node.name], path, value)
        else:
            self._read_branch(node, value, path, partly, found)

    def _read_branch(
        self, node: _Branches, value: Any, path: str, partly: bool, found: dict[str, Any]
    ) -> None:
        """Which option it is; the one that the names and fixed values of a dict belong to."""
        fitting: list[dict[str, Any]] = []
        misfits: list[str] = []
        for label, option in node.options:
            into: dict[str, Any] = {node.name: label}
            if isinstance(option, _Fixed):
                if same(value, option.value):
                    fitting.append(into)
            elif isinstance(option, dict) and isinstance(value, Mapping):
                try:
                    self._read(option, value, path, partly, into)
                    fitting.append(into)
                except SpaceError as error:
                    misfits.append(f"{label}: {error}")
        if len(fitting) == 1:
            found |= fitting[0]
            return
        options = [label for label, _ in node.options]
        if fitting:
            raise SpaceError(f"{path}={value!r} fits several of the options {options}: say which")
        why = f" ({'; '.join(misfits)})" if misfits else ""
        raise SpaceError(f"{path}={value!r} is none of the options {options}{why}")

    def _described(self, tree: _Tree) -> dict[str, Any]:
        ordered = sorted(tree.items(), key=lambda item: not isinstance(item[1], _Fixed))
        return {name: self._described_one(node) for name, node in ordered}

    def _described_one(self, node: _Node) -> Any:
        if isinstance(node, _Fixed):
            return node.value
        if isinstance(node, _Searched):
            return described(self.dimensions[node.name])
        if isinstance(node, dict):
            return {"space": self._described(node)}
        return {"choice": [self._described_one(option) for _, option in node.options]}


def flat_names(described: Mapping[str, Any]) -> list[str]:
    """The names of a described space as a table has them: those inside others joined by dots.

    >>> flat_names({"model": {"choice": [None, {"space": {"rate": 0.1}}]}, "seed": 1})
    ['model', 'model.rate', 'seed']
    """
    found: list[str] = []
    for name, value in described.items():
        options = value.get("choice", [value]) if isinstance(value, Mapping) else [value]
        spaces = [o["space"] for o in options if isinstance(o, Mapping) and "space" in o]
        if len(spaces) < len(options):
            found.append(name)
        found += [f"{name}.{inside}" for space in spaces for inside in flat_names(space)]
    return found


def require_inside(dimension: Dimension, name: str, value: Any) -> Any:
    """A value in plain Python, on the steps of its dimension; one outside is an error."""
    if not dimension.contains(value):
        raise SpaceError(f"{name}={value!r} lies outside {dimension}")
    if isinstance(dimension, Choice):
        return value
    return dimension.snap(float(value) if isinstance(dimension, Float) else int(value))


def _built(tree: _Tree, searched: Mapping[str, Any]) -> Params:
    return {name: _built_one(node, searched) for name, node in tree.items()}


def _built_one(node: _Node, searched: Mapping[str, Any]) -> Any:
    if isinstance(node, _Fixed):
        return node.value
    if isinstance(node, _Searched):
        return searched[node.name]
    if isinstance(node, _Branches):
        chosen = searched[node.name]
        option = next(node for label, node in node.options if same(label, chosen))
        return _built_one(option, searched)
    return _built(node, searched)


def _labels(options: Sequence[Any]) -> list[Scalar]:
    """A name for each option: itself, or for a space its first fixed word, where that is unique."""
    labels = [option for option in options if not isinstance(option, Mapping)]
    found: list[Scalar] = []
    for n, option in enumerate(options, 1):
        if not isinstance(option, Mapping):
            found.append(option)
            continue
        word = next((v for v in option.values() if isinstance(v, str)), None)
        label = f"option {n}" if word is None or word in labels else word
        labels.append(label)
        found.append(label)
    return found


def _require_no_dots(tree: _Node) -> None:
    """An error if a name has a dot, which joins the names of nested dimensions."""
    if isinstance(tree, _Branches):
        for _, option in tree.options:
            _require_no_dots(option)
    elif isinstance(tree, dict):
        for name, node in tree.items():
            if "." in name:
                raise SpaceError(
                    f"the name {name!r} has a dot, which joins names where a space has dicts "
                    "inside; take another name"
                )
            _require_no_dots(node)


def _differ(tree: _Tree, other: _Tree) -> bool:
    """Whether the configurations of two spaces can be told apart."""
    if set(tree) != set(other):
        return True
    for name, node in tree.items():
        second = other[name]
        if isinstance(node, dict) and isinstance(second, dict):
            if _differ(node, second):
                return True
        elif isinstance(node, _Fixed) and isinstance(second, _Fixed):
            if node.value != second.value:
                return True
        elif isinstance(node, dict) != isinstance(second, dict) and not (
            isinstance(node, _Branches) or isinstance(second, _Branches)
        ):
            return True
    return False


def _from_description(described: Mapping[str, Any], path: str) -> dict[str, Any]:
    return {
        name: _value_of(value, f"{path}.{name}" if path else name)
        for name, value in described.items()
    }


def _value_of(value: Any, path: str) -> Any:
    if not isinstance(value, Mapping):
        return value
    if "space" in value:
        return _from_description(value["space"], path)
    if "choice" in value:
        return choice([_value_of(option, path) for option in value["choice"]])
    dimension = dimension_of(value)
    if dimension is None:
        raise SpaceError(f"space[{path!r}] is no dimension: {value!r}")
    return dimension
