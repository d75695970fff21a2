"""The answer: which checkpoint of which trial qualified and was best."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import optuna
from optuna.trial import FrozenTrial, TrialState

from acetune.core.errors import GoalError
from acetune.core.goals import Estimate, FailedCheck, Goals
from acetune.core.observation import check_result
from acetune.optuna._attributes import CHECK, read_check, read_end, read_start
from acetune.optuna._pruner import AcePruner, goals_of, notice_unchecked


@dataclass(frozen=True, slots=True)
class FoundCheckpoint:
    """A configuration at a step, with what was measured of it.

    ``constraints`` holds what the checks gave, in the user's units. ``violation`` is 0 for one
    that qualifies. To have the model again, train ``params`` up to ``step``, or keep it with
    ``acetune.optuna.trial(keep_model=...)``.
    """

    trial: int
    step: int
    value: float
    constraints: dict[str, Estimate | FailedCheck]
    params: dict[str, Any]
    violation: float

    @property
    def status(self) -> Literal["unconfirmed"]:
        """What may be claimed, in the words of ``StudyResult.status``: nobody looked at fresh data.

        Certificates are issued by :func:`acetune.tune` alone.
        """
        return "unconfirmed"


def best(study: optuna.Study) -> FoundCheckpoint | None:
    """The best checkpoint that was checked and keeps every limit, or None.

    Checkpoints of trials that were pruned, failed or still run count as well, which
    ``study.best_trial`` does not know. Trials without a check never do.
    """
    goals = _goals(study)
    found = _checked(study, goals)
    valid = [one for one in found if one.violation == 0 and math.isfinite(one.value)]
    return min(valid, key=lambda one: _place(one, goals), default=None)


def nearest_miss(study: optuna.Study) -> FoundCheckpoint | None:
    """The least violating of the checkpoints that were found invalid, or None."""
    goals = _goals(study)
    missed = [one for one in _checked(study, goals) if one.violation > 0]
    return min(missed, key=lambda one: (one.violation, *_place(one, goals)), default=None)


def _goals(study: optuna.Study) -> Goals:
    if not isinstance(study, optuna.Study):
        raise GoalError(
            "a study of Optuna is needed, as optuna.create_study or optuna.load_study gives it, "
            f"got {study!r}"
        )
    pruner = study.pruner
    ours = isinstance(pruner, AcePruner)
    goals = goals_of(study) if ours or len(study.directions) == 1 else None
    if goals is None:
        raise GoalError(
            f"study {study.study_name!r} was not run with acetune; create or load it with "
            "pruner=acetune.optuna.AcePruner(constraints=[...])"
        )
    if isinstance(pruner, AcePruner):
        pruner.require_same(study, goals)
    return goals


def _checked(study: optuna.Study, goals: Goals) -> list[FoundCheckpoint]:
    trials = study.get_trials(deepcopy=False)
    if goals.constraints:
        unconstrained = (
            read_end(t.number, t.system_attrs) is None and not t.constraints
            for t in trials
            if t.state is TrialState.COMPLETE
        )
        notice_unchecked(study, sum(unconstrained))
    return [found for trial in trials for found in _checked_of(trial, goals)]


def _checked_of(trial: FrozenTrial, goals: Goals) -> Iterator[FoundCheckpoint]:
    values, attributes = trial.intermediate_values, trial.system_attrs
    number = trial.number
    if not goals.constraints:  # every checkpoint qualifies
        if read_start(number, attributes) is not None:
            for step, value in values.items():
                yield FoundCheckpoint(number, step, value, {}, dict(trial.params), 0.0)
        return
    steps = [int(key[len(CHECK) :]) for key in attributes if key.startswith(CHECK)]
    checks = [read_check(number, attributes, step) for step in steps if step in values]
    end = read_end(number, attributes)
    if end is not None:
        checks.append(end.check)
    for check in checks:
        if check is not None and check.step in values:
            loss = goals.objective.loss(values[check.step])
            judged = check_result(goals, check.step, loss, check.measured)
            least = 0.0 if judged.valid else sys.float_info.min  # a violation may have vanished
            yield FoundCheckpoint(
                number,
                check.step,
                values[check.step],
                dict(check.measured),
                dict(trial.params),
                max(judged.measured_violation, least),
            )


def _place(one: FoundCheckpoint, goals: Goals) -> tuple[float, int, int]:
    """Best first; the earliest trial and step among equals."""
    return goals.objective.loss(one.value), one.trial, one.step
