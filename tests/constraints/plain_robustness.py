"""The rules of behavioural tests written out case by case: what the fast ones must equal."""

from __future__ import annotations

from collections.abc import Sequence


def label(row: Sequence[float]) -> int:
    """0 negative, 1 neutral, 2 positive; of two classes the middle third is neutral."""
    if len(row) == 3:
        return max(range(3), key=lambda c: (row[c], -c))
    if row[1] < 1 / 3:
        return 0
    return 2 if row[1] > 2 / 3 else 1


def fails(rule: str, original: Sequence[float], variant: Sequence[float]) -> bool | None:
    """Whether a variant fails; None if it is left out."""
    first, second = label(original), label(variant)
    tolerance = 0.1 + 1e-9
    if rule in ("not more negative", "not more positive"):
        change = (variant[-1] - variant[0]) - (original[-1] - original[0])
        return change < -tolerance if rule == "not more negative" else change > tolerance
    if rule == "invariant":
        if first == second:
            return False
        if len(original) == 2:
            return abs(variant[1] - original[1]) > tolerance
        return abs(variant[first] - original[first]) > tolerance
    if first == 1:
        return None
    place = first if len(original) == 3 else first // 2
    change = variant[place] - original[place]
    return change < -tolerance if rule == "not less confident" else change > tolerance


def failure_rate(
    rule: str | None,
    labels: Sequence[int] | None,
    cases: Sequence[Sequence[Sequence[float]]],
) -> tuple[int, int]:
    """Failures and cases not left out; each case holds the answers to its texts."""
    failures = counted = 0
    for number, case in enumerate(cases):
        if labels is not None:
            outcome: bool | None = label(case[0]) != labels[number]
        else:
            assert rule is not None
            found = [fails(rule, case[0], variant) for variant in case[1:]]
            outcome = None if found[0] is None else any(found)
        if outcome is not None:
            counted += 1
            failures += outcome
    return failures, counted
