"""A trial in Optuna's terms.

The states follow what :mod:`acetune.optuna.told` tells Optuna during a study, except that nothing
is estimated: an export has no constraints but those that were measured.

=============================================  ==========  =====================================
the trial                                      state       value and constraints
=============================================  ==========  =====================================
has a valid checkpoint                         COMPLETE    its best valid one, however it ended
was checked, never valid, ended by itself      COMPLETE    its nearest miss
was checked, never valid, stopped or cut off   PRUNED      constraints of its nearest miss
was never checked, or rejected unseen          PRUNED      none
failed                                         FAIL        constraints of its nearest miss
ended by itself, never a finite objective      FAIL        none
is running                                     RUNNING     constraints of its nearest miss
=============================================  ==========  =====================================
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from acetune.core.goals import Goals
from acetune.export.distributions import stored_value
from acetune.export.gathered import Checked, Gathered, GatheredTrial
from acetune.optuna.told import amounts

PASSED_OVER = "passed over"
_LIST = "constraints"  # where Optuna 4 kept them, and optuna-dashboard reads them


def frozen_trials(
    gathered: Gathered, distributions: Mapping[str, BaseDistribution], *, for_dashboard: bool
) -> Iterator[FrozenTrial]:
    """The trials of a study, in their order."""
    goals, trials = gathered.goals, gathered.trials()
    violations = [t.nearest_miss.violation for t in trials if t.nearest_miss is not None]
    largest = max(filter(math.isfinite, violations), default=1.0)
    passed_over = _passed_over(trials, gathered.info["answer"])
    for trial in trials:
        constraints = _constraints(goals, trial.found, largest)
        if trial.number in passed_over:
            constraints[_name_for_passed_over(goals)] = 1.0
        yield _frozen(trial, distributions, constraints, for_dashboard)


def _frozen(
    trial: GatheredTrial,
    distributions: Mapping[str, BaseDistribution],
    constraints: dict[str, float],
    for_dashboard: bool,
) -> FrozenTrial:
    state, found = _state(trial), trial.found
    complete = state is TrialState.COMPLETE
    own = {name: value for name, value in trial.params.items() if name in distributions}
    numbers = {str(number) for number in range(len(constraints))}
    both = for_dashboard and constraints and not numbers & set(constraints)
    made = create_trial(
        state=state,
        value=found.objective if complete and found is not None else None,
        params={utf8(k): stored_value(distributions[k], value) for k, value in own.items()},
        distributions={utf8(name): distributions[name] for name in own},
        user_attrs=_attributes(trial),
        system_attrs={_LIST: list(constraints.values())} if both else {},
        intermediate_values=dict(zip(trial.steps, trial.objectives, strict=True)),
        constraints=constraints,
    )
    # create_trial sets the time of the day
    made.datetime_start = datetime.fromtimestamp(trial.row["started"])
    if state.is_finished():
        made.datetime_complete = datetime.fromtimestamp(trial.row["ended"] or trial.last_time)
    return made


def _state(trial: GatheredTrial) -> TrialState:
    state = trial.row["state"]
    if trial.best_valid is not None:
        return TrialState.COMPLETE
    if state == "running":
        return TrialState.RUNNING
    if state == "failed":
        return TrialState.FAIL
    if state == "finished":
        if trial.nearest_miss is not None:
            return TrialState.COMPLETE
        return TrialState.FAIL if trial.best_loss == math.inf else TrialState.PRUNED
    return TrialState.PRUNED


def _constraints(goals: Goals, found: Checked | None, largest: float) -> dict[str, float]:
    """How far beyond each limit the checkpoint lies, relative to it: 0 or less is feasible."""
    if found is None:
        return {}
    measured = {check.constraint: check.measurement for check in found.checks}
    return amounts(goals, measured, largest)


def _passed_over(trials: list[GatheredTrial], answer: Mapping[str, int] | None) -> set[int]:
    """Trials that would win in the search, and gave way to one that fresh data confirmed.

    Where fresh data has rejected what was found, or where the answer is not the best that its
    trial has by now, none of them may win.
    """
    found = [(t.best_valid, t.number) for t in trials if t.best_valid is not None]
    ranking = sorted(found, key=lambda each: each[0][:3])
    for place, (best, number) in enumerate(ranking):
        if {"trial": number, "attempt": best.attempt, "step": best.step} == answer:
            return {other for _, other in ranking[:place]}
    return {number for _, number in ranking}


def _name_for_passed_over(goals: Goals) -> str:
    name = PASSED_OVER
    while any(constraint.name == name for constraint in goals.constraints):
        name += " "
    return name


def _attributes(trial: GatheredTrial) -> dict[str, Any]:
    """What Optuna has no place for, under the names of the table of trials."""
    row, found = trial.row, trial.found
    attributes: dict[str, Any] = {
        "trial": trial.number,
        "attempts": trial.attempt,
        "state": row["state"],
        "reason": row["reason"],
        "stratum": trial.stratum,
        "total_steps": row["total_steps"],
        "interval": row["interval"],
        "training_s": trial.training_s,
        "checks_s": trial.checks_s,
    }
    if found is not None:
        attributes["found_step"] = found.step
        attributes["found_objective"] = found.objective
        # JSON has no infinity: a check failed, and the error is among the constraints
        attributes["violation"] = found.violation if math.isfinite(found.violation) else None
        for check in found.checks:
            name = check.constraint
            attributes[f"constraint.{name}"] = check.error if check.value is None else check.value
            if check.stderr:
                attributes[f"stderr.{name}"] = check.stderr
    if trial.status:
        attributes["confirmation"] = trial.status
    return attributes


def utf8(text: str) -> str:
    """Half characters, which JSON can hold and a database cannot, are written out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
