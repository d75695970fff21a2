"""``acetune report STUDY``."""

from __future__ import annotations

import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from acetune.cli.params import PATH, study_argument
from acetune.core.errors import GoalError
from acetune.core.formatting import size
from acetune.report.figure_files import write_figures
from acetune.report.figures import FIGURES, drawings
from acetune.report.html import write_report
from acetune.study.reader import StudyView
from acetune.study.summary import shown


@click.command()
@study_argument
@click.option(
    "--output", "-o", type=PATH, help="The HTML file; by default STUDY with the ending .html."
)
@click.option("--open", "open_it", is_flag=True, help="Open it in the browser.")
@click.option(
    "--png", type=PATH, help="Write the figures as PNG into this folder, and no HTML without -o."
)
@click.option(
    "--figure",
    multiple=True,
    help=f"With --png: only this one, of {', '.join(FIGURES)}. Can be repeated.",
)
def report(
    study: Path, output: Path | None, open_it: bool, png: Path | None, figure: tuple[str, ...]
) -> None:
    """Write a report of STUDY: one HTML file with the answer and pictures, to be opened offline."""
    if figure and png is None:
        raise GoalError("--figure chooses what --png writes; give a folder, --png FOLDER, too")
    out = output or study.with_suffix(".html")
    if out.suffix.lower() not in (".html", ".htm"):
        raise GoalError(f"the report is an HTML file: its name must end in .html, got {str(out)!r}")
    with StudyView(study) as view:
        if png is not None:
            _write_images(view, png, figure or None)
        if png is None or output is not None or open_it:
            say_report(write_report(view, out))
    if open_it:
        webbrowser.open(out.resolve().as_uri())


def say_report(path: Path) -> None:
    """Print where a report is, and how large."""
    click.echo(f"report  {shown(path)} ({size(path.stat().st_size)}; opens offline in any browser)")


def _write_images(view: StudyView, folder: Path, ids: Sequence[str] | None) -> None:
    figures: dict[Path | str, Any] = {
        folder / f"{drawing.id}.png": drawing.figure for drawing in drawings(view, ids)
    }
    write_figures(figures)
    for path in map(Path, figures):
        click.echo(f"figure  {shown(path)} ({size(path.stat().st_size)})")
