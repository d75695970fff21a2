"""The best feasible objective over time, beside the best of all."""

from __future__ import annotations

import numpy as np

from acetune.core.formatting import timing
from acetune.report.figures._drawing import Drawing, SmallTable, axis_title, base_layout, nothing
from acetune.report.figures._figure_data import FigureData, Floats, Whole, spread
from acetune.report.figures._look import BEST_OF_ALL, MIDDLE, STAR, VALID, Json, note, scatter
from acetune.report.figures._values import (
    number,
    plain_near,
    safe,
    short,
    time_unit,
    within_reach,
)
from acetune.study.best_checkpoints import improvements, incumbents

_MOST = 400  # steps of a staircase
_SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)


def progress(digest: FigureData) -> Drawing:
    """How good the best checkpoint was after how long."""
    title = "Best feasible over time" if digest.constrained else "Best over time"
    name = short(digest.goals.objective.name)
    all_rows = improvements(np.where(digest.is_step, digest.loss, np.inf))
    rows = incumbents(digest.view)
    if not len(all_rows):
        why = f"No report with a finite {name} yet." if len(digest.loss) else "No reports yet."
        return nothing("progress", title, why)
    sign, end = digest.sign, digest.end
    everything = digest.loss[all_rows] * sign
    feasible = digest.checked_loss(rows) * sign
    reports = digest.view.reports
    unit, unit_name = time_unit(end)
    window = _window(digest, everything, feasible, all_rows, rows)
    span = window[1] - window[0]
    data: list[Json] = []
    for label, which, values, colour, dash in (
        ("best of all", all_rows, everything, BEST_OF_ALL, "6px,3px"),
        ("best feasible", rows, feasible, VALID, "solid"),
    ):
        if not len(which) or (label == "best of all" and not digest.constrained):
            continue
        some = spread(len(which), _MOST)
        which, values = which[some], values[some]
        steps = reports.step[which] if label == "best of all" else reports.checked_step[which]
        data.append(
            scatter(
                "lines",
                label if digest.constrained else "best",
                x=plain_near(np.append(digest.elapsed[which], end) / unit, end / unit),
                y=plain_near(np.append(values, values[-1]), span / 10),
                text=_labels(reports.trial[which], steps),
                line={"shape": "hv", "color": colour, "dash": dash, "width": 2},
                hovertemplate="%{y} at %{x} " + unit_name + "<br>%{text}<extra></extra>",
            )
        )
    answer = digest.answer
    if answer is not None:
        data.append(
            scatter(
                "markers",
                "the answer",
                x=plain_near([digest.elapsed[answer.row] / unit], end / unit),
                y=plain_near([answer.value], span / 10),
                marker=STAR,
                hovertemplate=f"{number(answer.value)}, trial {answer.trial}, "
                f"step {answer.step}<extra>the answer</extra>",
            )
        )
    layout = base_layout(
        340,
        xaxis={"title": axis_title(f"Time ({unit_name})"), "range": _times(digest, all_rows, unit)},
        yaxis={"title": axis_title(safe(name, 24)), "range": [window[0], window[1]]},
        margin={"b": 62},
        showlegend=True,
    )
    if not len(rows):
        text = "nothing feasible yet" if digest.view.running else "nothing feasible"
        layout["annotations"] = [note(**MIDDLE, text=text)]
    caption = _caption(digest, max(len(rows), len(all_rows)))
    alt, table = _alt(digest, name, rows, everything), _table(digest, rows, all_rows)
    return Drawing("progress", title, caption, alt, data, layout, table)


def _times(digest: FigureData, all_rows: Whole, unit: float) -> list[float]:
    """The moments to show: from the first report with a value on, nothing is to be seen before."""
    first, end = float(digest.elapsed[all_rows[0]]) / unit, digest.end / unit
    room = 0.03 * (end - first) or 0.5
    return [max(0.0, first - room), end + room]


def _window(
    digest: FigureData, everything: Floats, feasible: Floats, all_rows: Whole, rows: Whole
) -> tuple[float, float]:
    """The values to show: the first moments may be so bad that the rest would look flat."""
    everything, feasible = within_reach(everything), within_reach(feasible)
    values = np.concatenate([everything, feasible])
    times = np.concatenate([digest.elapsed[all_rows], digest.elapsed[rows]])
    late = values[times >= 0.02 * digest.end]
    late = np.concatenate([late, everything[-1:], feasible[-1:], feasible[:1]])
    low, high = float(late.min()), float(late.max())
    room = (high - low) or abs(high) or 1.0
    low, high = max(float(values.min()), low - room), min(float(values.max()), high + room)
    pad = 0.06 * ((high - low) or abs(high)) or 1.0
    return low - pad, high + pad


def _labels(trials: Whole, steps: Whole) -> list[str]:
    labels = [f"trial {t}, step {s}" for t, s in zip(trials.tolist(), steps.tolist(), strict=True)]
    return [*labels, *labels[-1:]]


def _caption(digest: FigureData, improvements: int) -> str:
    if not digest.constrained:
        text = "The best objective found so far; the study has no constraints."
    else:
        text = (
            "Solid: the best objective among checkpoints that were checked and keep every limit. "
            "Dashed: the best objective reported at all, checked or not. The gap between them is "
            "what the limits cost, as far as the checks can tell."
        )
    if improvements > _MOST:
        text += f" Of the improvements, {_MOST} are shown."
    return text + " Pauses between runs are left out; very bad first values may lie outside."


def _alt(digest: FigureData, name: str, rows: Whole, everything: Floats) -> str:
    best = number(float(everything[-1]))
    if not digest.constrained:
        return f"Best {name} {best} after {timing(digest.end)}."
    if not len(rows):
        return f"Nothing feasible in {timing(digest.end)}; best {name} of all {best}."
    first, last = digest.elapsed[rows[0]], digest.elapsed[rows[-1]]
    value = number(digest.checkpoint(int(rows[-1])).value)
    return (
        f"First feasible checkpoint after {timing(first)}; best feasible {name} {value} found "
        f"after {timing(last)} of {timing(digest.end)}; best {name} of all, whatever the limits, "
        f"{best}."
    )


def _table(digest: FigureData, rows: Whole, all_rows: Whole) -> SmallTable:
    lines = []
    for share in _SHARES:
        moment = share * digest.end
        cells = [timing(moment)]
        for which, losses in ((rows, digest.checked_loss(rows)), (all_rows, digest.loss[all_rows])):
            there = losses[digest.elapsed[which] <= moment + 1e-9]
            cells.append(number(float(there[-1] * digest.sign)) if len(there) else "none")
        lines.append(cells)
    if digest.constrained:
        return SmallTable(["after", "best feasible", "best of all"], lines)
    return SmallTable(["after", "best"], [[cells[0], cells[2]] for cells in lines])
