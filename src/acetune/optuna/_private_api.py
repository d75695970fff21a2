"""Every private part of Optuna that the adapter uses, in one place.

A pruner has to read single trials (``Study`` offers all of them or none), and attributes that
belong to a library rather than to the user are the storage's business. Optuna's own pruners reach
for the same names.
"""

from __future__ import annotations

from typing import Any

import optuna
from optuna.storages import BaseStorage
from optuna.study._constrained_optimization import _CONSTRAINTS_KEY
from optuna.trial import FrozenTrial


class StudyAccess:
    """One study in its storage."""

    __slots__ = ("_storage", "_study_id")

    def __init__(self, study: optuna.Study) -> None:
        self._storage, self._study_id = study._storage, study._study_id

    def trial(self, trial_id: int) -> FrozenTrial:
        """One trial as it is now; KeyError if it is gone."""
        return self._storage.get_trial(trial_id)

    def id_of(self, number: int) -> int | None:
        """The id of the trial with this number, or None while there is none."""
        try:
            return self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number)
        except KeyError:
            return None

    def trials(self) -> list[FrozenTrial]:
        """All trials by number; not to be changed."""
        return self._storage.get_all_trials(self._study_id, deepcopy=False)

    def attribute(self, key: str) -> Any:
        """An attribute of the study, or None."""
        return self._storage.get_study_system_attrs(self._study_id).get(key)

    def set_attribute(self, key: str, value: Any) -> None:
        """Set an attribute of the study."""
        self._storage.set_study_system_attr(self._study_id, key, value)

    def set_trial_attribute(self, trial_id: int, key: str, value: Any) -> None:
        """Set an attribute of a trial."""
        self._storage.set_trial_system_attr(trial_id, key, value)


def place(study: optuna.Study) -> tuple[BaseStorage, int]:
    """What tells a study from any other, for as long as its storage object lives."""
    return study._storage, study._study_id


def trial_id(trial: optuna.Trial | FrozenTrial) -> int:
    """The id of a trial in its storage."""
    return trial._trial_id


def stored(trial: optuna.Trial) -> FrozenTrial:
    """A running trial as its storage holds it."""
    return trial.storage.get_trial(trial._trial_id)


def is_reported(trial: optuna.Trial, step: int) -> bool:
    """Whether this process has reported the step: Optuna keeps the first value, and says little."""
    return step in trial._cached_frozen_trial.intermediate_values


def retried(trial: FrozenTrial) -> list[int]:
    """The trials that this one is another try at, by Optuna's retry callback; oldest first."""
    history: list[int] = trial.system_attrs.get("retry_history", [])
    return history


def set_constraint(trial: optuna.Trial, name: str, value: float) -> None:
    """``trial.set_constraint``, also where a retried trial has inherited one.

    Optuna keeps the first value, which then is that of the trial that failed.
    """
    inherited = trial.constraints
    if name not in inherited:
        trial.set_constraint(name, value)
    elif inherited[name] != value:
        trial.storage.set_trial_system_attr(trial._trial_id, f"{_CONSTRAINTS_KEY}:{name}", value)


def set_constraint_list(trial: optuna.Trial, values: list[float]) -> None:
    """Constraints as Optuna 4 kept them, for what does not know those of Optuna 5 yet."""
    trial.storage.set_trial_system_attr(trial._trial_id, _CONSTRAINTS_KEY, values)
