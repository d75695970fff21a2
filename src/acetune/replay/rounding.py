"""Rounding to decimals: the result is the very double that the decimal denotes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from acetune.core.errors import TableError
from acetune.replay.curves import CONFIRM, CurveTable, Floats

_POWERS = np.array([float(f"1e{power}") for power in range(301)])  # np.power may be an ulp off


def rounded_columns(table: CurveTable, digits: Mapping[str, int]) -> dict[str, Floats]:
    """Metrics in so many decimals, and ``cost_s`` in so many significant digits."""
    known = [*table.metrics, "cost_s"]
    for name, count in digits.items():
        if name not in known:
            raise TableError(f"digits of {name!r}: there is no such column; there are {known}")
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= 15:
            raise TableError(f"digits of {name!r} must be a number from 0 to 15, got {count!r}")
    columns = {}
    for metric, column in table.metrics.items():
        decimals = digits.get(metric, digits.get(metric.removesuffix(CONFIRM)))
        columns[metric] = column if decimals is None else fixed(column, decimals)
    kept = digits.get("cost_s")
    columns["cost_s"] = table.cost_s if kept is None else significant(table.cost_s, kept)
    return columns


def fixed(column: Floats, decimals: int) -> Floats:
    """The doubles nearest to the values in so many decimals.

    >>> fixed(np.array([0.123456, -0.0001, 1e300, np.nan]), 3).tolist()
    [0.123, 0.0, 1e+300, nan]
    """
    # both this and a whole number below 2**52 are exact: there is one rounding, in the end
    scale = float(_POWERS[decimals])
    small = np.abs(column) < 2**52 / scale  # beyond that a double has no decimals to round
    rounded = np.rint(np.where(small, column, 0.0) * scale) / scale
    return np.where(small, rounded + 0.0, column)  # + 0.0 takes the sign off a zero


def significant(column: Floats, digits: int) -> Floats:
    """The doubles nearest to the values in so many significant digits.

    >>> significant(np.array([0.012345, 0.0, 1234.5]), 2).tolist()
    [0.012, 0.0, 1200.0]
    """
    magnitude = np.floor(np.log10(np.where(column > 0, column, 1.0))).astype(int)
    decimals = np.clip(digits - 1 - magnitude, -300, 300)
    shift, unshift = _POWERS[np.maximum(decimals, 0)], _POWERS[np.maximum(-decimals, 0)]
    rounded: Floats = np.rint(column * shift / unshift) * unshift / shift  # one of the two is 1
    return rounded
