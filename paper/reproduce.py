"""``python -m paper``: what is replayed, and the options."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import click

from acetune.cli.params import PATH
from acetune.core.errors import GoalError, TableError
from acetune.replay.curve_table import CurveTable
from acetune.replay.table_file import read_table
from acetune.report.figure_files import write_figures
from acetune.run.terminal import progress_bar
from acetune.study.opening import installed_versions
from acetune.trial.hardware import available_cores, describe_hardware
from paper import ablations, case_study, fairness, robustness
from paper.measuring import Case, Measured, Plan, jobs_of, measure, to_json
from paper.page import Drawn, Page
from paper.reproduce_live import live_options, make_plan, reproduce_live

PARTS = ("fairness", "ablations", "figures", "robustness")
_RECORD_CREDIT = "credit-lightgbm --data FILE"
_RECORD_SENTIMENT = "robustness --data FOLDER --suite FILE"
_CREDIT, _SENTIMENT = Path("tables/credit-lightgbm.parquet"), Path("tables/sst2-minilm.parquet")


@click.command()
@click.argument("parts", nargs=-1, help=f"Any of {', '.join(PARTS)}; all by default.")
@click.option(
    "--table",
    type=PATH,
    help=f"The curves to replay: {_CREDIT} by default, {_SENTIMENT} for robustness.",
)
@click.option("--output", "-o", type=PATH, default="results", help="Folder for the pages.")
@click.option(
    "--budget-s",
    "--budget",
    type=float,
    help="Simulated seconds on each worker, by default 35, or for robustness enough for a third "
    "of the table; with --live the seconds of each study, 120 by default.",
)
@click.option(
    "--seeds",
    help="How many repetitions on the table itself, 20 by default; with --live the seeds "
    "themselves, 20,21,22 by default.",
)
@click.option("--samples", type=int, help="Tables drawn anew, for the intervals; 40 by default.")
@click.option("--processes", type=int, help="Processes that share the work; one a core by default.")
@click.option(
    "--pictures",
    default="png",
    help="png or svg (need Chrome and the extra 'png'), or html.",
)
@live_options
def reproduce(
    parts: tuple[str, ...],
    table: Path | None,
    output: Path,
    budget_s: float | None,
    seeds: str | None,
    samples: int | None,
    processes: int | None,
    pictures: str,
    live: bool,
    data: Path | None,
    limits: str | None,
    policies: str | None,
    searchers: str | None,
    engine: str | None,
    workers: int | None,
    studies: Path | None,
    no_replay: bool,
) -> None:
    """Make the paper's tables and figures again, ours beside theirs."""
    chosen = list(dict.fromkeys(parts or _with_tables(table)))
    for part in chosen:
        if part not in PARTS:
            raise GoalError(f"there is no part {part!r} to reproduce; choose from {PARTS}")
    if pictures not in ("png", "svg", "html"):
        raise GoalError(f"--pictures must be png, svg or html, got {pictures!r}")
    count = available_cores() if processes is None else processes
    if count < 1:
        raise GoalError(f"--processes must be at least 1, got {count}")
    suffix = f".{pictures}"
    if live:
        if chosen != ["fairness"] or samples is not None:
            what = f"--samples {samples}" if samples is not None else " ".join(chosen)
            raise GoalError(f"--live is for 'python -m paper fairness' alone, got {what}")
        reproduce_live(
            make_plan(limits, policies, searchers, seeds, budget_s, engine, workers),
            data=data,
            folder=studies or Path("live-studies"),
            table=None if no_replay else _read(table or _CREDIT, _RECORD_CREDIT),
            processes=count,
            output=output,
            suffix=suffix,
        )
        return
    given: dict[str, object] = {
        "data": data,
        "limits": limits,
        "policies": policies,
        "searchers": searchers,
    }
    given |= {"engine": engine, "workers": workers, "studies": studies}
    for option, value in (given | {"no-replay": no_replay or None}).items():
        if value is not None:
            raise GoalError(f"--{option} is for real training: it needs --live")
    on_credit = [part for part in chosen if part != "robustness"]
    if table is not None and on_credit and on_credit != chosen:
        raise GoalError(
            f"--table {table} is one table; robustness has another than {', '.join(on_credit)}: "
            "reproduce it by itself"
        )
    plan = Plan(
        35.0 if budget_s is None else budget_s,
        20 if seeds is None else _repetitions(seeds),
        40 if samples is None else samples,
        processes=count,
    )
    if plan.seeds < 1 or plan.samples < 2:
        raise GoalError(
            f"--seeds must be >= 1 and --samples >= 2, got {plan.seeds} and {plan.samples}"
        )
    # both tables before anything that takes its time
    credit = _read(table or _CREDIT, _RECORD_CREDIT) if on_credit else None
    sentiment = _read(table or _SENTIMENT, _RECORD_SENTIMENT) if "robustness" in chosen else None
    if credit is not None:
        _fairness_parts(on_credit, credit, plan, output, suffix)
    if sentiment is not None:
        budget_s = robustness.default_budget_s(sentiment) if budget_s is None else budget_s
        _robustness_part(
            sentiment, replace(plan, budget_s=budget_s, constrained="afr"), output, suffix
        )


def _fairness_parts(
    chosen: list[str], curves: CurveTable, plan: Plan, output: Path, suffix: str
) -> None:
    if "figures" in chosen:
        _write(output / "figures.md", *case_study.report(curves, plan, output, suffix))
    cases = []
    if "fairness" in chosen:
        cases += fairness.cases()
    if "ablations" in chosen:
        cases += ablations.cases()
    measured = _measure(curves, cases, plan, output / "runs.json")
    if "fairness" in chosen:
        _write(output / "fairness.md", *fairness.report(curves, measured, plan, output, suffix))
    if "ablations" in chosen:
        _write(output / "ablations.md", *ablations.report(curves, measured, plan, output, suffix))


def _robustness_part(curves: CurveTable, plan: Plan, output: Path, suffix: str) -> None:
    measured = _measure(curves, robustness.cases(curves), plan, output / "robustness-runs.json")
    page, drawn = robustness.report(curves, measured, plan, output, suffix)
    _write(output / "robustness.md", page, drawn)


def _measure(curves: CurveTable, cases: list[Case], plan: Plan, path: Path) -> dict[Case, Measured]:
    """Replay under a progress bar; the best of every run is kept beside the pages."""
    cases = list(dict.fromkeys(cases))
    if not cases:
        return {}
    with progress_bar() as progress:
        bar = progress.add_task("replay", total=len(jobs_of(cases, plan)))
        measured = measure(curves, cases, plan, lambda run: progress.advance(bar))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(to_json(measured), indent=1) + "\n", encoding="utf-8")
    return measured


def _with_tables(given: Path | None) -> list[str]:
    """All parts; those whose table is not here are left out, and that is said."""
    if given is not None or not _CREDIT.exists() or _SENTIMENT.exists():
        return list(PARTS)
    click.echo(f"robustness is left out: there is no {_SENTIMENT}", err=True)
    return [part for part in PARTS if part != "robustness"]


def _read(table: Path, task: str) -> CurveTable:
    if not table.exists():
        raise TableError(
            f"there is no {table}: the recorded tables lie in the folder tables/ of the source "
            "repository; run there, name one with --table, or record it: python -m paper record "
            f"{task}"
        )
    return read_table(table)


def _repetitions(seeds: str) -> int:
    try:
        return int(seeds)
    except ValueError:
        raise GoalError(f"--seeds must be a whole number without --live, got {seeds!r}") from None


def _write(path: Path, page: Page, drawn: Drawn) -> None:
    """The page first: should no browser be there to draw, the measurements are not lost."""
    versions = installed_versions(("acetune", "numpy", "optuna", "flaml"))
    with_what = ", ".join(f"{package} {version}" for package, version in versions.items())
    command = shlex.join(["python", "-m", "paper", *sys.argv[1:]])
    page.text(f"Made by `{command}` with {with_what}, on {describe_hardware()}.")
    page.write(path)
    write_figures(drawn)
    click.echo(path)
