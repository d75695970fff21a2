"""What fairness metrics are given, as arrays: whatever is wrong with it is said here.

Labels, scores and weights become columns; sensitive features of any kind become group numbers
0, 1, 2, ..., one for each row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sized
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from acetune.core.errors import GoalError

_Array = NDArray[Any]
_Codes = NDArray[np.intp]
_FEW = 16  # groups, up to which comparing is faster than sorting
_LEAST_WEIGHT = 1e-100  # of the largest: the squares of such are numbers still
Threshold: TypeAlias = float | Literal["prevalence"] | None


def as_column(values: Any, what: str) -> _Array:
    """One number a row; an array of one column counts as that column."""
    _refuse_masked(values, what)
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
    if array.dtype.kind in "cmM":  # what NumPy would make of these are other numbers
        raise GoalError(f"{what} must be numbers, got an array of {array.dtype}")
    if array.dtype.kind not in "buif":
        try:
            array = array.astype(float)  # nullable columns, Python objects
        except (TypeError, ValueError):
            row, value = _first_without_number(array)
            raise GoalError(f"{what} must be numbers, got {value!r} in row {row}") from None
    return array


def _refuse_masked(values: Any, what: str) -> None:
    """A mask would be lost, and what lies behind it counted."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        row = int(np.flatnonzero(np.ma.getmaskarray(values))[0])
        raise GoalError(f"{what} is masked in row {row}: leave such rows out")


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


def as_positive(scores: Any, threshold: float | None, what: str) -> NDArray[np.bool_]:
    """Whether each score reaches the threshold; without one, whether each label is 1."""
    if threshold is None:
        return as_labels(scores, what)
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
            f"sample_weight is {array[row].item()!r} in row {row}, as good as nothing next to the "
            f"largest, {array.max().item()!r}: give it 0"
        )
    return scaled


def as_threshold(
    threshold: Threshold, y_true: Any, weights: NDArray[np.float64] | None
) -> float | None:
    """The threshold as a number; None where predictions are labels."""
    if threshold is None:
        return None
    if isinstance(threshold, str) and threshold == "prevalence":
        return float(np.average(as_labels(y_true, "y_true"), weights=weights))
    if isinstance(threshold, bool) or not isinstance(threshold, (int, float, np.number)):
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


def require_same_index(features: tuple[Any, ...], others: Mapping[str, Any]) -> None:
    """Rows are matched by their places: pandas objects whose labels disagree may be in disorder.

    ``features`` are the columns of ``sensitive_features``; other lengths are complained of
    elsewhere.
    """
    for column in features:
        ours = _index(column)
        for what, values in others.items():
            theirs = _index(values)
            if ours is None or theirs is None or len(ours) != len(theirs) or ours.equals(theirs):
                continue
            pairs = list(zip(theirs, ours, strict=True))
            row = next(
                (row for row, (one, other) in enumerate(pairs) if repr(one) != repr(other)), 0
            )
            one, other = pairs[row]
            raise GoalError(
                f"{what} and sensitive_features have different indices: row {row} is {one!r} in "
                f"{what} and {other!r} in sensitive_features, and rows are matched by their "
                f"places; order one by the other, as in groups.loc[{what}.index]; if the places "
                "fit already, drop the labels with reset_index(drop=True) or to_numpy()"
            )


def _index(values: Any) -> Any:
    """The labels of the rows of a pandas series or data frame; None: there are none."""
    return values.index if hasattr(values, "iloc") else None


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


class Groups(NamedTuple):
    """The group of each row; only groups that occur have a number."""

    codes: _Codes
    number: int
    columns: tuple[Any, ...]  # what they were read from, to name one

    def name(self, code: int) -> str:
        """A group as the user knows it; several features make a tuple."""
        return self._name_at(int(np.flatnonzero(self.codes == code)[0]))

    def names(self) -> tuple[str, ...]:
        """All of them, in the order of their numbers."""
        _, first = np.unique(self.codes, return_index=True)
        return tuple(map(self._name_at, first.tolist()))

    def _name_at(self, row: int) -> str:
        values = [_plain(_at(column, row)) for column in self.columns]
        return repr(values[0] if len(values) == 1 else tuple(values))


def encode_groups(sensitive_features: Any) -> Groups:
    """Groups from one feature, or from the combinations of several that occur.

    Several features come as a table: a data frame, a dict of columns or an array of two dimensions.

    >>> encode_groups(["f", "m", "f"]).codes.tolist()
    [0, 1, 0]
    >>> encode_groups({"sex": ["f", "m", "f"], "old": [True, True, False]}).number
    3
    """
    columns = _columns(sensitive_features)
    codes, count = _encode(columns[0])
    for column in columns[1:]:
        more, times = _encode(column)
        if len(more) != len(codes):
            raise GoalError(
                f"sensitive_features has columns of {len(codes)} and of {len(more)} rows"
            )
        codes, count = _compressed(codes * times + more)
    return Groups(codes, count, columns)


def _columns(features: Any) -> tuple[Any, ...]:
    if isinstance(features, Mapping):
        columns = tuple(features.values())
    elif hasattr(features, "columns") and hasattr(features, "iloc"):  # a pandas data frame
        columns = tuple(features.iloc[:, place] for place in range(features.shape[1]))
    elif hasattr(features, "factorize"):  # a pandas series, index or categorical
        return (features,)
    else:
        # a list of mixed types must not become one of strings, where None reads 'None'
        kind = object if isinstance(features, (list, tuple)) else None
        _refuse_masked(features, "sensitive_features")
        array = np.asarray(features, dtype=kind)
        if array.ndim not in (1, 2):
            raise GoalError(
                "sensitive_features must have one value a row, or a table of several features, "
                f"got an array of shape {array.shape}"
            )
        columns = (array,) if array.ndim == 1 else tuple(array.T)
    if not columns:
        raise GoalError("sensitive_features has no columns")
    return columns


def _encode(column: Any) -> tuple[_Codes, int]:
    """Numbers of the values of one feature, and how many of them there are."""
    if hasattr(column, "factorize") and not isinstance(column.dtype, np.dtype):
        # pandas knows how to tell its own kinds of values apart, and marks missing ones
        codes = np.asarray(column.factorize()[0], dtype=np.intp)
        if len(codes) and codes.min() < 0:
            _complain_of_missing(column, int(np.argmin(codes)))
        return _compressed(codes)
    _refuse_masked(column, "sensitive_features")
    array = np.asarray(column, dtype=object if isinstance(column, (list, tuple)) else None)
    if array.ndim != 1:
        raise GoalError(f"a sensitive feature must have one dimension, got shape {array.shape}")
    if array.dtype.kind in "bui":
        return _compressed(array)
    if array.dtype.kind == "O":
        return _encode_objects(array)
    if array.dtype.kind == "U" and array.dtype.isnative and array.size:
        characters = np.ascontiguousarray(array).view(np.uint32).reshape(len(array), -1)
        if characters.max() < 128:
            return _encode_ascii(characters)
    absent = array != array  # NaN and NaT alone are unlike themselves
    if absent.any():
        _complain_of_missing(array, int(np.argmax(absent)))
    values, inverse = np.unique(array, return_inverse=True)
    return inverse.astype(np.intp, copy=False), len(values)


def _encode_ascii(characters: NDArray[np.uint32]) -> tuple[_Codes, int]:
    """Strings as numbers of seven bits a character: those are told apart faster than strings."""
    codes, number = np.zeros(len(characters), np.intp), 1
    for start in range(0, characters.shape[1], 7):  # as many as a float holds exactly
        part = characters[:, start : start + 7].astype(float)  # whose products are fast
        words = (part @ 128.0 ** np.arange(part.shape[1])).astype(np.int64)
        more, times = _compressed(words)
        codes, number = _compressed(codes * times + more) if start else (more, times)
    return codes, number


def _encode_objects(array: NDArray[Any]) -> tuple[_Codes, int]:
    values = array.tolist()
    try:
        numbers = dict.fromkeys(values)
    except TypeError as error:
        raise GoalError(f"sensitive_features has values that are no group: {error}") from None
    for number, value in enumerate(numbers):
        # pandas.NA compares to pandas.NA, which is neither true nor false
        if value is None or type(value).__name__ == "NAType" or value != value:
            _complain_of_missing(array, next(i for i, v in enumerate(values) if v is value))
        numbers[value] = number
    codes = np.fromiter(map(numbers.__getitem__, values), np.intp, len(values))
    return codes, len(numbers)


def _compressed(numbers: NDArray[Any]) -> tuple[_Codes, int]:
    """Whole numbers as codes without gaps."""
    if not len(numbers):
        return numbers.astype(np.intp), 0
    low, high = int(numbers.min()), int(numbers.max())
    if high - low > 4 * len(numbers) + 64:  # too thin for a count of each
        return _told_apart(numbers)
    if numbers.dtype.kind == "u":
        codes = (numbers - numbers.min()).astype(np.intp)
    else:  # a narrow signed integer could overflow when the smallest is taken off
        codes = np.subtract(numbers, low, dtype=np.intp)
    occurs = np.bincount(codes) > 0
    if occurs.all():
        return codes, len(occurs)
    places = np.cumsum(occurs) - 1
    return places[codes], int(places[-1]) + 1


def _told_apart(numbers: NDArray[Any]) -> tuple[_Codes, int]:
    """Few different numbers one after the other, which is faster than sorting; many by sorting."""
    codes = np.full(len(numbers), -1, np.intp)
    for code in range(_FEW):
        row = int(np.argmin(codes))
        if codes[row] >= 0:
            return codes, code
        np.putmask(codes, numbers == numbers[row], code)
    values, inverse = np.unique(numbers, return_inverse=True)
    return inverse.astype(np.intp, copy=False), len(values)


def _complain_of_missing(column: Any, row: int) -> None:
    raise GoalError(
        f"sensitive_features has a missing value in row {row} ({_at(column, row)!r}); leave such "
        "rows out, or give them a group of their own"
    )


def _at(column: Any, row: int) -> Any:
    return column.iloc[row] if hasattr(column, "iloc") else column[row]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
