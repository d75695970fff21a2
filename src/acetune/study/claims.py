"""How far an answer can be trusted, in words: what fresh data said, or how near its limits are."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from acetune.core.formatting import count, number
from acetune.core.goals import Constraint, Goals
from acetune.study.findings import RAY_TUNE, Bound, Confirmation, FoundCheckpoint, broken_on_fresh
from acetune.study.temporary import same_call

if TYPE_CHECKING:
    from acetune.study.result import StudyResult

OF_EARLIER_CHECK = "what fresh data said was about a check that was changed since"
_NOTABLE = 0.01  # of the objective: what it may lose on fresh data without a word


def no_recommendation(result: StudyResult) -> str:
    """That fresh data rejected all that was judged, and by how much the best of them."""
    best = _rejected(result)
    judged = sum(found.status == "broken" for found in result.candidates)
    who = "the candidate" if judged == 1 else f"all {judged} candidates"
    there = " and ".join(_against(best, limit, " there") for limit in _broken(result.goals, best))
    had = "It" if judged == 1 else f"The one with the best {result.goals.objective.name}"
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
            wider.append(f"margin_se={limit.margin + 1:.3g} for {limit.name}")
        else:  # a margin has no effect there
            wider.append(f"a stricter limit of {limit.name}")
    top = json.loads(result.info["settings"])["confirm_top"]
    return (
        "make sure that the fresh rows are of the same kind as those of the search. Then begin a "
        f"new study that keeps farther from the limit ({', '.join(wider)}) and tests more "
        f"candidates (confirm_top={2 * top + 1}, now {top}). Give it new fresh rows: another try "
        "on the same ones is worth little"
    )


def towards_a_certificate(result: StudyResult) -> str | None:
    """What to do next where fresh data was asked and gave no certificate; None: nothing to say."""
    best = result.best
    if best is None or best.status == "certified":
        return None
    if best.status == "unconfirmed":
        if best.confirmation is not None and best.confirmation.of_earlier_check:
            return (
                "measure it on fresh rows by the check of now: confirm=..., with other rows, named "
                "by confirm_data=..., since a look has tested it on these"
            )
        if _confirm_error(result, best) is not None:
            return f"fix confirm and make {same_call(result.study)} again"
        return _measure_it_on_fresh_rows(result, best)
    return f"promise no limit yet; {_what_it_takes(result, best)}{_safer(result, best)}"


def _measure_it_on_fresh_rows(result: StudyResult, best: FoundCheckpoint) -> str | None:
    """Where nobody has looked at fresh data; None: there is nothing to look for, or no way."""
    if not result.goals.constraints or result.ended is None or result.interrupted:
        return None  # its confirm may be yet to come
    if json.loads(result.info["settings"]).get("engine") == RAY_TUNE:
        return None  # only tune() asks confirm
    if best.checkpoint is None and result.limit_changes:
        return (
            "only a model that was kept can be tested, and this one was not, as it broke the limit "
            "then: train its parameters again, or go on with more trials and give confirm=..., "
            "with rows that the search has not used"
        )
    if best.checkpoint is None:
        return (
            "only a model that was kept can be tested: report models (trial.report(model=...)) and "
            "give confirm=..., with rows that the search has not used"
        )
    return (
        f"make {same_call(result.study)} and confirm=..., on rows that the search has not used: it "
        "goes on from here and tests what it found. acetune plan says how many rows that takes"
    )


def _what_it_takes(result: StudyResult, best: FoundCheckpoint) -> str:
    """What a certificate of a model that holds is still missing."""
    failed = [(name, bound) for name, bound in _bounds(best).items() if not bound.passes]
    refused = [(name, bound.refused) for name, bound in failed if bound.refused is not None]
    if refused:  # no number of rows would do
        return "; ".join(f"{name} cannot be certified: {why}" for name, why in refused)
    if failed and all(bound.unit == "calls" for _, bound in failed):
        names = ", ".join(name for name, _ in failed)
        return (
            f"a certificate of {names} takes more timed calls (repeats= of the check in confirm), "
            "as another look with a new name in confirm_data=..., or a faster model"
        )
    return (
        "a certificate takes more fresh rows that nobody has used, named by confirm_data=..., or a "
        "model that keeps farther from the limit"
    )


def _bounds(found: FoundCheckpoint) -> Mapping[str, Bound]:
    return {} if found.confirmation is None else found.confirmation.bounds


def _confirm_error(result: StudyResult, found: FoundCheckpoint) -> str | None:
    """Why confirm said nothing of a checkpoint: also where it went wrong before it came to it."""
    return result.confirm_error if found.confirmation is None else found.confirmation.error


def _safer(result: StudyResult, best: FoundCheckpoint) -> str:
    """That another candidate would need fewer fresh rows than the answer, if one would."""
    failed = _least_sure(best)
    if failed is None:
        return ""
    fewest, safest = math.inf if failed.more_rows is None else failed.more_rows, None
    for found in result.candidates:
        other = _least_sure(found) if found.status == "holds" else None
        if other is not None and other.more_rows is not None and other.more_rows < fewest:
            fewest, safest, failed = other.more_rows, found, other
    if safest is None:
        return ""
    name = result.goals.objective.name
    return (
        f", such as trial {safest.trial} step {safest.step} ({name} {number(safest.value)} where "
        f"it was chosen), which would probably need fewer: {_more_rows(failed)}"
    )


def _least_sure(found: FoundCheckpoint) -> Bound | None:
    """The bound in the way of a certificate that takes most rows; None: none is, or rows do not."""
    failed = [bound for bound in _bounds(found).values() if not bound.passes]
    if any(bound.refused is not None for bound in failed):
        return None
    return max(failed, key=lambda b: b.more_rows or math.inf, default=None)


def claim(result: StudyResult) -> str:
    """What may be said about the answer, to people who do not know how it was found."""
    limits = ", ".join(f"{c.name} {c.sense} {number(c.limit, 6)}" for c in result.goals.constraints)
    if not limits:
        return "nothing was to be kept: the study has no limits on models"
    errs = percent(1 - result.confidence)
    confirmation = None if result.best is None else result.best.confirmation
    nearly = "approximately " if confirmation is not None and confirmation.approximate else ""
    said = {
        "certified": f"this model is certified to keep {limits} on data like the fresh rows. That "
        "means: the probability that a study issues a certificate for a model that breaks a limit, "
        f"on the population that the fresh rows were drawn from, is at most {nearly}{errs}. It "
        "says nothing about data of another kind, such as other customers or a later year",
        "holds": f"this model kept {limits} on the fresh rows. Do not say that it keeps the limit "
        "on other data: these rows do not show enough for that, and it may have been lucky",
        "unconfirmed": f"this model kept {limits} on the data that it was chosen by, where a "
        "chosen model usually looks better than it is. Do not promise it for other data before it "
        "was measured on fresh rows",
        "broken": f"nothing: no model of this study may be said to keep {limits}",
    }
    return said[result.status or "unconfirmed"]


def account_words(result: StudyResult) -> str:
    """How often fresh data was looked at, and what is left for other looks."""
    account = result.account
    looks = count(account.looks, "look")
    if result.looks[-1]["ended"] is None:
        return (
            f"{looks} at fresh data, the last one not finished: {same_call(result.study)} and the "
            "same rows goes on with it; other rows count as another look, which is stricter"
        )
    return (
        f"{looks} at fresh data. A study may issue a wrong certificate with a probability of at "
        f"most {percent(1 - account.confidence)}, and each look uses up a part: "
        f"{percent(account.spent)} so far; another look would be stricter "
        f"({percent(account.next_level)})"
    )


def percent(share: float) -> str:
    """A probability as people read it.

    >>> percent(0.05), percent(0.0375), percent(0.0076)
    ('5 %', '3.75 %', '0.76 %')
    """
    return f"{number(100 * share, 3)} %"


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
    if confirmation.of_earlier_check:
        return f"unconfirmed: {OF_EARLIER_CHECK}{_distance(goals, found)}"
    if confirmation.error is not None and confirmation.status != "broken":
        return _went_wrong(confirmation.error)
    broken = _broken(goals, found) if confirmation.status == "broken" else []
    parts = [_against(found, limit) for limit in broken]
    senses = {limit.name: limit for limit in goals.constraints}
    for name, measured in confirmation.values.items():
        if any(limit.name == name for limit in broken):
            continue
        shown = _interval(confirmation, name)
        if name in senses and confirmation.status == "certified":
            shown = _bounded(senses[name], confirmation.bounds[name])
        parts.append(f"{name} {number(measured.value)}{shown}")
    values = ", ".join(parts)
    if broken:
        return f"broke a limit on fresh data: {values}"
    if confirmation.status == "certified":
        return f"certified on fresh data: {values}{_expect(goals, found)}"
    why = "".join(f"; {text}" for text in _not_certified(goals, confirmation))
    return f"holds on fresh data, not certified: {values}{why}{_expect(goals, found)}"


def _interval(confirmation: Confirmation, name: str) -> str:
    interval = confirmation.interval(name)
    if interval is None:
        return ""
    cut = [end for end in interval if end in confirmation.ranges.get(name, ())]
    ends = f"; cut at {' and '.join(f'{end:g}' for end in cut)}" if cut else ""
    return f" (95 %: {number(interval[0], 4)} to {number(interval[1], 4)}{ends})"


def _bounded(limit: Constraint, bound: Bound) -> str:
    """The limit, how far it could be moved in the test, and by which method."""
    near = number(limit.limit, 6)
    strictest = ""
    if bound.rows is not None:
        strictest = f"; {bound.rows:,} {bound.unit}"
    if bound.value is not None:
        strictest += f"; a limit of {number(bound.value, 4)} would have passed too"
    about = ", approximate" if bound.approximate else ""
    return f" (limit {limit.sense} {near}{strictest}; {bound.how}{about})"


def _not_certified(goals: Goals, confirmation: Confirmation) -> list[str]:
    """Why no certificate was issued, a sentence for each constraint that is in its way."""
    said = []
    for limit in goals.constraints:
        bound = confirmation.bounds.get(limit.name)
        if bound is None or bound.passes:
            continue
        if bound.refused is not None:
            said.append(f"{limit.name} cannot be certified: {bound.refused}")
            continue
        reach = "values beyond its limit" if bound.value is None else number(bound.value, 4)
        said.append(f"these {bound.unit} cannot rule out {limit.name} {reach}{_rows_needed(bound)}")
    if not said and confirmation.bounds:
        said.append("a safer candidate was not certified, and the test ends with the first")
    return said


def _rows_needed(bound: Bound) -> str:
    """How many rows would probably do."""
    if bound.more_rows is None:
        return ", and more would hardly help: it lies too near its limit"
    return f"; {_more_rows(bound)} would probably be enough"


def _more_rows(bound: Bound) -> str:
    """A number of rows, against those that there were."""
    assert bound.more_rows is not None
    if bound.rows is None:
        return f"about {number(bound.more_rows, 2)} times as many"
    rows = math.ceil(bound.rows * bound.more_rows)
    coarse = 10 ** max(0, len(str(rows)) - 2)
    rows = math.ceil(rows / coarse) * coarse
    return f"about {rows:,} in place of the {bound.rows:,} that counted"


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
    """What can be said about the answer.

    Where there is none because fresh data rejected it: about the best that was rejected.
    """
    found = result.best or result.rejected
    if found is None:
        return ""
    if found.confirmation is None and result.confirm_error is not None:
        return _went_wrong(result.confirm_error)
    return trust(result.goals, found)


def _went_wrong(error: str) -> str:
    return f"unconfirmed, because confirm went wrong: {error}"


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
