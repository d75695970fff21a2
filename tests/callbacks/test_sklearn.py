"""The loops over scikit-learn's estimators, with the real estimators."""

from __future__ import annotations

import pickle
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, SGDClassifier, SGDRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC

import acetune
from acetune import Constraint
from acetune.callbacks.sklearn import partial_fit, warm_start
from acetune.core.errors import AcetuneError
from acetune.testing import check_callback
from callbacks.boosting import AT_END, EVERY_STEP, Engine, Notes, Ticking, make_trial, rows

X, Y, XV, YV = rows()
T = 6


def log_loss(model: Any) -> float:
    return -float(np.mean(np.log(model.predict_proba(XV)[np.arange(len(YV)), YV] + 1e-9)))


LEARNERS: dict[str, tuple[Any, Any]] = {
    "sgd": (partial_fit, SGDClassifier(loss="log_loss", random_state=0)),
    "mlp": (partial_fit, MLPClassifier((5,), random_state=0)),
    "warm sgd": (warm_start, SGDClassifier(loss="log_loss", random_state=0)),
    "warm mlp": (warm_start, MLPClassifier((5,), random_state=0)),
    "logistic": (warm_start, LogisticRegression(C=100.0)),
    "forest": (warm_start, RandomForestClassifier(random_state=0, max_depth=4)),
    "extra": (warm_start, ExtraTreesClassifier(random_state=0, max_depth=4)),
    "bagging": (warm_start, BaggingClassifier(random_state=0)),
    "boosting": (warm_start, GradientBoostingClassifier(random_state=0, subsample=0.8)),
    "histogram": (warm_start, HistGradientBoostingClassifier(random_state=0)),
}


def fresh(name: str) -> tuple[Any, Any]:
    fit, model = LEARNERS[name]
    return fit, pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize("name", LEARNERS)
def test_each_step_is_reported_and_its_model_can_be_kept(tmp_path: Path, name: str) -> None:
    """A snapshot predicts as the estimator did then, when training has gone on; so does its file.

    The snapshots are what the trial was given for its best checkpoints, which is all of them here.
    """
    fit, model = fresh(name)
    engine = Engine(tmp_path)
    notes = Notes(lambda found: found.predict_proba(XV))
    trial = make_trial(engine, objective="step", check=notes, policy=EVERY_STEP)
    snapshots: list[Any] = []
    engine.keep_model = lambda step, found: snapshots.append(found)  # type: ignore[method-assign]
    steps = iter(range(1, T + 1))
    trained = fit(trial, model, X, Y, steps=T, score=lambda _: next(steps))

    assert engine.steps == list(range(1, T + 1))
    assert engine.total_steps == T
    assert trained is model
    assert len({found.tobytes() for found in notes.seen}) == T  # it learns in each step
    for snapshot, predicted in zip(snapshots, notes.seen, strict=True):
        np.testing.assert_array_equal(snapshot.predict_proba(XV), predicted)
        read = pickle.loads(pickle.dumps(snapshot))
        np.testing.assert_array_equal(read.predict_proba(XV), predicted)


@pytest.mark.parametrize("name", LEARNERS)
def test_it_keeps_to_the_protocol(name: str) -> None:
    def train(trial: acetune.Trial) -> None:
        fit, model = fresh(name)
        fit(trial, model, X, Y, steps=3, score=log_loss)

    check_callback(train, lambda model: float(np.std(model.predict_proba(XV))))


@pytest.mark.parametrize("name", ["forest", "boosting", "histogram", "bagging"])
def test_trees_are_those_of_a_single_fit(tmp_path: Path, name: str) -> None:
    fit, model = fresh(name)
    trained = fit(make_trial(Engine(tmp_path)), model, X, Y, steps=3, step=4, score=lambda _: 0.0)
    _, other = fresh(name)
    other.set_params(**{"max_iter" if name == "histogram" else "n_estimators": 12}).fit(X, Y)
    np.testing.assert_allclose(trained.predict_proba(XV), other.predict_proba(XV), atol=1e-9)


def test_trees_are_shared_with_the_checkpoints(tmp_path: Path) -> None:
    for name, trees in (("forest", "estimators_"), ("histogram", "_predictors")):
        fit, model = fresh(name)
        engine, kept = Engine(tmp_path), list[Any]()
        engine.keep_model = lambda step, found: kept.append(found)  # type: ignore[method-assign]  # noqa: B023
        values = iter([0.1, 0.2, 0.15])
        fit(
            make_trial(engine, check=Notes()),
            model,
            X,
            Y,
            steps=3,
            step=2,
            score=lambda _: next(values),  # noqa: B023
        )
        assert [len(getattr(found, trees)) for found in kept] == [2, 4]
        assert getattr(kept[1], trees)[3] is getattr(model, trees)[3]


def test_batches_cover_every_row_once_in_a_pass(tmp_path: Path) -> None:
    seen: list[tuple[int, float]] = []

    class Spy(GaussianNB):
        def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Any:
            seen.append((len(y), float(np.asarray(X)[:, 0].sum())))
            return super().partial_fit(X, y, classes=classes)

    trial = make_trial(Engine(tmp_path))
    partial_fit(trial, Spy(), X, Y, steps=2, score=lambda _: 0.0, batch_size=100)
    assert [n for n, _ in seen] == [100, 100, 40] * 2
    for start in (0, 3):
        assert sum(total for _, total in seen[start : start + 3]) == pytest.approx(X[:, 0].sum())
    assert seen[0] != seen[3]  # shuffled anew


@pytest.mark.parametrize("convert", [pd.DataFrame, csr_matrix])
def test_rows_may_be_frames_and_sparse(tmp_path: Path, convert: Any) -> None:
    engine = Engine(tmp_path)
    partial_fit(
        make_trial(engine),
        SGDClassifier(random_state=0),
        convert(X),
        pd.Series(Y) if convert is pd.DataFrame else Y,
        steps=2,
        score="accuracy",
        validation=(convert(XV), YV),
        batch_size=50,
    )
    assert engine.steps == [1, 2]


def test_a_named_scorer_is_scikit_learns(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    trained = partial_fit(
        make_trial(engine),
        SGDClassifier(random_state=0),
        X,
        Y,
        steps=3,
        score="accuracy",
        validation=(XV, YV),
    )
    assert engine.values[-1] == trained.score(XV, YV)


def test_regressors_have_no_classes(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    partial_fit(
        make_trial(engine, mode="min"),
        SGDRegressor(random_state=0),
        X,
        X[:, 0],
        steps=3,
        score=lambda model: float(np.mean((model.predict(XV) - XV[:, 0]) ** 2)),
    )
    assert engine.values[2] < engine.values[0]


def test_checks_are_made_only_when_due(tmp_path: Path) -> None:
    for policy, expected in ((EVERY_STEP, T), (AT_END, 1)):
        fit, model = fresh("forest")
        notes = Notes()
        trial = make_trial(Engine(tmp_path), mode="min", check=notes, policy=policy)
        fit(trial, model, X, Y, steps=T, score=log_loss)
        assert len(notes.seen) == expected


def test_the_cost_of_a_step_is_that_of_the_fit_and_the_score(tmp_path: Path) -> None:
    clock = Ticking()

    class Slow(GaussianNB):
        def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Any:
            clock.now += 5.0
            return super().partial_fit(X, y, classes=classes)

    def score(_: Any) -> float:
        clock.now += 2.0
        return 0.0

    engine = Engine(tmp_path)
    partial_fit(make_trial(engine, clock=clock), Slow(), X, Y, steps=3, score=score)
    assert [report.primary_cost_s for report in engine.reports] == [7.0] * 3


# -- how training ends ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sgd", "forest"])
def test_a_stopped_loop_ends(tmp_path: Path, name: str) -> None:
    fit, model = fresh(name)
    engine = Engine(tmp_path, stop_at=3)
    trial = make_trial(engine, check=Notes())
    trained = fit(trial, model, X, Y, steps=T, score="accuracy", validation=(XV, YV))
    trial.close()
    assert engine.steps == [1, 2, 3]
    assert trained.predict(XV).shape == YV.shape


@pytest.mark.parametrize(
    "model",
    [
        GradientBoostingClassifier(random_state=0, n_iter_no_change=2, tol=0.02),
        HistGradientBoostingClassifier(
            random_state=0, early_stopping=True, n_iter_no_change=2, learning_rate=1.0
        ),
        LogisticRegression(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_an_estimator_that_stops_by_itself_gets_its_due_check(tmp_path: Path, model: Any) -> None:
    engine = Engine(tmp_path)
    notes = Notes(lambda found: found.predict_proba(XV))
    predicted: list[Any] = []

    def score(found: Any) -> float:
        predicted.append(found.predict_proba(XV))
        return log_loss(found)

    trial = make_trial(engine, objective="loss", mode="min", check=notes, policy=AT_END)
    warm_start(trial, model, X, Y, steps=50, step=5, score=score)
    assert len(engine.reports) < 50
    assert notes.seen == []
    trial.close()
    best = int(np.argmin(engine.values))
    assert engine.checked == [best + 1]
    np.testing.assert_array_equal(notes.seen, [predicted[best]])


# -- going on ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sgd", "mlp", "forest", "boosting", "histogram"])
def test_an_attempt_goes_on_from_the_checkpoint_of_another(tmp_path: Path, name: str) -> None:
    fit, model = fresh(name)
    engine = Engine(tmp_path)
    trial = make_trial(engine, mode="min")
    whole = fit(trial, model, X, Y, steps=T, score=log_loss, checkpoint_every=2)

    _, other = fresh(name)
    again = Engine(tmp_path)
    trial = make_trial(again, mode="min", checkpoint=(tmp_path / "resume-4", 4))
    trained = fit(trial, other, X, Y, steps=T, score=log_loss)
    assert again.steps == [5, 6]
    assert again.values == engine.values[4:]
    np.testing.assert_array_equal(trained.predict_proba(XV), whole.predict_proba(XV))


# -- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fit", "model", "options", "message"),
    [
        (partial_fit, SVC(), {}, "SVC has no partial_fit"),
        (warm_start, SVC(), {}, "SVC has no warm_start"),
        (warm_start, SGDClassifier(), {"parameter": "trees"}, "no parameter 'trees'.*max_iter"),
        (warm_start, SGDClassifier(), {"step": 0}, "step must be a whole number >= 1, got 0"),
        (partial_fit, SGDClassifier(), {"steps": 0}, "steps must be a whole number >= 1, got 0"),
        (partial_fit, SGDClassifier(), {"batch_size": 0.5}, "batch_size.*got 0.5"),
        (partial_fit, SGDClassifier(), {"score": "acc"}, "no scorer 'acc'"),
        (partial_fit, SGDClassifier(), {"score": "accuracy"}, r"validation=\(X, y\)"),
        (partial_fit, SGDClassifier(), {"validation": (XV, YV)}, "name of a scorer"),
        (partial_fit, SGDClassifier(), {"checkpoint_every": 0}, "checkpoint_every.*got 0"),
    ],
)
def test_bad_input_is_named(
    tmp_path: Path, fit: Any, model: Any, options: dict[str, Any], message: str
) -> None:
    options = {"steps": 2, "score": lambda _: 0.0, **options}
    with pytest.raises(AcetuneError, match=message):
        fit(make_trial(Engine(tmp_path)), model, X, Y, **options)


def test_a_scorer_is_not_to_be_minimised(tmp_path: Path) -> None:
    with pytest.raises(AcetuneError, match=r"better when greater.*mode='min'"):
        partial_fit(
            make_trial(Engine(tmp_path), mode="min"),
            SGDClassifier(),
            X,
            Y,
            steps=2,
            score="neg_log_loss",
            validation=(XV, YV),
        )


@pytest.mark.parametrize("fit", [partial_fit, warm_start])
def test_the_trial_is_acetunes(fit: Any) -> None:
    with pytest.raises(AcetuneError, match=r"acetune\.optuna\.trial"):
        fit(None, SGDClassifier(), X, Y, steps=2, score=lambda _: 0.0)


# -- a study -------------------------------------------------------------------------------------


def test_a_study_keeps_the_best_step(study: Path) -> None:
    def fit(trial: Any) -> None:
        model = GradientBoostingClassifier(random_state=0, n_iter_no_change=3, **trial.params)
        warm_start(trial, model, X, Y, steps=30, score=log_loss)

    def trees(model: Any) -> int:
        time.sleep(0.001)
        return len(model.estimators_)

    result = acetune.tune(
        fit,
        space={"learning_rate": acetune.loguniform(0.3, 1.0)},
        objective="loss",
        mode="min",
        constraints=[Constraint("trees", upper=30, check=trees)],
        policy=AT_END,
        max_trials=3,
        workers=1,
        study=study,
        seed=1,
    )
    best = result.best
    assert best is not None
    assert log_loss(best.load()) == best.value
    assert len(best.load().estimators_) == best.step
