"""What the callbacks for gradient boosting share: which metric is meant, and how rounds are told.

A step is a boosting round. Trees, once grown, do not change (DART apart): a checkpoint is a booster
and a number of rounds, and keeping one copies nothing but the scores of the validation rows.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from acetune.callbacks._reporter import SaveEvery, require_trial
from acetune.core.errors import ReportError
from acetune.core.goals import Objective
from acetune.core.numbers import require_whole
from acetune.trial.trial import Trial

Array: TypeAlias = npt.NDArray[np.float64]

SAVED_AT = "rounds.json"  # beside the model in a checkpoint
ANOTHER = "this ReportCallback has seen another training; make one for each training"


class RoundModel(ABC):
    """A booster as it was after ``rounds`` rounds: what checks are called with.

    Light: making one copies nothing. Pickled, it is its trees up to that round and its scores.
    """

    def __init__(self, booster: Any, rounds: int) -> None:
        self._booster, self.rounds = booster, rounds
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
    def booster(self) -> Any:
        """The booster; while training runs it may have more rounds than ``rounds``."""
        return self._booster

    @abstractmethod
    def predict(self, data: Any, **options: Any) -> Any:
        """Predictions of this round's model for any rows."""

    @abstractmethod
    def freeze(self) -> Self:
        """Take down what further rounds would overwrite. Returns the model itself."""

    @abstractmethod
    def _read_scores(self) -> Array:
        """The scores, from the booster as it is now."""


class SavedAt(NamedTuple):
    """Where a saved model stands."""

    step: int
    rounds: int  # by the framework's count: a round may add no tree, a base model has rounds too


class Rounds:
    """The rounds of one training, told to a trial as its steps.

    Parameters
    ----------
    trial:
        Whom they are told to.
    checkpoint_every:
        After how many steps the model is saved for another attempt, or None.
    model_file:
        What the model is called in a checkpoint.
    """

    def __init__(self, trial: Trial, checkpoint_every: int | None, model_file: str) -> None:
        self.trial = require_trial(trial)
        self._saving, self._model_file = SaveEvery(checkpoint_every), model_file
        self._saved_at = _read_saved_at(trial.checkpoint)
        self._before = 0  # steps of the attempt that this one goes on from
        self._total: int | None = None

    @property
    def saved_model(self) -> Path | None:
        """The model that an earlier attempt has saved; None in a first attempt."""
        if self.trial.checkpoint is None or self._saved_at is None:
            return None
        return self.trial.checkpoint / self._model_file

    def left(self, total_steps: int) -> int:
        """How many of the rounds are still to be made after ``saved_model``."""
        require_whole("total_steps", total_steps, 1)
        return max(0, total_steps - (self._saved_at.step if self._saved_at else 0))

    def begin(self, inherited: int) -> int:
        """Training begins with ``inherited`` rounds from another model; the steps made before.

        An attempt goes on after its checkpoint if that is the model it was given. Rounds of a base
        model that every trial starts from are not steps.
        """
        if self._saved_at is not None and inherited == self._saved_at.rounds:
            self._before = self._saved_at.step
        return self._before

    def declare(self, total_steps: int | None) -> None:
        """Tell the trial its last step, if it is known."""
        self._total = total_steps
        self.trial.declare(total_steps)

    def require_room(self, made: int) -> None:
        """An error where round ``made`` of this training is one more than there should be."""
        if self._total is not None and self._before + made > self._total:
            earlier = f", {self._before} of them in an earlier attempt" if self._before else ""
            raise ReportError(
                f"total_steps={self._total}, but training goes on after {self._total} rounds"
                f"{earlier}; give total_steps= the number of all rounds, and the training "
                f"rounds_left({self._total}) or fewer"
            )

    def report(
        self, value: float, made: int, model: RoundModel, save: Callable[[Path], object]
    ) -> None:
        """The objective after ``made`` rounds of this training."""
        now = SavedAt(self._before + made, model.rounds)

        def write(folder: Path) -> None:
            save(folder / self._model_file)
            (folder / SAVED_AT).write_text(json.dumps(now._asdict()))

        # after the last round there is nothing to go on with, and LightGBM refuses to make none
        saved = self._saving.due(now.step) and now.step != self._total
        self.trial.report(
            float(value),
            step=now.step,
            model=model,
            snapshot=type(model).freeze,
            checkpoint=write if saved else None,
        )


def _read_saved_at(folder: Path | None) -> SavedAt | None:
    """Where the model of a checkpoint stands; None if no callback of this kind has saved one."""
    if folder is None or not (folder / SAVED_AT).exists():
        return None
    return SavedAt(**json.loads((folder / SAVED_AT).read_text()))


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
        The metrics that the framework has evaluated in a round, by data set.
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
    metrics = Counter(found[data])
    if metric is None:
        if objective not in metrics and len(metrics) != 1:
            raise ReportError(
                f"which metric is the objective {objective!r}? Give metric=, one of {list(metrics)}"
            )
        metric = objective if objective in metrics else next(iter(metrics))
    elif metric not in metrics:
        known = list(metrics)
        raise ReportError(f"no metric {metric!r} was evaluated on {data!r}; there is {known}")
    if metrics[metric] > 1:
        raise ReportError(
            f"{metric!r} is evaluated more than once on {data!r} in a round: two metrics, or two "
            "data sets, have the same name; rename one"
        )
    return data, metric


def require_direction(framework: str, metric: str, higher: bool, objective: Objective) -> None:
    """The framework and the study agree on whether more of a metric is better."""
    if higher != (objective.mode == "max"):
        raise ReportError(
            f"for {framework} {metric!r} is better when {'higher' if higher else 'lower'}, but "
            f"the objective {objective.name!r} has mode={objective.mode!r}"
        )
