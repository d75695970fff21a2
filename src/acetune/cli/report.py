"""``acetune report STUDY``."""

from __future__ import annotations

import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from acetune.core.errors import GoalError
from acetune.core.formatting import size
from acetune.report.figure_files import write_figures
from acetune.report.figures import FIGURES, drawings
from acetune.report.html import write_report
from acetune.study.reader import StudyView
from acetune.study.summary import shown


def report(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="The study file.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The HTML file; by default STUDY with the ending .html."
        ),
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    png: Annotated[
        Path | None,
        typer.Option(help="Write the figures as PNG into this folder, and no HTML without -o."),
    ] = None,
    figure: Annotated[
        list[str] | None,
        typer.Option(help=f"With --png: only this one, of {', '.join(FIGURES)}. Can be repeated."),
    ] = None,
) -> None:
    """Write a report of STUDY: one HTML file with the answer and pictures, to be opened offline."""
    if figure and png is None:
        raise GoalError("--figure chooses what --png writes; give a folder, --png FOLDER, too")
    out = output or study.with_suffix(".html")
    if out.suffix.lower() not in (".html", ".htm"):
        raise GoalError(f"the report is an HTML file: its name must end in .html, got {str(out)!r}")
    with StudyView(study) as view:
        if png is not None:
            _write_images(view, png, figure)
        if png is None or output is not None or open_it:
            say_report(write_report(view, out))
    if open_it:
        webbrowser.open(out.resolve().as_uri())


def say_report(path: Path) -> None:
    """Print where a report is, and how large."""
    typer.echo(f"report  {shown(path)} ({size(path.stat().st_size)}; opens offline in any browser)")


def _write_images(view: StudyView, folder: Path, ids: Sequence[str] | None) -> None:
    figures: dict[Path | str, Any] = {
        folder / f"{drawing.id}.png": drawing.figure for drawing in drawings(view, ids)
    }
    write_figures(figures)
    for path in map(Path, figures):
        typer.echo(f"figure  {shown(path)} ({size(path.stat().st_size)})")
