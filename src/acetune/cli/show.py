"""``acetune show STUDY``."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from acetune.certification.account import SCHEDULE
from acetune.cli.exits import ExitCode, end_with
from acetune.cli.params import json_option, study_argument
from acetune.core.errors import AcetuneError
from acetune.core.report_values import to_named
from acetune.study.claims import claim
from acetune.study.findings import FoundCheckpoint
from acetune.study.integrity import understanding
from acetune.study.read_ahead import ReadAhead

if TYPE_CHECKING:
    from acetune.study.result import StudyResult


_ENOUGH = {  # what --require takes
    "certified-exact": ("certified",),
    "certified": ("certified",),
    "holds": ("certified", "holds"),
    "feasible": ("certified", "holds", "unconfirmed"),
}


@click.command()
@study_argument
@json_option
@click.option(
    "--require",
    type=click.Choice(list(_ENOUGH)),
    help="What the answer must be for exit status 0: certified-exact, by exact bounds alone; "
    "certified, also by approximate ones; holds on fresh data, or certified; feasible in the "
    "search and not broken since. Else it is 5, also where the model that was kept is lost.",
)
def show(study: Path, as_json: bool, require: str | None) -> None:
    """Show the best feasible checkpoint of STUDY, where the time went, and the strata.

    Where there is none, also so far, the exit status is 3; where fresh data rejected it, 4; where
    it is less than --require asks for, 5.
    """
    with ReadAhead(study) as ahead:  # a large study is read while the rest is imported
        from acetune.run.terminal import summary
        from acetune.study.reader import viewing
        from acetune.study.result import result_of

        with viewing(study.absolute(), ahead) as view:
            result = result_of(view)
    with understanding(study, AcetuneError):  # what is wrong with the words is the file's
        words = _json_text(result) if as_json else summary(result)
    if isinstance(words, str):
        click.echo(words)
    else:
        Console().print(words)
    end_with(result, ran=False)
    if require is None:
        return
    nearly = result.best is not None and result.best.certified_approximately
    status = f"{result.status} (approximate)" if nearly else result.status
    if result.status not in _ENOUGH[require] or (nearly and require == "certified-exact"):
        click.echo(f"{study}: {status}, and {require} is required", err=True)
        raise click.exceptions.Exit(ExitCode.NOT_ENOUGH)
    fault = None if result.best is None else result.best.model_fault()
    if fault is not None:
        click.echo(f"{study}: {status}, but its model {fault}", err=True)
        raise click.exceptions.Exit(ExitCode.NOT_ENOUGH)
    click.echo(f"{study}: {status}", err=True)


def _json_text(result: StudyResult) -> str:
    return json.dumps(to_json(result), indent=2, allow_nan=False)


def to_json(result: StudyResult) -> dict[str, Any]:
    """The result as plain data."""
    goals, best, miss = result.goals, result.best, _checkpoint(result.nearest_miss)
    return {
        "study": str(result.study),
        "outcome": result.outcome,
        "status": result.status,
        "approximate": best is not None and best.certified_approximately,
        "claim": claim(result) if result.status and goals.constraints else None,
        "objective": asdict(goals.objective),
        "constraints": {c.name: c.describe() for c in goals.constraints},
        "best": _checkpoint(best),
        "candidates": [_checkpoint(found) for found in result.candidates],
        "nearest_miss": miss and {**miss, "status": None},  # fresh data is not asked of such
        "trials": dict(result.counts),
        "strata": dict(result.strata),
        "reasons": dict(result.reasons),
        "ledger": {**asdict(result.ledger), "check_share": result.ledger.check_share},
        "confirmation_uses": result.confirmation_uses,
        "confirm_error": result.confirm_error,
        "account": {
            "confidence": result.confidence,
            "looks": [dict(look) for look in result.looks],
            "spent": result.account.spent,
            "left": result.account.left,
            "next_level": result.account.next_level,
            "schedule": SCHEDULE,
        },
        "check_changes": [dict(change) for change in result.check_changes],
        "limit_changes": [dict(change) for change in result.limit_changes],
        "ended": result.ended,
        "ended_code": result.ended_code,
    }


def _checkpoint(found: FoundCheckpoint | None) -> dict[str, Any] | None:
    if found is None:
        return None
    confirmed = bounds = None
    if found.confirmation is not None:
        bounds = {name: asdict(bound) for name, bound in found.confirmation.bounds.items()}
        values = found.confirmation.values
        confirmed = {name: to_named(value) for name, value in values.items()}
    return {
        "trial": found.trial,
        "attempt": found.attempt,
        "step": found.step,
        "params": dict(found.params),
        "value": found.value,
        "constraints": {name: to_named(m) for name, m in found.constraints.items()},
        "notes": {name: dict(note) for name, note in found.notes.items()},
        "margins": dict(found.margins),  # by which it was judged in the search
        "violation": found.violation if math.isfinite(found.violation) else None,
        "checkpoint": None if found.checkpoint is None else str(found.checkpoint),
        "model_fault": found.model_fault(),
        "status": found.status,
        "confirmed": confirmed,
        "bounds": bounds,
    }
