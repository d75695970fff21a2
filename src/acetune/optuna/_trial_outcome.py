"""The outcome that Optuna's trial gets when it ends: its state, value and constraints.

It follows the one table of :func:`acetune.core.outcome.outcome`, in Optuna's terms:

=========================================  ==========  ==========================================
the trial                                  state       value and constraints
=========================================  ==========  ==========================================
has a valid checkpoint                     COMPLETE    its best valid one, also if it was stopped
was checked, never valid, ended by itself  COMPLETE    its nearest miss
was checked, never valid, stopped          PRUNED      constraints of its nearest miss
unchecked because it could not win         PRUNED      no constraints
unchecked because no check was due         PRUNED      constraints that add up to the median
                                                       violation seen; none while none was seen
never had a finite objective               FAIL, or    no constraints, or those of its nearest
                                           PRUNED      miss
=========================================  ==========  ==========================================

Only COMPLETE trials can be ``study.best_trial``, so that a trial without a check never is: not even
one that could not win when it was skipped, for the trial that was better may fail.
"""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

from acetune.core.goals import Goals
from acetune.core.history import History
from acetune.core.outcome import outcome
from acetune.core.trial_record import Progress, TrialRecord
from acetune.policies import Policy
from acetune.searchers.optuna_samplers import amounts


class OptunaOutcome(NamedTuple):
    """What Optuna's trial ends with: its constraints, and its value; None: it is pruned."""

    value: float | None
    constraints: dict[str, float]
    why: str


def optuna_outcome(
    record: TrialRecord, history: History, goals: Goals, *, stopped: bool
) -> OptunaOutcome:
    """The outcome of a trial that has ended, in Optuna's terms."""
    ended = outcome(record, history)
    found = record.best_valid or record.nearest
    if found is None:
        constraints = _shared(goals, ended.violation) if not ended.failed else {}
        gated = record.gated_at is not None and not ended.failed
        why = "not checked, as it could not win" if gated else "not checked"
    else:
        constraints = amounts(goals, found.measured, history.largest_violation)
        why = "a valid checkpoint" if record.best_valid else "no checkpoint satisfied the limits"
    if record.best_valid is None and (stopped or (found is None and not ended.failed)):
        return OptunaOutcome(None, constraints, why)
    if ended.loss is None:  # Optuna takes NaN for a failure; a trial with checks is more than that
        return OptunaOutcome(
            math.nan if found is None else None, constraints, "no finite objective"
        )
    return OptunaOutcome(goals.objective.value(ended.loss), constraints, why)


def skipped_at(record: TrialRecord, policy: Policy) -> int | None:
    """The first step whose check was due and not made, of a trial without any check."""
    if record.progress.checks:
        return None
    progress = Progress(record.progress.total_steps, record.progress.interval)
    for step, loss in zip(record.log.step, record.log.loss, strict=True):
        if policy.due(progress, step, loss) is not None:
            return step
        progress.advance(step, loss, None)
    ended = record.state == "finished" and policy.due_at_end(progress) is not None
    return progress.last_step if ended else None


def _shared(goals: Goals, violation: float) -> dict[str, float]:
    """A violation that is only estimated, in equal parts."""
    if violation <= 0:
        return {}
    part = max(violation / len(goals.constraints), sys.float_info.min)
    return {constraint.name: part for constraint in goals.constraints}
