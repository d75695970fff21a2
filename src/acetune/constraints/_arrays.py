"""Labels, scores and weights as arrays: whatever is wrong with them is said here."""

from __future__ import annotations

import math
from collections.abc import Sized
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from acetune.core.errors import GoalError

_Array = NDArray[Any]
_LEAST_WEIGHT = 1e-100  # of the largest: the squares of such are numbers still
Threshold: TypeAlias = float | Literal["prevalence"] | None


def as_column(values: Any, what: str) -> _Array:
    """One number a row; an array of one column counts as that column."""
    try:
        array = np.asarray(values)
    except ValueError:  # NumPy makes no array of lists of unlike lengths
        raise GoalError(
            f"{what} must have one value a row, got {_shown(values)} with rows of unlike lengths"
        ) from None
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        hint = "; of two columns of probabilities take the second" if array.ndim == 2 else ""
        raise GoalError(
            f"{what} must have one value a row, got {_shown(values)} of shape {array.shape}{hint}"
        )
    if not len(array):
        raise GoalError(f"{what} is empty: there is nothing to measure")
    if array.dtype.kind not in "buif":
        try:
            array = array.astype(float)  # nullable columns, Python objects
        except (TypeError, ValueError):
            row, value = _first_without_number(array)
            raise GoalError(f"{what} must be numbers, got {value!r} in row {row}") from None
    return array


def as_labels(values: Any, what: str) -> NDArray[np.bool_]:
    """Whether each label is 1; any other than 0 and 1 is an error."""
    array = as_column(values, what)
    if array.dtype.kind == "b":
        return array
    positive: NDArray[np.bool_] = array == 1
    if np.count_nonzero(array) != np.count_nonzero(positive):  # NaN is not zero either
        row = int(np.argmax(~positive & (array != 0)))
        hint = "" if what == "y_true" else "; for scores give threshold=0.5, or another number"
        raise GoalError(f"{what} must be 0 or 1, got {array[row].item()!r} in row {row}{hint}")
    return positive


def as_positive(scores: Any, threshold: float, what: str) -> NDArray[np.bool_]:
    """Whether each score reaches the threshold."""
    array = as_column(scores, what)
    if array.dtype.kind == "f":
        absent = np.isnan(array)
        if absent.any():
            raise GoalError(f"{what} is NaN in row {int(np.argmax(absent))}")
    positive: NDArray[np.bool_] = array >= threshold
    return positive


def as_weights(values: Any) -> NDArray[np.float64]:
    """Weights of rows, none below zero. They are scaled, exactly, so that squares are finite."""
    array = as_column(values, "sample_weight").astype(float)
    wrong = ~((array >= 0) & (array < math.inf))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise GoalError(
            f"sample_weight must be finite and >= 0, got {array[row].item()!r} in row {row}"
        )
    if not array.any():
        raise GoalError("sample_weight is 0 in every row")
    scaled: NDArray[np.float64] = np.ldexp(array, -math.frexp(array.max())[1])
    lost = (scaled < _LEAST_WEIGHT) & (array > 0)
    if lost.any():
        row = int(np.argmax(lost))
        raise GoalError(
            f"sample_weight is {array[row].item()!r} in row {row}, as good as nothing beside the "
            f"largest, {array.max().item()!r}: give it 0"
        )
    return scaled


def as_threshold(
    threshold: Threshold, y_true: Any, weights: NDArray[np.float64] | None
) -> float | None:
    """The threshold as a number; None where predictions are labels."""
    if threshold is None:
        return None
    if isinstance(threshold, str):
        if threshold != "prevalence":
            raise GoalError(
                f"threshold must be a number, 'prevalence' or None (labels), got {threshold!r}"
            )
        return float(np.average(as_labels(y_true, "y_true"), weights=weights))
    if isinstance(threshold, (bool, np.bool_)) or not isinstance(
        threshold, (int, float, np.number)
    ):
        raise GoalError(
            f"threshold must be a number, 'prevalence' or None (labels), got {threshold!r}"
        )
    number = float(threshold)
    if math.isnan(number):
        raise GoalError("threshold is NaN")
    return number


def require_length(array: Sized, what: str, rows: int, advice: str = "") -> None:
    """Every row has one of these; ``advice`` says what to give instead."""
    try:
        count = len(array)
    except TypeError:
        raise GoalError(f"{what} must have one value a row, got {_shown(array)}") from None
    if count != rows:
        advice = advice or "both need one value for each of the same rows"
        raise GoalError(f"{what} has {count} rows, sensitive_features has {rows}; {advice}")


def _first_without_number(array: _Array) -> tuple[int, Any]:
    """The row, and what stands there; the first one if all are numbers by themselves."""
    values = array.tolist()  # a list of mixed kinds has become one of strings: '1' is a number
    for row, value in enumerate(values):
        try:
            float(value)
        except (TypeError, ValueError):
            return row, value
    return 0, values[0]


def _shown(values: Any) -> str:
    kind = type(values)
    return f"a {kind.__name__}" if kind.__module__ == "builtins" else f"{kind.__qualname__}"
