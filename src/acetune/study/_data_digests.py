"""Digests of data by its content: the same in every process, whatever holds it."""

from __future__ import annotations

import enum
import functools
import hashlib
import types
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import numpy as np

from acetune.study._code_digests import digest_of_code

PLAIN = (bool, int, float, complex, str, bytes, type(None))
_MOST_OBJECTS = 1_000_000  # in one piece of data


def full_name(found: Any) -> str:
    """The name of a function or class with its module."""
    module = getattr(found, "__module__", None)
    name = getattr(found, "__qualname__", None) or getattr(found, "__name__", type(found).__name__)
    return f"{module}.{name}" if module else str(name)


def cached_names(kind: type) -> set[str]:
    """Attributes that are computed when they are first asked for."""
    return {
        value.attrname or name
        for part in kind.__mro__
        for name, value in vars(part).items()
        if isinstance(value, functools.cached_property)
    }


def digest_of_data(found: object) -> str:
    """A digest that is the same for the same content, in every process.

    Raises where something in it cannot be read.
    """
    walk = _Content()
    walk.add(found)
    return walk.hash.hexdigest()


class _Content:
    def __init__(self) -> None:
        self.hash = hashlib.blake2b(digest_size=8)
        self._within: dict[int, int] = {}  # what is being looked at: how deep
        self._left = _MOST_OBJECTS

    def add(self, found: Any) -> None:
        kind = type(found)
        if kind in PLAIN:
            self._put(kind.__name__, repr(found).encode("utf-8", "surrogatepass"))
            return
        if id(found) in self._within:  # it holds itself
            self._put("again", str(self._within[id(found)]).encode())
            return
        self._within[id(found)] = len(self._within)
        try:
            self._add(found)
        finally:
            del self._within[id(found)]

    def _add(self, found: Any) -> None:
        kind = type(found)
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"it holds more than {_MOST_OBJECTS:,} objects")
        if isinstance(found, enum.Enum):
            self._put(full_name(kind), found.name.encode())
        elif isinstance(found, PurePath):
            self._put("path", str(found).encode("utf-8", "surrogateescape"))
        elif isinstance(found, np.ma.MaskedArray):
            self.add(np.asarray(found.filled(0)))
            self.add(np.ma.getmaskarray(found))
        elif isinstance(found, np.ndarray):
            self._array(found)
        elif isinstance(found, np.generic):
            self._put(found.dtype.str, repr(found.item()).encode())
        elif isinstance(found, (bytearray, memoryview)):
            self._put(kind.__name__, bytes(found))
        elif isinstance(found, (list, tuple)) and not hasattr(found, "_fields"):
            self._sequence(found)
        elif isinstance(found, (set, frozenset)):
            self._put("set", "".join(sorted(map(digest_of_data, found))).encode())
        elif kind is dict or isinstance(found, types.MappingProxyType):
            self._put("dict", str(len(found)).encode())
            for _, key, value in _by_digest(found):
                self.add(key)
                self.add(value)
        elif isinstance(found, types.FunctionType):
            self._put("function", digest_of_code(found.__code__).encode())
        elif isinstance(found, (type, types.BuiltinFunctionType, types.ModuleType)):
            self._put("name", full_name(found).encode())
        elif hasattr(found, "columns") and hasattr(found, "to_numpy"):  # a table
            self._table(found)
        elif hasattr(found, "to_numpy"):
            self._put(kind.__name__, str(getattr(found, "dtype", "")).encode())
            self._array(np.asarray(found.to_numpy()))
        elif hasattr(found, "detach") and hasattr(found, "cpu"):  # a tensor
            self._tensor(found)
        else:
            self._object(found)

    def _put(self, kind: str, data: Any) -> None:
        """With its length, so that what stands side by side is not taken together."""
        size = memoryview(data).nbytes
        self.hash.update(f"{kind}:{size};".encode())
        self.hash.update(data)

    def _array(self, array: np.ndarray[Any, Any]) -> None:
        self._put("array", f"{array.shape} {array.dtype.str}".encode())
        if array.dtype.hasobject:
            self._sequence(array.ravel().tolist())
        elif array.size:
            flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            self.hash.update(flat.data)

    def _sequence(self, values: Any) -> None:
        self._put("sequence", str(len(values)).encode())
        kinds = set(map(type, values))
        # a long list of one kind, as labels are
        if kinds == {str}:
            for value in values:
                self._put("", value.encode("utf-8", "surrogatepass"))
        elif kinds == {float}:
            self._put("floats", np.array(values).tobytes())
        elif kinds and kinds <= {int, float, bool, type(None)}:
            self._put("numbers", "\0".join(map(repr, values)).encode())
        else:
            for value in values:
                self.add(value)

    def _table(self, table: Any) -> None:
        self._put("table", str(table.shape).encode())
        if hasattr(table, "index"):
            self.add(table.index)
        columns = (
            table.items()
            if hasattr(table, "items")
            else ((name, table[name]) for name in table.columns)
        )
        for name, column in columns:
            self.add(name)
            self.add(column)

    def _tensor(self, tensor: Any) -> None:
        plain = tensor.detach().cpu()
        self._put("tensor", f"{tuple(plain.shape)} {plain.dtype}".encode())
        try:
            array = plain.numpy()
        except TypeError:  # a kind of number that NumPy has not
            array = plain.float().numpy()
        self._array(array)

    def _object(self, found: Any) -> None:
        """Anything else by what it would be made again of."""
        made = found.__reduce_ex__(4)
        self._put("object", full_name(type(found)).encode())
        if isinstance(made, str):
            self._put("name", made.encode())
            return
        function, arguments, *more = made
        self._put("by", full_name(function).encode())
        self.add(tuple(arguments))
        state = more[0] if more else None
        if isinstance(state, dict):
            cached = cached_names(type(found))
            state = {name: value for name, value in state.items() if name not in cached}
        self.add(state)
        for items in more[1:3]:
            if items is not None:
                self.add(list(items))


def _by_digest(found: Mapping[Any, Any]) -> list[tuple[str, Any, Any]]:
    """The items of a dict in an order that does not depend on how it was filled."""
    pairs = [(digest_of_data(key), key, value) for key, value in found.items()]
    return sorted(pairs, key=lambda pair: pair[0])
