"""scikit-learn: training loops over ``partial_fit`` and over ``warm_start`` that report to a trial.

Its estimators know no callbacks, so the loop is here. Needs ``pip install 'acetune[sklearn]'``.
"""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from acetune.callbacks._reporter import SaveEvery, require_trial
from acetune.core.errors import GoalError, MissingExtraError
from acetune.core.numbers import require_whole
from acetune.trial.trial import Trial

try:
    import sklearn.ensemble as ensemble
    from sklearn.base import is_classifier
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.metrics import get_scorer
    from sklearn.utils import gen_batches, shuffle
except ImportError as error:
    raise MissingExtraError("scikit-learn", "sklearn") from error

__all__ = ["CHECKPOINT", "partial_fit", "warm_start"]

CHECKPOINT = "estimator.pkl"  # in the folder that a resumed attempt finds as trial.checkpoint

Score: TypeAlias = Callable[[Any], float] | str

_BOOSTED_BY_ITERATIONS = (
    ensemble.HistGradientBoostingClassifier,
    ensemble.HistGradientBoostingRegressor,
)
# what they have fitted stays as it is when more is added
_GROWING = (
    *_BOOSTED_BY_ITERATIONS,
    ensemble.BaggingClassifier,
    ensemble.BaggingRegressor,
    ensemble.ExtraTreesClassifier,
    ensemble.ExtraTreesRegressor,
    ensemble.GradientBoostingClassifier,
    ensemble.GradientBoostingRegressor,
    ensemble.RandomForestClassifier,
    ensemble.RandomForestRegressor,
)


def partial_fit(
    trial: Trial,
    estimator: Any,
    X: Any,
    y: Any,
    *,
    steps: int,
    score: Score,
    validation: tuple[Any, Any] | None = None,
    classes: Any = None,
    batch_size: int | None = None,
    seed: int = 0,
    checkpoint_every: int | None = None,
) -> Any:
    """Train an estimator by ``partial_fit``, one pass over the rows per step. Returns it.

    Checks get the estimator. The best checkpoint is a deep copy.

    Parameters
    ----------
    trial:
        The trial.
    estimator:
        Trained in place; an attempt that goes on from a checkpoint trains what it finds there.
    X, y:
        The rows to train on.
    steps:
        How many passes: the last step.
    score:
        The objective: a function of the estimator, or the name of a scorer of scikit-learn. Those
        are better when greater: the study's mode is ``"max"``.
    validation:
        The rows and labels that a named scorer scores.
    classes:
        All classes; those in ``y`` by default, if the estimator is a classifier.
    batch_size:
        Rows in a call of ``partial_fit``, shuffled in each pass; all rows as they come by default.
    seed:
        For the shuffling.
    checkpoint_every:
        Save the estimator every this many steps, for an attempt after a failure.

    >>> from sklearn.linear_model import SGDClassifier
    >>> def train(trial):
    ...     model = SGDClassifier(alpha=trial.params["alpha"], random_state=0)
    ...     partial_fit(trial, model, X, y, steps=30, score="accuracy", validation=(X_val, y_val))
    """
    if not hasattr(estimator, "partial_fit"):
        raise GoalError(
            f"{type(estimator).__name__} has no partial_fit; use warm_start(...) if it has that"
        )
    if batch_size is not None:
        require_whole("batch_size", batch_size, 1)
    if classes is None and is_classifier(estimator):
        classes = np.unique(y)
    options = {} if classes is None else {"classes": classes}

    def one_pass(model: Any, step: int) -> bool:
        if batch_size is None:
            model.partial_fit(X, y, **options)
            return True
        rows, labels = shuffle(X, y, random_state=(seed + step) % 2**32)
        for batch in gen_batches(len(labels), batch_size):
            model.partial_fit(rows[batch], labels[batch], **options)
        return True

    measure = _measure(require_trial(trial), score, validation)
    return _train(trial, estimator, steps, one_pass, measure, copy.deepcopy, checkpoint_every)


def warm_start(
    trial: Trial,
    estimator: Any,
    X: Any,
    y: Any,
    *,
    steps: int,
    score: Score,
    validation: tuple[Any, Any] | None = None,
    parameter: str | None = None,
    step: int = 1,
    checkpoint_every: int | None = None,
) -> Any:
    """Train an estimator by ``fit`` with ``warm_start=True``, a little more a step. Returns it.

    Checks get the estimator. The best checkpoint of a forest, bagging or boosting shares its trees
    with the estimator, which only adds to them; of anything else it is a deep copy. A fit that
    makes less than it was asked for (converged, or stopped by the estimator's own rule) ends the
    trial by itself.

    Parameters
    ----------
    trial, estimator, X, y, score, validation, checkpoint_every:
        As in :func:`partial_fit`.
    steps:
        How many times ``fit`` is called: the last step.
    parameter:
        What is made larger: ``"n_estimators"`` or ``"max_iter"``, the one that it has by default.
        Where it counts from the first fit on (every ``n_estimators``, and ``max_iter`` of the
        histogram boosting) step n trains up to ``n * step``; elsewhere each fit adds ``step``.
    step:
        How much a step adds. A fit has costs of its own (rows are binned or predicted again), so
        that trees are best added by the ten.

    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> def train(trial):
    ...     model = HistGradientBoostingClassifier(**trial.params)
    ...     warm_start(trial, model, X, y, steps=20, step=10, score=lambda m: m.score(X_val, y_val))
    """
    known = estimator.get_params(deep=False)
    name = type(estimator).__name__
    if "warm_start" not in known:
        raise GoalError(f"{name} has no warm_start; its parameters are {sorted(known)}")
    if parameter is None:
        parameter = next((p for p in ("n_estimators", "max_iter") if p in known), "n_estimators")
    if parameter not in known:
        raise GoalError(f"{name} has no parameter {parameter!r}; it has {sorted(known)}")
    require_whole("step", step, 1)
    counts_all = parameter == "n_estimators" or isinstance(estimator, _BOOSTED_BY_ITERATIONS)
    estimator.set_params(warm_start=True)

    def more(model: Any, number: int) -> bool:
        wanted = number * step if counts_all else step
        model.set_params(**{parameter: wanted})
        with warnings.catch_warnings():
            if not counts_all:  # that it has not converged after one step is no news
                warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y)
        made = _made(model)
        return made is None or made >= wanted

    measure = _measure(require_trial(trial), score, validation)
    snapshot = _sharing_copy if isinstance(estimator, _GROWING) else copy.deepcopy
    return _train(trial, estimator, steps, more, measure, snapshot, checkpoint_every)


def _train(
    trial: Trial,
    estimator: Any,
    steps: int,
    more: Callable[[Any, int], bool],
    measure: Callable[[Any], float],
    snapshot: Callable[[Any], Any],
    checkpoint_every: int | None,
) -> Any:
    """Call ``more`` step by step until the trial is stopped or it says that there is no more."""
    require_whole("steps", steps, 1)
    saving = SaveEvery(checkpoint_every)
    if trial.checkpoint is not None:
        estimator = pickle.loads((trial.checkpoint / CHECKPOINT).read_bytes())

    def save(folder: Path) -> None:
        (folder / CHECKPOINT).write_bytes(pickle.dumps(estimator))

    for step in trial.steps(steps):
        goes_on = more(estimator, step)
        trial.report(
            measure(estimator),
            model=estimator,
            snapshot=snapshot,
            checkpoint=save if saving.due(step) else None,
        )
        if not goes_on:
            break
    return estimator


def _measure(
    trial: Trial, score: Score, validation: tuple[Any, Any] | None
) -> Callable[[Any], float]:
    """The objective as a function of the estimator."""
    if callable(score):
        if validation is not None:
            raise GoalError(
                "validation= goes with the name of a scorer; a function has its own rows"
            )
        return score
    try:
        scorer = get_scorer(score)
    except ValueError:
        raise GoalError(
            f"scikit-learn has no scorer {score!r}; sklearn.metrics.get_scorer_names() lists them"
        ) from None
    if validation is None:
        raise GoalError(f"score={score!r} needs rows to score: give validation=(X, y)")
    objective = trial.objective
    if objective.mode != "max":
        raise GoalError(
            f"scorers are better when greater, but the objective {objective.name!r} has mode="
            f"{objective.mode!r}; use mode='max', or a function as score"
        )
    return lambda model: float(scorer(model, *validation))


def _made(model: Any) -> int | None:
    """How many trees there are, or iterations the last fit has made; None where it does not say."""
    if hasattr(model, "estimators_"):
        return len(model.estimators_)
    made = getattr(model, "n_iter_", None)
    return None if made is None else int(np.max(made))


def _sharing_copy(model: Any) -> Any:
    """The estimator as it is now, with the same trees: its lists of them are its own."""
    found = copy.copy(model)
    for name, value in vars(model).items():
        if isinstance(value, list):
            setattr(found, name, list(value))
    return found
