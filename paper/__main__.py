"""``python -m paper``: the paper's experiments, from the source folder."""

from __future__ import annotations

import sys
from typing import Any

import typer
from typer.core import TyperGroup

from acetune.core.errors import AcetuneError
from paper.record import record
from paper.reproduce import reproduce


class _Group(TyperGroup):
    """Verbs, of which ``reproduce`` may be left out: ``python -m paper fairness``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the verb before what is none."""
        if not args or args[0] not in (*self.commands, "--help"):
            args = ["reproduce", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_Group,
    help="The paper's experiments again. The verb 'reproduce' may be left out: python -m paper "
    "fairness.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(reproduce)
app.command()(record)


def main() -> None:
    """Entry point; errors that people can act on are shown without a traceback."""
    try:
        app()
    except AcetuneError as error:
        sys.stderr.write(f"paper: {error}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
