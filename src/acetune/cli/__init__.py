"""The command, one verb a file."""

from __future__ import annotations

import sys

import typer

from acetune import __version__
from acetune.cli.dashboard import dashboard
from acetune.cli.demo import demo
from acetune.cli.explain import explain
from acetune.cli.export import export
from acetune.cli.record import record
from acetune.cli.replay import replay
from acetune.cli.report import report
from acetune.cli.reproduce import reproduce
from acetune.cli.run import resume, run
from acetune.cli.show import show
from acetune.core.errors import AcetuneError

app = typer.Typer(
    help="Tune models that must also qualify: fair, robust, fast, small enough.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for verb in (
    demo,
    run,
    resume,
    show,
    explain,
    report,
    dashboard,
    export,
    record,
    replay,
    reproduce,
):
    app.command()(verb)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"acetune {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, help="Show the version."),
) -> None:
    pass


def main() -> None:
    """Entry point; errors that people can act on are shown without a traceback."""
    try:
        app()
    except AcetuneError as error:
        sys.stderr.write(f"acetune: {error}\n")
        sys.exit(1)
