"""LGBMClassifier with three classes, none of which may be recognised less than half the time."""

import lightgbm as lgb
from sklearn.datasets import make_classification
from sklearn.metrics import recall_score

import acetune
from acetune.callbacks.lightgbm import ReportCallback

shape = {"n_features": 12, "n_informative": 5, "n_classes": 3, "weights": [0.6, 0.3, 0.1]}
X, y = make_classification(3000, flip_y=0.1, random_state=0, **shape)
X, X_select, y, y_select = X[:2000], X[2000:], y[:2000], y[2000:]


def train(trial):
    model = lgb.LGBMClassifier(n_estimators=60, verbosity=-1, n_jobs=trial.threads, **trial.params)
    callbacks = [ReportCallback(trial, metric="multi_logloss")]
    model.fit(X, y, eval_X=X_select, eval_y=y_select, callbacks=callbacks)


def worst_recall(model):
    return recall_score(y_select, model.scores.argmax(axis=1), average=None).min()


result = acetune.tune(
    train,
    {
        "learning_rate": acetune.loguniform(0.02, 0.5),
        "num_leaves": acetune.lograndint(4, 64),
        "class_weight": acetune.choice(["balanced", None]),
    },
    objective="log_loss",
    mode="min",
    constraints=[acetune.Constraint("worst_recall", lower=0.5, check=worst_recall)],
    max_trials=20,
    seed=0,
)
print(result)
