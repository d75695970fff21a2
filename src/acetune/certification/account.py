"""How the probability of a false certificate is spent over the looks at fresh data.

A study that is resumed may look again. The looks share one account: the probabilities of an error
that they may make add up to ``1 - confidence``, whatever happens and however many there are. The
first look gets three quarters, because most studies look once. The k-th one after it gets
6 / (pi k)^2 of the rest: 15 % of the whole, 4 %, 2 %, ...
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from acetune.core.errors import GoalError
from acetune.core.numbers import is_number

FIRST = 0.75
SCHEDULE = "three quarters for the first look, 6 / (pi k)^2 of the rest for the k-th after it"


@dataclass(frozen=True, slots=True)
class Account:
    """The error probability of a study, and how much of it has been spent.

    >>> account = Account(0.95, looks=1)
    >>> round(account.level(1), 4), round(account.level(2), 4), round(account.left, 4)
    (0.0375, 0.0076, 0.0125)
    """

    confidence: float
    looks: int = 0  # so far

    def level(self, look: int) -> float:
        """What a look may err with; they are counted from 1."""
        whole = 1.0 - self.confidence
        if look == 1:
            return FIRST * whole
        return (1.0 - FIRST) * whole * 6.0 / (math.pi * (look - 1)) ** 2

    @property
    def next_level(self) -> float:
        """What the next look may err with."""
        return self.level(self.looks + 1)

    @property
    def spent(self) -> float:
        """What the looks so far may have erred with."""
        return math.fsum(self.level(look) for look in range(1, self.looks + 1))

    @property
    def left(self) -> float:
        """What is left for all looks to come."""
        return 1.0 - self.confidence - self.spent


def require_confidence(confidence: float) -> float:
    """A probability that makes sense as a confidence, else an error that names it."""
    if not is_number(confidence) or not 0.5 <= confidence < 1.0:
        percent = f"; for {confidence} % write {confidence / 100:g}" if _percent(confidence) else ""
        raise GoalError(f"confidence must lie from 0.5 to below 1, got {confidence!r}{percent}")
    return float(confidence)


def _percent(confidence: object) -> bool:
    return is_number(confidence) and 50 <= confidence < 100
