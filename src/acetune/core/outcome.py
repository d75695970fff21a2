"""What a searcher is told of a trial that has ended: value and violation of one checkpoint."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

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
