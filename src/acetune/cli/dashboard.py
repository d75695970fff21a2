"""``acetune dashboard STUDY``."""

from __future__ import annotations

import contextlib
import threading
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from acetune.study.read_ahead import ReadAhead
from acetune.study.summary import shown


def dashboard(
    study: Annotated[
        Path, typer.Argument(metavar="STUDY", help="The study file; it need not exist yet.")
    ],
    host: Annotated[
        str, typer.Option(help="Where to listen. Others than this machine need a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes any that is free.")] = 8765,
    token: Annotated[
        str | None,
        typer.Option(help="What readers have to know; made where it is needed and not given."),
    ] = None,
    open_page: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser.")
    ] = False,
) -> None:
    """Show STUDY as a live page in the browser, also while it runs. Ctrl-C ends it."""
    with ReadAhead(study) as ahead:  # a large study is read while the server is imported
        from acetune.report.dashboard import DashboardServer  # needs the extra

        server = DashboardServer(study, host=host, port=port, token=token, ahead=ahead)
        address = server.address
        typer.echo(f"{shown(study)} is shown at  {address.url}  (Ctrl-C ends it)")
        if not address.loopback:
            typer.echo(
                "Whoever knows this address and its token can read the study. The connection is "
                "not encrypted; over networks you do not trust, listen on 127.0.0.1 and use ssh -L."
            )
        if open_page:
            threading.Thread(target=webbrowser.open, args=(address.url,), daemon=True).start()
        # started in the background of a shell, the server ends without an interrupt
        with contextlib.suppress(KeyboardInterrupt):
            server.run()
        typer.echo("The dashboard has ended; the study is as it was.")
