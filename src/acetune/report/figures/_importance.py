"""Which parameters go with a good objective, and which with keeping the limits: without a model.

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

from acetune.core.formatting import count
from acetune.report.figures import _look as look
from acetune.report.figures._drawing import Drawing, SmallTable, axis_title, base_layout, nothing
from acetune.report.figures._figure_data import FigureData, Floats, Whole
from acetune.report.figures._look import Json, bar_marker, lying_bar, note, scatter
from acetune.report.figures._values import plain, safe, short

_TITLE = "Which parameters mattered"
_MOST = 12
_ROW, _BAR = 54, 0.24
_LEAST = 20  # trials; fewer say nothing
_LARGEST = 10  # groups of a number
_LEAST_GROUP = 5  # trials
_NORMAL_95, _NORMAL_95_BOTH = 1.6448536269514722, 1.959963984540054  # one-sided, two-sided


def importance(digest: FigureData) -> Drawing:
    """The share of the variation among trials that goes with each parameter alone."""
    params = [row.params for row in digest.view.trials]
    if not any(params):
        why = "No trials yet." if not params else "The trials have no parameters."
        return nothing("importance", _TITLE, why)
    outcomes = {"objective": digest.trials.best_loss}
    if digest.constrained:
        violation = digest.view.reports.violation
        checked = np.flatnonzero(~np.isnan(violation))
        violation = violation[checked]
        # a failed check is worse than any violation that was measured
        worst = float(np.max(violation, initial=0.0, where=np.isfinite(violation)))
        violation = np.where(np.isinf(violation), 2 * worst + 1, violation)
        outcomes["feasibility"] = digest.trials.least(checked, violation)
    parameters = columns(params)
    found = {name: effects(parameters, outcome) for name, outcome in outcomes.items()}
    if all(effect.share is None for its in found.values() for effect in its):
        return nothing("importance", _TITLE, _why_not(found))
    order = sorted(
        range(len(found["objective"])),
        key=lambda i: (-max((its[i].share or 0.0) for its in found.values()), i),
    )
    shown = order[:_MOST]
    data: list[Json] = []
    looks = {"objective": (look.BEST_OF_ALL, "", 0.0), "feasibility": (look.ANSWER, "/", -0.27)}
    for name, its in found.items():
        if any(its[i].share is not None for i in shown):  # else the legend has it for nothing
            data += _traces(name, [its[i] for i in shown], looks[name], legend=not data)
    layout = _layout(found, shown)
    caption = _caption(digest, len(order), outcomes)
    rows = [
        [short(found["objective"][i].name), *[_percent(its[i]) for its in found.values()]]
        for i in order[:40]
    ]
    table = SmallTable(["parameter", *found], rows)
    return Drawing("importance", _TITLE, caption, _alt(found), data, layout, table)


def _why_not(found: dict[str, list[Effect]]) -> str:
    trials = max(effect.trials for its in found.values() for effect in its)
    if trials < _LEAST:
        return f"Too few trials to tell: {trials} with a result, and at least {_LEAST} are needed."
    return "The trials differ too little to tell: all came out alike, or had the same parameters."


def _traces(
    name: str, its: list[Effect], looks: tuple[str, str, float], *, legend: bool
) -> list[Json]:
    colour, pattern, shift = looks
    places = [shift - i for i in range(len(its))]
    opacity = [1 if (effect.share or 0.0) > effect.chance else 0.4 for effect in its]
    bars = lying_bar(
        name=name,
        x=plain([100 * (effect.share or 0.0) for effect in its], 3),
        y=places,
        width=_BAR,
        marker=bar_marker(colour, pattern, opacity=opacity),
        text=[f"{name}: {_percent(effect)}" for effect in its],
    )
    told = [i for i, effect in enumerate(its) if effect.share is not None]
    chance = scatter(
        "markers",
        "chance",
        showlegend=legend,
        legendgroup="chance",
        x=plain([100 * its[i].chance for i in told], 3),
        y=[places[i] for i in told],
        marker={"symbol": "line-ns", "size": 13, "line": {"width": 2, "color": look.NEUTRAL}},
        hovertemplate="no effect would reach %{x} % in one of twenty cases<extra></extra>",
    )
    return [bars, chance]


def _layout(found: dict[str, list[Effect]], shown: list[int]) -> Json:
    longest = max(max(e.share or 0.0, e.chance) for its in found.values() for e in its)
    layout = base_layout(_ROW * len(shown) + 100, margin={"b": 66, "t": 4}, barmode="overlay")
    layout["xaxis"] |= {
        "title": axis_title("Share of the variation"),
        "ticksuffix": " %",
        "range": [0, max(5.0, min(100.0, 108 * longest))],
        "nticks": 6,
    }
    layout["yaxis"] = {"visible": False, "range": [0.5 - len(shown), 0.66], "fixedrange": True}
    left = {"xref": "paper", "x": 0, "xanchor": "left", "xshift": 2}
    layout["annotations"] = []
    for place, i in enumerate(shown):
        text = safe(found["objective"][i].name, 40) + _notes([its[i] for its in found.values()])
        layout["annotations"].append(note(text=text, **left, y=_BAR / 2 - place, yanchor="bottom"))
    return layout


def _notes(its: list[Effect]) -> str:
    why = next((effect.why for effect in its if effect.share is None), "")
    return f" <i>({why})</i>" if why and all(effect.share is None for effect in its) else ""


def _percent(effect: Effect) -> str:
    if effect.share is None:
        return effect.why
    clear = "" if effect.share > effect.chance else ", within chance"
    return f"{effect.share:.0%}{clear}"


def _caption(digest: FigureData, total: int, outcomes: dict[str, Floats]) -> str:
    text = (
        "How much of the variation among trials goes with each parameter alone: the share of the "
        "variance (of ranks) between groups of trials, less what chance gives. Grey marks: what a "
        "parameter without effect exceeds in one of twenty cases; bars that do not reach them are "
        "faint. Objective: the best a trial reached."
    )
    if digest.constrained:
        text += " Feasibility: the least violation among its checks."
    text += (
        " Association in the trials that were run, not cause: interplay does not show, searchers "
        "favour some regions, stopped trials had less time."
    )
    used = {name: int(np.sum(np.isfinite(outcome))) for name, outcome in outcomes.items()}
    from_how_many = ", ".join(f"{count(n, 'trial')} ({name})" for name, n in used.items())
    text += f" From {from_how_many}."
    if total > _MOST:
        text += f" The {_MOST} strongest of {total} parameters are shown."
    return text


def _alt(found: dict[str, list[Effect]]) -> str:
    parts = []
    for name, its in found.items():
        clear = [e for e in its if e.share is not None and e.share > e.chance]
        clear.sort(key=lambda e: -(e.share or 0.0))
        if clear:
            listed = ", ".join(f"{short(e.name)} {e.share:.0%}" for e in clear[:3])
            parts.append(f"With the {name} go most: {listed}.")
        elif all(e.share is None for e in its):
            parts.append(f"For the {name} nothing can be said: {its[0].why}.")
        else:
            parts.append(f"With the {name} nothing goes clearly beyond chance.")
    return " ".join(parts)


# -- how much of the variation goes with one parameter ---------------------------------------------


class Effect(NamedTuple):
    """What goes with a parameter. ``share`` is None where it cannot be said, and ``why`` why."""

    name: str
    share: float | None
    chance: float  # what no effect would reach in one of twenty cases
    trials: int
    why: str = ""


class ParameterColumn(NamedTuple):
    """The values of a parameter in the trials that have it: as numbers, or codes of categories."""

    name: str
    trials: Whole
    values: Floats
    ordered: bool


def columns(params: Sequence[Mapping[str, Any]]) -> list[ParameterColumn]:
    """Parameters as columns, in the order in which they turn up."""
    gathered: dict[str, dict[int, Any]] = {}
    for trial, its in enumerate(params):
        for name, value in its.items():
            gathered.setdefault(name, {})[trial] = value
    found = []
    for name, by_trial in gathered.items():
        values = list(by_trial.values())
        numbers = _numbers(values)
        ordered = numbers is not None
        if numbers is None:
            codes: dict[str, int] = {}
            numbers = np.array([codes.setdefault(repr(v), len(codes)) for v in values], float)
        found.append(ParameterColumn(name, np.array(list(by_trial)), numbers, ordered))
    return found


def effects(parameters: Sequence[ParameterColumn], outcome: Floats) -> list[Effect]:
    """The effect of each parameter.

    ``outcome`` has a number a trial; trials without a finite one are left out. A parameter that
    only some trials have is looked at among those.
    """
    return [_effect(column, outcome[column.trials]) for column in parameters]


def _effect(column: ParameterColumn, outcome: Floats) -> Effect:
    known = np.isfinite(outcome)
    name, values, outcome = column.name, column.values[known], outcome[known]
    n = len(outcome)
    if n < _LEAST:
        return Effect(name, None, 0.0, n, f"too few trials ({n})")
    ranks = _ranks(outcome)
    total = float(np.sum((ranks - ranks.mean()) ** 2))
    if total == 0:
        return Effect(name, None, 0.0, n, "all trials came out alike")
    groups = _groups(values, column.ordered)
    sizes = np.bincount(groups)
    k = len(sizes)
    if k < 2:
        _, often = np.unique(values, return_counts=True)
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
    ranks: Floats = (np.cumsum(sizes) - (sizes + 1) / 2.0)[inverse]
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
    if not set(map(type, values)) <= {int, float}:
        return None
    try:
        numbers = np.array(values, float)
    except OverflowError:  # whole numbers may be larger than any float
        return None
    return numbers if np.isfinite(numbers).all() else None
