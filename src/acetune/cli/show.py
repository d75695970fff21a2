"""``acetune show STUDY``."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from acetune.cli.exits import end_with
from acetune.core.measurements import to_named
from acetune.run.terminal import summary
from acetune.study.findings import FoundCheckpoint
from acetune.study.result import StudyResult, load


def show(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="The study file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Show the best feasible checkpoint of STUDY, where the time went, and the strata.

    Where there is none, also so far, the exit status is 3; where fresh data rejected it, 4.
    """
    result = load(study)
    if as_json:
        typer.echo(json.dumps(to_json(result), indent=2, allow_nan=False))
    else:
        Console().print(summary(result))
    end_with(result, ran=False)


def to_json(result: StudyResult) -> dict[str, Any]:
    """The result as plain data."""
    goals = result.goals
    return {
        "study": str(result.study),
        "outcome": result.outcome,
        "objective": asdict(goals.objective),
        "constraints": {c.name: c.describe() for c in goals.constraints},
        "best": _checkpoint(result.best),
        "candidates": [_checkpoint(found) for found in result.candidates],
        "nearest_miss": _checkpoint(result.nearest_miss),
        "trials": dict(result.counts),
        "strata": dict(result.strata),
        "reasons": dict(result.reasons),
        "ledger": {**asdict(result.ledger), "check_share": result.ledger.check_share},
        "confirmation_uses": result.confirmation_uses,
        "ended": result.ended,
    }


def _checkpoint(found: FoundCheckpoint | None) -> dict[str, Any] | None:
    if found is None:
        return None
    confirmed = None
    if found.confirmation is not None:
        values = found.confirmation.values
        confirmed = {name: to_named(value) for name, value in values.items()}
    return {
        "trial": found.trial,
        "attempt": found.attempt,
        "step": found.step,
        "params": dict(found.params),
        "value": found.value,
        "constraints": {name: to_named(m) for name, m in found.constraints.items()},
        "violation": found.violation if math.isfinite(found.violation) else None,
        "checkpoint": None if found.checkpoint is None else str(found.checkpoint),
        "model_fault": found.model_fault(),
        "status": found.status,
        "confirmed": confirmed,
    }
