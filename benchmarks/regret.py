"""How far an answer is from the best there is, on a scale that all tables share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from acetune.core.errors import GoalError
from acetune.replay.judged_table import JudgedTable


class RegretScale(NamedTuple):
    """The losses that count as regret 0 and 1; smaller losses are better."""

    best: float  # the best feasible checkpoint of the table
    median: float  # of the best feasible ones of the configurations that have one

    def regret(self, loss: float) -> float:
        """0 for the best feasible checkpoint, 1 for the median configuration's and all worse.

        Nothing found is an infinite loss, and has regret 1.

        >>> RegretScale(best=0.25, median=0.75).regret(0.375)
        0.25
        """
        if loss <= self.best:
            return 0.0
        if loss >= self.median:
            return 1.0
        return (loss - self.best) / (self.median - self.best)


def regret_scale(judged: JudgedTable) -> RegretScale:
    """The scale of a table under its limits."""
    found = judged.best_losses[np.isfinite(judged.best_losses)]
    if not len(found):
        limits = ", ".join(constraint.describe() for constraint in judged.constraints)
        raise GoalError(
            f"no regret without an answer: nothing in {judged.table.name!r} has {limits}"
        )
    return RegretScale(float(found.min()), float(np.median(found)))
