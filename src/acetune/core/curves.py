"""What trials have reported so far, as curves: what a searcher may learn from."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from acetune.core.history import History


class Curve(NamedTuple):
    """One trial: its configuration, and what was reported and measured of it."""

    params: Mapping[str, Any]
    total_steps: int | None
    steps: array[int]
    losses: array[float]  # at these steps; infinite where the objective was not finite
    checks: Sequence[tuple[int, tuple[float, ...]]]  # a step, and how far beyond each limit it lies
    step_cost_s: float | None  # mean training time of a step
    ended: bool


class Curves(Protocol):
    """All trials of a study. Searchers look at it; they never change it."""

    @property
    def reports(self) -> int:
        """How many reports there are."""

    def first(self, reports: int) -> Iterator[Curve]:
        """The trials as they were after so many reports, in the order in which they began."""


class StudyCurves:
    """The curves in a history.

    Parameters
    ----------
    history:
        What was reported.
    params:
        Gives the configuration of a trial, by its name in the history.
    """

    def __init__(self, history: History, params: Callable[[Any], Mapping[str, Any]]) -> None:
        self._history, self._params = history, params

    @property
    def reports(self) -> int:
        """How many reports there are."""
        return self._history.reports

    def first(self, reports: int) -> Iterator[Curve]:
        """The trials as they were after so many reports, in the order in which they began."""
        counts = Counter(self._history.reported_by[:reports])
        for record in sorted(self._history.trials.values(), key=lambda record: record.order):
            count = min(counts.get(record.order, 0), len(record.log))
            if count:
                log, progress = record.log, record.progress
                last = log.step[count - 1]
                cost = progress.primary_s / progress.iterations if progress.iterations else None
                yield Curve(
                    self._params(record.id),
                    progress.total_steps,
                    log.step[:count],
                    log.loss[:count],
                    [(v.step, v.excess) for v in record.verdicts if v.reported <= last],
                    cost,
                    ended=count == len(log) and record.state != "running",
                )
