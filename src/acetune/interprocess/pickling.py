"""Users' code as bytes for another process."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

import cloudpickle

from acetune.core.errors import TrainingCodeError

_LARGE = 1 << 16  # bytes; to share less is not worth a piece of its own


def pickle_code(
    code: object,
    what: str = "the training function or a check",
    reduce: Callable[[object], Any] | None = None,
    arrays: list[pickle.PickleBuffer] | None = None,
) -> bytes:
    """The user's code as bytes, or an error that says what stands in the way.

    Parameters
    ----------
    code:
        Functions, and what they refer to.
    what:
        What it is to the user, for the error.
    reduce:
        May say how objects of a kind of their own are pickled; of others it says NotImplemented.
    arrays:
        Takes the memory of large arrays, which is not in the bytes then and is needed beside them.
        Nothing is copied.
    """

    def is_small(found: pickle.PickleBuffer) -> bool:
        assert arrays is not None
        if small := found.raw().nbytes < _LARGE:
            return small
        arrays.append(found)
        return False

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, found: object) -> Any:
            reduced = NotImplemented if reduce is None else reduce(found)
            return super().reducer_override(found) if reduced is NotImplemented else reduced

    written = io.BytesIO()
    try:
        Pickler(written, buffer_callback=None if arrays is None else is_small).dump(code)
    except Exception as error:
        raise TrainingCodeError(
            f"{what} cannot be sent to a worker process: {error}; create locks, open files, "
            "connections and the like inside the function instead of using ones from outside"
        ) from error
    return written.getvalue()
