"""Which distribution of Optuna a parameter comes from: one for all trials, as Optuna wants it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from acetune.export.columns import as_text
from acetune.searchers.optuna import distributions
from acetune.space import Choice, Dimension, Float, Integer, Space

_SCALARS = (bool, int, float, str, type(None))


def fixed_part(described: Mapping[str, Any]) -> dict[str, Any]:
    """What every configuration of a space shares; Optuna has no word for it."""
    return {name: value for name, value in described.items() if not isinstance(value, Mapping)}


def distributions_of(
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


def stored_value(distribution: BaseDistribution, value: Any) -> Any:
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
    if all(_is_finite_number(value) for value in values):
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


def _is_finite_number(value: object) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return math.isfinite(value)
