"""How reports are ranked: within strata, and at rungs, which are steps a constant factor apart."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from functools import lru_cache

from acetune.core.decision import Action, Decision, Stratum
from acetune.core.errors import GoalError
from acetune.core.history import History
from acetune.core.numbers import is_number
from acetune.core.observation import Observation
from acetune.core.ranked_groups import Filing, Group, GroupId
from acetune.core.reason import Reason, Value, Wording
from acetune.core.trial_record import Progress, TrialRecord

KEPT = Wording("kept", "rank {rank} of {of} {stratum} reports at step {step}: kept")
WORST = Wording(
    "worst",
    "rank {rank} of {of} {stratum} reports at step {step}: in the worst {share:.0%}",
    "in the worst {share:.0%} of the {stratum} reports at its step",
)


def file_in(stratum: Stratum, step: float, violation: float, loss: float) -> Filing:
    """With those of its step, or rung, and stratum: the invalid by (violation, loss), else by loss.

    >>> file_in("invalid", step=3, violation=0.1, loss=0.7)
    Filing(group=(3, 'invalid'), key=(0.1, 0.7))
    """
    return Filing((step, stratum), (violation, loss) if stratum == "invalid" else loss)


def last_unless_checked(trial: Progress) -> int | None:
    """What is due of a trial that ends before its last step: what it reported last, unchecked."""
    return None if trial.last_checked else trial.last_step or None


def in_worst(share: float, better: int, n: int) -> bool:
    """Whether a report belongs to the worst ``share`` of n, itself included; ties are for it.

    >>> [in_worst(0.25, better, n=4) for better in (2, 3)], in_worst(0.25, better=2, n=3)
    ([False, True], False)
    """
    return better >= n - math.floor(share * n + 1e-9)


_BETWEEN = Wording("between_rungs", "step {step} is between rungs")
_FIRST = Wording("first_at_rung", "first at {where} at step {step}")
_KEPT = Wording("within_cutoff", "rank {rank} of {of} at {where} at step {step}: kept")
_CUT = Wording(
    "beyond_cutoff",
    "rank {rank} of {of} at {where} at step {step}: worse than the cutoff",
    "worse than the cutoff",
)
EVERY_RUNG = Reason(
    Wording("checked_at_rungs", "due at every rung and at the last step", "at every rung")
)


@lru_cache(maxsize=2**14)  # asked at every step of every trial
def rungs_up_to(step: int, first: float, factor: float) -> tuple[float, ...]:
    """The rungs up to ``step``, lowest first.

    >>> rungs_up_to(20, first=1, factor=4)
    (1, 4, 16)
    """
    found: list[float] = []
    rung = first
    while rung <= step:
        found.append(rung)
        rung = first * factor ** len(found)
    return tuple(found)


def rung_passed(before: int, step: int, first: float, factor: float) -> float | None:
    """The highest rung passed on the way from step ``before`` to ``step``, or None.

    >>> rung_passed(3, 5, first=1, factor=4), rung_passed(4, 5, first=1, factor=4)
    (4, None)
    """
    rungs = rungs_up_to(step, first, factor)
    return rungs[-1] if rungs and rungs[-1] > before else None


def free_rung(trial: TrialRecord, rungs: Sequence[float], bracket: Hashable) -> GroupId | None:
    """The highest of the rungs reached that does not hold the trial yet, as a group, or None."""
    if len(trial.filings) == len(rungs):  # it is filed at rungs only, so at all of them
        return None
    for rung in reversed(rungs):
        if not trial.filed_in((bracket, rung)):
            return bracket, rung
    return None


def decide_by_cutoff(
    report: Observation, filing: Filing | None, history: History, factor: float, where: str
) -> Decision:
    """Stop what is strictly worse than the cutoff; the first to arrive goes on."""
    stratum, step = report.stratum, report.step
    if filing is None:
        return Decision(Action.CONTINUE, _BETWEEN, stratum, None, None, step, {})
    group = history.group(filing.group)
    rank, of = group.better_than(filing.key) + 1, len(group) + 1
    if len(group) == 0:
        return Decision(Action.CONTINUE, _FIRST, stratum, rank, of, step, {"where": where})
    cutoff = cutoff_of(group, factor)
    worse = report.loss > cutoff
    action, why = (Action.STOP, _CUT) if worse else (Action.CONTINUE, _KEPT)
    numbers: dict[str, Value] = {"where": where, "cutoff": cutoff}
    return Decision(action, why, stratum, rank, of, step, numbers)


def decide_by_place(
    report: Observation,
    filing: Filing | None,
    history: History,
    factor: float,
    keep: Wording,
    cut: Wording,
) -> Decision:
    """Stop what is not among the best of its group; ties count for the current trial."""
    stratum, step = report.stratum, report.step
    if filing is None:
        return Decision(Action.CONTINUE, _BETWEEN, stratum, None, None, step, {})
    group = history.group(filing.group)
    better, n = group.better_than(filing.key), len(group) + 1
    best = places(n, factor)
    action, why = (Action.CONTINUE, keep) if better < best else (Action.STOP, cut)
    return Decision(action, why, stratum, better + 1, n, step, {"places": best})


def cutoff_of(group: Group, factor: float) -> float:
    """NumPy's linearly interpolated percentile of the rewards (negated losses), as a loss.

    Infinite losses, which stand for objectives that are not finite, are left out.
    """
    n = group.better_than(math.inf)
    if n == 0:
        return math.inf
    position = (1 - 1 / factor) * 100 / 100 * (n - 1)
    below = math.floor(position)
    above = min(below + 1, n - 1)
    low, high = -group.keys[n - 1 - below], -group.keys[n - 1 - above]
    t = position - below
    reward = low + (high - low) * t if t < 0.5 else high - (high - low) * (1 - t)
    return float(-reward)


def places(n: int, factor: float) -> int:
    """How many of ``n`` go on: one in ``factor``, rounded up, and at least one.

    >>> places(1, 4), places(4, 4), places(5, 4)
    (1, 1, 2)
    """
    return max(1, math.ceil(n / factor - 1e-9))


def require_factor(name: str, value: float) -> None:
    """Validate the factor between rungs."""
    if not is_number(value) or value <= 1:
        raise GoalError(f"{name} must be a number > 1, got {value!r}")
