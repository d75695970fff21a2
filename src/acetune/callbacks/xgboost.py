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
from acetune.callbacks._boosting import ANOTHER, Array, Rounds, choose_metric, require_direction
from acetune.core.errors import GoalError, MissingExtraError, ReportError
from acetune.core.report_values import require_total_steps
from acetune.trial.trial import Trial

try:
    import xgboost as xgb
except ImportError as error:
    raise MissingExtraError("XGBoost", "xgboost") from error

__all__ = ["CHECKPOINT", "ReportCallback", "RoundModel"]

CHECKPOINT = "model.ubj"  # in the folder that a resumed attempt finds as trial.checkpoint

# of XGBoost's own metrics; what stands after @ is an option
_RISING = {"ams", "auc", "aucpr", "interval-regression-accuracy", "map", "ndcg", "pre"}


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

    def __init__(
        self, booster: Any, rounds: int, dvalid: Any, missing: float, *, trees_change: bool
    ) -> None:
        super().__init__(booster, rounds)
        self._dvalid, self._missing, self._trees_change = dvalid, missing, trees_change

    def predict(self, data: Any, **options: Any) -> Any:
        """As ``Booster.predict``, with this many rounds.

        Rows become a ``DMatrix`` first, with ``ReportCallback(missing=...)``.
        """
        if not isinstance(data, xgb.DMatrix):
            data = xgb.DMatrix(data, missing=self._missing, enable_categorical=True)
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
    missing:
        The value in rows that stands for a missing one, for ``model.predict(X)``: what the
        estimator or the ``DMatrix`` was given. XGBoost does not tell it to callbacks.
    checkpoint_every:
        Save the model every this many rounds, for an attempt after a failure: give the training
        :attr:`xgb_model` and :meth:`rounds_left`.

    >>> import xgboost as xgb
    >>> def train(trial):
    ...     report = ReportCallback(trial, total_steps=100, dvalid=dvalid, checkpoint_every=20)
    ...     xgb.train(
    ...         {**trial.params, "objective": "binary:logistic", "eval_metric": "auc"},
    ...         dtrain,
    ...         num_boost_round=report.rounds_left(100),
    ...         evals=[(dvalid, "valid")],
    ...         xgb_model=report.xgb_model,
    ...         callbacks=[report],
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
        missing: float = np.nan,
        checkpoint_every: int | None = None,
    ) -> None:
        super().__init__()
        if dvalid is not None and not isinstance(dvalid, xgb.DMatrix):
            raise GoalError(f"dvalid must be an xgboost.DMatrix, got a {type(dvalid).__name__}")
        self._rounds = Rounds(trial, checkpoint_every, CHECKPOINT)
        self._total_steps = require_total_steps(total_steps)
        self._wanted, self._dvalid, self._missing = (data, metric), dvalid, missing
        self._chosen: tuple[str, str] | None = None
        self._booster: Any = None
        self._log: Mapping[str, Mapping[str, list[float]]] = {}
        self._made = 0  # rounds reported
        self._trees_change = False

    @property
    def xgb_model(self) -> Path | None:
        """The model that an earlier attempt has saved, for ``xgb_model=``; None in a first one."""
        return self._rounds.saved_model

    def rounds_left(self, total_steps: int) -> int:
        """How many of all rounds are still to be made, for ``num_boost_round=``.

        All of them in a first attempt; after a failure those after :attr:`xgb_model`.
        """
        return self._rounds.left(total_steps)

    def before_training(self, model: Any) -> Any:
        """Training begins."""
        if not isinstance(model, xgb.Booster):
            raise ReportError(
                "xgb.cv trains several boosters at once, and a trial has one model; use xgb.train"
            )
        if self._booster is not None:
            raise ReportError(ANOTHER)
        self._booster = model
        self._rounds.begin(model.num_boosted_rounds())
        self._rounds.declare(self._total_steps)
        return model

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """A round begins."""
        self._booster, self._log = model, evals_log
        self._rounds.require_room(epoch + 1)
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
        data, metric = self._chosen = self._chosen or self._choose()
        return self._log[data][metric]

    def _choose(self) -> tuple[str, str]:
        """After the first round: which values are the objective, and what the booster is."""
        objective = self._rounds.trial.objective
        # after one round a name has one value, unless it is that of two metrics
        found = {
            data: [metric for metric, values in evaluated.items() for _ in values]
            for data, evaluated in self._log.items()
        }
        data, metric = choose_metric(found, *self._wanted, objective.name, option="data")
        config = json.loads(self._booster.save_config())["learner"]
        if metric in {own["name"] for own in config["metrics"]}:  # not one of the user's
            require_direction("XGBoost", metric, metric.split("@")[0] in _RISING, objective)
        self._trees_change = changes_trees(config["gradient_booster"])
        return data, metric

    def _report(self) -> None:
        values, booster = self._values(), self._booster
        self._made = len(values)
        model = RoundModel(
            booster,
            booster.num_boosted_rounds(),
            self._dvalid,
            self._missing,
            trees_change=self._trees_change,
        )
        self._rounds.report(values[-1], self._made, model, booster.save_model)


def changes_trees(found: Mapping[str, Any]) -> bool:
    """Whether later rounds change what earlier ones have made, so that a checkpoint is a copy."""
    if found["name"] != "gbtree":  # dart and gblinear
        return True
    process: str = found["gbtree_train_param"]["process_type"]
    return process != "default"  # "update" works on trees that are there
