"""What the machine of a table would have taken for a configuration and so many steps.

A live trial is seldom one of the recorded configurations, and seldom as long. So the recorded costs
are fitted: a polynomial of the hyperparameters and the number of steps, for the logarithm of the
seconds a step. The fit is right for logarithms, and so it understates sums, which a few dear trials
decide (Duan 1983, Smearing estimate). By how much is seen on curves that were held out of a fit,
length by length, and made good.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from acetune.replay.curve_table import CurveTable
from acetune.searchers.space import Choice, Space

Array = NDArray[np.float64]
Begun: TypeAlias = tuple[Mapping[str, Any], int]  # a configuration and its number of steps

_DEGREE = 3
_RIDGE = 1e-3  # for tables with few configurations
_FOLDS = 5
_ROUNDS = "n_estimators"  # how long a trial may become, which is no cost of a step


class ExpectedCosts:
    """Fitted to a table that says what space was searched.

    Parameters
    ----------
    table:
        Its costs are those of the machine that recorded it.
    """

    def __init__(self, table: CurveTable) -> None:
        assert table.space is not None
        self._space = Space.from_description(table.space)
        begun, seconds, owners = _recorded(table)
        features, steps = self._features(begun), _steps(begun)
        target = np.log(seconds / steps)
        self._coefficients = _solve(features, target)
        held_out = np.zeros(len(begun))
        for fold in range(_FOLDS):
            out = owners % _FOLDS == fold
            if out.all():  # a single configuration: nothing to fit without it
                held_out[out] = seconds[out]
            elif out.any():
                found = _solve(features[~out], target[~out])
                held_out[out] = steps[out] * np.exp(features[out] @ found)
        lengths = _lengths(steps)
        took, expected = (np.bincount(lengths, weights=w) for w in (seconds, held_out))
        ones = np.ones(len(took))  # for a length of which nothing is recorded
        self._understated = np.divide(took, expected, out=ones, where=expected > 0)

    def uncorrected(self, begun: Sequence[Begun]) -> Array:
        """Seconds of each trial, by the fit alone."""
        found: Array = _steps(begun) * np.exp(self._features(begun) @ self._coefficients)
        return found

    def seconds(self, begun: Sequence[Begun]) -> Array:
        """Seconds of each trial, such that sums over trials are right."""
        length = np.minimum(_lengths(_steps(begun)), len(self._understated) - 1)
        found: Array = self.uncorrected(begun) * self._understated[length]
        return found

    def _features(self, begun: Sequence[Begun]) -> Array:
        """All products of up to three coordinates: hyperparameters from 0 to 1, and log steps."""
        at = np.array([[*_place(self._space, params), math.log(n) / 8] for params, n in begun])
        columns = [np.ones(len(at))]
        for degree in range(1, _DEGREE + 1):
            for chosen in itertools.combinations_with_replacement(range(at.shape[1]), degree):
                columns.append(at[:, chosen].prod(axis=1))
        return np.stack(columns, axis=1)


def _recorded(table: CurveTable) -> tuple[list[Begun], Array, NDArray[np.int64]]:
    """The first n steps of every curve, for n = 1, 2, 4, ... and all: seconds, and whose curve."""
    begun: list[Begun] = []
    seconds: list[float] = []
    owners: list[int] = []
    for config, params in enumerate(table.configs):
        total = table.steps(config)
        start = int(table.starts[config])
        spent = np.cumsum(table.cost_s[start : start + total])
        for n in sorted({*(2**k for k in range(total.bit_length())), total}):
            if spent[n - 1] > 0:
                begun.append((params, n))
                seconds.append(float(spent[n - 1]))
                owners.append(config)
    return begun, np.array(seconds), np.array(owners)


def _solve(features: Array, target: Array) -> Array:
    penalty = _RIDGE * np.eye(features.shape[1])
    penalty[0, 0] = 0.0  # the mean is free
    return np.asarray(np.linalg.solve(features.T @ features + penalty, features.T @ target))


def _steps(begun: Iterable[Begun]) -> Array:
    return np.array([n for _, n in begun], dtype=float)


def _lengths(steps: Array) -> NDArray[np.int64]:
    """0 for one step, 1 for two and three, 2 for four to seven, ..."""
    return np.floor(np.log2(steps)).astype(np.int64)


def _place(space: Space, params: Mapping[str, Any]) -> list[float]:
    place = []
    for name, dimension in space.dimensions.items():
        if name == _ROUNDS or isinstance(dimension, Choice):
            continue
        low, high, value = float(dimension.low), float(dimension.high), float(params[name])
        if dimension.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        place.append((value - low) / (high - low) if high > low else 0.0)
    return place
