"""What the callbacks for gradient boosting share: which metric is meant, and how rounds are told.

A step is a boosting round. Trees, once grown, do not change (DART apart): a checkpoint is a booster
and a number of rounds, and keeping one copies nothing but the scores of the validation rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from acetune.callbacks._trial import require_trial
from acetune.core.errors import ReportError
from acetune.core.goals import Objective
from acetune.policies.base import require_whole
from acetune.trial import Trial

Array: TypeAlias = npt.NDArray[np.float64]


class RoundModel(ABC):
    """A booster as it was after ``rounds`` rounds: what checks are called with.

    Light: making one copies nothing. Pickled, it is its trees up to that round and its scores.
    """

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self._scores: Array | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rounds={self.rounds})"

    @property
    def scores(self) -> Array:
        """Predictions for the validation rows at this round; computed when first asked for."""
        if self._scores is None:
            self._scores = self._read_scores()
        return self._scores

    @property
    @abstractmethod
    def booster(self) -> Any:
        """The booster; while training runs it may have more rounds than ``rounds``."""

    @abstractmethod
    def predict(self, data: Any, **options: Any) -> Any:
        """Predictions of this round's model for any rows."""

    @abstractmethod
    def freeze(self) -> Self:
        """Take down what further rounds would overwrite. Returns the model itself."""

    @abstractmethod
    def _read_scores(self) -> Array:
        """The scores, from the booster as it is now."""


class Rounds:
    """The rounds of one training, told to a trial as its steps.

    Parameters
    ----------
    trial:
        Whom they are told to.
    checkpoint_every:
        After how many steps the model is saved for another attempt, or None.
    """

    def __init__(self, trial: Trial, checkpoint_every: int | None) -> None:
        self.trial = require_trial(trial)
        if checkpoint_every is not None:
            require_whole("checkpoint_every", checkpoint_every, 1)
        self._checkpoint_every = checkpoint_every
        self._before = 0  # steps of the attempt that this one goes on from

    @property
    def objective(self) -> Objective:
        """What the trial optimises."""
        return self.trial._goals.objective

    def begin(self, inherited: int) -> int:
        """Training begins with ``inherited`` rounds from another model; the steps made before.

        A resumed attempt goes on after its checkpoint, if the model it was given has as many
        rounds. Rounds of a base model that every trial starts from are not steps.
        """
        last = self.trial._progress.last_step
        self._before = last if inherited >= last else 0
        return self._before

    def report(
        self, value: float, made: int, model: RoundModel, save: Callable[[Path], object]
    ) -> None:
        """The objective after ``made`` rounds of this training."""
        step = self._before + made
        saved = self._checkpoint_every is not None and step % self._checkpoint_every == 0
        self.trial.report(
            float(value),
            step=step,
            model=model,
            snapshot=type(model).freeze,
            checkpoint=save if saved else None,
        )


def choose_metric(
    found: Mapping[str, Collection[str]],
    data: str | None,
    metric: str | None,
    objective: str,
    *,
    training: str = "",
    option: str,
) -> tuple[str, str]:
    """Data set and metric that are the objective; what is not given is guessed if that is safe.

    Parameters
    ----------
    found:
        The metrics that the framework has evaluated, by data set.
    data, metric:
        What was asked for, or None.
    objective:
        The name of the study's objective.
    training:
        The data set that is not meant unless it is asked for.
    option:
        What the option for ``data`` is called.

    >>> choose_metric({"training": ["auc"], "valid_0": ["auc", "logloss"]}, None, None, "auc",
    ...     training="training", option="valid")
    ('valid_0', 'auc')
    """
    if data is None:
        held_out = [name for name in found if name != training]
        if len(held_out) != 1:
            raise ReportError(
                f"which data set is the objective measured on? Give {option}=, one of {list(found)}"
            )
        data = held_out[0]
    elif data not in found:
        raise ReportError(f"nothing was evaluated on {option}={data!r}; there is {list(found)}")
    metrics = list(found[data])
    if metric is None:
        if objective not in metrics and len(metrics) != 1:
            raise ReportError(
                f"which metric is the objective {objective!r}? Give metric=, one of {metrics}"
            )
        metric = objective if objective in metrics else metrics[0]
    elif metric not in metrics:
        raise ReportError(f"no metric {metric!r} was evaluated on {data!r}; there is {metrics}")
    return data, metric
