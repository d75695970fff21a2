"""The searchers of acetune as search algorithms of Ray Tune."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ray.tune.search import Searcher as RaySearcher

from acetune.core.errors import SpaceError
from acetune.core.outcome import Curve, Outcome
from acetune.ray import _result_format as wire
from acetune.ray._experiment import experiment_with
from acetune.searchers import DEFAULT_SEARCHER, make_searcher
from acetune.searchers.space import Space


class AceSearch(RaySearcher):  # type: ignore[misc]  # ray is not typed
    """Goes into ``tune.TuneConfig(search_alg=...)`` beside an ``AceScheduler``.

    Ray's own search algorithms are told a trial's last result, whatever its constraints. This one
    is told the trial's best checkpoint and by how much it violates them; ``"forest"`` sees every
    report and every check, while trials run.

    Parameters
    ----------
    space:
        Dimensions by name, as for :func:`acetune.tune`, or those of Ray; a plain value fixes a
        parameter.
    searcher:
        ``"forest"``, ``"tpe"``, ``"random"``, ``"gp"``, ``"cmaes"``, ``"blendsearch"`` or
        ``"cfo"``.
    points:
        Configurations to try first; left-out dimensions are sampled.
    seed:
        Makes the suggestions repeatable.

    >>> import acetune
    >>> search = AceSearch({"rate": acetune.loguniform(0.01, 1), "layers": 2}, "random", seed=1)
    >>> sorted(search.suggest("trial-1"))
    ['layers', 'rate']
    """

    def __init__(
        self,
        space: Mapping[str, object],
        searcher: str = DEFAULT_SEARCHER,
        *,
        points: Sequence[Mapping[str, Any]] = (),
        seed: int | None = None,
    ) -> None:
        super().__init__(metric=wire.BEST_VALUE, mode="max")
        self._space = Space(space)
        self._options = searcher, points, seed
        self._searcher = make_searcher(searcher, self._space, points, seed)
        self._trials: dict[str, tuple[int, dict[str, Any]]] = {}
        self._told: dict[str, Outcome] = {}  # of trials that have ended
        self._valid: dict[str, float] = {}  # best valid losses, over all attempts of a trial
        self._worst_violation = 1.0
        self._watching = False

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: object
    ) -> bool:
        """Ray asks whether its metric is welcome: what counts is in every report."""
        return True

    def suggest(self, trial_id: str) -> dict[str, Any]:
        """A configuration."""
        curves = ExperimentCurves(self._space, self._trials)
        if not self._watching and curves.reports:
            # until then there is nothing to see, and without an AceScheduler there never is
            self._searcher.watch(curves)
            self._watching = True
        number = len(self._trials) + 1
        params = self._space.complete(self._searcher.ask(number))
        self._trials[trial_id] = number, params
        return dict(params)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """A report: a valid checkpoint counts, also if the trial is tried again and does worse."""
        best = wire.best_in(result)
        if best is None:
            return
        if best.feasible:
            self._valid[trial_id] = min(self._valid.get(trial_id, math.inf), best.loss)
        self._worst_violation = max(self._worst_violation, best.violation)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """A trial has ended for good."""
        if trial_id not in self._trials or trial_id in self._told:
            return
        result = result or {}
        self.on_trial_result(trial_id, result)
        best = wire.best_in(result)
        if trial_id in self._valid:
            told = Outcome(self._valid[trial_id], 0.0)
        elif error or best is None or not math.isfinite(best.loss):
            told = Outcome(None, self._worst_violation, failed=True)
        else:
            told = Outcome(best.loss, best.violation)
        self._told[trial_id] = told
        self._searcher.tell(self._trials[trial_id][0], told)

    # -- Ray saves and restores the search with the experiment -----------------------------------

    def save(self, checkpoint_path: str) -> None:
        """Write what was suggested and what came of it."""
        state = {"trials": self._trials, "told": self._told, "valid": self._valid}
        Path(checkpoint_path).write_text(json.dumps(state))

    def restore(self, checkpoint_path: str) -> None:
        """Tell the searcher everything again."""
        state = json.loads(Path(checkpoint_path).read_text())
        searcher, points, seed = self._options
        self._trials = {name: (n, params) for name, (n, params) in state["trials"].items()}
        self._told = {name: Outcome(*told) for name, told in state["told"].items()}
        self._valid = state["valid"]
        self._searcher = make_searcher(searcher, self._space, points, seed, len(self._trials))
        self._watching = False
        for name, (number, params) in self._trials.items():
            searched = self._space.flatten(params)
            self._searcher.add(number, searched, self._told.get(name))


class ExperimentCurves:
    """What the trials of an experiment have reported to its scheduler.

    It holds nothing itself, and looks for the experiment each time: Ray pickles a search with its
    Tuner, and a restored experiment is another one.

    Parameters
    ----------
    space:
        The searched space: trials that do not lie in it, such as those that somebody has added,
        are passed over.
    trials:
        Ray's names of trials of the experiment.
    """

    def __init__(self, space: Space, trials: Collection[str]) -> None:
        self._space, self._trials = space, trials

    @property
    def reports(self) -> int:
        """How many reports there are."""
        found = experiment_with(self._trials)
        return 0 if found is None else found.coordinator.curves.reports

    def first(self, reports: int) -> Iterator[Curve]:
        """The trials as they were after so many reports."""
        found = experiment_with(self._trials)
        for curve in () if found is None else found.coordinator.curves.first(reports):
            try:
                yield curve._replace(params=self._space.flatten(curve.params))
            except SpaceError:
                continue
