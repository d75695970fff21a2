"""What was probably meant by a name that a call does not take."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def suggestion(name: str, known: Iterable[str], others: Mapping[str, str]) -> str:
    """The end of a message about an unknown name; ``others`` are names that other tools use.

    >>> suggestion("max_trails", ["max_trials", "seed"], {}), suggestion("n", ["max_trials"], {})
    ("; did you mean 'max_trials'?", '')
    >>> suggestion("n_trials", ["max_trials", "seed"], {"n_trials": "max_trials=100"})
    '; did you mean max_trials=100?'
    """
    if name in others:
        return f"; did you mean {others[name]}?"
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def refuse_unknown(
    who: str, given: Iterable[str], known: Iterable[str], others: Mapping[str, str]
) -> None:
    """An error as Python's about a keyword that ``who`` does not take, with a suggestion."""
    for name in given:
        if name not in known:
            raise TypeError(
                f"{who}() got an unexpected keyword argument {name!r}"
                f"{suggestion(name, known, others)}"
            )


def suggesting(others: Mapping[str, str]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function whose error about an unknown keyword says which one was probably meant.

    >>> @suggesting({"direction": 'mode="max"'})
    ... def search(mode): ...
    >>> search(direction="maximize")
    Traceback (most recent call last):
    TypeError: search() got an unexpected keyword argument 'direction'; did you mean mode="max"?
    """

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        known = inspect.signature(function).parameters
        who = function.__name__
        if who == "__init__":  # people call the class
            who = function.__qualname__.split(".")[-2]

        @functools.wraps(function)
        def call(*args: P.args, **keywords: P.kwargs) -> R:
            refuse_unknown(who, keywords, known, others)
            return function(*args, **keywords)

        return call

    return decorated
