"""``acetune explain STUDY TRIAL``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from acetune.core.errors import StudyError
from acetune.queries import goals_from_json
from acetune.report.explanation import (
    checked_words,
    find_trial,
    headline,
    report_cells,
    report_columns,
    why_unchecked,
)
from acetune.result import reading

_SHOWN = 12


def explain(
    study: Annotated[Path, typer.Argument(help="The study file.")],
    which: Annotated[
        str, typer.Argument(metavar="TRIAL", help="The number of the trial, or Ray's name of it.")
    ],
    all_reports: Annotated[bool, typer.Option("--all", help="Show every report.")] = False,
) -> None:
    """Say why TRIAL of STUDY was stopped, with the numbers behind it."""
    console = Console()
    with reading(study) as store:
        info = store.study()
        trial = find_trial(which, store.names())
        attempts = store.rows("SELECT * FROM trials WHERE trial = ? ORDER BY attempt", (trial,))
        if not attempts:
            last = store.rows("SELECT max(trial) AS n FROM trials")[0]["n"]
            raise StudyError(f"{study} has no trial {which}; it has trials 1 to {last}")
        latest = attempts[-1]
        reports = store.rows(
            "SELECT * FROM reports WHERE trial = ? AND attempt = ? ORDER BY seq",
            (trial, latest["attempt"]),
        )
        hardware = store.hardware().get((latest["trial"], latest["attempt"]))
        checks = store.rows(
            "SELECT c.* FROM checks c JOIN reports r USING (seq) WHERE r.trial = ? "
            "AND r.attempt = ? ORDER BY seq",
            (trial, latest["attempt"]),
        )
    goals = goals_from_json(info["objective"], info["constraints"])
    policy = json.loads(info["policy"])
    for line in headline(latest, len(attempts), policy if goals.constraints else {}):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if hardware is not None:
        console.print(f"measured on: {hardware}", markup=False, highlight=False, soft_wrap=True)
    values = checked_words(checks)
    for constraint in goals.constraints:
        console.print(f"limit: {constraint.describe()}", markup=False, highlight=False)
    # as text, not as markup: names and errors may hold anything
    title = Text(f"its reports ({goals.objective.name} is the objective)")
    table = Table(title=title, title_justify="left")
    for column in report_columns(goals):
        table.add_column(
            Text(column), justify="left" if column in ("stratum", "checked") else "right"
        )
    shown_reports = reports if all_reports else _ends(reports)
    for report in shown_reports:
        cells = report_cells(report, values) if report else ["..."] * 7
        table.add_row(*map(Text, cells))
    console.print(table)
    unchecked = any(report["stratum"] == "unchecked" for report in reports)
    note = why_unchecked(latest, policy, unchecked)
    if note is not None:
        console.print(note, highlight=False)


def _ends(reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if len(reports) <= _SHOWN:
        return reports
    head, tail = reports[:2], reports[-(_SHOWN - 4) :]
    valid = [r for r in reports if r["stratum"] == "valid"]
    least = min(reports, key=lambda r: float("inf") if r["violation"] is None else r["violation"])
    middle = [r for r in (valid[-1:] or [least]) if r not in head and r not in tail]
    return [*head, {}, *middle, *([{}] if middle else []), *tail]
