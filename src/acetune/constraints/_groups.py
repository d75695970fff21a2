"""Sensitive features of any kind as group numbers 0, 1, 2, ..., one for each row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from acetune.core.errors import GoalError

_Codes = NDArray[np.intp]
_FEW = 16


class Groups(NamedTuple):
    """The group of each row; only groups that occur have a number."""

    codes: _Codes
    number: int
    columns: tuple[Any, ...]  # what they were read from, to name one

    def name(self, code: int) -> str:
        """A group as the user knows it; several features make a tuple."""
        row = int(np.flatnonzero(self.codes == code)[0])
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
