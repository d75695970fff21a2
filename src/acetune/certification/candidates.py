"""Which candidates are tested on fresh data, and in which order.

They and their order are fixed on search data before fresh data is touched, the safest first. Each
is tested at the full level of the look as long as all before it have passed; the first that does
not pass ends the certificates (a fixed sequence: Maurer, Hothorn and Lehmacher 1995; Angelopoulos
et al., *Learn then Test*, 2021). To certify a model that breaks a limit, the first such model of
the sequence must pass, and that happens with at most the probability of the level. So there is
nothing to divide among the candidates, and a sequence from safe to bold ends where the data does.

The tests themselves are made one after the other by ``run/_confirmation.py``.
``benchmarks/certificates.py`` measures this procedure beside Bonferroni, Holm and a split level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Position(NamedTuple):
    """Where a candidate stands on search data: its loss, and how safe it looks."""

    loss: float
    safety: float  # distance to the nearest limit in standard errors; larger is safer


def choose(positions: Sequence[Position], most: int, enough: float = math.inf) -> list[int]:
    """Which candidates to test, and in which order: from the safest to the best.

    Those stay that no other beats in both loss and safety; of many, some that are spread evenly
    over the safety between the best one and the safest. Where they are too few, the next best of
    the others fill up. Safety beyond ``enough`` counts as enough.

    >>> found = [Position(1.0, 0.5), Position(1.1, 0.4), Position(1.2, 2.0), Position(3.0, 9.0)]
    >>> choose(found, 2, enough=4.0)
    [3, 0]
    >>> choose(found, 3)
    [3, 2, 0]
    >>> choose(found, 1)
    [0]
    """
    capped = [Position(p.loss, min(p.safety, enough)) for p in positions]
    by_loss = sorted(range(len(capped)), key=lambda i: (capped[i].loss, -capped[i].safety))
    front: list[int] = []
    for i in by_loss:  # better ones first: each must be safer than all of them
        if not front or capped[i].safety > capped[front[-1]].safety:
            front.append(i)
    chosen = _spread(front, [capped[i].safety for i in front], most)
    for i in by_loss:
        if len(chosen) >= min(most, len(capped)):
            break
        if i not in chosen:
            chosen.append(i)
    return sorted(chosen, key=lambda i: (-capped[i].safety, capped[i].loss, i))


def _spread(front: list[int], safety: list[float], most: int) -> list[int]:
    """At most so many of those that are not beaten: the first, the last, and evenly between."""
    if len(front) <= most:
        return list(front)
    if most == 1:
        return front[:1]
    places = [0, len(front) - 1]
    low, high = safety[0], safety[-1]
    for step in range(1, most - 1):
        aim = low + (high - low) * step / (most - 1)
        left = [place for place in range(len(front)) if place not in places]
        places.append(min(left, key=lambda place: abs(safety[place] - aim)))
    return [front[place] for place in sorted(places)]
