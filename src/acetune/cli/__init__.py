"""The command, one verb a file."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from acetune import __version__
from acetune.cli.exits import ExitCode, Group
from acetune.core.errors import AcetuneError
from acetune.core.formatting import harmless

#: the verbs in the order of the help, and the file of each
_FILES = {
    "demo": "demo",
    "run": "run",
    "resume": "run",
    "show": "show",
    "plan": "plan",
    "explain": "explain",
    "report": "report",
    "dashboard": "dashboard",
    "export": "export",
    "record": "record",
    "replay": "replay",
}


class _Verbs(Mapping[str, Any]):
    """The commands by their names, each imported when it is looked up.

    Together they take a second to import, of which each needs only a part.
    """

    def __getitem__(self, name: str) -> Any:
        return getattr(importlib.import_module(f"acetune.cli.{_FILES[name]}"), name)

    def __iter__(self) -> Iterator[str]:
        return iter(_FILES)

    def __len__(self) -> int:
        return len(_FILES)


class _Group(Group):
    """A group of commands that are not imported to be counted."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: Any = _Verbs()

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names."""
        return list(self.commands)


_HELP = """Tune models that must also qualify: fair, robust, fast, small enough.

Exit status of demo, run, resume and show:

\b
"""


@click.group(
    cls=_Group,
    help=_HELP + "\n".join(f"{code.value:>3}  {code.meaning}" for code in ExitCode),
    context_settings={"show_default": True},
)
@click.version_option(__version__, message="acetune %(version)s", help="Show the version.")
def app() -> None:
    """Without a verb it shows its help."""


def _require_a_folder() -> None:
    try:
        Path.cwd()
    except FileNotFoundError:
        text = "the folder that you are in has been deleted: go to another one"
        raise AcetuneError(text) from None


def main() -> None:
    """Entry point; errors that people can act on are shown without a traceback."""
    try:
        _require_a_folder()
        app()
    except AcetuneError as error:
        sys.stderr.write(f"acetune: {harmless(str(error))}\n")
        sys.exit(ExitCode.ERROR)
