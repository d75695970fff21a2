"""The training loop for CatBoost, with the real CatBoost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import catboost as cb
import numpy as np
import pytest

import acetune
from acetune import Constraint
from acetune.callbacks.catboost import CHECKPOINT, fit
from acetune.constraints.size import parameters
from acetune.core.errors import AcetuneError
from acetune.testing import check_callback
from callbacks.boosting import AT_END, Engine, Notes, make_trial, rows

X, Y, XV, YV = rows()
PARAMS = {"eval_metric": "AUC", "depth": 3, "thread_count": 1, "random_seed": 1}
STEPS, STEP = 4, 3
ALL = STEPS * STEP


def train(trial: Any, params: dict[str, Any] | None = None, **options: Any) -> Any:
    """A training with one validation set; the model."""
    model = cb.CatBoostClassifier(**{**PARAMS, **(params or {})})
    given = {"eval_set": (XV, YV), "steps": STEPS, "step": STEP, **options}
    return fit(trial, model, X, Y, **given)


def whole(rounds: int = ALL, **params: Any) -> Any:
    """The same by one ``fit`` of CatBoost."""
    model = cb.CatBoostClassifier(**PARAMS, iterations=rounds, allow_writing_files=False, **params)
    return model.fit(X, Y, eval_set=(XV, YV), use_best_model=False, verbose=False)


def scores(model: Any) -> Any:
    return model.predict_proba(XV)[:, 1]


def test_it_keeps_to_the_protocol() -> None:
    check_callback(
        lambda trial: train(trial), lambda model: float(np.std(scores(model))), mode="max"
    )


def test_steps_are_those_of_one_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a learning rate too, which CatBoost chooses by the number of rounds."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    engine, notes = Engine(tmp_path), Notes(lambda model: (model.tree_count_, scores(model)))
    model = train(make_trial(engine, check=notes))
    expected = whole()
    assert engine.total_steps == STEPS
    assert engine.values == expected.get_evals_result()["validation"]["AUC"][STEP - 1 :: STEP]
    np.testing.assert_array_equal(scores(model), scores(expected))
    assert [count for count, _ in notes.seen] == [3, 6, 9, 12]
    for count, found in notes.seen:
        np.testing.assert_allclose(
            found, expected.predict_proba(XV, ntree_end=count)[:, 1], atol=1e-12
        )
    for step in engine.models:
        np.testing.assert_array_equal(scores(engine.load(step)), notes.seen[step - 1][1])
    assert list((tmp_path / "here").iterdir()) == []


def test_pools_and_options_reach_catboost(tmp_path: Path) -> None:
    pool, valid = cb.Pool(X, Y), cb.Pool(XV, YV)
    pool.quantize()
    engine = Engine(tmp_path)
    model = cb.CatBoostRegressor(depth=3, thread_count=1, random_seed=1, loss_function="RMSE")
    seen: list[int] = []

    class Watch:
        def after_iteration(self, info: Any) -> bool:
            seen.append(info.iteration)
            return True

    trained = fit(
        make_trial(engine, objective="loss", mode="min"),
        model,
        pool,
        eval_set=[valid, pool],
        data="validation_1",
        steps=2,
        step=2,
        callbacks=[Watch()],
    )
    assert seen == [1, 2, 3, 4]
    assert engine.values == trained.get_evals_result()["validation_1"]["RMSE"][1::2]
    assert not model.is_fitted()


def test_a_stopped_trial_ends_training(tmp_path: Path) -> None:
    engine = Engine(tmp_path, stop_at=2)
    assert train(make_trial(engine)).tree_count_ == 2 * STEP
    assert engine.steps == [1, 2]


@pytest.mark.parametrize("patience", [1, 2, 3])
def test_catboosts_early_stopping_ends_the_trial(tmp_path: Path, patience: int) -> None:
    engine, notes = Engine(tmp_path), Notes(lambda model: model.tree_count_)
    trial = make_trial(engine, check=notes, policy=AT_END)
    model = train(trial, {"learning_rate": 1.0}, steps=20, early_stopping_rounds=patience)
    trial.close()
    alone = whole(60, learning_rate=1.0, early_stopping_rounds=patience)
    assert model.tree_count_ == alone.tree_count_ < 60
    assert engine.values == model.get_evals_result()["validation"]["AUC"][STEP - 1 :: STEP] + (
        [model.get_evals_result()["validation"]["AUC"][-1]] if model.tree_count_ % STEP else []
    )
    assert len(notes.seen) == 1  # the check that was still due


def test_an_attempt_goes_on_from_the_checkpoint_of_another(tmp_path: Path) -> None:
    engine, again = Engine(tmp_path), Engine(tmp_path)
    model = train(make_trial(engine), checkpoint_every=2)
    assert (tmp_path / "resume-2" / CHECKPOINT).exists()
    trial = make_trial(again, checkpoint=(tmp_path / "resume-2", 2))
    resumed = train(trial, checkpoint_every=2)
    assert again.steps == [3, 4]
    assert again.values == engine.values[2:]
    np.testing.assert_array_equal(scores(resumed), scores(model))


def test_an_attempt_with_other_rows_does_not_begin_anew_unnoticed(tmp_path: Path) -> None:
    train(make_trial(Engine(tmp_path)), checkpoint_every=2)
    trial = make_trial(Engine(tmp_path), checkpoint=(tmp_path / "resume-2", 2))
    with pytest.raises(Exception, match=r"did not go on after round 6|[Ss]napshot"):
        train(trial, {"depth": 4}, eval_set=(XV[:50], YV[:50]))


@pytest.mark.parametrize(
    ("params", "options", "message"),
    [
        ({}, {"metric": "F1"}, r"no metric 'F1'.*'Logloss'.*'AUC'"),
        ({}, {"metric": "Logloss"}, "'Logloss' is better when lower"),
        ({}, {"data": "test"}, r"data='test'.*'learn', 'validation'"),
        ({"iterations": 500}, {}, "iterations=500, but steps times step is 12"),
        ({"task_type": "GPU"}, {}, "no callbacks on GPUs"),
        ({}, {"steps": 0}, "steps must be a whole number >= 1, got 0"),
        ({}, {"step": 1.5}, r"step must be a whole number >= 1, got 1\.5"),
        ({}, {"use_best_model": True}, "use_best_model cannot be given"),
    ],
)
def test_bad_input_is_named(
    tmp_path: Path, params: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(AcetuneError, match=message):
        train(make_trial(Engine(tmp_path), objective="auc"), params, **options)


def test_what_is_trained_is_one_of_catboosts(tmp_path: Path) -> None:
    with pytest.raises(AcetuneError, match="one of CatBoost's, got a dict"):
        fit(make_trial(Engine(tmp_path)), {}, X, Y, eval_set=(XV, YV), steps=2)


def test_a_study_keeps_the_best_step(study: Path) -> None:
    def tuned(trial: Any) -> None:
        train(trial, trial.params)

    limit = Constraint("leaves", upper=96, check=parameters)
    result = acetune.tune(
        tuned,
        space={"learning_rate": acetune.loguniform(0.1, 0.9)},
        objective="auc",
        mode="max",
        constraints=[limit],
        policy=AT_END,
        max_trials=2,
        workers=1,
        study=study,
        seed=1,
    )
    best = result.best
    assert best is not None
    model = best.load()
    assert model.tree_count_ == STEP * best.step
    assert best.constraints["leaves"].value == 8 * model.tree_count_
    alone = whole(**best.params).predict_proba(XV, ntree_end=model.tree_count_)[:, 1]
    np.testing.assert_allclose(scores(model), alone, atol=1e-12)
