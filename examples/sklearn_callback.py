"""scikit-learn, two ways: SGD by partial_fit and histogram boosting by warm_start, under 200 kB."""

import pickle

from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import SGDClassifier

import acetune
from acetune.callbacks.sklearn import partial_fit, warm_start

X, y = make_classification(3000, n_informative=6, flip_y=0.1, random_state=0)
X, X_select, y, y_select = X[:2000], X[2000:], y[:2000], y[2000:]


def train(trial):
    scored = {"score": "accuracy", "validation": (X_select, y_select)}
    if trial.params["learner"] == "linear":
        model = SGDClassifier(alpha=trial.params["penalty"], random_state=0)
        partial_fit(trial, model, X, y, steps=20, batch_size=200, **scored)
    else:  # two trees a step
        model = HistGradientBoostingClassifier(l2_regularization=trial.params["penalty"])
        warm_start(trial, model, X, y, steps=20, step=2, **scored)


result = acetune.tune(
    train,
    {"learner": acetune.choice(["linear", "trees"]), "penalty": acetune.loguniform(1e-4, 10)},
    objective="accuracy",
    mode="max",
    constraints=[
        acetune.Constraint("kilobytes", upper=200, check=lambda m: len(pickle.dumps(m)) / 1024)
    ],
    max_trials=10,
    seed=0,
)
print(result)
