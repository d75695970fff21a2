"""What a Keras model can be built from again: its configuration, and what Keras does not know.

Keras writes the names of functions and classes into a configuration. Those that are its own it
finds again; all others it has to be given. They are looked for on the layers, and the rest is for
the user to say.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import keras

from acetune.core.errors import ReportError


class Planner:
    """Makes plans of a model during its training.

    Parameters
    ----------
    custom_objects:
        Functions and classes by their names, before those that are found.
    """

    def __init__(self, custom_objects: Mapping[str, Any] | None = None) -> None:
        if custom_objects is not None and not isinstance(custom_objects, Mapping):
            raise ReportError(
                "custom_objects must be a dict of functions and classes by their names, got "
                f"{custom_objects!r}"
            )
        self._given = dict(custom_objects or {})
        self._tried: Any = None  # the model of which a copy has been made
        self._custom: dict[str, Any] = {}  # of that model

    def plan(self, model: Any) -> dict[str, Any]:
        """What the model can be built from again, without its weights.

        With the first plan of a model a copy is made: an error comes now, and not when training has
        ended.
        """
        if not model.built:
            raise ReportError("the model has no weights yet: it cannot be kept")
        try:
            plan = {
                "class": type(model),
                "config": model.get_config(),
                "build": model.get_build_config(),
            }
            if self._tried is not model:
                self._custom = named(custom_parts(model), plan["config"], self._given)
                build({**plan, "custom": self._custom}, model.get_weights())
                self._tried = model
        except ReportError:
            raise
        except Exception as error:
            raise ReportError(
                "no copy can be made of the model: name the functions and classes of your own "
                "that it is made of as ReportCallback(..., custom_objects={'name': function}); a "
                "function must not be a lambda, a class needs get_config. Known are "
                f"{sorted(self._custom)}. {type(error).__name__}: {error}"
            ) from error
        return {**plan, "custom": self._custom}


def build(plan: Mapping[str, Any], weights: list[Any]) -> Any:
    """The model of a plan, with these weights."""
    with keras.saving.CustomObjectScope(plan["custom"]):
        config = copy.deepcopy(plan["config"])  # some layers write into theirs
        model = plan["class"].from_config(config)
        if not model.built:
            model.build_from_config(plan["build"])
    model.set_weights(weights)
    return model


def named(found: Iterable[Any], config: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a configuration names; an error where a name may mean two things."""
    wanted = set(_words(config)) - given.keys()
    names: dict[str, Any] = {}
    for part in found:
        for name in {part.__name__, keras.saving.get_registered_name(part)} & wanted:
            if names.setdefault(name, part) is not part:
                raise ReportError(
                    f"two parts of the model are named {name!r}, {names[name]!r} and {part!r}: no "
                    "copy of it can be made; give one of them another name"
                )
    return {**names, **given}


def custom_parts(model: Any) -> Iterator[Any]:
    """Functions and classes that are not Keras' own, on the layers of a model and inside them."""
    left, seen = [model], set()
    while left:
        thing = left.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))  # all of them live on the model: no other gets that id
        if isinstance(thing, types.FunctionType):
            if not _is_keras(thing):
                yield thing
        elif isinstance(thing, dict):
            left += thing.values()
        elif isinstance(thing, (list, tuple)):
            left += thing
        elif hasattr(type(thing), "get_config"):  # a layer, an initialiser, a regulariser
            if not _is_keras(type(thing)):
                yield type(thing)
            left += getattr(thing, "__dict__", {}).values()


def _words(config: Any) -> Iterator[str]:
    if isinstance(config, str):
        yield config
    elif isinstance(config, (Mapping, list, tuple)):
        for part in config.values() if isinstance(config, Mapping) else config:
            yield from _words(part)


def _is_keras(part: Any) -> bool:
    return str(part.__module__).split(".")[0] == "keras"
