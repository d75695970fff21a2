"""Optuna's parameters as dimensions of a space: numbers, places of options, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import FrozenTrial

from acetune.searchers.space import Choice, Dimension, Float, Integer, Space, read_dimension


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

    Options of a choice become their places, for they may be of any type.
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
                found[name] = value
        return found

    def decode(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """A suggestion, as Optuna takes it."""
        found: dict[str, Any] = {}
        for name, value in params.items():
            one = self._parameters[name]
            if isinstance(one, CategoricalDistribution):
                value = one.choices[value]
            found[name] = value
        return found


def _dimension(one: BaseDistribution) -> Dimension:
    if isinstance(one, CategoricalDistribution):
        return Choice(tuple(range(len(one.choices))))
    dimension = read_dimension(one, "")
    assert isinstance(dimension, Float | Integer), "Optuna has no other"
    return dimension
