"""What a policy answers to a report: go on or stop, and why."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from acetune.core.reason import Reason, Value, Wording, stated

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

    The sentences of ``why`` may name the stratum, the rank, ``of``, the step and whatever is in
    ``numbers``. They are filled in only when they are read: most decisions are never looked at. A
    plain text does for a policy whose stops need not be counted by kind.

    >>> cut = Wording("worst", "rank {rank} of {of} {stratum}, worse than {cutoff}")
    >>> d = Decision(Action.STOP, cut, "valid", rank=4, of=4, step=3, numbers={"cutoff": 0.5})
    >>> d.stop, d.reason
    (True, 'rank 4 of 4 valid, worse than 0.5')
    """

    action: Action
    why: Wording | str
    stratum: Stratum = "unchecked"
    rank: int | None = None  # 1 is best; ties share the better rank
    of: int | None = None  # how many are compared, this report included
    step: int = 0
    # what else the rule compared: a share, a cutoff
    numbers: Mapping[str, Value] = field(default_factory=dict)

    @property
    def stop(self) -> bool:
        """Whether the trial ends here."""
        return self.action is Action.STOP

    @property
    def wording(self) -> Wording:
        """The code of the answer, and its words."""
        return Wording("own", self.why) if isinstance(self.why, str) else self.why

    @property
    def because(self) -> Reason:
        """Why, as a code with all its numbers."""
        numbers: dict[str, Value] = {"stratum": self.stratum, "step": self.step}
        if self.rank is not None and self.of is not None:
            numbers |= {"rank": self.rank, "of": self.of}
        numbers |= self.numbers
        if isinstance(self.why, str):  # one code for all texts: so the text is kept, filled in
            return stated("own", str(Reason(self.wording, numbers)))
        return Reason(self.why, numbers)

    @property
    def reason(self) -> str:
        """Why, in words and numbers."""
        return str(self.because)
