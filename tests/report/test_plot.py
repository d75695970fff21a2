"""Figures for notebooks."""

from __future__ import annotations

from pathlib import Path

import plotly.graph_objects as go
import pytest

import acetune
from acetune import plot
from acetune.core.errors import GoalError, StudyError, StudyFileError
from acetune.report.figures import FIGURES
from acetune.study.reader import StudyView
from synthetic_study import make_study


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_study(tmp_path_factory.mktemp("plot") / "study.db", trials=40, reports=600)


@pytest.mark.parametrize("id", list(FIGURES))
def test_results_paths_and_views_give_the_same_figure(path: Path, id: str) -> None:
    draw = getattr(plot, id)
    wanted = draw(path)
    assert isinstance(wanted, go.Figure) and len(wanted.data) > 0
    for study in (str(path), acetune.load(path), StudyView(path)):
        assert draw(study) == wanted
    assert plot.figures(path)[id] == wanted


def test_figures_by_id(path: Path) -> None:
    assert list(plot.figures(path)) == list(FIGURES)
    assert list(plot.figures(path, ["time", "progress", "time"])) == ["time", "progress"]
    with pytest.raises(GoalError, match=r"no figure 'pie'; there are progress, tradeoff"):
        plot.figures(path, ["pie"])


def test_every_figure_is_a_public_function() -> None:
    assert sorted(plot.__all__) == sorted([*FIGURES, "figures"])
    assert all(callable(getattr(plot, name)) for name in plot.__all__)


def test_the_look_is_light_and_the_words_are_there(path: Path) -> None:
    layout = plot.tradeoff(path).layout
    assert (layout.paper_bgcolor, layout.plot_bgcolor) == ("white", "white")
    assert layout.title.text == "<b>Objective against constraint</b>"
    assert layout.xaxis.gridcolor and layout.font.color
    assert "Pareto front" in layout.meta["caption"] and "auc" in layout.meta["alt"]
    assert layout.width is None  # it fills what room there is


def test_chosen_trials_and_steps(path: Path) -> None:
    assert "Curves of auc of 2 trials: trial 3" in plot.curves(path, [3, 1]).layout.meta["alt"]
    assert plot.strata(path, by="step").layout.xaxis.title.text.startswith("Step")
    with pytest.raises(StudyError, match="no trial 41; it has trials 1 to 40"):
        plot.curves(path, trials=[41])


def test_what_is_no_study(tmp_path: Path) -> None:
    with pytest.raises(GoalError, match="the path of a study file, got int"):
        plot.progress(3)  # type: ignore[arg-type]
    with pytest.raises(StudyFileError, match="there is no study file"):
        plot.progress(tmp_path / "missing.db")
