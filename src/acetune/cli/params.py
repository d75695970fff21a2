"""Arguments and options that several verbs take."""

from __future__ import annotations

from pathlib import Path

import click

PATH = click.Path(path_type=Path)

study_argument = click.argument("study", type=PATH, help="The study file.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
workers_option = click.option(
    "--workers", type=int, help="Worker processes; one per core by default."
)
