"""Optuna's parameters as dimensions of a space: numbers, places of options, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial

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
