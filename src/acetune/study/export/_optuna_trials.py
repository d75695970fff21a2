"""A trial in Optuna's terms.

The states follow what :mod:`acetune.optuna._trial_outcome` tells Optuna during a study, except
that nothing is estimated: an export has no constraints but those that were measured.

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

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState, create_trial

from acetune.core.goals import Estimate, FailedCheck, Goals
from acetune.core.numbers import is_number
from acetune.searchers.optuna_samplers import amounts, distributions
from acetune.searchers.space import Choice, Dimension, Float, Integer, Space
from acetune.study.export._gathered import ExportedTrial, Gathered
from acetune.study.export._tables import as_text, utf8

PASSED_OVER = "passed over"
_LIST = "constraints"  # where Optuna 4 kept them, and optuna-dashboard reads them


def frozen_trials(gathered: Gathered, *, for_dashboard: bool) -> Iterator[FrozenTrial]:
    """The trials of a study, in their order."""
    goals, trials = gathered.goals, gathered.trials()
    searched = _distributions(gathered.info["space"], [trial.row.params for trial in trials])
    violations = [t.nearest_miss.violation for t in trials if t.nearest_miss is not None]
    largest = max(filter(math.isfinite, violations), default=1.0)
    passed_over = _passed_over(gathered, trials)
    for trial in trials:
        constraints = _constraints(goals, trial, largest)
        if trial.row.trial in passed_over:
            constraints[_name_for_passed_over(goals)] = 1.0
        curve = gathered.curve(trial.row.trial)
        yield _frozen(trial, curve, searched, constraints, for_dashboard)


def _frozen(
    trial: ExportedTrial,
    curve: dict[int, float],
    distributions: Mapping[str, BaseDistribution],
    constraints: dict[str, float],
    for_dashboard: bool,
) -> FrozenTrial:
    state, found = _state(trial), trial.found
    complete = state is TrialState.COMPLETE
    own = {name: value for name, value in trial.row.params.items() if name in distributions}
    numbers = {str(number) for number in range(len(constraints))}
    both = for_dashboard and constraints and not numbers & set(constraints)
    made = create_trial(
        state=state,
        value=found.value if complete and found is not None else None,
        params={utf8(k): _stored_value(distributions[k], value) for k, value in own.items()},
        distributions={utf8(name): distributions[name] for name in own},
        user_attrs=_attributes(trial),
        system_attrs={_LIST: list(constraints.values())} if both else {},
        intermediate_values=curve,
        constraints=constraints,
    )
    # create_trial sets the time of the day
    made.datetime_start = datetime.fromtimestamp(trial.row.started)
    if state.is_finished():
        made.datetime_complete = datetime.fromtimestamp(trial.row.ended or trial.last_time)
    return made


def _state(trial: ExportedTrial) -> TrialState:
    state = trial.row.state
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


def _constraints(goals: Goals, trial: ExportedTrial, largest: float) -> dict[str, float]:
    """How far beyond each limit the checkpoint lies, relative to it: 0 or less is feasible."""
    if trial.found is None:
        return {}
    measured: dict[str, Estimate | FailedCheck] = dict(trial.found.constraints)
    measured |= {name: FailedCheck(error) for name, error in trial.errors.items()}
    return amounts(goals, measured, largest)


def _passed_over(gathered: Gathered, trials: list[ExportedTrial]) -> set[int]:
    """Trials that would win in the search, and gave way to one that fresh data confirmed.

    Where fresh data has rejected what was found, or where the answer is not the best that its
    trial has by now, none of them may win.
    """
    answer, ranking = gathered.info["answer"], gathered.ranking
    for trial in trials:
        best = trial.best_valid
        if best and {"trial": best.trial, "attempt": best.attempt, "step": best.step} == answer:
            return set(ranking[: ranking.index(best.trial)])
    return set(ranking)


def _name_for_passed_over(goals: Goals) -> str:
    name = PASSED_OVER
    while any(constraint.name == name for constraint in goals.constraints):
        name += " "
    return name


def _attributes(trial: ExportedTrial) -> dict[str, Any]:
    """What Optuna has no place for, under the names of the table of trials."""
    row, found = trial.row, trial.found
    attributes: dict[str, Any] = {
        "trial": row.trial,
        "attempts": row.attempt,
        "state": row.state,
        "reason": str(row.reason),
        "stratum": trial.stratum,
        "total_steps": row.total_steps,
        "interval": row.interval,
        "training_s": trial.training_s,
        "checks_s": trial.checks_s,
    }
    if found is not None:
        attributes["found_step"] = found.step
        attributes["found_objective"] = found.value
        # JSON has no infinity: a check failed, and the error is among the constraints
        attributes["violation"] = found.violation if math.isfinite(found.violation) else None
        for name, measured in found.constraints.items():
            attributes[f"constraint.{name}"] = measured.value
            if measured.stderr:
                attributes[f"stderr.{name}"] = measured.stderr
        attributes |= {f"constraint.{name}": error for name, error in trial.errors.items()}
    if trial.status is not None:
        attributes["confirmation"] = trial.status
    return attributes


_SCALARS = (bool, int, float, str, type(None))


def fixed_part(described: Mapping[str, Any]) -> dict[str, Any]:
    """What every configuration of a space shares; Optuna has no word for it."""
    return {name: value for name, value in described.items() if not isinstance(value, Mapping)}


def _distributions(
    described: Mapping[str, Any], configurations: Iterable[Mapping[str, Any]]
) -> dict[str, BaseDistribution]:
    """The distributions of a study's parameters.

    They are those of its space. A parameter that the space does not have (under Ray's own searchers
    a study knows no space), or that has values outside it, gets one that holds all its values: a
    range for numbers, and else the values themselves.
    """
    searched = {name: v for name, v in described.items() if isinstance(v, Mapping)}
    space = Space.from_description(searched).dimensions if searched else {}
    fixed = fixed_part(described)
    values: dict[str, list[Any]] = {}
    for params in configurations:
        for name, value in params.items():
            if name not in fixed or value != fixed[name]:
                values.setdefault(name, []).append(value)
    return {name: _distribution(space.get(name), found) for name, found in values.items()}


def _stored_value(distribution: BaseDistribution, value: Any) -> Any:
    """A value as its distribution has it: what Optuna cannot keep is there in words."""
    if not isinstance(distribution, CategoricalDistribution):
        return value
    known = any(_key(value) == _key(choice) for choice in distribution.choices)
    return value if known else as_text(value)


def _distribution(dimension: Dimension | None, values: list[Any]) -> BaseDistribution:
    options = [*dimension.options] if isinstance(dimension, Choice) else []
    inside = dimension is not None and all(dimension.contains(value) for value in values)
    if dimension is not None and inside and not _mistakable(options):
        return distributions(Space({"it": dimension}))["it"]
    if all(map(is_number, values)):
        bounds = [] if isinstance(dimension, Choice | None) else [dimension.low, dimension.high]
        low, high = min([*values, *bounds]), max([*values, *bounds])
        log = isinstance(dimension, Float | Integer) and dimension.log and low > 0
        if all(type(value) is int for value in [*values, low, high]):
            return IntDistribution(low, high, log=log)
        return FloatDistribution(float(low), float(high), log=log)
    options = list({_key(option): option for option in [*options, *values]}.values())
    plain = all(isinstance(option, _SCALARS) for option in options)
    if not plain or _mistakable(options):
        options = list(dict.fromkeys(as_text(option) for option in options))
    return CategoricalDistribution(tuple(options))


def _key(option: object) -> tuple[type, str]:
    """The same for the same option: 1, 1.0 and True differ, and NaN is itself."""
    return type(option), json.dumps(option)


def _mistakable(options: list[Any]) -> bool:
    """Whether Optuna would take one option for another, as it does with 1 and True."""
    return any(
        a == b and type(a) is not type(b) for i, a in enumerate(options) for b in options[:i]
    )
