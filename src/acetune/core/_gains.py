"""How much a trial may gain yet: what finished trials gained after the same step."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from operator import is_
from typing import NamedTuple

from acetune.core.trial_record import TrialRecord

_RECENT = 48  # finished trials that are looked at
_ALIKE = 24  # of these, those like another trial: whose losses rank next to its own
_FEWEST = 6  # of which something can be said


class _Curve(NamedTuple):
    """A finished trial: its steps, its losses, and the least loss from each of them on."""

    steps: Sequence[int]
    losses: Sequence[float]
    least: Sequence[float]


class Gains:
    """What finished trials gained. Follows from the trials that it is asked about alone.

    Trials that were stopped are left out: they do not tell what they would have gained, and early
    in training nobody can know what the last steps bring, as where a learning rate falls.
    """

    def __init__(self) -> None:
        self._trials: list[TrialRecord] = []
        self._seen: tuple[list[TrialRecord] | None, int] = (None, 0)  # which list, and how long
        self._curves: list[_Curve] = []
        self._known: dict[int, tuple[list[float], list[tuple[float, float]]]] = {}
        # by step and last step: the most that was gained by trials alike, by the first of these
        self._most: dict[tuple[int, int], tuple[list[float], dict[int, float]]] = {}

    def most(self, finished: list[TrialRecord], step: int, last: int, loss: float) -> float:
        """The most that a trial like this one has gained from a step to its end.

        Of a shorter trial it is as much more as its logarithm of steps is less. Infinite where too
        few trials are known.
        """
        if not math.isfinite(loss) or len(finished) < _FEWEST:
            return math.inf
        if self._seen[0] is not finished or self._seen[1] != len(finished):
            self._look_at(finished[-_RECENT:])
            self._seen = finished, len(finished)  # it grows at its end, or is another one
        step = _rung(step)
        if step not in self._known:
            self._known[step] = self._from(step)
        losses, gained = self._known[step]
        if len(losses) < _FEWEST:
            return math.inf
        first = bisect_left(losses, loss) - _ALIKE // 2
        first = max(0, min(first, len(losses) - _ALIKE))
        if (step, last) not in self._most:
            left = math.log(last / step)
            self._most[step, last] = [gain * max(1.0, left / took) for gain, took in gained], {}
        gains, most = self._most[step, last]
        if first not in most:
            most[first] = max(gains[first : first + _ALIKE])
        return most[first]

    def _look_at(self, trials: list[TrialRecord]) -> None:
        if len(trials) == len(self._trials) and all(map(is_, trials, self._trials)):
            return
        self._trials, self._curves, self._known, self._most = trials, [], {}, {}
        for trial in trials:
            log = trial.log
            least = list(accumulate(reversed(log.loss), min))[::-1]
            self._curves.append(_Curve(log.step, log.loss, least))

    def _from(self, step: int) -> tuple[list[float], list[tuple[float, float]]]:
        """Losses at about a step, rising; and what was gained from there on, in which time."""
        found = []
        for steps, losses, least in self._curves:
            at = bisect_left(steps, step)
            if at + 1 < len(steps) and math.isfinite(gain := losses[at] - least[at + 1]):
                found.append((losses[at], (gain, math.log(steps[-1] / steps[at]))))
        found.sort()
        return [loss for loss, _ in found], [gain for _, gain in found]


def _rung(step: int) -> int:
    """The last step that is looked at: each up to 16, then eight from one to its double.

    >>> [_rung(step) for step in (0, 1, 15, 16, 17, 18, 35, 36)]
    [1, 1, 15, 16, 16, 18, 32, 36]
    """
    step = max(step, 1)
    shift = max(0, step.bit_length() - 4)
    return step >> shift << shift
