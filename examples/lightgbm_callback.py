"""LightGBM under a fairness limit: the acceptance rates of two groups may differ by 0.08."""

import lightgbm as lgb
import numpy as np

import acetune
from acetune.callbacks.lightgbm import ReportCallback

rng = np.random.default_rng(0)
group = rng.integers(0, 2, 6000)
X = rng.normal(size=(6000, 5)) + 0.8 * group[:, None] * [1, 0, 0, 0, 0]
y = X @ [0.5, 1, 1, 0, 0] + 1.5 * rng.normal(size=6000) > 0.4
fit, select = np.arange(4000), np.arange(4000, 6000)


def train(trial):
    data = lgb.Dataset(X[fit], y[fit])
    valid = data.create_valid(X[select], y[select])
    fixed = {"objective": "binary", "metric": "auc", "verbosity": -1}
    callbacks = [ReportCallback(trial), lgb.early_stopping(20, verbose=False)]
    lgb.train({**fixed, **trial.params}, data, 150, valid_sets=[valid], callbacks=callbacks)


def gap(model):
    accepted = model.scores > 0.5  # LightGBM has these at hand: nothing is predicted again
    return abs(accepted[group[select] == 0].mean() - accepted[group[select] == 1].mean())


result = acetune.tune(
    train,
    {"learning_rate": acetune.loguniform(0.01, 1), "feature_fraction": acetune.uniform(0.2, 1)},
    objective="auc",
    mode="max",
    constraints=[acetune.Constraint("gap", upper=0.08, check=gap)],
    max_trials=30,
    seed=0,
)
print(result)
