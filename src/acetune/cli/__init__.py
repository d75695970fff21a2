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

#: the verbs in the order of the help, each with the beginning of its own help
_VERBS = {
    "demo": "Tune LightGBM on credit data under a fairness limit: about a minute, offline.",
    "run": "Run the study that FILE defines: `train` and `STUDY`, a dict of keywords of tune().",
    "resume": "Go on with STUDY where it was, perhaps with a larger budget.",
    "show": "Show the best feasible checkpoint of STUDY, where the time went, and the strata.",
    "plan": "Say how many fresh rows it takes to certify LIMIT if the model has VALUE.",
    "explain": "Say why TRIAL of STUDY was stopped, with the numbers behind it.",
    "report": "Write a report of STUDY: one HTML file with the answer and pictures, to be opened "
    "offline.",
    "dashboard": "Show STUDY as a live page in the browser, also while it runs. Ctrl-C ends it.",
    "export": "Write STUDY as CSV or Parquet tables, or as a study of Optuna.",
    "record": "Train configurations of FILE to the end and record every step's metrics and costs.",
    "replay": "Replay tune() on the recorded curves of TABLE, on a simulated clock, or compare "
    "policies.",
}


class _Verbs(Mapping[str, Any]):
    """The commands by their names, each imported when it is looked up.

    Together they take a second to import, of which each needs only a part.
    """

    def __getitem__(self, name: str) -> Any:
        if name not in _VERBS:
            raise KeyError(name)
        file = "run" if name == "resume" else name
        return getattr(importlib.import_module(f"acetune.cli.{file}"), name)

    def __iter__(self) -> Iterator[str]:
        return iter(_VERBS)

    def __len__(self) -> int:
        return len(_VERBS)


class _Group(Group):
    """A group of commands that are not imported to be counted, nor to be listed."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: Any = _Verbs()

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """What each of them does, in whole sentences."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_VERBS.items()))


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
