"""How far an answer can be trusted, in words: what fresh data said, or how near its limits are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from acetune.core.goals import Constraint, Goals
from acetune.core.words import number

if TYPE_CHECKING:
    from acetune.found import FoundCheckpoint
    from acetune.result import StudyResult

_NOTABLE = 0.01  # of the objective: what it may lose on fresh data without a word


def no_recommendation(result: StudyResult) -> str:
    """That fresh data spoke against all that was judged, and by how much against the best."""
    best = result.best
    assert best is not None and best.confirmation is not None  # its status is failed
    judged = sum(found.status == "failed" for found in result.candidates)
    who = "the candidate that was judged" if judged == 1 else f"all {judged} candidates"
    there = " and ".join(
        _against(best, limit, " there") for limit in _broken_on_fresh(result.goals, best)
    )
    had = "It" if judged == 1 else "The best"
    return f"no model can be recommended: {who} broke a limit on fresh data. {had} had {there}"


def after_failed_confirmation(result: StudyResult) -> str:
    """What to do when fresh data has spoken against what was found."""
    best = result.best
    assert best is not None
    wider = []
    for limit in _broken_on_fresh(result.goals, best):
        measured = best.constraints.get(limit.name)
        if measured is not None and measured.stderr:
            wider.append(f"margin_se={limit.margin_se + 1:g} for {limit.name}")
        else:  # a margin has no effect there
            wider.append(f"a stricter limit of {limit.name}")
    top = json.loads(result.info["settings"])["confirm_top"]
    return (
        f"keep away from the limit, in a new study: {', '.join(wider)}; or judge more candidates, "
        f"confirm_top={2 * top + 1} (now {top}); or check on more rows"
    )


def _broken_on_fresh(goals: Goals, found: FoundCheckpoint) -> list[Constraint]:
    """The constraints whose limit the values on fresh data break, without margin."""
    assert found.confirmation is not None
    values = found.confirmation.values
    return [
        c
        for c in goals.constraints
        if c.name in values and not c.without_margin().holds(values[c.name])
    ]


def _against(found: FoundCheckpoint, limit: Constraint, where: str = "") -> str:
    """A value on fresh data against its limit and against that of the search."""
    assert found.confirmation is not None
    chosen = found.constraints.get(limit.name)
    before = "" if chosen is None else f"; {number(chosen.value, 4)} where it was chosen"
    value = number(found.confirmation.values[limit.name].value, 4)
    return f"{limit.name} {value}{where} (limit {limit.sense} {number(limit.limit, 6)}{before})"


def trust(goals: Goals, found: FoundCheckpoint) -> str:
    """What can be said about the answer on data that the search never saw."""
    confirmation = found.confirmation
    if confirmation is None:
        distance = _distance(goals, found)
        return "unconfirmed: nothing was measured on fresh data (confirm=)" + distance
    if confirmation.error is not None:
        return f"unconfirmed, because confirm went wrong: {confirmation.error}"
    broken = [] if confirmation.status == "confirmed" else _broken_on_fresh(goals, found)
    parts = [_against(found, limit) for limit in broken]
    for name, measured in confirmation.values.items():
        if any(limit.name == name for limit in broken):
            continue
        interval = confirmation.interval(name)
        between = ""
        if interval is not None:
            cut = [end for end in interval if end in confirmation.ranges.get(name, ())]
            ends = f"; cut at {' and '.join(f'{end:g}' for end in cut)}" if cut else ""
            between = f" (95 %: {number(interval[0], 4)} to {number(interval[1], 4)}{ends})"
        parts.append(f"{name} {number(measured.value)}{between}")
    word = "broke a limit" if broken else "confirmed"
    near = [
        constraint.name
        for constraint in goals.constraints
        if (interval := confirmation.interval(constraint.name)) is not None
        and interval[0] <= constraint.limit <= interval[1]
    ]
    close = f"; the limit of {', '.join(near)} lies within its interval" if near else ""
    return f"{word} on fresh data: {', '.join(parts)}{close}" + (
        "" if broken else _expect(goals, found)
    )


def _expect(goals: Goals, found: FoundCheckpoint) -> str:
    """What became of the objective on fresh data, where that is less than was promised."""
    objective = goals.objective
    assert found.confirmation is not None
    fresh = found.confirmation.values.get(objective.name)
    if fresh is None:
        return f"; {objective.name} was not measured on fresh data"
    worse = objective.loss(fresh.value) - objective.loss(found.value)
    notable = 2 * fresh.stderr if fresh.stderr else _NOTABLE * abs(found.value)
    if worse <= notable:
        return ""
    side = "less" if objective.mode == "max" else "more"
    return (
        f"; expect {objective.name} about {number(fresh.value)}: {number(worse, 2)} {side} than "
        "where it was chosen"
    )


def trust_in_best(result: StudyResult) -> str:
    """What can be said about the answer, and how often the fresh data was used for it."""
    uses = result.confirmation_uses
    used = f"; the fresh data was used {uses} times" if uses > 1 else ""
    return "" if result.best is None else trust(result.goals, result.best) + used


def _distance(goals: Goals, found: FoundCheckpoint) -> str:
    """How far the values are from their limits, in standard errors where they have one."""
    words = []
    for constraint in goals.constraints:
        measured = found.constraints.get(constraint.name)
        if measured is None:
            continue
        room = abs(constraint.limit - measured.value)
        side = "below" if constraint.sense == "<=" else "above"
        if room == 0:
            words.append(f"{constraint.name} is at its limit")
        elif measured.stderr > 0:
            errors = room / measured.stderr
            words.append(f"{constraint.name} is {errors:.1f} standard errors {side} its limit")
        else:
            share = f" ({room / abs(constraint.limit):.0%})" if constraint.limit else ""
            words.append(f"{constraint.name} is {number(room, 2)} {side} its limit{share}")
    return "".join(f"; {word}" for word in words)
