"""Users' code as bytes for another process."""

from __future__ import annotations

import functools
import io
import pickle
import sys
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
            if reduced is NotImplemented and isinstance(found, functools._lru_cache_wrapper):
                reduced = _reduce_cached(found)
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


def _reduce_cached(found: functools._lru_cache_wrapper[Any]) -> Any:
    """A function with ``functools.cache`` or ``lru_cache``: sent with an empty cache.

    One that the other process imports by its name is left to that.
    """
    by_value = {"__main__", *cloudpickle.list_registry_pickle_by_value()}
    module = getattr(found, "__module__", None) or "__main__"
    parents = {module[:at] for at, letter in enumerate(module) if letter == "."}
    if not by_value & {module, *parents}:
        value: Any = sys.modules.get(module)
        for name in found.__qualname__.split("."):
            value = getattr(value, name, None)
        if value is found:
            return NotImplemented
    given = found.cache_parameters()
    return _cached, (found.__wrapped__, given["maxsize"], given["typed"])


def _cached(function: Callable[..., Any], maxsize: int | None, typed: bool) -> Any:
    return functools.lru_cache(maxsize, typed)(function)
