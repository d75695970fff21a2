"""``acetune export STUDY -o OUT``."""

from __future__ import annotations

from pathlib import Path

import click

from acetune.cli.params import study_argument
from acetune.study.export import FORMATS, format_of, to_csv, to_optuna, to_parquet
from acetune.study.export.destinations import without_password
from acetune.study.summary import shown


@click.command()
@study_argument
@click.option(
    "--output",
    "-o",
    required=True,
    help="Where to: trials.csv, trials.parquet, a folder for all tables, or for Optuna optuna.db, "
    "sqlite:///optuna.db or optuna.log.",
)
@click.option(
    "--format",
    "as_format",
    help=f"{', '.join(FORMATS)}; by default what the name of OUTPUT ends in.",
)
@click.option("--force", is_flag=True, help="Overwrite what is there from before.")
def export(study: Path, output: str, as_format: str | None, force: bool) -> None:
    """Write STUDY as CSV or Parquet tables, or as a study of Optuna."""
    chosen = format_of(output, as_format)
    if chosen == "optuna":
        made = to_optuna(study, output, force=force)
        click.echo(f"wrote study {made.study_name!r} to {without_password(output)}")
        return
    write = to_csv if chosen == "csv" else to_parquet
    for path in write(study, output, force=force):
        click.echo(f"wrote {shown(path)}")
