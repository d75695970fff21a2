"""The sampler: the searcher that learns from every report, as Optuna knows samplers."""

from __future__ import annotations

import os
import secrets
import threading
import zlib
from datetime import datetime
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

from acetune.core.errors import GoalError
from acetune.core.numbers import as_whole
from acetune.optuna._study_access import place
from acetune.optuna._study_curves import OptunaCurves, ParameterSpace, known_parameters
from acetune.searchers import Searcher, make_searcher


class _Learner(NamedTuple):
    """A searcher for the parameters that a study had when it was made."""

    begun: datetime | None  # when its first trial began: another study may get its place
    parameters: dict[str, BaseDistribution]
    space: ParameterSpace
    searcher: Searcher


class AceSampler(BaseSampler):
    """Suggest parameters by what trials report while they run, and by every check of a limit.

    It is the searcher ``"forest"`` of :func:`acetune.tune`, which learns from each intermediate
    value and each check at its step, also of trials that were pruned, failed or still run. With
    an :class:`AcePruner` it sees what trials of :func:`acetune.optuna.trial` have measured. Without
    one it learns from intermediate values, final values and ``trial.set_constraint``.

    Not every trial needs to have every parameter: that one is missing is learned like a value.
    Parameters that no trial has had yet are drawn at random, and so are the first trials, until 12
    have reported.

    What it suggests depends only on what the study's storage holds, on the seed and on the number
    of the trial, so that any number of processes may work on a study, each with a sampler of its
    own, and the same seed does no harm.

    Parameters
    ----------
    seed:
        Makes the suggestions repeatable where trials are run one after another.

    >>> study = optuna.create_study(sampler=AceSampler(seed=1))
    >>> study.optimize(lambda trial: trial.suggest_float("x", -1, 1) ** 2, n_trials=30)
    >>> study.best_value < 0.01
    True
    """

    def __init__(self, *, seed: int | None = None) -> None:
        given = secrets.randbits(31) if seed is None else seed
        self.seed = as_whole(given, "seed", 0, GoalError)
        self._forget()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(seed={self.seed})"

    def __getstate__(self) -> dict[str, Any]:
        """All but what was learned: another process learns for itself."""
        return {"seed": self.seed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def reseed_rng(self) -> None:
        """Nothing to do: what is random follows from the number of the trial.

        Optuna asks for another seed so that its workers do not get the same suggestions.
        """

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Every parameter that a trial of the study has had."""
        if len(study.directions) != 1:
            raise GoalError(
                f"study {study.study_name!r} has {len(study.directions)} objectives; AceSampler "
                "takes one, and limits on the rest: make them constraints"
            )
        return known_parameters(_others(study, trial))

    def sample_relative(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        search_space: dict[str, BaseDistribution],
    ) -> dict[str, Any]:
        """Suggest values for all parameters that are known."""
        if not search_space:
            return {}
        if self._process != os.getpid():
            self._forget()
        trials = _others(study, trial)
        with self._lock:
            learner = self._learner(study, trials, search_space)
            learner.searcher.watch(OptunaCurves(study, trials, learner.space.encode))
            return learner.space.decode(learner.searcher.ask(trial.number))

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Draw a parameter at random that no trial has had yet."""
        about = [self.seed, trial.number, zlib.crc32(param_name.encode())]
        seed = int(np.random.default_rng(about).integers(2**31))
        sampler = RandomSampler(seed=seed)
        return sampler.sample_independent(study, trial, param_name, param_distribution)

    # -- inside ----------------------------------------------------------------------------------

    def _learner(
        self,
        study: optuna.Study,
        trials: list[FrozenTrial],
        parameters: dict[str, BaseDistribution],
    ) -> _Learner:
        storage, study_id = place(study)
        learners = self._learners.setdefault(storage, {})
        begun = trials[0].datetime_start if trials else None
        known = learners.get(study_id)
        if known is None or (known.begun, known.parameters) != (begun, parameters):
            space = ParameterSpace(parameters)
            searcher = make_searcher("forest", space.space, seed=self.seed)
            known = learners[study_id] = _Learner(begun, parameters, space, searcher)
        return known

    def _forget(self) -> None:
        self._process = os.getpid()  # a forked one must not wait for locks of its parent
        self._lock = threading.Lock()
        self._learners: WeakKeyDictionary[BaseStorage, dict[int, _Learner]] = WeakKeyDictionary()


def _others(study: optuna.Study, trial: FrozenTrial) -> list[FrozenTrial]:
    """All trials that have begun, but the one that is asked for."""
    trials = study.get_trials(deepcopy=False)
    return [
        other
        for other in trials
        if other.number != trial.number and other.state is not TrialState.WAITING
    ]
