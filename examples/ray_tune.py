from pathlib import Path

import numpy as np
import ray
from ray import tune

import acetune.ray

rng = np.random.default_rng(0)
group = rng.integers(0, 2, 20_000)  # two groups of people; the last feature knows the group
X = np.c_[rng.normal(size=(20_000, 6)), group + rng.normal(size=20_000)]
y = X @ [1, -1, 0.5, 0.5, 0, 0, 1] + rng.normal(size=20_000) > 0.5
fit, select = np.split(np.arange(20_000), 2)


def accuracy(w):
    return np.mean((X[select] @ w > 0) == y[select])


def gap(w):  # how much more often one group is accepted than the other
    a, b = (X[select][group[select] == g] @ w > 0 for g in (0, 1))
    return abs(a.mean() - b.mean())


def train(config):
    w = np.zeros(7)
    with acetune.ray.trial(total_steps=config["epochs"]) as trial:
        for _ in trial.steps():
            error = 1 / (1 + np.exp(-X[fit] @ w)) - y[fit]
            penalty = config["penalty"] * np.arange(7) ** 2 * w
            w = w - config["rate"] * (X[fit].T @ error / len(fit) + penalty)
            # calls tune.report; gap is checked only when that is due and worth its cost
            trial.report(accuracy=accuracy(w), model=w, snapshot=np.copy)


ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
tuner = tune.Tuner(
    train,
    param_space={
        "rate": tune.loguniform(0.05, 0.3),
        "penalty": tune.loguniform(0.01, 0.15),
        "epochs": tune.lograndint(5, 50),
    },
    tune_config=tune.TuneConfig(
        metric="accuracy",
        mode="max",
        scheduler=acetune.ray.AceScheduler([acetune.Constraint("gap", upper=0.15, check=gap)]),
        num_samples=12,
        reuse_actors=True,
    ),
    run_config=tune.RunConfig(storage_path=str(Path("ray_results").resolve()), verbose=0),
)
grid = tuner.fit()
best = acetune.ray.best_result(grid)  # grid.get_best_result() would not look at the gap
if best is not None:
    print(f"best feasible: accuracy {best.value:.4f}, gap {best.constraints['gap'].value:.4f}")
    print(f"at step {best.step} of {best.config}; weights {np.round(best.load(), 2)}")
