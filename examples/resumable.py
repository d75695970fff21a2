"""Trials that survive a killed worker or driver: they go on from their own checkpoint."""

import json

import acetune


def train(trial):
    state = {"weight": 0.0}
    if trial.checkpoint is not None:  # an earlier attempt got this far
        state = json.loads((trial.checkpoint / "state.json").read_text())

    def save(folder):
        (folder / "state.json").write_text(json.dumps(state))

    for step in trial.steps(30):  # goes on after the checkpoint's step
        state["weight"] += trial.params["rate"] * (1.0 - state["weight"])
        every_tenth = save if step % 10 == 0 else None
        trial.report((1.0 - state["weight"]) ** 2, model=dict(state), checkpoint=every_tenth)


result = acetune.tune(
    train,
    space={"rate": acetune.loguniform(0.01, 1.0)},
    objective="loss",
    mode="min",
    constraints=[acetune.Constraint("weight", upper=0.95, check=lambda m: m["weight"])],
    policy="ace-beta1",  # checking a number costs nothing: check it at every step
    max_trials=20,
    retries=2,
    seed=0,
    study="resumable.db",
)
print(result)
