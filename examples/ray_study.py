"""A study on a Ray cluster: the same call as on one machine, with engine="ray".

Ray that is initialised already is used as it is; ray_address="auto" or "host:port" joins a running
cluster; without either a local one is started for the study, as here.
"""

import acetune


def train(trial):
    weight = 0.0
    for _ in trial.steps(30):
        weight += trial.params["rate"] * (1.0 - weight)
        trial.report((1.0 - weight) ** 2, model=weight)


result = acetune.tune(
    train,
    space={"rate": acetune.loguniform(0.01, 1.0)},
    objective="loss",
    mode="min",
    constraints=[acetune.Constraint("weight", upper=0.95, check=lambda weight: weight)],
    policy="ace-beta1",  # checking a number costs nothing: check it at every step
    max_trials=20,
    seed=0,
    engine="ray",
    resources={"cpu": 1},  # for each worker; {"cpu": 4, "gpu": 0.5} puts two on a GPU
    study="ray_study.db",
)
print(result)
