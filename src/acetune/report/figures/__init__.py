"""The figures of a study, one per file.

Each is a function of a :class:`~acetune.report.figures._figure_data.FigureData` and returns a
:class:`~acetune.report.figures._drawing.Drawing`: the figure with its title, caption, a description
in words and a small table. They show aggregates: however large the study, a figure stays small.

Adding one is a file here and a line in the table below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from acetune.core.errors import AcetuneError, GoalError
from acetune.report.figures._curves import chosen_trials, curves
from acetune.report.figures._drawing import Drawing
from acetune.report.figures._figure_data import FigureData
from acetune.report.figures._importance import importance
from acetune.report.figures._intervals import intervals
from acetune.report.figures._progress import progress
from acetune.report.figures._reasons import reasons
from acetune.report.figures._strata import strata
from acetune.report.figures._time import time
from acetune.report.figures._tradeoff import tradeoff
from acetune.report.figures._what_if import what_if
from acetune.study.integrity import understanding

if TYPE_CHECKING:
    from acetune.study.reader import StudyView

#: the figures in the order of the page
FIGURES: Mapping[str, Callable[[FigureData], Drawing]] = {
    "progress": progress,
    "tradeoff": tradeoff,
    "what_if": what_if,
    "curves": curves,
    "time": time,
    "reasons": reasons,
    "strata": strata,
    "importance": importance,
    "intervals": intervals,
}


def drawings(view: StudyView, ids: Iterable[str] | None = None) -> list[Drawing]:
    """Figures of a study by their ids; all of them, in page order, by default."""
    wanted = list(FIGURES) if ids is None else list(dict.fromkeys(ids))
    for id in wanted:
        if id not in FIGURES:
            raise GoalError(f"there is no figure {id!r}; there are {', '.join(FIGURES)}")
    with understanding(view.path, AcetuneError):
        digest = FigureData(view)
        return [FIGURES[id](digest) for id in wanted]


def page_figures(view: StudyView, *, first: bool = False) -> list[dict[str, Any]]:
    """All figures of a study, or the first alone, as JSON-able data, in page order."""
    ids = list(FIGURES)[:1] if first else None
    return [drawing.as_json() for drawing in drawings(view, ids)]


def trial_figure(digest: FigureData, trial: int) -> dict[str, Any]:
    """The learning curve of one trial as JSON-able data."""
    return curves(digest, [trial]).as_json()


__all__ = [
    "FIGURES",
    "Drawing",
    "FigureData",
    "chosen_trials",
    "curves",
    "drawings",
    "page_figures",
    "strata",
    "trial_figure",
]
