"""The search space: a dict of named dimensions.

>>> space = {"lr": loguniform(1e-3, 1.0), "layers": randint(1, 4), "act": choice(["relu", "gelu"])}
>>> Space(space).names
['lr', 'layers', 'act']
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard

from acetune.core.errors import SpaceError
from acetune.core.numbers import is_bool

Scalar: TypeAlias = bool | int | float | str | None
Params: TypeAlias = dict[str, Any]
MISSING = -1.0  # the place of a dimension that a configuration lacks: below all others


@dataclass(frozen=True, slots=True)
class Float:
    """A real number between ``low`` and ``high``, uniform or log-uniform."""

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        _require_bounds("uniform", self.low, self.high, self.log)

    def contains(self, value: object) -> bool:
        """Whether ``value`` lies in the dimension."""
        return _is_number(value) and self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number between ``low`` and ``high``, both included, uniform or log-uniform."""

    low: int
    high: int
    log: bool = False

    def __post_init__(self) -> None:
        _require_bounds("randint", self.low, self.high, self.log)
        if self.low != int(self.low) or self.high != int(self.high):
            what = f"{'log' * self.log}randint({self.low!r}, {self.high!r})"
            raise SpaceError(f"{what}: bounds must be whole numbers")

    def contains(self, value: object) -> bool:
        """Whether ``value`` lies in the dimension."""
        return _is_number(value) and value == int(value) and self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several options."""

    options: tuple[Scalar, ...]

    def __post_init__(self) -> None:
        if not self.options:
            raise SpaceError("choice needs at least one option, got none")
        for option in self.options:
            if option is not None and not isinstance(option, (bool, int, float, str)):
                raise SpaceError(
                    f"an option must be a string, a number, a bool or None, got {option!r}; "
                    "give it a name and look it up in the training function"
                )

    def contains(self, value: object) -> bool:
        """Whether ``value`` is one of the options."""
        return any(type(value) is type(o) and value == o for o in self.options)


Dimension: TypeAlias = Float | Integer | Choice


def uniform(low: float, high: float) -> Float:
    """A real number, uniform between ``low`` and ``high``."""
    return Float(low, high)


def loguniform(low: float, high: float) -> Float:
    """A real number whose logarithm is uniform between those of ``low`` and ``high``."""
    return Float(low, high, log=True)


def randint(low: int, high: int) -> Integer:
    """A whole number, uniform from ``low`` to ``high``, both included."""
    return Integer(low, high)


def lograndint(low: int, high: int) -> Integer:
    """A whole number from ``low`` to ``high``, both included, uniform in its logarithm."""
    return Integer(low, high, log=True)


def choice(options: Sequence[Scalar]) -> Choice:
    """One of ``options``."""
    if isinstance(options, str) or not isinstance(options, Sequence):
        raise SpaceError(f"choice takes a list of options, got {options!r}")
    return Choice(tuple(options))


class Space:
    """Validated dimensions, with the fixed values that every configuration shares.

    >>> space = Space({"lr": loguniform(0.001, 1.0), "depth": 3})
    >>> space.complete({"lr": 0.1})
    {'lr': 0.1, 'depth': 3}
    """

    def __init__(self, space: Mapping[str, Dimension | Scalar]) -> None:
        if not isinstance(space, Mapping):
            raise SpaceError(f"space must be a dict of dimensions, got {space!r}")
        self.dimensions: dict[str, Dimension] = {}
        self.fixed: dict[str, Scalar] = {}
        for name, value in space.items():
            if not isinstance(name, str) or not name:
                raise SpaceError(f"the name of a dimension must be a string, got {name!r}")
            if isinstance(value, (Float, Integer, Choice)):
                self.dimensions[name] = value
            elif value is None or isinstance(value, (bool, int, float, str)):
                self.fixed[name] = value
            else:
                raise SpaceError(
                    f"space[{name!r}] is {value!r}; use acetune.uniform, loguniform, randint, "
                    "lograndint or choice, or a plain value to fix it"
                )
        if not self.dimensions:
            raise SpaceError(
                f"the space is empty: it has nothing to search, got {dict(space)!r}; add for "
                "example {'learning_rate': acetune.loguniform(1e-3, 1.0)}"
            )

    @property
    def names(self) -> list[str]:
        """The names of the searched dimensions."""
        return list(self.dimensions)

    def complete(self, searched: Mapping[str, Any]) -> Params:
        """A whole configuration from its searched part, in plain Python values."""
        if set(searched) != set(self.dimensions):
            raise SpaceError(
                f"a suggestion must have the dimensions {self.names}, got {sorted(searched)}"
            )
        # NumPy's numbers become Python's, which the study file can hold
        plain = {k: v.item() if hasattr(v, "item") else v for k, v in searched.items()}
        return {**plain, **self.fixed}

    def require_point(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """A point to try first, perhaps with dimensions left open; wrong ones are an error."""
        if not isinstance(point, Mapping):
            raise SpaceError(f"a point must be a dict, got {point!r}")
        for name, value in point.items():
            if name in self.fixed and value == self.fixed[name]:
                continue
            if name not in self.dimensions:
                raise SpaceError(
                    f"point {dict(point)!r}: {name!r} is not searched; the space has {self.names}"
                )
            if not self.dimensions[name].contains(value):
                raise SpaceError(
                    f"point {dict(point)!r}: {name}={value!r} lies outside {self.dimensions[name]}"
                )
        return {
            name: value.item() if hasattr(value, "item") else value
            for name, value in point.items()
            if name in self.dimensions
        }

    def place(self, params: Mapping[str, Any]) -> list[float]:
        """Where a configuration lies: a number between 0 and 1 for each searched dimension.

        One that it lacks, as where a dimension depends on the value of another, is at -1.

        >>> space = Space({"lr": loguniform(0.01, 1.0), "act": choice(["a", "b"])})
        >>> space.place({"lr": 0.1, "act": "b"}), space.place({"lr": 0.1})
        ([0.5, 0.75], [0.5, -1.0])
        """
        return [
            _placed(dimension, params[name]) if name in params else MISSING
            for name, dimension in self.dimensions.items()
        ]

    def at(self, place: Sequence[float]) -> Params:
        """The searched part of the configuration at a place: the inverse of :meth:`place`."""
        named = zip(self.dimensions.items(), place, strict=True)
        return {name: _at(dimension, share) for (name, dimension), share in named}

    def describe(self) -> dict[str, Any]:
        """The space as plain data: what the study file keeps and compares."""
        described: dict[str, Any] = dict(self.fixed)
        for name, dimension in self.dimensions.items():
            if isinstance(dimension, Choice):
                described[name] = {"choice": list(dimension.options)}
            else:
                kind = "float" if isinstance(dimension, Float) else "integer"
                as_kind = float if kind == "float" else int
                bounds = [as_kind(dimension.low), as_kind(dimension.high)]
                described[name] = {kind: bounds, "log": dimension.log}
        return described

    @classmethod
    def from_description(cls, described: Mapping[str, Any]) -> Space:
        """The inverse of :meth:`describe`."""
        space: dict[str, Dimension | Scalar] = {}
        for name, value in described.items():
            if not isinstance(value, Mapping):
                space[name] = value
            elif "choice" in value:
                space[name] = choice(value["choice"])
            elif "float" in value:
                low, high = value["float"]
                space[name] = Float(low, high, bool(value.get("log")))
            elif "integer" in value:
                low, high = value["integer"]
                space[name] = Integer(low, high, bool(value.get("log")))
            else:
                raise SpaceError(f"space[{name!r}] is no dimension: {value!r}")
        return cls(space)


def _scale(dimension: Float | Integer) -> tuple[float, float]:
    """The bounds as they are drawn between: a whole number stands for all that round to it."""
    half = 0.0 if isinstance(dimension, Float) else 0.5
    low, high = float(dimension.low) - half, float(dimension.high) + half
    return (math.log(low), math.log(high)) if dimension.log else (low, high)


def _placed(dimension: Dimension, value: Any) -> float:
    if isinstance(dimension, Choice):
        same = [type(value) is type(o) and value == o for o in dimension.options]
        return (same.index(True) + 0.5) / len(same)
    low, high = _scale(dimension)
    number = math.log(value) if dimension.log else float(value)
    width = high / 2 - low / 2  # halves: the widest dimension is wider than a float can be
    share = (number / 2 - low / 2) / width if width > 0 else 0.5
    return min(max(share, 0.0), 1.0)


def _at(dimension: Dimension, share: float) -> Any:
    if isinstance(dimension, Choice):
        options = dimension.options
        return options[min(int(share * len(options)), len(options) - 1)]
    low, high = _scale(dimension)
    number = low * (1.0 - share) + high * share
    number = math.exp(number) if dimension.log else number
    if isinstance(dimension, Integer):
        return min(max(math.floor(number + 0.5), int(dimension.low)), int(dimension.high))
    return min(max(number, float(dimension.low)), float(dimension.high))


def _is_number(value: object) -> TypeGuard[float]:
    # NumPy's numbers count; bools do not
    return not isinstance(value, str) and not is_bool(value) and hasattr(value, "__float__")


def _require_bounds(kind: str, low: float, high: float, log: bool) -> None:
    what = f"log{kind}" if log else kind  # as it was written: the name is not known here
    for bound in (low, high):
        if not _is_number(bound) or not math.isfinite(bound):
            raise SpaceError(
                f"{what}({low!r}, {high!r}): bounds must be finite numbers, got {bound!r}"
            )
    if low > high:
        raise SpaceError(
            f"{what}({low!r}, {high!r}): the lower bound {low!r} is above the upper bound "
            f"{high!r}; swap them"
        )
    if log and low <= 0:
        raise SpaceError(
            f"{what}({low!r}, {high!r}): a logarithm needs a lower bound above 0, got {low!r}; "
            f"take a small one, or {what.removeprefix('log')}({low!r}, {high!r})"
        )
