"""Keras' fit() reports to a trial, on a small classifier with PyTorch behind it."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "torch")  # read once, when keras is imported

import keras
import torch

from acetune.callbacks.keras import KerasCandidate, ReportCallback
from acetune.core.errors import GoalError, ReportError
from acetune.testing import check_callback
from acetune.testing._callbacks import make_trial

# Keras turns tensors into arrays in a way that NumPy 2 would like done otherwise
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

_rng = np.random.default_rng(0)
X = _rng.normal(size=(48, 3)).astype("float32")
Y = (X[:, 0] + 0.5 * _rng.normal(size=48) > 0).astype("float32")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.set_num_threads(1)
    keras.utils.set_random_seed(0)


def compiled(model: Any, rate: float = 0.1) -> Any:
    optimizer = keras.optimizers.SGD(rate, momentum=0.9)
    model.compile(optimizer, loss="binary_crossentropy", metrics=["accuracy"])
    return model


def make_model(rate: float = 0.1) -> Any:
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((3,)),
            layers.Dense(4, "relu"),
            layers.BatchNormalization(),
            layers.Dropout(0.3),
            layers.Dense(1, "sigmoid"),
        ]
    )
    return compiled(model, rate)


def fit(report: Any, *others: Any, model: Any = None, **options: Any) -> dict[str, list[float]]:
    model = model or make_model()
    history = model.fit(
        X,
        Y,
        **{"validation_data": (X, Y), "epochs": 3, "verbose": 0, "batch_size": 16, **options},
        callbacks=[*others, report] if report else [*others],
    )
    found: dict[str, list[float]] = history.history
    return found


def loss_of(candidate: KerasCandidate) -> float:
    p = candidate.model.predict(X, verbose=0)[:, 0].clip(1e-7, 1 - 1e-7)  # as Keras does
    return float(-np.mean(Y * np.log(p) + (1 - Y) * np.log(1 - p)))


def nothing(_: object) -> float:
    return 0.0


def test_every_epoch_is_reported(tmp_path: Path) -> None:
    trial, link = make_trial(tmp_path, loss_of)
    logged = fit(ReportCallback(trial, "val_loss"))
    trial.close()
    assert link.declared == [3]
    assert list(link.values.items()) == list(enumerate(logged["val_loss"], start=1))
    assert link.measured() == pytest.approx(link.values, abs=1e-4)
    assert all((report.primary_cost_s or 0) > 0 for report in link.reports)


def test_it_keeps_to_the_protocol() -> None:
    def train(trial: Any) -> None:
        keras.utils.set_random_seed(0)
        fit(ReportCallback(trial, "val_loss"))

    check_callback(train, loss_of)


def test_a_check_changes_nothing_in_training(tmp_path: Path) -> None:
    trial, link = make_trial(tmp_path, loss_of)
    watched = fit(ReportCallback(trial, "val_loss"))
    keras.utils.set_random_seed(0)
    assert fit(None) == watched
    assert len(link.measured()) == 3


def test_epochs_without_validation_are_steps_without_a_report(tmp_path: Path) -> None:
    trial, link = make_trial(tmp_path, loss_of, interval="end")
    logged = fit(ReportCallback(trial, "val_loss"), epochs=5, validation_freq=2)
    assert link.declared == [5]
    assert link.values == dict(zip([2, 4], logged["val_loss"], strict=True))
    trial.close()  # the last epoch was not validated: the check is made now
    step = min(link.values, key=link.values.__getitem__)
    assert link.measured() == pytest.approx({step: link.values[step]}, abs=1e-4)


def test_a_stopped_trial_ends_the_fit(tmp_path: Path) -> None:
    trial, link = make_trial(tmp_path, nothing, stop_at=2)
    logged = fit(ReportCallback(trial, "val_loss"), epochs=9)
    assert (list(link.values), len(logged["val_loss"])) == ([1, 2], 2)


@pytest.mark.parametrize("first", [True, False])
def test_beside_early_stopping_that_restores_weights(first: bool, tmp_path: Path) -> None:
    trial, link = make_trial(tmp_path, loss_of, interval="end")
    early = keras.callbacks.EarlyStopping(
        "val_loss", min_delta=10.0, patience=2, restore_best_weights=True
    )
    best = keras.callbacks.ModelCheckpoint(str(tmp_path / "best.keras"), save_best_only=True)
    callbacks = [ReportCallback(trial, "val_loss"), early, best]
    logged = fit(*(callbacks if first else callbacks[::-1]), epochs=9)
    assert len(logged["val_loss"]) == 3
    assert link.measured() == {}  # it was due at step 9, which never came
    trial.close()
    step = min(link.values, key=link.values.__getitem__)
    assert step > 1  # where early stopping has put the weights back to
    assert link.measured() == pytest.approx({step: link.values[step]}, abs=1e-4)


def test_the_best_is_checked_at_the_last_step_and_kept(tmp_path: Path) -> None:
    trial, link = make_trial(tmp_path, loss_of, interval="end")
    model = make_model(rate=3.0)  # too fast: the last is not the best
    fit(ReportCallback(trial, "val_loss"), model=model, epochs=5)
    step = min(link.values, key=link.values.__getitem__)
    assert step < 5
    assert link.measured() == pytest.approx({step: link.values[step]}, abs=1e-4)
    assert list(link.models) == [step]
    kept = link.load(step)
    assert loss_of(kept) == pytest.approx(link.values[step], abs=1e-4)
    model.set_weights(kept.weights)
    np.testing.assert_array_equal(model.predict(X, verbose=0), kept.model.predict(X, verbose=0))


class Scaled(keras.layers.Layer):
    """A layer that Keras has not been told of."""

    def __init__(self, factor: float = 2.0, **options: Any) -> None:
        super().__init__(**options)
        self.factor = factor

    def call(self, x: Any) -> Any:
        return x * self.factor

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "factor": self.factor}


class Net(keras.Model):
    """A model of somebody's own class."""

    def __init__(self, width: int = 4, **options: Any) -> None:
        super().__init__(**options)
        self.width = width
        self.body = keras.layers.Dense(width, "relu")
        self.head = keras.layers.Dense(1, "sigmoid")

    def call(self, x: Any) -> Any:
        return self.head(self.body(x))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "width": self.width}


def functional() -> Any:
    x = inputs = keras.Input((3,))
    inner = keras.Sequential([keras.layers.Dense(4), Scaled(0.5)])
    return keras.Model(inputs, keras.layers.Dense(1, "sigmoid")(Scaled(3.0)(inner(x))))


def deferred() -> Any:  # knows the shape of its input from the first batch
    return keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(1, "sigmoid")])


def twice_sigmoid(x: Any) -> Any:
    return x * keras.ops.sigmoid(2 * x)


class Ones(keras.initializers.Initializer):
    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        return keras.ops.ones(shape)


def own_functions() -> Any:
    layers = keras.layers
    body = layers.Dense(4, activation=twice_sigmoid, kernel_initializer=Ones())
    return keras.Sequential([layers.Input((3,)), body, layers.Dense(1, "sigmoid")])


def wrapped() -> Any:
    layers = keras.layers
    steps = [layers.Reshape((3, 1)), layers.TimeDistributed(Scaled(2.0)), layers.Flatten()]
    return keras.Sequential([layers.Input((3,)), *steps, layers.Dense(1, "sigmoid")])


@pytest.mark.parametrize(
    "make", [functional, deferred, lambda: Net(width=7), own_functions, wrapped]
)
def test_models_of_all_kinds_can_be_kept(make: Any, tmp_path: Path) -> None:
    trial, link = make_trial(tmp_path, loss_of, interval="end")
    fit(ReportCallback(trial, "val_loss"), model=compiled(make()), epochs=3)
    (step,) = link.models
    assert link.measured() == pytest.approx({step: link.values[step]}, abs=1e-4)
    assert loss_of(link.load(step)) == pytest.approx(link.values[step], abs=1e-4)


class Hiding(keras.layers.Layer):
    """Has its function where nobody would look for it."""

    def __init__(self, function: str, **options: Any) -> None:
        super().__init__(**options)
        self.function = function
        self.act = functools.partial(keras.saving.get_registered_object(function))

    def call(self, x: Any) -> Any:
        return self.act(x)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "function": self.function}


def hiding() -> Any:
    with keras.saving.CustomObjectScope({"twice_sigmoid": twice_sigmoid}):
        own = Hiding("twice_sigmoid")
    return keras.Sequential([keras.layers.Input((3,)), own, keras.layers.Dense(1, "sigmoid")])


def test_a_function_that_cannot_be_found_is_asked_for_at_once(tmp_path: Path) -> None:
    trial, link = make_trial(tmp_path, loss_of, interval="end")
    with pytest.raises(ReportError, match=r"custom_objects=\{.*Known are \['Hiding'\]"):
        fit(ReportCallback(trial, "val_loss"), model=compiled(hiding()))
    assert link.reports == []  # at the first report, and not when training had ended
    trial, link = make_trial(tmp_path, loss_of, interval="end")
    report = ReportCallback(trial, "val_loss", custom_objects={"twice_sigmoid": twice_sigmoid})
    fit(report, model=compiled(hiding()))
    (step,) = link.models
    assert link.measured() == pytest.approx({step: link.values[step]}, abs=1e-4)
    assert loss_of(link.load(step)) == pytest.approx(link.values[step], abs=1e-4)


def test_two_functions_of_one_name_are_not_mixed_up(tmp_path: Path) -> None:
    def times(factor: float) -> Any:
        def act(x: Any) -> Any:
            return factor * x

        return act

    layers = [keras.layers.Dense(1, activation=times(factor)) for factor in (1.0, 2.0)]
    model = keras.Sequential([keras.layers.Input((3,)), *layers])
    with pytest.raises(ReportError, match="two parts of the model are named 'act'"):
        KerasCandidate(model).keep()


def test_an_attempt_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    def train(report: ReportCallback) -> None:
        keras.utils.set_random_seed(0)
        model = compiled(deferred())
        if report.checkpoint is not None:
            model = keras.models.load_model(report.checkpoint)
        start = report.initial_epoch
        fit(report, model=model, epochs=4, initial_epoch=start, shuffle=False)

    whole, all_of_it = make_trial(tmp_path / "whole", nothing)
    train(ReportCallback(whole, "val_loss"))
    first, before = make_trial(tmp_path / "first", nothing, stop_at=2)  # as if it had died there
    train(ReportCallback(first, "val_loss", checkpoints=True))
    assert list(before.checkpoints) == [1, 2]
    folder = before.checkpoints[2]
    second, after = make_trial(tmp_path / "second", nothing, checkpoint=folder, last_step=2)
    train(ReportCallback(second, "val_loss", checkpoints=True))
    assert list(after.values) == [3, 4]
    assert {**before.values, **after.values} == pytest.approx(all_of_it.values)


@pytest.mark.parametrize("second", [{"epochs": 2}, {"epochs": 5, "initial_epoch": 3}])
def test_a_second_fit_needs_to_know_the_last_step(second: dict[str, int], tmp_path: Path) -> None:
    trial, link = make_trial(tmp_path, nothing)
    report = ReportCallback(trial, "val_loss", total_steps=5)
    model = make_model()
    fit(report, model=model)
    fit(report, model=model, **second)
    assert list(link.values) == [1, 2, 3, 4, 5]
    assert set(link.declared) == {5}
    trial, link = make_trial(tmp_path, nothing)
    report = ReportCallback(trial, "val_loss")
    fit(report)
    with pytest.raises(ReportError, match=r"ReportCallback\(\.\.\., total_steps="):
        fit(report)
    trial, link = make_trial(tmp_path, nothing)
    report = ReportCallback(trial, "val_loss", total_steps=4)
    fit(report)
    with pytest.raises(ReportError, match=r"total_steps=4 is too small: .* step 5"):
        fit(report, epochs=2)
    assert list(link.values) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("made", "options", "words"),
    [
        ({"metric": "val_auc"}, {}, r"no metric 'val_auc'; it has \['accuracy', 'loss', 'val_acc"),
        ({"metric": "auc"}, {"validation_data": None}, r"it has \['accuracy', 'loss'\]"),
        ({"metric": "val_loss"}, {"validation_data": None}, "give it validation_data"),
        ({"metric": ""}, {}, "metric must be the name"),
        ({"metric": "val_loss", "total_steps": -1}, {}, "must be a whole number >= 1, got -1"),
        ({"metric": "val_loss", "total_steps": 2}, {}, "total_steps=2 is too small: .* step 3"),
        ({"metric": "val_loss", "custom_objects": ["act"]}, {}, r"must be a dict.*\['act'\]"),
        ({"metric": "val_loss", "trial": "trial"}, {}, "got a str"),
    ],
)
def test_bad_input(
    made: dict[str, Any], options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    trial = make_trial(tmp_path, nothing)[0]
    with pytest.raises((ReportError, GoalError), match=words):
        fit(ReportCallback(**{"trial": trial, **made}), **options)
