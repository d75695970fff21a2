"""Which checkpoints are candidates, and which of them is the answer.

The rule for studies is written here once; checkpoints come from
:mod:`acetune.study.best_checkpoints`. In a study of Optuna and in a Tuner of Ray there is no
confirmation: their adapters choose the best valid checkpoint in ``optuna/_best.py`` and
``ray/_results.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from acetune.core.goals import Objective
from acetune.study.best_checkpoints import (
    bold_checkpoints,
    valid_at,
    valid_checkpoints,
    with_notes,
)
from acetune.study.findings import (
    Bound,
    Confirmation,
    FoundCheckpoint,
    Status,
    checkpoint_key,
    latest_uses,
)
from acetune.study.reader import StudyView

Outcome = Literal["feasible", "rejected", "none feasible"]


def candidates_of(view: StudyView) -> list[FoundCheckpoint]:
    """The best valid checkpoint of each of the best trials, and all that were judged, best first.

    Each comes with its verdict, and with the next one that could take its place.
    """
    settings, uses = view.info["settings"], view.confirmations
    most = max(settings["confirm_top"], settings["keep_models"])
    # nothing is as safe as the search wanted it: what keeps the limits is still an answer
    best = valid_checkpoints(view, most) or bold_checkpoints(view, most)
    # fresh data had something to say of them, once at least
    places = latest_uses([use for use in uses if use["status"] != "unconfirmed"])
    judged = [valid_at(view, *place) for place in places]
    found = with_judged(best, [one for one in judged if one is not None], view.goals.objective)
    ranges = read_ranges(settings)
    found = with_notes(view, found)
    return with_next_best([with_confirmation(one, uses, ranges) for one in found])


def testable(view: StudyView) -> list[FoundCheckpoint]:
    """What a look at fresh data may test: the best checkpoint of each trial whose model is kept.

    And the best bold one, which is worth less to the search than it may be to fresh data.
    It depends on the search alone: not on what fresh data has said before.
    """
    pool = [*valid_checkpoints(view), *bold_checkpoints(view)]
    return [found for found in pool if found.kept is not None]


def choose_answer(candidates: Sequence[FoundCheckpoint]) -> FoundCheckpoint | None:
    """The best that is certified; else the best that holds; else the best of the search.

    Where fresh data has broken one and held none, there is no answer: one that nobody has judged,
    further down, is no better known than those were.
    """
    for status in ("certified", "holds"):
        for found in candidates:
            if found.status == status:
                return found
    if best_rejected(candidates) is not None:
        return None
    return candidates[0] if candidates else None


def answer_of(view: StudyView) -> FoundCheckpoint | None:
    """The answer of a study as it stands in its file."""
    return choose_answer(candidates_of(view))


def best_rejected(candidates: Sequence[FoundCheckpoint]) -> FoundCheckpoint | None:
    """The best of those that broke a limit on fresh data."""
    return next((found for found in candidates if found.status == "broken"), None)


def outcome_of(candidates: Sequence[FoundCheckpoint]) -> Outcome:
    """Whether anything qualified, and whether fresh data rejected what did."""
    if choose_answer(candidates) is not None:
        return "feasible"
    return "rejected" if candidates else "none feasible"


def status_of(candidates: Sequence[FoundCheckpoint]) -> Status | None:
    """What may be claimed about the answer; None where nothing qualified."""
    found = choose_answer(candidates) or best_rejected(candidates)
    return None if found is None else found.status


def with_judged(
    best: Sequence[FoundCheckpoint], judged: Sequence[FoundCheckpoint], objective: Objective
) -> list[FoundCheckpoint]:
    """The best checkpoints and all that were judged, best first.

    A verdict stands although better ones may have come since, of its own trial or of others.
    """
    known = set(map(checkpoint_key, best))
    more = [found for found in judged if checkpoint_key(found) not in known]
    return sorted([*best, *more], key=lambda found: objective.loss(found.value))


def with_confirmation(
    found: FoundCheckpoint,
    uses: Sequence[Mapping[str, Any]],
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> FoundCheckpoint:
    """The checkpoint with what its latest confirmation said, if it had one."""
    use = latest_uses(uses).get(checkpoint_key(found))
    if use is None:
        return found
    bounds = {name: Bound(**bound) for name, bound in use["bounds"].items()}
    said = Confirmation(
        *(use["status"], use["metrics"], use["error"], ranges or {}, bounds, use["look"]),
        of_earlier_check=use.get("of_earlier_check", False),
    )
    return replace(found, confirmation=said)


def read_ranges(settings: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """The least and the largest possible value of constraints, where the study knows them.

    >>> read_ranges({"ranges": {"gap": [0.0, 1.0], "ms": [0.0, None]}})
    {'gap': (0.0, 1.0), 'ms': (0.0, inf)}
    """
    return {
        name: (-math.inf if low is None else low, math.inf if high is None else high)
        for name, (low, high) in settings.get("ranges", {}).items()
    }


def with_next_best(candidates: Sequence[FoundCheckpoint]) -> list[FoundCheckpoint]:
    """The candidates, best first, each with the next one that could take its place."""
    linked: list[FoundCheckpoint] = []
    usable: FoundCheckpoint | None = None
    for found in reversed(candidates):
        found = replace(found, next_best=usable)
        linked.append(found)
        there = found.kept is not None and found.model_fault(full=False) is None
        if there and found.status != "broken":
            usable = found
    return linked[::-1]
