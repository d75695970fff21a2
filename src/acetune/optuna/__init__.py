"""acetune under Optuna: a pruner that knows constraints, the trial that reports to it, a sampler.

::

    def objective(trial):
        ace = acetune.optuna.trial(trial, total_steps=100)
        for step in ace.steps():
            ...
            ace.report(auc, model=model)
        return ace.finish()

    study = optuna.create_study(
        direction="maximize",
        sampler=acetune.optuna.AceSampler(),
        pruner=acetune.optuna.AcePruner(constraints),
    )
    study.optimize(objective, n_trials=50)
    acetune.optuna.best(study)

What is written to the study's storage is in ``_attributes``, how it is read in
``_study_history``, for the sampler in ``_study_curves``, and the outcome that its trial gets in
``_optuna_link``. Every private part of Optuna that is used is in ``_study_access``.
"""

from __future__ import annotations

from acetune.optuna._best import FoundCheckpoint, best, nearest_miss
from acetune.optuna._optuna_trial import OptunaTrial, trial
from acetune.optuna._pruner import AcePruner, UncheckedTrialsWarning
from acetune.optuna._sampler import AceSampler

__all__ = [
    "AcePruner",
    "AceSampler",
    "FoundCheckpoint",
    "OptunaTrial",
    "UncheckedTrialsWarning",
    "best",
    "nearest_miss",
    "trial",
]
