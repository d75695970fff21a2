"""A search space in FLAML's terms, and configurations to and fro."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, TypeGuard

from acetune.searchers.dimensions import Choice, Dimension, Float, Integer, value_at
from acetune.searchers.space import Space

Config: TypeAlias = dict[str, Any]  # a configuration in FLAML's terms

_NOTHING_TO_SEARCH = "unused"


class FlamlSpace:
    """What FLAML can be trusted with: dimensions p0, p1, ... of numbers.

    The names, because it takes those with a slash apart; the place of an option instead of the
    option, because it draws options through NumPy, which makes strings of mixed ones; and only
    dimensions with more than one value, because it divides by their range.

    Parameters
    ----------
    space:
        The space in our terms.
    tune:
        The module ``flaml.tune``.
    """

    def __init__(self, space: Space, tune: Any) -> None:
        self._space, self._dimensions = space, space.dimensions
        self._codes: dict[str, str] = {}  # our name -> FLAML's
        self._options: dict[str, list[Any]] = {}
        self.domains: dict[str, Any] = {}  # FLAML's space
        self.size = 1.0  # how many configurations there are
        for name, dimension in space.dimensions.items():
            if isinstance(dimension, Choice):
                self._options[name] = _options(dimension)
            size = dimension.size
            self.size *= size
            if size > 1:
                self._codes[name] = f"p{len(self._codes)}"
                self.domains[self._codes[name]] = _domain(dimension, tune)
        if not self.domains:
            self.domains[_NOTHING_TO_SEARCH] = tune.uniform(0.0, 1.0)

    def encode(self, params: Mapping[str, Any]) -> Config:
        """A configuration, or part of one, for FLAML."""
        config: Config = {}
        for name, code in self._codes.items():
            if name in params:
                value = params[name]
                if name in self._options:
                    same = [type(o) is type(value) and o == value for o in self._options[name]]
                    value = same.index(True)  # True is not 1 here
                elif _by_place(dimension := self._dimensions[name]):
                    value = round((value - dimension.low) / dimension.width)
                config[code] = value
        if _NOTHING_TO_SEARCH in self.domains:
            config[_NOTHING_TO_SEARCH] = 0.5
        return config

    def decode(self, config: Config) -> dict[str, Any]:
        """A configuration from FLAML's; rounding may have taken it out of bounds."""
        params: dict[str, Any] = {}
        for name, dimension in self._dimensions.items():
            value = config[self._codes[name]] if name in self._codes else None
            if isinstance(dimension, Choice):
                params[name] = self._options[name][0 if value is None else int(value)]
            elif value is None:
                params[name] = dimension.snap(dimension.low)
            elif _by_place(dimension):
                params[name] = dimension.snap(dimension.low + int(value) * dimension.width)
            else:
                kind = int if isinstance(dimension, Integer) else float
                params[name] = dimension.snap(kind(value))
        return self._space.active(params)

    def encode_whole(self, params: Mapping[str, Any]) -> Config:
        """A whole one: FLAML knows no conditions, and gets the middle of what it lacks."""
        missing = [name for name in self._codes if name not in params]
        middle = {name: value_at(self._dimensions[name], 0.5) for name in missing}
        return self.encode({**params, **middle})


def _options(dimension: Choice) -> list[Any]:
    """The options; numbers in order, as FLAML's local search moves between neighbours then."""
    if _ordered(dimension):
        return sorted(dimension.options, key=float)
    return list(dimension.options)


def _ordered(dimension: Choice) -> bool:
    return all(isinstance(option, (int, float)) for option in dimension.options)


def _by_place(dimension: Dimension) -> TypeGuard[Float | Integer]:
    """Whether FLAML gets the number of a step; in logarithms steps are not even."""
    if isinstance(dimension, Choice) or dimension.log:
        return False
    return dimension.step is not None and (isinstance(dimension, Float) or dimension.step != 1)


def _domain(dimension: Dimension, tune: Any) -> Any:
    if isinstance(dimension, Choice):
        return tune.choice(range(len(dimension.options)), order=_ordered(dimension))
    if _by_place(dimension):
        return tune.randint(0, int(dimension.size))
    if isinstance(dimension, Float):
        return (tune.loguniform if dimension.log else tune.uniform)(dimension.low, dimension.high)
    # FLAML leaves the upper end out
    ends = int(dimension.low), int(dimension.high) + 1
    return (tune.lograndint if dimension.log else tune.randint)(*ends)
