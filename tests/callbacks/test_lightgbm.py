"""The LightGBM callback, with the real LightGBM."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

import acetune
from acetune import Constraint
from acetune.callbacks import lightgbm as callbacks
from acetune.callbacks.lightgbm import CHECKPOINT, ReportCallback, TreeText, kept_scores
from acetune.core.errors import AcetuneError
from acetune.testing import check_callback
from callbacks.boosting import AT_END, EVERY_STEP, Engine, Notes, Ticking, make_trial, rows

X, Y, XV, YV = rows()
PARAMS = {
    "objective": "binary",
    "metric": ["binary_logloss", "auc"],
    "verbosity": -1,
    "num_threads": 1,
    "min_data_in_leaf": 5,
    "num_leaves": 7,
    "seed": 1,
    "deterministic": True,
}
T = 12


def train(
    report: Any, *, params: dict[str, Any] | None = None, rounds: int = T, **options: Any
) -> tuple[Any, dict[str, Any]]:
    """A training with one validation set; the booster, and LightGBM's own results."""
    data = lgb.Dataset(X, Y)
    found: dict[str, Any] = {}
    extra = options.pop("callbacks", [])
    booster = lgb.train(
        {**PARAMS, **(params or {})},
        data,
        rounds,
        **{"valid_sets": [data.create_valid(XV, YV)], **options},
        callbacks=[lgb.record_evaluation(found), *([report] if report else []), *extra],
    )
    return booster, found


def spread(scores: Any, _: Any) -> tuple[str, float, bool]:
    """A metric that grows as long as the model learns anything."""
    return "spread", float(np.std(scores)), True


def test_it_keeps_to_the_protocol() -> None:
    check_callback(
        lambda trial: train(ReportCallback(trial, metric="auc"), rounds=4),
        lambda model: float(np.std(model.predict(XV))),
        mode="max",
        objective="auc",
    )


# -- what is reported ----------------------------------------------------------------------------


def test_each_round_is_reported_as_lightgbm_measured_it(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    trial = make_trial(engine, check=Notes())
    _, found = train(ReportCallback(trial))

    assert engine.values == found["valid_0"]["auc"]
    assert engine.steps == list(range(1, T + 1))
    assert engine.total_steps == T


def test_the_scikit_learn_classes_report_too(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    notes = Notes(lambda model: model.scores)
    model = lgb.LGBMClassifier(
        n_estimators=T, verbosity=-1, n_jobs=1, min_child_samples=5, random_state=1
    )
    model.fit(
        X,
        Y,
        eval_X=(X, XV),
        eval_y=(Y, YV),
        eval_metric="auc",
        callbacks=[ReportCallback(make_trial(engine, check=notes), valid="valid_1")],
    )

    assert engine.values == model.evals_result_["valid_1"]["auc"]
    assert engine.total_steps == T
    np.testing.assert_allclose(notes.seen[-1], model.predict_proba(XV)[:, 1], atol=1e-12)


@pytest.mark.parametrize(
    ("options", "valid_names", "data", "metric"),
    [
        ({}, ["training", "held"], "held", "auc"),
        ({"metric": "binary_logloss"}, ["training", "held"], "held", "binary_logloss"),
        ({"valid": "fit"}, ["fit", "held"], "fit", "auc"),
        ({"valid": "held"}, ["fit", "held"], "held", "auc"),
    ],
)
def test_data_set_and_metric_are_those_asked_for(
    tmp_path: Path, options: dict[str, Any], valid_names: list[str], data: str, metric: str
) -> None:
    engine = Engine(tmp_path)
    mode = "min" if metric == "binary_logloss" else "max"
    train_set = lgb.Dataset(X, Y)
    found: dict[str, Any] = {}
    lgb.train(
        PARAMS,
        train_set,
        3,
        valid_sets=[train_set, train_set.create_valid(XV, YV)],
        valid_names=valid_names,
        callbacks=[
            lgb.record_evaluation(found),
            ReportCallback(make_trial(engine, mode=mode), **options),
        ],
    )
    assert engine.values == found[data][metric]


def test_the_cost_of_a_step_is_that_of_a_round_with_its_evaluation(tmp_path: Path) -> None:
    clock = Ticking()
    engine = Engine(tmp_path)

    def evaluation(scores: Any, _: Any) -> tuple[str, float, bool]:
        clock.now += 5.0
        return "slow", 0.0, True

    def check(model: Any) -> float:
        clock.now += 100.0
        return 0.0

    trial = make_trial(engine, check=check, clock=clock)
    train(ReportCallback(trial), rounds=3, feval=evaluation)
    # before the first round the data are binned: all of that is the start-up of the trial
    assert [report.primary_cost_s for report in engine.reports] == [None, 5.0, 5.0]
    assert [report.check_cost_s for report in engine.reports] == [{"g": 100.0}] * 3


# -- what checks see -----------------------------------------------------------------------------


def test_checks_are_made_only_when_due(tmp_path: Path) -> None:
    for policy, expected in ((EVERY_STEP, T), (AT_END, 1)):
        notes = Notes()
        train(ReportCallback(make_trial(Engine(tmp_path), check=notes, policy=policy)))
        assert len(notes.seen) == expected


def test_scores_are_read_only_where_a_check_or_a_snapshot_wants_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def counted(booster: Any, name: str) -> Any:
        read.append(name)
        return kept_scores(booster, name)

    monkeypatch.setattr(callbacks, "kept_scores", counted)
    engine = Engine(tmp_path)
    train(ReportCallback(make_trial(engine, check=lambda m: 1.0, policy=EVERY_STEP)))
    # this check looks at nothing, and nothing that fails is kept; but when training ends the last
    # model may still be asked for
    assert read == ["valid_0"]

    read.clear()
    train(ReportCallback(make_trial(engine, check=lambda m: float(m.scores.min()))))
    assert read == ["valid_0"] * T


def softmax_gradient(scores: Any, data: Any) -> tuple[Any, Any]:
    p = 1 / (1 + np.exp(-scores))
    return p - data.get_label(), p * (1 - p)


@pytest.mark.parametrize(
    ("params", "classes"),
    [
        ({}, 2),
        ({"objective": "regression", "metric": "l2"}, 2),
        ({"objective": "multiclass", "metric": "multi_logloss", "num_class": 3}, 3),
        ({"objective": softmax_gradient, "metric": "auc"}, 2),
        ({"boosting": "rf", "bagging_fraction": 0.7, "bagging_freq": 1}, 2),
        ({"boosting_type": "dart", "drop_rate": 0.3, "metric": "binary_logloss"}, 2),
        ({"data_sample_strategy": "goss"}, 2),
    ],
    ids=["binary", "regression", "multiclass", "custom", "rf", "dart", "goss"],
)
def test_scores_are_the_predictions_of_that_round(
    tmp_path: Path, params: dict[str, Any], classes: int
) -> None:
    """Of the current round, of a snapshot when training has ended, and of what was on disk."""
    X, Y, XV, YV = rows(classes=classes)
    data = lgb.Dataset(X, Y)
    engine = Engine(tmp_path)
    metric = params.get("metric", "auc")
    trial = make_trial(
        engine,
        objective=metric,
        mode="max" if metric == "auc" else "min",
        check=Notes(lambda model: now.append((model, model.scores, model.predict(XV)))),
    )
    now: list[Any] = []
    booster = lgb.train(
        {**PARAMS, **params},
        data,
        T,
        valid_sets=[data.create_valid(XV, YV)],
        callbacks=[ReportCallback(trial)],
    )
    assert len(now) == T
    assert now[0][1].shape == ((len(XV), 3) if classes == 3 else (len(XV),))
    assert len({scores.tobytes() for _, scores, _ in now}) > 2  # the model does learn
    for _, scores, predicted in now:
        np.testing.assert_allclose(scores, predicted, atol=1e-6)
    assert len(engine.models) > 1
    for step in engine.models:
        kept, scores = engine.load(step), now[step - 1][1]
        assert kept.rounds == step == kept.booster.num_trees() // (3 if classes == 3 else 1)
        np.testing.assert_array_equal(kept.scores, scores)
        np.testing.assert_allclose(kept.predict(XV), scores, atol=1e-6)
        later = np.allclose(booster.predict(XV, num_iteration=step), scores, atol=1e-6)
        assert later == ("dart" not in params.values() or step == T)


class PublicOnly:
    """A booster of a LightGBM that has nothing private we know of."""

    def __init__(self, booster: Any) -> None:
        self.booster = booster

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.booster, name)


def test_the_public_way_to_the_scores_gives_the_same(tmp_path: Path) -> None:
    notes = Notes(
        lambda model: (
            model.scores,
            kept_scores(PublicOnly(model.booster), "valid_0"),
            kept_scores(PublicOnly(model.booster), "training"),
            model.predict(X),
        )
    )
    train(ReportCallback(make_trial(Engine(tmp_path), check=notes)))
    assert len(notes.seen) == T
    for scores, public, on_training, predicted in notes.seen:
        np.testing.assert_array_equal(scores, public)
        np.testing.assert_allclose(on_training, predicted, atol=1e-6)


@pytest.mark.parametrize("read", [lambda model: model.scores, lambda model: public(model)])
def test_a_validation_set_may_be_called_as_the_training_data_are(tmp_path: Path, read: Any) -> None:
    """By default, that is: here they have no name, because they are not evaluated."""
    notes = Notes(lambda model: (read(model), model.predict(XV)))
    report = ReportCallback(make_trial(Engine(tmp_path), check=notes))
    train(report, rounds=3, valid_names=["training"])
    assert len(notes.seen) == 3
    for scores, predicted in notes.seen:
        np.testing.assert_allclose(scores, predicted, atol=1e-6)


def public(model: Any) -> Any:
    return kept_scores(PublicOnly(model.booster), "training")


def test_the_checks_can_see_another_validation_set(tmp_path: Path) -> None:
    notes = Notes(lambda model: (model.scores, model.predict(X[:50])))
    data = lgb.Dataset(X, Y)
    lgb.train(
        PARAMS,
        data,
        3,
        valid_sets=[data.create_valid(XV, YV), data.create_valid(X[:50], Y[:50])],
        callbacks=[
            ReportCallback(
                make_trial(Engine(tmp_path), check=notes), valid="valid_0", scores_on="valid_1"
            )
        ],
    )
    for scores, predicted in notes.seen:
        np.testing.assert_allclose(scores, predicted, atol=1e-6)


def test_a_model_that_was_not_kept_says_so(tmp_path: Path) -> None:
    notes = Notes()  # holds on to models that nobody has frozen
    params = {"boosting": "dart", "drop_rate": 0.9, "skip_drop": 0.0}
    for boosting in ({}, params):
        notes.seen.clear()
        policy = EVERY_STEP
        trial = make_trial(
            Engine(tmp_path), check=lambda m: notes(m) + 1.0, policy=policy
        )  # never valid: nothing is kept
        train(ReportCallback(trial), params=boosting)
        early = notes.seen[2]
        with pytest.raises(AcetuneError, match="scores of round 3 were not asked for"):
            _ = early.scores
        if boosting:
            with pytest.raises(AcetuneError, match="model of round 3 was not kept"):
                early.predict(XV)
        else:
            assert pickle.loads(pickle.dumps(early)).predict(XV).shape == YV.shape


def test_the_best_of_a_dart_is_checked_as_it_was(tmp_path: Path) -> None:
    at_each_round: list[Any] = []

    def best_in_the_fifth(scores: Any, _: Any) -> tuple[str, float, bool]:
        at_each_round.append(np.array(scores))
        return "hump", -abs(len(at_each_round) - 5.0), True

    notes = Notes(lambda model: (model.scores, model.predict(XV)))
    trial = make_trial(Engine(tmp_path), objective="hump", check=notes, policy=AT_END)
    dart = {"boosting": "dart", "drop_rate": 0.5, "skip_drop": 0.0}
    booster, _ = train(ReportCallback(trial), params=dart, feval=best_in_the_fifth)
    ((scores, predicted),) = notes.seen
    np.testing.assert_array_equal(scores, at_each_round[4])
    np.testing.assert_allclose(predicted, scores, atol=1e-6)
    assert not np.allclose(booster.predict(XV, num_iteration=5), scores, atol=1e-3)


# -- how training ends ---------------------------------------------------------------------------


@pytest.mark.parametrize("first", [True, False])
def test_a_stopped_training_returns_with_its_best_round(tmp_path: Path, first: bool) -> None:
    engine = Engine(tmp_path, stop_at=6)
    trial = make_trial(engine, objective="binary_logloss", mode="min", check=Notes())
    report, early = ReportCallback(trial), lgb.early_stopping(50, verbose=False)
    data = lgb.Dataset(X, Y)
    booster = lgb.train(
        {**PARAMS, "learning_rate": 1.5},
        data,
        T,
        valid_sets=[data.create_valid(XV, YV)],
        callbacks=[report, early] if first else [early, report],
    )
    trial.close()
    assert engine.steps == [1, 2, 3, 4, 5, 6]
    best = int(np.argmin(engine.values)) + 1
    assert best < 6  # it overfits
    assert booster.best_iteration == best
    assert booster.best_score["valid_0"]["binary_logloss"] == min(engine.values)
    np.testing.assert_allclose(booster.predict(XV), engine.load(best).predict(XV), atol=1e-12)


def test_the_round_that_ends_a_training_is_in_lightgbms_records(tmp_path: Path) -> None:
    """Wherever record_evaluation stands in the list, it is called before us."""
    found: dict[str, Any] = {}
    engine = Engine(tmp_path, stop_at=3)
    record = lgb.record_evaluation(found)
    train(ReportCallback(make_trial(engine)), callbacks=[record])
    assert engine.values == found["valid_0"]["auc"]


def test_a_stopped_dart_keeps_all_its_trees(tmp_path: Path) -> None:
    trial = make_trial(Engine(tmp_path, stop_at=6))
    booster, _ = train(ReportCallback(trial), params={"boosting": "dart"})
    assert booster.num_trees() == booster.best_iteration == 6


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("estimator", [True, False])
def test_early_stopping_by_another_metric_leaves_the_best_checkpoint_to_be_checked(
    tmp_path: Path, first: bool, estimator: bool
) -> None:
    """LightGBM cuts its booster to its own best round; ours lies after that."""
    rates = {"learning_rate": 1.5}
    whole, found = train(None, params=rates, feval=spread)
    engine = Engine(tmp_path)
    notes = Notes(lambda model: (model.rounds, model.scores, model.predict(XV)))
    trial = make_trial(engine, objective="spread", check=notes, policy=AT_END)
    report = ReportCallback(trial)
    early = lgb.early_stopping(3, first_metric_only=True, verbose=False)
    order = [report, early] if first else [early, report]
    if estimator:
        names = {"min_data_in_leaf": "min_child_samples", "num_threads": "n_jobs"}
        options = {names.get(k, k): v for k, v in {**PARAMS, **rates}.items() if k != "metric"}
        options["random_state"] = options.pop("seed")
        model = lgb.LGBMClassifier(n_estimators=T, **options)
        model.fit(
            X,
            Y,
            eval_X=XV,
            eval_y=YV,
            eval_metric=["binary_logloss", lambda y, scores: spread(scores, y)],
            callbacks=order,
        )
        booster, own = model.booster_, model.evals_result_
    else:
        booster, own = train(None, params=rates, feval=spread, callbacks=order)
    assert notes.seen == []
    trial.close()

    ((rounds, scores, predicted),) = notes.seen
    last = len(engine.reports)
    best = int(np.argmax(engine.values)) + 1
    assert rounds == best > booster.best_iteration
    assert last == len(own["valid_0"]["spread"]) < T  # the round that ended it is reported too
    assert booster.num_trees() == booster.best_iteration
    np.testing.assert_allclose(engine.values, found["valid_0"]["spread"][:last], rtol=1e-12)
    np.testing.assert_allclose(scores, whole.predict(XV, num_iteration=best), atol=1e-6)
    np.testing.assert_allclose(predicted, scores, atol=1e-6)
    assert engine.checked == [best]
    np.testing.assert_allclose(engine.load(best).predict(XV), scores, atol=1e-6)


def test_the_last_model_can_be_checked_after_training(tmp_path: Path) -> None:
    """Where no copy of the best was made the last one is checked, with its scores."""
    notes = Notes(lambda model: (model.scores, model.predict(XV)))
    trial = make_trial(Engine(tmp_path), check=notes, policy=AT_END)
    data = lgb.Dataset(X, Y)
    lgb.train(
        {**PARAMS, "early_stopping_round": 2, "learning_rate": 1.5},
        data,
        T,
        valid_sets=[data.create_valid(XV, YV)],
        callbacks=[ReportCallback(trial)],
    )
    trial._best = None
    trial.close()
    ((scores, predicted),) = notes.seen
    np.testing.assert_allclose(scores, predicted, atol=1e-6)


def test_the_models_are_told_before_lightgbm_drops_trees_and_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Callbacks are not: it is noticed by the method that LightGBM calls, which must stay so."""
    told: list[int] = []
    monkeypatch.setattr(
        callbacks.RoundModel, "before_reload", lambda model: told.append(model.rounds)
    )
    trial = make_trial(Engine(tmp_path), check=Notes(), policy=AT_END)
    booster, _ = train(ReportCallback(trial))
    assert T in told
    assert "model_from_string" not in vars(booster)  # the hook is gone


def test_a_booster_that_is_kept_for_training_can_be_copied_and_pickled(tmp_path: Path) -> None:
    trial = make_trial(Engine(tmp_path), check=Notes())
    booster, _ = train(ReportCallback(trial), keep_training_booster=True)
    expected = booster.predict(XV)
    text = booster.model_to_string()
    for other in (pickle.loads(pickle.dumps(booster)), copy.deepcopy(booster)):
        np.testing.assert_array_equal(other.predict(XV), expected)
        other.model_from_string(text)
        np.testing.assert_allclose(other.predict(XV), expected, atol=1e-12)
    assert trial.model.scores.shape == YV.shape  # type: ignore[attr-defined]


# rounds that grow a tree, and rounds that draw no feature worth a split and grow none
SPARSE = {"min_gain_to_split": 2.5, "feature_fraction": 0.2, "learning_rate": 0.5, "metric": "auc"}


def test_rounds_without_a_split_are_steps_too(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    notes = Notes(lambda model: (model.rounds, model.scores, model.predict(XV)))
    train(ReportCallback(make_trial(engine, check=notes)), params={"min_gain_to_split": 1e6})
    assert engine.steps == list(range(1, T + 1))
    for rounds, scores, predicted in notes.seen:
        assert rounds == 1
        np.testing.assert_allclose(scores, predicted, atol=1e-6)


@pytest.mark.parametrize("stop_at", [9, T])
def test_the_best_round_is_found_where_rounds_before_it_grew_no_tree(
    tmp_path: Path, stop_at: int
) -> None:
    notes = Notes(lambda model: (model.rounds, model.predict(XV)))
    engine = Engine(tmp_path, stop_at=stop_at)
    trial = make_trial(engine, check=notes)
    booster, _ = train(ReportCallback(trial), params=SPARSE)
    assert engine.steps == list(range(1, stop_at + 1))
    best = int(np.argmax(engine.values))
    rounds, predicted = notes.seen[best]
    assert 1 < rounds < best + 1  # rounds without a tree, and rounds with one
    assert booster.best_iteration == rounds
    np.testing.assert_allclose(booster.predict(XV), predicted, atol=1e-12)


# -- what is written -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "classes"),
    [
        ({}, 2),
        ({"objective": "multiclass", "metric": "multi_logloss", "num_class": 3}, 3),
        ({"linear_tree": True}, 2),
        ({"boosting": "rf", "bagging_fraction": 0.7, "bagging_freq": 1}, 2),
    ],
    ids=["binary", "multiclass", "linear", "rf"],
)
def test_the_text_put_together_is_lightgbms(params: dict[str, Any], classes: int) -> None:
    X, Y, XV, _ = rows(classes=classes)
    booster = lgb.train({**PARAMS, **params}, lgb.Dataset(X, Y), T)
    text = TreeText()
    for rounds in (1, 2, 11, 12, 5, 1, 12):  # 11: the numbers of trees have two digits by then
        found, expected = text.at(booster, rounds), booster.model_to_string(num_iteration=rounds)
        begin, end = "\nfeature_importances:\n", "\nparameters:\n"
        assert found.partition(begin)[0] == expected.partition(begin)[0]
        assert found.partition(end)[2] == expected.partition(end)[2]
        np.testing.assert_array_equal(
            lgb.Booster(model_str=found).predict(XV), booster.predict(XV, num_iteration=rounds)
        )


def test_the_text_of_an_unknown_format_is_written_whole() -> None:
    class Other:
        def num_model_per_iteration(self) -> int:
            return 1

        def model_to_string(self, num_iteration: int, start_iteration: int = 0) -> str:
            return f"trees {start_iteration} to {num_iteration}"

    text = TreeText()
    assert [text.at(Other(), rounds) for rounds in (3, 5)] == ["trees 0 to 3", "trees 0 to 5"]


def test_each_tree_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many checkpoints are kept."""
    written: list[int] = []
    original = lgb.Booster.model_to_string

    def counted(self: Any, num_iteration: Any = None, start_iteration: int = 0) -> Any:
        text = original(self, num_iteration=num_iteration, start_iteration=start_iteration)
        written.append(text.count("Tree="))
        return text

    monkeypatch.setattr(lgb.Booster, "model_to_string", counted)
    engine = Engine(tmp_path)
    trial = make_trial(engine, objective="spread", check=Notes())
    train(ReportCallback(trial), feval=spread, keep_training_booster=True)
    assert len(engine.models) == T  # each round is a new best
    assert written == [1] * T
    assert [engine.load(step).booster.num_trees() for step in engine.models] == [*range(1, T + 1)]


# -- going on from a model -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [{}, {"min_gain_to_split": 1e6}, SPARSE, {"min_gain_to_split": 4.0, "learning_rate": 0.5}],
    ids=["every round a tree", "no tree", "some trees", "no more trees"],
)
@pytest.mark.parametrize("base", [False, True])
def test_an_attempt_goes_on_from_the_checkpoint_of_another(
    tmp_path: Path, params: dict[str, Any], base: bool
) -> None:
    """A round may grow no tree, and there may be a base model that every attempt begins with."""
    start = train(None, rounds=3)[0] if base else None
    engine = Engine(tmp_path)
    report = ReportCallback(make_trial(engine), checkpoint_every=4)
    assert report.init_model is None
    assert report.rounds_left(T) == T
    whole, _ = train(report, params=params, init_model=start)
    # none at the last step, after which there is nothing to go on with
    assert {path.name for path in tmp_path.glob("resume-*")} == {"resume-4", "resume-8"}
    assert (whole.num_trees() < T + 3 * base) == bool(params)  # rounds without a tree

    again = Engine(tmp_path)
    report = ReportCallback(make_trial(again, checkpoint=(tmp_path / "resume-8", 8)))
    assert report.init_model == tmp_path / "resume-8" / CHECKPOINT
    assert report.rounds_left(T) == T - 8
    booster, _ = train(
        report, params=params, rounds=report.rounds_left(T), init_model=report.init_model or start
    )
    assert again.steps == [9, 10, 11, 12]
    assert again.total_steps == T
    if not params:  # features are drawn anew
        np.testing.assert_allclose(again.values, engine.values[8:], atol=1e-9)
        assert booster.num_trees() == whole.num_trees()


def test_the_scikit_learn_classes_go_on_too(tmp_path: Path) -> None:
    def fit(trial: Any) -> Any:
        report = ReportCallback(trial, metric="auc", checkpoint_every=4)
        model = lgb.LGBMClassifier(
            n_estimators=report.rounds_left(T), verbosity=-1, n_jobs=1, min_child_samples=5
        )
        options = {"eval_X": XV, "eval_y": YV, "eval_metric": "auc"}
        return model.fit(X, Y, **options, init_model=report.init_model, callbacks=[report])

    first, second = Engine(tmp_path), Engine(tmp_path)
    fit(make_trial(first))
    fit(make_trial(second, checkpoint=(tmp_path / "resume-4", 4)))
    assert second.steps == list(range(5, T + 1))
    np.testing.assert_allclose(second.values, first.values[4:], atol=1e-9)


def test_a_trial_of_a_study_goes_on_after_a_failure(study: Path) -> None:
    def fit(trial: Any) -> None:
        def fail(env: Any) -> None:
            if trial.attempt == 1 and env.iteration == 6:
                raise RuntimeError("the power is gone")

        report = ReportCallback(trial, checkpoint_every=4)
        rounds = report.rounds_left(T)
        train(report, params=SPARSE, rounds=rounds, init_model=report.init_model, callbacks=[fail])
        (study.parent / "trained").write_text(str(rounds))

    result = acetune.tune(
        fit,
        space={"x": acetune.uniform(0, 1)},
        objective="auc",
        mode="max",
        max_trials=1,
        retries=1,
        workers=1,
        study=study,
        seed=1,
    )
    (row,) = result.trials.to_dict("records")
    assert (row["attempts"], row["state"], row["last_step"]) == (2, "finished", T)
    assert row["total_steps"] == T
    assert (study.parent / "trained").read_text() == str(T - 4)


@pytest.mark.parametrize("total", [0, 2.5])
def test_rounds_are_whole(tmp_path: Path, total: Any) -> None:
    with pytest.raises(AcetuneError, match=f"total_steps must be a whole number >= 1, got {total}"):
        ReportCallback(make_trial(Engine(tmp_path))).rounds_left(total)


def test_an_attempt_that_begins_anew_counts_from_one(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    train(ReportCallback(make_trial(engine, checkpoint=(tmp_path, 8))))
    assert engine.steps == list(range(1, T + 1))


def test_rounds_of_a_base_model_are_not_steps(tmp_path: Path) -> None:
    base, _ = train(None)
    engine = Engine(tmp_path)
    notes = Notes(lambda model: (model.scores, model.predict(XV)))
    booster, _ = train(ReportCallback(make_trial(engine, check=notes)), rounds=3, init_model=base)
    assert engine.steps == [1, 2, 3]
    assert engine.total_steps == 3
    assert engine.load(next(iter(engine.models))).rounds > T
    for scores, predicted in notes.seen:
        np.testing.assert_allclose(scores, predicted, atol=1e-6)
    assert booster.num_trees() == T + 3


# -- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "training", "message"),
    [
        ({"metric": "mse"}, {}, r"'mse'.*\['binary_logloss', 'auc'\]"),
        ({"valid": "test"}, {}, r"valid='test'.*\['valid_0'\]"),
        ({"scores_on": "test"}, {}, r"scores_on='test'.*\['valid_0'\]"),
        ({"metric": "binary_logloss"}, {}, r"'binary_logloss' is better when lower.*mode='max'"),
        ({}, {"valid_sets": None}, "valid_sets"),
        ({}, {"params": {"metric": "None"}}, "evaluated nothing"),
        ({}, {"params": {"metric": ["l1", "l2"]}}, r"objective 'auc'.*metric=, one of \['l1'"),
        ({"checkpoint_every": 0}, {}, "checkpoint_every must be a whole number >= 1, got 0"),
    ],
)
def test_bad_input_is_named(
    tmp_path: Path, options: dict[str, Any], training: dict[str, Any], message: str
) -> None:
    with pytest.raises(AcetuneError, match=message):
        train(ReportCallback(make_trial(Engine(tmp_path)), **options), **training)


def test_two_validation_sets_must_be_told_apart(tmp_path: Path) -> None:
    data = lgb.Dataset(X, Y)
    sets = [data.create_valid(XV, YV), data.create_valid(X[:50], Y[:50])]
    report = ReportCallback(make_trial(Engine(tmp_path)))
    with pytest.raises(AcetuneError, match=r"valid=, one of \['valid_0', 'valid_1'\]"):
        lgb.train(PARAMS, data, 2, valid_sets=sets, callbacks=[report])


def test_what_has_the_objectives_name_must_be_one(tmp_path: Path) -> None:
    def auc(scores: Any, _: Any) -> tuple[str, float, bool]:
        return "auc", 0.5, True

    with pytest.raises(AcetuneError, match=r"'auc' is evaluated more than once on 'valid_0'"):
        train(ReportCallback(make_trial(Engine(tmp_path))), feval=auc)


def test_cross_validation_is_refused(tmp_path: Path) -> None:
    report = ReportCallback(make_trial(Engine(tmp_path)))
    with pytest.raises(AcetuneError, match=r"use lgb\.train"):
        lgb.cv(PARAMS, lgb.Dataset(X, Y), 2, nfold=2, callbacks=[report])


def test_a_callback_serves_one_training(tmp_path: Path) -> None:
    report = ReportCallback(make_trial(Engine(tmp_path)))
    train(report)
    with pytest.raises(AcetuneError, match="make one for each training"):
        train(report)


@pytest.mark.parametrize("other", [None, object(), lambda: None])
def test_the_trial_is_acetunes(other: Any) -> None:
    with pytest.raises(AcetuneError, match=r"acetune\.optuna\.trial"):
        ReportCallback(other)


# -- a study -------------------------------------------------------------------------------------


def test_a_study_keeps_the_best_round(study: Path) -> None:
    def fit(trial: Any) -> None:
        early = lgb.early_stopping(3, verbose=False)
        train(ReportCallback(trial), params=trial.params, callbacks=[early])

    limit = Constraint("size", upper=T, check=lambda model: model.booster.num_trees())
    result = acetune.tune(
        fit,
        space={"learning_rate": acetune.loguniform(0.5, 1.5)},
        objective="auc",
        mode="max",
        constraints=[limit],
        confirm=lambda model: {"auc": float(np.mean(model.scores)), "size": 0.0},
        policy=AT_END,
        max_trials=3,
        workers=1,
        study=study,
        seed=1,
    )
    best = result.best
    assert best is not None
    model = best.load()
    whole, found = train(None, params=best.params)
    assert best.value == max(found["valid_0"]["auc"][: best.step + 3])
    assert found["valid_0"]["auc"][best.step - 1] == best.value
    np.testing.assert_allclose(
        model.predict(XV), whole.predict(XV, num_iteration=best.step), atol=1e-9
    )
    np.testing.assert_allclose(model.scores, model.predict(XV), atol=1e-6)
