"""``acetune reproduce``."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from acetune.cli.progress import progress_bar
from acetune.core.errors import GoalError, TableError
from acetune.engines.local import available_cores
from acetune.replay.figures import write_figures
from acetune.replay.table import read_table
from acetune.reproduce import ablations, case_study, fairness
from acetune.reproduce.measuring import Plan, jobs_of, measure, to_json
from acetune.reproduce.page import Drawn, Page
from acetune.versions import installed_versions

_PARTS = ("fairness", "ablations", "figures")


def reproduce(
    parts: Annotated[
        list[str] | None, typer.Argument(help=f"Any of {', '.join(_PARTS)}; all by default.")
    ] = None,
    table: Annotated[Path, typer.Option(help="The curves of the paper's fairness task.")] = Path(
        "tables/credit-lightgbm.parquet"
    ),
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the pages.")] = Path(
        "results"
    ),
    budget_s: Annotated[float, typer.Option(help="Simulated seconds on each worker.")] = 35.0,
    seeds: Annotated[int, typer.Option(help="Repetitions on the table itself.")] = 20,
    samples: Annotated[int, typer.Option(help="Tables drawn anew, for the intervals.")] = 40,
    processes: Annotated[
        int | None, typer.Option(help="Processes that share the work; one a core by default.")
    ] = None,
    pictures: Annotated[
        str, typer.Option(help="png or svg (need Chrome and the extra 'png'), or html.")
    ] = "png",
) -> None:
    """Make the paper's tables and figures again, ours beside theirs."""
    chosen = list(dict.fromkeys(parts or _PARTS))
    for part in chosen:
        if part not in _PARTS:
            raise GoalError(f"there is no part {part!r} to reproduce; choose from {_PARTS}")
    if pictures not in ("png", "svg", "html"):
        raise GoalError(f"--pictures must be png, svg or html, got {pictures!r}")
    if seeds < 1 or samples < 2:
        raise GoalError(f"--seeds must be >= 1 and --samples >= 2, got {seeds} and {samples}")
    count = available_cores() if processes is None else processes
    if count < 1:
        raise GoalError(f"--processes must be at least 1, got {count}")
    if not table.exists():
        raise TableError(
            f"there is no {table}: it lies in the folder tables/ of the source repository; run "
            "there, name it with --table, or record it: acetune record credit-lightgbm --data FILE"
        )
    curves = read_table(table)
    plan = Plan(budget_s, seeds, samples, processes=count)
    suffix = f".{pictures}"
    if "figures" in chosen:
        _write(output / "figures.md", *case_study.report(curves, plan, output, suffix))
    cases = []
    if "fairness" in chosen:
        cases += fairness.cases()
    if "ablations" in chosen:
        cases += ablations.cases()
    cases = list(dict.fromkeys(cases))
    with progress_bar() as progress:
        bar = progress.add_task("replay", total=len(jobs_of(cases, plan)))
        measured = measure(curves, cases, plan, lambda run: progress.advance(bar))
    if measured:
        output.mkdir(parents=True, exist_ok=True)
        kept = json.dumps(to_json(measured), indent=1)
        (output / "runs.json").write_text(kept + "\n", encoding="utf-8")
    if "fairness" in chosen:
        _write(output / "fairness.md", *fairness.report(curves, measured, plan, output, suffix))
    if "ablations" in chosen:
        _write(output / "ablations.md", *ablations.report(curves, measured, plan, output, suffix))


def _write(path: Path, page: Page, drawn: Drawn) -> None:
    """The page first: should no browser be there to draw, the measurements are not lost."""
    versions = installed_versions(("acetune", "numpy", "optuna", "flaml"))
    with_what = ", ".join(f"{package} {version}" for package, version in versions.items())
    page.text(f"Made by `acetune {shlex.join(sys.argv[1:])}` with {with_what}.")
    page.write(path)
    write_figures(drawn)
    typer.echo(path)
