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
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from acetune.core.errors import GoalError, GoalWarning, StudyChangedError, StudyFileError
from acetune.core.goals import Constraint, Goals, goals_to_json
from acetune.policies import Policy
from acetune.study import _code_identity as identities
from acetune.study._code_identity import Identity, identity_of
from acetune.study._formats import CONFIDENCE
from acetune.study.findings import looks_of_earlier_checks
from acetune.study.limit_changes import OnChangedLimit as OnChangedLimit
from acetune.study.limit_changes import judge_again, only_limits_differ
from acetune.study.limit_changes import require_on_changed_limit as require_on_changed_limit
from acetune.study.reader import as_path
from acetune.study.store import Store, reading

_COUNTS_LOOKS = 4  # the first format of the study file that does
_MUST_STAY = ("objective", "constraints", "policy", "space")
_DIMENSIONS = {
    "float": ("uniform", "loguniform"),
    "integer": ("randint", "lograndint"),
    "choice": ("choice", "choice"),
}


OnChangedCheck: TypeAlias = Literal["refuse", "accept", "measure_again"]


class CodeChangedWarning(UserWarning):
    """A study goes on with other code than it began with, or with other data of a check.

    A check whose own code or options have changed is refused, see :func:`acetune.tune`.
    """


def require_on_changed_check(value: str, *, measure_again: bool = True) -> None:
    """Refuse what is no way to go on with a changed check."""
    if value not in get_args(OnChangedCheck):
        raise GoalError(
            "on_changed_check must be 'refuse', 'accept' or 'measure_again', got " + repr(value)
        )
    if value == "measure_again" and not measure_again:
        raise GoalError(
            "on_changed_check='measure_again' needs acetune.tune(), which has a place to measure "
            "kept models: here give 'accept', or begin a new study"
        )


def study_path(study: str | Path) -> Path:
    """The path of a study file, whatever the current folder becomes."""
    path = as_path(study).resolve()
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
    train: Callable[..., object] | None = None,
    confirm: Callable[..., object] | None = None,
    packages: Sequence[str] = ("acetune", "optuna", "numpy"),
    confidence: float = CONFIDENCE,
) -> dict[str, Any]:
    """The one row of the table ``study``."""
    objective, constraints = goals_to_json(goals, on_config)
    checks = {c.name: c.check for c in (*goals.constraints, *on_config) if c.check is not None}
    arrays: dict[int, tuple[object, str]] = {}  # several checks may share one: it is read once
    code: dict[str, Any] = {
        "checks": {name: identity_of(check, digests=arrays) for name, check in checks.items()}
    }
    if train is not None:  # its data may be anything, and measures nothing
        code["train"] = identity_of(train, with_data=False)
    if confirm is not None:
        code["confirm"] = identity_of(confirm, digests=arrays)
    functions = [*(() if train is None else (train,)), *checks.values()]
    return {
        "objective": objective,
        "constraints": constraints,
        "policy": json.dumps({"name": type(policy).__name__, **policy.options()}),
        "space": json.dumps(space),
        "settings": json.dumps(settings),
        "versions": json.dumps(installed_versions(tuple(packages))),
        "code_hash": _code_hash(*functions),
        "code": _code_to_json(code),
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
        if not callable(getattr(constraint.check, "require_limit", None)):  # it has looked itself
            _look_at_limit(constraint, low, high)
        ranges[constraint.name] = [end if math.isfinite(end) else None for end in (low, high)]
    return ranges


def _look_at_limit(constraint: Constraint, low: float, high: float) -> None:
    """A limit beyond what its check can give is in other units, most likely."""
    name, limit = f"constraint {constraint.name!r}", constraint.limit
    upper = constraint.lower is None
    between = f"lies between {low:g} and {high:g}, as its check says (value_range)"
    if (limit < low) if upper else (limit > high):
        raise GoalError(f"{name} {between}, so no model can keep {constraint.describe()}")
    if (limit > high) if upper else (limit < low):
        percent = f"; for {limit:g} % write {limit / 100:g}" if 1 < limit <= 100 else ""
        warnings.warn(
            f"{name} {between}, so {constraint.describe()} always holds{percent}",
            GoalWarning,
            stacklevel=4,  # the caller of tune()
        )


def open_study(
    path: Path,
    description: Mapping[str, Any],
    experiment: Path | None = None,
    on_changed_check: OnChangedCheck = "refuse",
    unmeasurable: str | None = None,
    on_changed_limit: OnChangedLimit | None = None,
) -> Store:
    """Make the file, or open the one that is there if it is of the same study.

    A study in which nothing was reported is started again if the call is another one now,
    and if all its trials have failed: they would count against the budget for nothing.
    ``experiment`` is the folder of the Ray experiment that keeps the models, if one does.
    ``unmeasurable`` says why kept models cannot be measured again, if they cannot.
    ``on_changed_limit`` is None where a study cannot go on under other limits.
    """
    if not path.exists():
        store = Store.create(path, description, experiment)
        store.notices.extend(_not_followed(description))
        return store
    anew = False

    def look(store: Store) -> None:
        nonlocal anew
        anew = _is_to_begin_anew(store, description, on_changed_limit)
        _require_whole_account(store)

    store = Store.open(path, experiment, look)
    try:
        if anew:
            with store.transaction():
                store.begin_anew(description)
            return store
        _require_confidence(store, description)
        with store.understanding():
            compared = _compare_code(store, description, on_changed_check, unmeasurable)
        for text in compared.warnings:
            warnings.warn(text, CodeChangedWarning, stacklevel=4)  # the caller of tune()
        limits = [_fixed(one, "constraints") for one in (store.study(), description)]
        with store.transaction():
            compared.write()
            if limits[0] != limits[1]:
                store.notices.append(judge_again(store, description, differing(*limits)))
            store.set_settings(description["settings"], description["constraints"])
    except BaseException:
        store.close()
        raise
    return store


def _code_to_json(code: Mapping[str, Any]) -> str:
    """Identities as the study file has them."""
    plain: dict[str, Any] = {
        what: found._asdict() for what, found in code.items() if isinstance(found, Identity)
    }
    plain["checks"] = {name: found._asdict() for name, found in code["checks"].items()}
    return json.dumps(plain)


def _not_followed(description: Mapping[str, Any]) -> list[str]:
    """What in a check will not be compared when the study goes on."""
    return [
        f"not compared when the study goes on, in the check of {name!r}: "
        + "; ".join(found["not_followed"])
        for name, found in json.loads(description["code"])["checks"].items()
        if found["not_followed"]
    ]


def _compare_code(
    store: Store,
    description: Mapping[str, Any],
    on_changed_check: OnChangedCheck,
    unmeasurable: str | None,
) -> _Compared:
    """Whether train, confirm and the checks are those of the file; an error if they may not be."""
    study = store.study()
    known, given = json.loads(study["code"]), json.loads(description["code"])
    if not known:
        warned = _compare_hashes(store, study, description)
        return _Compared(
            warned, lambda: store.set_code(description["code"], description["code_hash"])
        )
    now = {what: Identity(**found) for what, found in given.items() if what != "checks"}
    checks = {name: Identity(**found) for name, found in given["checks"].items()}
    constraints = json.loads(description["constraints"])
    on_config = {limit["name"] for limit in constraints if limit["on"] == "config"}
    measured = store.measured_constraints() | on_config
    changed: dict[str, list[str]] = {}
    data: list[str] = []
    for limit in constraints:
        name = limit["name"]
        old, new = known["checks"].get(name), checks.get(name)
        if name not in measured or (old is None and new is None):
            continue  # no value of the check is in the study
        if old is None or new is None:
            where = "report(constraints=...)", "Constraint(check=...)"
            before, after = where if old is None else where[::-1]
            changed[name] = [f"its check came with {before}, and comes with {after} now"]
            continue
        found = identities.changes(old, new)
        if found.code:
            changed[name] = found.code
        if found.data:
            data.append(f"{name}: {', '.join(found.data)}")
        for what in found.unknown:
            store.notices.append(
                f"nobody can tell whether the check of {name!r} is still the same: {what}"
            )
        if not found.code:
            checks[name] = identities.merged(old, new)
    lines = [f"{name}: {line}" for name, some in changed.items() for line in some]
    if changed and on_changed_check == "measure_again":
        if on_config & set(changed):
            unmeasurable = "it is a check of the configuration, which decides what is trained"
        if unmeasurable is not None:
            raise StudyChangedError(
                f"{_checks_of(changed)} cannot be measured again for {store.path}: {unmeasurable}; "
                "begin a new study, or go on all the same with on_changed_check='accept'"
            )
    if changed and on_changed_check == "refuse":
        raise StudyChangedError(_changed_check(store.path, changed, lines, unmeasurable))
    warned = _look_at_train(store, known.get("train"), now.get("train"))
    again = bool(changed) and on_changed_check == "measure_again"
    confirm = _look_at_confirm(store, known.get("confirm"), now.get("confirm"), again)
    if not warned and "train" in now and "train" in known:
        now["train"] = identities.merged(known["train"], now["train"])
    # a session without confirm does not make the next one a first
    if "confirm" not in now and "confirm" in known:
        now["confirm"] = Identity(**known["confirm"])
    if data:
        warned.append(
            f"data that a check uses has changed since {store.path} was begun ({'; '.join(data)}); "
            "values that were measured on the earlier data stay in the study, mixed with new ones"
        )

    def write() -> None:
        moment = time.time()
        if changed:
            ended = None if again else moment
            change = store.add_check_change(on_changed_check, lines, moment, ended)
            if again:
                store.set_checks_aside(change, moment)
        for how, what in (("data", data), ("confirm", confirm)):
            if what:
                store.add_check_change(how, what, moment, moment)
        store.set_code(_code_to_json({**now, "checks": checks}), description["code_hash"])

    return _Compared(warned, write)


class _Compared(NamedTuple):
    """What to warn of, and what to write once that was done."""

    warnings: list[str]
    write: Callable[[], None]


def _look_at_train(
    store: Store, known: Mapping[str, Any] | None, now: Identity | None
) -> list[str]:
    """What to warn of where the training function has changed."""
    found = None if known is None or now is None else identities.changes(known, now)
    if found is None or not found.code:
        return []
    return [
        f"the training function has changed since {store.path} was begun ({_few(found.code)}); its "
        "earlier trials are compared with the new ones all the same, and so are values of checks "
        "that it gives to report()"
    ]


def _look_at_confirm(
    store: Store, known: Mapping[str, Any] | None, now: Identity | None, again: bool
) -> list[str]:
    """Say where ``confirm`` has changed after fresh data was looked at; returns what has changed.

    It is not refused: one that went wrong has to be fixed. ``again``: a check has changed too, and
    all is measured again.
    """
    found = None if known is None or now is None else identities.changes(known, now)
    if found is None or not (found.code or found.data) or not store.looks():
        return []
    lines = [*found.code, *(f"its data has changed: {name}" for name in found.data)]
    stands = "stands"
    if again or looks_of_earlier_checks(store.looks(), store.rows("SELECT * FROM check_changes")):
        stands = "of the current check stands, what it said of an earlier one does not"
    store.notices.append(
        f"confirm has changed since fresh data was looked at ({_few(lines)}); what it said before "
        f"{stands}. Nothing that was looked at is measured again on the same rows"
    )
    return lines


def _compare_hashes(
    store: Store, study: Mapping[str, Any], description: Mapping[str, Any]
) -> list[str]:
    """A file of a version that has kept no more than one hash of the sources' text."""
    if study["code_hash"] == description["code_hash"]:
        return []
    return [
        f"the training function or a check has changed since {store.path} was begun; its earlier "
        "trials are compared with the new ones all the same"
    ]


def _few(lines: Sequence[str]) -> str:
    """The first lines, in one."""
    more = f", and {len(lines) - 3} more" if len(lines) > 3 else ""
    return ", ".join(lines[:3]) + more


def _checks_of(changed: Mapping[str, object]) -> str:
    names = ", ".join(map(repr, changed))
    return f"the check{'s' * (len(changed) > 1)} of {names}"


def require_fitting(
    path: Path,
    description: Mapping[str, Any],
    on_changed_check: OnChangedCheck,
    unmeasurable: str | None,
    on_changed_limit: OnChangedLimit | None,
) -> None:
    """The errors of :func:`open_study` about a call that fits no study file that is there."""
    if not path.exists():
        return
    with reading(path) as store:
        if not _is_to_begin_anew(store, description, on_changed_limit):
            _require_confidence(store, description)
            with store.understanding():
                _compare_code(store, description, on_changed_check, unmeasurable)


def _require_confidence(store: Store, description: Mapping[str, Any]) -> None:
    known = store.study()["confidence"]
    if known != description["confidence"]:
        raise StudyChangedError(
            f"confidence={description['confidence']:g} is not the one that {store.path} was begun "
            f"with, {known:g}: how the probability of an error is spent was fixed then; give "
            f"confidence={known:g}, or begin a new study with other fresh rows"
        )


def _changed_check(
    path: Path, changed: Mapping[str, object], lines: Sequence[str], unmeasurable: str | None
) -> str:
    """What differs in checks, and the ways out."""
    several = len(changed) > 1
    again = (
        "To measure the kept models again, and set all values of the earlier check aside:  "
        'on_changed_check="measure_again"\n'
    )
    if unmeasurable is not None:
        again = ""
    differences = "\n".join(f"  {line}" for line in lines)
    return (
        f"{_checks_of(changed)} in this call {'are' if several else 'is'} not the one"
        f"{'s' * several} that {path} was begun with, whose values would be mixed with the "
        f"new ones:\n{differences}\n"
        f"To begin a new study give another file, study=..., or delete this one:  rm -r {path}*\n"
        f"{again}"
        "To go on all the same, because it still measures the same:  "
        'on_changed_check="accept"\n'
        "(with acetune run and acetune resume: --on-changed-check)"
    )


def _is_to_begin_anew(
    store: Store, description: Mapping[str, Any], on_changed_limit: OnChangedLimit | None
) -> bool:
    """Whether a file holds nothing to go on with; an error if it is about another study."""
    with store.understanding():
        known = store.study()
        reports = store.rows("SELECT 1 FROM reports LIMIT 1")
        states = {row["state"] for row in store.rows("SELECT state FROM trials")}
    changed = [what for what in _MUST_STAY if _fixed(known, what) != _fixed(description, what)]
    # what has reported nothing is nothing to go on with: a mistake was made and is fixed now
    if not reports and (changed or ("failed" in states and states <= {"failed", "rejected"})):
        return True
    for what in changed:
        judged_again = what == "constraints" and on_changed_limit == "judge_again"
        if judged_again and only_limits_differ(_fixed(known, what), _fixed(description, what)):
            continue
        raise StudyChangedError(
            _changed(store.path, what, known[what], description[what], on_changed_limit)
        )
    return False


def _require_whole_account(store: Store) -> None:
    """An error where looks at fresh data are missing: what is left for others is not known."""
    with store.understanding():
        if store.rows("PRAGMA user_version")[0]["user_version"] < _COUNTS_LOOKS:
            return
        looks = [look["look"] for look in store.looks()]
        used = {row["look"] for row in store.rows("SELECT DISTINCT look FROM confirmations")}
    if looks != list(range(1, len(looks) + 1)) or not used.issubset(looks):
        raise StudyFileError(
            f"{store.path} is damaged: looks at fresh data are missing, so nobody knows what its "
            "certificates may still err with; begin a new study with other fresh rows"
        )


def _fixed(description: Mapping[str, Any], what: str) -> Any:
    """What must stay of a study: all but margins that acetune chooses, session by session."""
    if what != "constraints":
        return description[what]
    limits = json.loads(description[what])
    return [limit | {"margin_se": "auto"} if "auto_margin" in limit else limit for limit in limits]


_OTHER_LIMITS = (
    "To go on under these limits, with all that was measured judged again:  "
    'on_changed_limit="judge_again"\n'
    "(with acetune run: --on-changed-limit judge-again; with acetune resume: --limit NAME<=NUMBER)"
    "\n"
)
_NOT_HERE = "(a study of acetune.tune() can go on under other limits; one of a Tuner cannot)\n"


def _changed(
    path: Path, what: str, known: str, given: str, on_changed_limit: OnChangedLimit | None
) -> str:
    """What differs, and what to do instead."""
    limits = _other_limits(known, given) if what == "constraints" else ""
    look = ""
    if what == "constraints" and only_limits_differ(json.loads(known), json.loads(given)):
        look = _OTHER_LIMITS if on_changed_limit is not None else _NOT_HERE
    if limits:
        look += (
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
    >>> differing(old, [{**old[0], "exact": True}])
    ['gap: exact was False, now True']
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
    # limits are said already; what says nothing is left out of the file
    same = {"upper": None, "lower": None, "auto_margin": None}
    if "auto_margin" in old and "auto_margin" in new:  # acetune has chosen both
        same["margin_se"] = None
    plain = {"exact": False}
    return limit + _differing_values({**plain, **old, **same}, {**plain, **new, **same})


def _short(value: object) -> str:
    """A value, or a dimension as it was written."""
    if not isinstance(value, dict):
        return repr(value)
    if "space" in value:
        inside = ", ".join(f"{name!r}: {_short(one)}" for name, one in value["space"].items())
        return f"{{{inside}}}"
    for kind, names in _DIMENSIONS.items():
        if kind in value:
            inner = ", ".join(map(_short, value[kind]))
            step = f", step={value['step']!r}" if "step" in value else ""
            return f"{names[bool(value.get('log'))]}({inner}{step})"
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
