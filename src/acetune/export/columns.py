"""The three tables of an export: the columns of trials, reports and checks, and their rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

from acetune.export.gathered import ExportedTrial, Gathered
from acetune.study.found import FoundCheckpoint
from acetune.study.store import CheckRow, ReportRow

Kind: TypeAlias = Literal["integer", "number", "boolean", "text", "time"]
Row: TypeAlias = tuple[Any, ...]


class Column(NamedTuple):
    """Name and type of a column; times are seconds since 1970."""

    name: str
    kind: Kind


class TrialColumn(NamedTuple):
    """A column of the table of trials, with what stands in it."""

    column: Column
    of: Callable[[ExportedTrial], Any]


REPORTS = (
    Column("seq", "integer"),
    Column("trial", "integer"),
    Column("attempt", "integer"),
    Column("kind", "text"),
    Column("step", "integer"),
    Column("objective", "number"),
    Column("checked_step", "integer"),
    Column("checked_objective", "number"),
    Column("violation", "number"),
    Column("stratum", "text"),
    Column("rank", "integer"),
    Column("of", "integer"),
    Column("decision", "text"),
    Column("primary_cost_s", "number"),
    Column("snapshot_cost_s", "number"),
    Column("time", "time"),
    Column("metrics", "text"),
)
CHECKS = (
    Column("seq", "integer"),
    Column("trial", "integer"),
    Column("attempt", "integer"),
    Column("step", "integer"),
    Column("constraint", "text"),
    Column("value", "number"),
    Column("stderr", "number"),
    Column("cost_s", "number"),
    Column("error", "text"),
)


def check_rows(row: ReportRow, checks: Iterable[CheckRow]) -> Iterator[Row]:
    """The rows of the checks made at a report; the step is that of the checkpoint checked."""
    for check in checks:
        yield (row.seq, row.trial, row.attempt, row.checked_step, *check)


def trial_columns(gathered: Gathered) -> list[TrialColumn]:
    """The columns of the table of trials: as in ``StudyResult.trials``, and more."""
    value = gathered.goals.objective.value
    columns = [
        _column("trial", "integer", lambda t: t.row.trial),
        _column("attempts", "integer", lambda t: t.row.attempt),
        _column("state", "text", lambda t: t.row.state),
        _column("reason", "text", lambda t: str(t.row.reason)),
        _column("total_steps", "integer", lambda t: t.row.total_steps),
        _column("interval", "integer", lambda t: t.row.interval),
        _column("cost_ratio", "number", lambda t: t.row.cost_ratio),
        _column("last_step", "integer", lambda t: t.last_step or None),
        _column("reports", "integer", lambda t: t.reports),
        _column("checks", "integer", lambda t: t.checks),
        _column("best_objective", "number", lambda t: _finite(t.best_loss, value)),
        _column("best_valid_objective", "number", lambda t: _of(t.best_valid, "value")),
        _column("stratum", "text", lambda t: t.stratum),
        _column("found_attempt", "integer", lambda t: _of(t.found, "attempt")),
        _column("found_step", "integer", lambda t: _of(t.found, "step")),
        _column("found_objective", "number", lambda t: _of(t.found, "value")),
        _column("violation", "number", lambda t: _of(t.found, "violation")),
        _column("confirmation", "text", lambda t: t.status),
    ]
    for constraint in gathered.goals.constraints:
        columns += _measured(constraint.name)
    columns += [
        _column("startup_s", "number", lambda t: t.startup_s),
        _column("training_s", "number", lambda t: t.training_s),
        _column("checks_s", "number", lambda t: t.checks_s),
        _column("snapshots_s", "number", lambda t: t.snapshots_s),
        _column("started", "time", lambda t: t.row.started),
        _column("ended", "time", lambda t: t.row.ended),
    ]
    trials = gathered.trials()
    names = dict.fromkeys(gathered.info["space"])  # in the order they were declared
    names.update(dict.fromkeys(name for trial in trials for name in trial.row.params))
    for name in names:
        columns.append(
            _parameter(name, [t.row.params[name] for t in trials if name in t.row.params])
        )
    return columns


def trial_rows(columns: list[TrialColumn], gathered: Gathered) -> Iterator[Row]:
    """The rows of the table of trials."""
    for trial in gathered.trials():
        yield tuple(column.of(trial) for column in columns)


def as_text(value: object) -> str:
    """A value of a parameter in words: lists and objects as JSON."""
    return json.dumps(value) if isinstance(value, (list, dict)) else str(value)


def _column(name: str, kind: Kind, of: Callable[[ExportedTrial], Any]) -> TrialColumn:
    return TrialColumn(Column(name, kind), of)


def _measured(name: str) -> list[TrialColumn]:
    def result(trial: ExportedTrial, field: Literal["value", "stderr"]) -> float | None:
        found = trial.found
        if found is None or name not in found.constraints:
            return None
        measured: float = getattr(found.constraints[name], field)
        return measured

    return [
        _column(f"constraint.{name}", "number", lambda t: result(t, "value")),
        _column(f"stderr.{name}", "number", lambda t: result(t, "stderr")),
    ]


def _parameter(name: str, values: list[Any]) -> TrialColumn:
    """A column for a parameter: of one type if its values are, else of words."""
    kinds = {type(value) for value in values if value is not None}
    large = any(type(value) is int and abs(value) >= 2**63 for value in values)
    kind: Kind = "text"
    if kinds == {bool}:
        kind = "boolean"
    elif kinds and kinds <= {int, float} and not large:
        kind = "integer" if kinds == {int} else "number"

    def of(trial: ExportedTrial) -> Any:
        value = trial.row.params.get(name)
        return value if value is None or kind != "text" else as_text(value)

    return _column(f"param.{name}", kind, of)


def _of(found: FoundCheckpoint | None, field: str) -> Any:
    return None if found is None else getattr(found, field)


def _finite(loss: float, value: Callable[[float], float]) -> float | None:
    return None if loss == float("inf") else value(loss)
