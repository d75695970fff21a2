"""What a searcher of acetune learns from: parameters as a space, and trials as curves.

Everything follows from what the storage holds. It does not tell in which order trials have
reported, so that "the first reports" are those of the first trials: with one worker these are the
same.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState

from acetune.core.outcome import Curve
from acetune.optuna._attributes import read_check, read_end, read_start
from acetune.optuna._pruner import goals_in, goals_of
from acetune.optuna._study_access import retried
from acetune.searchers.space import Choice, Dimension, Float, Integer, Space


def known_parameters(trials: Iterable[FrozenTrial]) -> dict[str, BaseDistribution]:
    """Every parameter that a trial has had, as the last trial that had it asked for it.

    Parameters that can have a single value are left out: there is nothing to search.
    """
    found: dict[str, BaseDistribution] = {}
    for trial in trials:
        found |= trial.distributions
    return {name: one for name, one in found.items() if not one.single()}


class ParameterSpace:
    """Parameters of a study, some of which not every trial has.

    Options of a choice become their places, for they may be of any type, and numbers with a step
    how many steps they are from the lowest.
    """

    def __init__(self, parameters: Mapping[str, BaseDistribution]) -> None:
        self._parameters = dict(parameters)
        self.space = Space({name: _dimension(one) for name, one in self._parameters.items()})

    def encode(self, trial: FrozenTrial) -> dict[str, Any]:
        """What a trial has of these parameters; bounds and steps may have been others then."""
        found: dict[str, Any] = {}
        for name, one in self._parameters.items():
            if name in trial.params:
                value = trial.params[name]
                if isinstance(one, CategoricalDistribution):
                    value = int(one.to_internal_repr(value))
                elif (step := _step(one)) is not None:
                    value = (value - step.low) / step.width
                found[name] = value
        return found

    def decode(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """A suggestion, as Optuna takes it."""
        found: dict[str, Any] = {}
        for name, value in params.items():
            one = self._parameters[name]
            if isinstance(one, CategoricalDistribution):
                value = one.choices[value]
            elif (step := _step(one)) is not None:
                value = min(step.low + value * step.width, step.high)
            found[name] = value
        return found


class _Steps(NamedTuple):
    low: float
    high: float
    width: float


def _step(one: BaseDistribution) -> _Steps | None:
    """The steps of a number that has some; whole numbers have, if not by one."""
    assert isinstance(one, (FloatDistribution, IntDistribution)), "Optuna has no other"
    usual = 1 if isinstance(one, IntDistribution) else None
    if one.step is None or one.step == usual:
        return None
    return _Steps(one.low, one.high, one.step)


def _dimension(one: BaseDistribution) -> Dimension:
    if isinstance(one, CategoricalDistribution):
        return Choice(tuple(range(len(one.choices))))
    if (step := _step(one)) is not None:
        return Integer(0, round((step.high - step.low) / step.width))
    if isinstance(one, IntDistribution):
        return Integer(one.low, one.high, one.log)
    assert isinstance(one, FloatDistribution)
    return Float(one.low, one.high, one.log)


_ENDED = (TrialState.COMPLETE, TrialState.PRUNED)


class OptunaCurves:
    """The trials of a study at a moment.

    Parameters
    ----------
    study:
        Which one.
    trials:
        Its trials, by number.
    params:
        Gives the configuration of a trial, as the searcher knows it.
    """

    def __init__(
        self,
        study: optuna.Study,
        trials: Sequence[FrozenTrial],
        params: Callable[[FrozenTrial], Mapping[str, Any]],
    ) -> None:
        replaced = {number for trial in trials for number in retried(trial)}
        self._trials = [
            trial
            for trial in trials
            if trial.state is not TrialState.WAITING and trial.number not in replaced
        ]
        known = goals_of(study)
        self._goals = goals_in(study) if known is None else known
        self._names = [c.name for c in known.constraints] if known is not None else None
        self._params = params

    @property
    def reports(self) -> int:
        """How many reports there are; a value at the end alone counts as one."""
        return sum(map(_reports, self._trials))

    def first(self, reports: int) -> Iterator[Curve]:
        """The trials as they were after so many reports."""
        names = self._constraint_names()
        for trial in self._trials:
            count = min(_reports(trial), reports)
            if count:
                # the check at its end comes after its last report: so does the next one
                whole = count == _reports(trial)
                yield self._curve(trial, count, names, whole, closed=count < reports)
            reports -= count
            if reports <= 0:
                return

    def _constraint_names(self) -> Sequence[str]:
        """Those of acetune, or else those that trials have set by themselves."""
        if self._names is not None:
            return self._names
        return sorted({name for trial in self._trials for name in trial.constraints})

    def _curve(
        self, trial: FrozenTrial, count: int, names: Sequence[str], whole: bool, closed: bool
    ) -> Curve:
        objective, attributes = self._goals.objective, trial.system_attrs
        values = dict(sorted(trial.intermediate_values.items())[:count])
        start, end = read_start(trial.number, attributes), read_end(trial.number, attributes)
        total_steps = None if start is None else start.total_steps
        ours = start is not None or end is not None
        ended = whole and trial.state in _ENDED
        if not values:
            values, total_steps = {1: math.nan}, 1
        if not ours and ended and trial.state is TrialState.COMPLETE:
            # what Optuna compares trials by, whatever was reported on the way
            values[max(values)] = _final(trial)
        checks: list[tuple[int, tuple[float, ...]]] = []
        if ours and names:
            for step in values:
                check = read_check(trial.number, attributes, step)
                if check is not None and check.step in values:
                    excess = self._goals.relative_excesses(check.measured)
                    checks.append((check.step, excess))
            if closed and end is not None and end.check is not None:
                excess = self._goals.relative_excesses(end.check.measured)
                checks.append((end.check.step, excess))
        elif ended and names and all(name in trial.constraints for name in names):
            checks.append((max(values), tuple(trial.constraints[name] for name in names)))
        losses = array("d", map(objective.loss, values.values()))
        last = total_steps is not None and max(values) == total_steps
        return Curve(
            self._params(trial), total_steps, array("q", values), losses, checks, ended or last
        )


def _final(trial: FrozenTrial) -> float:
    return math.nan if trial.value is None else trial.value


def _reports(trial: FrozenTrial) -> int:
    """How many reports a trial counts as: it needs a value to be one."""
    if trial.intermediate_values:
        return len(trial.intermediate_values)
    return int(trial.state is TrialState.COMPLETE)
