"""XGBoost with a limit on false alarms: at most 10 % of the negatives may score above 0.5."""

import numpy as np
import xgboost as xgb

import acetune
from acetune.callbacks.xgboost import ReportCallback

rng = np.random.default_rng(0)
X = rng.normal(size=(4000, 6))
y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=4000) > 0.5
X_select, y_select = X[3000:], y[3000:]
ROUNDS = 60


def train(trial):
    dtrain, dselect = xgb.DMatrix(X[:3000], y[:3000]), xgb.DMatrix(X_select, y_select)
    fixed = {"objective": "binary:logistic", "eval_metric": "auc", "nthread": trial.threads}
    # XGBoost tells callbacks neither how many rounds there are nor the rows it evaluates
    report = ReportCallback(trial, total_steps=ROUNDS, dvalid=dselect)
    evals, params = [(dselect, "select")], {**fixed, **trial.params}
    xgb.train(params, dtrain, ROUNDS, evals=evals, callbacks=[report], verbose_eval=False)


result = acetune.tune(
    train,
    {"eta": acetune.loguniform(0.02, 1), "scale_pos_weight": acetune.loguniform(0.3, 3)},
    objective="auc",
    mode="max",
    constraints=[
        acetune.Constraint("alarms", upper=0.1, check=lambda m: np.mean(m.scores[~y_select] > 0.5))
    ],
    max_trials=20,
    seed=0,
)
print(result)
