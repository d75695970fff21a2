"""A study that goes on under other limits: what was measured is judged anew, and that is noted."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

from acetune.core.errors import GoalError
from acetune.core.formatting import count
from acetune.core.goals import Goals, goals_from_json
from acetune.core.observation import check_result
from acetune.study.store import Store
from acetune.study.table_rows import NewVerdict

OnChangedLimit: TypeAlias = Literal["refuse", "judge_again"]
_JUDGED_BY = ("upper", "lower", "margin_se", "auto_margin", "scale")  # what a check is held to
_LARGEST = 1e300  # as far beyond a limit as a trial of another study is said to lie

Limits: TypeAlias = Sequence[Mapping[str, Any]]  # constraints as the study file has them


def require_on_changed_limit(value: str) -> None:
    """Refuse what is no way to go on under other limits."""
    if value not in get_args(OnChangedLimit):
        raise GoalError(
            f"on_changed_limit must be 'refuse' or 'judge_again', got {value!r}; the limits "
            "themselves are those of constraints=[...]"
        )


def only_limits_differ(known: Limits, given: Limits) -> bool:
    """Whether these are the same constraints on models, on the same side of another limit.

    >>> old = {"name": "gap", "upper": 0.3, "margin_se": 0.0, "scale": None, "on": "model"}
    >>> only_limits_differ([old], [old | {"upper": 0.2}])
    True
    >>> only_limits_differ([old], [old | {"name": "other"}])
    False
    """
    return len(known) == len(given) and all(
        _kind(one) == _kind(other) and (one["on"] == "model" or one == other)
        for one, other in zip(known, given, strict=True)
    )


def _kind(limit: Mapping[str, Any]) -> dict[str, Any]:
    """What must stay of a constraint: its name, its side, what it is on and how it is compared."""
    kept = {what: value for what, value in limit.items() if what not in _JUDGED_BY}
    return kept | {"side": "upper" if "upper" in limit else "lower"}


def judge_again(store: Store, description: Mapping[str, Any], what: Sequence[str]) -> str:
    """Judge all reports of a study by the limits of a description; returns a notice.

    To be called in a transaction, before the study row has these limits. What was decided stays as
    it was decided.
    """
    goals = goals_from_json(description["objective"], description["constraints"])
    old = goals_from_json(description["objective"], store.study()["constraints"])
    with store.understanding():
        before = {row.seq: row.stratum for row, checks in store.reports() if checks}
        verdicts = list(_verdicts(store, goals))
        curves = list(_curves_beyond(store, old, goals))
    change = store.add_limit_change(what, time.time())
    store.judge_again(change, verdicts, {limit.name: limit.margin for limit in goals.constraints})
    if curves:
        store.put_earlier_checks(curves)
    changed = sum(before[verdict.seq] != verdict.stratum for verdict in verdicts)
    return (
        f"{'; '.join(what)}: {count(len(verdicts), 'checked report')} judged again, of which "
        f"{changed} came out otherwise"
    )


def _verdicts(store: Store, goals: Goals) -> Iterator[NewVerdict]:
    """What all reports with a check come to."""
    known = store.checked_before()
    for row, checks in store.reports():
        if not checks:
            continue
        step, value = row.checked_step, row.checked_objective
        if step is None:
            step, value = known[row.seq]
        loss = goals.objective.loss(math.nan if value is None else value)
        measured = {check.constraint: check.measurement for check in checks}
        if len(measured) < len(goals.constraints) and not goals.violated(measured):
            # the rest was left out because a limit was broken that holds now: nobody knows
            yield NewVerdict(None, None, None, "unchecked", row.seq)
            continue
        found = check_result(goals, step, loss, measured)
        yield NewVerdict(step, value, found.measured_violation, found.stratum, row.seq)


def _curves_beyond(store: Store, old: Goals, new: Goals) -> Iterator[tuple[str, int]]:
    """How far beyond the new limits the trials of earlier studies lie that this one learns from."""
    if not store.earlier_studies():
        return
    units = [
        (was.scale or abs(was.limit) or 1.0, now.scale or abs(now.limit) or 1.0)
        for was, now in zip(old.constraints, new.constraints, strict=True)
    ]
    moved = [
        (now.limit - was.limit) * (1.0 if was.lower is None else -1.0)
        for was, now in zip(old.constraints, new.constraints, strict=True)
    ]
    for place, written in store.earlier_checks_by_place():
        checks = []
        for step, beyond in json.loads(written):
            excess = [
                None if e is None else min((e * was - by) / now, _LARGEST)
                for e, (was, now), by in zip(beyond, units, moved, strict=True)
            ]
            if None not in excess or any(e is not None and e > 0 for e in excess):
                checks.append([step, excess])
        yield json.dumps(checks), place


def limits_at(
    changes: Sequence[Mapping[str, Any]], now: Limits, what: Literal["seq", "look"], number: int
) -> Limits:
    """The limits in force when a report was decided on, or when a look at fresh data was planned.

    >>> changes = [{"seq": 4, "look": 1, "earlier": [{"name": "gap", "upper": 0.3}]}]
    >>> limits_at(changes, [{"name": "gap", "upper": 0.2}], "seq", 4)
    [{'name': 'gap', 'upper': 0.3}]
    >>> limits_at(changes, [{"name": "gap", "upper": 0.2}], "seq", 5)
    [{'name': 'gap', 'upper': 0.2}]
    """
    found: Iterable[Limits] = (c["earlier"] for c in changes if c[what] >= number)
    return next(iter(found), now)
