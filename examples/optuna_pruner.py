"""Optuna with a limit: its samplers suggest, acetune checks and stops.

A noisy classifier is trained step by step. Its accuracy is to be high and the share of positive
answers must not exceed 30 %. That check is expensive, so that acetune makes it only when it is
worth its cost.
"""

import math
import random

import optuna

import acetune.optuna
from acetune import ACE, Constraint, Estimate

optuna.logging.set_verbosity(optuna.logging.WARNING)
STEPS = 30


class Model:
    """Stands for a model that learns: slowly or fast, and more or less willing to say yes."""

    def __init__(self, rate: float, threshold: float, seed: int) -> None:
        self.rate, self.threshold, self.step = rate, threshold, 0
        self.noise = random.Random(seed)

    def fit_one_round(self) -> None:
        self.step += 1

    def accuracy(self) -> float:
        learnt = 1 - math.exp(-self.rate * self.step)
        return 0.5 + 0.4 * learnt - 0.3 * (self.threshold - 0.4) ** 2 + self.noise.gauss(0, 0.005)


def positive_share(model: Model) -> Estimate:
    return Estimate(0.8 * (1 - model.threshold), stderr=0.01)


def objective(trial: optuna.Trial) -> float:
    rate = trial.suggest_float("rate", 0.01, 0.3, log=True)
    model = Model(rate, trial.suggest_float("threshold", 0.0, 1.0), seed=trial.number)
    ace = acetune.optuna.trial(trial, total_steps=STEPS)
    for _ in ace.steps():  # ends by itself when the trial is to stop
        model.fit_one_round()
        ace.report(model.accuracy(), model=model)
    return ace.finish()  # the best checkpoint that qualifies, or TrialPruned


limit = Constraint("positive_share", upper=0.3, margin_se=1.0, check=positive_share)
study = optuna.create_study(
    direction="maximize",
    sampler=optuna.samplers.TPESampler(seed=1),
    pruner=acetune.optuna.AcePruner([limit], ACE(), objective="accuracy"),
)
study.optimize(objective, n_trials=60)

best = acetune.optuna.best(study)
print("best feasible:", best)
print("the same for Optuna:", study.best_trial.number, study.best_trial.constraints)
