"""A trial in Optuna's terms.

The states follow what :mod:`acetune.optuna._optuna_link` tells Optuna during a study, except
that nothing is estimated: an export has no constraints but those that were measured.

=============================================  ==========  =====================================
the trial                                      state       value and constraints
=============================================  ==========  =====================================
has a feasible checkpoint                      COMPLETE    that one, however the trial ended
was checked, none feasible, ended by itself    COMPLETE    its nearest miss
was checked, none feasible, stopped or cut off PRUNED      constraints of its nearest miss
was never checked, or rejected unseen          PRUNED      none
failed                                         FAIL        constraints of its nearest miss
ended by itself, never a finite objective      FAIL        none
is running                                     RUNNING     constraints of its nearest miss
=============================================  ==========  =====================================

The checkpoint is the answer in the answer's trial; in others the best valid one, or else the best
that misses only a margin acetune has chosen. Such a margin is an aim of the search, and counts in
no constraint here.
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

from acetune.core.formatting import flattened
from acetune.core.goals import Estimate, FailedCheck, Goals
from acetune.core.numbers import is_number
from acetune.searchers.optuna_samplers import amounts, distribution
from acetune.searchers.space import Choice, Dimension, Float, Integer, Space
from acetune.study.export._gathered import Gathered
from acetune.study.export._tables import as_text, utf8
from acetune.study.table_rows import TrialRow

PASSED_OVER = "passed over"
_LIST = "constraints"  # where Optuna 4 kept them, and optuna-dashboard reads them


def frozen_trials(gathered: Gathered, *, for_dashboard: bool) -> Iterator[FrozenTrial]:
    """The trials of a study, in their order."""
    goals, rows, numbers = gathered.goals.conditions, gathered.trials, gathered.numbers
    configurations = [flattened(row.params) for row in rows]
    searched = _distributions(gathered.info["space"], configurations)
    violations = [found.violation for found in gathered.nearest_miss.values()]
    largest = max(filter(math.isfinite, violations), default=1.0)
    passed_over = _passed_over(gathered)
    losses, times = numbers.best_loss.tolist(), numbers.last_time
    costs = zip(numbers.training_s.tolist(), numbers.checks_s.tolist(), strict=True)
    together = zip(rows, configurations, losses, times, costs, strict=True)
    for row, params, best_loss, last_time, spent in together:
        constraints = _constraints(gathered, goals, row.trial, largest)
        if row.trial in passed_over:
            constraints[_name_for_passed_over(goals)] = 1.0
        state, found = _state(gathered, row, best_loss), gathered.found.get(row.trial)
        complete = state is TrialState.COMPLETE
        own = {name: value for name, value in params.items() if name in searched}
        indices = {str(index) for index in range(len(constraints))}
        both = for_dashboard and constraints and not indices & set(constraints)
        made = create_trial(
            state=state,
            value=found.value if complete and found is not None else None,
            params={utf8(k): _stored_value(searched[k], value) for k, value in own.items()},
            distributions={utf8(name): searched[name] for name in own},
            user_attrs=_attributes(gathered, row, *spent),
            system_attrs={_LIST: list(constraints.values())} if both else {},
            intermediate_values=gathered.curve(row.trial),
            constraints=constraints,
        )
        # create_trial sets the time of the day
        made.datetime_start = datetime.fromtimestamp(row.started)
        if state.is_finished():
            made.datetime_complete = datetime.fromtimestamp(row.ended or last_time)
        yield made


def _state(gathered: Gathered, row: TrialRow, best_loss: float) -> TrialState:
    if row.trial in gathered.feasible:
        return TrialState.COMPLETE
    if row.state == "running":
        return TrialState.RUNNING
    if row.state == "failed":
        return TrialState.FAIL
    if row.state == "finished":
        if row.trial in gathered.nearest_miss:
            return TrialState.COMPLETE
        return TrialState.FAIL if best_loss == math.inf else TrialState.PRUNED
    return TrialState.PRUNED


def _constraints(gathered: Gathered, goals: Goals, trial: int, largest: float) -> dict[str, float]:
    """How far beyond each limit the checkpoint lies, relative to it: 0 or less is feasible."""
    found = gathered.found.get(trial)
    if found is None:
        return {}
    measured: dict[str, Estimate | FailedCheck] = dict(found.constraints)
    errors = gathered.errors.get(trial, {})
    measured |= {name: FailedCheck(error) for name, error in errors.items()}
    return amounts(goals, measured, largest)


def _passed_over(gathered: Gathered) -> set[int]:
    """Trials that would win by the search's values, and gave way to the answer.

    Where fresh data has rejected what was found none of them may win.
    """
    places, best = gathered.feasible, gathered.answer
    first = math.inf if best is None else places[best.trial]
    return {trial for trial, place in places.items() if place < first}


def _name_for_passed_over(goals: Goals) -> str:
    name = PASSED_OVER
    while any(constraint.name == name for constraint in goals.constraints):
        name += " "
    return name


def _attributes(
    gathered: Gathered, row: TrialRow, training_s: float, checks_s: float
) -> dict[str, Any]:
    """What Optuna has no place for, under the names of the table of trials."""
    found, status = gathered.found.get(row.trial), gathered.status(row.trial)
    attributes: dict[str, Any] = {
        "trial": row.trial,
        "attempts": row.attempt,
        "state": row.state,
        "reason": str(row.reason),
        "stratum": gathered.stratum(row.trial),
        "total_steps": row.total_steps,
        "interval": row.interval,
        "training_s": training_s,
        "checks_s": checks_s,
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
        errors = gathered.errors.get(row.trial, {})
        attributes |= {f"constraint.{name}": error for name, error in errors.items()}
    if status is not None:
        attributes["confirmation"] = status
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
        return distribution(dimension)
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
