"""What a study file may hold: every number, time, word and JSON in it, before it is used.

SQLite takes any value in any column, and a file may come from anywhere. What is not as this package
writes it is refused here, where the file is opened, and not met later by an accident.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from acetune.core.formatting import harmless
from acetune.core.numbers import is_number, is_whole
from acetune.core.report_values import LARGEST_COST_S, LARGEST_STEP, from_json

YEARS = -60_000_000_000, 250_000_000_000  # seconds since 1970: the years 69 to 9892
LARGEST_TRIAL = 2**31 - 1


def _whole(least: int, most: int) -> str:
    return f"typeof({{0}}) = 'integer' AND {{0}} BETWEEN {least} AND {most}"


def _one_of(*words: str) -> str:
    return f"typeof({{0}}) = 'text' AND {{0}} IN ({', '.join(map(repr, words))})"


def _or_none(holds: str) -> str:
    return f"{{0}} IS NULL OR ({holds})"


_TEXT = "typeof({0}) = 'text'"
_REAL = "typeof({0}) IN ('real', 'integer')"  # may be infinite
_FINITE = f"{_REAL} AND {{0}} > -9e999 AND {{0}} < 9e999"
_AMOUNT = f"{_REAL} AND {{0}} BETWEEN 0 AND 1e300"
_SECONDS = f"{_REAL} AND {{0}} BETWEEN 0 AND {LARGEST_COST_S!r}"
_TIME = f"{_REAL} AND {{0}} BETWEEN {YEARS[0]} AND {YEARS[1]}"
_SHARE = f"{_REAL} AND {{0}} BETWEEN 0 AND 1"
_TRIAL, _ATTEMPT = _whole(1, LARGEST_TRIAL), _whole(1, 2**15 - 1)
_STEP, _FROM_0 = _whole(1, LARGEST_STEP), _whole(0, LARGEST_STEP)
_NUMBER = _whole(-(2**63), 2**63 - 1)
_PLACE = {"trial": _TRIAL, "attempt": _ATTEMPT}

#: by table and column; what is not named here may be anything
_CELLS: Mapping[str, Mapping[str, str]] = {
    "study": {
        **dict.fromkeys(("objective", "constraints", "policy", "space", "settings"), _TEXT),
        **dict.fromkeys(("versions", "code_hash", "code"), _TEXT),
        "created": _TIME,
        "confidence": f"{_SHARE} AND {{0}} NOT IN (0, 1)",
    },
    "sessions": {
        "started": _TIME,
        "host": _or_none(_TEXT),
        "seconds": _SECONDS,
        "search_s": _SECONDS,
        "ended": _or_none(_TEXT),
        "ended_numbers": _TEXT,
    },
    "trials": {
        **_PLACE,
        "params": _TEXT,
        "total_steps": _or_none(_STEP),
        "interval": _or_none(_STEP),
        "cost_ratio": _or_none(_AMOUNT),
        "resumed_from": _FROM_0,
        "state": _one_of("running", "finished", "stopped", "failed", "interrupted", "rejected"),
        "traceback": _or_none(_TEXT),
        "startup_cost_s": _or_none(_SECONDS),
        "started": _TIME,
        "ended": _or_none(_TIME),
        **dict.fromkeys(("reason", "reason_numbers", "schedule", "schedule_numbers"), _TEXT),
    },
    "wordings": dict.fromkeys(("code", "sentence", "short"), _TEXT),
    "reports": {
        **_PLACE,
        "kind": _one_of("step", "end", "after"),
        "step": _STEP,
        "objective": _or_none(_REAL),
        "checked_step": _or_none(_STEP),
        "checked_objective": _or_none(_REAL),
        "violation": _or_none(f"{_REAL} AND {{0}} >= 0"),
        "stratum": _one_of("valid", "invalid", "unchecked"),
        "rank": _or_none(_NUMBER),
        "of": _or_none(_NUMBER),
        "decision": _one_of("continue", "stop", "finish"),
        "primary_cost_s": _or_none(_SECONDS),
        "snapshot_cost_s": _SECONDS,
        "time": _TIME,
        "metrics": _or_none(_TEXT),
    },
    "checks": {
        "seq": _NUMBER,
        "constraint": _TEXT,
        "value": _or_none(_FINITE),
        "stderr": _or_none(_AMOUNT),
        "cost_s": _or_none(_SECONDS),
        "error": _or_none(_TEXT),
        "margin_se": _AMOUNT,
        "note": _or_none(_TEXT),
    },
    "checkpoints": {"bytes": _FROM_0, "digest": _or_none(_TEXT)},  # the rest: Store.understood
    "looks": {
        "look": _STEP,
        "level": _SHARE,
        "data": _or_none(_TEXT),
        "candidates": _TEXT,
        "started": _TIME,
        "ended": _or_none(_TIME),
    },
    "check_changes": {
        "time": _TIME,
        "seq": _NUMBER,
        "how": _TEXT,
        "what": _TEXT,
        "done": _or_none(_TIME),
    },
    "confirmations": {
        **_PLACE,
        "step": _STEP,
        "status": _one_of("certified", "holds", "broken", "unconfirmed"),
        **dict.fromkeys(("metrics", "bounds"), _TEXT),
        "error": _or_none(_TEXT),
        "time": _TIME,
        "look": _STEP,
    },
    "names": {"trial": _TRIAL, "name": _TEXT},
    "hardware": {**_PLACE, "description": _TEXT},
    "waits": {**_PLACE, "seconds": _SECONDS},
    "earlier_studies": {"path": _TEXT, "digest": _TEXT},
    "earlier_trials": {
        **dict.fromkeys(("study", "params", "reports", "checks"), _TEXT),
        "total_steps": _or_none(_STEP),
        "ended": _whole(0, 1),
    },
}


def quoted(name: str) -> str:
    """A name as SQL has it where it may be one of its words.

    Not in double quotes: SQLite takes those of a column that is not there for a text.
    """
    return f"[{name}]"


#: what is not read into arrays, which are looked through as they are (report_arrays.py)
_BESIDE_ARRAYS = {
    "reports": ("rank", "of", "metrics"),
    "checks": ("constraint", "error", "note"),
}


def require_cells(db: sqlite3.Connection, *, arrays: bool = False) -> None:
    """Raise ValueError if a value is of a kind, or in a range, that its column never has.

    ``arrays``: reports and checks are read into arrays, which is where they are looked through.
    """
    there = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for table, columns in _CELLS.items():
        if table not in there:  # not every study has all of them
            continue
        if arrays and table in _BESIDE_ARRAYS:
            columns = {name: columns[name] for name in _BESIDE_ARRAYS[table]}
        tests = " ".join(
            f"WHEN NOT ({holds.format(quoted(name))}) THEN '{name}'"
            for name, holds in columns.items()
        )
        wrong = db.execute(
            f"SELECT column FROM (SELECT CASE {tests} END AS column FROM {table}) "
            "WHERE column NOT NULL LIMIT 1"
        ).fetchone()
        if wrong is not None:
            (name,) = wrong
            value = db.execute(
                f"SELECT substr(quote({quoted(name)}), 1, 60) FROM {table} "
                f"WHERE NOT ({columns[name].format(quoted(name))}) LIMIT 1"
            ).fetchone()[0]
            raise ValueError(f"in its table {table}, {name} cannot be {harmless(value)}")
    trials, last = db.execute("SELECT count(*), coalesce(max(trial), 0) FROM trials").fetchone()
    if last > 1000 + 100 * trials:  # they are counted from 1, and so is memory for them
        raise ValueError(f"it has a trial {last} among {trials}")


# -- JSON ------------------------------------------------------------------------------------------


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_amount(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


def _is_range(value: object) -> bool:
    ends = value if isinstance(value, list) else ()
    return len(ends) == 2 and all(end is None or is_number(end) for end in ends)


def _or_null(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or holds(value)


_SETTINGS: Mapping[str, Callable[[Any], bool]] = {  # those that everybody relies on
    "time_budget_s": _is_amount,
    "max_trials": is_whole,
    "confirm_top": is_whole,
    "keep_models": is_whole,
    "patience_trials": is_whole,
    "patience_s": _is_amount,
    "target": is_number,
    "workers": is_whole,
    "code_bytes": is_whole,
    "source": _is_text,
    "engine": _is_text,
    "searcher": _is_text,
    "ranges": lambda value: isinstance(value, dict) and all(map(_is_range, value.values())),
}
_NEEDED = ("confirm_top", "keep_models")
_BOUND: Mapping[str, Callable[[Any], bool]] = {
    "level": is_number,
    "p_value": is_number,
    "value": _or_null(_is_amount),
    "how": _is_text,
    "approximate": lambda value: isinstance(value, bool),
    "rows": _or_null(is_whole),
    "refused": _or_null(_is_text),
    "more_rows": _or_null(_is_amount),
    "unit": _is_text,
}


_scan = json.JSONDecoder().raw_decode


def json_object(text: str, what: str) -> dict[str, Any]:
    """A JSON object; ValueError if it is something else."""
    if text[:1] == "{":  # nearly always, and without looking for space around it: half the time
        found, end = _scan(text)
        if end == len(text):
            return found  # type: ignore[no-any-return]
    found = json.loads(text)
    _require(isinstance(found, dict), what, found)
    return found  # type: ignore[no-any-return]


def json_list(text: str, what: str) -> list[Any]:
    """A JSON list; ValueError if it is something else."""
    found = json.loads(text)
    _require(isinstance(found, list), what, found)
    return found  # type: ignore[no-any-return]


def read_study(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row of ``study`` with its JSON decoded."""
    found = dict(row)
    for name in ("objective", "policy", "space", "settings", "versions"):
        found[name] = json_object(row[name], name)
    found["constraints"] = json_list(row["constraints"], "constraints")
    policy, settings = found["policy"], found["settings"]
    _require(isinstance(policy.get("name"), str), "policy", policy)
    for name in _NEEDED:
        _require(is_whole(settings.get(name)), f"setting {name}", settings.get(name))
    for name, holds in _SETTINGS.items():
        value = settings.get(name)
        _require(value is None or holds(value), f"setting {name}", value)
    for limit in found["constraints"]:
        _require(isinstance(limit, dict) and isinstance(limit.get("name"), str), "limit", limit)
        sides = [limit.get(side) for side in ("upper", "lower") if limit.get(side) is not None]
        _require(len(sides) == 1 and is_number(sides[0]), f"limit of {limit['name']}", sides)
        _require(limit.get("on") in ("model", "config"), "limit", limit)
    _require_space(found["space"])
    return found


def _require_space(space: Mapping[str, Any]) -> None:
    """Dimensions as :meth:`~acetune.searchers.Space.describe` gives them."""
    for name, value in space.items():
        if not isinstance(value, dict):
            _require(not isinstance(value, list), f"dimension {name}", value)
            continue
        inside = value.get("space")
        if inside is not None:
            _require(isinstance(inside, dict), f"dimension {name}", value)
            _require_space(inside)
        options = value.get("choice")
        _require(options is None or isinstance(options, list), f"dimension {name}", value)
        for option in options or ():
            if isinstance(option, dict):
                _require_space(option)
        for kind in ("float", "integer"):
            if kind in value:
                ends = value[kind]
                pair = isinstance(ends, list) and len(ends) == 2 and all(map(is_number, ends))
                _require(pair, f"dimension {name}", value)


def read_candidates(text: str) -> list[tuple[int, int, int]]:
    """The checkpoints that a look at fresh data is about."""
    found = json_list(text, "candidates")
    for place in found:
        fits = isinstance(place, list) and len(place) == 3 and all(map(is_whole, place))
        _require(fits, "candidate", place)
    return [tuple(place) for place in found]


def read_lines(text: str, what: str) -> list[str]:
    """A list of texts."""
    found = json_list(text, what)
    _require(all(isinstance(line, str) for line in found), what, found)
    return found


def read_confirmation(row: Mapping[str, Any], limits: Sequence[str]) -> dict[str, Any]:
    """A row of ``confirmations`` with its JSON decoded; ``limits`` are the study's constraints."""
    metrics = json_object(row["metrics"], "metrics")
    for name, found in metrics.items():
        fits = isinstance(found, list) and 2 <= len(found) <= 3 and all(map(is_number, found[:2]))
        noted = fits and (len(found) < 3 or isinstance(found[2], dict))
        failed = _is_text(found.get("error")) if isinstance(found, dict) else False
        earlier = isinstance(found, list) and len(found) == 1 and _is_text(found[0])
        _require(noted or failed or earlier, f"value of {name}", found)
    bounds = _read_bounds(row["bounds"], metrics)
    unknown = [name for name in bounds if name not in limits]
    _require(not unknown, "confirmation", f"a bound of {unknown}, which the study does not limit")
    if row["status"] == "certified":
        missing = [name for name in limits if name not in bounds]
        _require(not missing, "certificate", f"no bound of {missing}")
    measured = {name: from_json(found) for name, found in metrics.items()}
    return {**row, "metrics": measured, "bounds": bounds}


def _read_bounds(text: str, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The bounds of a confirmation, by constraint."""
    found = json_object(text, "bounds")
    for name, bound in found.items():
        _require(isinstance(bound, dict), f"bound of {name}", bound)
        for part, value in bound.items():
            _require(part in _BOUND and _BOUND[part](value), f"bound of {name}, {part},", value)
        for part in ("level", "p_value", "value", "how"):
            _require(part in bound, f"bound of {name}", bound)
        _require(name in metrics, f"bound of {name}", "no value beside it")
    return found


def read_numbers(text: str) -> dict[str, Any]:
    """Numbers and texts by name, as the sentences of reasons are filled with."""
    found = json_object(text, "numbers of a reason")
    for name, value in found.items():
        if value is not None and not isinstance(value, (int, float, str)):
            _require(False, f"number {name} of a reason", value)
    return found


def _require(holds: object, what: str, found: object) -> None:
    if not holds:
        raise ValueError(f"{what} cannot be {str(found)[:100]!r}")
