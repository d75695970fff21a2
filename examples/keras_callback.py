"""Keras 3: a network whose acceptance rates of two groups may differ by 0.05."""

import os

import numpy as np

os.environ.setdefault("KERAS_BACKEND", "torch")  # or jax, tensorflow; workers inherit it
import keras

import acetune
from acetune.callbacks.keras import ReportCallback

rng = np.random.default_rng(0)
group = rng.integers(0, 2, 2000)
X = rng.normal(size=(2000, 5)) + 0.5 * group[:, None] * [1, 0, 0, 0, 0]
y = (X @ [1, 1, -1, 0.5, 0] + rng.normal(size=2000) > 0).astype("float32")
fit, select = np.arange(1000), np.arange(1000, 2000)
held_out = (X[select], y[select])


def train(trial):
    layers = [keras.layers.Dense(16, "relu"), keras.layers.Dense(1, "sigmoid")]
    model = keras.Sequential([keras.Input((5,)), *layers])
    optimizer = keras.optimizers.AdamW(**trial.params)
    model.compile(optimizer, loss="binary_crossentropy", metrics=["accuracy"])
    report = ReportCallback(trial, metric="val_accuracy")
    patience = keras.callbacks.EarlyStopping(patience=4, restore_best_weights=True)
    model.fit(X[fit], y[fit], 100, 8, 0, [patience, report], validation_data=held_out)


def gap(candidate):
    accepted = candidate.model.predict(X[select], 1000, verbose=0)[:, 0] > 0.5
    return abs(accepted[group[select] == 0].mean() - accepted[group[select] == 1].mean())


space = {"learning_rate": acetune.loguniform(1e-3, 0.3), "weight_decay": 0.1}
limit = acetune.Constraint("gap", upper=0.05, check=gap)
goal = {"objective": "accuracy", "mode": "max", "constraints": [limit]}
print(acetune.tune(train, space, **goal, max_trials=4, workers=1, threads=1, seed=0))
