"""What a searcher must do. A new one is a file in this folder, and a line in ``__init__.py``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from acetune.core.errors import GoalError, SpaceError
from acetune.core.outcome import Curve, Curves, Outcome
from acetune.searchers.space import Space, require_inside


class Searcher(ABC):
    """Suggests configurations by ask and tell; losses are minimised, violations are 0 when met.

    A searcher needs no persistence: a resumed study tells it again, through :meth:`add`, of every
    trial that has ended.
    """

    def watch(self, curves: Curves) -> None:
        """Look at these curves from now on: all that trials report, while they run.

        Called once, before the first ``ask``. A searcher that learns from how trials ended alone
        needs not to look.
        """
        return

    def learn(self, earlier: Sequence[Curve]) -> None:
        """Learn from trials of earlier studies of the same space (``tune(learn_from=...)``).

        Called before the first ``ask``, and only where the user has named such studies. A searcher
        that does not override it refuses them.
        """
        raise GoalError(learns_nothing_earlier(self))

    @abstractmethod
    def ask(self, trial: int) -> dict[str, Any]:
        """A configuration of the searched dimensions for the trial with this number.

        Of a nested space (:class:`~acetune.searchers.space.Space`) it is flat, and has those
        dimensions that its choices call for.
        """

    @abstractmethod
    def tell(self, trial: int, outcome: Outcome, params: Mapping[str, Any] | None = None) -> None:
        """How a trial that was asked for ended. Called once per trial.

        ``params`` is given when another configuration was run in place of the suggested one (a
        replay answers with the nearest recorded one): the outcome is that of ``params``, and of
        the suggestion nothing is known.
        """

    @abstractmethod
    def add(self, trial: int, params: Mapping[str, Any], outcome: Outcome | None) -> None:
        """A trial from an earlier session; ``outcome`` is None if it will be trained again."""


def learns_from_earlier(searcher: Searcher) -> bool:
    """Whether a searcher takes trials of earlier studies."""
    return type(searcher).learn is not Searcher.learn


def learns_nothing_earlier(searcher: Searcher) -> str:
    """What to say where it does not."""
    return (
        f"learn_from= needs a searcher that learns from curves, which {type(searcher).__name__} "
        "does not; use searcher='forest', or leave learn_from= out"
    )


def searched_part(space: Space, params: Mapping[str, Any]) -> dict[str, Any]:
    """The searched dimensions of a configuration that was run, in plain Python values.

    Of a nested space ``params`` is flat already, as :meth:`Space.flatten` makes it.
    """
    found: dict[str, Any] = {}
    for name, dimension in space.dimensions.items():
        if not space.has(name, params):
            continue
        if name not in params:
            raise SpaceError(f"{name!r} is missing from the configuration {dict(params)!r}")
        found[name] = require_inside(dimension, name, params[name])
    return found


def drop_tried(points: list[dict[str, Any]], searched: Mapping[str, Any]) -> None:
    """Leave out the first point to try that a configuration has tried."""
    for point in points:
        if point.items() <= searched.items():
            points.remove(point)
            return


class FlatCurves:
    """Curves of a nested space, with flat configurations: what searchers look at."""

    def __init__(self, space: Space, curves: Curves) -> None:
        self._space, self._curves = space, curves

    @property
    def reports(self) -> int:
        """How many reports there are."""
        return self._curves.reports

    def first(self, reports: int) -> Iterator[Curve]:
        """The trials as they were after so many reports, in the order in which they began."""
        for curve in self._curves.first(reports):
            yield curve._replace(params=self._space.flatten(curve.params))
