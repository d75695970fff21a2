"""Opening the file of a study: what it is about, made new or found to be the same."""

from __future__ import annotations

import hashlib
import inspect
import json
import keyword
import math
import platform
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from acetune.core.errors import GoalError, StudyChangedError
from acetune.core.goals import Constraint, Goals, goals_to_json
from acetune.policies import Policy
from acetune.study._formats import CONFIDENCE
from acetune.study.store import Store

_MUST_STAY = ("objective", "constraints", "policy", "space")
_DIMENSIONS = {
    "float": ("uniform", "loguniform"),
    "integer": ("randint", "lograndint"),
    "choice": ("choice", "choice"),
}


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
    confidence: float = CONFIDENCE,
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
        "confidence": confidence,
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


def open_study(path: Path, description: Mapping[str, Any], experiment: Path | None = None) -> Store:
    """Make the file, or open the one that is there if it is of the same study.

    A study in which nothing was reported is begun anew if the call is another one now, and if all
    its trials have failed: they would count against the budget for nothing. ``experiment`` is the
    folder of the Ray experiment that keeps the models, if one does.
    """
    if not path.exists():
        return Store.create(path, description, experiment)
    anew = False

    def look(store: Store) -> None:
        nonlocal anew
        anew = _is_to_begin_anew(store, description)

    store = Store.open(path, experiment, look)
    try:
        if anew:
            with store.transaction():
                store.begin_anew(description)
            return store
        known = store.study()["confidence"]
        if known != description["confidence"]:
            raise StudyChangedError(
                f"confidence={description['confidence']:g} is not the one that {path} was begun "
                f"with, {known:g}: how the probability of an error is spent was fixed then; give "
                f"confidence={known:g}, or begin a new study with other fresh rows"
            )
        if store.study()["code_hash"] != description["code_hash"]:
            warnings.warn(
                f"the training function or a check has changed since {path} was begun; its earlier "
                "trials are compared with the new ones all the same",
                CodeChangedWarning,
                stacklevel=4,  # the caller of tune()
            )
        with store.transaction():
            store.set_settings(*(description[n] for n in ("settings", "code_hash", "constraints")))
    except BaseException:
        store.close()
        raise
    return store


def _is_to_begin_anew(store: Store, description: Mapping[str, Any]) -> bool:
    """Whether a file holds nothing to go on with; an error if it is about another study."""
    with store.understanding():
        known = store.study()
        reports = store.rows("SELECT 1 FROM reports LIMIT 1")
        states = {row["state"] for row in store.rows("SELECT state FROM trials")}
    changed = [what for what in _MUST_STAY if _fixed(known, what) != _fixed(description, what)]
    # what has reported nothing is nothing to go on with: a mistake was made and is mended now
    if not reports and (changed or ("failed" in states and states <= {"failed", "rejected"})):
        return True
    for what in changed:
        raise StudyChangedError(_changed(store.path, what, known[what], description[what]))
    return False


def _fixed(description: Mapping[str, Any], what: str) -> Any:
    """What must stay of a study: all but margins that acetune chooses, session by session."""
    if what != "constraints":
        return description[what]
    limits = json.loads(description[what])
    return [limit | {"margin_se": "auto"} if "auto_margin" in limit else limit for limit in limits]


def _changed(path: Path, what: str, known: str, given: str) -> str:
    """What differs, and what to do instead."""
    limits = _other_limits(known, given) if what == "constraints" else ""
    look = ""
    if limits:
        look = (
            "To see the best under other limits, without training:  "
            f"acetune.load({str(path)!r}).what_if({limits})\n"
        )
    if what == "policy":
        # a default may have changed since the study was begun
        begun = json.loads(known)
        options = ", ".join(f"{name}={value!r}" for name, value in begun.items() if name != "name")
        look = f"To go on with this one:  policy={begun['name']}({options})\n"
    verb = "are" if what == "constraints" else "is"
    differences = "\n".join(f"  {line}" for line in differing(json.loads(known), json.loads(given)))
    return (
        f"the {what} of this call {verb} not the one{'s' * (verb == 'are')} that {path} was begun "
        f"with, and must be for a study to go on:\n{differences}\n"
        f"{look}To begin a new study give another file, study=..., or delete this one:  "
        f"rm -r {path}*"
    )


def differing(known: Any, given: Any) -> list[str]:
    """What differs between two descriptions, a line each, named.

    >>> old = [{"name": "gap", "upper": 0.3, "margin_se": 0.0}]
    >>> differing(old, [{"name": "gap", "upper": 0.2, "margin_se": 0.0}])
    ['gap: limit was <= 0.3, now <= 0.2']
    >>> differing({"name": "auc", "mode": "max"}, {"name": "auc", "mode": "min"})
    ["mode was 'max', now 'min'"]
    """
    if isinstance(known, list):  # constraints
        old, new = ({one["name"]: one for one in some} for some in (known, given))
        both = [(name, old[name], new[name]) for name in old if name in new]
        lines = [f"{name}: {line}" for name, *two in both for line in _differing_limit(*two)]
    else:
        old, new = known, given
        lines = _differing_values(old, new)
    lines += [f"{name} is gone" for name in old if name not in new]
    lines += [f"{name} is new" for name in new if name not in old]
    return lines or [f"the order was {', '.join(old)}, now {', '.join(new)}"]


def _differing_values(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    return [
        f"{name} was {_short(old[name])}, now {_short(new[name])}"
        for name in old
        if name in new and old[name] != new[name]
    ]


def _differing_limit(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    was, now = (f"<= {c['upper']!r}" if "upper" in c else f">= {c['lower']!r}" for c in (old, new))
    limit = [f"limit was {was}, now {now}"] if was != now else []
    sides = {"upper": None, "lower": None}  # said already
    return limit + _differing_values({**old, **sides}, {**new, **sides})


def _short(value: object) -> str:
    """A value, or a dimension as it was written."""
    if isinstance(value, dict):
        for kind, names in _DIMENSIONS.items():
            if kind in value:
                inner = ", ".join(map(repr, value[kind]))
                return f"{names[bool(value.get('log'))]}({inner})"
    return repr(value)


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


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """Of Python and of those packages that are installed."""
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
