"""CatBoost: a training loop that reports to a trial.

Its callbacks see metrics and no model, so the loop is here. Needs
``pip install 'acetune[catboost]'``.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from acetune.callbacks._boosting import choose_metric, require_direction
from acetune.callbacks._reporter import SaveEvery, require_trial
from acetune.core.errors import GoalError, MissingExtraError, ReportError
from acetune.core.goals import Objective
from acetune.core.numbers import require_whole
from acetune.trial.trial import Trial

try:
    import catboost as cb
    from catboost._catboost import is_maximizable_metric
except ImportError as error:
    raise MissingExtraError("CatBoost", "catboost") from error

__all__ = ["CHECKPOINT", "fit"]

CHECKPOINT = "training.cbsnapshot"  # in the folder that a resumed attempt finds as trial.checkpoint

_ITERATIONS = ("iterations", "n_estimators", "num_boost_round", "num_trees")
_OURS = (
    "init_model",
    "metric_period",
    "save_snapshot",
    "snapshot_file",
    "snapshot_interval",
    "use_best_model",
)
_LOGGING = ("logging_level", "silent", "verbose", "verbose_eval")


def fit(
    trial: Trial,
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    eval_set: Any,
    steps: int,
    step: int = 10,
    data: str | None = None,
    metric: str | None = None,
    checkpoint_every: int | None = None,
    **options: Any,
) -> Any:
    """Train an estimator of CatBoost, a few rounds a step, until its trial is stopped.

    Each step goes on exactly where the last one ended, from a snapshot: the model is the one that a
    single ``fit`` would have made. Checks get an estimator of its own for each step, with the trees
    so far. Returns the last one. CatBoost's early stopping ends the trial as it would end ``fit``.

    Parameters
    ----------
    trial:
        The trial.
    estimator:
        What to train, a ``CatBoostClassifier`` for example. It is not changed: a copy is trained.
    X, y:
        The rows to train on, or a ``Pool``. A quantized ``Pool`` is read once, other rows again in
        each step.
    eval_set:
        As for ``fit``: the rows that the objective is measured on.
    steps:
        How many steps: the last one.
    step:
        How many rounds a step has. A step has costs of its own, so that one round is too few.
    data:
        ``"validation"``, or with several sets ``"validation_0"`` and so on; may be left out where
        there is one. ``"learn"`` for the rows to train on.
    metric:
        The metric that is the objective, by CatBoost's name. Left out: the one with the
        objective's name, or else the estimator's ``eval_metric``, or else the only one.
    checkpoint_every:
        Save the training every this many steps, for an attempt after a failure.
    options:
        For the estimator's ``fit``: ``cat_features``, ``early_stopping_rounds``, ...

    >>> from catboost import CatBoostClassifier
    >>> def train(trial):
    ...     model = CatBoostClassifier(**trial.params, eval_metric="AUC", thread_count=1)
    ...     fit(trial, model, X, y, eval_set=(X_val, y_val), steps=20, step=10)
    """
    require_trial(trial)
    saving = SaveEvery(checkpoint_every)
    require_whole("steps", steps, 1)
    require_whole("step", step, 1)
    params = _params(estimator, options, steps * step)
    chosen: tuple[str, str] | None = None
    with tempfile.TemporaryDirectory(prefix="acetune-catboost-") as folder:
        snapshot, before = Path(folder) / CHECKPOINT, 0
        if trial.checkpoint is not None:
            shutil.copyfile(trial.checkpoint / CHECKPOINT, snapshot)
            before = trial.last_step * step

        def save(into: Path) -> None:
            shutil.copyfile(snapshot, into / CHECKPOINT)

        model = estimator
        for number in trial.steps(steps):
            rounds_made = _Rounds(before, number * step)
            model = type(estimator)(**params, train_dir=folder)
            model.fit(
                X,
                y,
                eval_set=eval_set,
                **options | {"callbacks": [*options.get("callbacks", ()), rounds_made]},
                save_snapshot=True,
                snapshot_file=str(snapshot),
                snapshot_interval=10**9,  # seconds: at the end of each fit is enough
                use_best_model=False,
            )
            before = rounds_made.done
            if not rounds_made.metrics:  # CatBoost's early stopping has ended training before
                break
            if chosen is None:
                chosen = _choose(
                    rounds_made.metrics, data, metric, params.get("eval_metric"), trial.objective
                )
            trial.report(
                rounds_made.metrics[chosen[0]][chosen[1]][-1],
                model=model,
                snapshot=_unchanged,
                checkpoint=save if saving.due(number) else None,
            )
            if before < number * step:
                break
    return model


class _Rounds:
    """CatBoost's view of one step: it ends training after the step's last round."""

    def __init__(self, before: int, last: int) -> None:
        self._before, self._last = before, last
        self.done = before
        self.metrics: Mapping[str, Mapping[str, list[float]]] = {}

    def after_iteration(self, info: Any) -> bool:
        if info.iteration <= self._before:
            raise ReportError(
                f"CatBoost did not go on after round {self._before}: an attempt must be given the "
                "parameters and rows of the first one"
            )
        self.done, self.metrics = info.iteration, info.metrics
        return bool(info.iteration < self._last)


def _params(estimator: Any, options: Mapping[str, Any], rounds: int) -> dict[str, Any]:
    """The parameters of the estimators that are trained."""
    if not isinstance(estimator, cb.CatBoost):
        raise GoalError(f"estimator must be one of CatBoost's, got a {type(estimator).__name__}")
    if taken := sorted({*_OURS} & {*options}):
        raise GoalError(f"{taken[0]} cannot be given: acetune sets it, to train in steps")
    params = dict(estimator.get_params())
    if str(params.get("task_type", "CPU")).upper() != "CPU":
        raise GoalError("CatBoost has no callbacks on GPUs; use task_type='CPU'")
    for name in _ITERATIONS:
        asked = params.pop(name, None)
        if asked not in (None, rounds):
            raise GoalError(
                f"{name}={asked}, but steps times step is {rounds}; leave {name} out, or let them "
                "agree"
            )
    for name in (*_OURS, "train_dir", "allow_writing_files"):
        params.pop(name, None)
    if not any(name in params or name in options for name in _LOGGING):
        params["verbose"] = False
    return {**params, "iterations": rounds}


def _choose(
    metrics: Mapping[str, Mapping[str, list[float]]],
    data: str | None,
    metric: str | None,
    eval_metric: Any,
    objective: Objective,
) -> tuple[str, str]:
    """After the first step: which values are the objective."""
    found = {name: list(values) for name, values in metrics.items()}
    names = {name for evaluated in found.values() for name in evaluated}
    if metric is None and objective.name not in names and eval_metric in names:
        metric = eval_metric
    chosen = choose_metric(found, data, metric, objective.name, training="learn", option="data")
    try:
        rises = is_maximizable_metric(chosen[1])
    except cb.CatBoostError:  # one of the user's
        return chosen
    require_direction("CatBoost", chosen[1], rises, objective)
    return chosen


def _unchanged(model: Any) -> Any:
    """The snapshot of a step: its estimator, which later steps do not train."""
    return model
