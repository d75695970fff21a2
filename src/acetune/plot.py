"""Pictures of a study for notebooks: each function returns a Plotly figure.

They take what :func:`acetune.tune` or :func:`acetune.load` returned, the path of a study file, or
a :class:`~acetune.study.reader.StudyView`, also while the study is running. The same figures are in
the page that ``acetune report`` writes; there a caption says how to read each of them, and here
``figure.layout.meta["caption"]`` and ``["alt"]`` hold the words. A figure that would be empty says
why.

>>> import tempfile, acetune
>>> from acetune import plot
>>> def train(trial):
...     for step in trial.steps(5):
...         trial.report(accuracy=trial.params["rate"] * step, model=step)
>>> study = tempfile.mkdtemp() + "/study.db"
>>> result = acetune.tune(
...     train,
...     space={"rate": acetune.uniform(0.0, 0.2)},
...     objective="accuracy",
...     mode="max",
...     constraints=[acetune.Constraint("size", upper=3, check=lambda model: model)],
...     policy="ace-beta1",
...     max_trials=4,
...     workers=1,
...     seed=1,
...     study=study,
... )
>>> figure = plot.progress(result)
>>> figure.layout.title.text
'<b>Best feasible over time</b>'
>>> [trace.name for trace in plot.tradeoff(study).data]
['invalid', 'valid', 'Pareto front', 'the answer']
>>> plot.curves(result, trials=[1, 3]).layout.xaxis.title.text
'Step'
>>> plot.what_if(result).layout.meta["alt"][:48]
'At the limit of size, 3, the best accuracy is 0.'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from acetune.core.errors import GoalError
from acetune.report import figures as _figures
from acetune.study.reader import StudyView
from acetune.study.result import StudyResult

if TYPE_CHECKING:
    import plotly.graph_objects as go

Study: TypeAlias = StudyResult | StudyView | Path | str

__all__ = [
    "curves",
    "figures",
    "importance",
    "intervals",
    "progress",
    "reasons",
    "strata",
    "time",
    "tradeoff",
    "what_if",
]


def progress(study: Study) -> go.Figure:
    """The best feasible objective over time, beside the best of all."""
    return _drawn("progress", study)


def tradeoff(study: Study) -> go.Figure:
    """Objective against each constraint, with the limit and the Pareto front."""
    return _drawn("tradeoff", study)


def what_if(study: Study) -> go.Figure:
    """The best objective under other limits, with a band of one standard error.

    Below it the number of better checkpoints that were never checked. From recorded values, as
    :meth:`acetune.StudyResult.what_if`; a limit chosen after looking needs fresh confirmation.
    """
    return _drawn("what_if", study)


def curves(study: Study, trials: Sequence[int] | None = None) -> go.Figure:
    """Learning curves coloured by stratum, and where trials were stopped.

    Parameters
    ----------
    trials:
        Numbers of trials. By default some that tell something: the answer, the nearest miss, the
        best objective that is invalid, stopped trials of each stratum, running ones.
    """
    wanted = None if trials is None else list(trials)
    return _figures.curves(_figures.FigureData(_view(study)), wanted).figure


def time(study: Study) -> go.Figure:
    """Where the time went: training, checks, start-up, and an estimate of what stopping saved."""
    return _drawn("time", study)


def reasons(study: Study) -> go.Figure:
    """Why trials ended, and how many."""
    return _drawn("reasons", study)


def strata(study: Study, by: Literal["time", "step"] = "time") -> go.Figure:
    """How many reports were valid, invalid and unchecked, over ``"time"`` or by ``"step"``."""
    return _figures.strata(_figures.FigureData(_view(study)), by).figure


def importance(study: Study) -> go.Figure:
    """Which parameters go with the objective, and which with keeping the limits.

    The share of the variation among trials (of ranks) that goes with each parameter alone, less
    what chance would give. Association in the trials that were run, not cause.
    """
    return _drawn("importance", study)


def intervals(study: Study) -> go.Figure:
    """Chosen check intervals, and the measured cost ratio against Theorem 1's threshold."""
    return _drawn("intervals", study)


def figures(study: Study, ids: Iterable[str] | None = None) -> dict[str, go.Figure]:
    """Several figures by id, all of them by default; the study is read once.

    ``acetune.report.figure_files.write_figures`` writes them to files:
    ``figures(study, ["progress", "time"])`` gives what ``acetune report --png`` draws.
    """
    drawn = _figures.drawings(_view(study), ids)
    return {drawing.id: drawing.figure for drawing in drawn}


def _drawn(id: str, study: Study) -> go.Figure:
    return _figures.drawings(_view(study), [id])[0].figure


def _view(study: Study) -> StudyView:
    if isinstance(study, StudyView):
        return study
    if isinstance(study, StudyResult):
        return StudyView(study.study)
    if isinstance(study, (str, Path)):
        return StudyView(study)
    raise GoalError(
        "a figure is made of a StudyResult, a StudyView or the path of a study file, got "
        f"{type(study).__name__}"
    )
