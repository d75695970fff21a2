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
    ended: bool  # it was stopped, or came to its last step


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
        """The trials as they were after so many reports, in the order in which they began.

        What it gives follows from these reports alone, so that a study that goes on after a crash
        learns what it would have learned without it. Of a trial that is trained again it is the
        last attempt.
        """
        counts = Counter(self._history.reported_by[:reports])
        for record in sorted(self._history.trials.values(), key=lambda record: record.order):
            count = min(counts.get(record.order, 0), len(record.log))
            if count:
                log, progress = record.log, record.progress
                last = log.step[count - 1]
                checks = [(v[3], v[4]) for v in record.verdicts if v[0] <= last]
                # strictly before: no matter whether that report came before this look or after it
                checks += [(step, beyond) for n, step, beyond in record.late_checks if n < reports]
                stopped = record.stop_decision is not None and count == len(log)
                yield Curve(
                    self._params(record.id),
                    progress.total_steps,
                    log.step[:count],
                    log.loss[:count],
                    checks,
                    ended=stopped or last == progress.total_steps,
                )
