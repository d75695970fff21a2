"""Values that reports carry: as they should be, or an error that names them; and as plain data."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from acetune.core.errors import ReportCallError, ReportError
from acetune.core.goals import Estimate, FailedCheck, Goals, note_of, with_note
from acetune.core.numbers import as_dict, as_number, as_whole, quoted

LARGEST_STEP = 2**62
"""SQLite, NumPy and Parquet count up to 2**63 - 1: this leaves room for differences and sums."""

LARGEST_COST_S = 1e30
"""Seconds: beyond any use, and however many are added up, the sum is finite."""


def split_costs(
    goals: Goals, cost: float | Mapping[str, float], measured: Collection[str] | None = None
) -> dict[str, float]:
    """The cost of a check by constraint; one number for all is shared out evenly.

    ``measured`` are the constraints that the check has not left out; None: it left out none.
    """
    names = goals.names
    if type(cost) is not float and isinstance(cost, Mapping):  # the second takes a while
        cost = as_dict(cost, "constraint_cost_s")
        for name in cost:
            if name not in names:
                raise ReportError(
                    f"cost of unknown constraint {quoted(name)}; this study has {[*names]}"
                )
        costs = {n: require_cost(c, f"cost of constraint {n!r}") for n, c in cost.items()}
        return {n: c for n, c in costs.items() if measured is None or n in measured}
    total = require_cost(cost, "constraint_cost_s")
    if len(names) == 1:  # nearly always
        return {names[0]: total} if measured is None or names[0] in measured else {}
    if measured is not None:
        names = tuple([name for name in names if name in measured])
    return dict.fromkeys(names, total / len(names)) if names else {}


def require_step(step: int, what: str = "step", least: int = 1) -> int:
    """A step as a plain number from 1 on, else a :class:`ReportError` that names it."""
    if type(step) is int and least <= step <= LARGEST_STEP:  # nearly always
        return step
    found = as_whole(step, what, least)
    if found > LARGEST_STEP:
        raise ReportError(
            f"{what} must be at most 2**62, got {quoted(found)}: a study file holds no larger "
            "numbers; count in larger units, such as thousands of tokens"
        )
    return found


def require_trial(trial: int | str) -> int | str:
    """The name of a trial: a text or a whole number, else a :class:`ReportError`."""
    if type(trial) is str:
        return trial
    if not isinstance(trial, str):
        return require_step(trial, "trial must be a text, or", least=-LARGEST_STEP)
    return str(trial)


def require_total_steps(total_steps: int | None) -> int | None:
    """``total_steps`` if it makes sense, else a :class:`ReportError` that names it."""
    return None if total_steps is None else require_step(total_steps, "total_steps")


def require_cost(cost: float, what: str) -> float:
    """A cost in seconds: finite and not negative."""
    seconds = cost if type(cost) is float else as_number(cost, what)
    if not 0.0 <= seconds <= LARGEST_COST_S:
        raise ReportError(f"{what} must be a number of seconds from 0 to 1e30, got {quoted(cost)}")
    return seconds


def split_metrics(
    goals: Goals, value: float | None, metrics: Mapping[str, float], named_by: str = "objective={}"
) -> tuple[float, dict[str, float]]:
    """The objective, given as it is or by its name, and the metrics beside it.

    ``named_by`` is where people name another objective.
    """
    name, extras = goals.objective.name, dict(metrics)
    if value is None:
        if name not in extras:
            got = f"got {sorted(extras)}" if extras else "got nothing"
            near = difflib.get_close_matches(name, extras, n=1) or [*extras][: len(extras) == 1]
            hint = f"; or did you mean {named_by.format(repr(near[0]))}?" if near else ""
            raise ReportCallError(f"report the objective as report({name}=...), {got}{hint}")
        value = extras.pop(name)
    elif name in extras:
        raise ReportCallError(
            f"the objective {name!r} is given twice: {value!r} and {extras[name]!r}"
        )
    for extra in extras:
        if any(constraint.name == extra for constraint in goals.constraints):
            raise ReportCallError(
                f"{extra!r} is a constraint: give its check, as constraints={{{extra!r}: "
                "function}, so that it is called only when worth its cost"
            )
    extras = {extra: as_number(number, f"metric {extra!r}") for extra, number in extras.items()}
    return as_number(value, f"objective {name!r}"), extras


Columns = tuple[float | None, float | None, str | None]


def to_columns(found: Estimate | FailedCheck) -> Columns:
    """Value, standard error and error of a measurement, as the study file holds them.

    >>> to_columns(Estimate(0.24, 0.02)), to_columns(FailedCheck("no data"))
    ((0.24, 0.02, None), (None, None, 'no data'))
    """
    if isinstance(found, FailedCheck):
        return None, None, found.error
    return found.value, found.stderr, None


def from_columns(
    value: float | None, stderr: float | None, error: str | None
) -> Estimate | FailedCheck:
    """The measurement of which :func:`to_columns` gave these."""
    if value is None:
        return FailedCheck("unknown" if error is None else error)
    return Estimate(value, stderr or 0.0)


def to_json(found: Estimate | FailedCheck) -> list[Any] | dict[str, str]:
    """A measurement as JSON can hold it, its note last if it has one.

    >>> to_json(Estimate(0.24, 0.02)), to_json(FailedCheck("no data"))
    ([0.24, 0.02], {'error': 'no data'})
    """
    if isinstance(found, FailedCheck):
        return found._asdict()
    note = note_of(found)
    return list(found) if note is None else [*found, dict(note)]


def to_named(found: Estimate) -> dict[str, float]:
    """A measurement in the JSON that people read.

    >>> to_named(Estimate(0.24, 0.02))
    {'value': 0.24, 'stderr': 0.02}
    """
    return {"value": found.value, "stderr": found.stderr}


def from_json(found: Sequence[Any] | Mapping[str, Any]) -> Estimate | FailedCheck:
    """The measurement of which :func:`to_json` gave this; a failed check may be a list of one."""
    if isinstance(found, Mapping):
        return FailedCheck(found["error"])
    if len(found) == 1:
        return FailedCheck(*found)
    return with_note(Estimate(*found[:2]), found[2] if len(found) > 2 else None)
