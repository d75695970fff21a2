"""Which recorded configuration comes next: searchers on tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from acetune.core.errors import GoalError, SpaceError, TableError
from acetune.core.outcome import Curves, Outcome
from acetune.replay.curve_table import CurveTable
from acetune.searchers import make_searcher
from acetune.searchers.searcher import searched_part
from acetune.searchers.space import Choice, Space


class Picker(Protocol):
    """Hands out configurations of a table, each once."""

    def pick(self, trial: int) -> int | None:
        """The configuration for a trial, or None when all have been run."""

    def tell(self, trial: int, outcome: Outcome) -> None:
        """How the trial ended."""

    def watch(self, curves: Curves) -> None:
        """What trials report, from now on."""


def make_picker(
    table: CurveTable, searcher: str, seed: int, points: Sequence[Mapping[str, Any]] = ()
) -> Picker:
    """A searcher by its name. ``random`` is the recorded configurations in random order."""
    if searcher == "random":
        if points:
            raise GoalError(
                "'random' takes the recorded configurations in random order and no points to try "
                f"first, got {list(points)!r}; leave them out, or choose another searcher"
            )
        return RandomOrder(len(table.configs), seed)
    return Nearest(table, searcher, seed, points)


class RandomOrder:
    """Random search: the table is a random sample already, so any order of it is one too."""

    def __init__(self, configs: int, seed: int) -> None:
        order: list[int] = np.random.default_rng(seed).permutation(configs).tolist()
        self._order = iter(order)

    def pick(self, trial: int) -> int | None:
        """See Picker."""
        return next(self._order, None)

    def tell(self, trial: int, outcome: Outcome) -> None:
        """See Picker."""

    def watch(self, curves: Curves) -> None:
        """See Picker."""


class Nearest:
    """A searcher whose suggestions are answered by the nearest recorded configuration not yet run.

    Nearness is Euclidean in the normalised space: numbers between 0 and 1 from the lower to the
    upper bound (of their logarithms, where the dimension is logarithmic); options that differ are 1
    apart. The searcher is told the configuration that was run.
    """

    def __init__(
        self, table: CurveTable, searcher: str, seed: int, points: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        if table.space is None:
            raise TableError(
                f"the table {table.name!r} does not say what space was searched, which "
                f"the searcher {searcher!r} needs; use 'random'"
            )
        space = Space.from_description(table.space)
        self._space = space
        self._configs = [_searched(space, i, config) for i, config in enumerate(table.configs)]
        self._searcher = make_searcher(searcher, space, points, seed)
        self._places = np.array([self._place(config) for config in self._configs])
        self._free = np.ones(len(table.configs), dtype=bool)
        self._picked: dict[int, int] = {}

    def _place(self, params: Mapping[str, Any]) -> list[float]:
        """Where a configuration lies: an option is a coordinate of its own, 1 or 0."""
        place: list[float] = []
        for name, dimension in self._space.dimensions.items():
            value = params[name]
            if isinstance(dimension, Choice):
                # two options that differ are apart in two coordinates, together by 1
                # (True and 1, which are equal, may both be options)
                same = [type(value) is type(o) and value == o for o in dimension.options]
                place += [math.sqrt(0.5) * is_it for is_it in same]
                continue
            low, high = float(dimension.low), float(dimension.high)
            number = float(value)
            if dimension.log:
                low, high, number = math.log(low), math.log(high), math.log(number)
            place.append((number - low) / (high - low) if high > low else 0.0)
        return place

    def pick(self, trial: int) -> int | None:
        """See Picker."""
        free: NDArray[np.intp] = np.flatnonzero(self._free)
        if not len(free):
            return None
        wanted = np.array(self._place(self._searcher.ask(trial)))
        distance = ((self._places[free] - wanted) ** 2).sum(axis=1)
        config = int(free[np.argmin(distance)])
        self._free[config] = False
        self._picked[trial] = config
        return config

    def tell(self, trial: int, outcome: Outcome) -> None:
        """See Picker."""
        self._searcher.tell(trial, outcome, self._configs[self._picked[trial]])

    def watch(self, curves: Curves) -> None:
        """See Picker."""
        self._searcher.watch(curves)


def _searched(space: Space, number: int, config: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return searched_part(space, config)
    except SpaceError as error:
        raise TableError(
            f"configuration {number} does not lie in the table's space: {error}"
        ) from None
