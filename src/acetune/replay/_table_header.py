"""The JSON in the head of a curve table's file: what its columns mean."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from acetune.core.errors import GoalError, TableError
from acetune.core.goals import Objective
from acetune.core.numbers import is_whole
from acetune.replay.curve_table import CurveTable, Ints, TableConstraint

FORMAT = 1
_PLAIN = "finite numbers, text, true, false, null, lists, objects"


def parse_header(text: bytes | str) -> dict[str, Any]:
    """The header, its format number checked and its keys there in the right kind."""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TableError(
            f"the metadata 'acetune' are no JSON ({error}); write the file again"
        ) from None
    if not isinstance(header, dict):
        raise TableError(f"the metadata 'acetune' must be a JSON object, got {header!r}")
    version = header.get("format")
    if not is_whole(version) or version < 1:
        raise TableError(f'the metadata must say "format": {FORMAT}, got {version!r}')
    if version > FORMAT:
        raise TableError(
            f"written by a newer acetune (format {version}, this one reads {FORMAT}); "
            "upgrade acetune to read it"
        )
    for key, kind in {"name": str, "objective": dict, "constraints": list, "configs": list}.items():
        if not isinstance(header.get(key), kind):
            wanted = {str: "text", dict: "an object", list: "a list"}[kind]
            raise TableError(f"the metadata need {key!r}, {wanted}; got {header.get(key)!r}")
    for key in ("space", "made", "incomplete"):
        if not isinstance(header.get(key), dict | None):
            raise TableError(f"the metadata {key!r} must be an object, got {header[key]!r}")
    for config, params in enumerate(header["configs"]):
        if not isinstance(params, dict):
            raise TableError(f"configuration {config} must be an object, got {params!r}")
    return header


def read_objective(described: dict[str, Any]) -> Objective:
    """The objective from the header."""
    try:
        return Objective(described["metric"], described["mode"])
    except KeyError as error:
        raise TableError(f"the objective {described!r} needs {error}") from None
    except GoalError as error:
        raise TableError(f"the objective {described!r}: {error}") from None


def read_constraint(described: Any) -> TableConstraint:
    """A constraint from the header."""
    if not isinstance(described, dict):
        raise TableError(f"a constraint must be an object, got {described!r}")
    try:
        return TableConstraint(
            described["metric"],
            described.get("upper"),
            described.get("lower"),
            described["cost_s"],
            described.get("sparse", False),
        )
    except KeyError as error:
        raise TableError(f"the constraint {described!r} needs {error}") from None
    except (TableError, OverflowError) as error:  # the latter: a whole number beyond any float
        raise TableError(f"the constraint {described!r}: {error}") from None


def read_total_steps(lengths: Ints, incomplete: dict[str, Any]) -> Ints:
    """T of each configuration: the number of its rows, but for curves that were cut off."""
    total = lengths.copy()
    for key, steps in incomplete.items():
        config = int(key) if key.isascii() and key.isdigit() and len(key) < 10 else -1
        if not 0 <= config < len(lengths):
            raise TableError(
                f"'incomplete' names a configuration {key!r}; there are 0 to {len(lengths) - 1}"
            )
        if steps is None:
            total[config] = 0
        elif is_whole(steps) and lengths[config] < steps < 2**31:
            total[config] = steps
        else:
            raise TableError(
                f"'incomplete' gives configuration {key} {steps!r} steps in total; it has "
                f"{lengths[config]} rows, so a larger whole number or null is expected"
            )
    return total


def describe_table(table: CurveTable) -> str:
    """The header of a table; what JSON cannot hold is an error."""
    header: dict[str, Any] = {
        "format": FORMAT,
        "name": table.name,
        "objective": {"metric": table.objective.name, "mode": table.objective.mode},
        "constraints": [_describe_constraint(constraint) for constraint in table.constraints],
    }
    cut_off = np.flatnonzero(table.total_steps != np.diff(table.starts))
    if cut_off.size:
        header["incomplete"] = {str(i): int(table.total_steps[i]) or None for i in cut_off}
    if table.space is not None:
        header["space"] = table.space
    if table.made:
        header["made"] = table.made
    for key, value in header.items():
        _require_json(key, value)
    for config, params in enumerate(table.configs):
        _require_json(f"configuration {config}", params)
    return _as_json({**header, "configs": table.configs})


def _describe_constraint(constraint: TableConstraint) -> dict[str, Any]:
    limit = {"upper": constraint.upper} if constraint.lower is None else {"lower": constraint.lower}
    sparse = {"sparse": True} if constraint.sparse else {}
    return {"metric": constraint.metric, **limit, "cost_s": constraint.cost_s, **sparse}


def _require_json(what: str, value: object) -> None:
    try:
        _as_json(value)
    except (TypeError, ValueError) as error:
        raise TableError(f"{what} must be plain JSON ({_PLAIN}): {error}; got {value!r}") from None


def _as_json(value: object) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))
