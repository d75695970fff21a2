"""What is wrong with a searcher is found, and said."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

import acetune
from acetune import Searcher
from acetune.core.outcome import Outcome
from acetune.testing import check_searcher

SPACE = {"x": acetune.uniform(0.0, 1.0), "n": acetune.randint(1, 3)}


class Plain(Searcher):
    """Random search, the least that a searcher can be."""

    def __init__(self, space: Mapping[str, Any], seed: int) -> None:
        self.random = random.Random(seed)

    def ask(self, trial: int) -> dict[str, Any]:
        return {"x": self.random.random(), "n": self.random.randint(1, 3)}

    def tell(self, trial: int, outcome: Outcome, params: Mapping[str, Any] | None = None) -> None:
        pass

    def add(self, trial: int, params: Mapping[str, Any], outcome: Outcome | None) -> None:
        pass


class Outside(Plain):
    def ask(self, trial: int) -> dict[str, Any]:
        return {"x": 2 * self.random.random(), "n": 1}


class Forgetful(Plain):
    def ask(self, trial: int) -> dict[str, Any]:
        return {"x": self.random.random()}


class Unseeded(Plain):
    def ask(self, trial: int) -> dict[str, Any]:
        return {"x": random.SystemRandom().random(), "n": 1}


def test_a_good_one_passes() -> None:
    check_searcher(Plain, space=SPACE)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Outside, r"Outside: ask\(\) gave .*: x=1.* lies outside"),
        (Forgetful, r"Forgetful: ask\(\) must give a dict with \['x', 'n'\], got \{'x'"),
        (Unseeded, "Unseeded: with the same seed trial 1 is"),
    ],
)
def test_what_is_wrong_is_said(make: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_searcher(make, space=SPACE)


def test_what_it_raises_is_seen() -> None:
    class Strict(Plain):
        def tell(self, trial: int, outcome: Outcome, params: Any = None) -> None:
            if outcome.loss is None:
                raise ValueError("no loss")

    with pytest.raises(ValueError, match="no loss"):
        check_searcher(Strict, space=SPACE)


def test_a_function_is_no_searcher() -> None:
    with pytest.raises(AssertionError, match=r"must return an object of acetune.Searcher"):
        check_searcher(lambda space, seed: None)  # type: ignore[arg-type,return-value]
