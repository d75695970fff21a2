"""XGBoost: a callback for ``xgb.train`` and for the scikit-learn classes.

Needs ``pip install 'acetune[xgboost]'``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from acetune.callbacks import _boosting
from acetune.callbacks._boosting import Array, Rounds, choose_metric
from acetune.core.errors import GoalError, MissingExtraError, ReportError
from acetune.trial import Trial
from acetune.validation import require_total_steps

try:
    import xgboost as xgb
except ImportError as error:
    raise MissingExtraError("XGBoost", "xgboost") from error

__all__ = ["CHECKPOINT", "ReportCallback", "RoundModel"]

CHECKPOINT = "model.ubj"  # in the folder that a resumed attempt finds as trial.checkpoint


class RoundModel(_boosting.RoundModel):
    """An XGBoost model as it was after ``rounds`` rounds: what checks are called with.

    Attributes
    ----------
    rounds:
        How many rounds it has, those of an ``xgb_model`` included.
    scores:
        ``Booster.predict`` for ``ReportCallback(dvalid=...)``: probabilities for the logistic and
        softprob objectives, rows by classes for several classes.
    booster:
        The ``xgboost.Booster``.
    """

    def __init__(self, booster: Any, rounds: int, dvalid: Any, *, trees_change: bool) -> None:
        super().__init__(rounds)
        self._booster, self._dvalid, self._trees_change = booster, dvalid, trees_change

    @property
    def booster(self) -> Any:
        """The booster; while training runs it may have more rounds than ``rounds``."""
        return self._booster

    def predict(self, data: Any, **options: Any) -> Any:
        """As ``Booster.predict``, with this many rounds; rows become a ``DMatrix`` first."""
        if not isinstance(data, xgb.DMatrix):
            data = xgb.DMatrix(data, enable_categorical=True)
        if self._booster.num_boosted_rounds() == self.rounds:
            return self._booster.predict(data, **options)
        if self._trees_change:
            raise ReportError(
                f"the model of round {self.rounds} was not kept: dart and gblinear change what "
                "earlier rounds have made"
            )
        return self._booster.predict(data, iteration_range=(0, self.rounds), **options)

    def freeze(self) -> Self:
        """Take down the scores; with dart and gblinear the model as well."""
        if self._dvalid is not None:
            _ = self.scores
        if self._trees_change:
            self._booster, self._trees_change = self._booster.copy(), False
        return self

    def _read_scores(self) -> Array:
        if self._dvalid is None:
            raise ReportError(
                "scores need the rows: ReportCallback(trial, dvalid=...) with the DMatrix that "
                "training evaluates; or let the check call model.predict(X)"
            )
        return np.array(self.predict(self._dvalid))

    def __getstate__(self) -> dict[str, Any]:
        self.freeze()
        trees = self._booster
        if trees.num_boosted_rounds() != self.rounds:
            trees = trees[: self.rounds]
        return {**self.__dict__, "_booster": trees, "_dvalid": None}


class ReportCallback(xgb.callback.TrainingCallback):  # type: ignore[misc]  # xgboost is not typed
    """Reports each round of an XGBoost training to a trial, and ends it when the trial is stopped.

    For ``xgb.train(..., callbacks=[...])`` and ``XGBClassifier(callbacks=[...])``. Checks get a
    :class:`RoundModel`.

    Parameters
    ----------
    trial:
        The trial.
    total_steps:
        The number of rounds, ``num_boost_round`` or ``n_estimators``, those of earlier attempts
        included: XGBoost does not tell it to callbacks. Not needed if the trial knows it.
    data:
        The name in ``evals`` (``validation_0`` in the scikit-learn classes) that the objective is
        measured on; may be left out where there is one.
    metric:
        The metric that is the objective; may be left out where there is one, or where one has the
        objective's name.
    dvalid:
        The rows that ``model.scores`` is about. For a ``DMatrix`` of ``evals`` it is what XGBoost
        has predicted already; any other is predicted from the first tree on.
    checkpoint_every:
        Save the model every so many rounds, for an attempt after a failure:
        ``xgb_model=trial.checkpoint / "model.ubj"``.

    >>> import xgboost as xgb
    >>> def train(trial):
    ...     xgb.train(
    ...         {**trial.params, "objective": "binary:logistic", "eval_metric": "auc"},
    ...         dtrain,
    ...         num_boost_round=100,
    ...         evals=[(dvalid, "valid")],
    ...         callbacks=[ReportCallback(trial, total_steps=100, dvalid=dvalid)],
    ...     )
    """

    def __init__(
        self,
        trial: Trial,
        *,
        total_steps: int | None = None,
        data: str | None = None,
        metric: str | None = None,
        dvalid: Any = None,
        checkpoint_every: int | None = None,
    ) -> None:
        super().__init__()
        if dvalid is not None and not isinstance(dvalid, xgb.DMatrix):
            raise GoalError(f"dvalid must be an xgboost.DMatrix, got a {type(dvalid).__name__}")
        self._rounds = Rounds(trial, checkpoint_every)
        self._total_steps = require_total_steps(total_steps)
        self._wanted, self._dvalid = (data, metric), dvalid
        self._chosen: tuple[str, str] | None = None
        self._booster: Any = None
        self._log: Mapping[str, Mapping[str, list[float]]] = {}
        self._made = 0  # rounds reported
        self._trees_change = False

    def before_training(self, model: Any) -> Any:
        """Training begins."""
        if not isinstance(model, xgb.Booster):
            raise ReportError(
                "xgb.cv trains several boosters at once, and a trial has one model; use xgb.train"
            )
        if self._booster is not None:
            raise ReportError(
                "this ReportCallback has seen another training; make one for each training"
            )
        self._booster = model
        self._rounds.begin(model.num_boosted_rounds())
        self._rounds.trial.declare(self._total_steps)
        return model

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """A round begins."""
        self._booster, self._log = model, evals_log
        self._rounds.trial.start_step()
        return False

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """A round has been made and evaluated; true ends training."""
        self._report()
        return self._rounds.trial.should_stop

    def after_training(self, model: Any) -> Any:
        """Training has ended.

        XGBoost asks no further callback about a round once one has said stop: one that stands
        before this one leaves the last round to be reported here. ``model`` may have been cut to
        its best rounds by then; the booster that was trained is still whole.
        """
        if self._log and len(self._values()) > self._made:
            self._report()
        return model

    def _values(self) -> list[float]:
        """The objective so far, round by round."""
        if not self._log:
            raise ReportError(
                "XGBoost evaluated nothing: give xgb.train evals=[(dvalid, 'valid')], or fit "
                "eval_set=[...], and a metric"
            )
        if self._chosen is None:
            name = self._rounds.objective.name
            self._chosen = choose_metric(self._log, *self._wanted, name, option="data")
            self._trees_change = changes_trees(self._booster)
        data, metric = self._chosen
        return self._log[data][metric]

    def _report(self) -> None:
        values, booster = self._values(), self._booster
        self._made = len(values)
        model = RoundModel(
            booster, booster.num_boosted_rounds(), self._dvalid, trees_change=self._trees_change
        )
        self._rounds.report(values[-1], self._made, model, lambda folder: save(booster, folder))


def changes_trees(booster: Any) -> bool:
    """Whether later rounds change what earlier ones have made, so that a checkpoint is a copy."""
    found = json.loads(booster.save_config())["learner"]["gradient_booster"]
    if found["name"] != "gbtree":  # dart and gblinear
        return True
    process: str = found["gbtree_train_param"]["process_type"]
    return process != "default"  # "update" works on trees that are there


def save(booster: Any, folder: Path) -> None:
    """Write the model for an attempt that goes on from it."""
    booster.save_model(folder / CHECKPOINT)
