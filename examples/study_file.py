"""For the command line: `acetune run study_file.py`, then `acetune show study_file.db`."""

import acetune


def train(trial):
    width, rate = trial.params["width"], trial.params["rate"]
    error = 1.0
    for _ in trial.steps(20):
        error *= 1 - rate / (1 + rate)
        trial.report(error + 1 / width, model={"width": width})


STUDY = {
    "space": {"width": acetune.lograndint(8, 512), "rate": acetune.loguniform(0.01, 1)},
    "objective": "error",
    "mode": "min",
    "constraints": [
        acetune.Constraint("kilobytes", upper=64, check=lambda model: model["width"] * 0.4)
    ],
    "max_trials": 30,
    "seed": 0,
}
