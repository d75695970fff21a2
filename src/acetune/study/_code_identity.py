"""What a check is: its code, its settings and its data, so that a changed one can be told.

*Code* is what a function does, and the functions of the user's own files that it refers to. What is
installed counts by its name. Of each function two digests are kept: one of its syntax tree, without
comments, layout, docstrings and line numbers; one of its byte code, which exists where there is no
source and is comparable only within one minor version of Python. A function is the same if either
digest is. The tree is used only where it compiles to the code that runs: a file may have been
edited since it was imported.

*Settings* are numbers, strings, and short tuples, lists, sets and dicts of them, that a check was
made with or refers to. *Data* is everything else: arrays, tables, what is long, what is empty, and
what the code that refers to it changes in place.

Nothing here depends on addresses, on the order of sets or on the random hashes of strings, and
nothing raises: what cannot be read is listed as not followed.
"""

from __future__ import annotations

import dis
import enum
import functools
import inspect
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from acetune.core.say_once import SayOnce
from acetune.interprocess.pickling import implementations
from acetune.study._code_digests import (
    changed_in_place,
    digest_of_code,
    digest_of_source,
    short_hash,
    tree_of,
)
from acetune.study._data_digests import PLAIN, cached_names, digest_of_data, full_name
from acetune.study._module_source import ModuleReader, absolute, submodules
from acetune.trial.checks import is_users_file

_PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
_INSTALLED = {"source": "installed"}  # what stands for code that is not looked at
_CLASS = "class "  # the user's own, whose methods are looked at
_SMALL = 16  # items of a tuple, a list or a dict that is a setting
_DEEP = 3  # such containers within each other
_MOST_PARTS = 2_000  # functions and values that one check may refer to
_LONG = 64  # characters of a setting that are shown


class Identity(NamedTuple):
    """What a function is made of, as the study file keeps it."""

    code: dict[str, dict[str, str]]  # by name: digests of the tree ("source") and by Python version
    settings: dict[str, str]
    data: dict[str, str]
    not_followed: list[str]


class Changes(NamedTuple):
    """How a function differs from what it was, a line each."""

    code: list[str]  # what may change what it measures, settings included
    data: list[str]
    unknown: list[str]  # what could not be compared


def identity_of(
    function: object,
    *,
    with_data: bool = True,
    digests: dict[int, tuple[object, str]] | None = None,
) -> Identity:
    """What a check, or another function, is made of.

    ``digests`` are those of arrays that were met before: several checks may share one.
    """
    walk = _Walk(with_data, {} if digests is None else digests)
    try:
        walk.follow(function, "")
        walk.take_in_imported()
    except Exception as error:  # a mistake here must not end a study
        walk.give_up("", error)
    return Identity(walk.code, walk.settings, walk.data, sorted(set(walk.not_followed)))


def changes(known: Mapping[str, Any], now: Identity) -> Changes:
    """What has changed since an identity was written down."""
    found = Changes([], [], [])
    old, new = dict(known["code"]), dict(now.code)
    for name in [name for name in old if name not in new]:  # it may have another name, or file
        if old[name] == _INSTALLED and not name.startswith(_CLASS):
            continue  # what is installed is known by its name alone
        for other in [other for other in new if other not in old]:
            if _same_code(old[name], new[other]):
                del old[name], new[other]
                break
    for name, digests in old.items():
        if name not in new:
            found.code.append(f"{name} is no longer part of it")
        else:
            same = _same_code(digests, new[name])
            if same is None:
                found.unknown.append(f"{name} (it has no source, and Python is {_PYTHON} now)")
            elif not same:
                found.code.append(f"{name} has changed")
    found.code.extend(f"{name} is new" for name in new if name not in old)
    # earlier versions took short lists and dicts for data
    moved = tuple(name for name in known["data"] if name not in now.data)
    given = {
        name: value
        for name, value in now.settings.items()
        if name in known["settings"] or not any(_is_under(name, other) for other in moved)
    }
    found.code.extend(_differing(known["settings"], given))
    for name in {**known["data"], **now.data}:
        if known["data"].get(name) != now.data.get(name):
            found.data.append(name)
    return found


def merged(known: Mapping[str, Any], now: Identity) -> Identity:
    """What to keep of a function that is the same: digests of other versions of Python too."""
    code = {name: {**known["code"].get(name, {}), **digests} for name, digests in now.code.items()}
    return now._replace(code=code)


def _same_code(old: Mapping[str, str], new: Mapping[str, str]) -> bool | None:
    """Whether two pieces of code are the same; None where nobody can say."""
    common = old.keys() & new.keys()
    if not common:
        return None
    return any(old[kind] == new[kind] for kind in common)


def _is_under(name: str, other: str) -> bool:
    return name == other or name.startswith(f"{other}.")


def _differing(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for name in {**old, **new}:
        if old.get(name) != new.get(name):
            was, now = old.get(name, "not there"), new.get(name, "gone")
            yield (
                f"{name} was {was}, now {now}" if name in new else f"{name} was {was}, and is gone"
            )


class _Walk:
    """Follows a function through what it refers to."""

    def __init__(self, with_data: bool, digests: dict[int, tuple[object, str]]) -> None:
        self.code: dict[str, dict[str, str]] = {}
        self.settings: dict[str, str] = {}
        self.data: dict[str, str] = {}
        self.not_followed: list[str] = []
        self._with_data = with_data
        self._digests = digests
        self._seen: dict[int, object] = {}  # keeps what was seen alive: numbers may be used again
        self._parts = 0
        self._entries = {"__call__"}  # methods by which objects are called
        self._imported = ModuleReader(self.not_followed)

    def give_up(self, where: str, error: object) -> None:
        """Something cannot be read."""
        self.not_followed.append(f"{where or 'the function itself'} ({error})")

    def follow(self, found: Any, where: str) -> None:
        """Take in a value, whatever it is. ``where`` is what it is called in messages."""
        if isinstance(found, SayOnce):
            return  # what was said so far
        if _is_setting(found):
            _put_under(self.settings, where or "value", _shown(found))
            return
        if id(found) in self._seen:
            return
        self._seen[id(found)] = found
        self._parts += 1
        if self._parts > _MOST_PARTS:
            if self._parts == _MOST_PARTS + 1:
                self.give_up(where, f"it refers to more than {_MOST_PARTS:,} things")
            return
        try:
            self._follow(found, where)
        except Exception as error:
            self.give_up(where, f"{type(error).__name__}: {error}")

    def _follow(self, found: Any, where: str) -> None:
        own = getattr(type(found), "_identity", None)
        if isinstance(found, functools.partial):
            self.follow(found.func, where)
            for place, value in enumerate(found.args, start=1):
                self.follow(value, _inner(where, f"argument {place}"))
            for name, value in found.keywords.items():
                self.follow(value, _inner(where, name))
        elif isinstance(found, types.MethodType):
            self._entries.add(found.__name__)
            self.follow(found.__func__, where)
            self.follow(found.__self__, _inner(where, "self"))
        elif isinstance(found, functools.singledispatchmethod):
            self.follow(found.dispatcher, where)
        elif (by_kind := implementations(found)) is not None:
            for kind, function in by_kind.items():
                self._installed(full_name(kind))
                self.follow(function, where)
        elif isinstance(found, types.FunctionType):
            self._function(found)
        elif isinstance(found, (classmethod, staticmethod)):
            self.follow(found.__func__, where)
        elif isinstance(found, property):
            for part in (found.fget, found.fset):
                if part is not None:
                    self.follow(part, where)
        elif isinstance(found, type):
            self._class(found)
        elif isinstance(found, types.ModuleType):
            self._installed(found.__name__)
        elif isinstance(found, (types.BuiltinFunctionType, types.WrapperDescriptorType, np.ufunc)):
            self._installed(full_name(found))
            bound = getattr(found, "__self__", None)
            if bound is not None and not isinstance(bound, types.ModuleType):
                self.follow(bound, _inner(where, "self"))
        elif callable(own):  # a ready-made check says itself what it is made with
            self._installed(full_name(type(found)))
            for name, value in own(found).items():
                self.follow(value, _inner(where, name))
        elif callable(wrapped := getattr(found, "__wrapped__", None)) and not _is_users(
            type(found)
        ):
            self.follow(wrapped, where)  # a cache, say
        elif isinstance(found, (list, tuple, dict, set, frozenset)):
            self._container(found, where)
        elif _is_users(type(found)) or callable(found):
            self._object(found, where)
        else:
            self._data(found, where)

    def _container(self, found: Any, where: str) -> None:
        """What holds options, or functions or objects of the user's, is followed piece by piece."""
        items = list(found.items()) if isinstance(found, dict) else list(enumerate(found))
        if isinstance(found, tuple) and hasattr(found, "_fields"):
            items = list(zip(found._fields, found, strict=True))
        inner = [value for _, value in items]
        options = _is_options(found)
        if options and type(found) in (list, set) and all(map(_is_setting, inner)):
            _put_under(self.settings, where or "value", _shown(found))
        elif options or (
            len(items) <= 4 * _SMALL
            and any(map(_is_followed, inner))
            and not isinstance(found, set)
        ):
            for name, value in items:
                self.follow(value, _inner(where, str(name)))
        else:
            self._data(found, where)

    def _installed(self, name: str) -> None:
        """What is not the user's own counts by its name."""
        self.code[name] = _INSTALLED

    # -- code ------------------------------------------------------------------------------------

    def _function(self, found: types.FunctionType) -> None:
        code = found.__code__
        if not is_users_file(code.co_filename):
            self._installed(full_name(found))
            self._bound(found)  # a decorator of somebody else's has the user's function in it
            return
        digests = {_PYTHON: digest_of_code(code)}
        source = digest_of_source(code, found.__globals__)
        if source is not None:
            digests["source"] = source
        _put_under(self.code, _called(found), digests)
        self._bound(found)
        self._globals(found)

    def _bound(self, found: types.FunctionType) -> None:
        """Values in its closure and defaults."""
        code = found.__code__
        in_place = _changed_in_place(found)
        changed = _stored(code, ("STORE_DEREF",))
        for name, cell in zip(code.co_freevars, found.__closure__ or (), strict=True):
            if name in changed:
                continue  # what it counts or remembers itself
            try:
                value = cell.cell_contents
            except ValueError:
                continue  # not there yet
            self._reference(value, name, in_place)
        own = code.co_varnames[: code.co_argcount]
        defaults = found.__defaults__ or ()
        named = dict(zip(own[len(own) - len(defaults) :], defaults, strict=True))
        for name, value in {**named, **(found.__kwdefaults__ or {})}.items():
            self._reference(value, f"{name}=", in_place)

    def _reference(self, value: Any, name: str, in_place: set[str]) -> None:
        """A value that code refers to by name: no option where that code changes it in place."""
        if name.rstrip("=").rpartition(".")[2] in in_place and _is_options(value):
            self._data(value, name)
        else:
            self.follow(value, name)

    def _globals(self, found: types.FunctionType) -> None:
        """What it refers to by name in its module."""
        read: list[str] = []
        stored: set[str] = set()
        attributes: set[str] = set()
        imported: list[str] = []
        spaces = found.__globals__
        in_place = _changed_in_place(found)
        level, before = 0, 0  # the level of an import is put on the stack before its names
        for instruction in _instructions(found.__code__):
            name = instruction.argval
            if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                read.append(name)
            elif instruction.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                stored.add(name)
            elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"):
                attributes.add(name)
            elif instruction.opname == "IMPORT_NAME":
                imported.append(absolute(name, level, spaces.get("__package__") or ""))
            level, before = before, name if type(name) is int else 0
        for name in dict.fromkeys(read):
            if name in stored or name not in spaces:
                continue
            value = spaces[name]
            if isinstance(value, types.ModuleType):
                self._module(value, attributes)
            else:
                self._reference(value, name, in_place)
        for name in dict.fromkeys(imported):
            self._import(name, attributes)
            for inner in submodules(name, attributes):
                self._import(inner, attributes)

    def _import(self, name: str, attributes: set[str]) -> None:
        """A module that is imported in a body."""
        if self._imported.take(name, set(attributes)):
            return
        module = sys.modules.get(name)
        if module is not None:
            self._module(module, attributes)
        else:
            self.not_followed.append(f"import {name}, which has no source that can be found")

    def take_in_imported(self) -> None:
        """What was read of modules that are imported in a body."""
        code, values = self._imported.found()
        for name, digests in code.items():
            for digest in digests:
                if self.code.get(name, {}).get("source") != digest:  # it may be reached twice
                    _put_under(self.code, name, {"source": digest})
        for name, value in values.items():
            self.follow(value, name)

    def _module(self, module: types.ModuleType, attributes: set[str]) -> None:
        """Of a module of the user's own: what is asked of it."""
        if not is_users_file(getattr(module, "__file__", None) or ""):
            return  # what is used of it stands in the code
        if id(module) in self._seen and not attributes:
            return
        for name in sorted(attributes):
            value = vars(module).get(name)
            if isinstance(value, types.ModuleType):
                if value is not module and id(value) not in self._seen:
                    self._seen[id(value)] = value
                    self._module(value, attributes)
            elif name in vars(module):
                self.follow(value, f"{module.__name__}.{name}")

    def _class(self, found: type) -> None:
        if not _is_users(found):
            self._installed(full_name(found))
            return
        self._installed(f"{_CLASS}{_called(found)}")
        if issubclass(found, enum.Enum):
            for member in found:
                self.follow(member.value, f"{found.__qualname__}.{member.name}")
            return
        for base in found.__bases__:
            if base is not object:
                self.follow(base, base.__name__)
        for name, value in vars(found).items():
            made = isinstance(value, (types.FunctionType, classmethod, staticmethod, property))
            if name in _NOT_OF_A_CLASS or (name.startswith("__") and not made):
                continue  # what Python notes there
            inner = inspect.unwrap(value) if callable(value) else value
            if isinstance(inner, types.FunctionType) and inner.__code__.co_filename == "<string>":
                continue  # what a dataclass writes itself
            if isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType)):
                continue
            if isinstance(value, functools.cached_property):
                self.follow(value.func, name)
                continue
            self.follow(value, f"{found.__qualname__}.{name}")

    def _object(self, found: Any, where: str) -> None:
        """An object: its class, and what it was made with."""
        kind = type(found)
        self._class(kind)
        remembered, in_place = _remembered(kind, self._entries)
        state = found.__getstate__()
        if state is None and not _is_users(kind):  # such as operator.itemgetter
            made = found.__reduce_ex__(4)
            for place, value in enumerate(made[1] if isinstance(made, tuple) else (), start=1):
                self.follow(value, _inner(where, f"argument {place}"))
        slots = isinstance(state, tuple) and len(state) == 2
        if slots and all(part is None or isinstance(part, dict) for part in state):
            state = {**(state[0] or {}), **(state[1] or {})}
        if isinstance(state, dict):
            for name, value in state.items():
                if name not in remembered:
                    changed = {name.lstrip("_") or name} if name in in_place else set()
                    self._reference(value, _inner(where, str(name)), changed)
        elif state is not None:
            self._data(state, _inner(where, kind.__name__))

    # -- data ------------------------------------------------------------------------------------

    def _data(self, found: Any, where: str) -> None:
        if not self._with_data:
            return
        where = where or "value"
        known = self._digests.get(id(found))
        if known is None or known[0] is not found:
            known = self._digests[id(found)] = found, digest_of_data(found)
        _put_under(self.data, where, known[1])


_NOT_OF_A_CLASS = frozenset(("_abc_impl", "_is_protocol", "_is_runtime_protocol"))


def _put_under(found: dict[str, Any], name: str, value: object) -> None:
    """Under a name of its own: two modules may each have a ``LIMIT``."""
    place, n = name, 1
    while place in found and found[place] != value:
        n += 1
        place = f"{name} ({n})"
    found[place] = value


def _inner(where: str, name: str) -> str:
    name = name.lstrip("_") or name
    return f"{where}.{name}" if where else name


def _is_users(kind: type) -> bool:
    """Whether a class was written in the user's own files."""
    module = sys.modules.get(kind.__module__)
    if kind.__module__ == "__main__":
        return True
    if module is None:
        return False
    file = getattr(module, "__file__", None)
    return file is not None and is_users_file(file)


def _is_followed(value: object) -> bool:
    return callable(value) or _is_users(type(value))


def _is_setting(value: object) -> bool:
    """Whether a value is small, plain, and cannot be changed in place."""
    if isinstance(value, enum.Enum):
        return True
    if isinstance(value, np.generic):
        return True
    if isinstance(value, (tuple, frozenset)):
        return len(value) <= _SMALL and all(map(_is_setting, value))
    return type(value) in PLAIN


def _is_options(value: object, deep: int = _DEEP) -> bool:
    """Whether a container holds a few settings, or containers of a few, and nothing else.

    An empty one may be what a check remembers things in.
    """
    if not isinstance(value, (dict, list, tuple, set)) or not 0 < len(value) <= _SMALL or not deep:
        return False
    parts = (*value, *value.values()) if isinstance(value, dict) else value
    return all(_is_setting(part) or _is_options(part, deep - 1) for part in parts)


def _shown(value: Any) -> str:
    """A setting as text: the same for the same value, and short."""
    if isinstance(value, enum.Enum):
        text = f"{type(value).__name__}.{value.name}"
    elif isinstance(value, np.generic):
        text = repr(value.item())
    elif isinstance(value, (set, frozenset)):
        text = "{" + ", ".join(sorted(map(_shown, value))) + "}"
    elif isinstance(value, tuple):
        text = "(" + ", ".join(map(_shown, value)) + ")"
    elif isinstance(value, list):
        text = "[" + ", ".join(map(_shown, value)) + "]"
    else:
        text = repr(value)
    if len(text) <= _LONG:
        return text
    return f"{text[: _LONG // 2]}... ({short_hash(text.encode())})"


def _called(found: Any) -> str:
    """A function or class as people know it, with the name of its file where it has one."""
    code = getattr(found, "__code__", None)
    file = code.co_filename if code is not None else ""
    if code is None:
        file = getattr(sys.modules.get(found.__module__), "__file__", None) or ""
    name = found.__qualname__.replace(".<locals>", "")
    # a cell of a notebook has another file name whenever it is run
    if not file or file.startswith("<") or not Path(file).is_file() or "ipykernel" in file:
        return str(name)
    return f"{name} in {Path(file).name}"


def _remembered(kind: type, entries: set[str]) -> tuple[set[str], set[str]]:
    """Attributes that an object sets while it is called, and those that it changes in place."""
    found, in_place = cached_names(kind), set()
    waiting, done = list(entries), set()
    while waiting:
        name = waiting.pop()
        if name in done:
            continue
        done.add(name)
        method = inspect.unwrap(getattr(kind, name, None))  # type: ignore[arg-type]
        if isinstance(method, types.FunctionType):
            found |= _stored(method.__code__, ("STORE_ATTR",))
            in_place |= _changed_in_place(method)
            waiting += _stored(method.__code__, ("LOAD_ATTR", "LOAD_METHOD"))
    return found, in_place


def _changed_in_place(function: types.FunctionType) -> set[str]:
    """Names and attributes whose items a function sets, as far as its source can be had."""
    tree = tree_of(function.__code__, function.__globals__)
    return set() if tree is None else changed_in_place(tree)


def _stored(code: types.CodeType, operations: tuple[str, ...]) -> set[str]:
    return {one.argval for one in _instructions(code) if one.opname in operations}


def _instructions(code: types.CodeType) -> Iterator[dis.Instruction]:
    """Of a function and of all that is defined in it."""
    yield from dis.get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _instructions(constant)
