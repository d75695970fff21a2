"""What a policy answers to a report: go on or stop, and why."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal, TypeAlias

Stratum: TypeAlias = Literal["valid", "invalid", "unchecked"]

STRATA: tuple[Stratum, ...] = ("unchecked", "invalid", "valid")
"""Strata by their number, where a column of them is kept."""

UNCHECKED, INVALID, VALID = range(3)


class Action(enum.Enum):
    """What happens to the trial after a report."""

    CONTINUE = "continue"
    STOP = "stop"


@dataclass(slots=True)  # created at every report: a frozen one, or a tuple, takes thrice as long
class Decision:
    """The answer to one report, with the numbers that led to it.

    ``why`` is a template over the other fields, filled in only when :attr:`reason` is read: most
    decisions are never looked at.

    >>> d = Decision(Action.STOP, "rank {rank} of {of} {stratum}", "valid", rank=4, of=4, step=3)
    >>> d.stop, d.reason
    (True, 'rank 4 of 4 valid')
    """

    action: Action
    why: str
    stratum: Stratum = "unchecked"
    rank: int | None = None  # 1 is best; ties share the better rank
    of: int | None = None  # how many are compared, this report included
    step: int = 0
    number: float = 0.0  # what the rule compared with: the truncation percentage, ASHA's cutoff

    @property
    def stop(self) -> bool:
        """Whether the trial ends here."""
        return self.action is Action.STOP

    @property
    def reason(self) -> str:
        """Why, in words and numbers."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return self.why.format_map(fields)
