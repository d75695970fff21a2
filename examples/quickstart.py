import numpy as np

import acetune
from acetune.constraints import fairness

rng = np.random.default_rng(0)
group = rng.integers(0, 2, 30_000)  # two groups of people; the last feature knows the group
X = np.c_[rng.normal(size=(30_000, 6)), group + rng.normal(size=30_000)]
y = X @ [1, -1, 0.5, 0.5, 0, 0, 1] + rng.normal(size=30_000) > 0.5
fit, select, fresh = np.split(np.arange(30_000), 3)


def accuracy(w, rows):
    return np.mean((X[rows] @ w > 0) == y[rows])


def gap(w, rows):  # how much more often one group is accepted than the other
    accepted = (X[rows] @ w > 0).astype(int)
    return fairness.demographic_parity_difference(
        y[rows], accepted, sensitive_features=group[rows], stderr=True
    )


def train(trial):
    w = np.zeros(7)
    for _ in trial.steps(trial.params["epochs"]):  # ends by itself when the trial is stopped
        error = 1 / (1 + np.exp(-X[fit] @ w)) - y[fit]
        penalty = trial.params["penalty"] * np.arange(7) ** 2 * w
        w = w - trial.params["rate"] * (X[fit].T @ error / len(fit) + penalty)
        # a snapshot lets the best checkpoint be checked at the end, and not only the last one
        trial.report(accuracy=accuracy(w, select), model=w, snapshot=np.copy)


result = acetune.tune(
    train,
    space={
        "rate": acetune.loguniform(0.01, 3),
        "penalty": acetune.loguniform(1e-4, 1),
        "epochs": acetune.lograndint(5, 200),
    },
    objective="accuracy",
    mode="max",
    constraints=[acetune.Constraint("gap", upper=0.1, check=lambda w: gap(w, select))],
    confirm=lambda w: {"accuracy": accuracy(w, fresh), "gap": gap(w, fresh)},
    max_trials=100,
    seed=1,
    study="fair.db",  # one SQLite file; run this again and it goes on where it was
)
print(result)
