"""Numbers that people give: as they should be, or an error that names them.

True and False count as numbers in Python, and are none here: a check that returns whether its limit
holds would pass for one that has measured 1 or 0.
"""

from __future__ import annotations

import contextlib
import math
import operator
import warnings
from collections.abc import Mapping
from typing import Any, SupportsFloat, SupportsIndex, TypeGuard

from acetune.core.errors import AcetuneError, GoalError, ReportError

_LONGEST = 200  # of what is shown of a value


def is_bool(value: object) -> bool:
    """Whether a value says true or false: Python's, or an array or tensor of such a type.

    >>> is_bool(True), is_bool(1), is_bool("True")
    (True, False, False)
    """
    if isinstance(value, bool):
        return True
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return False
    # NumPy's, pandas' and TensorFlow's types have a name; that of torch.bool is its string
    name = str(getattr(dtype, "name", dtype)).rpartition(".")[2]
    return name in ("bool", "bool_", "boolean")


def quoted(value: object) -> str:
    """What somebody gave, for a message: not long, and whatever its own ``repr`` does.

    >>> quoted("3")
    "'3'"
    >>> quoted(10**5000)
    'a value that cannot be shown (ValueError)'
    """
    try:
        text = repr(value)
    except Exception as error:  # of a whole number, that it has too many digits
        return f"a value that cannot be shown ({type(error).__name__})"
    return text if len(text) <= _LONGEST else f"{text[:100]}...({len(text)} characters)"


def as_dict(values: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Values by name as a plain dict, or a :class:`ReportError` that names what came instead."""
    if type(values) is dict:
        return values
    if isinstance(values, Mapping):
        with contextlib.suppress(Exception):  # it may be an object of any class
            return dict(values)
    raise ReportError(f"{what} must be a dict of values by name, got {quoted(values)}")


def as_number(value: object, what: str, why: str = "") -> float:
    """``value`` as a float, or a :class:`ReportError` that names it.

    ``why`` ends the sentence that is said about True and False.
    """
    if type(value) is float:  # nearly always; the protocol check below costs microseconds
        return value
    if is_bool(value):
        raise ReportError(
            f"{what} must be a number, got {quoted(value)} of type {type(value).__name__}; give "
            f"the measured number itself{why}"
        )
    if getattr(value, "requires_grad", False) is True:
        value = value.detach()  # type: ignore[attr-defined]  # a tensor: its number is meant
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    if kind == "O" and getattr(value, "ndim", None) == 0:  # NumPy would take any object by force
        return as_number(value.item(), what, why)  # type: ignore[attr-defined]
    # NumPy makes numbers of texts, drops imaginary parts, and forgets units of time
    plain = kind not in ("S", "U", "c", "m", "M", "V")
    if plain and isinstance(value, SupportsFloat) and not isinstance(value, (str, bytes)):
        try:
            with warnings.catch_warnings():
                # a masked value is NaN, which is said where that matters
                warnings.filterwarnings("ignore", "Warning: converting a masked element")
                return float(value)
        except Exception:  # it may be an object of any class
            pass
    raise ReportError(
        f"{what} must be a number, got {quoted(value)} of type {type(value).__name__}"
    )


def is_number(value: object) -> TypeGuard[float]:
    """Whether an option is a finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number, and not True or False.

    >>> is_whole(3), is_whole(3.0), is_whole(True)
    (True, False, False)
    """
    return isinstance(value, int) and not isinstance(value, bool)


def as_whole(value: object, what: str, least: int, error: type[AcetuneError] = ReportError) -> int:
    """``value`` as a plain whole number from ``least`` on, or an error that names it.

    >>> as_whole(3, "step", least=1)
    3
    """
    number: int | None = None
    if type(value) is int:  # nearly always
        number = value
    elif isinstance(value, SupportsIndex) and not is_bool(value):
        with contextlib.suppress(Exception):  # an array of several, or of floats
            number = operator.index(value)
    if number is None or number < least:
        raise error(f"{what} must be a whole number >= {least}, got {quoted(value)}")
    return number


def require_whole(name: str, value: int, least: int) -> None:
    """Validate an option that counts something; it is kept as it is, so only an ``int`` will do."""
    if not isinstance(value, int):
        raise GoalError(f"{name} must be a whole number >= {least}, got {quoted(value)}")
    as_whole(value, name, least, GoalError)


def require_share(name: str, value: float) -> None:
    """Validate an option that is a share of something."""
    if not is_number(value) or not 0 <= value <= 1:
        raise GoalError(f"{name} must be a share between 0 and 1, got {quoted(value)}")
