"""The best valid losses of an experiment and whose they are: what the board publishes of it."""

from __future__ import annotations

from typing import Any

from sortedcontainers import SortedList


class Ranking:
    """Each trial's best valid loss, best first.

    >>> ranking = Ranking()
    >>> ranking.note("a", -0.7), ranking.note("b", -0.8), ranking.note("b", -0.8)
    (True, True, False)
    >>> ranking.top(1)
    ((-0.8, 'b'),)
    """

    def __init__(self) -> None:
        self._sorted: Any = SortedList()  # (loss, trial)
        self._losses: dict[str, float] = {}

    def note(self, trial: str, loss: float) -> bool:
        """Take a trial's best valid loss; returns whether it is another than before."""
        if self._losses.get(trial) == loss:
            return False
        self._drop(trial)
        self._losses[trial] = loss
        self._sorted.add((loss, trial))
        return True

    def rename(self, trial: str, name: str) -> None:
        """A trial has another name now."""
        if trial in self._losses:
            self.note(name, self._drop(trial))

    def top(self, count: int) -> tuple[tuple[float, str], ...]:
        """The best few."""
        return tuple(self._sorted[:count])

    def _drop(self, trial: str) -> float:
        loss = self._losses.pop(trial, float("inf"))
        self._sorted.discard((loss, trial))
        return loss
