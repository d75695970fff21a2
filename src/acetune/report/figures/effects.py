"""How much of an outcome's variation goes with one parameter: cheap, without a model.

The outcomes of the trials are replaced by their ranks, the trials are grouped by the parameter
(each category a group; numbers by their order, so that a logarithmic scale makes no difference),
and the share of the ranks' variance that lies between the groups is taken: the correlation ratio.
Groups of random trials differ too; the share they are expected to show, (k - 1) / (n - 1), is taken
off, and :func:`chance_level` says what one parameter in twenty would reach without any effect (the
Kruskal-Wallis test). No random numbers are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from acetune.report.figures.digest import Floats, Whole

LEAST = 20  # trials; fewer say nothing
_LARGEST = 10  # groups of a number
_LEAST_GROUP = 5  # trials
_NORMAL_95, _NORMAL_95_BOTH = 1.6448536269514722, 1.959963984540054  # one-sided, two-sided


class Effect(NamedTuple):
    """What goes with a parameter. ``share`` is None where it cannot be said, and ``why`` why."""

    name: str
    share: float | None
    chance: float  # what no effect would reach in one of twenty cases
    trials: int
    why: str = ""


class Column(NamedTuple):
    """The values of a parameter in the trials that have it: as numbers, or codes of categories."""

    name: str
    trials: Whole
    values: Floats
    ordered: bool


def columns(params: Sequence[Mapping[str, Any]]) -> list[Column]:
    """Parameters as columns, in the order in which they turn up."""
    gathered: dict[str, tuple[list[int], list[Any]]] = {}
    for trial, its in enumerate(params):
        for name, value in its.items():
            if name not in gathered:
                gathered[name] = ([], [])
            trials, values = gathered[name]
            trials.append(trial)
            values.append(value)
    found = []
    for name, (trials, values) in gathered.items():
        numbers = _numbers(values)
        if numbers is None:
            codes: dict[str, int] = {}
            of = np.array([codes.setdefault(repr(v), len(codes)) for v in values], float)
            found.append(Column(name, np.array(trials), of, ordered=False))
        else:
            found.append(Column(name, np.array(trials), numbers, ordered=True))
    return found


def effects(parameters: Sequence[Column], outcome: Floats) -> list[Effect]:
    """The effect of each parameter.

    ``outcome`` has a number a trial; trials without a finite one are left out. A parameter that
    only some trials have is looked at among those.
    """
    found = []
    for column in parameters:
        its = outcome[column.trials]
        known = np.isfinite(its)
        found.append(_effect(column._replace(values=column.values[known]), its[known]))
    return found


def _effect(column: Column, outcome: Floats) -> Effect:
    name, n = column.name, len(outcome)
    if n < LEAST:
        return Effect(name, None, 0.0, n, f"too few trials ({n})")
    ranks = _ranks(outcome)
    total = float(np.sum((ranks - ranks.mean()) ** 2))
    if total == 0:
        return Effect(name, None, 0.0, n, "all trials came out alike")
    groups = _groups(column.values, column.ordered)
    sizes = np.bincount(groups)
    k = len(sizes)
    if k < 2:
        _, often = np.unique(column.values, return_counts=True)
        alike = often.max() > n - _LEAST_GROUP
        why = "the same in nearly all trials" if alike else "no value comes up often enough"
        return Effect(name, None, 0.0, n, why)
    means = np.bincount(groups, weights=ranks) / sizes
    share = float(np.sum(sizes * (means - ranks.mean()) ** 2)) / total
    by_chance = (k - 1) / (n - 1)
    corrected = max(0.0, (share - by_chance) / (1 - by_chance))
    level = max(0.0, (chance_level(k, n) - by_chance) / (1 - by_chance))
    return Effect(name, corrected, level, n)


def chance_level(groups: int, n: int) -> float:
    """The share that one in twenty parameters without effect would reach, before correction.

    (n - 1) times the share follows a chi-square distribution with ``groups`` - 1 degrees of
    freedom; its quantile by Wilson and Hilferty's formula.

    >>> round(chance_level(groups=5, n=101), 3)  # 9.488 / 100
    0.095
    """
    df = groups - 1
    if df == 1:  # the formula is 2 % off there, and the square of a normal one is exact
        return min(1.0, _NORMAL_95_BOTH**2 / (n - 1))
    root = 1 - 2 / (9 * df) + _NORMAL_95 * math.sqrt(2 / (9 * df))
    return min(1.0, df * root**3 / (n - 1))


def _ranks(values: Floats) -> Floats:
    """Ranks from 0, ties share theirs."""
    _, inverse, sizes = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(sizes)
    ranks: Floats = (ends - (sizes + 1) / 2.0)[inverse]
    return ranks


def _groups(values: Floats, ordered: bool) -> Whole:
    """Which group each value belongs to, without empty ones."""
    distinct, of, sizes = np.unique(values, return_inverse=True, return_counts=True)
    most = min(_LARGEST, max(3, len(values) // 15))
    if ordered and len(distinct) > most:  # by order, equal ones together
        smaller = np.cumsum(sizes) - sizes
        of = (smaller * most // len(values))[of]
    elif not ordered:  # rare categories form one group
        of = np.where((sizes < _LEAST_GROUP)[of], len(sizes), of)
    _, groups, sizes = np.unique(of, return_inverse=True, return_counts=True)
    if sizes.max() > len(values) - _LEAST_GROUP:
        return np.zeros(len(values), np.int64)  # nearly constant: no way to tell
    return np.asarray(groups, np.int64)


def _numbers(values: list[Any]) -> Floats | None:
    """The values as numbers, or None if they are categories."""
    kinds = set(map(type, values))
    if not kinds <= {int, float}:
        return None
    try:
        numbers = np.array(values, float)
    except OverflowError:  # whole numbers may be larger than any float
        return None
    return numbers if np.isfinite(numbers).all() else None
