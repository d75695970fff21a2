"""Which parameters go with a good objective, and which with keeping the limits."""

from __future__ import annotations

from typing import Any

import numpy as np

from acetune.core.words import count
from acetune.report.figures.digest import Digest
from acetune.report.figures.drawing import Drawing, SmallTable, axis_title, base_layout, nothing
from acetune.report.figures.effects import LEAST, Effect, columns, effects
from acetune.report.figures.look import ANSWER, BEST_OF_ALL, NEUTRAL, NOTE
from acetune.report.figures.words import plain, safe, short

_TITLE = "Which parameters mattered"
_MOST = 12
_ROW, _BAR = 54, 0.24


def importance(digest: Digest) -> Drawing:
    """The share of the variation among trials that goes with each parameter alone."""
    params = [row.params for row in digest.view.trials]
    if not any(params):
        why = "No trials yet." if not params else "The trials have no parameters."
        return nothing("importance", _TITLE, why)
    outcomes = {"objective": digest.per_trial(digest.loss[digest.current], digest.current)}
    if digest.constrained:
        violation = digest.view.reports.violation
        rows = np.flatnonzero(~np.isnan(violation))
        violation = violation[rows]
        # a failed check is worse than any violation that was measured
        worst = float(np.max(violation, initial=0.0, where=np.isfinite(violation)))
        violation = np.where(np.isinf(violation), 2 * worst + 1, violation)
        outcomes["feasibility"] = digest.per_trial(violation, rows)
    parameters = columns(params)
    found = {name: effects(parameters, outcome) for name, outcome in outcomes.items()}
    if all(effect.share is None for its in found.values() for effect in its):
        return nothing("importance", _TITLE, _why_not(found))
    order = sorted(
        range(len(found["objective"])),
        key=lambda i: (-max((its[i].share or 0.0) for its in found.values()), i),
    )
    shown = order[:_MOST]
    data: list[dict[str, Any]] = []
    looks = {"objective": (BEST_OF_ALL, "", 0.0), "feasibility": (ANSWER, "/", -0.27)}
    for name, its in found.items():
        if any(its[i].share is not None for i in shown):  # else the legend has it for nothing
            data += _traces(name, [its[i] for i in shown], looks[name], legend=not data)
    layout = _layout(found, shown)
    caption = _caption(digest, len(order), outcomes)
    table = SmallTable(["parameter", *found], [_cells(found, i) for i in order[:40]])
    return Drawing("importance", _TITLE, caption, _alt(found), data, layout, table)


def _cells(found: dict[str, list[Effect]], i: int) -> list[str]:
    return [short(found["objective"][i].name), *[_percent(its[i]) for its in found.values()]]


def _why_not(found: dict[str, list[Effect]]) -> str:
    trials = max(effect.trials for its in found.values() for effect in its)
    if trials < LEAST:
        return f"Too few trials to tell: {trials} with a result, and at least {LEAST} are needed."
    return "The trials differ too little to tell: all came out alike, or had the same parameters."


def _traces(
    name: str, its: list[Effect], look: tuple[str, str, float], *, legend: bool
) -> list[dict[str, Any]]:
    colour, pattern, shift = look
    places = [shift - i for i in range(len(its))]
    words = [f"{name}: {_percent(effect)}" for effect in its]
    bars = {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "x": plain([100 * (effect.share or 0.0) for effect in its], 3),
        "y": places,
        "width": _BAR,
        "marker": {
            "color": colour,
            "opacity": [1 if (effect.share or 0.0) > effect.chance else 0.4 for effect in its],
            "line": {"width": 0},
            "pattern": {"shape": pattern, "fillmode": "overlay", "size": 6},
        },
        "text": words,
        "textposition": "none",
        "hovertemplate": "%{text}<extra></extra>",
    }
    told = [i for i, effect in enumerate(its) if effect.share is not None]
    chance = {
        "type": "scatter",
        "mode": "markers",
        "name": "chance",
        "showlegend": legend,
        "legendgroup": "chance",
        "x": plain([100 * its[i].chance for i in told], 3),
        "y": [places[i] for i in told],
        "marker": {
            "symbol": "line-ns",
            "size": 13,
            "line": {"width": 2, "color": NEUTRAL},
        },
        "hovertemplate": "no effect would reach %{x} % in one of twenty cases<extra></extra>",
    }
    return [bars, chance]


def _layout(found: dict[str, list[Effect]], shown: list[int]) -> dict[str, Any]:
    longest = max(
        max(effect.share or 0.0, effect.chance) for its in found.values() for effect in its
    )
    layout = base_layout(_ROW * len(shown) + 100, margin={"b": 66, "t": 4}, barmode="overlay")
    layout["xaxis"] |= {
        "title": axis_title("Share of the variation"),
        "ticksuffix": " %",
        "range": [0, max(5.0, min(100.0, 108 * longest))],
        "nticks": 6,
    }
    layout["yaxis"] = {
        "visible": False,
        "range": [0.5 - len(shown), 0.66],
        "fixedrange": True,
    }
    layout["annotations"] = [
        {
            **NOTE,
            "text": safe(found["objective"][i].name, 40) + _notes([f[i] for f in found.values()]),
            "xref": "paper",
            "x": 0,
            "xanchor": "left",
            "xshift": 2,
            "y": _BAR / 2 - place,
            "yanchor": "bottom",
        }
        for place, i in enumerate(shown)
    ]
    return layout


def _notes(its: list[Effect]) -> str:
    why = next((effect.why for effect in its if effect.share is None), "")
    return f" <i>({why})</i>" if why and all(effect.share is None for effect in its) else ""


def _percent(effect: Effect) -> str:
    if effect.share is None:
        return effect.why
    clear = "" if effect.share > effect.chance else ", within chance"
    return f"{effect.share:.0%}{clear}"


def _caption(digest: Digest, total: int, outcomes: dict[str, Any]) -> str:
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
