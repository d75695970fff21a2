"""``acetune export STUDY -o OUT``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from acetune.study.export import FORMATS, format_of, to_csv, to_optuna, to_parquet
from acetune.study.export.destinations import without_password
from acetune.study.summary import shown


def export(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="The study file.")],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="Where to: trials.csv, trials.parquet, a folder for all tables, or for Optuna "
            "optuna.db, sqlite:///optuna.db or optuna.log.",
        ),
    ],
    as_format: Annotated[
        str | None,
        typer.Option(
            "--format", help=f"{', '.join(FORMATS)}; by default what the name of OUTPUT ends in."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite what is there from before.")
    ] = False,
) -> None:
    """Write STUDY as CSV or Parquet tables, or as a study of Optuna."""
    chosen = format_of(output, as_format)
    if chosen == "optuna":
        made = to_optuna(study, output, force=force)
        typer.echo(f"wrote study {made.study_name!r} to {without_password(output)}")
        return
    write = to_csv if chosen == "csv" else to_parquet
    for path in write(study, output, force=force):
        typer.echo(f"wrote {shown(path)}")
