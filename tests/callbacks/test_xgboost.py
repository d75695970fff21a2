"""The XGBoost callback, with the real XGBoost."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgboost as xgb
from xgboost.callback import EarlyStopping

import acetune
from acetune import Constraint
from acetune.callbacks.xgboost import CHECKPOINT, ReportCallback
from acetune.core.errors import AcetuneError
from acetune.testing import check_callback
from callbacks.boosting import AT_END, EVERY_STEP, Engine, Notes, Ticking, make_trial, rows

X, Y, XV, YV = rows()
DTRAIN, DVALID = xgb.DMatrix(X, Y), xgb.DMatrix(XV, YV)
PARAMS = {
    "objective": "binary:logistic",
    "eval_metric": ["logloss", "auc"],
    "max_depth": 3,
    "nthread": 1,
    "seed": 1,
}
T = 10


def train(
    *callbacks: Any, params: dict[str, Any] | None = None, rounds: int = T, **options: Any
) -> tuple[Any, dict[str, Any]]:
    """A training with one validation set; the booster, and XGBoost's own results."""
    found: dict[str, Any] = {}
    booster = xgb.train(
        {**PARAMS, **(params or {})},
        DTRAIN,
        rounds,
        **{"evals": [(DVALID, "valid")], **options},
        evals_result=found,
        verbose_eval=False,
        callbacks=list(callbacks),
    )
    return booster, found


def test_it_keeps_to_the_protocol() -> None:
    check_callback(
        lambda trial: train(ReportCallback(trial, total_steps=4), rounds=4),
        lambda model: float(np.std(model.predict(XV))),
        mode="max",
        objective="auc",
    )


# -- what is reported ----------------------------------------------------------------------------


def test_each_round_is_reported_as_xgboost_measured_it(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    _, found = train(ReportCallback(make_trial(engine, check=Notes()), total_steps=T))

    assert engine.values == found["valid"]["auc"]
    assert engine.steps == list(range(1, T + 1))
    assert engine.total_steps == T


@pytest.mark.parametrize(
    ("options", "data", "metric"),
    [
        ({"data": "valid"}, "valid", "auc"),
        ({"data": "train", "metric": "logloss"}, "train", "logloss"),
    ],
)
def test_data_set_and_metric_are_those_asked_for(
    tmp_path: Path, options: dict[str, Any], data: str, metric: str
) -> None:
    engine = Engine(tmp_path)
    trial = make_trial(engine, mode="min" if metric == "logloss" else "max")
    evals = [(DTRAIN, "train"), (DVALID, "valid")]
    _, found = train(ReportCallback(trial, **options), evals=evals)
    assert engine.values == found[data][metric]


def test_the_scikit_learn_classes_report_too(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    notes = Notes(lambda model: model.predict(XV))
    report = ReportCallback(make_trial(engine, check=notes), total_steps=T)
    model = xgb.XGBClassifier(
        n_estimators=T, n_jobs=1, eval_metric="auc", max_depth=3, callbacks=[report]
    )
    model.fit(X, Y, eval_set=[(XV, YV)], verbose=False)

    assert engine.values == model.evals_result()["validation_0"]["auc"]
    assert engine.total_steps == T
    np.testing.assert_allclose(notes.seen[-1], model.predict_proba(XV)[:, 1], atol=1e-6)


def test_a_trial_that_knows_its_last_step_need_not_be_told(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    trial = make_trial(engine)
    trial.declare(T)
    train(ReportCallback(trial))
    assert engine.total_steps == T


def test_the_cost_of_a_step_is_that_of_a_round_with_its_evaluation(tmp_path: Path) -> None:
    clock = Ticking()
    engine = Engine(tmp_path)

    def evaluation(scores: Any, _: Any) -> tuple[str, float]:
        clock.now += 5.0
        return "slow", 0.0

    def check(model: Any) -> float:
        clock.now += 100.0
        return 0.0

    trial = make_trial(engine, check=check, clock=clock)
    clock.now += 1000.0  # start-up
    train(ReportCallback(trial, total_steps=3), rounds=3, custom_metric=evaluation)
    assert [report.primary_cost_s for report in engine.reports] == [5.0, 5.0, 5.0]
    assert [report.check_cost_s for report in engine.reports] == [{"g": 100.0}] * 3


# -- what checks see -----------------------------------------------------------------------------


def test_checks_are_made_only_when_due(tmp_path: Path) -> None:
    for policy, expected in ((EVERY_STEP, T), (AT_END, 1)):
        notes = Notes()
        trial = make_trial(Engine(tmp_path), check=notes, policy=policy)
        train(ReportCallback(trial, total_steps=T))
        assert len(notes.seen) == expected


def own_gradient(scores: Any, data: Any) -> tuple[Any, Any]:
    p = 1 / (1 + np.exp(-scores))
    return p - data.get_label(), p * (1 - p)


@pytest.mark.parametrize(
    ("params", "classes"),
    [
        ({}, 2),
        ({"objective": "reg:squarederror", "eval_metric": "rmse"}, 2),
        ({"objective": "multi:softprob", "eval_metric": "mlogloss", "num_class": 3}, 3),
        ({"own": own_gradient, "objective": "reg:squarederror"}, 2),
        ({"num_parallel_tree": 3, "subsample": 0.7}, 2),
        ({"booster": "dart", "rate_drop": 0.5, "eval_metric": "logloss"}, 2),
        ({"booster": "gblinear", "eval_metric": "logloss", "updater": "coord_descent"}, 2),
    ],
    ids=["binary", "regression", "multiclass", "own", "forest", "dart", "gblinear"],
)
def test_scores_are_the_predictions_of_that_round(
    tmp_path: Path, params: dict[str, Any], classes: int
) -> None:
    """Of the current round, of a snapshot when training has ended, and of what was on disk."""
    X, Y, XV, YV = rows(classes=classes)
    dvalid = xgb.DMatrix(XV, YV)
    engine = Engine(tmp_path)
    params = {**PARAMS, **params}
    if "booster" in params and params["booster"] == "gblinear":
        del params["max_depth"]
    own = params.pop("own", None)
    metric = params["eval_metric"] if isinstance(params["eval_metric"], str) else "auc"
    now: list[Any] = []

    def look(model: Any) -> float:
        now.append((model, model.scores, model.predict(XV)))
        return 0.0

    trial = make_trial(
        engine, objective=metric, mode="max" if metric == "auc" else "min", check=look
    )
    booster = xgb.train(
        params,
        xgb.DMatrix(X, Y),
        T,
        evals=[(dvalid, "valid")],
        obj=own,
        verbose_eval=False,
        callbacks=[ReportCallback(trial, total_steps=T, dvalid=dvalid)],
    )
    assert len(now) == T
    assert now[0][1].shape == ((len(XV), 3) if classes == 3 else (len(XV),))
    assert len({scores.tobytes() for _, scores, _ in now}) > 2  # the model does learn
    for _, scores, predicted in now:
        np.testing.assert_allclose(scores, predicted, atol=1e-6)
    assert len(engine.models) > 1
    for step in engine.models:
        kept, scores = engine.load(step), now[step - 1][1]
        assert kept.rounds == step == kept.booster.num_boosted_rounds()
        np.testing.assert_array_equal(kept.scores, scores)
        np.testing.assert_allclose(kept.predict(XV), scores, atol=1e-6)
        if params.get("booster") != "gblinear":
            fewer = booster.predict(dvalid, iteration_range=(0, step))
            later = np.allclose(fewer, scores, atol=1e-6)
            assert later == (params.get("booster") != "dart" or step == T)


def test_rows_to_predict_have_the_missing_values_of_the_training(tmp_path: Path) -> None:
    gaps, gaps_valid = (np.where(rows < -1, -1.0, rows) for rows in (X, XV))
    notes = Notes(lambda model: model.predict(gaps_valid))
    engine = Engine(tmp_path)
    report = ReportCallback(make_trial(engine, check=notes), total_steps=3, missing=-1.0)
    model = xgb.XGBClassifier(
        n_estimators=3, n_jobs=1, missing=-1.0, eval_metric="auc", callbacks=[report]
    )
    model.fit(gaps, Y, eval_set=[(gaps_valid, YV)], verbose=False)
    np.testing.assert_allclose(notes.seen[-1], model.predict_proba(gaps_valid)[:, 1], atol=1e-6)
    step = max(engine.models)
    np.testing.assert_array_equal(engine.load(step).predict(gaps_valid), notes.seen[step - 1])
    # such rows are others without it
    other = model.get_booster().predict(xgb.DMatrix(gaps_valid))
    assert not np.allclose(other, notes.seen[-1], atol=0.01)


def test_without_rows_there_are_no_scores(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    trial = make_trial(engine, check=lambda model: model.scores.mean())
    train(ReportCallback(trial, total_steps=T))
    failed = engine.reports[0].measured
    assert failed is not None
    assert "dvalid" in failed["g"].error  # type: ignore[union-attr]


@pytest.mark.parametrize("booster", ["gbtree", "dart"])
def test_a_model_that_was_not_kept_says_so(tmp_path: Path, booster: str) -> None:
    notes = Notes()  # holds on to models that nobody has frozen
    trial = make_trial(Engine(tmp_path), check=lambda model: notes(model) + 1.0)
    train(ReportCallback(trial, total_steps=T), params={"booster": booster})
    early = notes.seen[2]
    if booster == "dart":
        with pytest.raises(AcetuneError, match="model of round 3 was not kept"):
            early.predict(XV)
    else:
        other = pickle.loads(pickle.dumps(early))
        np.testing.assert_allclose(other.predict(XV), early.predict(XV), atol=1e-6)


@pytest.mark.parametrize("booster", ["dart", "gblinear"])
def test_the_best_is_checked_as_it_was_though_later_rounds_change_it(
    tmp_path: Path, booster: str
) -> None:
    at_each_round: list[Any] = []

    def best_in_the_fifth(scores: Any, _: Any) -> tuple[str, float]:
        at_each_round.append(np.array(scores))
        return "hump", -abs(len(at_each_round) - 5.0)

    notes = Notes(lambda model: (model.scores, model.predict(XV)))
    trial = make_trial(Engine(tmp_path), objective="hump", check=notes, policy=AT_END)
    params = {"objective": "binary:logistic", "booster": booster, "nthread": 1, "seed": 1}
    params |= {"rate_drop": 0.5} if booster == "dart" else {"updater": "coord_descent"}
    trained = xgb.train(
        params,
        DTRAIN,
        T,
        evals=[(DVALID, "valid")],
        custom_metric=best_in_the_fifth,
        verbose_eval=False,
        callbacks=[ReportCallback(trial, total_steps=T, dvalid=DVALID)],
    )
    ((scores, predicted),) = notes.seen
    np.testing.assert_allclose(scores, at_each_round[4], atol=1e-6)
    np.testing.assert_allclose(predicted, scores, atol=1e-6)
    fewer = (0, 5) if booster == "dart" else (0, 0)
    assert not np.allclose(trained.predict(DVALID, iteration_range=fewer), scores, atol=1e-3)


# -- how training ends ---------------------------------------------------------------------------


@pytest.mark.parametrize("first", [True, False])
def test_a_stopped_training_returns(tmp_path: Path, first: bool) -> None:
    engine = Engine(tmp_path, stop_at=4)
    report = ReportCallback(make_trial(engine, check=Notes()), total_steps=T)
    early = EarlyStopping(rounds=50)
    booster, found = train(*([report, early] if first else [early, report]))
    assert engine.steps == [1, 2, 3, 4]
    assert engine.values == found["valid"]["auc"]
    assert booster.num_boosted_rounds() == 4
    np.testing.assert_allclose(
        engine.load(max(engine.models)).predict(XV),
        booster.predict(DVALID, iteration_range=(0, max(engine.models))),
        atol=1e-6,
    )


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("save_best", [True, False])
def test_early_stopping_by_another_metric_leaves_the_best_checkpoint_to_be_checked(
    tmp_path: Path, first: bool, save_best: bool
) -> None:
    """The objective, on the training rows, grows to the end; the stopping rule looks elsewhere."""
    fast = {"eta": 2.0}
    evals = [(DTRAIN, "train"), (DVALID, "valid")]
    whole, _ = train(params=fast, evals=evals)
    engine = Engine(tmp_path)
    notes = Notes(lambda model: (model.rounds, model.scores, model.predict(XV)))
    trial = make_trial(engine, check=notes, policy=AT_END)
    report = ReportCallback(trial, total_steps=T, data="train", metric="auc", dvalid=DVALID)
    early = EarlyStopping(rounds=3, data_name="valid", metric_name="logloss", save_best=save_best)
    order = [report, early] if first else [early, report]
    booster, found = train(*order, params=fast, evals=evals)
    assert notes.seen == []
    trial.close()

    ((rounds, scores, predicted),) = notes.seen
    assert engine.values == found["train"]["auc"]  # the last round too
    assert len(engine.values) < T
    best = int(np.argmax(engine.values)) + 1
    assert rounds == best > booster.best_iteration + 1
    expected = whole.predict(DVALID, iteration_range=(0, best))
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    np.testing.assert_allclose(predicted, expected, atol=1e-6)
    assert engine.checked == [best]
    np.testing.assert_allclose(engine.load(best).predict(XV), expected, atol=1e-6)


def test_training_that_another_callback_ends_at_once_is_reported(tmp_path: Path) -> None:
    class Once(xgb.callback.TrainingCallback):  # type: ignore[misc]
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            return True

    engine = Engine(tmp_path)
    trial = make_trial(engine, check=Notes())
    _, found = train(Once(), ReportCallback(trial, total_steps=T))
    assert engine.values == found["valid"]["auc"]
    assert engine.steps == [1]


# -- going on from a model -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [{}, {"gamma": 1e6}, {"booster": "gblinear", "max_depth": None}],
    ids=["trees", "no splits", "linear"],
)
@pytest.mark.parametrize("base", [False, True])
def test_an_attempt_goes_on_from_the_checkpoint_of_another(
    tmp_path: Path, params: dict[str, Any], base: bool
) -> None:
    start = train(params=params, rounds=3)[0] if base else None
    engine = Engine(tmp_path)
    report = ReportCallback(make_trial(engine), total_steps=T, checkpoint_every=5)
    assert report.xgb_model is None
    assert report.rounds_left(T) == T
    train(report, params=params, xgb_model=start)
    # none at the last step, after which there is nothing to go on with
    assert {path.name for path in tmp_path.glob("resume-*")} == {"resume-5"}

    again = Engine(tmp_path)
    trial = make_trial(again, checkpoint=(tmp_path / "resume-5", 5))
    report = ReportCallback(trial, total_steps=T)
    assert report.xgb_model == tmp_path / "resume-5" / CHECKPOINT
    booster, _ = train(
        report, params=params, rounds=report.rounds_left(T), xgb_model=report.xgb_model or start
    )
    assert again.steps == list(range(6, T + 1))
    assert again.total_steps == T
    np.testing.assert_allclose(again.values, engine.values[5:], atol=1e-6)
    assert booster.num_boosted_rounds() == T + 3 * base


def test_the_scikit_learn_classes_go_on_too(tmp_path: Path) -> None:
    def fit(trial: Any) -> Any:
        report = ReportCallback(trial, total_steps=T, checkpoint_every=4)
        model = xgb.XGBClassifier(
            n_estimators=report.rounds_left(T), n_jobs=1, eval_metric="auc", callbacks=[report]
        )
        options = {"eval_set": [(XV, YV)], "verbose": False}
        return model.fit(X, Y, **options, xgb_model=report.xgb_model)

    first, second = Engine(tmp_path), Engine(tmp_path)
    fit(make_trial(first))
    fit(make_trial(second, checkpoint=(tmp_path / "resume-4", 4)))
    assert second.steps == list(range(5, T + 1))
    np.testing.assert_allclose(second.values, first.values[4:], atol=1e-6)


def test_an_attempt_that_begins_anew_counts_from_one(tmp_path: Path) -> None:
    train(ReportCallback(make_trial(Engine(tmp_path)), total_steps=T, checkpoint_every=4))
    engine = Engine(tmp_path)
    trial = make_trial(engine, checkpoint=(tmp_path / "resume-4", 4))
    train(ReportCallback(trial, total_steps=T))
    assert engine.steps == list(range(1, T + 1))


def test_rounds_of_a_base_model_are_not_steps(tmp_path: Path) -> None:
    base, _ = train()
    engine = Engine(tmp_path)
    notes = Notes(lambda model: (model.rounds, model.scores, model.predict(XV)))
    report = ReportCallback(make_trial(engine, check=notes), total_steps=3, dvalid=DVALID)
    train(report, rounds=3, xgb_model=base)
    assert engine.steps == [1, 2, 3]
    assert [rounds for rounds, _, _ in notes.seen] == [T + 1, T + 2, T + 3]
    for _, scores, predicted in notes.seen:
        np.testing.assert_allclose(scores, predicted, atol=1e-6)


# -- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "training", "message"),
    [
        ({"metric": "mse"}, {}, r"'mse'.*\['logloss', 'auc'\]"),
        ({"data": "test"}, {}, r"data='test'.*\['valid'\]"),
        ({}, {"evals": []}, "evaluated nothing"),
        (
            {},
            {"evals": [(DTRAIN, "train"), (DVALID, "valid")]},
            r"data=, one of \['train', 'valid'\]",
        ),
        (
            {},
            {"params": {"eval_metric": ["error", "logloss"]}},
            r"metric=, one of \['error', 'logloss'\]",
        ),
        ({"total_steps": 0}, {}, "total_steps must be a whole number >= 1, got 0"),
        ({"dvalid": XV}, {}, r"dvalid must be an xgboost\.DMatrix, got a ndarray"),
        ({"checkpoint_every": 0}, {}, "checkpoint_every must be a whole number >= 1, got 0"),
    ],
)
def test_bad_input_is_named(
    tmp_path: Path, options: dict[str, Any], training: dict[str, Any], message: str
) -> None:
    with pytest.raises(AcetuneError, match=message):
        train(ReportCallback(make_trial(Engine(tmp_path)), **options), **training)


@pytest.mark.parametrize(
    ("metric", "mode"),
    [
        ("logloss", "max"),
        ("error@0.7", "max"),
        ("auc", "min"),
        ("aucpr", "min"),
        ("ams@0.1", "min"),
    ],
)
def test_a_metric_goes_the_way_of_the_objective(tmp_path: Path, metric: str, mode: str) -> None:
    right = "max" if mode == "min" else "min"
    params = {"eval_metric": metric}
    engine = Engine(tmp_path)
    train(ReportCallback(make_trial(engine, mode=right), total_steps=T), params=params)
    assert len(engine.reports) == T
    better = "lower" if mode == "max" else "higher"
    with pytest.raises(AcetuneError, match=f"'{metric}' is better when {better}.*mode='{mode}'"):
        train(ReportCallback(make_trial(Engine(tmp_path), mode=mode)), params=params)


@pytest.mark.parametrize("metric", ["ndcg@5", "map@3-", "pre@2"])
def test_a_ranking_metric_rises(tmp_path: Path, metric: str) -> None:
    rows = xgb.DMatrix(X, Y, qid=np.repeat(np.arange(24), 10))
    params = {"objective": "rank:ndcg", "eval_metric": metric}
    for mode, refused in (("max", False), ("min", True)):
        report = ReportCallback(make_trial(Engine(tmp_path), mode=mode))
        options = {"evals": [(rows, "rows")], "verbose_eval": False, "callbacks": [report]}
        if refused:
            with pytest.raises(AcetuneError, match="is better when higher"):
                xgb.train(params, rows, 2, **options)
        else:
            xgb.train(params, rows, 2, **options)


@pytest.mark.parametrize("mode", ["min", "max"])
def test_a_metric_of_ones_own_goes_either_way(tmp_path: Path, mode: str) -> None:
    engine = Engine(tmp_path)
    trial = make_trial(engine, objective="own", mode=mode)
    train(ReportCallback(trial), custom_metric=lambda scores, _: ("own", 0.5))
    assert len(engine.reports) == T


def test_what_has_the_objectives_name_must_be_one(tmp_path: Path) -> None:
    with pytest.raises(AcetuneError, match=r"'auc' is evaluated more than once on 'valid'"):
        train(
            ReportCallback(make_trial(Engine(tmp_path))),
            custom_metric=lambda scores, _: ("auc", 0.5),
        )


def test_there_are_no_more_rounds_than_steps(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    report = ReportCallback(make_trial(engine), total_steps=6, checkpoint_every=4)
    with pytest.raises(AcetuneError, match=r"total_steps=6, but training goes on after 6 rounds;"):
        train(report)
    assert engine.steps == [1, 2, 3, 4, 5, 6]

    again = Engine(tmp_path)  # goes on, but with all rounds once more
    trial = make_trial(again, checkpoint=(tmp_path / "resume-4", 4))
    report = ReportCallback(trial, total_steps=T)
    with pytest.raises(AcetuneError, match=r"4 of them in an earlier attempt.*rounds_left\(10\)"):
        train(report, xgb_model=report.xgb_model)
    assert again.steps == list(range(5, T + 1))


def test_cross_validation_is_refused(tmp_path: Path) -> None:
    report = ReportCallback(make_trial(Engine(tmp_path)))
    with pytest.raises(AcetuneError, match=r"use xgb\.train"):
        xgb.cv(PARAMS, DTRAIN, 2, nfold=2, callbacks=[report])


def test_a_callback_serves_one_training(tmp_path: Path) -> None:
    report = ReportCallback(make_trial(Engine(tmp_path)))
    train(report)
    with pytest.raises(AcetuneError, match="make one for each training"):
        train(report)


# -- a study -------------------------------------------------------------------------------------


def test_a_study_keeps_the_best_round(study: Path) -> None:
    def fit(trial: Any) -> None:
        dtrain, dvalid = xgb.DMatrix(X, Y), xgb.DMatrix(XV, YV)
        xgb.train(
            {**PARAMS, **trial.params},
            dtrain,
            T,
            evals=[(dvalid, "valid")],
            verbose_eval=False,
            early_stopping_rounds=3,
            callbacks=[ReportCallback(trial, total_steps=T, dvalid=dvalid)],
        )

    limit = Constraint("mean", upper=1.0, check=lambda model: float(model.scores.mean()))
    result = acetune.tune(
        fit,
        space={"eta": acetune.loguniform(0.5, 1.5)},
        objective="auc",
        mode="max",
        constraints=[limit],
        policy=AT_END,
        max_trials=3,
        workers=1,
        study=study,
        seed=1,
    )
    best = result.best
    assert best is not None
    model = best.load()
    whole, found = train(params=best.params)
    assert found["valid"]["auc"][best.step - 1] == best.value
    expected = whole.predict(DVALID, iteration_range=(0, best.step))
    np.testing.assert_allclose(model.predict(XV), expected, atol=1e-6)
    np.testing.assert_allclose(model.scores, expected, atol=1e-6)
