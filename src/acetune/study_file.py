"""Opening the file of a study: what it is about, made new or found to be the same."""

from __future__ import annotations

import hashlib
import inspect
import json
import keyword
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from acetune.core.errors import GoalError, StudyChangedError
from acetune.core.goals import Constraint, Goals
from acetune.policies import Policy
from acetune.queries import goals_to_json
from acetune.store import Store
from acetune.versions import installed_versions


class CodeChangedWarning(UserWarning):
    """A study goes on with a training function that differs from the one it began with."""


def study_path(study: str | Path) -> Path:
    """The path of a study file, whatever the current folder becomes."""
    path = Path(study).resolve()
    if path.is_dir():
        raise GoalError(
            f"study must be a file, and {str(path)!r} is a folder; give for example "
            f"{str(path / 'study.db')!r}"
        )
    return path


def describe_study(
    goals: Goals,
    on_config: Sequence[Constraint],
    policy: Policy,
    space: Mapping[str, Any],
    settings: Mapping[str, Any],
    code: Sequence[Callable[..., object]] = (),
    packages: Sequence[str] = ("acetune", "optuna", "numpy"),
) -> dict[str, Any]:
    """The one row of the table ``study``. ``code`` is the user's, besides the checks."""
    objective, constraints = goals_to_json(goals, on_config)
    checks = [c.check for c in (*goals.constraints, *on_config) if c.check is not None]
    return {
        "objective": objective,
        "constraints": constraints,
        "policy": json.dumps({"name": type(policy).__name__, **policy.options()}),
        "space": json.dumps(space),
        "settings": json.dumps(settings),
        "versions": json.dumps(installed_versions(tuple(packages))),
        "code_hash": _code_hash(*code, *checks),
        "created": time.time(),
    }


def known_ranges(goals: Goals) -> dict[str, list[float | None]]:
    """What constraints can be at the least and at the most, where their checks know it.

    None is an open end, for the file: JSON has no infinity.
    """
    ranges = {}
    for constraint in goals.constraints:
        known = getattr(constraint.check, "value_range", None)
        if known is None:
            continue
        try:
            low, high = map(float, known)
        except (TypeError, ValueError):
            low = high = math.nan
        if not low < high:
            raise GoalError(
                f"constraint {constraint.name!r}: value_range of its check must be the least and "
                f"the largest possible value, such as (0.0, 1.0), got {known!r}"
            )
        ranges[constraint.name] = [end if math.isfinite(end) else None for end in (low, high)]
    return ranges


def open_study(path: Path, description: Mapping[str, Any]) -> Store:
    """Make the file, or open the one that is there if it is of the same study."""
    if not path.exists():
        return Store.create(path, description)
    store = Store.open(path)
    try:
        with store.understanding():
            known = store.study()
        for what in ("objective", "constraints", "policy", "space"):
            if known[what] != description[what]:
                raise StudyChangedError(_changed(path, what, known[what], description[what]))
        if known["code_hash"] != description["code_hash"]:
            warnings.warn(
                f"the training function or a check has changed since {path} was begun; its earlier "
                "trials are compared with the new ones all the same",
                CodeChangedWarning,
                stacklevel=3,  # the caller of tune()
            )
        with store.transaction():
            store.set_settings(description["settings"], description["code_hash"])
    except BaseException:
        store.close()
        raise
    return store


def _changed(path: Path, what: str, known: str, given: str) -> str:
    """What differs, and what to do instead."""
    limits = _other_limits(known, given) if what == "constraints" else ""
    look = ""
    if limits:
        look = (
            "To see the best under other limits, without training:  "
            f"acetune.load({str(path)!r}).what_if({limits})\n"
        )
    verb = "are" if what == "constraints" else "is"
    return (
        f"the {what} of this call {verb} not the one{'s' * (verb == 'are')} that {path} was begun "
        f"with, and must be for a study to go on.\nin the file: {known}\nin this call: {given}\n"
        f"{look}To begin a new study give another file, study=..., or delete this one:  "
        f"rm -r {path}*"
    )


def _other_limits(known: str, given: str) -> str:
    """The limits that differ, as ``what_if`` takes them, if nothing else does."""
    before, now = json.loads(known), json.loads(given)
    limits: dict[str, float] = {}
    if len(before) != len(now):
        return ""
    for old, new in zip(before, now, strict=True):
        side = "upper" if "upper" in old else "lower"
        if old["on"] != "model" or side not in new or old != new | {side: old[side]}:
            return ""
        if old[side] != new[side]:
            limits[old["name"]] = new[side]
    # a name that is no word of Python's goes in as a dict
    if all(name.isidentifier() and not keyword.iskeyword(name) for name in limits):
        return ", ".join(f"{name}={limit!r}" for name, limit in limits.items())
    return f"**{limits}"


def _code_hash(*functions: Callable[..., object]) -> str:
    """A hash of the functions' source, or of their byte code where there is none."""
    found = hashlib.sha256()
    for function in functions:
        try:
            text = inspect.getsource(function)
        except (OSError, TypeError):
            code = getattr(function, "__code__", None)
            text = repr((code.co_code, code.co_names)) if code is not None else repr(type(function))
        found.update(text.encode())
    return found.hexdigest()[:16]
