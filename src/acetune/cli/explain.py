"""``acetune explain STUDY TRIAL``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from acetune.core.cost import interval_threshold
from acetune.core.errors import StudyError
from acetune.queries import goals_from_json
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
        trial = int(which) if which.isdigit() else _named(which, store.names())
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
    for line in _headline(latest, len(attempts), policy if goals.constraints else {}):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if hardware is not None:
        console.print(f"measured on: {hardware}", markup=False, highlight=False, soft_wrap=True)
    values: dict[int, str] = {}
    for check in checks:
        shown = check["error"] or f"{check['constraint']} {check['value']:.4g}"
        if check["stderr"]:
            shown += f" ± {check['stderr']:.2g}"
        values[check["seq"]] = ", ".join(filter(None, [values.get(check["seq"], ""), shown]))
    for constraint in goals.constraints:
        console.print(f"limit: {constraint.describe()}", highlight=False)
    table = Table(
        title=f"its reports ({goals.objective.name} is the objective)", title_justify="left"
    )
    for column in (
        "step",
        goals.objective.name,
        "stratum",
        "checked",
        "violation",
        "rank",
        "decision",
    ):
        table.add_column(column, justify="left" if column in ("stratum", "checked") else "right")
    shown_reports = reports if all_reports else _ends(reports)
    for report in shown_reports:
        table.add_row(*_cells(report, values) if report else ["..."] * 7)
    console.print(table)
    unchecked = any(report["stratum"] == "unchecked" for report in reports)
    if latest["interval"] == 1 and json.loads(info["policy"]).get("gate") and unchecked:
        text = "unchecked: the checkpoint could not beat the best feasible one known then"
        console.print(text, highlight=False)


def _named(which: str, names: Mapping[str, int]) -> int | None:
    """A trial by Ray's id of it, or by its name, which begins with that of the trainable."""
    return next(
        (n for name, n in names.items() if which == name or which.endswith(f"_{name}")), None
    )


def _headline(row: dict[str, Any], attempts: int, policy: dict[str, Any]) -> list[str]:
    params = json.loads(row["params"])
    lines = [
        f"trial {row['trial']} {row['state']}: {row['reason']}",
        "parameters: " + ", ".join(f"{name}={value}" for name, value in params.items()),
    ]
    if policy and row["state"] != "rejected":
        lines.append(_interval(row, policy))
    if attempts > 1:
        lines.insert(1, f"this is its attempt {attempts}; the earlier ones do not count any more")
    if row["traceback"]:
        lines.append(row["traceback"].rstrip())
    return lines


def _interval(row: dict[str, Any], policy: dict[str, Any]) -> str:
    """How often its constraint was due, and by what numbers, where the theorem chose."""
    total, interval, ratio = row["total_steps"], row["interval"], row["cost_ratio"]
    if policy.get("constraints") == "after":
        return "constraint: checked after the run only"
    if policy["name"] == "ASHA":
        return "constraint: due at every rung and at the last step"
    last = "an unknown number of steps" if total is None else f"{total} steps"
    when = "at every step" if interval == 1 else "once, at the end"
    text = f"constraint: due {when} of {last}"
    if ratio is None or total is None or policy.get("interval") != "adaptive":
        return text
    threshold = interval_threshold(policy["truncation"], total)
    return (
        f"{text}, because a check cost {ratio:.3g} times an iteration when the trial started and "
        f"every step is cheaper below {threshold:.3g} (Theorem 1)"
    )


def _ends(reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if len(reports) <= _SHOWN:
        return reports
    head, tail = reports[:2], reports[-(_SHOWN - 4) :]
    valid = [r for r in reports if r["stratum"] == "valid"]
    least = min(reports, key=lambda r: float("inf") if r["violation"] is None else r["violation"])
    middle = [r for r in (valid[-1:] or [least]) if r not in head and r not in tail]
    return [*head, {}, *middle, *([{}] if middle else []), *tail]


def _cells(report: dict[str, Any], values: dict[int, str]) -> list[str]:
    objective = report["objective"]
    checked = values.get(report["seq"], "")
    if checked and report["checked_step"] != report["step"]:
        checked += f" (step {report['checked_step']})"
    violation, rank = report["violation"], report["rank"]
    return [
        str(report["step"]),
        "nan" if objective is None else f"{objective:.5g}",
        report["stratum"],
        checked,
        "" if violation is None else f"{violation:.3g}",
        "" if rank is None else f"{rank} of {report['of']}",
        report["decision"] if report["kind"] == "step" else f"check ({report['kind']})",
    ]
