"""Why something happened to a trial: a code and named numbers, put into words only here."""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, TypeAlias

Value: TypeAlias = float | str  # of a name in a sentence
_PARSER = string.Formatter()
_LONGEST_TEXT = 20_000  # characters


class Wording(NamedTuple):
    """One kind of reason: its code, and the sentences that its numbers are filled into.

    A policy has a constant of this kind for each of its answers. ``short`` names only what many
    trials have in common, so that they can be counted together; it is the sentence by default.

    >>> CUT = Wording("worst", "rank {rank} of {of}: in the worst {share:.0%}", "worst {share:.0%}")
    >>> reason = Reason(CUT, {"rank": 4, "of": 4, "share": 0.25})
    >>> str(reason), reason.short
    ('rank 4 of 4: in the worst 25%', 'worst 25%')
    """

    code: str
    sentence: str
    short: str = ""


@dataclass(frozen=True, slots=True)
class Reason:
    """A code with its numbers. ``str(reason)`` is the sentence."""

    wording: Wording
    numbers: Mapping[str, Value] = field(default_factory=dict)

    @property
    def code(self) -> str:
        """What kind of reason it is."""
        return self.wording.code

    @property
    def short(self) -> str:
        """The reason without what differs from trial to trial."""
        return _filled(self.wording.short or self.wording.sentence, self.numbers)

    @property
    def shared(self) -> dict[str, Value | None]:
        """The numbers in the short form: reasons are counted by their code and these."""
        names = _names(self.wording.short or self.wording.sentence)
        return {name: self.numbers.get(name) for name in names}

    def __str__(self) -> str:
        return _filled(self.wording.sentence, self.numbers)

    def __bool__(self) -> bool:
        return bool(self.wording.code)


NO_REASON = Reason(Wording("", ""))
LAST_STEP = Reason(Wording("last_step", "reached its last step"))
INTERRUPTED = Reason(Wording("interrupted_by_user", "interrupted by the user"))
BUDGET_SPENT = Reason(Wording("budget_spent", "the time budget is spent"))
FAILED = "session_failed"  # the code of a session that an error has ended
RAISED = "raised"  # the code of a trial that an exception has ended: the text is its message
TARGET_REACHED = Wording(
    "target_reached", "the target is reached: {objective} {value:.5g}, asked for {target:.5g}"
)
NO_BETTER_TRIALS = Wording(
    "patience_trials", "no better answer in the last {trials} trials to end (patience_trials)"
)
NO_BETTER_S = Wording("patience_s", "no better answer for {seconds:.0f} s (patience_s)")
#: why a study ends before its budget is spent
ENOUGH = frozenset({TARGET_REACHED.code, NO_BETTER_TRIALS.code, NO_BETTER_S.code})
BY_ITSELF = Reason(Wording("by_itself", "ended by itself"))


def shortened(text: str) -> str:
    """A text of somebody else's, such as an error's, as far as it fits a study file."""
    if len(text) <= _LONGEST_TEXT:
        return text
    half = _LONGEST_TEXT // 2
    return f"{text[:half]}\n... {len(text) - 2 * half:,} characters left out ...\n{text[-half:]}"


def stated(code: str, text: str) -> Reason:
    """A reason that comes as a text, such as an error's message.

    >>> str(stated("error", "KeyError: '{x}'"))
    "KeyError: '{x}'"
    """
    return Reason(Wording(code, "{text}"), {"text": text})


@lru_cache(maxsize=1024)
def _names(template: str) -> tuple[str, ...]:
    return tuple(name for _, name, _, _ in _PARSER.parse(template) if name)


def _filled(template: str, numbers: Mapping[str, Value]) -> str:
    try:
        return template.format_map(numbers)
    except (LookupError, ValueError, AttributeError, TypeError):
        # a policy of somebody's own, or a damaged file: what is known is better than an error
        return f"{template} {dict(numbers)}"
