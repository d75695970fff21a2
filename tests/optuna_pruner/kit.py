"""What the tests of the adapter share."""

from __future__ import annotations

import math
import random
from typing import Any

import optuna
from optuna.trial import TrialState

import acetune.optuna
from acetune import ACE, Constraint, Policy
from acetune.optuna import AcePruner, OptunaTrial

LIMIT = Constraint("g", upper=0.5)


def made(
    policy: Policy | None = None,
    constraints: tuple[Constraint, ...] = (LIMIT,),
    for_dashboard: bool = False,  # each constraint once
    **options: Any,
) -> optuna.Study:
    """A study that minimises, with a limit, unless it is told otherwise."""
    options.setdefault("sampler", optuna.samplers.RandomSampler(seed=1))
    pruner = AcePruner(constraints, policy, for_dashboard=for_dashboard)
    return optuna.create_study(pruner=pruner, **options)


def loaded(study: optuna.Study, pruner: optuna.pruners.BasePruner | None = None) -> optuna.Study:
    """The same study, as another process would load it."""
    if pruner is None:
        assert isinstance(study.pruner, AcePruner)
        pruner = AcePruner(study.pruner.constraints, study.pruner.policy, for_dashboard=False)
    return optuna.load_study(study_name=study.study_name, storage=study._storage, pruner=pruner)


def begun(study: optuna.Study, total_steps: int | None = 5, **options: Any) -> OptunaTrial:
    """A trial that has begun."""
    return acetune.optuna.trial(study.ask(), total_steps, **options)


def told(study: optuna.Study, ace: OptunaTrial) -> optuna.trial.FrozenTrial:
    """End a trial as ``study.optimize`` would, and return it."""
    try:
        value = ace.finish()
    except optuna.TrialPruned:
        return study.tell(ace.number, state=TrialState.PRUNED)
    if math.isnan(value):
        return study.tell(ace.number, state=TrialState.FAIL)
    return study.tell(ace.number, value)


def play(study: optuna.Study, values: list[float], limits: list[float] | None = None) -> Any:
    """A whole trial: values and what a check would give, step by step. Returns it as told."""
    ace = begun(study, len(values))
    for step in ace.steps():
        g = 0.0 if limits is None else limits[step - 1]
        ace.report(values[step - 1], constraints={"g": lambda g=g: g})
    return told(study, ace)


def objective(trial: optuna.Trial) -> float:
    """Small x is better and breaks the limit; it takes some steps to see that."""
    x = trial.suggest_float("x", 0.0, 1.0)
    ace = acetune.optuna.trial(trial, total_steps=8)
    noise = random.Random(trial.number)
    for step in ace.steps():
        value = x + 1 / step + noise.gauss(0, 0.01)
        ace.report(value, constraints={"g": lambda step=step: 1 - x - 0.1 / step})
    return ace.finish()


NEVER = ACE(truncation=0.0, interval=1, gate=False)  # checks every step and stops nobody
