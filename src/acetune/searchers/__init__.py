"""Searchers: they suggest configurations and are told how the trials went.

Adding one is a class in a file of its own and a line in the table below.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from acetune.core.did_you_mean import suggestion
from acetune.core.errors import GoalError
from acetune.core.numbers import as_whole
from acetune.searchers.searcher import Searcher
from acetune.searchers.space import Space

__all__ = ["DEFAULT_SEARCHER", "SEARCHER_NAMES", "Searcher", "make_searcher"]

# name -> module, class, options; imported on use, because their packages are heavy
_SEARCHERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "forest": ("acetune.searchers._forest", "ForestSearcher", {}),
    "random": ("acetune.searchers.optuna_samplers", "OptunaSearcher", {"sampler": "random"}),
    "tpe": ("acetune.searchers.optuna_samplers", "OptunaSearcher", {"sampler": "tpe"}),
    "gp": ("acetune.searchers.optuna_samplers", "OptunaSearcher", {"sampler": "gp"}),
    "cmaes": ("acetune.searchers.optuna_samplers", "OptunaSearcher", {"sampler": "cmaes"}),
    "blendsearch": ("acetune.searchers._flaml", "FlamlSearcher", {"method": "blendsearch"}),
    "cfo": ("acetune.searchers._flaml", "FlamlSearcher", {"method": "cfo"}),
}
SEARCHER_NAMES = tuple(_SEARCHERS)
#: What :func:`acetune.tune` uses where none is named.
DEFAULT_SEARCHER = "forest"
# what these suggest follows from the seed and the trial's number; others draw one after another
_BY_NUMBER = frozenset({"forest"})


def make_searcher(
    searcher: str | Searcher,
    space: Space,
    points: Sequence[Mapping[str, Any]] = (),
    seed: int | None = None,
    begun: int = 0,
) -> Searcher:
    """A searcher by its name, or the given one as it is.

    ``begun`` is how many trials earlier sessions have had: with the same seed most searchers would
    begin with the suggestions of the first session again.
    """
    if isinstance(points, Mapping) or not isinstance(points, Iterable):
        raise GoalError(
            f"points must be a list of dicts, got {points!r}; write points=[{{'lr': 0.1}}]"
        )
    if isinstance(searcher, Searcher):
        if points:
            raise GoalError(
                "points go to the searcher's own constructor when you pass a searcher "
                f"object, got points={list(points)!r}"
            )
        return searcher
    if not isinstance(searcher, str) or searcher not in _SEARCHERS:
        meant = suggestion(searcher, SEARCHER_NAMES, {}) if isinstance(searcher, str) else ""
        raise GoalError(
            f"unknown searcher {searcher!r}{meant or ';'} choose from "
            f"{', '.join(SEARCHER_NAMES)}, or pass a Searcher object"
        )
    if seed is not None:
        seed = as_whole(seed, "seed", 0, GoalError)
        seed += 0 if searcher in _BY_NUMBER else begun
    module, name, options = _SEARCHERS[searcher]
    factory = getattr(importlib.import_module(module), name)
    made = factory(
        space, points=[space.require_point(point) for point in points], seed=seed, **options
    )
    assert isinstance(made, Searcher)
    return made
