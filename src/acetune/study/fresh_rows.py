"""Which fresh rows were used: a name, or a checksum of the rows themselves."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from acetune.core.errors import GoalError
from acetune.study._data_digests import digest_of_data


def fingerprint(data: Any) -> str | None:
    """A short text that is the same for the same rows: a name that was given, or a checksum.

    >>> fingerprint("held-out 2024"), fingerprint(None)
    ('held-out 2024', None)
    >>> fingerprint(np.arange(3)) == fingerprint(np.array([0, 1, 2]))
    True
    """
    if data is None or isinstance(data, str):
        return data
    found = hashlib.sha256()
    try:
        _update(found, data)
    except Exception as error:
        raise GoalError(
            f"no checksum can be made of confirm_data, a {type(data).__name__} ({error}); give the "
            "fresh rows a name, confirm_data='held-out 2024'"
        ) from None
    return f"sha256:{found.hexdigest()[:32]}"


def row_count(data: Any) -> int | None:
    """How many rows there are, where they were given."""
    if data is None or isinstance(data, (str, bytes)):
        return None
    if isinstance(data, (tuple, list)) and data and hasattr(data[0], "__len__"):
        data = data[0]  # (X, y)
    try:
        return len(data)
    except TypeError:
        return None


def _update(found: Any, data: Any) -> None:
    """Arrays and tables by what is in them, tuples and lists one by one, the rest by its content.

    Not as it pickles: that tells two equal texts from one text that is there twice.
    """
    if isinstance(data, bytes):
        found.update(data)
    elif isinstance(data, (tuple, list)) and data and hasattr(data[0], "__len__"):
        for part in data:
            _update(found, part)
            found.update(b"|")
    elif hasattr(data, "to_numpy") or isinstance(data, np.ndarray):
        array = data.to_numpy() if hasattr(data, "to_numpy") else data
        found.update(repr((array.shape, str(array.dtype))).encode())
        found.update(
            digest_of_data(array).encode() if array.dtype.hasobject else array.tobytes("C")
        )
    elif callable(data):
        raise TypeError("it is no data")
    else:
        found.update(digest_of_data(data).encode())
