"""The command, one verb a file."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from acetune import __version__
from acetune.cli.exits import ExitCode
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
        module = importlib.import_module(f"acetune.cli.{_FILES[name]}")
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        alone.command(name)(getattr(module, name))
        return typer.main.get_command(alone)

    def __iter__(self) -> Iterator[str]:
        return iter(_FILES)

    def __len__(self) -> int:
        return len(_FILES)


class _Group(TyperGroup):
    """A group of commands that are not imported to be counted."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: Any = _Verbs()

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names."""
        return list(self.commands)


_HELP = """Tune models that must also qualify: fair, robust, fast, small enough.

Exit status of demo, run, resume and show:

\b
"""

app = typer.Typer(
    cls=_Group,
    help=_HELP + "\n".join(f"{code.value:>3}  {code.meaning}" for code in ExitCode),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"acetune {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, help="Show the version."),
) -> None:
    pass


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
