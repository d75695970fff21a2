"""What other processes do in the tests: part of a study."""

from __future__ import annotations

from typing import Any

import optuna
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend

import acetune.optuna
from acetune import ACE, Constraint
from acetune.optuna import AcePruner, AceSampler

LAST, LIMIT = 4, 0.8


def opened(kind: str, path: str) -> BaseStorage:
    """A storage that processes share."""
    if kind == "journal":
        return JournalStorage(JournalFileBackend(path))
    return RDBStorage(f"sqlite:///{path}", engine_kwargs={"connect_args": {"timeout": 60}})


def pruner() -> AcePruner:
    """The same for all."""
    return AcePruner([Constraint("g", upper=LIMIT)], ACE(interval=1))


def truth(params: dict[str, Any], step: int) -> tuple[float, float]:
    """Value and constraint of a checkpoint."""
    return params["x"] + 1 / step, 1 - params["x"] + params["y"] / 4 / step


def held(study: optuna.Study) -> list[Any]:
    """All that a pruner reads of the study."""
    return [
        (trial.number, trial.state, trial.intermediate_values, trial.system_attrs)
        for trial in study.get_trials()
    ]


def work(kind: str, path: str, seed: int, trials: int) -> list[str]:
    """Run so many trials; returns what was wrong."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = opened(kind, path)
    sampler = optuna.samplers.RandomSampler(seed=seed)
    study = optuna.load_study(study_name="s", storage=storage, sampler=sampler, pruner=pruner())
    wrong = []

    def objective(trial: optuna.Trial) -> float:
        params = {name: trial.suggest_float(name, 0, 1) for name in "xy"}
        ace = acetune.optuna.trial(trial, total_steps=LAST)
        for step in ace.steps():
            value, g = truth(params, step)
            ace.report(value, constraints={"g": lambda g=g: g})
            frozen = storage.get_trial(trial._trial_id)
            before = held(study)
            said = study.pruner.prune(study, frozen)
            anew = pruner().prune(study, frozen)
            # the others go on meanwhile: only where they changed nothing must both agree
            if anew != said and held(study) == before:
                wrong.append(f"trial {trial.number}, step {step}: {said}, anew {anew}")
        return ace.finish()

    study.optimize(objective, n_trials=trials)
    return wrong


def sample(kind: str, path: str, seed: int, trials: int) -> None:
    """Run so many trials that a sampler of ours suggests."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.load_study(
        study_name="s", storage=opened(kind, path), sampler=AceSampler(seed=seed), pruner=pruner()
    )

    def objective(trial: optuna.Trial) -> float:
        params = {name: trial.suggest_float(name, 0, 1) for name in "xy"}
        ace = acetune.optuna.trial(trial, total_steps=LAST)
        for step in ace.steps():
            value, g = truth(params, step)
            ace.report(value, constraints={"g": lambda g=g: g})
        return ace.finish()

    study.optimize(objective, n_trials=trials)
