"""An XGBoost model that must answer for 200 rows within 0.5 ms, in the median of many calls."""

import numpy as np
import xgboost as xgb

import acetune
from acetune.callbacks.xgboost import ReportCallback
from acetune.constraints import LatencyCheck

rng = np.random.default_rng(0)
X = rng.normal(size=(12_000, 8))
y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) + rng.normal(size=12_000) / 3
fit, select = slice(0, 8_000), slice(8_000, 12_000)


def train(trial):
    dtrain, dvalid = xgb.DMatrix(X[fit], y[fit]), xgb.DMatrix(X[select], y[select])
    params = {"eval_metric": "rmse", "nthread": 1, **trial.params}
    report = ReportCallback(trial, total_steps=100, dvalid=dvalid)
    evals, callbacks = [(dvalid, "valid")], [report]
    xgb.train(params, dtrain, 100, evals=evals, callbacks=callbacks, verbose_eval=False)


def predict(model):
    return model.predict(X[:200])


check = LatencyCheck(predict, percentile=50, repeats=100)
fresh = LatencyCheck(predict, percentile=50, repeats=1000)
result = acetune.tune(
    train,
    {"max_depth": acetune.randint(2, 10), "eta": acetune.loguniform(0.02, 0.5)},
    objective="rmse",
    mode="min",
    constraints=[acetune.Constraint("ms", upper=0.5, check=check)],
    confirm=lambda model: {"ms": fresh(model)},
    max_trials=40,
    threads=1,
    seed=0,
    study="latency.db",
)
print(result)
