"""Dimensions as Optuna and Ray Tune write them, read as ours. Neither is imported.

====================================  ==========================================================
Optuna, both ends included
``FloatDistribution``                 ``uniform``, with ``log`` ``loguniform``; ``step``
``IntDistribution``                   ``randint``, with ``log`` ``lograndint``; ``step``
``CategoricalDistribution``           ``choice``
Ray Tune
``uniform``, ``loguniform``           the same; Ray draws the upper end with probability 0
``randint``, ``lograndint``           up to ``upper - 1``: Ray leaves the upper end out
``quniform``, ``qloguniform``         multiples of ``q``, both ends included
``qrandint``, ``qlograndint``         multiples of ``q``, both ends included; with ``q=1`` Ray
                                      leaves the upper end out
``choice``                            ``choice``, of dicts too
====================================  ==========================================================
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from acetune.core.errors import SpaceError
from acetune.searchers.dimensions import Choice, Dimension, Float, Integer

_OPTUNA, _RAY = "optuna.distributions", "ray.tune.search.sample"
_KNOWN = {
    _OPTUNA: {"FloatDistribution", "IntDistribution", "CategoricalDistribution"},
    _RAY: {"Float", "Integer", "Categorical", "Function"},
}
_NEAR = 1e-9  # Ray takes a bound this near to a multiple of q, relatively, for one


def read_dimension(given: Any, name: str) -> Any:
    """A dimension of ours in place of one of Optuna's or Ray's; all else as it is."""
    try:
        if (kind := _class_of(given, _OPTUNA)) is not None:
            return _from_optuna(kind, given)
        if (kind := _class_of(given, _RAY)) is not None:
            return _from_ray(kind, given)
    except SpaceError as error:
        raise SpaceError(f"space[{name!r}]: {error}") from None
    if isinstance(given, Mapping) and set(given) == {"grid_search"}:
        raise SpaceError(
            f"space[{name!r}]: a grid is not searched here; write "
            f"acetune.choice({given['grid_search']!r})"
        )
    return given


def _class_of(given: object, module: str) -> str | None:
    """The name of the class of a library that an object is of."""
    for kind in type(given).__mro__:
        if kind.__module__ == module and kind.__name__ in _KNOWN[module]:
            return kind.__name__
    return None


def _from_optuna(kind: str, given: Any) -> Dimension:
    if kind == "CategoricalDistribution":
        return Choice(tuple(given.choices))
    if kind == "FloatDistribution":
        return Float(given.low, given.high, given.log, given.step)
    return Integer(given.low, given.high, given.log, given.step)


def _from_ray(kind: str, given: Any) -> Dimension:
    if kind == "Function":
        raise SpaceError(
            "tune.sample_from draws by a function of your own, which a searcher cannot see "
            "through. Search its inputs, and compute the value from trial.params in the training "
            "function. Where a dimension depends on another one, use acetune.choice of dicts"
        )
    sampler = given.get_sampler()
    quantum = getattr(sampler, "q", None)
    inner = getattr(sampler, "sampler", sampler)  # of a quantised one
    drawn = type(inner).__name__.strip("_")
    if drawn == "Grid":
        raise SpaceError(f"a grid is not searched here; write acetune.choice({given.categories!r})")
    if kind == "Categorical":
        return Choice(tuple(given.categories))
    if drawn not in ("Uniform", "LogUniform"):
        raise SpaceError(
            f"it is drawn as {drawn}, without bounds (tune.randn, tune.qrandn), and a search needs "
            "some; use acetune.uniform(low, high), for example three standard deviations to either "
            "side"
        )
    log = drawn == "LogUniform"
    low, high = given.lower, given.upper
    if kind == "Float":
        if quantum is None:
            return Float(low, high, log)
        low, high = _multiples(low, high, quantum)
        return Float(low, high, log, float(quantum))
    if quantum in (None, 1):
        if high <= low:
            raise SpaceError(
                f"tune.{'log' * log}randint({low!r}, {high!r}) has no value: Ray leaves the upper "
                "end out"
            )
        return Integer(low, high - 1, log)
    low, high = _multiples(low, high, quantum)
    return Integer(int(low), int(high), log, int(quantum))


def _multiples(low: float, high: float, quantum: float) -> tuple[float, float]:
    """The first and the last multiple of ``quantum`` between two bounds."""
    first, last = low / quantum, high / quantum
    first = round(first) if _is_whole(first) else math.ceil(first)
    last = round(last) if _is_whole(last) else math.floor(last)
    if last < first:
        raise SpaceError(f"there is no multiple of {quantum!r} between {low!r} and {high!r}")
    exact = Decimal(repr(quantum))
    return float(first * exact), float(last * exact)


def _is_whole(number: float) -> bool:
    return math.isclose(number, round(number), rel_tol=_NEAR)
