"""``python -m paper``: the paper's experiments, from the source folder."""

from __future__ import annotations

import sys

import click

from acetune.cli.exits import Group
from acetune.core.errors import AcetuneError
from paper.record import record
from paper.reproduce import reproduce


class _Group(Group):
    """Verbs, of which ``reproduce`` may be left out: ``python -m paper fairness``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the verb before what is none."""
        if not args or args[0] not in (*self.commands, "--help"):
            args = ["reproduce", *args]
        return super().parse_args(ctx, args)


app = _Group(
    commands=[reproduce, record],
    help="The paper's experiments again. The verb 'reproduce' may be left out: python -m paper "
    "fairness.",
    context_settings={"show_default": True},
)


def main() -> None:
    """Entry point; errors that people can act on are shown without a traceback."""
    try:
        app()
    except AcetuneError as error:
        sys.stderr.write(f"paper: {error}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
