"""``acetune explain STUDY TRIAL``."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from acetune.cli.params import study_argument
from acetune.core.errors import StudyError
from acetune.core.formatting import harmless
from acetune.report.explanation import (
    answer_step,
    checked_words,
    decided_under,
    find_trial,
    holds_answer,
    how_it_ended,
    limits_then,
    report_cells,
    report_columns,
    telling,
    why_not_measured,
    why_unchecked,
)
from acetune.study.answer import candidates_of, choose_answer
from acetune.study.reader import viewing


@click.command()
@study_argument
@click.argument("which", metavar="TRIAL", help="The number of the trial, or Ray's name of it.")
@click.option("--all", "all_reports", is_flag=True, help="Show every report.")
def explain(study: Path, which: str, all_reports: bool) -> None:
    """Say why TRIAL of STUDY was stopped, with the numbers behind it."""
    console = Console()
    with viewing(study) as view, view.open() as store:
        trial = find_trial(which, store.names())
        latest = None if trial is None else view.trial(trial)
        if latest is None:
            last = view.trials[-1].trial if view.trials else None
            raise StudyError(f"{study} has no trial {which}; it has trials 1 to {last}")
        place = (latest.trial, latest.attempt)
        numbers = view.numbers(*place)
        reports, checks = store.reports_at(numbers), store.checks_at(numbers)
        then = store.verdicts_then(numbers)
        hardware, traceback = store.hardware().get(place), store.traceback(*place)
        candidates = candidates_of(view)
        goals, changes = view.goals, view.limit_changes
    best = choose_answer(candidates)
    lines = [
        *holds_answer(best, candidates, *place),
        *how_it_ended(latest, traceback),
        None if hardware is None else f"measured on: {hardware}",
        *limits_then(checks, goals),
        *decided_under(reports, changes, goals),
        None if reports else "it reported nothing",
    ]
    for line in filter(None, lines):
        console.print(harmless(line), markup=False, highlight=False, soft_wrap=True)
    if not reports:
        return
    values, answer = checked_words(checks, goals), answer_step(best, *place)
    # as text, not as markup: names and errors may hold anything
    title = Text(f"its reports ({harmless(goals.objective.name)} is the objective)")
    table = Table(title=title, title_justify="left")
    for column in report_columns(goals):
        table.add_column(
            Text(harmless(column)), justify="left" if column in ("stratum", "checked") else "right"
        )
    kept = list(range(len(reports))) if all_reports else telling(reports, answer)
    before = -1
    for row in kept:
        if row > before + 1:
            table.add_row(*["..."] * len(table.columns))
        cells = report_cells(reports[row], values, answer, then)
        table.add_row(*map(Text, map(harmless, cells)))
        before = row
    console.print(table)
    if answer is not None:
        console.print("* the answer", markup=False, highlight=False)
    if len(kept) < len(reports):
        left_out = f"{len(reports) - len(kept)} of {len(reports)} rows left out: --all shows them"
        console.print(left_out, highlight=False)
    unchecked = any(report["stratum"] == "unchecked" for report in reports)
    for note in (why_unchecked(latest, unchecked), why_not_measured(checks, goals)):
        if note is not None:
            console.print(harmless(note), markup=False, highlight=False)
