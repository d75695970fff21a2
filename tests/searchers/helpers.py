"""What the tests of searchers share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

import acetune
from acetune import Searcher
from acetune.core.outcome import Outcome
from acetune.searchers import make_searcher
from acetune.searchers.optuna_samplers import OptunaSearcher
from acetune.searchers.space import Space

SPACE = Space(
    {
        "x": acetune.uniform(0.0, 1.0),
        "rate": acetune.loguniform(1e-4, 1.0),
        "n": acetune.randint(1, 8),
        "m": acetune.lograndint(1, 100),
        "kind": acetune.choice(["a", 2, None, True]),
        "fixed": 5,
    }
)
SQUARE = Space({"x": acetune.uniform(0.0, 1.0), "y": acetune.uniform(0.0, 1.0)})


def made(name: str, seed: int | None = 0, space: Space = SPACE, **options: Any) -> Searcher:
    """A searcher by its name; the Gaussian process takes less care, to save time."""
    if name == "gp":
        pytest.importorskip("torch")
    searcher = make_searcher(name, space, seed=seed, **options)
    if name == "gp":
        assert isinstance(searcher, OptunaSearcher)
        sampler: Any = searcher._study.sampler
        sampler._n_preliminary_samples, sampler._n_local_search = 64, 2
    return searcher


def suggestions(
    searcher: Searcher,
    numbers: Iterable[int],
    outcome: Callable[[dict[str, Any]], Outcome],
) -> list[dict[str, Any]]:
    """What it suggests, each answered before the next."""
    found = []
    for number in numbers:
        found.append(searcher.ask(number))
        searcher.tell(number, outcome(found[-1]))
    return found


def far_from(*best: float) -> Callable[[dict[str, Any]], Outcome]:
    """All feasible, the better the nearer to a place."""

    def outcome(params: dict[str, Any]) -> Outcome:
        return Outcome(distance(params, best), 0.0)

    return outcome


def distance(params: dict[str, Any], place: Sequence[float]) -> float:
    pairs = zip(params.values(), place, strict=True)
    return float(sum((value - wanted) ** 2 for value, wanted in pairs) ** 0.5)
