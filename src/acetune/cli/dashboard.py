"""``acetune dashboard STUDY``."""

from __future__ import annotations

import contextlib
import threading
import webbrowser
from pathlib import Path

import click

from acetune.cli.params import PATH
from acetune.study.read_ahead import ReadAhead
from acetune.study.summary import shown


@click.command()
@click.argument("study", type=PATH, help="The study file; it need not exist yet.")
@click.option(
    "--host", default="127.0.0.1", help="Where to listen. Others than this machine need a token."
)
@click.option("--port", default=8765, help="The port; 0 takes any that is free.")
@click.option("--token", help="What readers have to know; made where it is needed and not given.")
@click.option("--open/--no-open", "open_page", default=False, help="Open the page in a browser.")
def dashboard(study: Path, host: str, port: int, token: str | None, open_page: bool) -> None:
    """Show STUDY as a live page in the browser, also while it runs. Ctrl-C ends it."""
    with ReadAhead(study) as ahead:  # a large study is read while the server is imported
        from acetune.report.dashboard import DashboardServer  # needs the extra

        server = DashboardServer(study, host=host, port=port, token=token, ahead=ahead)
        address = server.address
        click.echo(f"{shown(study)} is shown at  {address.url}  (Ctrl-C ends it)")
        if not address.loopback:
            click.echo(
                "Whoever knows this address and its token can read the study. The connection is "
                "not encrypted; over networks you do not trust, listen on 127.0.0.1 and use ssh -L."
            )
        if open_page:
            threading.Thread(target=webbrowser.open, args=(address.url,), daemon=True).start()
        # started in the background of a shell, the server ends without an interrupt
        with contextlib.suppress(KeyboardInterrupt):
            server.run()
        click.echo("The dashboard has ended; the study is as it was.")
