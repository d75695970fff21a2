"""How far an answer can be trusted, in words: what fresh data said, or how near its limits are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from acetune.core.formatting import count, number
from acetune.core.goals import Constraint, Goals
from acetune.study.findings import FoundCheckpoint, broken_on_fresh

if TYPE_CHECKING:
    from acetune.study.result import StudyResult

_NOTABLE = 0.01  # of the objective: what it may lose on fresh data without a word


def no_recommendation(result: StudyResult) -> str:
    """That fresh data rejected all that was judged, and by how much the best of them."""
    best = _rejected(result)
    judged = sum(found.status == "failed" for found in result.candidates)
    who = "the candidate" if judged == 1 else f"all {judged} candidates"
    there = " and ".join(_against(best, limit, " there") for limit in _broken(result.goals, best))
    had = "It" if judged == 1 else "The best"
    return (
        f"no model can be recommended: {who} that {'was' if judged == 1 else 'were'} judged broke "
        f"a limit on fresh data. {had} had {there}"
    )


def after_failed_confirmation(result: StudyResult) -> str:
    """What to do when fresh data has rejected what was found."""
    best = _rejected(result)
    wider = []
    for limit in _broken(result.goals, best):
        measured = best.constraints.get(limit.name)
        if measured is not None and measured.stderr:
            wider.append(f"margin_se={limit.margin + 1:g} for {limit.name}")
        else:  # a margin has no effect there
            wider.append(f"a stricter limit of {limit.name}")
    top = json.loads(result.info["settings"])["confirm_top"]
    # only of the best few is a model there to be judged
    waiting = [
        found
        for found in result.candidates
        if found.status == "unconfirmed" and found.checkpoint is not None
    ]
    here = ""
    if waiting:
        trials = list(dict.fromkeys(found.trial for found in result.candidates))
        enough = max(top, trials.index(waiting[-1].trial) + 1)
        here = (
            f"{count(len(waiting), 'candidate')} with a kept model {_are(len(waiting))} not judged "
            f"yet: the same call with confirm= and confirm_top={enough} (now {top}) does it; or "
        )
    return (
        f"{here}keep away from the limit, in a new study: {', '.join(wider)}; or judge more "
        f"candidates there, confirm_top={2 * top + 1} (now {top}); or check on more rows"
    )


def _are(many: int) -> str:
    return "is" if many == 1 else "are"


def _rejected(result: StudyResult) -> FoundCheckpoint:
    found = result.rejected
    assert found is not None  # nobody asks where the outcome is another
    return found


def _broken(goals: Goals, found: FoundCheckpoint) -> list[Constraint]:
    """The constraints whose limit a checkpoint breaks on fresh data."""
    assert found.confirmation is not None
    return broken_on_fresh(goals, found.confirmation.values)


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
    if confirmation.error is not None and confirmation.status != "failed":
        return f"unconfirmed, because confirm went wrong: {confirmation.error}"
    broken = [] if confirmation.status == "confirmed" else _broken(goals, found)
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
    """What can be said about the answer, and how often the fresh data was used for it.

    Where there is none because fresh data rejected it: about the best that was rejected.
    """
    uses = result.confirmation_uses
    used = f"; the fresh data was used {uses} times" if uses > 1 else ""
    found = result.best or result.rejected
    return "" if found is None else trust(result.goals, found) + used


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
