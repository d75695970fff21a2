"""Ridge regression on random features that must answer for 64 rows within 0.25 ms."""

import numpy as np

import acetune
from acetune.constraints.latency import LatencyCheck

rng = np.random.default_rng(0)
X = rng.normal(size=(5_000, 100))
y = np.sin(X[:, 0] * X[:, 1]) + X[:, 2] ** 2 + rng.normal(size=5_000) / 4
fit, select = slice(0, 3_000), slice(3_000, 5_000)


def predict(model, rows):  # ridge regression on random features: more of them, better and slower
    directions, weights = model
    return np.cos(rows @ directions) @ weights


def train(trial):
    directions = np.empty((100, 0))
    for _ in trial.steps(8):
        new = np.random.default_rng(trial.number).normal(size=(100, trial.params["block"]))
        new[3:] *= trial.params["noise"]  # of the features only the first three matter
        directions = np.hstack([directions, new * trial.params["scale"]])
        inside = np.cos(X[fit] @ directions)
        gram = inside.T @ inside + np.eye(directions.shape[1])
        model = directions, np.linalg.solve(gram, inside.T @ y[fit])
        trial.report(error=np.std(y[select] - predict(model, X[select])), model=model)


limit = acetune.Constraint(
    "p50_ms", upper=0.25, check=LatencyCheck(lambda model: predict(model, X[:64]), percentile=50)
)
result = acetune.tune(
    train,
    space={
        "block": acetune.lograndint(4, 100),
        "scale": acetune.loguniform(0.1, 2),
        "noise": acetune.loguniform(1e-3, 1),
    },
    objective="error",
    mode="min",
    constraints=[limit],
    workers=2,
    max_trials=20,
    seed=1,
)
print(result)
