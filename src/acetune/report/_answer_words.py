"""The answer in a few plain sentences: what to use, whether it holds, what the limits cost."""

from __future__ import annotations

import math

from acetune.core.goals import Constraint, Goals
from acetune.core.words import count, number
from acetune.study.findings import FoundCheckpoint
from acetune.study.result import StudyResult
from acetune.study.summary import describe_checkpoint, nothing_feasible
from acetune.study.trust import no_recommendation


def words_of_answer(
    result: StudyResult,
    of_all: tuple[FoundCheckpoint, str] | None,
    missing: int,
    *,
    running: bool = False,
) -> str:
    """The answer in words.

    ``of_all`` is the best objective that was reported, with its stratum, and ``missing`` how many
    checkpoints are better than the answer and were never checked.
    """
    best = result.best
    if result.rejected is not None:
        return sentence(no_recommendation(result))
    if best is None:
        return _nothing(result, running)
    parts = [_use(result.goals, best, running), _limits(result.goals, best, running)]
    if result.goals.constraints and of_all is not None:
        parts.append(_cost_of_limits(result, best, *of_all))
        if missing:
            parts.append(
                f"{count(missing, 'better checkpoint')} {'was' if missing == 1 else 'were'} "
                "never checked."
            )
    return " ".join(filter(None, parts))


def _nothing(result: StudyResult, running: bool) -> str:
    if not result.ledger.reports:
        return "Nothing has been reported yet." if running else "Nothing was reported."
    why = nothing_feasible(result)
    text = sentence(why)
    if result.nearest_miss is not None and "nearest" not in why:
        text += f" Nearest came {describe_checkpoint(result.goals, result.nearest_miss)}."
    return text


def _use(goals: Goals, best: FoundCheckpoint, running: bool) -> str:
    """Which checkpoint, and what to expect of it."""
    name, value = goals.objective.name, number(best.value)
    fresh = None if best.confirmation is None else best.confirmation.values.get(name)
    if fresh is not None:
        value = f"{number(fresh.value)} on fresh data ({value} where it was chosen)"
    of = "" if best.total_steps in (None, best.step) else f" of {best.total_steps}"
    use = "The best so far is" if running else "Use"
    return f"{use} trial {best.trial} at step {best.step}{of}: {name} {value}."


def _limits(goals: Goals, best: FoundCheckpoint, running: bool) -> str:
    """What its constraints are, and where they hold."""
    held = [
        f"{limit.name} {number(best.constraints[limit.name].value, 4)} (limit {_limit(limit)})"
        for limit in goals.constraints
        if limit.name in best.constraints
    ]
    if not held:
        return ""
    holds = "hold" if len(held) > 1 else "holds"
    where = "" if running else " in the search; nothing was measured on fresh data"
    if best.status == "confirmed":
        where = ", also on fresh data"
    listed = " and ".join(filter(None, [", ".join(held[:-1]), held[-1]]))
    return f"{listed} {holds}{where}."


def _cost_of_limits(
    result: StudyResult, best: FoundCheckpoint, other: FoundCheckpoint, stratum: str
) -> str:
    """What the best of all has that the answer lacks, and why it is not the answer."""
    goals, name = result.goals, result.goals.objective.name
    if _place(other) == _place(best) or other.value == best.value:
        return f"No other that was reported has a better {name}."
    gap = goals.objective.loss(best.value) - goals.objective.loss(other.value)
    if not (gap > 0 and math.isfinite(gap)):
        return ""
    which = f"the best of all, {name} {number(other.value)} (trial {other.trial}, "
    which += f"step {other.step}),"
    if stratum == "invalid":
        broken = [_beyond(limit, other) for limit in goals.constraints if _is_broken(limit, other)]
        why = f"breaks {' and '.join(broken)}" if broken else "failed a check"
        return f"The limits cost {number(gap, 2)} {name}: {which} {why}."
    if stratum == "unchecked":
        return sentence(f"{which} was never checked")
    failed = {_place(found) for found in result.candidates if found.status == "failed"}
    why = "broke a limit on fresh data" if _place(other) in failed else "qualifies too"
    return sentence(f"{which} {why}")


def _is_broken(limit: Constraint, found: FoundCheckpoint) -> bool:
    measured = found.constraints.get(limit.name)
    return measured is not None and not limit.holds(measured)


def _beyond(limit: Constraint, found: FoundCheckpoint) -> str:
    """The constraint that is broken, and by how much."""
    measured = found.constraints[limit.name]
    margin = included = ""
    if limit.without_margin().holds(measured):
        margin = " with its margin"
    elif limit.margin_se and measured.stderr:
        included = " with its margin"
    return (
        f"{limit.name} ({number(measured.value, 4)}{margin}, "
        f"{number(limit.excess(measured), 2)} beyond its limit{included})"
    )


def _limit(limit: Constraint) -> str:
    return f"{'≤' if limit.lower is None else '≥'} {number(limit.limit, 6)}"


def _place(found: FoundCheckpoint) -> tuple[int, int, int]:
    return found.trial, found.attempt, found.step


def sentence(text: str) -> str:
    """The text with a capital letter and a full stop.

    >>> sentence("none yet"), sentence("is the limit right?")
    ('None yet.', 'Is the limit right?')
    """
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '?')) else '.'}"


def in_print(text: str) -> str:
    """Limits with the signs of print, for a page.

    >>> in_print("gap 0.12 (limit <= 0.1; 0.09 where it was chosen)")
    'gap 0.12 (limit ≤ 0.1; 0.09 where it was chosen)'
    """
    return text.replace("(limit <= ", "(limit ≤ ").replace("(limit >= ", "(limit ≥ ")
