"""With which status the command ends, so that scripts can tell whether there is a model to use."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from acetune.study.result import StudyResult


class ExitCode(IntEnum):
    """The exit statuses, each with what it means."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> ExitCode:
        """A number with its meaning."""
        made = int.__new__(cls, value)
        made._value_ = value
        made.meaning = meaning
        return made

    ANSWER = 0, "there is an answer, or the command has done what it was asked"
    ERROR = 1, "an error, told in one line"
    USAGE = 2, "wrong usage: an unknown verb, option or argument"
    NOTHING_FEASIBLE = 3, "nothing qualifies (so far, if the study can go on)"
    REJECTED = 4, "all that was judged on fresh data broke a limit there"
    NOT_ENOUGH = 5, "the answer is less than show --require asks for"
    INTERRUPTED = 130, "interrupted; the same command goes on"


def code_of(result: StudyResult) -> ExitCode:
    """Whether a study has an answer to hand over."""
    return {
        "feasible": ExitCode.ANSWER,
        "rejected": ExitCode.REJECTED,
        "none feasible": ExitCode.NOTHING_FEASIBLE,
    }[result.outcome]


def end_with(result: StudyResult, *, ran: bool = True) -> None:
    """End the command with the status of a study; ``ran`` if this command has run it."""
    code = ExitCode.INTERRUPTED if ran and result.interrupted else code_of(result)
    if code is not ExitCode.ANSWER:
        raise click.exceptions.Exit(code)


class Group(click.Group):
    """Verbs, each of which ends with the status for it when it is interrupted."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb that is asked for."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None
