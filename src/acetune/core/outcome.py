"""What a searcher is told of trials: what came of those that have ended, and the curves of all."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from acetune.core.history import History
from acetune.core.trial_record import Checkpoint, TrialRecord


class Outcome(NamedTuple):
    """Loss and violation of one checkpoint, both finite.

    ``failed`` trials have no loss and carry the worst violation known.
    """

    loss: float | None
    violation: float
    failed: bool = False


class Violations(Protocol):
    """What must be known of the violations of other trials: a History knows it."""

    @property
    def median_violation(self) -> float:
        """Median of the positive finite violations seen, 0 if none was."""

    @property
    def largest_violation(self) -> float:
        """Largest finite violation seen, 1 if none was."""


def outcome(trial: TrialRecord, history: Violations) -> Outcome:
    """The one table that every engine uses.

    ========================================  =============================================
    the trial                                 the searcher is told
    ========================================  =============================================
    has a valid checkpoint                    its best valid one, violation 0
    was checked, never valid                  its least violating one
    unchecked because it could not win        its best value, as if the constraint held: it
                                              cannot win anyway, and anything else misleads
    unchecked because no check was due        its best value, the median positive violation
    failed, or never had a finite objective   a failure, with the largest violation seen
    ========================================  =============================================
    """
    best_loss = trial.progress.best_loss
    if trial.state == "failed" and trial.best_valid is None:
        return Outcome(None, history.largest_violation, failed=True)
    if trial.best_valid is not None:
        return Outcome(trial.best_valid.loss, 0.0)
    if trial.nearest is not None:
        return _miss(trial.nearest, history)
    if best_loss == math.inf:
        return Outcome(None, history.largest_violation, failed=True)
    if trial.gated_at is not None:
        return Outcome(best_loss, 0.0)
    return Outcome(best_loss, history.median_violation)


def _miss(nearest: Checkpoint, history: Violations) -> Outcome:
    violation = nearest.violation
    if violation == math.inf:
        violation = history.largest_violation
    if nearest.loss == math.inf:
        return Outcome(None, violation, failed=True)
    return Outcome(nearest.loss, violation)


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
