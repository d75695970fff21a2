"""``acetune explain STUDY TRIAL``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from acetune.cli.params import study_argument
from acetune.core.errors import StudyError
from acetune.core.formatting import harmless
from acetune.core.goals import Goals
from acetune.report.explanation import (
    answer_attempt,
    answer_step,
    checked_words,
    decided_under,
    earlier_words,
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
from acetune.study.findings import FoundCheckpoint
from acetune.study.reader import StudyView, viewing
from acetune.study.store import Store
from acetune.study.table_rows import TrialRow


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
        hardware, traceback = store.hardware().get(place), store.traceback(*place)
        candidates = candidates_of(view)
        best = choose_answer(candidates)
        earlier = answer_attempt(best, latest, view.attempts(latest.trial))
        told = [_Attempt.read(view, store, row) for row in (latest, earlier) if row is not None]
    lines = [*holds_answer(best, candidates, *place), *how_it_ended(latest, traceback)]
    if hardware is not None:
        lines.append(f"measured on: {hardware}")
    for attempt in told:
        if attempt.row is earlier:
            lines = ["", earlier_words(earlier)]
        _print(console, lines)
        attempt.print(console, best, all_reports=all_reports)


@dataclass(frozen=True)
class _Attempt:
    """An attempt with its reports."""

    row: TrialRow
    goals: Goals
    changes: Sequence[Mapping[str, Any]]  # of limits
    reports: Sequence[Mapping[str, Any]]
    checks: Sequence[Mapping[str, Any]]
    then: Mapping[int, str]  # strata in which reports were decided on

    @classmethod
    def read(cls, view: StudyView, store: Store, row: TrialRow) -> Self:
        """What the study file has of it."""
        seqs = view.numbers(row.trial, row.attempt)
        found = store.reports_at(seqs), store.checks_at(seqs), store.verdicts_then(seqs)
        return cls(row, view.goals, view.limit_changes, *found)

    def print(self, console: Console, best: FoundCheckpoint | None, *, all_reports: bool) -> None:
        """Its limits, and its reports as a table."""
        goals, reports = self.goals, self.reports
        _print(console, limits_then(self.checks, goals))
        _print(console, decided_under(reports, self.changes, goals))
        if not reports:
            _print(console, ["it reported nothing"])
            return
        values = checked_words(self.checks, goals)
        answer = answer_step(best, self.row.trial, self.row.attempt)
        # as text, not as markup: names and errors may hold anything
        title = Text(f"its reports ({harmless(goals.objective.name)} is the objective)")
        table = Table(title=title, title_justify="left")
        for column in report_columns(goals):
            table.add_column(
                Text(harmless(column)),
                justify="left" if column in ("stratum", "checked") else "right",
            )
        kept = list(range(len(reports))) if all_reports else telling(reports, answer)
        before = -1
        for row in kept:
            if row > before + 1:
                table.add_row(*["..."] * len(table.columns))
            cells = report_cells(reports[row], values, answer, self.then)
            table.add_row(*map(Text, map(harmless, cells)))
            before = row
        console.print(table)
        if answer is not None:
            _print(console, ["* the answer"])
        if len(kept) < len(reports):
            left_out = f"{len(reports) - len(kept)} of {len(reports)} rows left out"
            console.print(f"{left_out}: --all shows them", highlight=False)
        unchecked = any(report["stratum"] == "unchecked" for report in reports)
        notes = why_unchecked(self.row, unchecked), why_not_measured(self.checks, goals)
        for note in filter(None, notes):
            console.print(harmless(note), markup=False, highlight=False)


def _print(console: Console, lines: Sequence[str]) -> None:
    for line in lines:
        console.print(harmless(line), markup=False, highlight=False, soft_wrap=True)
