"""Users' code as bytes for another process."""

from __future__ import annotations

import contextlib
import dis
import functools
import io
import pickle
import sys
import types
from collections.abc import Callable, Mapping
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

    functions: list[types.FunctionType] = []  # that go as their code

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, found: object) -> Any:
            if isinstance(found, types.FunctionType) and not _is_imported(found):
                functions.append(found)
            reduced = NotImplemented if reduce is None else reduce(found)
            if reduced is NotImplemented:
                reduced = _reduce_decorated(found)
            return super().reducer_override(found) if reduced is NotImplemented else reduced

    written = io.BytesIO()
    try:
        Pickler(written, buffer_callback=None if arrays is None else is_small).dump(code)
    except Exception as error:

        def fails(value: object) -> bool:
            try:
                Pickler(io.BytesIO(), buffer_callback=lambda _: False).dump(value)
            except Exception:
                return True
            return False

        culprit = next(filter(None, (_captured(one, fails) for one in functions[:])), "")
        raise TrainingCodeError(
            f"{what} cannot be sent to a worker process: {culprit}{error}; create locks, open "
            "files, connections and the like inside the function instead of using ones from outside"
        ) from error
    return written.getvalue()


def _captured(function: types.FunctionType, fails: Callable[[object], bool]) -> str:
    """Which variable from outside a function cannot be pickled, and what it is; or nothing.

    A function among them is looked at by itself.
    """
    code = function.__code__
    outside = {name: function.__globals__.get(name) for name in sorted(_names(code))}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # it has no value yet
            outside[name] = cell.cell_contents
    for name, value in outside.items():
        if not isinstance(value, (types.FunctionType, types.ModuleType)) and fails(value):
            kind = type(value).__name__
            return f"{name!r}, a {kind} that {function.__name__} takes from outside: "
    return ""


def _names(code: types.CodeType) -> set[str]:
    """All global names that a function looks up, also in functions inside it."""
    inside = (one for one in code.co_consts if isinstance(one, types.CodeType))
    own = {one.argval for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL"}
    return own.union(*map(_names, inside))


def implementations(found: object) -> Mapping[Any, Callable[..., Any]] | None:
    """By kind of argument, what a function with ``functools.singledispatch`` calls."""
    if not isinstance(found, types.FunctionType) or found.__code__ is not _DISPATCHER:
        return None
    registered: Mapping[Any, Callable[..., Any]] = vars(found)["registry"]
    return registered


def _reduce_decorated(found: object) -> Any:
    """What ``functools`` makes with a lock or a cache inside, as what it was made of.

    A function that the other process imports by its name is left to that.
    """
    if type(found) is functools.cached_property:
        return _cached_property, (found.func, found.attrname)
    if isinstance(found, functools._lru_cache_wrapper):
        given = found.cache_parameters()
        made: Any = _cached, (found.__wrapped__, given["maxsize"], given["typed"])
    elif (by_kind := implementations(found)) is not None:
        # what may refer to the function itself comes after it was made
        state = {**by_kind}, {name: getattr(found, name) for name in functools.WRAPPER_ASSIGNMENTS}
        made = _dispatching, (), state, None, None, _set_implementations
    else:
        return NotImplemented
    return NotImplemented if _is_imported(found) else made


def _is_imported(found: Any) -> bool:
    """Whether another process gets a function by its name in its module."""
    by_value = {"__main__", *cloudpickle.list_registry_pickle_by_value()}
    module = getattr(found, "__module__", None) or "__main__"
    parents = {module[:at] for at, letter in enumerate(module) if letter == "."}
    if by_value & {module, *parents}:
        return False
    value: Any = sys.modules.get(module)
    for name in found.__qualname__.split("."):
        value = getattr(value, name, None)
    return value is found


def _cached(function: Callable[..., Any], maxsize: int | None, typed: bool) -> Any:
    return functools.lru_cache(maxsize, typed)(function)


def _cached_property(function: Callable[[Any], Any], name: str | None) -> Any:
    made = functools.cached_property(function)
    made.attrname = name
    return made


def _nothing(value: object) -> None:
    """In the place of an implementation that is still to come."""


def _dispatching() -> Any:
    return functools.singledispatch(_nothing)


def _set_implementations(made: Any, state: tuple[Mapping[Any, Any], Mapping[str, Any]]) -> None:
    by_kind, names = state
    for kind, function in by_kind.items():
        made.register(kind, function)
    made.__wrapped__ = by_kind[object]
    for name, value in names.items():
        setattr(made, name, value)


_DISPATCHER = _dispatching().__code__  # that of every such function
